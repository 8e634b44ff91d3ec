//! The agent and its threads in the loop of the simulation.

use std::sync::atomic::Ordering;

use headstart_model::request::{Operation, Origin};
use headstart_overlay::{Answer, CopyKind, Fingerprint, Opening, Output};
use headstart_policy::client::Request;
use headstart_policy::client::carl::Regions;
use headstart_policy::cost::region::Costs;
use headstart_policy::order::Distance;
use headstart_protocol::call::Step;
use headstart_protocol::message::{Envelope, Request as Message};
use headstart_protocol::shared::{Counter, Shared};
use headstart_units::Nanos;
use headstart_units::request::Range;

use super::agent::{Agent, Copy, NO_FILE, Syncing};
use super::call::{Call, Thread};
use crate::check::{Event as Check, Space, Spot};
use crate::client::Client;
use crate::fabric::{Order, Owner};
use crate::queue::Event;
use crate::rank::State;
use crate::simulation::{Simulation, Stage};
use crate::tier::TierName;

/// The agent's own requests, as elevators see them: each copy is a thread of its own.
const AGENT_JOB: u32 = u32::MAX;
/// The path of every file: the agent only tells it to people.
const PATH: &[u8] = b"/simulated";
/// Those of a file that nobody knows.
static NO_REGIONS: Regions = Regions::NONE;

fn thread<'a>(agent: &'a Agent, rank: u32, number: u32, now: Nanos) -> Thread<'a> {
    Thread {
        index: rank,
        slot: &agent.memory.slots[rank as usize],
        shared: agent.memory.view(),
        chain: agent.chain,
        s4d: Some(&agent.s4d),
        regions: agent.overlay.regions(number).unwrap_or(&NO_REGIONS),
        now,
    }
}

