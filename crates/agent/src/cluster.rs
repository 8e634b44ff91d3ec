//! The agent as one of several, on nodes that share the fast and the slow directory.
//!
//! | module | what it owns |
//! |---|---|
//! | `roster` | who is there: what the register of [`headstart_membership`] holds |
//! | `register` | where that lies, by the site file |
//! | `entry` | how an agent comes to its place when it starts, and gives it up when it ends |
//!
//! An agent alone has a roster of one, and nothing else: no listener, no lock, no deadline. A second node is refused.

pub(crate) mod entry;
pub(crate) mod register;
pub mod roster;
