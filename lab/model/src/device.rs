//! A storage device: commands in, finishing times out.
//!
//! A device takes at most [`Device::queue_depth`] commands at a time; the elevator holds the rest. It is a
//! state machine of the usual verbs and must be driven in time order: `on_command` never before a timer that
//! has been processed.

use headstart_units::Nanos;
use serde::Serialize;

use crate::request::Operation;

pub mod config;
pub mod hdd;
pub mod null;
pub mod ssd;

/// One command to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Chosen by the caller; comes back in [`Finished`].
    pub tag: u32,
    /// What is asked.
    pub operation: Operation,
    /// First byte.
    pub address: u64,
    /// Length in bytes; zero for a flush.
    pub length: u64,
}

impl Command {
    /// The byte after the last.
    pub fn end(&self) -> u64 {
        self.address + self.length
    }
}

/// A command that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The command's tag.
    pub tag: u32,
    /// When it finished.
    pub at: Nanos,
}

/// What a device has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceStats {
    /// Accesses to the medium or, for devices without mechanics, commands.
    pub commands: u64,
    /// Sum over accesses of the distance in bytes from the end of the one before.
    pub distance_bytes: u64,
    /// Time with at least one command (or internal write) in service.
    pub busy_ns: u64,
}

/// A storage device as a state machine.
pub trait Device: Send {
    /// The most commands the device takes at once.
    fn queue_depth(&self) -> usize;

    /// Takes a command at `now`. Call `next_timer` again afterwards.
    fn on_command(&mut self, now: Nanos, command: Command);

    /// When `on_timer` has something to do; `None` while nothing is under way.
    fn next_timer(&self) -> Option<Nanos>;

    /// Does what is due at `now`, which is `next_timer`'s answer (a time before it does nothing), and appends
    /// the commands that finished then.
    fn on_timer(&mut self, now: Nanos, finished: &mut Vec<Finished>);

    /// True if an acknowledged write may not be on the medium until a flush command has finished.
    fn has_volatile_cache(&self) -> bool {
        false
    }

    /// Size of the medium; `None` if it has no end. Addresses beyond it wrap.
    fn capacity_bytes(&self) -> Option<u64>;

    /// What has been done up to `now`.
    fn stats(&self, now: Nanos) -> DeviceStats;
}
