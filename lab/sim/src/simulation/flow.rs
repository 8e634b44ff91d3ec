//! Ranks go through their steps; jobs begin, stop and end.

use headstart_model::request::Operation;
use headstart_units::Nanos;
use headstart_units::request::{Access, Direction, Range};
use headstart_workload::Step;

use super::{Simulation, Stage};
use crate::check::{Event as Check, Spot};
use crate::client::Client;
use crate::fabric::{Order, Owner};
use crate::list::List;
use crate::phases::Ended;
use crate::queue::Event;
use crate::rank::{Current, State};
use crate::tier::TierName;

impl Simulation<'_> {
    pub(super) fn begin_job(&mut self, job: u32) {
        let state = &mut self.jobs[job as usize];
        if state.stopping || self.stage != Stage::Running {
            return;
        }
        if state.rules.cold {
            self.fabric.empty_buffers(self.now, &mut self.queue);
        }
        let state = &mut self.jobs[job as usize];
        state.rounds.begin(self.now);
        (state.alive, state.waiting) = (state.ranks, 0);
        state.phases.begin(None, self.now);
        let program = state.program;
        if state.ranks == 0 {
            return self.job_ended(job);
        }
        for rank in state.all_ranks() {
            let state = &mut self.ranks[rank as usize];
            state.steps = Some(program.steps(state.number));
            (state.state, state.phase) = (State::Ready, 0);
        }
        for rank in self.jobs[job as usize].all_ranks() {
            self.proceed(rank);
        }
    }

    /// Nobody begins anything any more.
    pub(super) fn stop_all(&mut self) {
        (0..self.jobs.len() as u32).for_each(|job| self.stop_job(job));
        self.finish_if_through();
    }

    fn stop_job(&mut self, job: u32) {
        let now = self.now;
        let state = &mut self.jobs[job as usize];
        if state.stopping {
            return;
        }
        state.stopping = true;
        if state.rounds.begun().is_none() || state.alive == 0 {
            // It has not begun, or was about to begin again.
            state.rounds.end_idle(now);
            return;
        }
        for rank in state.all_ranks() {
            // Who waits for others waits in vain; all else ends what it is at.
            if self.ranks[rank as usize].state == State::Barrier {
                self.end_rank(rank);
            }
        }
    }

    pub(super) fn on_rank(&mut self, rank: u32) {
        // It may have been stopped meanwhile.
        let state = self.ranks[rank as usize].state;
        if state == State::Ready || (state == State::HeldUp && self.issue(rank)) {
            self.proceed(rank);
        }
    }

    /// Goes through steps until one takes time.
    pub(crate) fn proceed(&mut self, rank: u32) {
        loop {
            let state = &mut self.ranks[rank as usize];
            state.state = State::Ready;
            if self.jobs[state.job as usize].stopping {
                return self.end_rank(rank);
            }
            match state.steps.as_mut().and_then(Iterator::next) {
                None => return self.end_rank(rank),
                Some(step) => {
                    if !self.begin_step(rank, step) {
                        return;
                    }
                }
            }
        }
    }

    /// Begins a step; true if it is done.
    fn begin_step(&mut self, rank: u32, step: Step) -> bool {
        let now = self.now;
        let state = &mut self.ranks[rank as usize];
        let first_file = self.jobs[state.job as usize].first_file;
        match step {
            Step::Request { file, direction, range } => {
                self.begin_request(rank, first_file + file, direction, range, None)
            }
            Step::List { file, direction, ranges } => {
                self.begin_request(rank, first_file + file, direction, Range::default(), Some(ranges))
            }
            Step::Think(time) => {
                self.queue.push(now + time, Event::Rank(rank));
                false
            }
            Step::Barrier => {
                state.state = State::Barrier;
                let job = state.job;
                self.jobs[job as usize].waiting += 1;
                self.release_barrier(job);
                false
            }
            Step::Mark(mark) => {
                state.phase = self.jobs[state.job as usize].phases.begin(Some(mark), now);
                true
            }
            Step::Open { file, writable } => {
                state.current.file = first_file + file;
                let done = self.begin_open(rank, first_file + file, writable);
                self.touch_if(done, rank)
            }
            Step::Sync { file } => {
                state.current.file = first_file + file;
                state.state = State::Flushing;
                let order = Order { operation: Operation::Flush, ..self.order_of(rank, first_file + file) };
                self.begin_sync(rank, order);
                false
            }
            Step::Close { file } => {
                let done = self.begin_close(rank, first_file + file);
                self.touch_if(done, rank)
            }
        }
    }

    fn touch_if(&mut self, done: bool, rank: u32) -> bool {
        if done {
            self.touch(rank);
        }
        done
    }

    /// A rank did something else than a request until now.
    pub(crate) fn touch(&mut self, rank: u32) {
        let state = &self.ranks[rank as usize];
        self.jobs[state.job as usize].phases.touch(state.phase, self.now);
    }

    fn begin_request(
        &mut self,
        rank: u32,
        file: u32,
        direction: Direction,
        range: Range,
        list: Option<Vec<Range>>,
    ) -> bool {
        let (now, id) = (self.now, self.measured.requests + 1);
        self.measured.requests += list.as_ref().map_or(1, |ranges| ranges.len() as u64);
        let state = &mut self.ranks[rank as usize];
        state.state = State::HeldUp;
        state.current = Current { id, file, direction, range, begun: now, done: 0, flash_bytes: 0 };
        state.list = list.map(|ranges| Box::new(List::new(ranges)));
        let at = self.software.request(now, state.node);
        if at > now {
            self.queue.push(at, Event::Rank(rank));
            return false;
        }
        self.issue(rank)
    }

    /// Sends a rank's request; true if it is done at once.
    fn issue(&mut self, rank: u32) -> bool {
        let state = &mut self.ranks[rank as usize];
        state.state = State::Requesting;
        if state.list.is_none() {
            return self.issue_range(rank);
        }
        if self.sends_lists() {
            if self.checker.is_some() {
                self.tell_list(rank, false);
            }
            let under_way = self.start_list(rank);
            if !under_way {
                self.end_request(rank);
            }
            return !under_way;
        }
        self.next_of_list(rank)
    }

    /// The next range of a list that goes range by range; true if the whole list is done.
    fn next_of_list(&mut self, rank: u32) -> bool {
        loop {
            let state = &mut self.ranks[rank as usize];
            let list = state.list.as_mut().expect("the rank's request is a list");
            let Some(range) = list.ranges.get(list.next).copied() else {
                self.end_request(rank);
                return true;
            };
            list.next += 1;
            state.current.range = range;
            state.current.done = 0;
            if list.next > 1 {
                state.current.id += 1;
            }
            if !self.issue_range(rank) {
                return false;
            }
        }
    }

    /// Sends one range; true if it is done at once, and so is the request if that is no list.
    fn issue_range(&mut self, rank: u32) -> bool {
        let Current { id, file, direction, range, .. } = self.ranks[rank as usize].current;
        if self.checker.is_some() {
            self.tell(Check::Began { id, writes: direction == Direction::Write, file, range });
        }
        let under_way = match &self.client {
            _ if range.is_empty() => false,
            Client::Stock => {
                self.start_stock(rank);
                true
            }
            Client::Placed(_) => self.next_placed(rank),
            Client::Overlay(_) => self.start_call(rank),
        };
        if !under_way {
            self.end_range(rank);
        }
        !under_way
    }

    /// A transfer of a rank is done.
    pub(crate) fn on_moved(&mut self, rank: u32) {
        if self.ranks[rank as usize].state == State::Flushing {
            return self.on_rank_flushed(rank);
        }
        if self.checker.is_some() {
            self.tell_moved(rank);
        }
        let goes_on = match &self.client {
            Client::Stock => false,
            Client::Placed(_) => self.next_placed(rank),
            Client::Overlay(_) => self.call_moved(rank),
        };
        if !goes_on {
            self.range_done(rank);
        }
    }

    /// A range of a rank is done, and the rank goes on.
    pub(crate) fn range_done(&mut self, rank: u32) {
        self.end_range(rank);
        if self.ranks[rank as usize].list.is_some() && !self.next_of_list(rank) {
            return;
        }
        self.proceed(rank);
    }

    fn end_range(&mut self, rank: u32) {
        let Current { id, .. } = self.ranks[rank as usize].current;
        if self.checker.is_some() {
            self.tell(Check::Ended { id });
        }
        if self.ranks[rank as usize].list.is_none() {
            self.end_request(rank);
        }
    }

    /// A rank's request is done.
    pub(crate) fn end_request(&mut self, rank: u32) {
        if self.checker.is_some() && self.ranks[rank as usize].list.is_some() && self.sends_lists() {
            self.tell_list(rank, true);
        }
        let now = self.now;
        let state = &mut self.ranks[rank as usize];
        let current = state.current;
        let list = state.list.take();
        let bytes = list.as_ref().map_or(current.range.length, |list| list.bytes());
        let request = Ended {
            direction: current.direction,
            bytes,
            flash_bytes: current.flash_bytes,
            begun: current.begun,
            ended: now,
        };
        let (phase, number) = (state.phase, state.number);
        let job = &mut self.jobs[state.job as usize];
        job.phases.add(phase, number, request);
        if let Some(accesses) = &mut self.accesses
            && job.rules.traced
        {
            let ranges = list.map_or_else(|| vec![current.range], |list| list.ranges);
            accesses.extend(ranges.into_iter().map(|range| ended_access(rank, current, range, now)));
        }
    }

    /// What was read or written of a rank's current transfer is told when it begins,
    pub(super) fn tell_moving(&mut self, rank: u32, part: Range, spot: Spot) {
        let current = self.ranks[rank as usize].current;
        self.ranks[rank as usize].moving = (part, Some(spot));
        if current.direction == Direction::Read {
            self.tell(Check::Read { id: current.id, range: part, spot });
        }
    }

    /// and when it ends.
    fn tell_moved(&mut self, rank: u32) {
        let current = self.ranks[rank as usize].current;
        let (range, spot) = std::mem::take(&mut self.ranks[rank as usize].moving);
        let Some(spot) = spot else { return };
        match current.direction {
            Direction::Read => self.tell(Check::Read { id: current.id, range, spot }),
            Direction::Write => self.tell(Check::Wrote { id: current.id, range, spot }),
        }
    }

    fn release_barrier(&mut self, job: u32) {
        let state = &mut self.jobs[job as usize];
        if state.waiting < state.alive || state.waiting == 0 {
            return;
        }
        state.waiting = 0;
        let at = self.now + state.barrier(self.rules.barrier_round);
        for rank in state.all_ranks() {
            let waiting = &mut self.ranks[rank as usize].state;
            if *waiting == State::Barrier {
                *waiting = State::Ready;
                self.queue.push(at, Event::Rank(rank));
            }
        }
    }

    fn end_rank(&mut self, rank: u32) {
        let state = &mut self.ranks[rank as usize];
        let was_waiting = state.state == State::Barrier;
        (state.state, state.steps) = (State::Ended, None);
        let number = state.job;
        let job = &mut self.jobs[number as usize];
        job.alive -= 1;
        job.waiting -= u32::from(was_waiting);
        if job.alive == 0 {
            return self.job_ended(number);
        }
        if job.rules.stonewall {
            self.stop_job(number);
        } else {
            self.release_barrier(number);
        }
    }

    fn job_ended(&mut self, number: u32) {
        let now = self.now;
        let job = &mut self.jobs[number as usize];
        let took_time = job.rounds.count_round(now);
        let again = job.rules.interfering && !job.stopping && took_time && self.stage == Stage::Running;
        if again {
            self.queue.push(now, Event::Job(number));
            return;
        }
        job.rounds.end(now);
        for (follower, delay) in job.followers.clone() {
            self.queue.push(now + delay, Event::Job(follower));
        }
        self.finish_if_through();
    }

    /// Stops what interferes once the measured jobs have ended, and goes on to the end once everybody has.
    fn finish_if_through(&mut self) {
        if self.stage != Stage::Running
            || !self.jobs.iter().all(|job| job.rules.interfering || job.rounds.ended().is_some())
        {
            return;
        }
        self.measured.closed.get_or_insert(self.now);
        for job in 0..self.jobs.len() as u32 {
            self.stop_job(job);
        }
        if self.stage == Stage::Running && self.jobs.iter().all(|job| job.rounds.ended().is_some()) {
            self.finish_running();
        }
    }

    /// All programs are through.
    pub(super) fn finish_running(&mut self) {
        self.stage = Stage::Draining;
        if self.rules.drain && self.begin_drain() {
            return;
        }
        self.finish_draining();
    }

    /// Nothing is dirty on flash any more.
    pub(crate) fn finish_draining(&mut self) {
        if !self.rules.drain {
            self.stage = Stage::Over;
            return;
        }
        let uses_flash = !matches!(self.client, Client::Stock);
        let tiers = if uses_flash { &[TierName::Disk, TierName::Flash][..] } else { &[TierName::Disk] };
        self.stage = Stage::Flushing(tiers.len() as u32);
        self.fabric.drain(self.now, &mut self.queue, TierName::Disk);
        for &tier in tiers {
            let origin = headstart_model::request::Origin::default();
            let order = Order { owner: Owner::End, tier, operation: Operation::Flush, node: 0, origin };
            self.fabric.flush(self.now, &mut self.queue, order);
        }
    }

    pub(super) fn on_flushed(&mut self) {
        let Stage::Flushing(left) = self.stage else { unreachable!("the servers are flushed last") };
        self.stage = if left > 1 { Stage::Flushing(left - 1) } else { Stage::Over };
    }
}

/// A request as planning sees it.
pub(crate) fn ended_access(rank: u32, current: Current, range: Range, now: Nanos) -> Access {
    let Current { file, direction, begun: start, .. } = current;
    Access { file, rank, direction, range, start, end: now, without_flash: current.flash_bytes == 0 }
}
