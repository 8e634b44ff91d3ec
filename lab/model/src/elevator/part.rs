//! What an elevator takes in and gives out.

use headstart_units::Nanos;

use crate::request::{Operation, Origin};

/// A piece of somebody's request, at most [`super::COMMAND_BYTES_MAX`] long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<T> {
    /// Whose.
    pub owner: T,
    /// Read or write.
    pub operation: Operation,
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
    /// Whose request it serves.
    pub origin: Origin,
    /// True if it fills the server's page cache. It stays a command of its own, so that the first window is
    /// there before the next has come.
    pub is_read_ahead: bool,
}

/// One disk command: parts that lie side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<T> {
    /// First byte.
    pub address: u64,
    /// The byte after the last.
    pub end: u64,
    /// Read or write.
    pub operation: Operation,
    /// Owner of the part that came first.
    pub first: T,
    /// Owners of the parts merged into it.
    pub merged: Vec<T>,
    /// Which queue it comes from, for [`super::Elevator::on_finished`].
    pub queue: u32,
    pub(super) arrived: Nanos,
    pub(super) sequence: u64,
}

impl<T> Batch<T> {
    pub(super) fn new(now: Nanos, part: Part<T>, sequence: u64) -> Batch<T> {
        Batch {
            address: part.address,
            end: part.address + part.length,
            operation: part.operation,
            first: part.owner,
            merged: Vec::new(),
            queue: 0,
            arrived: now,
            sequence,
        }
    }
}

/// Index of a direction: reads 0, writes 1.
pub(super) fn direction(operation: Operation) -> usize {
    match operation {
        Operation::Read => 0,
        Operation::Write => 1,
        Operation::Flush => unreachable!("a flush does not pass the elevator"),
    }
}
