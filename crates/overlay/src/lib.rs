//! The overlay of flash over the slow directory: one owner of the map, sans-IO.
//!
//! ```text
//!  requests of threads --> operations --+--> extent map, flash space --> journal (bytes to append)
//!  hints of threads ---> critical data -+--> copies: fetch, write back --> runtime copies bytes
//!  completions of copies and syncs -----+--> barrier --> runtime syncs, then places are free, bits clear
//! ```
//!
//! It is a state machine. Each `on_...` verb takes what happened and leaves [`Output`]s, which the runtime
//! carries out in order after it has stored [`Overlay::take_journal`]: a reply is never sent before the
//! records it rests on are appended. What the shared file may show only then (a lease is gone, a slab is
//! used) waits for [`Overlay::on_appended`]. What has to wait (for another thread's slot, a lease, a copy)
//! stays in a list that [`Overlay::poll`] tries again; slots give no notice, so the runtime polls while
//! [`Overlay::waits_for_slots`] says so. Spurious polls do nothing.
//!
//! Invariant: while a byte is mapped to flash, the slow byte under it is touched only by the holder of a
//! direct-write lease or the one write-back under way, never both, and nobody reads it; but for clean bytes
//! that the disks answer sooner (`operations/reads.rs`), while nobody writes them.
#![forbid(unsafe_code)]

mod adoption;
mod barrier;
mod copies;
mod deaths;
mod dirty;
mod drain_round;
pub mod errno;
mod eviction;
pub mod extent_map;
mod fetches;
mod file;
mod file_table;
mod files;
mod fingerprint;
pub mod flash_space;
pub mod journal;
mod limits;
mod mapping;
mod online;
mod output;
mod overlay;
mod page_set;
mod parts;
mod process;
pub mod recency;
pub mod recovery;
mod regions;
mod requests;
mod room;
mod settings;
mod slabs;
mod sooner;
mod strangers;
mod untrusted;

#[cfg(test)]
mod crash_tests;

pub use adoption::{open_files, truncated_files};
pub use dirty::DirtyFile;
pub use fingerprint::Fingerprint;
pub use headstart_protocol::counters::Counters;
pub use output::{Answer, CopyKind, CopyOrder, CopyPiece, NotSynced, Output};
pub use overlay::Overlay;
pub use process::Process;
pub use regions::Placement;
pub use requests::held_up::WriterAboveDirty;
pub use requests::opening::Opening;
pub use settings::Settings;
