//! Simulated threads: the library's side of the protocol, one step at a time.

use std::sync::atomic::Ordering;

use super::storage::{Byte, Bytes, moved};
use super::world::{Late, PATHS, RANKS, World};
use crate::{Answer, Process};
use headstart_policy::client::FetchTurn;
use headstart_protocol::message::Request;
use headstart_protocol::shared::{KIND_EXTEND, KIND_READ, KIND_WRITE, STATE_FREE};
use headstart_units::GRANULE_BYTES;
use headstart_units::request::Range;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Truncate,
    /// The kernel is asked to move bytes from there on, and refuses.
    Rearrange,
    Fsync,
    WriteBack,
    Bypass(bool),
    Open(bool),
    Close,
    Unlink,
}

/// Where it stands. `Sent` steps wait for an answer.
#[derive(Clone, Debug)]
enum Step {
    Publish,
    Check,
    CheapIo,
    CheapDone,
    Absorb { asked: bool },
    SlabSent,
    AbsorbIo { data_file: u32, place: u64, length: u64 },
    Commit { data_file: u32, place: u64, length: u64 },
    CommitSent { length: u64 },
    Ask,
    ReadSent,
    FlashIo { pieces: Vec<(u32, u64, u64)> },
    SlowIo { length: u64 },
    GoSent,
    DirectIo,
    DirectDone,
    DoneSent,
    KernelSync,
    Sync,
    LastSent,
}

/// An operation under way.
#[derive(Clone, Debug)]
pub struct Operation {
    kind: Kind,
    inode: usize,
    file: u32,
    /// All of it; `next` is the first byte not done yet.
    range: Range,
    next: u64,
    version: u32,
    begun: u64,
    set_bits: u64,
    step: Step,
}

/// A thread.
#[derive(Clone, Debug)]
pub struct Rank {
    pub process: Process,
    pub seq: u64,
    pub answer: Option<Answer>,
    pub operation: Option<Operation>,
    /// Its slot; none while it waits for an agent that gives it one.
    pub slot: usize,
    /// The request it awaits an answer to.
    pub pending: Option<Request<'static>>,
    /// Whether the agent that runs now knows it.
    pub connected: bool,
}

/// `Rank::slot` of a thread that has none.
pub const NO_SLOT: usize = usize::MAX;

impl Rank {
    pub fn new(index: usize) -> Rank {
        let process = Process { pid: 100 + index as u32 / 2, start_time: 1 };
        Rank { process, seq: 0, answer: None, operation: None, slot: NO_SLOT, pending: None, connected: false }
    }

    pub fn is_busy(&self) -> bool {
        self.operation.is_some()
    }
}

impl Operation {
    fn rest(&self) -> Range {
        Range::between(self.next, self.range.end())
    }

    fn resizes(&self) -> bool {
        matches!(self.kind, Kind::Write | Kind::Truncate)
    }
}

/// Moves a thread on by one step; an idle one begins something if it may.
pub fn step(w: &mut World, rank: usize, begin: bool) {
    if w.ranks[rank].slot == NO_SLOT {
        return;
    }
    w.reconnect(rank);
    match w.ranks[rank].operation.take() {
        None if begin => choose(w, rank),
        None => {}
        Some(mut operation) => {
            let goes_on = advance(w, rank, &mut operation);
            if goes_on {
                w.ranks[rank].operation = Some(operation);
            } else {
                finish(w, rank, &operation);
            }
        }
    }
}

