//! The loop: takes the next event, lets whoever it is for go on.
//!
//! ```text
//! jobs begin --> Running --(measured jobs have ended, the others stop)--> Draining --> Flushing --> Over
//! ```

mod flow;

use std::collections::VecDeque;

use headstart_model::request::Origin;
use headstart_units::Nanos;
use headstart_units::request::{Access, Range};
use headstart_workload::Program;

use crate::check::{Checker, Event as Check, Space, Spot};
use crate::client::Client;
use crate::fabric::{Fabric, Order, Owner};
use crate::job::{self, JobState};
use crate::node::Software;
use crate::queue::{Event, EventQueue};
use crate::rank::{Rank, State};
use crate::scenario::Scenario;
use crate::seeds::{Purpose, seed_of};
use crate::tier::{Place, TierName};

/// A file, over all jobs.
#[derive(Clone, Debug)]
pub struct FileState {
    /// Bytes once all have written.
    pub bytes: u64,
    /// Bytes of the slow file so far, with an overlay.
    pub size: u64,
    /// Where it lies on the disks.
    pub place: Place,
}

/// Where the run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Agents join, or regions are brought to flash, before the jobs begin.
    Placing,
    /// Measured jobs run.
    Running,
    /// What is dirty on flash goes back.
    Draining,
    /// What servers hold in caches goes to the media of so many tiers.
    Flushing(u32),
    /// Nothing is left to do.
    Over,
}

/// What is reported of the run as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    /// When the jobs could begin.
    pub(crate) origin: Nanos,
    /// When the last measured rank had ended.
    pub(crate) closed: Option<Nanos>,
    /// Events so far.
    pub(crate) events: u64,
    /// Requests begun so far.
    pub(crate) requests: u64,
}

/// How a scenario has the run go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Calls for many ranges go out as lists.
    pub(crate) list_io: bool,
    /// A round of a barrier's messages.
    barrier_round: Nanos,
    /// The run goes on until nothing is dirty.
    drain: bool,
    /// Nobody begins anything after so long.
    limit: Option<Nanos>,
}

/// See the module.
pub struct Simulation<'a> {
    pub(crate) now: Nanos,
    pub(crate) queue: EventQueue,
    pub(crate) fabric: Fabric,
    pub(crate) client: Client,
    pub(crate) jobs: Vec<JobState<'a>>,
    pub(crate) ranks: Vec<Rank<'a>>,
    pub(crate) files: Vec<FileState>,
    pub(crate) checker: Option<Box<Checker>>,
    /// Requests that ended, for whoever plans by them.
    pub(crate) accesses: Option<VecDeque<Access>>,
    pub(crate) stage: Stage,
    pub(crate) measured: Measured,
    pub(crate) software: Software,
    pub(crate) rules: Rules,
    done: Vec<Owner>,
}

