//! Threads ask for flash to write to.

use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

use super::begun::Begun;
use crate::limits::REQUEST_BYTES_MAX;
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::pending::Operation;

impl Overlay {
    pub(super) fn begin_slab(&mut self, shared: Shared<'_>, slot: u32, file: u32, range: Range) -> Begun {
        self.expect_write(file, range.end());
        if !self.sharing.may_absorb(file) || self.threads.await_others() {
            let until_ns = self.measured_ns + self.pacing.space_wait_ns();
            return Begun::Waits(Operation::ToOwn { file, range, until_ns });
        }
        // Who came first is served first.
        let answer = if self.waits_for_space() { Answer::NoSpace } else { self.slab(shared, slot, file, range) };
        match answer {
            Answer::NoSpace => self.pacing.reserve_mut().on_no_space(range.length, self.measured_ns),
            Answer::Bypassed => self.outbox.counters.refused_bypassed_total += 1,
            _ => {}
        }
        let fits = range.length <= REQUEST_BYTES_MAX.min(self.space.capacity_bytes());
        if answer != Answer::NoSpace || !fits || !self.room_is_coming(file, range) {
            self.outbox.counters.no_space_total += u64::from(answer == Answer::NoSpace);
            return Begun::Answered(answer);
        }
        Begun::Waits(Operation::Slab { file, range, until_ns: self.measured_ns + self.pacing.space_wait_ns() })
    }

    pub(super) fn attempt_slab(
        &mut self,
        shared: Shared<'_>,
        slot: u32,
        file: u32,
        range: Range,
        until_ns: u64,
    ) -> Option<Answer> {
        let answer = self.slab(shared, slot, file, range);
        if answer == Answer::NoSpace {
            if self.measured_ns < until_ns && self.room_is_coming(file, range) {
                return None;
            }
            self.outbox.counters.no_space_total += 1;
        }
        Some(answer)
    }

    /// Once the file is alone, space is asked for, and not waited for; where it cannot come to be, its bytes go to the
    /// disk.
    pub(super) fn attempt_to_own(
        &mut self,
        shared: Shared<'_>,
        slot: u32,
        file: u32,
        range: Range,
        until_ns: u64,
    ) -> Option<Answer> {
        if self.threads.await_others() && self.measured_ns < until_ns {
            return None;
        }
        if self.sharing.is_alone(file) {
            self.end_want(file);
            return Some(self.slab(shared, slot, file, range));
        }
        if self.may_own(file, until_ns) {
            return None;
        }
        self.refuse_for_now(shared, file);
        self.outbox.counters.refused_bypassed_total += 1;
        Some(Answer::Bypassed)
    }

    /// Whether a write waits for space.
    pub fn waits_for_space(&self) -> bool {
        self.pending.wait_for_space()
    }

    /// Whether places will be free when what is under way is done.
    pub(crate) fn space_is_coming(&self) -> bool {
        self.space.removed_bytes() > 0 || self.copies.any_write_back()
    }
}
