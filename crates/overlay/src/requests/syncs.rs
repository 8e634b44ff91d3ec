//! Threads ask that a file survive power loss.

use headstart_units::request::Range;

use super::begun::Begun;
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::pending::Operation;

impl Overlay {
    pub(super) fn begin_sync(&mut self, file: u32) -> Begun {
        self.barrier.ask(file);
        if self.is_durable() && !self.barrier.is_running() {
            return Begun::Answered(self.synced(file));
        }
        Begun::Waits(Operation::Sync { file, barrier: self.barrier.want_next() })
    }

    pub(super) fn attempt_sync(&mut self, file: u32, barrier: u64) -> Option<Answer> {
        match self.barrier.answer(barrier)? {
            Answer::Done => Some(self.synced(file)),
            error => Some(error),
        }
    }

    /// What an fsync is told after its barrier.
    fn synced(&self, file: u32) -> Answer {
        if self.has_untrusted(file, Range::new(0, u64::MAX)) { Answer::lost_bytes() } else { Answer::Done }
    }
}