impl<'a> Simulation<'a> {
    /// Machines at rest and the scenario's programs, which have not begun.
    pub(crate) fn new(
        scenario: &Scenario,
        programs: &'a [Box<dyn Program>],
        seed: u64,
        client: Client,
    ) -> Simulation<'a> {
        assert_eq!(scenario.jobs.len(), programs.len(), "every job has a program");
        let (mut jobs, mut ranks): (Vec<JobState<'a>>, Vec<Rank<'a>>) = (Vec::new(), Vec::new());
        let layout = layout(scenario, programs);
        for (index, (job, program)) in scenario.jobs.iter().zip(programs).enumerate() {
            let rules = job::Rules::of(job);
            let mut state = JobState::new(&**program, ranks.len() as u32, layout.first_files[index], rules);
            let start = Nanos::from_seconds(job.start_s);
            let before = job.after.as_ref().and_then(|after| scenario.jobs.iter().position(|job| job.name == *after));
            if let Some(before) = before {
                jobs[before].followers.push((index as u32, start));
            }
            state.start = before.is_none().then_some(start);
            let nodes = scenario.clients.nodes;
            let on_node = job.ranks_per_node.unwrap_or_else(|| state.ranks.div_ceil(nodes).max(1));
            ranks.extend((0..state.ranks).map(|number| {
                let node = (u64::from(job.first_node) + u64::from(number / on_node)) % u64::from(nodes);
                Rank::new(index as u32, number, node as u32)
            }));
            jobs.push(state);
        }
        let file_bytes = layout.files.iter().map(|(bytes, _)| *bytes).fold(0, u64::saturating_add);
        let mut fabric = Fabric::new(scenario, seed_of(seed, Purpose::Spindles), file_bytes);
        let mut random = seed_of(seed, Purpose::Placement);
        let disks = fabric.tier_mut(TierName::Disk);
        let gap = scenario.files.gap.map(|gap| gap.0);
        let place = |&(bytes, prepared): &(u64, bool)| {
            let random = headstart_units::chance::splitmix64(&mut random);
            let place = disks.place(bytes, gap, scenario.files.first_server, random);
            FileState { bytes, size: if prepared { bytes } else { 0 }, place }
        };
        let files = layout.files.iter().map(place).collect();
        Simulation {
            now: Nanos::ZERO,
            queue: EventQueue::default(),
            fabric,
            client,
            jobs,
            ranks,
            files,
            checker: None,
            accesses: None,
            stage: Stage::Placing,
            measured: Measured::default(),
            software: Software::new(&scenario.clients),
            rules: Rules {
                list_io: scenario.clients.list_io,
                barrier_round: scenario.barrier_round(),
                drain: scenario.drain,
                limit: scenario.limit_s.map(Nanos::from_seconds),
            },
            done: Vec::new(),
        }
    }

    /// Announces the jobs that wait for nobody.
    pub(crate) fn start_jobs(&mut self) {
        self.stage = Stage::Running;
        self.measured.origin = self.now;
        for (job, state) in (0..).zip(&self.jobs) {
            if let Some(start) = state.start {
                self.queue.push(self.now + start, Event::Job(job));
            }
        }
        if let Some(limit) = self.rules.limit {
            self.queue.push(self.now + limit, Event::Limit);
        }
        if self.jobs.is_empty() {
            self.measured.closed = Some(self.now);
            self.finish_running();
        }
    }

    /// Goes on by one event; false once all is over.
    ///
    /// # Panics
    /// If nothing is to come and all is not over: somebody waits for an event that was never announced.
    pub(crate) fn step(&mut self) -> bool {
        if self.stage == Stage::Over {
            return false;
        }
        let Some((at, event)) = self.queue.pop() else {
            panic!("nothing is to come at {} s, and {} is not over", self.now.seconds(), self.stuck());
        };
        debug_assert!(at >= self.now, "time never runs backwards");
        self.now = at;
        self.measured.events += 1;
        match event {
            Event::Server(server) => {
                let mut done = std::mem::take(&mut self.done);
                self.fabric.on_server(at, &mut self.queue, server, &mut done);
                self.done = done;
                self.transfers_done();
            }
            Event::Depart(message) => self.fabric.on_depart(at, &mut self.queue, message),
            Event::Arrive(message) => {
                self.fabric.on_arrive(message, &mut self.done);
                self.transfers_done();
            }
            Event::Rank(rank) => self.on_rank(rank),
            Event::Job(job) => self.begin_job(job),
            Event::Limit => self.stop_all(),
            Event::Ask(rank) => self.on_ask(rank),
            Event::Answer(rank) => self.on_answer(rank),
            Event::Poll(agent) => self.on_poll(agent),
            Event::Copy(copy) => self.begin_copy(copy),
            Event::Look(agent) => self.on_look(agent),
            Event::Again(agent) => self.on_again(agent),
            Event::Packet(packet) => self.on_packet(packet),
            Event::Turn(agent) => self.on_turn(agent),
        }
        true
    }

    fn transfers_done(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        for owner in done.drain(..) {
            match owner {
                Owner::Rank(rank) => self.on_moved(rank),
                Owner::List(rank, column) => {
                    if self.on_list_message(rank, column) {
                        self.end_request(rank);
                        self.proceed(rank);
                    }
                }
                Owner::Copy(copy) => self.on_copy_moved(copy),
                Owner::Barrier(agent) => self.on_synced(agent),
                Owner::End => self.on_flushed(),
            }
        }
        self.done = done;
    }

    /// A transfer's order as far as it follows from whose it is.
    pub(crate) fn order_of(&self, rank: u32, file: u32) -> Order {
        let state = &self.ranks[rank as usize];
        Order {
            owner: Owner::Rank(rank),
            tier: TierName::Disk,
            operation: headstart_model::request::Operation::Read,
            node: state.node,
            origin: Origin { job: state.job, rank: state.number, file },
        }
    }

    /// A transfer of a rank begins: of `part` of the file, at `offset` of a space of the tier.
    pub(crate) fn moving(&mut self, rank: u32, tier: TierName, space: u32, offset: u64, part: Range) {
        if self.checker.is_none() {
            return;
        }
        let spot =
            Spot { space: if tier == TierName::Disk { Space::Disk(space) } else { Space::Flash(space) }, offset };
        self.tell_moving(rank, part, spot);
    }

    /// Tells the checker something.
    pub(crate) fn tell(&mut self, event: Check) {
        if let Some(checker) = &mut self.checker {
            checker.on(&event);
        }
    }

    /// The share of the measured jobs' ranks that are through, for a progress bar.
    pub(crate) fn requests_done(&self) -> u64 {
        self.measured.requests
    }

    fn stuck(&self) -> String {
        let waits = self.ranks.iter().filter(|rank| rank.state != State::Ended);
        let waits: Vec<_> = waits.take(5).map(|rank| (rank.job, rank.number, rank.state)).collect();
        format!("{:?}, ranks {waits:?}, {} messages and transfers", self.stage, self.fabric.under_way())
    }
}

/// Files of all jobs: bytes and whether they are prepared; and each job's first.
pub(crate) struct Layout {
    pub(crate) files: Vec<(u64, bool)>,
    pub(crate) first_files: Vec<u32>,
}

/// Jobs with the same name for their files share them.
pub(crate) fn layout(scenario: &Scenario, programs: &[Box<dyn Program>]) -> Layout {
    let (mut files, mut first_files): (Vec<(u64, bool)>, Vec<u32>) = (Vec::new(), Vec::new());
    for (index, (job, program)) in scenario.jobs.iter().zip(programs).enumerate() {
        let shares = |other: &crate::scenario::Job| job.files.is_some() && other.files == job.files;
        let sizes = program.file_bytes();
        let with = scenario.jobs[..index].iter().position(shares);
        let known = with.map(|with| (first_files[with], programs[with].file_bytes().len()));
        match known.filter(|(_, count)| *count >= sizes.len()) {
            Some((first, _)) => {
                for (file, bytes) in files[first as usize..].iter_mut().zip(&sizes) {
                    file.0 = file.0.max(*bytes);
                }
                first_files.push(first);
            }
            None => {
                first_files.push(files.len() as u32);
                files.extend(sizes.into_iter().map(|bytes| (bytes, job.prepared)));
            }
        }
    }
    Layout { files, first_files }
}

impl Simulation<'_> {
    /// Whether the run goes on until nothing is dirty.
    pub(crate) fn drains(&self) -> bool {
        self.rules.drain
    }
}
