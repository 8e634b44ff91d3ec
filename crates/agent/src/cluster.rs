//! The agent as one of several, on nodes that share the fast and the slow directory.
//!
//! | module | what it owns |
//! |---|---|
//! | `member`, `roster` | who is there: what the register of [`headstart_membership`] holds |
//! | `register` | where that lies, by the site file |
//! | `terms` | what all nodes must agree to |
//! | `seats`, `views` | the protocol's view beside the roster |
//! | `entry` | how an agent comes to its place when it starts, and gives it up when it ends |
//! | `joining` | how it joins others: knock, probe, view |
//! | `watch` | whom a node that joins may ask, and whether nobody is left |
//! | `door` | what a member of several has: connections, locks, hands for probes |
//! | `links`, `letter` | connections by places, and what goes over them |
//! | `gone` | what a member that is gone left in the fast directory |
//! | `report` | the same for people |
//!
//! An agent alone has a roster of one, and nothing else: no listener, no lock, no deadline. What an agent does with all
//! of it while it serves is in `event_loop/cluster.rs`.

pub(crate) mod door;
pub(crate) mod entry;
pub mod gone;
pub(crate) mod joining;
pub mod letter;
pub(crate) mod links;
pub(crate) mod member;
pub(crate) mod register;
pub mod report;
pub mod roster;
pub(crate) mod seats;
pub(crate) mod terms;
pub(crate) mod views;
mod watch;

pub use headstart_membership::holder;
