//! What all crates count in: bytes and times, ranges of files, requests, stripes, and the map of ranges that
//! both sides keep.
//!
//! | module | what it has |
//! |---|---|
//! | (this one) | [`Bytes`], [`Nanos`], [`Rate`], [`ByteSize`]: quantities; [`Capacity`]; the sizes that several crates must agree on |
//! | [`request`] | [`Range`](request::Range), [`Request`](request::Request), and how a request lies to those before it |
//! | [`stripe`] | which bytes of a file lie on which server |
//! | [`ranges`] | sets of ranges |
//! | [`chunked_map`] | a map from ranges to whatever a [`Chunk`](chunked_map::Chunk) keeps of them, in little memory |
//! | [`chance`] | numbers that a seed determines |
//! | [`atomics`] | the machine's atomics, or the model checker's |
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
