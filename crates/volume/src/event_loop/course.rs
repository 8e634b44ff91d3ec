//! Whether the volume serves, drains or stops, and who waits until it is drained.

use super::mailbox::CommandDone;
use crate::status::State;

/// See the module.
#[derive(Default)]
pub(super) struct Course {
    drains: Vec<CommandDone>,
    is_stopping: bool,
}

impl Course {
    /// Somebody waits until everything is written back.
    pub(super) fn drain(&mut self, done: CommandDone) {
        self.drains.push(done);
    }

    /// Whether somebody does.
    pub(super) fn has_drains(&self) -> bool {
        !self.drains.is_empty()
    }

    /// Those who wait are told.
    pub(super) fn take_drains(&mut self) -> Vec<CommandDone> {
        std::mem::take(&mut self.drains)
    }

    /// No request is taken any more.
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Whether none is.
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// As a status has it.
    pub(super) fn state(&self) -> State {
        match (self.is_stopping, self.has_drains()) {
            (true, _) => State::Stopping,
            (false, true) => State::Draining,
            (false, false) => State::Serving,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_drains_until_those_who_wait_are_told_and_stops_for_good() {
        let mut course = Course::default();
        course.drain(Box::new(|_| ()));
        assert_eq!(course.state(), State::Draining);
        assert_eq!((course.take_drains().len(), course.state()), (1, State::Serving));
        course.stop();
        course.drain(Box::new(|_| ()));
        assert_eq!((course.state(), course.is_stopping()), (State::Stopping, true));
    }
}
