//! The overlay policies: core's agent and library, driven in virtual time.
//!
//! ```text
//! rank --Call (what libheadstart does)--> slot, bits, slabs in Memory (the shared file)
//!   |  Ask, half a round trip                         |
//!   '--> Agent: core's Overlay --Output--> copies, barriers, journal: transfers on the tiers
//! ```
//!
//! One agent serves all nodes, or several their shares of them (`[cluster]`). Then each has a shared file of its own and
//! its part of flash, and what their overlays say to each other goes over the nodes' cards (`members.rs`).
//!
//! What differs from a run on real machines: an agent's file operations that move no data (sizing, punching, removing)
//! take no time; a library learns of new regions without asking; journal records are written to flash when a barrier
//! makes them durable, and cost nothing before; copies go through the cards of the agent's nodes in turn.

mod agent;
mod call;
mod copying;
mod driving;
mod member;
mod members;
mod ranks;
mod site;

pub use agent::Agent;
pub use call::Call;
pub use member::Way;
pub use site::Site;
