//! A device that finishes every command at once: the baseline, and the smallest example of a [`Device`].

use headstart_units::Nanos;

use super::{Command, Device, DeviceStats, Finished};

/// Commands a null device takes at once.
const QUEUE_DEPTH: usize = 256;

/// The null device.
#[derive(Debug, Default)]
pub struct Null {
    done: Vec<Finished>,
    commands: u64,
    distance_bytes: u64,
    previous_end: u64,
}

impl Device for Null {
    fn queue_depth(&self) -> usize {
        QUEUE_DEPTH
    }

    fn on_command(&mut self, now: Nanos, command: Command) {
        self.commands += 1;
        self.distance_bytes += command.address.abs_diff(self.previous_end);
        self.previous_end = command.end();
        self.done.push(Finished { tag: command.tag, at: now });
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.done.first().map(|finished| finished.at)
    }

    fn on_timer(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        if self.next_timer().is_some_and(|at| at <= now) {
            finished.append(&mut self.done);
        }
    }

    fn capacity_bytes(&self) -> Option<u64> {
        None
    }

    fn stats(&self, _now: Nanos) -> DeviceStats {
        DeviceStats { commands: self.commands, distance_bytes: self.distance_bytes, busy_ns: 0 }
    }
}
