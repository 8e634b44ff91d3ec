//! The parts that an [`Overlay`](crate::Overlay) is made of. Each owns its fields and names no other part's; what takes several of
//! them is a verb of the overlay.

pub(crate) mod barrier;
pub(crate) mod copies;
pub(crate) mod disk_writes;
pub(crate) mod leases;
pub(crate) mod outbox;
pub(crate) mod pending;
pub(crate) mod slabs;
pub(crate) mod threads;
