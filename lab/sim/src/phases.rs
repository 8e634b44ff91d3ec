//! What the ranks of a job did, mark by mark.

use headstart_units::Nanos;
use headstart_units::request::Direction;

use crate::latency::Histogram;

/// What happened from one mark of the program to the next, over all ranks.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// The mark; none before the first one.
    pub mark: Option<u32>,
    /// The first rank's mark.
    pub start: Option<Nanos>,
    /// When the last rank's last request, open, sync or close had ended.
    pub end: Nanos,
    /// Requests, by direction.
    pub requests: [u64; 2],
    /// Their bytes.
    pub bytes: [u64; 2],
    /// Bytes that flash served.
    pub flash_bytes: u64,
    /// Requests that flash served whole.
    pub flash_requests: u64,
    /// How long requests took.
    pub latency: Histogram,
    /// Time in requests, of each rank.
    pub rank_ns: Vec<u64>,
}

/// All phases of a job, in the order in which the first rank came to them.
#[derive(Clone, Debug)]
pub struct Phases {
    /// They.
    pub all: Vec<Phase>,
    ranks: usize,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Which way.
    pub direction: Direction,
    /// Its bytes.
    pub bytes: u64,
    /// How many of them flash served.
    pub flash_bytes: u64,
    /// When it began.
    pub begun: Nanos,
    /// When it ended.
    pub ended: Nanos,
}

impl Phases {
    /// Those of a job of so many ranks, which begin without a mark.
    pub fn new(ranks: u32) -> Phases {
        Phases { all: vec![Phase::default()], ranks: ranks as usize }
    }

    /// A rank begins the phase of a mark; its index.
    pub fn begin(&mut self, mark: Option<u32>, now: Nanos) -> u32 {
        let index = self.all.iter().position(|phase| phase.mark == mark).unwrap_or_else(|| {
            self.all.push(Phase { mark, ..Phase::default() });
            self.all.len() - 1
        });
        let phase = &mut self.all[index];
        phase.start.get_or_insert(now);
        phase.end = phase.end.max(now);
        index as u32
    }

    /// A rank did something of its phase until now.
    pub fn touch(&mut self, phase: u32, now: Nanos) {
        self.all[phase as usize].end = now;
    }

    /// A rank's request of its phase has ended now.
    pub fn add(&mut self, phase: u32, rank: u32, request: Ended) {
        let ranks = self.ranks;
        let phase = &mut self.all[phase as usize];
        let Ended { direction, bytes, flash_bytes, begun, ended } = request;
        let took_ns = ended.since(begun).0;
        phase.end = ended;
        phase.requests[direction as usize] += 1;
        phase.bytes[direction as usize] += bytes;
        phase.flash_bytes += flash_bytes;
        phase.flash_requests += u64::from(bytes > 0 && flash_bytes == bytes);
        phase.latency.add(took_ns);
        if phase.rank_ns.is_empty() {
            phase.rank_ns = vec![0; ranks];
        }
        phase.rank_ns[rank as usize] += took_ns;
    }
}
