//! The requests of a rank in one phase, with what lies between them.

use headstart_units::Nanos;
use headstart_units::request::{Direction, Range};

use crate::description::Common;
use crate::plan::Plan;
use crate::step::Step;

/// See the module.
pub struct Pass {
    /// What the rank does.
    pub plan: Plan,
    /// Reading or writing.
    pub direction: Direction,
    /// Calls that are left: requests, and where all ranks meet before each those that only others make.
    calls_left: u64,
    requests_left: u64,
    think: Nanos,
    /// All meet before each request, whether or not it begins a group.
    is_collective: bool,
    /// Requests left of the group that a barrier began.
    group_left: u64,
    /// The region that comes next, and by how much its period is further on.
    region: u64,
    period_offset: u64,
    stage: Stage,
}

/// What comes before a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The first request of all: nobody has computed anything yet.
    First,
    Think,
    Meet,
    Request,
}

impl Pass {
    /// `calls`: at least the requests of the plan.
    pub fn new(plan: Plan, direction: Direction, calls: u64, common: &Common) -> Pass {
        Pass {
            direction,
            calls_left: calls,
            requests_left: plan.requests(),
            think: Nanos(common.think_us * 1000),
            is_collective: common.collective,
            group_left: 0,
            region: 0,
            period_offset: 0,
            stage: Stage::First,
            plan,
        }
    }

    fn begins_group(&self) -> bool {
        self.plan.requests_per_barrier > 0 && self.group_left == 0
    }

    fn next_range(&mut self) -> Range {
        let range = self.plan.regions.range(self.region);
        let offset = range.offset + self.period_offset;
        self.region += 1;
        if self.region == self.plan.region_count {
            self.region = 0;
            self.period_offset += self.plan.period_bytes;
        }
        Range { offset, ..range }
    }

    fn request(&mut self) -> Step {
        let (file, direction) = (self.plan.file, self.direction);
        let range = self.next_range();
        if self.plan.regions_per_request == 1 {
            return Step::Request { file, direction, range };
        }
        // Regions that touch are one range: the interface promises that ranges lie apart.
        let mut ranges = Vec::with_capacity(self.plan.regions_per_request as usize);
        ranges.push(range);
        for _ in 1..self.plan.regions_per_request {
            let range = self.next_range();
            match ranges.last_mut() {
                Some(last) if last.end() == range.offset => last.length += range.length,
                _ => ranges.push(range),
            }
        }
        match ranges[..] {
            [range] => Step::Request { file, direction, range },
            _ => Step::List { file, direction, ranges },
        }
    }
}

impl Iterator for Pass {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        while self.calls_left > 0 {
            if self.stage == Stage::Think {
                self.stage = Stage::Meet;
                if self.think > Nanos::ZERO && (self.plan.requests_per_barrier == 0 || self.begins_group()) {
                    return Some(Step::Think(self.think));
                }
            }
            if matches!(self.stage, Stage::First | Stage::Meet) {
                self.stage = Stage::Request;
                let begins_group = self.begins_group();
                if begins_group {
                    self.group_left = self.plan.requests_per_barrier;
                }
                if begins_group || self.is_collective {
                    return Some(Step::Barrier);
                }
            }
            self.stage = Stage::Think;
            self.calls_left -= 1;
            self.group_left = self.group_left.saturating_sub(1);
            if self.requests_left > 0 {
                self.requests_left -= 1;
                return Some(self.request());
            }
        }
        None
    }
}