/// Ranks.
impl Simulation<'_> {
    fn agent(&mut self) -> &mut Agent {
        match &mut self.client {
            Client::Overlay(agent) => agent,
            Client::Stock | Client::Placed(_) => unreachable!("only the overlay has an agent"),
        }
    }

    /// A rank opens a file; true if that takes no time.
    pub(crate) fn begin_open(&mut self, rank: u32, file: u32, writable: bool) -> bool {
        if !matches!(self.client, Client::Overlay(_)) {
            return true;
        }
        let open = &self.ranks[rank as usize].open;
        if open.iter().any(|(known, writes)| *known == file && *writes >= writable) {
            return true;
        }
        self.ask_open(rank, file, writable, State::Opening);
        false
    }

    fn ask_open(&mut self, rank: u32, file: u32, writable: bool, state: State) {
        self.ranks[rank as usize].state = state;
        self.ranks[rank as usize].open.retain(|(known, _)| *known != file);
        self.ranks[rank as usize].open.push((file, writable));
        let identity = Agent::identity(file);
        let size = self.agent().files[file as usize].size;
        let (inode, birth_ns) = (identity.inode, identity.birth_ns);
        self.ask(rank, Message::Open { inode, birth_ns, size, writable, path: PATH });
    }

    /// A rank closes a file; true if that takes no time.
    pub(crate) fn begin_close(&mut self, rank: u32, file: u32) -> bool {
        let state = &mut self.ranks[rank as usize];
        let was_open = state.open.iter().any(|(known, _)| *known == file);
        state.open.retain(|(known, _)| *known != file);
        if !was_open {
            return true;
        }
        state.state = State::Settling;
        let number = self.agent().files[file as usize].number;
        self.ask(rank, Message::Close { file: number });
        false
    }

    /// A rank syncs its current file: the servers' caches first, then what the agent promised.
    pub(crate) fn begin_sync(&mut self, rank: u32, order: Order) {
        let (state, now) = (&mut self.ranks[rank as usize], self.now);
        match &self.client {
            Client::Overlay(agent) => {
                let number = agent.files[state.current.file as usize].number;
                let sync = || Box::new(Call::sync(&thread(agent, rank, number, now), number));
                state.call = (number != NO_FILE).then(sync);
            }
            Client::Placed(_) => state.promised = true,
            Client::Stock => {}
        }
        self.fabric.flush(self.now, &mut self.queue, order);
    }

    /// The servers' caches are flushed.
    pub(crate) fn on_rank_flushed(&mut self, rank: u32) {
        let state = &mut self.ranks[rank as usize];
        let (promised, call, file) = (std::mem::take(&mut state.promised), state.call.take(), state.current.file);
        let asks = call.and_then(|mut call| {
            let Client::Overlay(agent) = &self.client else { unreachable!("only the overlay has calls") };
            let thread = thread(agent, rank, agent.files[file as usize].number, self.now);
            if let Step::Ask(message) = call.on_moved(&thread) { Some(message) } else { None }
        });
        if let Some(message) = asks {
            self.ranks[rank as usize].state = State::Settling;
            self.ask(rank, message);
        } else if promised {
            let order = Order { operation: Operation::Flush, tier: TierName::Flash, ..self.order_of(rank, file) };
            self.fabric.flush(self.now, &mut self.queue, order);
        } else {
            self.touch(rank);
            self.proceed(rank);
        }
    }

    /// Begins a rank's request as the library does; false if it is done.
    pub(crate) fn start_call(&mut self, rank: u32) -> bool {
        let current = self.ranks[rank as usize].current;
        let writes = current.direction == headstart_units::request::Direction::Write;
        let open = &self.ranks[rank as usize].open;
        if !open.iter().any(|(known, writable)| *known == current.file && *writable >= writes) {
            self.ask_open(rank, current.file, writes, State::OpeningFirst);
            return true;
        }
        let distance = self.ranks[rank as usize].distance(current.file, current.range);
        let now = self.now;
        let agent = self.agent();
        let number = agent.files[current.file as usize].number;
        let others = &agent.memory.interleavings[number as usize];
        let interleaved = others.add(current.direction, current.range, rank);
        let request = Request {
            direction: current.direction,
            range: current.range,
            distance: Distance { interleaved, ..distance },
        };
        let (call, step) = Call::begin(&thread(agent, rank, number, now), number, request);
        self.ranks[rank as usize].call = Some(Box::new(call));
        self.act(rank, step)
    }

    /// What a rank's call wanted moved is moved; false if the call is done.
    pub(crate) fn call_moved(&mut self, rank: u32) -> bool {
        self.advance(rank, None)
    }

    fn advance(&mut self, rank: u32, answer: Option<Answer>) -> bool {
        let Client::Overlay(agent) = &self.client else { unreachable!("only the overlay has calls") };
        let state = &mut self.ranks[rank as usize];
        let thread = thread(agent, rank, agent.files[state.current.file as usize].number, self.now);
        let call = state.call.as_mut().expect("a rank that requests has a call");
        let step = match answer {
            Some(answer) => call.on_answer(&thread, (&answer).into()),
            None => call.on_moved(&thread),
        };
        self.act(rank, step)
    }

    fn act(&mut self, rank: u32, step: Step) -> bool {
        let current = self.ranks[rank as usize].current;
        let order = Order { operation: current.direction.into(), ..self.order_of(rank, current.file) };
        match step {
            Step::Slow(range) => {
                if order.operation == Operation::Write {
                    let size = &mut self.agent().files[current.file as usize].size;
                    *size = (*size).max(range.end());
                }
                let place = self.files[current.file as usize].place;
                self.fabric.start(self.now, &mut self.queue, order, place, range);
                self.moving(rank, TierName::Disk, current.file, range.offset, range);
                true
            }
            Step::Flash { range, data_file, place } => {
                let order = Order { tier: TierName::Flash, ..order };
                let base = self.agent().data_place(data_file);
                self.fabric.start(self.now, &mut self.queue, order, base, Range::new(place, range.length));
                self.moving(rank, TierName::Flash, data_file, place, range);
                true
            }
            Step::Ask(message) => {
                self.ask(rank, message);
                true
            }
            Step::AskPushed(message) => {
                self.send(rank, message);
                true
            }
            Step::Tell(_) => {
                self.poll_at(self.now + self.software.way_to_agent());
                let Client::Overlay(agent) = &self.client else { unreachable!("only the overlay has calls") };
                let state = &mut self.ranks[rank as usize];
                let thread = thread(agent, rank, agent.files[current.file as usize].number, self.now);
                let step = state.call.as_mut().expect("a rank that requests has a call").on_told(&thread);
                self.act(rank, step)
            }
            Step::Done => {
                let state = &mut self.ranks[rank as usize];
                let call = state.call.take().expect("a rank that requests has a call");
                state.current.flash_bytes += call.flash_bytes();
                false
            }
            Step::Push | Step::Look | Step::Sync => unreachable!("a read or write that has looked does neither"),
        }
    }

    fn ask(&mut self, rank: u32, message: Message<'static>) {
        let slot = &self.agent().memory.slots[rank as usize];
        slot.seq.store(slot.seq.load(Ordering::Relaxed) + 1, Ordering::Release);
        self.send(rank, message);
    }

    /// Asks under the slot's number as it is.
    fn send(&mut self, rank: u32, message: Message<'static>) {
        let at = self.now + self.software.way_to_agent();
        let agent = self.agent();
        let slot = &agent.memory.slots[rank as usize];
        slot.count(Counter::RoundTrips, 1);
        agent.asked[rank as usize] = Some(message);
        self.queue.push(at, Event::Ask(rank));
    }

    /// [`Event::Answer`].
    pub(crate) fn on_answer(&mut self, rank: u32) {
        let answer = self.agent().answers[rank as usize].take().expect("an answer is on its way");
        match (self.ranks[rank as usize].state, answer) {
            (State::Requesting, answer) => {
                if !self.advance(rank, Some(answer)) {
                    self.range_done(rank);
                }
            }
            (State::OpeningFirst, Answer::Opened { .. }) => {
                self.ranks[rank as usize].state = State::Requesting;
                if !self.start_call(rank) {
                    self.range_done(rank);
                }
            }
            (State::Opening, Answer::Opened { .. }) | (State::Settling, Answer::Done) => {
                self.touch(rank);
                self.proceed(rank);
            }
            (state, answer) => panic!("rank {rank} is {state:?} and was answered {answer:?}"),
        }
    }
}

