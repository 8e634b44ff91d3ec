//! Writes: part by part, as far as policies answer differently, in the file's order. A part that cannot
//! be written whole ends the request, which has then written what lies before.

use headstart_policy::client::{Decision, Request};
use headstart_units::request::{Direction, Range};

use super::absorb::{Absorb, End};
use super::direct::Direct;
use super::{Answer, Failure, Moved, Step, Thread, Unexpected};
use crate::counters::{Counter, Served};

#[derive(Clone, Copy, Debug)]
enum Part {
    Absorb(Absorb),
    Direct(Direct),
    None,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    file: u32,
    request: Request,
    /// Bytes written, and those of them that flash took.
    done: u64,
    absorbed: u64,
    /// Where the part under way ends.
    part_end: u64,
    part: Part,
    /// Of the parts, why the first that is not absorbed is not.
    served: Served,
    failure: Option<Failure>,
}

impl Write {
    #[inline]
    pub fn begin(thread: &impl Thread, file: u32, request: Request) -> (Write, Step) {
        let mut write = Write {
            file,
            request,
            done: 0,
            absorbed: 0,
            part_end: request.range.offset,
            part: Part::None,
            served: Served::Absorbed,
            failure: None,
        };
        let step = if request.range.is_empty() { Step::Done } else { write.begin_part(thread) };
        (write, step)
    }

    #[inline]
    pub fn result(&self) -> Result<u64, Failure> {
        match self.failure {
            Some(failure) if self.done == 0 => Err(failure),
            _ => Ok(self.done),
        }
    }

    pub fn flash_bytes(&self) -> u64 {
        self.absorbed
    }

    fn rest(&self) -> Range {
        Range::between(self.request.range.offset + self.done, self.request.range.end())
    }

    #[inline]
    fn begin_part(&mut self, thread: &impl Thread) -> Step {
        let (part, decision) = thread.decide(&Request { range: self.rest(), ..self.request });
        self.part_end = part.range.end();
        match decision {
            Decision::Flash { .. } | Decision::Fetch { .. } if thread.may_commit() => self.absorb(thread),
            Decision::Flash { .. } | Decision::Fetch { .. } => self.direct(thread, Served::WriteInterrupt),
            Decision::Disk(reason) => self.direct(thread, Served::by_disk(Direction::Write, reason)),
            Decision::Pass => self.direct(thread, Served::WriteOff),
        }
    }

    #[inline(never)]
    fn absorb(&mut self, thread: &impl Thread) -> Step {
        let (absorb, step) = Absorb::begin(thread, self.file, Range::between(self.rest().offset, self.part_end));
        self.part = Part::Absorb(absorb);
        self.on_step(thread, step)
    }

    /// The rest of the part goes to the disk; why.
    #[inline]
    fn direct(&mut self, thread: &impl Thread, why: Served) -> Step {
        if self.served == Served::Absorbed {
            self.served = why;
        }
        let (direct, step) = Direct::write(thread, self.file, Range::between(self.rest().offset, self.part_end));
        self.part = Part::Direct(direct);
        step
    }

    #[inline]
    pub fn look(&mut self, thread: &impl Thread) -> Step {
        let Part::Direct(direct) = &mut self.part else { unreachable!("nothing is published to look for") };
        let step = direct.look(thread);
        self.on_step(thread, step)
    }

    #[inline]
    pub fn on_moved(&mut self, thread: &impl Thread, moved: Moved) -> Step {
        let step = match &mut self.part {
            Part::Direct(direct) => direct.on_moved(thread, moved),
            Part::Absorb(absorb) => absorb.on_moved(thread, moved),
            Part::None => unreachable!("a thread at nothing moves nothing"),
        };
        self.on_step(thread, step)
    }

    pub fn on_answer(&mut self, thread: &impl Thread, answer: Answer) -> Result<Step, Unexpected> {
        let step = match &mut self.part {
            Part::Direct(direct) => direct.on_answer(thread, answer)?,
            Part::Absorb(absorb) => absorb.on_answer(thread, answer)?,
            Part::None => unreachable!("a thread at nothing awaits no answer"),
        };
        Ok(self.on_step(thread, step))
    }

    /// The part's next step, or what follows the part.
    #[inline]
    fn on_step(&mut self, thread: &impl Thread, step: Step) -> Step {
        if !matches!(step, Step::Done) {
            return step;
        }
        match self.part {
            Part::Direct(direct) => match direct.result() {
                Ok(bytes) => {
                    self.done += bytes;
                    if bytes < direct.range().length || self.rest().is_empty() {
                        return self.finish(thread);
                    }
                    self.go_on(thread)
                }
                Err(failure) => self.fail(thread, failure),
            },
            Part::Absorb(absorb) => self.on_absorbed(thread, absorb.done(), absorb.end()),
            Part::None => unreachable!("no part has ended"),
        }
    }

    fn on_absorbed(&mut self, thread: &impl Thread, bytes: u64, end: End) -> Step {
        self.done += bytes;
        self.absorbed += bytes;
        match end {
            End::Absorbed if self.rest().is_empty() => self.finish(thread),
            End::Absorbed => self.go_on(thread),
            End::Refused(why) => self.direct(thread, why),
            End::Failed(failure) => self.fail(thread, failure),
        }
    }

    /// Apart from the first part, which most requests are.
    #[cold]
    #[inline(never)]
    fn go_on(&mut self, thread: &impl Thread) -> Step {
        self.begin_part(thread)
    }

    #[cold]
    fn fail(&mut self, thread: &impl Thread, failure: Failure) -> Step {
        self.failure = Some(failure);
        self.finish(thread)
    }

    /// Counts the request. One whose descriptor changed its meaning is made again.
    #[inline]
    fn finish(&mut self, thread: &impl Thread) -> Step {
        let slot = thread.slot();
        if self.absorbed > 0 && self.served != Served::Absorbed {
            slot.count(Counter::AbsorbedBytes, self.absorbed);
        }
        match (self.result(), self.served) {
            (Err(Failure::Changed), _) => {}
            (Err(Failure::Errno(_)), _) => slot.served(Served::WriteFailed, 0),
            (Ok(written), Served::Absorbed) => slot.served(Served::Absorbed, written),
            (Ok(written), served) => slot.served(served, written - self.absorbed),
        }
        self.part = Part::None;
        Step::Done
    }
}
