//! One emulated file server: NIC, queue, elevator, cache and device.

use headstart_core::units::Nanos;

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
}

/// A finished request: its reply has left the server's NIC and reached the client at `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's id.
    pub id: u64,
    /// When it finished.
    pub at: Nanos,
}
