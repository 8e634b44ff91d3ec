//! A request as the library carries it out: the steps of `crates/preload/src/data_path`, one transfer or
//! message at a time.
//!
//! ```text
//! read:  publish, bits clear -> CheapRead -> hints
//!        else Read? -> FlashRead, piece by piece | SlowRead -> hints; again for the rest
//! write: part by part as policies answer: slab -> FlashWrite -> Commit? ; no space: as the disk
//!        disk: publish, cheap -> CheapWrite;  else Write? -> DirectWrite -> WriteDone?
//! ```

use std::sync::atomic::Ordering;

use headstart_overlay::Answer;
use headstart_policy::client::Decision;
use headstart_policy::client::Request;
use headstart_policy::client::carl::Regions;
use headstart_policy::client::chain::Chain;
use headstart_policy::client::s4d::S4d;
use headstart_protocol::counters::{Counter, Served};
use headstart_protocol::lease::Place;
use headstart_protocol::message::Request as Message;
use headstart_protocol::read_times::{Side, is_measured};
use headstart_protocol::shared::{KIND_EXTEND, KIND_READ, PIECES_MAX, Shared, Slot};
use headstart_units::Nanos;
use headstart_units::request::{Direction, Range};

/// What a thread has at hand while it decides.
#[derive(Clone, Copy)]
pub struct Thread<'a> {
    /// Its slot.
    pub slot: &'a Slot,
    /// The shared file.
    pub shared: Shared<'a>,
    /// The policies of the run.
    pub chain: Chain,
    /// S4D's cost models.
    pub s4d: Option<&'a S4d>,
    /// The regions of the request's file.
    pub regions: &'a Regions,
    /// The time.
    pub now: Nanos,
}

