//! The last operations of the devices: addresses against time. Off until asked for, and bounded.

use std::collections::VecDeque;

use headstart_block::devices::Device;
use headstart_block::order::{Action, Order};
use headstart_units::Nanos;
use serde::{Deserialize, Serialize};

/// Most operations that are remembered (40 bytes each).
pub const ACCESSES_MAX: usize = 1 << 20;

/// One operation of a device, when it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Since the start of the server.
    pub at_ns: u64,
    /// Which device.
    pub device: DeviceName,
    /// What.
    pub operation: Operation,
    /// First byte.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

/// Which device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceName {
    /// The slow one.
    Disk,
    /// The fast one.
    Flash,
}

/// What it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Read.
    Read,
    /// Wrote.
    Write,
    /// Made zeros, without being given any.
    Zero,
    /// Flushed.
    Flush,
}

/// What is remembered.
#[derive(Debug, Default)]
pub struct Trace {
    accesses: VecDeque<Access>,
    count_max: usize,
}

impl Trace {
    /// An order was given.
    pub fn add(&mut self, now: Nanos, order: &Order) {
        if self.count_max == 0 {
            return;
        }
        if self.accesses.len() == self.count_max {
            self.accesses.pop_front();
        }
        let device = match order.device {
            Device::Disk => DeviceName::Disk,
            Device::Flash => DeviceName::Flash,
        };
        let operation = match order.action {
            Action::Read => Operation::Read,
            Action::Write(_) => Operation::Write,
            Action::Zero => Operation::Zero,
            Action::Flush => Operation::Flush,
        };
        self.accesses.push_back(Access { at_ns: now.0, device, operation, offset: order.offset, length: order.length });
    }

    /// What was remembered; `count` are from now on.
    pub fn take(&mut self, count: usize) -> Vec<Access> {
        self.count_max = count.min(ACCESSES_MAX);
        std::mem::take(&mut self.accesses).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_remembered_until_asked_for_and_then_only_the_last() {
        let order =
            |offset| Order { id: 1, device: Device::Disk, action: Action::Read, offset, length: 512, session: None };
        let mut trace = Trace::default();
        trace.add(Nanos(1), &order(0));
        assert_eq!(trace.take(2), []);
        (0..5).for_each(|index| trace.add(Nanos(index), &order(512 * index)));
        let offsets: Vec<u64> = trace.take(0).iter().map(|access| access.offset).collect();
        assert_eq!(offsets, [1536, 2048]);
        trace.add(Nanos(9), &order(0));
        assert_eq!(trace.take(0), []);
    }
}
