//! Writes: part by part, as far as policies answer differently, in the file's order. A part that cannot
//! be written whole ends the request, which has then written what lies before.

use headstart_policy::client::{Decision, Request};
use headstart_units::request::{Direction, Range};

use super::absorb::{Absorb, End};
use super::direct::Direct;
use super::step::{Answer, Failure, Moved, Step, Thread, Unexpected};
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
    pub(super) fn begin(thread: &impl Thread, file: u32, request: Request) -> (Write, Step) {
        let mut write = Write::new(file, request);
        let step = if request.range.is_empty() { Step::Done } else { write.begin_part(thread) };
        (write, step)
    }

    /// Begins with what was decided of the first part.
    #[inline(never)]
    pub(super) fn decided(
        thread: &impl Thread,
        file: u32,
        request: Request,
        first: (Range, Decision),
    ) -> (Write, Step) {
        let mut write = Write::new(file, request);
        let step = write.begin_decided(thread, first);
        (write, step)
    }

    /// Goes on from a look at bits of which one is set, for a write that is one part, which is not absorbed; why.
    #[cold]
    #[inline(never)]
    pub(super) fn told(
        thread: &impl Thread,
        file: u32,
        request: Request,
        (why, extends): (Served, bool),
    ) -> (Write, Step) {
        let (direct, step) = Direct::told(thread, file, request.range, extends);
        let part_end = request.range.end();
        (Write { part: Part::Direct(direct), part_end, served: why, ..Write::new(file, request) }, step)
    }

    fn new(file: u32, request: Request) -> Write {
        let (part, part_end, served) = (Part::None, request.range.offset, Served::Absorbed);
        Write { file, request, done: 0, absorbed: 0, part_end, part, served, failure: None }
    }

    pub(super) fn result(&self) -> Result<u64, Failure> {
        match self.failure {
            Some(failure) if self.done == 0 => Err(failure),
            _ => Ok(self.done),
        }
    }

    pub(super) fn flash_bytes(&self) -> u64 {
        self.absorbed
    }

    fn rest(&self) -> Range {
        Range::between(self.request.range.offset + self.done, self.request.range.end())
    }

    fn begin_part(&mut self, thread: &impl Thread) -> Step {
        let (part, decision) = thread.decide(&Request { range: self.rest(), ..self.request });
        self.begin_decided(thread, (part.range, decision))
    }

    fn begin_decided(&mut self, thread: &impl Thread, (part, decision): (Range, Decision)) -> Step {
        self.part_end = part.end();
        match why_not_absorbed(thread, decision) {
            Some(why) => self.direct(thread, why),
            None => {
                let (absorb, step) = Absorb::begin(thread, self.file, part);
                self.part = Part::Absorb(absorb);
                self.on_step(thread, step)
            }
        }
    }

    /// The rest of the part goes to the disk; why.
    fn direct(&mut self, thread: &impl Thread, why: Served) -> Step {
        if self.served == Served::Absorbed {
            self.served = why;
        }
        let (direct, step) = Direct::write(thread, self.file, Range::between(self.rest().offset, self.part_end));
        self.part = Part::Direct(direct);
        step
    }

    pub(super) fn look(&mut self, thread: &impl Thread) -> Step {
        let step = match &mut self.part {
            Part::Direct(direct) => direct.look(thread),
            Part::Absorb(absorb) => absorb.look(thread),
            Part::None => unreachable!("nothing is published to look for"),
        };
        self.on_step(thread, step)
    }

    pub(super) fn push(&mut self, thread: &impl Thread) -> Step {
        let step = self.absorb().push(thread);
        self.on_step(thread, step)
    }

    pub(super) fn on_told(&mut self, thread: &impl Thread) -> Step {
        let step = self.absorb().on_told(thread);
        self.on_step(thread, step)
    }

    fn absorb(&mut self) -> &mut Absorb {
        let Part::Absorb(absorb) = &mut self.part else { unreachable!("nothing is being absorbed") };
        absorb
    }

    pub(super) fn on_moved(&mut self, thread: &impl Thread, moved: Moved) -> Step {
        let step = match &mut self.part {
            Part::Direct(direct) => direct.on_moved(thread, moved),
            Part::Absorb(absorb) => absorb.on_moved(thread, moved),
            Part::None => unreachable!("a thread at nothing moves nothing"),
        };
        self.on_step(thread, step)
    }

    pub(super) fn on_answer(&mut self, thread: &impl Thread, answer: Answer) -> Result<Step, Unexpected> {
        let step = match &mut self.part {
            Part::Direct(direct) => direct.on_answer(thread, answer)?,
            Part::Absorb(absorb) => absorb.on_answer(thread, answer)?,
            Part::None => unreachable!("a thread at nothing awaits no answer"),
        };
        Ok(self.on_step(thread, step))
    }

    /// The part's next step, or what follows the part.
    fn on_step(&mut self, thread: &impl Thread, step: Step) -> Step {
        if !matches!(step, Step::Done) {
            return step;
        }
        match self.part {
            Part::Direct(direct) => match direct.result() {
                Ok(bytes) => {
                    self.done += bytes;
                    let is_short = bytes < direct.range().length;
                    if is_short { self.finish(thread) } else { self.go_on(thread) }
                }
                Err(failure) => self.fail(thread, failure),
            },
            Part::Absorb(absorb) => {
                self.done += absorb.done();
                self.absorbed += absorb.done();
                match absorb.end() {
                    End::Absorbed => self.go_on(thread),
                    End::Refused(why) => self.direct(thread, why),
                    End::Failed(failure) => self.fail(thread, failure),
                }
            }
            Part::None => unreachable!("no part has ended"),
        }
    }

    fn go_on(&mut self, thread: &impl Thread) -> Step {
        if self.rest().is_empty() { self.finish(thread) } else { self.begin_part(thread) }
    }

    fn fail(&mut self, thread: &impl Thread, failure: Failure) -> Step {
        self.failure = Some(failure);
        self.finish(thread)
    }

    fn finish(&mut self, thread: &impl Thread) -> Step {
        if self.absorbed > 0 && self.served != Served::Absorbed {
            thread.slot().count(Counter::AbsorbedBytes, self.absorbed);
        }
        count(thread, self.result(), self.absorbed, self.served);
        self.part = Part::None;
        Step::Done
    }
}

/// Why a part is not absorbed, if it is not.
#[inline(always)]
pub(super) fn why_not_absorbed(thread: &impl Thread, decision: Decision) -> Option<Served> {
    match decision {
        Decision::Flash { .. } | Decision::Fetch { .. } if thread.may_commit() => None,
        Decision::Flash { .. } | Decision::Fetch { .. } => Some(Served::WriteInterrupt),
        Decision::Disk(reason) => Some(Served::by_disk(Direction::Write, reason)),
        Decision::Pass => Some(Served::WriteOff),
    }
}

/// Counts a request, of which so many bytes were absorbed. One whose descriptor changed its meaning is made again.
#[inline(always)]
pub(super) fn count(thread: &impl Thread, result: Result<u64, Failure>, absorbed: u64, served: Served) {
    let slot = thread.slot();
    match (result, served) {
        (Err(Failure::Changed), _) => {}
        (Err(Failure::Errno(_)), _) => slot.served(Served::WriteFailed, 0),
        (Ok(written), Served::Absorbed) => slot.served(Served::Absorbed, written),
        (Ok(written), served) => slot.served(served, written - absorbed),
    }
}
