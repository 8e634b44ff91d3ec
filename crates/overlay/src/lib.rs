//! The overlay of flash over the slow directory: one owner of the map, sans-IO.
//!
//! ```text
//!  requests of threads --> requests/ ----+--> extent maps, flash space --> journal (bytes to append)
//!  hints of threads ----> critical data -+--> copies: fetch, write back --> runtime copies bytes
//!  completions of copies and syncs ------+--> barrier --> runtime syncs, then places are free, bits clear
//! ```
//!
//! # The surface
//!
//! | who | calls |
//! |---|---|
//! | starts an agent | [`recovery::Recovered::replay`], [`Overlay::adopt`] or [`Overlay::new`], [`Overlay::checkpoint`] |
//! | hears of threads | [`Overlay::on_join`], [`Overlay::on_open`], [`Overlay::on_request`], [`Overlay::on_unlinked`], [`Overlay::on_hang_up`] |
//! | carries out | [`Overlay::take_journal`], [`Overlay::on_appended`], [`Overlay::take_outputs`] |
//! | has carried out | [`Overlay::on_copy_done`], [`Overlay::on_extended`], [`Overlay::on_barrier_synced`], [`Overlay::on_journal_durable`] |
//! | keeps time | [`Overlay::set_time`], [`Overlay::poll`] while [`Overlay::waits_for_slots`] or [`Overlay::waits_for_idleness`] |
//! | commands | [`Overlay::drain`], [`Overlay::place`], [`Overlay::follow`], [`Overlay::keep_off`], [`Overlay::discard`], [`Overlay::set_capacity`] |
//! | hears of other nodes | [`Overlay::join`], [`Overlay::on_view`], [`Overlay::on_peer`], [`Overlay::say_again`], [`Overlay::on_log_read`], [`Overlay::on_salvaged`] |
//! | hears of names there | [`Overlay::is_at`], [`Overlay::unlinked_elsewhere`] |
//! | looks | [`Overlay::counters`], [`Overlay::file_list`], [`Overlay::dirty_files`], [`Overlay::placements`] |
//!
//! It is a state machine. Each `on_...` verb takes what happened and leaves [`Output`]s, which the runtime carries
//! out in order after it has stored [`Overlay::take_journal`]: a reply is never sent before the records it rests on
//! are appended. What the shared file may show only then (a lease is gone, a slab is used) waits for
//! [`Overlay::on_appended`]. What has to wait (for another thread's slot, a lease, a copy) stays in a list that
//! [`Overlay::poll`] tries again; slots give no notice, so the runtime polls while [`Overlay::waits_for_slots`] says
//! so. Spurious polls do nothing.
//!
//! # The files
//!
//! | files | |
//! |---|---|
//! | `overlay.rs`, `parts/` | the struct, and its parts: each owns its fields and names no other part's |
//! | `file.rs`, `file/` | one known file, of parts as well |
//! | `requests/` | a file for each family of requests: how they begin, how they go on |
//! | `journal/`, `recovery.rs`, `adoption.rs`, `checkpoint.rs` | bytes of the journal, what of them counts at a start, a journal that begins anew |
//! | `member_log.rs` | what a journal says to other members |
//! | `flash_space.rs`, `extent_map/`, `recency.rs` | pages, extents, when they were last used |
//! | `sharing.rs`, `sharing/`, `parts/sharing.rs`, `parts/sharing/` | files that other nodes use too |
//! | `elsewhere.rs` | what other nodes did to names of files |
//! | all others | a verb of several parts each: barrier, copies, fetches, eviction, regions, deaths, failed syncs |
//!
//! Imports go one way: values, parts, `overlay.rs`, verbs, this file.
//!
//! # The invariant
//!
//! While a byte is mapped to flash, the slow byte under it is touched only by the holder of a direct-write lease or
//! the one write-back under way, never both, and nobody reads it; but for clean bytes that the disks answer sooner
//! (`requests/reads.rs`), while nobody writes them.
#![forbid(unsafe_code)]

mod adoption;
mod barrier;
mod checkpoint;
mod copies;
mod deaths;
mod dirty;
mod drain_round;
mod elsewhere;
pub mod errno;
mod eviction;
mod extent_map;
mod fetches;
mod file;
mod file_table;
mod files;
mod fingerprint;
mod flash_space;
pub mod journal;
mod left_alone;
mod limits;
mod listings;
mod mapping;
pub mod member_log;
mod online;
mod output;
mod overlay;
mod page_set;
mod parts;
mod process;
mod pushes;
mod recency;
pub mod recovery;
mod regions;
mod requests;
mod room;
mod settings;
mod sharing;
mod slabs;
mod sooner;
mod strangers;
mod untrusted;
mod writer;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod many_threads;

pub use adoption::{open_files, truncated_files};
pub use dirty::DirtyFile;
pub use extent_map::{ExtentMap, Mapped};
pub use fingerprint::Fingerprint;
pub use flash_space::Run;
pub use headstart_protocol::counters::Counters;
pub use output::{Answer, CopyKind, CopyOrder, CopyPiece, Growth, NotSynced, Output};
pub use overlay::Overlay;
pub use parts::sharing::Policy;
pub use process::Process;
pub use regions::Placement;
pub use requests::held_up::WriterAboveDirty;
pub use requests::opening::Opening;
pub use settings::Settings;