fn choose(w: &mut World, rank: usize) {
    let process = rank / 2;
    let path = if w.hot { 0 } else { w.random.below(PATHS as u64) as usize };
    let inode = w.paths[path];
    let range = some_range(w);
    // The library holds a lock of the process across the round trip of an open and of a close, over restarts
    // of the agent too.
    let opens_or_closes = |rank: &Rank| {
        rank.operation.as_ref().is_some_and(|operation| matches!(operation.kind, Kind::Open(_) | Kind::Close))
    };
    let gate_is_held = w.ranks[2 * process..2 * process + 2].iter().any(opens_or_closes);
    match w.open[process].get(&inode).copied() {
        None if gate_is_held => {}
        None => {
            w.open[process].insert(inode, None);
            let writable = w.random.chance(85);
            begin(w, rank, Kind::Open(writable), inode, 0, Range::default(), Step::Ask);
        }
        Some(None) => {}
        Some(Some(file)) => {
            let busy = |rank: &Rank| rank.operation.as_ref().is_some_and(|operation| operation.inode == inode);
            let alone = !w.ranks[2 * process..2 * process + 2].iter().any(busy);
            let choice = w.random.below(100);
            let writes = matches!(choice, 30..82);
            if writes && !w.writable[process].contains(&inode) {
                if gate_is_held {
                    return;
                }
                return begin(w, rank, Kind::Open(true), inode, 0, Range::default(), Step::Ask);
            }
            match choice {
                0..30 => begin(w, rank, Kind::Read, inode, file, range, Step::Publish),
                30..60 => begin(w, rank, Kind::Write, inode, file, range, Step::Absorb { asked: false }),
                60..78 => begin(w, rank, Kind::Write, inode, file, range, Step::Publish),
                78..82 => {
                    let tail = Range::new(range.offset, u64::MAX);
                    let kind = if choice == 81 { Kind::Rearrange } else { Kind::Truncate };
                    begin(w, rank, kind, inode, file, tail, Step::Ask);
                }
                82..90 => begin(w, rank, Kind::Fsync, inode, file, range, Step::KernelSync),
                90..92 => begin(w, rank, Kind::WriteBack, inode, file, range, Step::Ask),
                92..98 if alone && !gate_is_held => {
                    w.open[process].insert(inode, None);
                    begin(w, rank, Kind::Close, inode, file, range, Step::Ask);
                }
                98 => {
                    w.inodes[inode].linked = false;
                    w.create(path);
                    w.write_before();
                    begin(w, rank, Kind::Unlink, inode, file, range, Step::Ask);
                }
                _ => {}
            }
        }
    }
}

/// Ranges lie round the start and a granule's bound, and now and then where bits wrap round; in a hot world
/// always at the same few places, so that threads meet.
fn some_range(w: &mut World) -> Range {
    if w.hot {
        let offset = w.random.pick(&[0, 0, 0, 512, 3000, GRANULE_BYTES - 512]);
        return Range::new(offset, w.random.pick(&[1024, 1024, 4096]));
    }
    let base = match w.random.below(20) {
        0 => headstart_protocol::shared::BITS_PER_FILE * GRANULE_BYTES,
        1..8 => GRANULE_BYTES - 12288,
        _ => 0,
    };
    let offset = base + w.random.below(20_000);
    let length = 1 + w.random.below(9000);
    match w.random.below(4) {
        0 => Range::new(offset / 4096 * 4096, 4096),
        1 => Range::new(offset / 4096 * 4096, length),
        _ => Range::new(offset, length),
    }
}

fn begin(w: &mut World, rank: usize, kind: Kind, inode: usize, file: u32, range: Range, step: Step) {
    let begun = w.now();
    let mut operation =
        Operation { kind, inode, file, range, next: range.offset, version: 0, begun, set_bits: 0, step };
    if operation.resizes() {
        w.versions += 1;
        operation.version = w.versions;
        let truncates = kind == Kind::Truncate;
        let target = &mut w.inodes[inode];
        target.register.begin_write(range, operation.version, truncates, begun);
        target.resizing.push((operation.version, truncates));
        let others = target.resizing.len() > 1;
        if others && target.resizing.iter().any(|(_, truncates)| *truncates) {
            target.disturbed = true;
        }
    }
    let slot = w.slot(rank);
    slot.file.store(file, Ordering::Relaxed);
    slot.offset.store(range.offset, Ordering::Relaxed);
    slot.length.store(range.length, Ordering::Relaxed);
    if !matches!(operation.step, Step::Publish) {
        slot.ask();
    }
    w.ranks[rank].operation = Some(operation);
}

/// Begins a write of `range` in an open file, by a thread that is idle.
pub fn begin_write(w: &mut World, rank: usize, inode: usize, range: Range, absorbed: bool) {
    let file = w.open[rank / 2][&inode].expect("it is open");
    let step = if absorbed { Step::Absorb { asked: false } } else { Step::Publish };
    begin(w, rank, Kind::Write, inode, file, range, step);
}

/// What no library may do: the kernel call, with neither slot nor lease.
pub fn write_without_asking(w: &mut World, rank: usize) {
    let operation = w.ranks[rank].operation.take().expect("it has begun");
    write_slow(w, &operation);
    finish(w, rank, &operation);
}

/// Begins something else.
pub fn begin_other(w: &mut World, rank: usize, kind: Kind, inode: usize, range: Range) {
    let file = w.open[rank / 2].get(&inode).copied().flatten().unwrap_or(0);
    let step = match kind {
        Kind::Read => Step::Publish,
        Kind::Fsync => Step::KernelSync,
        _ => Step::Ask,
    };
    if matches!(kind, Kind::Open(_) | Kind::Close) {
        w.open[rank / 2].insert(inode, None);
    }
    begin(w, rank, kind, inode, file, range, step);
}

