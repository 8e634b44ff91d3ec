//! What all crates count in.
//!
//! | name | what |
//! |---|---|
//! | [`Nanos`], [`ByteSize`], [`KIB`] .. [`GIB`] | times and sizes, and sizes as users write them |
//! | [`Capacity`] | flash: a size, or a share of the files |
//! | [`request::Range`], [`request::Access`] | bytes of a file; a request of a program that ran |
//! | [`stripe::spread`] | how a request falls on striped servers (S4D, eq. 6) |
//! | [`ranges::Ranges`] | values of disjoint ranges |
//! | [`chunked_map::ChunkedMap`] | the same in little memory, of whatever a [`Chunk`](chunked_map::Chunk) keeps |
//! | [`chance::Random`] | numbers that a seed determines |
//! | [`atomics`] | the machine's atomics, or the model checker's |
//! | [`PAGE_BYTES`] .. [`SECTOR_BYTES`] | the sizes that several crates must agree on |
//!
//! Nothing here does I/O, and nothing decides.
#![forbid(unsafe_code)]

pub mod atomics;
mod capacity;
pub mod chance;
pub mod chunked_map;
mod quantities;
pub mod ranges;
pub mod request;
pub mod stripe;

pub use capacity::Capacity;
pub use quantities::*;

/// Unit of space on the client's flash: places and slow offsets are equal modulo it.
pub const PAGE_BYTES: u64 = 4096;
/// Bytes of a file that share one bit of the shared file.
pub const GRANULE_BYTES: u64 = 1 << 20;
/// Unit of everything on a server's flash, and of its checksums.
pub const BLOCK_BYTES: u64 = 4096;
/// A server's requests, extents and torn writes end at multiples of it.
pub const SECTOR_BYTES: u64 = 512;
