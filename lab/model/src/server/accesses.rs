//! What a server and its devices do, one by one, for whoever traces addresses. Nothing is noted until
//! somebody asks for it, and what is noted stays until it is taken.

use headstart_units::Nanos;

use crate::request::Operation;

/// Who did something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The server's device was given a command.
    Device,
    /// The flash of its volume was.
    VolumeFlash,
    /// The server itself has answered a request, so long after that had arrived.
    Server {
        /// From the arrival, before the processor, to the answer, before the network card.
        latency: Nanos,
    },
}

/// Something done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When.
    pub at: Nanos,
    /// By whom.
    pub actor: Actor,
    /// What.
    pub operation: Operation,
    /// First byte, on the device.
    pub address: u64,
    /// How many.
    pub length: u64,
}
