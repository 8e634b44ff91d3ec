//! The register of one managed directory: what the two implementations give.
//!
//! It holds one small value, opaque to it, under a version that only grows. Reads and swaps are linearizable: each
//! takes effect at one moment between its call and its return, also between nodes.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::limits::VALUE_BYTES_MAX;

/// Which value it is. Versions grow by one in files, and by some in etcd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    /// Of a register that nobody has written to; its value is empty.
    pub const NOTHING: Version = Version(0);
}

/// What a register held at a moment after `began_ns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// CLOCK_MONOTONIC before the first call of the read that found it. Deadlines are counted from here.
    pub began_ns: u64,
    /// Which it is.
    pub version: Version,
    /// What it says.
    pub bytes: Arc<[u8]>,
}

/// How a swap ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The register holds the value that was given, durably, or held it until somebody replaced it.
    Done(Value),
    /// It was not swapped and will not be: another version was there, or came first. This is what is there now.
    Lost(Value),
}

/// See the module. Calls may block for as long as a file system or network does: [`crate::Service`] makes them in a
/// thread of its own.
pub trait Register: Send {
    /// The value.
    ///
    /// # Errors
    /// No value can be had now. No error says anything about the value.
    fn read(&mut self) -> Result<Value>;

    /// Replaces the value if its version is `expected`.
    ///
    /// # Errors
    /// [`Error::Unsure`] if it may have been replaced all the same, or may still be; after all others it was not.
    fn swap(&mut self, expected: Version, bytes: &[u8]) -> Result<Swap>;
}

pub(crate) fn refuse_too_long(bytes: &[u8]) -> Result<()> {
    if bytes.len() > VALUE_BYTES_MAX { Err(Error::TooLong { bytes: bytes.len() }) } else { Ok(()) }
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}
