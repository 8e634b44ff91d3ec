//! Thousands of threads that do nothing cost those that do something nothing.

use std::collections::VecDeque;

use headstart_policy::client::FetchTurn;
use headstart_protocol::lease::Place;
use headstart_protocol::memory::Memory;
use headstart_protocol::message::{Envelope, Request};
use headstart_protocol::shared::{KIND_EXTEND, KIND_WRITE, SLOTS_MAX};
use headstart_units::request::Range;
use headstart_units::{Capacity, GRANULE_BYTES};

use crate::fingerprint::Fingerprint;
use crate::output::{Answer, Output};
use crate::overlay::Overlay;
use crate::parts::looks;
use crate::process::Process;
use crate::requests::opening::Opening;
use crate::settings::Settings;

const FILE_BYTES: u64 = 4 * GRANULE_BYTES;
const REQUEST_BYTES: u64 = 4096;
/// The slots of the threads that do something.
const WRITER: u32 = 3;
const READER: u32 = 100;

/// A file of four granules, and a runtime that does at once what is asked of it.
struct Site {
    memory: Memory,
    overlay: Overlay,
    seq: u64,
    answers: VecDeque<(Envelope, Answer)>,
    now_ns: u64,
}

impl Site {
    fn new(threads: usize) -> Site {
        let settings = Settings { capacity: Capacity::Bytes(1 << 19), ..Settings::default() };
        let mut overlay = Overlay::new(settings, 0, 1);
        (0..threads as u32).for_each(|slot| overlay.on_join(slot, Process { pid: slot + 1, start_time: 1 }));
        let memory = Memory::new(2, threads, 256);
        let mut site = Site { memory, overlay, seq: 0, answers: VecDeque::new(), now_ns: 0 };
        let observed = Fingerprint { size: FILE_BYTES, modified_ns: 0 };
        let envelope = site.next(WRITER);
        let opening = Opening { identity: Default::default(), observed, writable: true, path: b"/file" };
        site.overlay.on_open(site.memory.view(), envelope, opening);
        site.carry_out();
        assert_eq!(site.answers.pop_front(), Some((envelope, Answer::Opened { file: 0 })));
        site
    }

    fn next(&mut self, slot: u32) -> Envelope {
        self.seq += 1;
        Envelope { slot, seq: self.seq }
    }

    fn carry_out(&mut self) {
        while !self.overlay.is_settled() {
            self.overlay.take_journal();
            let outputs = self.overlay.take_outputs();
            let shared = self.memory.view();
            self.overlay.on_appended(shared);
            for output in outputs {
                match output {
                    Output::Reply(envelope, answer) => self.answers.push_back((envelope, answer)),
                    Output::Copy(order) => self.overlay.on_copy_done(shared, order.id, Ok(())),
                    Output::Extend { file, size, .. } => self.overlay.on_extended(shared, file, Ok(size)),
                    Output::Show { slot, at, page } => self.overlay.show_slab(shared, slot, at, page),
                    Output::Barrier { .. } => self.overlay.on_barrier_synced(shared, Ok(())),
                    Output::SyncJournal => self.overlay.on_journal_durable(shared, Ok(())),
                    _ => {}
                }
            }
        }
    }

    fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
        self.overlay.set_time(self.now_ns);
        self.overlay.poll(self.memory.view());
        self.carry_out();
    }

    fn begin(&mut self, slot: u32, request: &Request<'_>) {
        let envelope = self.next(slot);
        self.overlay.on_request(self.memory.view(), 0, envelope, request);
        self.carry_out();
    }

    fn ask(&mut self, slot: u32, request: &Request<'_>) -> Answer {
        self.begin(slot, request);
        self.answers.pop_front().expect("it is answered at once").1
    }

    /// The slab for a write; asked for if there is none.
    fn place(&mut self, range: Range) -> Place {
        let found = |site: &Site| site.memory.slots[WRITER as usize].slab(0, range).map(|(_, slab)| slab);
        if found(self).is_none_or(|slab| slab.length < range.length) {
            self.ask(WRITER, &Request::Slab { file: 0, offset: range.offset, length: range.length });
        }
        found(self).expect("there is room")
    }

    fn commit(&mut self, range: Range) {
        let Place { data_file, place, .. } = self.place(range);
        let Range { offset, length } = range;
        self.begin(WRITER, &Request::Commit { file: 0, data_file, offset, length, place });
    }

    /// Writes on flash, reads from there, direct writes, hints, with flash so full that write-backs are planned and
    /// clean bytes give way all the time.
    fn work(&mut self, rounds: u64) {
        let length = REQUEST_BYTES;
        for k in 0..rounds {
            let offset = k * 7 % (FILE_BYTES / length) * length;
            self.commit(Range::new(offset, length));
            self.answers.clear();
            self.ask(READER, &Request::Read { file: 0, offset, length, leased: false, in_order: false });
            self.memory.slots[READER as usize].release_read();
            if k % 4 == 0 {
                self.ask(READER, &Request::Write { file: 0, offset, length, extends: false });
                self.ask(READER, &Request::WriteDone { file: 0, offset, length });
            }
            self.memory.view().hint(READER, 0, Range::new(offset, length), 1 << 30, FetchTurn::Soon);
            self.pass(20_000_000);
        }
    }
}

#[test]
fn slots_looked_at_for_a_request_do_not_grow_with_the_threads_that_do_nothing() {
    let looked_at = |threads: usize| {
        let mut site = Site::new(threads);
        // Every slot is looked at once for each granule that settles.
        site.work(200);
        let settled = looks::take();
        site.work(200);
        let done = site.overlay.counters();
        let figures =
            [done.write_backs_total, done.evicted_extents_total, done.fetches_total, done.critical_reads_total];
        assert!(figures.iter().all(|figure| *figure > 0), "{figures:?}");
        (settled, looks::take())
    };
    let (few, many) = (looked_at(128), looked_at(SLOTS_MAX));
    assert!(many.0 > few.0, "the granules settled");
    assert!(many.1 <= few.1 + few.1 / 4, "{many:?} beside {few:?}");
}

#[test]
fn a_slot_is_looked_at_once_for_what_waits_until_another_leaves_the_slow_file() {
    for (kind, range) in
        [(KIND_WRITE, Range::new(0, REQUEST_BYTES)), (KIND_EXTEND, Range::new(FILE_BYTES, REQUEST_BYTES))]
    {
        let mut site = Site::new(SLOTS_MAX);
        let stopped = SLOTS_MAX / 2;
        // Far away from the commit if it is to hold up the size alone.
        let written = if kind == KIND_WRITE { range } else { Range::new(8 * FILE_BYTES, REQUEST_BYTES) };
        site.memory.slots[stopped].publish_cheap(kind, 0, written);
        site.place(range);
        looks::take();
        site.commit(range);
        let polls = 100;
        (0..polls).for_each(|_| site.pass(1_000_000));
        assert!(site.answers.is_empty(), "it waits");
        site.memory.slots[stopped].free();
        site.pass(1_000_000);
        assert_eq!(site.answers.len(), 1);
        // Granule and size are looked at in turn, a few times in each poll.
        let most = 2 * SLOTS_MAX + 10 * polls;
        assert!(looks::take() <= most, "of {most} for {kind}");
    }
}
