//! A rank: a process that goes through its program's steps, one at a time.

use headstart_policy::order::{Course, Distance};
use headstart_units::Nanos;
use headstart_units::request::{Direction, Range};
use headstart_workload::Step;

use crate::check::{RequestId, Spot};
use crate::list::List;
use crate::overlay::Call;

/// What a rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing: it goes on at the next event.
    Ready,
    /// Software on its node works on its request, which is not sent yet.
    HeldUp,
    /// Its request.
    Requesting,
    /// The servers' flush.
    Flushing,
    /// The agent: for an open.
    Opening,
    /// The same, as its request needs it.
    OpeningFirst,
    /// The agent: for a sync or a close.
    Settling,
    /// The other ranks.
    Barrier,
    /// Nobody: it is through.
    Ended,
}

/// The request of a rank.
#[derive(Clone, Copy, Debug)]
pub struct Current {
    /// Its number.
    pub id: RequestId,
    /// The file, over all jobs.
    pub file: u32,
    /// Which way.
    pub direction: Direction,
    /// The bytes; of a list, those of the range under way.
    pub range: Range,
    /// When it began.
    pub begun: Nanos,
    /// Bytes done of `range`, where parts go one after the other.
    pub done: u64,
    /// Bytes that flash served, of a list those of earlier ranges too.
    pub flash_bytes: u64,
}

/// Where a rank finds its agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    /// The agent.
    pub agent: u32,
    /// The rank's slot in its shared file.
    pub slot: u32,
}

/// See the module.
pub struct Rank<'a> {
    /// Its job.
    pub job: u32,
    /// Its number in the job.
    pub number: u32,
    /// Where it runs.
    pub node: u32,
    /// Its agent, if there are any.
    pub seat: Seat,
    /// What it does.
    pub steps: Option<Box<dyn Iterator<Item = Step> + Send + 'a>>,
    /// What it waits for.
    pub state: State,
    /// Its phase.
    pub phase: u32,
    /// Its request, while it waits for one, or for a sync or close of this file.
    pub current: Current,
    /// The list of a call for many ranges.
    pub list: Option<Box<List>>,
    /// The library's part of the request.
    pub call: Option<Box<Call>>,
    /// The transfer under way: bytes of the file and where they lie; for the checker.
    pub moving: (Range, Option<Spot>),
    /// Files it has open at the agent, and whether for writing.
    pub open: Vec<(u32, bool)>,
    /// Flash holds bytes of the file it syncs, which are synced after those of the disks.
    pub promised: bool,
    /// Where it is in each file, for S4D.
    courses: Vec<(u32, Course)>,
}

impl<'a> Rank<'a> {
    /// A rank that has not begun.
    pub fn new(job: u32, number: u32, node: u32) -> Rank<'a> {
        let (direction, range) = (Direction::Read, Range::default());
        Rank {
            job,
            number,
            node,
            seat: Seat::default(),
            steps: None,
            state: State::Ready,
            phase: 0,
            current: Current { id: 0, file: 0, direction, range, begun: Nanos::ZERO, done: 0, flash_bytes: 0 },
            list: None,
            call: None,
            moving: (Range::default(), None),
            open: Vec::new(),
            promised: false,
            courses: Vec::new(),
        }
    }

    /// How a request lies to its last ones in the file.
    pub fn distance(&mut self, file: u32, range: Range) -> Distance {
        let place = self.courses.iter().position(|(known, _)| *known == file).unwrap_or_else(|| {
            self.courses.push((file, Course::default()));
            self.courses.len() - 1
        });
        self.courses[place].1.advance(range)
    }
}