fn finish(w: &mut World, rank: usize, operation: &Operation) {
    w.slot(rank).free();
    let now = w.now();
    if operation.kind == Kind::Close {
        w.open[rank / 2].remove(&operation.inode);
        w.writable[rank / 2].remove(&operation.inode);
    }
    let target = &mut w.inodes[operation.inode];
    if operation.resizes() {
        target.register.end_write(operation.range, operation.version, now);
        target.resizing.retain(|(version, _)| *version != operation.version);
        target.size = match operation.kind {
            _ if target.disturbed => None,
            Kind::Truncate => Some(operation.range.offset),
            _ => target.size.map(|size| size.max(operation.range.end())),
        };
        target.disturbed &= !target.resizing.is_empty();
    }
    if operation.kind == Kind::Fsync {
        target.register.synced(operation.begun);
    }
}

/// One step; false when the operation is done.
fn advance(w: &mut World, rank: usize, o: &mut Operation) -> bool {
    let slot = rank;
    match o.step.clone() {
        Step::Publish => {
            let kind = match o.kind {
                Kind::Read => KIND_READ,
                _ if o.rest().end() > known_size(w, o) => KIND_EXTEND,
                _ => KIND_WRITE,
            };
            w.slot(slot).publish_cheap(kind, o.file, o.rest());
            o.step = Step::Check;
        }
        Step::Check => {
            let shared = w.memory.view();
            let extends = o.kind != Kind::Read && o.rest().end() > known_size(w, o);
            let sized = extends && shared.files[o.file as usize].size_bit.load(Ordering::SeqCst) != 0;
            if shared.all_clear(o.file, o.rest()) && !sized {
                o.step = Step::CheapIo;
            } else {
                w.slot(slot).ask();
                o.step = Step::Ask;
            }
        }
        Step::CheapIo => {
            match o.kind {
                Kind::Read => read_slow(w, o, o.rest()),
                _ => write_slow(w, o),
            }
            o.step = Step::CheapDone;
        }
        Step::CheapDone => {
            if o.kind == Kind::Read && w.random.chance(60) {
                w.slot(slot).hint(o.file, o.rest(), 1 << 20, FetchTurn::Soon);
            }
            return false;
        }
        Step::Absorb { asked } => absorb(w, slot, o, asked),
        Step::AbsorbIo { data_file, place, length } => {
            let bytes = written(o, place, Range::new(o.next, length));
            w.data.get_mut(&data_file).expect("a slab's data file exists").write(bytes);
            o.step = Step::Commit { data_file, place, length };
        }
        Step::Commit { data_file, place, length } => {
            w.request(rank, &Request::Commit { file: o.file, data_file, offset: o.next, length, place });
            o.step = Step::CommitSent { length };
        }
        Step::Ask => ask(w, rank, o),
        Step::FlashIo { pieces } => {
            for (data_file, place, length) in pieces {
                let store = w.data.get(&data_file).expect("a leased data file exists");
                let bytes = moved(&store.read(Range::new(place, length)), place, o.next);
                returned(w, o, bytes);
                o.next += length;
            }
            return part_read(w, slot, o);
        }
        Step::SlowIo { length } => {
            let part = Range::new(o.next, length);
            read_slow(w, o, part);
            if w.random.chance(60) {
                w.slot(slot).hint(o.file, part, 1 << 20, FetchTurn::Soon);
            }
            o.next += length;
            return part_read(w, slot, o);
        }
        Step::DirectIo => {
            match o.kind {
                Kind::Truncate => w.inodes[o.inode].store.truncate(o.range.offset),
                Kind::Rearrange => {}
                _ => write_slow(w, o),
            }
            o.step = Step::DirectDone;
        }
        Step::DirectDone => {
            let rest = o.rest();
            match o.kind {
                Kind::Truncate => {
                    w.request(rank, &Request::TruncateDone { file: o.file, size: o.range.offset, changed: true });
                }
                Kind::Rearrange => {
                    let size = w.inodes[o.inode].store.size();
                    w.request(rank, &Request::RearrangeDone { file: o.file, from: o.range.offset, size });
                }
                _ => w.request(rank, &Request::WriteDone { file: o.file, offset: rest.offset, length: rest.length }),
            }
            o.step = Step::DoneSent;
        }
        Step::KernelSync => {
            o.set_bits = w.memory.view().files[o.file as usize].set_bits.load(Ordering::SeqCst);
            w.inodes[o.inode].store.sync();
            if o.set_bits == 0 {
                return false;
            }
            o.step = Step::Sync;
        }
        Step::Sync => {
            w.request(rank, &Request::Sync { file: o.file });
            o.step = Step::LastSent;
        }
        Step::SlabSent | Step::CommitSent { .. } | Step::ReadSent | Step::GoSent | Step::DoneSent | Step::LastSent => {
            let Some(answer) = w.ranks[rank].answer.take() else { return true };
            return on_answer(w, slot, o, answer);
        }
    }
    true
}

