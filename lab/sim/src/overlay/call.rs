//! What a simulated rank brings to its requests, and the requests themselves: the library's steps are
//! those of [`headstart_protocol::call`], each transfer and message an event of the simulation.

use headstart_policy::client::carl::Regions;
use headstart_policy::client::chain::Chain;
use headstart_policy::client::s4d::S4d;
use headstart_policy::client::{Decision, Request};
use headstart_policy::order::Distance;
use headstart_protocol::call::{self, Answer, Moved, Step};
use headstart_protocol::read_times::{Side, is_measured};
use headstart_protocol::shared::{Shared, Slot};
use headstart_units::Nanos;
use headstart_units::request::{Direction, Range};

/// What a thread has at hand while it decides.
#[derive(Clone, Copy)]
pub struct Thread<'a> {
    /// Its slot's index.
    pub index: u32,
    /// Its slot.
    pub slot: &'a Slot,
    /// The shared file.
    pub shared: Shared<'a>,
    /// The policies of the run.
    pub chain: Chain,
    /// S4D's cost models.
    pub s4d: Option<&'a S4d>,
    /// The regions of the request's file.
    pub regions: &'a Regions,
    /// The time.
    pub now: Nanos,
}

impl call::Thread for Thread<'_> {
    fn slot(&self) -> &Slot {
        self.slot
    }

    fn index(&self) -> u32 {
        self.index
    }

    fn shared(&self) -> Shared<'_> {
        self.shared
    }

    fn decide(&self, request: &Request) -> (Request, Decision) {
        self.chain.first_part(self.s4d, self.regions, request)
    }
}

/// A rank's request, of which it measures the reads as the library does.
#[derive(Clone, Debug)]
pub struct Call {
    file: u32,
    request: Request,
    call: call::Call,
    /// What is under way, and since when.
    step: Step,
    since: Nanos,
    /// Whether the agent was asked.
    has_asked: bool,
}

impl Call {
    /// Begins a request, which is not empty, for a file by its number at the agent.
    pub fn begin(thread: &Thread<'_>, file: u32, request: Request) -> (Call, Step) {
        let (call, step) = match request.direction {
            Direction::Read => call::Call::read(file, request),
            Direction::Write => call::Call::write(thread, file, request),
        };
        let mut begun = Call { file, request, call, step, since: thread.now, has_asked: false };
        let step = begun.take(thread, step);
        (begun, step)
    }

    /// Begins to sync a file: the servers' caches come first, then [`Call::on_moved`].
    pub fn sync(thread: &Thread<'_>, file: u32) -> Call {
        let request = Request { direction: Direction::Write, range: Range::default(), distance: Distance::default() };
        let (call, step) = call::Call::sync(thread, file);
        Call { file, request, call, step, since: thread.now, has_asked: false }
    }

    /// The bytes that the step before asked for are moved, or the caches are flushed.
    pub fn on_moved(&mut self, thread: &Thread<'_>) -> Step {
        let bytes = match self.step {
            Step::Slow(range) | Step::Flash { range, .. } => range.length,
            Step::Sync => 0,
            other => unreachable!("a rank whose next step is {other:?} moves nothing"),
        };
        self.measure(thread, bytes);
        let step = self.call.on_moved(thread, Moved::Bytes(bytes));
        self.take(thread, step)
    }

    /// The agent's answer.
    ///
    /// # Panics
    /// If it is no answer to what was asked, or an error: nothing fails here.
    pub fn on_answer(&mut self, thread: &Thread<'_>, answer: Answer) -> Step {
        self.has_asked = true;
        let step = self.call.on_answer(thread, answer);
        let step = step.unwrap_or_else(|_| panic!("{answer:?} is no answer to {:?}", self.step));
        self.take(thread, step)
    }

    /// Bytes that flash served so far.
    pub fn flash_bytes(&self) -> u64 {
        self.call.flash_bytes()
    }

    /// The agent is told that the ring fills.
    pub fn on_told(&mut self, thread: &Thread<'_>) -> Step {
        let step = self.call.on_told(thread);
        self.take(thread, step)
    }

    /// Looking and pushing take no time.
    fn take(&mut self, thread: &Thread<'_>, step: Step) -> Step {
        self.since = thread.now;
        self.step = step;
        loop {
            self.step = match self.step {
                Step::Push => self.call.push(thread),
                Step::Look => self.call.look(thread),
                _ => break,
            };
        }
        if self.step == Step::Done {
            assert!(self.call.result().is_ok(), "nothing fails here: {:?}", self.call);
        }
        self.step
    }

    fn measure(&self, thread: &Thread<'_>, bytes: u64) {
        let entry = &thread.shared.files[self.file as usize];
        let side = match self.step {
            _ if self.request.direction == Direction::Write => return,
            Step::Flash { .. } => Side::Flash,
            _ => Side::Disk,
        };
        let distance = self.request.distance;
        let measures = if self.has_asked { is_measured(distance) } else { thread.slot.measures(entry, distance) };
        if measures {
            entry.read_times.add(side, bytes, thread.now.since(self.since).0);
        }
    }
}
