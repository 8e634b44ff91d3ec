//! Where a drive's arm was last, and how it comes from there to where it is needed.

use headstart_units::Nanos;

use super::geometry::{Geometry, Location, rounded};

/// Track of the last byte moved, the byte after it, when the arm was done with it, and whether it wrote.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arm {
    location: Location,
    address: u64,
    at: Nanos,
    wrote: bool,
}

/// Where the head is at some time: that of the arm, or farther on where it reads ahead; and the spindle's turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) location: Location,
    pub(super) address: u64,
    pub(super) now: Nanos,
    pub(super) turn: f64,
}

/// Where the head is to go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    pub(super) location: Location,
    pub(super) address: u64,
    pub(super) write: bool,
}

impl Arm {
    /// At the start of a drive that has moved nothing.
    pub(super) fn new(geometry: &Geometry) -> Arm {
        Arm { location: geometry.locate(0), address: 0, at: Nanos::MAX, wrote: false }
    }

    /// It is done at `at`, behind `address` on the track of `location`.
    pub(super) fn move_to(&mut self, goal: Goal, at: Nanos) {
        *self = Arm { location: goal.location, address: goal.address, at, wrote: goal.write };
    }

    /// What a command that is streamed goes on from, if the arm is done just now: the address, and whether it writes.
    pub(super) fn goes_on(&self, now: Nanos) -> Option<(u64, bool)> {
        (self.at == now).then_some((self.address, self.wrote))
    }

    /// The head at `now`; `frontier` is what it reads ahead.
    pub(super) fn head(&self, geometry: &Geometry, frontier: Option<u64>, now: Nanos) -> Head {
        let turn = geometry.turn_at(now);
        match frontier {
            Some(address) if address != self.address => Head { location: geometry.locate(address), address, now, turn },
            _ => Head { location: self.location, address: self.address, now, turn },
        }
    }

    /// Time until arm and spindle are at the goal.
    pub(super) fn reach(&self, geometry: &Geometry, head: &Head, goal: &Goal) -> Nanos {
        let ns = if self.at == head.now && self.address == goal.address && self.wrote == goal.write {
            geometry.switch_ns(&self.location, &goal.location)
        } else {
            geometry.position_ns(&head.location, &goal.location, head.turn, goal.write)
        };
        rounded(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::config::DeviceConfig;
    use crate::device::hdd::HddConfig;
    use crate::profile::Profile;

    #[test]
    fn an_arm_that_goes_on_at_once_waits_for_no_turn_and_any_other_does() {
        let DeviceConfig::Hdd(HddConfig { mechanics, .. }) = Profile::Seagate250.device() else { unreachable!() };
        let geometry = Geometry::new(mechanics, 0);
        let mut arm = Arm::new(&geometry);
        let (address, at) = (1 << 20, Nanos(5_000_000));
        let goal = Goal { location: geometry.locate(address), address, write: false };
        arm.move_to(goal, at);
        let reach = |now, goal: Goal| arm.reach(&geometry, &arm.head(&geometry, None, now), &goal);
        assert_eq!((arm.goes_on(at), arm.goes_on(at + Nanos(1))), (Some((address, false)), None));
        assert!(reach(at, goal) < Nanos(10_000), "the next byte is under the head");
        assert!(reach(at + Nanos(1_000_000), goal) > Nanos(1_000_000), "it has gone by");
        assert!(reach(at, Goal { write: true, ..goal }) > reach(at, goal), "a write settles first");
        let ahead = arm.head(&geometry, Some(4 << 20), at);
        assert_eq!((ahead.address, ahead.location), (4 << 20, geometry.locate(4 << 20)));
    }
}
