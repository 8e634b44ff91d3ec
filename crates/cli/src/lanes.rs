//! Who waits for a request: a closed loop has at most one under way, and traces name processes and ranks.
//!
//! A *lane* is one such loop. Requests of a process that overlap are those of its threads, each of which has
//! a lane. A process that begins where another of the same rank is idle goes on in that one's lane: the steps
//! of a job wait for each other, so that the second begins the sooner the sooner the first is done. If the
//! other one comes back it gets a lane of its own.

use headstart_trace::{Operation, Record};
use headstart_units::Nanos;
use headstart_units::request::{Access, Direction};
use rustc_hash::FxHashMap;

type Rank = Option<u32>;
/// A process; its rank where the trace knows no process.
type Key = (Rank, Option<u32>);

#[derive(Debug)]
struct Lane {
    owner: Key,
    end: Nanos,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Lanes {
    lanes: Vec<Lane>,
    /// Lanes of each process that was seen, some of which may be another's by now.
    processes: FxHashMap<Key, Vec<u32>>,
    ranks: FxHashMap<Rank, Vec<u32>>,
    /// Whether a request had an end so far.
    has_ends: bool,
}

impl Lanes {
    /// The next request, by start, for a file of this number; its rank is its lane.
    pub fn access(&mut self, record: &Record, file: u32) -> Access {
        let direction = if record.operation == Operation::Read { Direction::Read } else { Direction::Write };
        self.has_ends |= record.end.is_some();
        // A trace that knows no ends has no durations, and the time between two starts is not think time.
        let (start, end) = match self.has_ends {
            true => (record.start, record.end.unwrap_or(record.start)),
            false => (Nanos::ZERO, Nanos::ZERO),
        };
        let Record { range, without_flash, .. } = *record;
        Access { file, rank: self.lane(record), direction, range, start, end, without_flash }
    }

    /// The lane of the next request, by start.
    fn lane(&mut self, record: &Record) -> u32 {
        let key = (record.rank, record.process);
        let (start, end) = (record.start, record.end.unwrap_or(record.start).max(record.start));
        let own = self.processes.get(&key);
        let candidates = own.or_else(|| self.ranks.get(&record.rank)).map_or(&[][..], Vec::as_slice);
        let is_seen = own.is_some();
        let may_take = |lane: &Lane| lane.end <= start && (!is_seen || lane.owner == key);
        let of = |number: &u32| &self.lanes[*number as usize];
        let idle = candidates.iter().copied().filter(|number| may_take(of(number)));
        let lane = idle.max_by_key(|number| of(number).end);
        let lane = lane.unwrap_or_else(|| {
            let number = self.lanes.len() as u32;
            self.lanes.push(Lane { owner: key, end });
            self.ranks.entry(record.rank).or_default().push(number);
            number
        });
        self.lanes[lane as usize] = Lane { owner: key, end };
        let own = self.processes.entry(key).or_default();
        if !own.contains(&lane) {
            own.push(lane);
        }
        lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_trace::Operation;
    use headstart_units::request::Range;

    fn lanes(requests: &[(Rank, Option<u32>, u64, Option<u64>)]) -> Vec<u32> {
        let mut lanes = Lanes::default();
        let record = |&(rank, process, start, end): &(Rank, Option<u32>, u64, Option<u64>)| Record {
            rank,
            process,
            file: 0,
            operation: Operation::Read,
            range: Range::new(0, 1),
            start: Nanos(start),
            end: end.map(Nanos),
            without_flash: false,
        };
        requests.iter().map(|request| lanes.lane(&record(request))).collect()
    }

    #[test]
    fn ranks_have_lanes_of_their_own_and_requests_one_after_another_share_one() {
        let (a, b) = ((Some(0), Some(7)), (Some(1), Some(8)));
        let found =
            lanes(&[(a.0, a.1, 0, Some(5)), (b.0, b.1, 1, Some(9)), (a.0, a.1, 5, Some(6)), (b.0, b.1, 10, None)]);
        assert_eq!(found, [0, 1, 0, 1]);
        assert_eq!(lanes(&[(None, None, 3, None), (None, None, 3, None), (None, None, 8, None)]), [0, 0, 0]);
    }

    #[test]
    fn threads_of_a_process_are_told_by_requests_that_overlap() {
        let p = Some(7);
        let found =
            lanes(&[(None, p, 0, Some(9)), (None, p, 1, Some(4)), (None, p, 5, Some(20)), (None, p, 9, Some(11))]);
        assert_eq!(found, [0, 1, 1, 0]);
    }

    #[test]
    fn the_next_step_of_a_job_goes_on_in_the_lanes_of_the_last_one() {
        let step = |process, start| (Some(0), Some(process), start, Some(start + 2));
        assert_eq!(lanes(&[step(1, 0), step(1, 3), step(2, 10), step(2, 20)]), [0, 0, 0, 0]);
        let other = (Some(1), Some(3), 30, Some(31));
        assert_eq!(lanes(&[step(1, 0), other]), [0, 1], "another rank does not");
    }

    #[test]
    fn programs_that_run_at_the_same_time_part_as_soon_as_that_shows() {
        let a = |start| (Some(0), Some(1), start, Some(start + 2));
        let b = |start| (Some(0), Some(2), start, Some(start + 2));
        assert_eq!(lanes(&[a(0), b(5), a(10), b(15), a(20), b(25)]), [0, 0, 1, 0, 1, 0]);
    }
}
