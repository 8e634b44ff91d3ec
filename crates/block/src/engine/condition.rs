//! How the volume is: the time of the last event, whether it serves, drains or stops, and which devices have failed.
//!
//! A device that failed stays failed until the volume is attached again.

use crate::devices::Device;
use headstart_units::Nanos;

/// What the volume is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Course {
    /// Requests come.
    #[default]
    Serving,
    /// Likewise, and all that is dirty is written back.
    Draining,
    /// No request follows; what is dirty stays.
    StoppingDirty,
    /// No request follows, and all that is dirty is written back.
    StoppingClean,
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Condition {
    now: Nanos,
    course: Course,
    disk_failed: bool,
    flash_failed: bool,
}

impl Condition {
    /// The time of the last event.
    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    /// An event.
    pub(super) fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Whether everything is to be written back.
    pub(super) fn is_draining(&self) -> bool {
        matches!(self.course, Course::Draining | Course::StoppingClean)
    }

    /// Whether no request follows.
    pub(super) fn is_stopping(&self) -> bool {
        matches!(self.course, Course::StoppingDirty | Course::StoppingClean)
    }

    /// Everything is to be written back from now on, or not.
    pub(super) fn set_draining(&mut self, drains: bool) {
        self.course = match (self.is_stopping(), drains) {
            (false, false) => Course::Serving,
            (false, true) => Course::Draining,
            (true, false) => Course::StoppingDirty,
            (true, true) => Course::StoppingClean,
        };
    }

    /// No request follows.
    pub(super) fn stop(&mut self, keeps_dirty: bool) {
        self.course = if keeps_dirty { Course::StoppingDirty } else { Course::StoppingClean };
    }

    /// A device has failed.
    pub(super) fn fail(&mut self, device: Device) {
        match device {
            Device::Disk => self.disk_failed = true,
            Device::Flash => self.flash_failed = true,
        }
    }

    /// Whether the disk has.
    pub(super) fn disk_failed(&self) -> bool {
        self.disk_failed
    }

    /// Whether flash has.
    pub(super) fn flash_failed(&self) -> bool {
        self.flash_failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stops_stays_stopping_whether_he_drains_or_not() {
        let mut condition = Condition::default();
        condition.set_draining(true);
        assert_eq!((condition.is_draining(), condition.is_stopping()), (true, false));
        condition.stop(true);
        assert_eq!((condition.is_draining(), condition.is_stopping()), (false, true));
        condition.set_draining(true);
        assert_eq!((condition.is_draining(), condition.is_stopping()), (true, true));
    }

    #[test]
    fn a_device_that_failed_stays_failed_and_the_other_does_not() {
        let mut condition = Condition::default();
        condition.fail(Device::Flash);
        condition.set_draining(true);
        assert_eq!((condition.disk_failed(), condition.flash_failed()), (false, true));
    }
}
