//! A program that makes the requests of a trace again.
//!
//! Each rank makes its requests in the order of the trace, waits for each, and then computes for as long as
//! it did between that one's completion and the next one's start: think times are kept, service times are
//! not. Who waited for whom is not in a trace; there are no barriers, opens or closes.
//!
//! A trace is one stream, by start, and ranks ask for their steps one by one. What is read for one rank and
//! belongs to others waits for them, so that memory holds the requests between the place in the trace that
//! the slowest rank has reached and that of the fastest, and no more than [`SLICE`] beyond: a rank that finds
//! nothing of its own within a slice computes up to where the slice ends, and looks further then. A rank that
//! has made all its requests looks no further, for [`Survey`] has counted them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use headstart_units::Nanos;
use headstart_units::request::Access;

use crate::step::{Program, Step};

/// Requests that a rank looks through at once for one of its own.
const SLICE: usize = 1024;

/// What a first pass over a trace finds: the figures that a program has before it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Requests of each rank.
    pub requests: Vec<u64>,
    /// Where the last request of each file ends.
    pub file_bytes: Vec<u64>,
    /// When the first request began.
    pub begin: Option<Nanos>,
}

impl Survey {
    /// Takes note of the next request, by start.
    pub fn add(&mut self, access: &Access) {
        let (rank, file) = (access.rank as usize, access.file as usize);
        self.requests.resize(self.requests.len().max(rank + 1), 0);
        self.file_bytes.resize(self.file_bytes.len().max(file + 1), 0);
        self.requests[rank] += 1;
        self.file_bytes[file] = self.file_bytes[file].max(access.range.end());
        self.begin.get_or_insert(access.start);
    }
}

/// See the module.
pub struct Replay<O> {
    survey: Survey,
    open: O,
    runs: Mutex<Runs>,
}

/// Every rank of a program may be run again before the others are done: the n-th time that a rank is asked
/// for belongs to run n.
#[derive(Default)]
struct Runs {
    asked: Vec<usize>,
    /// Runs that not all ranks have joined, with the number of those that have.
    open: BTreeMap<usize, (Arc<Mutex<Distribution>>, usize)>,
}

/// A trace that is read for all ranks of one run.
struct Distribution {
    source: Box<dyn Iterator<Item = Access> + Send>,
    /// What was read for each rank; none for ranks that are gone.
    waiting: Vec<Option<VecDeque<Access>>>,
    /// Start of the request that was read last.
    head: Nanos,
}

impl<O, S> Replay<O>
where
    O: Fn() -> S + Send + Sync,
    S: Iterator<Item = Access> + Send + 'static,
{
    /// `open` gives the requests of the trace by start, each time from the first; `survey` has seen all of them.
    pub fn new(survey: Survey, open: O) -> Replay<O> {
        let runs = Runs { asked: vec![0; survey.requests.len()], open: BTreeMap::new() };
        Replay { survey, open, runs: Mutex::new(runs) }
    }

    fn join(&self, rank: u32) -> Arc<Mutex<Distribution>> {
        let ranks = self.survey.requests.len();
        let mut runs = locked(&self.runs);
        let run = runs.asked[rank as usize];
        runs.asked[rank as usize] += 1;
        let (distribution, joined) = runs.open.entry(run).or_insert_with(|| {
            let waiting = vec![Some(VecDeque::new()); ranks];
            (Arc::new(Mutex::new(Distribution { source: Box::new((self.open)()), waiting, head: Nanos::ZERO })), 0)
        });
        *joined += 1;
        let (distribution, is_complete) = (distribution.clone(), *joined == ranks);
        if is_complete {
            runs.open.remove(&run);
        }
        distribution
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics while it is held")
}

impl<O, S> Program for Replay<O>
where
    O: Fn() -> S + Send + Sync,
    S: Iterator<Item = Access> + Send + 'static,
{
    fn ranks(&self) -> u32 {
        self.survey.requests.len() as u32
    }

    fn file_bytes(&self) -> Vec<u64> {
        self.survey.file_bytes.clone()
    }

    /// The times for which a rank computes between two requests may come in several pieces; they add up to the same.
    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + Send + '_> {
        Box::new(RankReplay {
            distribution: self.join(rank),
            rank: rank as usize,
            requests_left: self.survey.requests[rank as usize],
            idle_since: self.survey.begin.unwrap_or_default(),
            next: None,
        })
    }
}

struct RankReplay {
    distribution: Arc<Mutex<Distribution>>,
    rank: usize,
    requests_left: u64,
    /// Until when, in the trace's time, the rank has computed or waited.
    idle_since: Nanos,
    next: Option<Access>,
}

impl Distribution {
    /// Reads on until a request of the rank is there, the slice ends or the trace does: then false.
    fn read_for(&mut self, rank: usize) -> bool {
        for _ in 0..SLICE {
            let Some(access) = self.source.next() else { return false };
            self.head = access.start;
            // A request that the survey has not seen is of a rank that does not exist.
            if let Some(Some(waiting)) = self.waiting.get_mut(access.rank as usize) {
                waiting.push_back(access);
            }
            if access.rank as usize == rank {
                break;
            }
        }
        true
    }
}

impl RankReplay {
    fn make(&mut self, access: Access) -> Step {
        self.requests_left -= 1;
        self.idle_since = access.end.max(access.start);
        Step::Request { file: access.file, direction: access.direction, range: access.range }
    }
}

impl Iterator for RankReplay {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if let Some(access) = self.next.take() {
            return Some(self.make(access));
        }
        if self.requests_left == 0 {
            return None;
        }
        let distribution = self.distribution.clone();
        let mut distribution = locked(&distribution);
        loop {
            let access = distribution.waiting[self.rank].as_mut().and_then(VecDeque::pop_front);
            // Nothing of this rank begins before what was read last.
            let until = access.as_ref().map_or(distribution.head, |access| access.start);
            let think = until.since(self.idle_since);
            if think > Nanos::ZERO {
                (self.next, self.idle_since) = (access, until);
                return Some(Step::Think(think));
            }
            if let Some(access) = access {
                return Some(self.make(access));
            }
            if !distribution.read_for(self.rank) {
                self.requests_left = 0;
                return None;
            }
        }
    }
}

impl Drop for RankReplay {
    /// Nobody waits for the rank's requests any longer.
    fn drop(&mut self) {
        if let Ok(mut distribution) = self.distribution.lock() {
            distribution.waiting[self.rank] = None;
        }
    }
}
