//! A pattern as a program: its phases, one after another, as often as is asked.
//!
//! ```text
//! barrier  mark 2k  open [barrier]  { [think] [barrier] request }...  [sync] [barrier]  close  mark 2k+1  barrier
//! ```
//!
//! as the benchmarks themselves do it: what is timed lies between the marks, and a barrier before a request
//! is part of no request's time. Think time lies between requests, or between groups of them where there is a
//! barrier before each group.

mod pass;

use std::collections::VecDeque;
use std::sync::Arc;

use headstart_units::request::Direction;

use crate::description::Common;
use crate::pattern::Pattern;
use crate::step::{Phase, Program, Step};
use pass::Pass;

/// See the module.
pub struct PatternProgram {
    common: Common,
    pattern: Arc<dyn Pattern>,
}

impl PatternProgram {
    /// `common` is what the pattern was made with.
    pub fn new(common: Common, pattern: Arc<dyn Pattern>) -> PatternProgram {
        PatternProgram { common, pattern }
    }
}

impl Program for PatternProgram {
    fn ranks(&self) -> u32 {
        self.pattern.ranks()
    }

    fn file_bytes(&self) -> Vec<u64> {
        let files = if self.pattern.has_file_per_rank() { self.pattern.ranks() } else { 1 };
        vec![self.pattern.file_bytes(); files as usize]
    }

    fn phases(&self) -> Vec<Phase> {
        self.pattern.phases().repeat(self.common.repetitions as usize)
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + Send + '_> {
        assert!(rank < self.ranks(), "a rank of this program");
        Box::new(Steps {
            program: self,
            rank,
            phases: self.pattern.phases(),
            phase: 0,
            repetition: 0,
            script: VecDeque::new(),
            pass: None,
        })
    }
}

struct Steps<'a> {
    program: &'a PatternProgram,
    rank: u32,
    phases: Vec<Phase>,
    /// The next phase, and of which repetition.
    phase: usize,
    repetition: u64,
    /// Steps around the requests, which come before those of the pass.
    script: VecDeque<Step>,
    pass: Option<Pass>,
}

impl Steps<'_> {
    fn mark(&self) -> u32 {
        (self.repetition.wrapping_mul(self.phases.len() as u64) as u32).wrapping_add(self.phase as u32).wrapping_mul(2)
    }

    fn begin(&mut self) {
        let (common, pattern) = (&self.program.common, &self.program.pattern);
        let direction = self.phases[self.phase].direction;
        let plan = pattern.plan(self.phase, self.rank);
        let open = Step::Open { file: plan.file, writable: direction == Direction::Write };
        self.script.extend([Step::Barrier, Step::Mark(self.mark()), open]);
        if plan.barrier_around_requests {
            self.script.push_back(Step::Barrier);
        }
        let calls = if common.collective { pattern.requests_max(self.phase) } else { plan.requests() };
        self.pass = Some(Pass::new(plan, direction, calls, common));
    }

    fn end(&mut self, pass: &Pass) {
        let (plan, file) = (&pass.plan, pass.plan.file);
        if self.program.common.sync && pass.direction == Direction::Write {
            self.script.push_back(Step::Sync { file });
        }
        if plan.barrier_around_requests {
            self.script.push_back(Step::Barrier);
        }
        self.script.extend([Step::Close { file }, Step::Mark(self.mark().wrapping_add(1)), Step::Barrier]);
        self.phase += 1;
        if self.phase == self.phases.len() {
            (self.phase, self.repetition) = (0, self.repetition + 1);
        }
    }
}

impl Iterator for Steps<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            if let Some(step) = self.script.pop_front() {
                return Some(step);
            }
            if let Some(step) = self.pass.as_mut().and_then(Iterator::next) {
                return Some(step);
            }
            if let Some(pass) = self.pass.take() {
                self.end(&pass);
            } else if self.repetition < self.program.common.repetitions {
                self.begin();
            } else {
                return None;
            }
        }
    }
}