impl Thread<'_> {
    fn decide(&self, request: &Request) -> (Request, Decision) {
        self.chain.first_part(self.s4d, self.regions, request)
    }
}

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Move these bytes of the slow file, then [`Call::on_moved`].
    Slow(Range),
    /// Move bytes of a data file, from `place` on, which are these of the slow file, then [`Call::on_moved`].
    Flash {
        /// Bytes of the slow file.
        range: Range,
        /// The data file.
        data_file: u32,
        /// Where in it.
        place: u64,
    },
    /// Ask the agent, then [`Call::on_answer`].
    Ask(Message<'static>),
    /// All is done.
    Done,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    CheapRead,
    ReadAsked,
    FlashRead { count: usize, next: usize },
    SlowRead { part: Range, is_sooner: bool },
    SlabAsked,
    FlashWrite(Place),
    CommitAsked { length: u64 },
    CheapWrite,
    GoAsked,
    DirectWrite,
    DoneAsked,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Call {
    file: u32,
    request: Request,
    /// Bytes done.
    done: u64,
    /// The end of the part of a write that policies decided alike.
    part_end: u64,
    stage: Stage,
    pieces: [Place; PIECES_MAX],
    /// When the transfer under way began.
    since: Nanos,
    /// Bytes that flash served.
    pub flash_bytes: u64,
}

impl Call {
    /// Begins a request, which is not empty, for a file by its number at the agent.
    pub fn begin(thread: &Thread<'_>, file: u32, request: Request) -> (Call, Action) {
        let mut call = Call {
            file,
            request,
            done: 0,
            part_end: 0,
            stage: Stage::CheapRead,
            pieces: [Place::default(); PIECES_MAX],
            since: thread.now,
            flash_bytes: 0,
        };
        let action = match request.direction {
            Direction::Read => call.begin_read(thread),
            Direction::Write => call.next_part(thread),
        };
        (call, action)
    }

    fn rest(&self) -> Range {
        Range::between(self.request.range.offset + self.done, self.request.range.end())
    }

    fn rest_of_part(&self) -> Range {
        Range::between(self.request.range.offset + self.done, self.part_end)
    }

    /// The bytes that the action before asked for are moved.
    pub fn on_moved(&mut self, thread: &Thread<'_>) -> Action {
        match self.stage {
            Stage::CheapRead => {
                thread.slot.free();
                if thread.slot.measures(&thread.shared.files[self.file as usize], self.request.distance) {
                    self.measure(thread, Side::Disk, self.request.range.length);
                }
                thread.slot.count(Counter::CheapRequests, 1);
                self.read_by_disk(thread, self.request.range);
                Action::Done
            }
            Stage::FlashRead { count, next } => {
                let piece = self.pieces[next - 1];
                self.measure(thread, Side::Flash, piece.length);
                self.advance_on_flash(piece.length);
                if next < count && !self.rest().is_empty() {
                    return self.read_piece(thread, count, next);
                }
                thread.slot.release_read();
                self.next_read(thread)
            }
            Stage::SlowRead { part, is_sooner } => {
                thread.slot.release_read();
                self.measure(thread, Side::Disk, part.length);
                if is_sooner {
                    thread.slot.count(Counter::DiskReadSoonerBytes, part.length);
                } else {
                    self.read_by_disk(thread, part);
                }
                self.done += part.length;
                self.next_read(thread)
            }
            Stage::FlashWrite(slab) => {
                let Range { offset, length } = Range::new(self.rest_of_part().offset, slab.length);
                self.stage = Stage::CommitAsked { length };
                let Place { data_file, place, .. } = slab;
                Action::Ask(Message::Commit { file: self.file, data_file, offset, length, place })
            }
            Stage::CheapWrite => {
                thread.slot.free();
                thread.slot.count(Counter::CheapRequests, 1);
                self.done = self.part_end - self.request.range.offset;
                self.next_part(thread)
            }
            Stage::DirectWrite => {
                self.stage = Stage::DoneAsked;
                let Range { offset, length } = self.rest_of_part();
                Action::Ask(Message::WriteDone { file: self.file, offset, length })
            }
            Stage::ReadAsked | Stage::SlabAsked | Stage::CommitAsked { .. } | Stage::GoAsked | Stage::DoneAsked => {
                unreachable!("a thread that waits for an answer moves nothing")
            }
        }
    }

    /// The agent's answer.
    ///
    /// # Panics
    /// If it is no answer to what was asked, or an error: nothing fails here.
    pub fn on_answer(&mut self, thread: &Thread<'_>, answer: Answer) -> Action {
        match (self.stage, answer) {
            (Stage::ReadAsked, Answer::Flash { .. }) => {
                let mut count = 0;
                for piece in thread.slot.leased_pieces() {
                    self.pieces[count] = piece;
                    count += 1;
                }
                self.read_piece(thread, count, 0)
            }
            (Stage::ReadAsked, answer @ (Answer::Disk { length } | Answer::Sooner { length })) => {
                let part = Range::new(self.rest().offset, length.min(self.rest().length));
                self.stage = Stage::SlowRead { part, is_sooner: matches!(answer, Answer::Sooner { .. }) };
                self.since = thread.now;
                Action::Slow(part)
            }
            (Stage::SlabAsked, Answer::Done) => match thread.slot.slab(self.file, self.rest_of_part()) {
                Some(slab) => self.write_slab(slab),
                None => self.give_up_flash(thread),
            },
            (Stage::CommitAsked { length }, Answer::Done) => {
                self.advance_on_flash(length);
                if self.rest_of_part().is_empty() {
                    thread.slot.free();
                    return self.next_part(thread);
                }
                self.absorb_rest(thread)
            }
            (Stage::SlabAsked | Stage::CommitAsked { .. }, Answer::NoSpace | Answer::Bypassed | Answer::HeldUp) => {
                self.give_up_flash(thread)
            }
            (Stage::GoAsked, Answer::Go) => {
                self.stage = Stage::DirectWrite;
                Action::Slow(self.rest_of_part())
            }
            (Stage::DoneAsked, Answer::Done) => {
                thread.slot.free();
                self.done = self.part_end - self.request.range.offset;
                self.next_part(thread)
            }
            (stage, answer) => panic!("{answer:?} is no answer to {stage:?}"),
        }
    }

    fn advance_on_flash(&mut self, length: u64) {
        self.done += length;
        self.flash_bytes += length;
    }

    fn begin_read(&mut self, thread: &Thread<'_>) -> Action {
        let range = self.request.range;
        thread.slot.publish_cheap(KIND_READ, self.file, range);
        if thread.shared.all_clear(self.file, range) {
            self.stage = Stage::CheapRead;
            return Action::Slow(range);
        }
        thread.slot.ask();
        self.next_read(thread)
    }

    fn next_read(&mut self, thread: &Thread<'_>) -> Action {
        let Range { offset, length } = self.rest();
        if length == 0 {
            thread.slot.free();
            return Action::Done;
        }
        self.stage = Stage::ReadAsked;
        Action::Ask(Message::Read { file: self.file, offset, length })
    }

    fn read_piece(&mut self, thread: &Thread<'_>, count: usize, next: usize) -> Action {
        let rest = self.rest();
        let piece = &mut self.pieces[next];
        piece.length = piece.length.min(rest.length);
        self.stage = Stage::FlashRead { count, next: next + 1 };
        self.since = thread.now;
        Action::Flash { range: Range::new(rest.offset, piece.length), data_file: piece.data_file, place: piece.place }
    }

    fn read_by_disk(&self, thread: &Thread<'_>, range: Range) {
        let request = Request { range, ..self.request };
        thread.slot.read_by_disk(self.file, request, range.length, |request| thread.decide(request));
    }

    fn measure(&self, thread: &Thread<'_>, side: Side, bytes: u64) {
        if !is_measured(self.request.distance) {
            return;
        }
        let took = thread.now.since(self.since);
        thread.shared.files[self.file as usize].read_times.add(side, bytes, took.0);
    }

    fn next_part(&mut self, thread: &Thread<'_>) -> Action {
        let rest = self.rest();
        if rest.is_empty() {
            return Action::Done;
        }
        let (part, decision) = thread.decide(&Request { range: rest, ..self.request });
        self.part_end = part.range.end();
        match decision {
            Decision::Flash { .. } | Decision::Fetch { .. } => self.absorb(thread),
            Decision::Disk(reason) => {
                thread.slot.served(Served::by_disk(Direction::Write, reason), part.range.length);
                self.direct(thread)
            }
            Decision::Pass => self.direct(thread),
        }
    }

    fn absorb(&mut self, thread: &Thread<'_>) -> Action {
        let (header, part) = (thread.shared.header, self.rest_of_part());
        if header.free_bytes.load(Ordering::Relaxed) == 0 && thread.slot.whole_slab(self.file, part).is_none() {
            thread.shared.refuse_write(self.file, part);
            return self.direct(thread);
        }
        thread.slot.publish_asking(KIND_EXTEND, self.file, part);
        self.absorb_rest(thread)
    }

    fn absorb_rest(&mut self, thread: &Thread<'_>) -> Action {
        let rest = self.rest_of_part();
        if let Some(slab) = thread.slot.good_slab(self.file, rest) {
            return self.write_slab(slab);
        }
        self.stage = Stage::SlabAsked;
        Action::Ask(Message::Slab { file: self.file, offset: rest.offset, length: rest.length })
    }

    fn write_slab(&mut self, slab: Place) -> Action {
        let rest = self.rest_of_part();
        let length = slab.length.min(rest.length);
        self.stage = Stage::FlashWrite(Place { length, ..slab });
        Action::Flash { range: Range::new(rest.offset, length), data_file: slab.data_file, place: slab.place }
    }

    fn give_up_flash(&mut self, thread: &Thread<'_>) -> Action {
        thread.slot.free();
        self.direct(thread)
    }

    fn direct(&mut self, thread: &Thread<'_>) -> Action {
        let (rest, shared) = (self.rest_of_part(), thread.shared);
        let extends = thread.slot.publish_write(&shared.files[self.file as usize], self.file, rest);
        if shared.write_is_cheap(self.file, rest, extends) {
            self.stage = Stage::CheapWrite;
            return Action::Slow(rest);
        }
        thread.slot.ask();
        self.stage = Stage::GoAsked;
        Action::Ask(Message::Write { file: self.file, offset: rest.offset, length: rest.length, extends })
    }
}