/// The agent.
impl Simulation<'_> {
    /// Something happens to the overlay; then what it wants done is done.
    fn verb(&mut self, what: impl FnOnce(&mut Agent, Nanos)) {
        let now = self.now;
        let agent = self.agent();
        agent.overlay.set_time(now.0);
        what(agent, now);
        self.carry_out();
        let agent = self.agent();
        agent.limit_journal();
        let due = now + agent.poll_period();
        self.poll_at(due);
        if self.stage == Stage::Placing && !self.agent().overlay.is_placing() {
            self.start_jobs();
        } else if self.stage == Stage::Draining && self.agent().is_clean() {
            self.finish_draining();
        }
    }

    /// The agent looks round at that time, if not sooner.
    fn poll_at(&mut self, due: Nanos) {
        let agent = self.agent();
        if agent.poll_due.is_none_or(|earlier| earlier > due) {
            agent.poll_due = Some(due);
            self.queue.push(due, Event::Poll);
        }
    }

    /// Regions are to be on flash before the jobs begin; they begin at once where there are none.
    pub(crate) fn place_regions(&mut self, regions: Vec<Regions>) {
        self.verb(|agent, _| {
            let shared = agent.memory.view();
            for (file, regions) in (0u32..).zip(regions) {
                let observed = Fingerprint { size: agent.files[file as usize].size, modified_ns: 0 };
                let number = agent.overlay.know(shared, Agent::identity(file), PATH, observed);
                let number = number.expect("the table has room for every file, and nobody changes one unseen");
                agent.files[file as usize].number = number;
                agent.by_number.insert(number, file);
                agent.overlay.set_regions(shared, number, regions);
            }
            agent.overlay.place(shared, true);
        });
    }

    /// Regions follow the programs.
    pub(crate) fn follow(&mut self, costs: Costs) {
        self.verb(|agent, _| agent.overlay.follow(agent.memory.view(), Some(costs)));
    }

    /// Everything dirty is to go back; false if there is no agent.
    pub(crate) fn begin_drain(&mut self) -> bool {
        if !matches!(self.client, Client::Overlay(_)) {
            return false;
        }
        self.verb(|agent, _| {
            agent.draining = true;
            // Who wanted regions to follow, or to be placed, is gone.
            agent.overlay.follow(agent.memory.view(), None);
            agent.overlay.place(agent.memory.view(), false);
            agent.overlay.drain(true);
            agent.overlay.poll(agent.memory.view());
        });
        true
    }

    /// [`Event::Poll`].
    pub(crate) fn on_poll(&mut self) {
        let now = self.now;
        let agent = self.agent();
        if agent.poll_due != Some(now) {
            return;
        }
        agent.poll_due = None;
        self.verb(|agent, _| agent.overlay.poll(agent.memory.view()));
    }

    /// [`Event::Ask`].
    pub(crate) fn on_ask(&mut self, rank: u32) {
        self.verb(|agent, now| {
            let message = agent.asked[rank as usize].take().expect("a message is on its way");
            let slot = &agent.memory.slots[rank as usize];
            let envelope = Envelope { slot: rank, seq: slot.seq.load(Ordering::Acquire) };
            let shared = agent.memory.view();
            let Message::Open { inode, size, writable, .. } = message else {
                return agent.overlay.on_request(shared, now.0, envelope, &message);
            };
            let file = inode as u32 - 1;
            let identity = Agent::identity(file);
            let observed = Fingerprint { size, modified_ns: 0 };
            agent.overlay.on_open(shared, envelope, Opening { identity, observed, writable, path: PATH });
            if let Some(number) = agent.overlay.find(identity) {
                agent.files[file as usize].number = number;
                agent.by_number.insert(number, file);
            }
        });
    }

    fn carry_out(&mut self) {
        loop {
            let outputs = self.agent().store_records();
            for output in outputs {
                self.carry_out_one(output);
            }
            if self.agent().overlay.is_settled() {
                return;
            }
        }
    }

    fn carry_out_one(&mut self, output: Output) {
        let (now, way_back, nodes) = (self.now, self.software.way_back(), self.fabric.nodes());
        let agent = self.agent();
        match output {
            Output::Reply(envelope, answer) => {
                agent.answers[envelope.slot as usize] = Some(answer);
                let at = now + way_back;
                self.queue.push(at, Event::Answer(envelope.slot));
            }
            Output::Copy(order) => {
                let node = agent.next_node;
                agent.next_node = (node + 1) % nodes;
                let copy = agent.copies.insert(Copy::new(order, node));
                match self.software.copy(now, node) {
                    at if at == now => self.begin_copy(copy),
                    at => self.queue.push(at, Event::Copy(copy)),
                }
            }
            Output::Extend { file, size, .. } => {
                let slow = agent.file_of(file) as usize;
                agent.files[slow].size = agent.files[slow].size.max(size);
                let size = agent.files[slow].size;
                agent.overlay.on_extended(agent.memory.view(), file, Ok(size));
            }
            Output::Barrier { data_files, slow_files, .. } => {
                let slow_follows = !slow_files.is_empty();
                agent.syncing = Some(Syncing::Data { slow_follows });
                if data_files.is_empty() {
                    self.continue_barrier();
                } else {
                    self.flush(TierName::Flash);
                }
            }
            Output::SyncJournal => {
                // What was appended since is made durable as well.
                agent.journal.append(agent.overlay.take_journal().len() as u64);
                agent.overlay.on_appended(agent.memory.view());
                agent.syncing = Some(Syncing::JournalWrite);
                let (place, range) = agent.journal.write();
                let order =
                    Order { tier: TierName::Flash, operation: Operation::Write, ..self.own_order(Owner::Barrier, 0) };
                self.fabric.start(now, &mut self.queue, order, place, range);
            }
            Output::Forget(number) => {
                if let Some(file) = agent.by_number.remove(&number) {
                    agent.files[file as usize].number = NO_FILE;
                }
            }
            Output::Show { slot, at, page } => agent.overlay.show_slab(agent.memory.view(), slot, at, page),
            Output::List(index) => agent.overlay.list(agent.memory.view(), index),
            Output::Grow { .. } | Output::Unsynced(_) | Output::Punch(_) | Output::RemoveDataFile(_) => {}
            Output::Send(_) | Output::Deadline(_) | Output::ReadLog(_) | Output::Expelled => {
                unreachable!("a simulated site has one agent")
            }
        }
    }

    fn own_order(&self, owner: Owner, rank: u32) -> Order {
        let origin = Origin { job: AGENT_JOB, rank, file: 0 };
        Order { owner, tier: TierName::Disk, operation: Operation::Flush, node: 0, origin }
    }

    fn flush(&mut self, tier: TierName) {
        let order = Order { tier, ..self.own_order(Owner::Barrier, 0) };
        self.fabric.flush(self.now, &mut self.queue, order);
    }

    /// A transfer of the barrier under way is done.
    pub(crate) fn on_synced(&mut self) {
        let now_ns = self.now.0;
        self.agent().overlay.set_time(now_ns);
        self.continue_barrier();
        self.verb(|_, _| {});
    }

    fn continue_barrier(&mut self) {
        let agent = self.agent();
        match agent.syncing.take() {
            Some(Syncing::Data { slow_follows: true }) => {
                agent.syncing = Some(Syncing::Slow);
                self.flush(TierName::Disk);
            }
            Some(Syncing::Data { slow_follows: false } | Syncing::Slow) => {
                agent.overlay.on_barrier_synced(agent.memory.view(), Ok(()));
            }
            Some(Syncing::JournalWrite) => {
                agent.syncing = Some(Syncing::Journal);
                self.flush(TierName::Flash);
            }
            Some(Syncing::Journal) => agent.overlay.on_journal_durable(agent.memory.view(), Ok(())),
            None => unreachable!("a barrier is under way"),
        }
    }

    /// [`Event::Copy`].
    pub(crate) fn begin_copy(&mut self, number: u32) {
        self.continue_copy(number);
    }

    /// Starts a copy's next transfer; false if it has none.
    fn continue_copy(&mut self, number: u32) -> bool {
        let now = self.now;
        let Client::Overlay(agent) = &self.client else { unreachable!("only the overlay copies") };
        let copy = &agent.copies[number];
        let Copy { order, step, node, .. } = copy;
        let (range, runs) = (order.range, copy.runs.len());
        let on_disk = match order.kind {
            CopyKind::Fetch => *step == 0,
            CopyKind::WriteBack => *step == runs,
        };
        if *step > runs {
            return false;
        }
        let reads = on_disk == (order.kind == CopyKind::Fetch);
        let operation = if reads { Operation::Read } else { Operation::Write };
        let (node, file) = (*node, order.file);
        let run = (!on_disk).then(|| copy.run(step - usize::from(order.kind == CopyKind::Fetch)));
        let (tier, place, offset, length) = match run {
            Some(run) => {
                let length = run.iter().map(|piece| piece.range.length).sum();
                (TierName::Flash, agent.data_place(run[0].data_file), run[0].place, length)
            }
            None => {
                let file = agent.file_of(file) as usize;
                (TierName::Disk, self.files[file].place, range.offset, range.length)
            }
        };
        let order = Order { tier, operation, node, ..self.own_order(Owner::Copy(number), number) };
        self.fabric.start(now, &mut self.queue, order, place, Range::new(offset, length));
        true
    }

    /// A copy's transfer is done.
    pub(crate) fn on_copy_moved(&mut self, number: u32) {
        if self.checker.is_some() {
            self.tell_copy(number);
        }
        self.agent().copies[number].step += 1;
        if self.continue_copy(number) {
            return;
        }
        self.verb(|agent, _| {
            let id = agent.copies[number].order.id;
            agent.copies.remove(number);
            agent.overlay.on_copy_done(agent.memory.view(), id, Ok(()));
        });
    }

    fn tell_copy(&mut self, number: u32) {
        let agent = self.agent();
        let moved = &agent.copies[number];
        let Copy { order, step, .. } = moved;
        let (copy, kind, range, step, runs) = (order.id, order.kind, order.range, *step, moved.runs.len());
        let disk = Spot { space: Space::Disk(agent.file_of(order.file)), offset: range.offset };
        let of_run = |number: usize| {
            moved.run(number).iter().map(move |piece| {
                let skip = piece.range.offset - range.offset;
                let (spot, length) =
                    (Spot { space: Space::Flash(piece.data_file), offset: piece.place }, piece.range.length);
                match kind {
                    CopyKind::Fetch => Check::Put { copy, skip, spot, length },
                    CopyKind::WriteBack => Check::Picked { copy, skip, spot, length },
                }
            })
        };
        let events: Vec<Check> = match kind {
            CopyKind::Fetch if step == 0 => vec![Check::Picked { copy, skip: 0, spot: disk, length: range.length }],
            CopyKind::Fetch => of_run(step - 1).collect(),
            CopyKind::WriteBack if step < runs => of_run(step).collect(),
            CopyKind::WriteBack => vec![Check::Put { copy, skip: 0, spot: disk, length: range.length }],
        };
        events.into_iter().for_each(|event| self.tell(event));
        if step == runs {
            self.tell(Check::Copied { copy });
        }
    }

    /// The shared file, for figures.
    pub(crate) fn shared(&self) -> Option<Shared<'_>> {
        match &self.client {
            Client::Overlay(agent) => Some(agent.memory.view()),
            Client::Stock | Client::Placed(_) => None,
        }
    }
}
