//! Requests to file servers and their ends.

use headstart_units::Nanos;
use headstart_units::request::Direction;

/// What a request asks of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Bytes from the device to the client.
    Read,
    /// Bytes from the client to the device.
    Write,
    /// Everything acknowledged before is on the medium when this completes.
    Flush,
}

impl From<Direction> for Operation {
    fn from(direction: Direction) -> Operation {
        match direction {
            Direction::Read => Operation::Read,
            Direction::Write => Operation::Write,
        }
    }
}

/// Whose a request is. It decides which queue of an elevator a request belongs to and which stream of reads
/// it continues, and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The parallel program.
    pub job: u32,
    /// Its rank.
    pub rank: u32,
    /// The file, by a number of the job's.
    pub file: u32,
}

/// One request to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Chosen by the caller; comes back in the completion.
    pub id: u64,
    /// What is asked.
    pub operation: Operation,
    /// Byte address on the server's device.
    pub address: u64,
    /// Length in bytes; zero for a flush.
    pub length: u64,
    /// Whose it is.
    pub origin: Origin,
}

/// A finished request: its reply has left the server's NIC and reached the client at `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's id.
    pub id: u64,
    /// When it finished.
    pub at: Nanos,
}
