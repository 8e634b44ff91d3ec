//! The client side's runtime: one process per user, node and managed directory.
//!
//! ```text
//! ranks --SEQPACKET--> event loop (one thread: owns the overlay) --jobs--> copiers (many threads: pread, pwrite)
//!   \__ shared file __/        |    ^------------- eventfd: completions ---/
//!                              '--jobs--> syncer (one thread: barriers, journal)
//! ```
//!
//! Everything that decides is `headstart_overlay`; this crate carries its outputs out. Data never passes through
//! it, but for the copies it makes itself.
//!
//! What the `headstart` command uses of it:
//!
//! | for | use |
//! |---|---|
//! | being the agent | [`serve`] with [`Options`] |
//! | starting one, and asking it | [`client::Client`]; commands and answers in [`status`], figures in [`metrics`] |
//! | the site file, plans, patterns | [`site::Site`], [`plan`], [`selection`], read with a bound by [`text_file`] |
//! | a directory without its agent | [`inspection::inspect`], [`claim`]; [`verification`] compares flash with disk |
//! | where agents run, and whether they live | [`runtime_directory`], [`process`], [`node`] |
//! | texts that are checked when they are read | [`dirty_list`], [`discarded`], [`origin`], [`claim::Owner`] |
//!
//! Every fallible call returns [`Error`], which says what was tried, on what, and what to do.
//!
//! Within: `runtime` begins and ends an agent; `event_loop` is a struct of parts, of which [`serve`] makes one;
//! `tiers` holds overlay and `store` (journal, data files, slow files) together, for the event loop and for the
//! crash tests alike; `storage` is the seam to the kernel, with a faulty one for tests.

pub mod claim;
pub mod client;
pub mod cluster;
mod copier;
mod counters;
#[cfg(test)]
mod crash_tests;
pub mod dirty_list;
pub mod discarded;
mod epoch;
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
pub mod node_files;
mod options;
pub mod origin;
mod owner;
pub mod plan;
pub mod process;
mod renamed;
mod runtime;
pub mod runtime_directory;
mod salvager;
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
