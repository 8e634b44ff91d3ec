//! Ranks with an agent: what the library does for them, each step an event.

use std::sync::atomic::Ordering;

use headstart_model::request::Operation;
use headstart_overlay::Answer;
use headstart_policy::client::Request;
use headstart_policy::client::carl::Regions;
use headstart_policy::order::Distance;
use headstart_protocol::call::Step;
use headstart_protocol::message::Request as Message;
use headstart_protocol::shared::Counter;
use headstart_units::Nanos;
use headstart_units::request::Range;

use super::agent::{Agent, NO_FILE};
use super::call::{Call, Thread};
use super::driving::PATH;
use super::site::Site;
use crate::client::Client;
use crate::fabric::Order;
use crate::queue::Event;
use crate::rank::{Rank, Seat, State};
use crate::simulation::Simulation;
use crate::tier::TierName;

/// Those of a file that nobody knows.
static NO_REGIONS: Regions = Regions::NONE;

fn thread(site: &Site, seat: Seat, number: u32, now: Nanos) -> Thread<'_> {
    let agent = &site.agents[seat.agent as usize];
    Thread {
        index: seat.slot,
        slot: &agent.memory.slots[seat.slot as usize],
        shared: agent.memory.view(),
        chain: site.chain,
        s4d: Some(&site.s4d),
        regions: agent.overlay.regions(number).unwrap_or(&NO_REGIONS),
        now,
    }
}

/// A rank's, at its current file.
fn thread_of<'a>(site: &'a Site, rank: &Rank<'_>, now: Nanos) -> Thread<'a> {
    let number = site.agents[rank.seat.agent as usize].numbers[rank.current.file as usize];
    thread(site, rank.seat, number, now)
}

impl Simulation<'_> {
    /// The agent of a rank's node, and the rank's slot there.
    fn agent_of(&mut self, rank: u32) -> (&mut Agent, usize) {
        let Seat { agent, slot } = self.ranks[rank as usize].seat;
        (self.agent(agent), slot as usize)
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
        let size = self.files[file as usize].size;
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
        let number = self.agent_of(rank).0.numbers[file as usize];
        self.ask(rank, Message::Close { file: number });
        false
    }

    /// A rank syncs its current file: the servers' caches first, then what the agent promised.
    pub(crate) fn begin_sync(&mut self, rank: u32, order: Order) {
        let (state, now) = (&mut self.ranks[rank as usize], self.now);
        match &self.client {
            Client::Overlay(site) => {
                let number = site.agents[state.seat.agent as usize].numbers[state.current.file as usize];
                let sync = || Box::new(Call::sync(&thread(site, state.seat, number, now), number));
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
            let Client::Overlay(site) = &self.client else { unreachable!("only the overlay has calls") };
            let thread = thread_of(site, state, self.now);
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
        let (now, seat) = (self.now, self.ranks[rank as usize].seat);
        let Client::Overlay(site) = &self.client else { unreachable!("only the overlay has calls") };
        let agent = &site.agents[seat.agent as usize];
        let number = agent.numbers[current.file as usize];
        let others = &agent.memory.interleavings[number as usize];
        let interleaved = others.add(current.direction, current.range, rank);
        let request = Request {
            direction: current.direction,
            range: current.range,
            distance: Distance { interleaved, ..distance },
        };
        let (call, step) = Call::begin(&thread(site, seat, number, now), number, request);
        self.ranks[rank as usize].call = Some(Box::new(call));
        self.act(rank, step)
    }

    /// What a rank's call wanted moved is moved; false if the call is done.
    pub(crate) fn call_moved(&mut self, rank: u32) -> bool {
        self.advance(rank, None)
    }

    fn advance(&mut self, rank: u32, answer: Option<Answer>) -> bool {
        let Client::Overlay(site) = &self.client else { unreachable!("only the overlay has calls") };
        let state = &mut self.ranks[rank as usize];
        let thread = thread_of(site, state, self.now);
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
                    let size = &mut self.files[current.file as usize].size;
                    *size = (*size).max(range.end());
                }
                let place = self.files[current.file as usize].place;
                self.fabric.start(self.now, &mut self.queue, order, place, range);
                self.moving(rank, TierName::Disk, current.file, range.offset, range);
                true
            }
            Step::Flash { range, data_file, place } => {
                let order = Order { tier: TierName::Flash, ..order };
                let base = self.agent_of(rank).0.lot.data_place(data_file);
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
                self.poll_at(self.ranks[rank as usize].seat.agent, self.now + self.software.way_to_agent());
                let Client::Overlay(site) = &self.client else { unreachable!("only the overlay has calls") };
                let state = &mut self.ranks[rank as usize];
                let thread = thread_of(site, state, self.now);
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
        let (agent, slot) = self.agent_of(rank);
        let slot = &agent.memory.slots[slot];
        slot.seq.store(slot.seq.load(Ordering::Relaxed) + 1, Ordering::Release);
        self.send(rank, message);
    }

    /// Asks under the slot's number as it is.
    fn send(&mut self, rank: u32, message: Message<'static>) {
        let at = self.now + self.software.way_to_agent();
        let (agent, slot) = self.agent_of(rank);
        agent.memory.slots[slot].count(Counter::RoundTrips, 1);
        agent.askers[slot].asked = Some(message);
        self.queue.push(at, Event::Ask(rank));
    }

    /// [`Event::Answer`].
    pub(crate) fn on_answer(&mut self, rank: u32) {
        let (agent, slot) = self.agent_of(rank);
        let answer = agent.askers[slot].answer.take().expect("an answer is on its way");
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
