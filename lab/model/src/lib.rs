//! What a file server costs: sans-IO models of its network card, elevator, cache and device.
//!
//! Every model is a state machine. Time comes in as [`Nanos`](headstart_units::Nanos), completion times go out as
//! data; there is no clock, thread or random source, and the same inputs give the same outputs. A caller may be late:
//! events inside a model happen at their modelled time, whenever the caller gets to ask for them.
//!
//! ```text
//! FileRequest -> cluster -> server: NIC in -> CPU -> caches -> elevator -> device -> NIC out -> Completion
//! ```
//!
//! The models price time. They store no bytes, and they know nothing of files beyond [`cluster::Placement`].
#![forbid(unsafe_code)]

pub mod cluster;
pub mod device;
pub mod elevator;
pub mod extents;
pub mod file_cache;
pub mod nic;
pub mod profile;
pub mod queue;
pub mod request;
pub mod server;
pub mod server_cache;
pub mod slab;