fn on_answer(w: &mut World, slot: usize, o: &mut Operation, answer: Answer) -> bool {
    match (o.step.clone(), answer) {
        (Step::SlabSent, Answer::Done) => o.step = Step::Absorb { asked: true },
        (Step::SlabSent | Step::CommitSent { .. }, Answer::NoSpace | Answer::Bypassed | Answer::HeldUp) => {
            o.step = Step::Publish
        }
        (Step::CommitSent { length }, Answer::Done) => {
            o.next += length;
            o.step = Step::Absorb { asked: false };
            return !o.rest().is_empty();
        }
        (Step::ReadSent, Answer::Flash { length }) => {
            let cell = w.slot(slot);
            let count = cell.pieces_count.load(Ordering::Relaxed) as usize;
            let load = |value: &std::sync::atomic::AtomicU64| value.load(Ordering::Relaxed);
            let pieces: Vec<_> = cell.pieces[..count]
                .iter()
                .map(|piece| (piece.data_file.load(Ordering::Relaxed), load(&piece.place), load(&piece.length)))
                .collect();
            assert_eq!(pieces.iter().map(|piece| piece.2).sum::<u64>(), length, "the pieces hold what was promised");
            o.step = Step::FlashIo { pieces };
        }
        (Step::ReadSent, Answer::Disk { length }) => o.step = Step::SlowIo { length },
        (Step::ReadSent, Answer::Sooner { length }) => {
            w.sooner_reads += 1;
            o.step = Step::SlowIo { length };
        }
        (Step::GoSent, Answer::Go) => o.step = Step::DirectIo,
        (Step::GoSent, Answer::Error { .. }) if w.may_fail && o.kind == Kind::Rearrange => return false,
        (Step::DoneSent | Step::LastSent, Answer::Done) => return false,
        (Step::LastSent, Answer::Opened { file }) => {
            w.open[slot / 2].insert(o.inode, Some(file));
            if o.kind == Kind::Open(true) {
                w.writable[slot / 2].insert(o.inode);
            }
            return false;
        }
        // A failed sync promises nothing; a failed open leaves nothing open; a failed write-back is tried again.
        (Step::LastSent, Answer::Error { .. }) if w.may_fail => {
            match o.kind {
                Kind::Fsync => o.begun = 0,
                Kind::Open(_) if w.open[slot / 2][&o.inode].is_none() => drop(w.open[slot / 2].remove(&o.inode)),
                _ => {}
            }
            return false;
        }
        (step, answer) => {
            w.violations.push(format!("{answer:?} is no answer to {step:?} of {o:?}"));
            return false;
        }
    }
    true
}

/// Picks a slab as the library does: the smallest that holds all, else the largest; asks once for a better one.
fn absorb(w: &mut World, slot: usize, o: &mut Operation, asked: bool) {
    let rest = o.rest();
    let usable = w.slot(slot).slabs.iter().filter_map(|slab| {
        let (place, length) = (slab.place.load(Ordering::Relaxed), slab.length.load(Ordering::Relaxed));
        let skip = rest.offset % 4096;
        let usable = slab.file.load(Ordering::Relaxed) == o.file && length > skip;
        usable.then(|| (slab.data_file.load(Ordering::Relaxed), place + skip, length - skip))
    });
    let whole = usable.clone().filter(|slab| slab.2 >= rest.length).min_by_key(|slab| slab.2);
    let found = if asked { whole.or_else(|| usable.max_by_key(|slab| slab.2)) } else { whole };
    match found {
        Some((data_file, place, length)) => {
            o.step = Step::AbsorbIo { data_file, place, length: length.min(rest.length) };
        }
        None if asked => o.step = Step::Publish,
        None => {
            w.request(slot, &Request::Slab { file: o.file, offset: rest.offset, length: rest.length });
            o.step = Step::SlabSent;
        }
    }
}

