//! An overlay among processes that send anything in any order and write anywhere in the shared file.
//!
//! Checked: no panic; answers go to whoever asked; no data file grows past the capacity; no page of flash
//! holds two extents. Not checked: what such processes read, and whether anybody else gets on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use headstart_overlay::journal::{HEADER_BYTES, Identity};
use headstart_overlay::recovery::{Recovered, Replay};
use headstart_overlay::{Counters, Fingerprint, NotSynced, Opening, Output, Overlay, Process, Settings};
use headstart_policy::client::FetchTurn;
use headstart_protocol::handover::COPIES_MAX;
use headstart_protocol::memory::Memory;
use headstart_protocol::message::{Envelope, Request};
use headstart_protocol::shared::WORDS_PER_FILE;
use headstart_units::Capacity;

use super::source::Source;

const FILES: usize = 4;
const SLOTS: u32 = 3;
const CAPACITY_BYTES: u64 = 1 << 20;
/// Data files grow in steps of this many bytes.
const GROWTH_BYTES: u64 = 16 << 20;

/// A shared file.
pub fn memory() -> Memory {
    Memory::new(FILES, SLOTS as usize, COPIES_MAX)
}

struct World<'a> {
    source: Source<'a>,
    memory: Memory,
    overlay: Overlay,
    journal: Vec<u8>,
    tasks: Vec<Output>,
    seqs: [u64; SLOTS as usize],
    capacity_max: u64,
}

/// Lets such processes do what `bytes` say; what the overlay came to.
pub fn run(bytes: &[u8]) -> Counters {
    let mut source = Source(bytes);
    let capacity = if source.flag() { Capacity::Bytes(CAPACITY_BYTES) } else { Capacity::Share(0.2) };
    let settings = Settings { capacity, copies_max: 4, critical_max: 8, dirty_high: 0.1, ..Settings::default() };
    let mut world = World {
        source,
        memory: memory(),
        overlay: Overlay::new(settings, HEADER_BYTES as u64, 1),
        journal: Vec::new(),
        tasks: Vec::new(),
        seqs: [0; SLOTS as usize],
        capacity_max: CAPACITY_BYTES,
    };
    (0..SLOTS).for_each(|slot| world.join(slot));
    while !world.source.is_empty() {
        world.step();
        world.carry_out();
    }
    let recovered = Recovered::replay(&world.journal, Replay::Everything);
    assert_pages_differ(&recovered);
    world.overlay.counters()
}

