//! The parts that an [`Overlay`](crate::Overlay) is made of. Each owns its fields and names no other part's; what
//! takes several of them is a verb of the overlay.

pub(crate) mod barrier;
pub(crate) mod copies;
pub(crate) mod data_files;
pub(crate) mod disk_writes;
pub(crate) mod drain_round;
pub(crate) mod evicted;
pub(crate) mod fetches;
pub(crate) mod files;
pub(crate) mod granules;
pub(crate) mod leases;
pub(crate) mod listings;
pub(crate) mod looks;
pub(crate) mod mapping;
pub(crate) mod online;
pub(crate) mod outbox;
pub(crate) mod pace;
pub(crate) mod pacing;
pub(crate) mod pending;
pub(crate) mod placing;
pub(crate) mod reserve;
pub(crate) mod rings;
pub(crate) mod sharing;
pub(crate) mod slabs;
pub(crate) mod threads;
pub(crate) mod watch;