fn ask(w: &mut World, rank: usize, o: &mut Operation) {
    let rest = o.rest();
    let (file, offset, length) = (o.file, rest.offset, rest.length);
    match o.kind {
        Kind::Read => {
            w.request(rank, &Request::Read { file, offset, length });
            o.step = Step::ReadSent;
            return;
        }
        Kind::Write => {
            let extends = rest.end() > known_size(w, o);
            w.request(rank, &Request::Write { file, offset, length, extends });
            o.step = Step::GoSent;
            return;
        }
        Kind::Truncate => {
            w.request(rank, &Request::Truncate { file, size: offset });
            o.step = Step::GoSent;
            return;
        }
        Kind::Rearrange => {
            w.request(rank, &Request::Rearrange { file, from: offset });
            o.step = Step::GoSent;
            return;
        }
        Kind::WriteBack => w.request(rank, &Request::WriteBack { file, offset, length }),
        Kind::Bypass(writes) => w.request(rank, &Request::Bypass { file, writes }),
        Kind::Close => w.request(rank, &Request::Close { file }),
        Kind::Unlink => {
            let identity = w.inodes[o.inode].identity;
            w.request(rank, &Request::Unlinked { inode: identity.inode });
        }
        Kind::Open(writable) => {
            let identity = w.inodes[o.inode].identity;
            let size = w.inodes[o.inode].store.size();
            let (inode, birth_ns) = (identity.inode, identity.birth_ns);
            w.request(rank, &Request::Open { inode, birth_ns, size, writable, path: b"/slow/x" });
        }
        Kind::Fsync => unreachable!("an fsync syncs first"),
    }
    o.step = Step::LastSent;
}

fn part_read(w: &mut World, slot: usize, o: &mut Operation) -> bool {
    w.slot(slot).release_read();
    o.step = Step::Ask;
    !o.rest().is_empty()
}

fn known_size(w: &World, o: &Operation) -> u64 {
    w.memory.view().files[o.file as usize].size.load(Ordering::SeqCst)
}

fn written(o: &Operation, at: u64, range: Range) -> Bytes {
    vec![(Range::new(at, range.length), Byte::Written { version: o.version, shift: at.wrapping_sub(range.offset) })]
}

fn write_slow(w: &mut World, o: &Operation) {
    w.inodes[o.inode].store.write(written(o, o.next, o.rest()));
}

fn read_slow(w: &mut World, o: &Operation, range: Range) {
    let bytes = w.inodes[o.inode].store.read(range);
    returned(w, o, bytes);
}

fn returned(w: &mut World, o: &Operation, bytes: Bytes) {
    let now = w.now();
    for (range, byte) in bytes {
        let result = w.inodes[o.inode].register.read(range, byte, o.begun, now);
        w.violation(result.map_err(|text| format!("inode {}: {text}", o.inode)));
    }
}

/// The library gives the thread's request up, as no agent answers: of a write nobody knows whether it was
/// made. `says`: in its slot.
pub fn give_up(w: &mut World, rank: usize, says: bool) {
    let o = w.ranks[rank].operation.take().expect("it has a request");
    w.ranks[rank].pending = None;
    w.inodes[o.inode].resizing.retain(|(version, _)| *version != o.version);
    w.inodes[o.inode].size = None;
    if says {
        w.slot(rank).give_up();
    }
    w.slot(rank).free();
}

/// The thread dies; what its last call was writing may land later.
pub fn die(w: &mut World, rank: usize) {
    assert!(rank < RANKS, "a rank has a slot");
    let Some(o) = w.ranks[rank].operation.take() else {
        debug_assert!(
            w.ranks[rank].slot == NO_SLOT || w.slot(rank).state.load(Ordering::Relaxed) == STATE_FREE,
            "an idle thread has no request in its slot"
        );
        return;
    };
    if o.resizes() {
        w.inodes[o.inode].resizing.retain(|(version, _)| *version != o.version);
        w.inodes[o.inode].size = None;
    }
    if o.kind == Kind::Truncate {
        let target = &mut w.inodes[o.inode];
        // The kernel ends a truncation it has begun before the process is gone.
        if matches!(o.step, Step::DirectIo) && w.random.chance(50) {
            target.store.truncate(o.range.offset);
        }
        // The file is as long as it is from here on, whatever is on flash.
        if !target.disturbed && target.resizing.is_empty() {
            target.size = Some(target.store.size());
        }
        return;
    }
    let late = match (&o.step, o.kind) {
        (_, Kind::Rearrange) => return,
        (Step::AbsorbIo { data_file, place, length }, _) => {
            Late::Flash { data_file: *data_file, bytes: written(&o, *place, Range::new(o.next, *length)) }
        }
        (Step::DirectIo, _) | (Step::CheapIo, Kind::Write) => {
            Late::Slow { inode: o.inode, bytes: written(&o, o.next, o.rest()) }
        }
        _ => return,
    };
    w.late.push(late);
}
