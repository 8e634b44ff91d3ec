//! The client side's runtime: one process per user, node and managed directory.
//!
//! ```text
//! ranks --SEQPACKET--> event loop (one thread: owns the overlay) --jobs--> copiers (many threads: pread, pwrite)
//!   \__ shared file __/        |    ^------------- eventfd: completions ---/
//!                              '--jobs--> syncer (one thread: barriers, journal)
//! ```
//!
//! Everything that decides is `headstart_overlay`; this crate carries its outputs out. Data never passes through it,
//! but for the copies it makes itself.

pub mod claim;
pub mod client;
mod copier;
mod counters;
#[cfg(test)]
mod crash_tests;
pub mod dirty_list;
pub mod discarded;
pub mod error;
mod event_loop;
mod held_file;
mod identity;
pub mod inspection;
mod jobs;
mod mailbox;
mod marker;
pub mod metrics;
pub mod node;
mod options;
pub mod origin;
pub mod plan;
pub mod process;
mod renamed;
mod runtime;
pub mod runtime_directory;
pub mod selection;
mod shared_file;
pub mod site;
mod slow_file;
mod socket;
pub mod status;
mod storage;
mod store;
mod survivors;
mod syncer;
pub mod text_file;
mod tiers;
pub mod verification;
mod workers;

pub use error::{Error, Result};
pub use options::Options;
pub use runtime::serve;