impl World<'_> {
    fn join(&mut self, slot: u32) {
        // Two threads of one process, and another process.
        self.overlay.on_join(slot, Process { pid: 1 + slot / 2, start_time: 1 });
    }

    fn slot(&mut self) -> u32 {
        self.source.below(SLOTS)
    }

    fn file(&mut self) -> u32 {
        match self.source.byte() {
            0 => self.source.number() as u32,
            byte => u32::from(byte) % FILES as u32,
        }
    }

    fn envelope(&mut self, slot: u32) -> Envelope {
        let seq = &mut self.seqs[slot as usize];
        *seq = if self.source.byte() == 0 { self.source.number() } else { seq.wrapping_add(1) };
        Envelope { slot, seq: *seq }
    }

    fn step(&mut self) {
        match self.source.below(20) {
            0..=5 => self.request(),
            6 | 7 => self.open(),
            8 | 9 => self.absorb(),
            10 | 11 => self.scribble_slot(),
            12 => self.scribble_elsewhere(),
            13 => self.overlay.poll(self.memory.view()),
            14 => {
                let slot = self.slot();
                let size = (self.source.below(2) == 0).then(|| self.source.below(1 << 20).into());
                self.overlay.on_hang_up(self.memory.view(), slot, size);
                self.join(slot);
            }
            15 => {
                let on = self.source.flag();
                self.overlay.drain(on);
            }
            _ => self.complete(),
        }
    }

    fn request(&mut self) {
        let (slot, file) = (self.slot(), self.file());
        let envelope = self.envelope(slot);
        let (offset, length) = (self.source.number(), self.source.number());
        let paths = self.source.path();
        let request = match self.source.below(17) {
            0 => Request::Close { file },
            1 => Request::Slab { file, offset, length },
            2 => Request::Commit { file, data_file: self.source.below(4), offset, length, place: self.source.number() },
            3 => Request::Read { file, offset, length, leased: self.source.flag(), in_order: self.source.flag() },
            4 => Request::Write { file, offset, length, extends: self.source.flag() },
            5 => Request::WriteDone { file, offset, length },
            6 => Request::Truncate { file, size: offset },
            7 => Request::TruncateDone { file, size: offset, changed: self.source.flag() },
            8 => Request::Sync { file },
            9 => Request::WriteBack { file, offset, length },
            10 => Request::Bypass { file, writes: self.source.flag() },
            11 => {
                let (inode, is_named) = (self.source.below(6).into(), self.source.flag());
                return self.overlay.on_unlinked(self.memory.view(), envelope, inode, |_| is_named);
            }
            12 => Request::Rearrange { file, from: offset },
            16 => Request::Confirm { file },
            13 => Request::RearrangeDone { file, from: offset, size: length },
            14 => Request::Renamed {
                old_length: 2,
                exchanged: self.source.flag(),
                paths: &[b"/a".as_slice(), &paths].concat(),
            },
            _ => Request::Renamed { old_length: length as u32, exchanged: self.source.flag(), paths: &paths },
        };
        self.overlay.on_request(self.memory.view(), 1, envelope, &request);
    }

    fn open(&mut self) {
        let slot = self.slot();
        let envelope = self.envelope(slot);
        let identity = Identity { inode: self.source.below(6).into(), birth_ns: 0 };
        // The runtime looks at the file itself, so that its size is one that files can have.
        let observed =
            Fingerprint { size: self.source.number() & (i64::MAX as u64), modified_ns: self.source.number() };
        let (writable, path) = (self.source.flag(), self.source.path());
        self.overlay.on_open(self.memory.view(), envelope, Opening { identity, observed, writable, path: &path });
    }

    /// What a library does: flash space, then a commit in it, with one thing wrong now and then.
    fn absorb(&mut self) {
        let (slot, file) = (self.slot(), self.file());
        let (offset, length) = (u64::from(self.source.byte()) * 1024, 1 + u64::from(self.source.byte()) * 64);
        let envelope = self.envelope(slot);
        self.overlay.on_request(self.memory.view(), 1, envelope, &Request::Slab { file, offset, length });
        self.carry_out();
        let at = self.source.below(8) as usize;
        let slab = self.memory.slots[slot as usize].slabs[at % 2].read();
        let wrong = if self.source.byte() == 0 { self.source.number() } else { 0 };
        let place = slab.place.wrapping_add(offset % 4096).wrapping_add(wrong);
        let envelope = self.envelope(slot);
        let commit = Request::Commit { file, data_file: slab.data_file, offset, length, place };
        self.overlay.on_request(self.memory.view(), 1, envelope, &commit);
    }

    fn scribble_slot(&mut self) {
        let slot = self.slot() as usize;
        let number = self.source.number();
        let s = &self.memory.slots[slot];
        let (piece, slab) = (&s.pieces[0], &s.slabs[self.source.below(2) as usize]);
        let ring = &self.memory.rings[slot];
        let entry = &ring.entries[self.source.below(4) as usize];
        let hint = &s.hints[self.source.below(32) as usize];
        let long: [&AtomicU64; 22] = [
            &s.offset,
            &s.length,
            &s.seq,
            &s.lease_offset,
            &s.lease_length,
            &s.owner_start,
            &piece.place,
            &piece.length,
            &slab.place,
            &slab.end,
            &s.taken[0],
            &ring.head.0,
            &ring.tail.0,
            &entry.seq,
            &entry.ticket,
            &entry.open,
            &entry.offset,
            &entry.length,
            &entry.place,
            &hint.file,
            &hint.offset,
            &hint.length,
        ];
        let short: [&AtomicU32; 14] = [
            &s.state,
            &s.kind,
            &s.file,
            &s.lease,
            &s.owner_pid,
            &piece.file,
            &piece.data_file,
            &slab.file,
            &slab.data_file,
            &entry.file,
            &entry.data_file,
            &s.pieces_count,
            &s.hints_head,
            &s.hints_tail,
        ];
        match self.source.below((long.len() + short.len()) as u32) as usize {
            at if at < long.len() => long[at].store(number, Ordering::Relaxed),
            at => short[at - long.len()]
                .store(if self.source.flag() { number as u32 } else { number as u32 % 4 }, Ordering::Relaxed),
        }
        // A hint that may be taken.
        if self.source.flag() {
            let (file, range, benefit_ns) = (self.source.below(5), self.source.range(), self.source.number());
            let turn = [FetchTurn::Soon, FetchTurn::Idle][self.source.below(2) as usize];
            self.memory.view().hint(slot as u32, file, range, benefit_ns, turn);
        }
    }

    fn scribble_elsewhere(&mut self) {
        let number = self.source.number();
        let file = self.source.below(FILES as u32) as usize;
        let entry = &self.memory.files[file];
        let cell = match self.source.below(6) {
            0 => &self.memory.header.slots_used,
            1 => &self.memory.header.free_bytes,
            2 => &entry.size,
            3 => &entry.set_bits,
            4 => &entry.modified_ns,
            _ => &self.memory.bits[file * WORDS_PER_FILE],
        };
        cell.store(number, Ordering::Relaxed);
    }

    fn complete(&mut self) {
        if self.tasks.is_empty() {
            return self.overlay.request_barrier();
        }
        let at = self.source.byte() as usize % self.tasks.len();
        let result = if self.source.below(8) == 0 { Err(5) } else { Ok(()) };
        let shared = self.memory.view();
        match self.tasks.swap_remove(at) {
            Output::Copy(order) => self.overlay.on_copy_done(shared, order.id, result),
            Output::Extend { file, size, .. } => self.overlay.on_extended(shared, file, result.map(|()| size)),
            Output::Barrier { data_files, slow_files, directories: _ } => {
                let failed = NotSynced { data_files, slow_files, ..NotSynced::default() };
                self.overlay.on_barrier_synced(shared, result.map_err(|_| failed));
            }
            Output::SyncJournal => self.overlay.on_journal_durable(shared, result),
            _ => {}
        }
    }

    fn carry_out(&mut self) {
        while !self.overlay.is_settled() {
            self.carry_out_once();
        }
    }

    fn carry_out_once(&mut self) {
        let (records, outputs) = (self.overlay.take_journal(), self.overlay.take_outputs());
        self.journal.extend(records);
        self.overlay.on_appended(self.memory.view());
        self.capacity_max = self.capacity_max.max(self.overlay.capacity_bytes());
        for output in outputs {
            match output {
                Output::Reply(envelope, _) => assert!(envelope.slot < SLOTS, "an answer to nobody"),
                Output::Grow { size, .. } => {
                    assert!(size <= self.capacity_max.saturating_add(2 * GROWTH_BYTES), "a data file of {size} bytes");
                }
                Output::Copy(_) | Output::Extend { .. } | Output::Barrier { .. } | Output::SyncJournal => {
                    self.tasks.push(output);
                }
                Output::Show { slot, at, page } => self.overlay.show_slab(self.memory.view(), slot, at, page),
                Output::List(index) => self.overlay.list(self.memory.view(), index),
                Output::Unsynced(_) | Output::Punch(_) | Output::RemoveDataFile(_) | Output::Forget(_) => {}
                Output::Send(_)
                | Output::Deadline(_)
                | Output::ReadLog(_)
                | Output::Salvage { .. }
                | Output::Expelled => {
                    unreachable!("it has joined no others")
                }
            }
        }
    }
}

/// No byte of a data file is mapped twice.
fn assert_pages_differ(recovered: &Recovered) {
    let mut places: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    for mapped in recovered.files.values().flat_map(|file| file.map.iter()) {
        places.insert((mapped.data_file, mapped.place), mapped.range.length);
    }
    let mut last = (0, 0);
    for ((data_file, place), length) in places {
        assert!(last.0 < data_file || last.1 <= place, "two extents at {place} of data file {data_file}");
        last = (data_file, place + length);
    }
}
