//! The disk of a server: the elevator, the device behind it, and the commands in the device.

use std::collections::VecDeque;

use headstart_units::Nanos;

use crate::device::{Command, Device, DeviceStats, Finished};
use crate::elevator::{Batch, Elevator, ElevatorConfig, Part};
use crate::file_cache::Fetch;
use crate::request::Operation;

/// Whose a part of a device command is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    Request(u32),
    WriteBack {
        start: u64,
    },
    Fill(Pages),
    /// An order of the volume's.
    Volume(u64),
}

/// Pages that a command fills.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pages {
    pub(super) page: u64,
    pub(super) count: u32,
}

impl From<Pages> for Fetch {
    fn from(pages: Pages) -> Fetch {
        Fetch { page: pages.page, count: pages.count.into() }
    }
}

/// A command in the device.
#[derive(Debug)]
struct Sent {
    first: Owner,
    merged: Vec<Owner>,
    /// The elevator's queue; none of a flush.
    queue: Option<u32>,
}

/// What the device could begin next.
pub(super) enum Next {
    Flush(Owner),
    Batch(Batch<Owner>),
}

/// See the module.
///
/// In the order in which fields are used together, so that an event touches few lines of the processor's cache.
#[repr(C)]
pub(super) struct Disk {
    /// When the device's `on_timer` is due.
    due: Nanos,
    device: Box<dyn Device>,
    elevator: Elevator<Owner>,
    under_way: usize,
    queue_depth: usize,
    commands: Vec<Sent>,
    free_commands: Vec<u32>,
    /// Flushes for the device.
    flushes: VecDeque<Owner>,
    command_bytes_max: u64,
}

impl Disk {
    /// At rest; `queue_depth` is how many commands the host sends at once, if fewer than the device takes.
    pub(super) fn new(device: Box<dyn Device>, queue_depth: Option<usize>, elevator: ElevatorConfig) -> Disk {
        let own_depth = device.queue_depth();
        Disk {
            due: Nanos::MAX,
            device,
            command_bytes_max: elevator.command_bytes_max,
            elevator: Elevator::new(elevator),
            under_way: 0,
            queue_depth: queue_depth.map_or(own_depth, |depth| depth.clamp(1, own_depth)),
            commands: Vec::new(),
            free_commands: Vec::new(),
            flushes: VecDeque::new(),
        }
    }

    /// Size of the device, if it has an end.
    pub(super) fn capacity_bytes(&self) -> Option<u64> {
        self.device.capacity_bytes()
    }

    /// The longest command.
    pub(super) fn command_bytes_max(&self) -> u64 {
        self.command_bytes_max
    }

    /// Whether the device acknowledges writes that are not on the medium.
    pub(super) fn has_volatile_cache(&self) -> bool {
        self.device.has_volatile_cache()
    }

    /// When the device is due; [`Nanos::MAX`] if it is idle.
    pub(super) fn due(&self) -> Nanos {
        self.due
    }

    /// When the elevator's patience ends; [`Nanos::MAX`] if it does not wait.
    pub(super) fn patience_end(&self) -> Nanos {
        self.elevator.next_timer().unwrap_or(Nanos::MAX)
    }

    /// The elevator's patience has ended.
    pub(super) fn on_patience_end(&mut self, at: Nanos) {
        self.elevator.on_timer(at);
    }

    /// Whether the elevator has room for another command.
    pub(super) fn has_room(&self) -> bool {
        self.elevator.has_room()
    }

    /// Whether a command could go to the device at once.
    pub(super) fn is_free(&self) -> bool {
        self.flushes.is_empty() && self.under_way < self.queue_depth
    }

    /// A part waits for the device.
    pub(super) fn on_part(&mut self, now: Nanos, part: Part<Owner>) {
        self.elevator.on_part(now, part);
    }

    /// A part whose command may go to the device at once, past the elevator; what is to go now.
    pub(super) fn pass(&mut self, now: Nanos, part: Part<Owner>) -> Option<Batch<Owner>> {
        self.elevator.pass(now, part)
    }

    /// A flush waits for the device, before whatever is in the elevator.
    pub(super) fn on_flush(&mut self, owner: Owner) {
        self.flushes.push_back(owner);
    }

    /// What goes to the device next, while it takes anything.
    pub(super) fn next(&mut self, now: Nanos) -> Option<Next> {
        if self.under_way >= self.queue_depth {
            return None;
        }
        match self.flushes.pop_front() {
            Some(owner) => Some(Next::Flush(owner)),
            None => self.elevator.next_command(now).map(Next::Batch),
        }
    }

    /// A command that nobody wants any more ends before it began.
    pub(super) fn withdraw(&mut self, now: Nanos, queue: u32) {
        self.elevator.on_finished(now, queue);
    }

    /// A flush goes to the device.
    pub(super) fn send_flush(&mut self, now: Nanos, first: Owner) {
        self.send(now, Operation::Flush, (0, 0), Sent { first, merged: Vec::new(), queue: None });
    }

    /// A command of the elevator's `queue` goes to the device.
    pub(super) fn send_batch(&mut self, now: Nanos, batch: Batch<Owner>) {
        let Batch { address, end, operation, first, merged, queue, .. } = batch;
        self.send(now, operation, (address, end), Sent { first, merged, queue: Some(queue) });
    }

    fn send(&mut self, now: Nanos, operation: Operation, (address, end): (u64, u64), sent: Sent) {
        let tag = match self.free_commands.pop() {
            Some(tag) => {
                self.commands[tag as usize] = sent;
                tag
            }
            None => {
                self.commands.push(sent);
                self.commands.len() as u32 - 1
            }
        };
        self.under_way += 1;
        self.device.on_command(now, Command { tag, operation, address, length: end - address });
        self.due = self.device.next_timer().unwrap_or(Nanos::MAX);
    }

    /// Lets the device do what is due; appends what it has finished.
    pub(super) fn on_timer(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        self.device.on_timer(now, finished);
        self.due = self.device.next_timer().unwrap_or(Nanos::MAX);
    }

    /// A command is finished; whose it was.
    pub(super) fn finish(&mut self, now: Nanos, done: Finished) -> (Owner, Vec<Owner>) {
        self.under_way -= 1;
        self.free_commands.push(done.tag);
        let Sent { first, merged, queue } = &mut self.commands[done.tag as usize];
        let (first, merged, queue) = (*first, std::mem::take(merged), *queue);
        if let Some(queue) = queue {
            self.elevator.on_finished(now, queue);
        }
        (first, merged)
    }

    /// What the device has done up to `now`.
    pub(super) fn stats(&self, now: Nanos) -> DeviceStats {
        self.device.stats(now)
    }
}
