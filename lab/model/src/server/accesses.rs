//! What a server and its devices do, one by one, for whoever traces addresses. Nothing is noted until
//! somebody asks for it, and what is noted stays until it is taken.

use headstart_units::Nanos;

use super::{Operation, Server};

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

impl Server {
    /// From now on accesses are noted.
    pub fn note_accesses(&mut self) {
        self.accesses.get_or_insert_default();
    }

    /// Moves what was noted since the last time to the end of `accesses`, in order of time.
    pub fn take_accesses(&mut self, accesses: &mut Vec<Access>) {
        if let Some(noted) = &mut self.accesses {
            accesses.append(noted);
        }
    }

    pub(super) fn note(&mut self, at: Nanos, actor: Actor, operation: Operation, address: u64, length: u64) {
        if let Some(noted) = &mut self.accesses {
            noted.push(Access { at, actor, operation, address, length });
        }
    }
}
