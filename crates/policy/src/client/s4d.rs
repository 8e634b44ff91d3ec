//! S4D-Cache (ICDCS'14): a request goes to flash when the cost model says that flash serves it sooner.
//!
//! The Redirector (Algorithm 1) is spread over both sides. Here, in the library, is the identification of
//! critical requests (lines 3 and 17: eq. 8). The agent finds free or clean space (lines 4 to 13), keeps the
//! critical data table with its C flags (line 18) and runs the Rebuilder.

mod critical_data;

pub use critical_data::{Critical, CriticalData};

use super::{Decision, FetchTurn, Policy, Reason};
use crate::client::Request;
use crate::cost::benefit::Parameters;
use crate::order::Distance;
use headstart_units::request::Direction;

/// The Data Identifier: one cost model for reads and one for writes.
#[derive(Clone, Debug)]
pub struct S4d {
    /// Costs of reads.
    pub read: Parameters,
    /// Costs of writes.
    pub write: Parameters,
}

impl S4d {
    /// The cost model of a direction.
    #[inline]
    pub fn of(&self, direction: Direction) -> &Parameters {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }
}

impl Policy for S4d {
    #[inline]
    fn on_request(&self, request: &Request) -> Decision {
        let parameters = self.of(request.direction);
        let benefit_ns = (parameters.benefit_s(request) * 1e9) as i64;
        match (benefit_ns > 0, request.direction) {
            (false, _) => Decision::Disk(Reason::NoBenefit),
            (true, _) if parameters.stays(request.distance) => Decision::Disk(Reason::NoBenefit),
            (true, Direction::Write) => Decision::Flash { benefit_ns: benefit_ns as u64 },
            (true, Direction::Read) => Decision::Fetch { benefit_ns: benefit_ns as u64, turn: turn(request.distance) },
        }
    }
}

/// The disks serve a stream well until a fetch beside it makes them seek. The first read of a process may
/// begin one, and by the time that the second tells, a fetch of it would be under way.
fn turn(distance: Distance) -> FetchTurn {
    match distance.goes_on_or_begins() {
        true => FetchTurn::Idle,
        false => FetchTurn::Soon,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{Course, Distance};
    use headstart_units::request::Range;

    #[test]
    fn critical_writes_are_absorbed_critical_reads_fetched_and_large_requests_left_on_disk() {
        let parameters = Parameters {
            hdd_servers: 8,
            ssd_servers: 4,
            ssd_s_per_byte: 2e-7,
            hdd_s_per_byte: 3e-8,
            ..Parameters::default()
        };
        let s4d = S4d { read: parameters.clone(), write: parameters };
        let ask = |direction, length| {
            s4d.on_request(&Request { direction, range: Range::new(0, length), distance: Distance::far(1 << 30) })
        };
        assert!(matches!(ask(Direction::Write, 16 << 10), Decision::Flash { .. }));
        assert!(matches!(ask(Direction::Read, 16 << 10), Decision::Fetch { .. }));
        assert_eq!(ask(Direction::Write, 4 << 20), Decision::Disk(Reason::NoBenefit));
    }

    #[test]
    fn writes_that_go_on_stay_where_something_beneath_the_disks_takes_them() {
        let write = Parameters { near_stays: true, ..Parameters::default() };
        let s4d = S4d { read: write.clone(), write };
        let mut course = Course::default();
        let mut ask = |direction, offset| {
            let range = Range::new(offset, 16 << 10);
            let distance = course.advance(range);
            s4d.on_request(&Request { direction, range, distance })
        };
        let mut stays = |offset| ask(Direction::Write, offset) == Decision::Disk(Reason::NoBenefit);
        // Every other block, as of two processes side by side.
        assert_eq!([10, 12, 14].map(|block| stays(block << 14)), [true; 3]);
        assert_eq!([3, 2, 1 << 20].map(|block| stays(block << 14)), [false; 3], "backwards and far ahead");
        let again: Vec<bool> = (0..9).map(|block| stays(block << 15)).collect();
        assert_eq!(again, [false, false, false, false, false, false, false, true, true], "after seven in a row");
    }

    #[test]
    fn reads_that_go_on_are_not_fetched_where_the_disks_serve_them_as_soon_and_others_are() {
        let s4d = S4d { read: Parameters { near_stays: true, ..Parameters::default() }, write: Parameters::default() };
        let mut course = Course::default();
        let mut is_fetched = |block: u64| {
            let range = Range::new(block << 14, 16 << 10);
            let distance = course.advance(range);
            matches!(s4d.on_request(&Request { direction: Direction::Read, range, distance }), Decision::Fetch { .. })
        };
        assert_eq!([0, 1, 2, 1 << 20, 5].map(&mut is_fetched), [false, false, false, true, true]);
    }

    #[test]
    fn reads_that_go_on_are_fetched_when_the_disks_are_idle_and_so_is_the_first() {
        let s4d = S4d { read: Parameters::default(), write: Parameters::default() };
        let mut course = Course::default();
        let mut turn = |block: u64| {
            let range = Range::new(block << 14, 16 << 10);
            let distance = course.advance(range);
            match s4d.on_request(&Request { direction: Direction::Read, range, distance }) {
                Decision::Fetch { turn, .. } => turn,
                other => panic!("{other:?}"),
            }
        };
        use FetchTurn::{Idle, Soon};
        assert_eq!([0, 1, 2, 900, 901].map(&mut turn), [Idle, Idle, Idle, Soon, Soon]);
    }
}
