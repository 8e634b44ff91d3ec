//! Simulated threads: each drives the protocol's [`Call`], one step at a time, so that whatever may come between
//! two steps of a thread does.

use std::sync::atomic::Ordering;

use super::storage::{Byte, Bytes, moved};
use super::world::{Late, PATHS, RANKS, World};
use crate::{Answer, Process};
use headstart_policy::client::{self, Decision, FetchTurn, Reason};
use headstart_policy::order::Distance;
use headstart_protocol::call::{Call, FlashFault, Moved, Step, Thread};
use headstart_protocol::message::Request;
use headstart_protocol::shared::{STATE_FREE, Shared, Slot};
use headstart_units::GRANULE_BYTES;
use headstart_units::request::{Direction, Range};

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

/// Where it stands.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// It has only begun.
    Begin,
    /// It is about to make a step.
    Next(Step),
    /// It has made it, and its call is about to hear what came of it.
    Made(Step, Moved),
    /// It awaits an answer.
    Asked,
}

/// An operation under way.
#[derive(Clone, Debug)]
pub struct Operation {
    kind: Kind,
    inode: usize,
    file: u32,
    range: Range,
    version: u32,
    begun: u64,
    absorbs: bool,
    /// What a read found; what was in vain is found anew.
    found: Bytes,
    /// None while it has only begun, and of what is no request for bytes.
    call: Option<Call>,
    doing: Doing,
}

/// What a thread brings to its calls.
struct Library<'a> {
    index: u32,
    slot: &'a Slot,
    shared: Shared<'a>,
    decision: Decision,
}

impl Thread for Library<'_> {
    fn slot(&self) -> &Slot {
        self.slot
    }

    fn index(&self) -> u32 {
        self.index
    }

    fn shared(&self) -> Shared<'_> {
        self.shared
    }

    fn decide(&self, request: &client::Request) -> (client::Request, Decision) {
        (*request, self.decision)
    }
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
    fn new(kind: Kind, inode: usize, file: u32, range: Range, absorbs: bool) -> Operation {
        let (call, doing, found) = (None, Doing::Begin, Bytes::new());
        Operation { kind, inode, file, range, version: 0, begun: 0, absorbs, found, call, doing }
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
    w.at = w.agent_of(rank);
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
    let apart = w.whims.apart > 0 && w.random.chance(w.whims.apart);
    let path = match (apart, w.whims.hot) {
        (true, _) => process,
        (false, true) => 0,
        (false, false) => w.random.below(PATHS as u64) as usize,
    };
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
            begin(w, rank, Operation::new(Kind::Open(writable), inode, 0, Range::default(), false));
        }
        Some(None) => {}
        Some(Some(file)) => {
            let busy = |rank: &Rank| rank.operation.as_ref().is_some_and(|operation| operation.inode == inode);
            let alone = !w.ranks[2 * process..2 * process + 2].iter().any(busy);
            let reads = w.whims.reads && w.random.chance(60);
            let choice = w.random.below(if reads { 30 } else { 100 });
            let writes = matches!(choice, 30..82);
            if writes && !w.writable[process].contains(&inode) {
                if gate_is_held {
                    return;
                }
                let open = Operation::new(Kind::Open(true), inode, 0, Range::default(), false);
                return begin(w, rank, open);
            }
            let mut begins = |kind, range, absorbs| begin(w, rank, Operation::new(kind, inode, file, range, absorbs));
            match choice {
                0..30 => begins(Kind::Read, range, false),
                30..60 => begins(Kind::Write, range, true),
                60..78 => begins(Kind::Write, range, false),
                78..82 => {
                    let kind = if choice == 81 { Kind::Rearrange } else { Kind::Truncate };
                    begins(kind, Range::new(range.offset, u64::MAX), false);
                }
                82..90 => begins(Kind::Fsync, range, false),
                90..92 => begins(Kind::WriteBack, range, false),
                92..98 if alone && !gate_is_held => {
                    w.open[process].insert(inode, None);
                    begin(w, rank, Operation::new(Kind::Close, inode, file, range, false));
                }
                98 => {
                    w.inodes[inode].linked = false;
                    w.create(path);
                    w.write_before();
                    begin(w, rank, Operation::new(Kind::Unlink, inode, file, range, false));
                }
                _ => {}
            }
        }
    }
}

/// Ranges lie round the start and a granule's bound, and now and then where bits wrap round; in a hot world
/// always at the same few places, so that threads meet.
fn some_range(w: &mut World) -> Range {
    if w.whims.hot {
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

fn begin(w: &mut World, rank: usize, mut operation: Operation) {
    operation.begun = w.now();
    if operation.resizes() {
        w.versions += 1;
        operation.version = w.versions;
        let truncates = operation.kind == Kind::Truncate;
        let target = &mut w.inodes[operation.inode];
        target.register.begin_write(operation.range, operation.version, truncates, operation.begun);
        target.resizing.push((operation.version, truncates));
        let others = target.resizing.len() > 1;
        if others && target.resizing.iter().any(|(_, truncates)| *truncates) {
            target.disturbed = true;
        }
    }
    w.ranks[rank].operation = Some(operation);
}

/// Begins a write of `range` in an open file, by a thread that is idle.
pub fn begin_write(w: &mut World, rank: usize, inode: usize, range: Range, absorbed: bool) {
    let file = w.open[rank / 2][&inode].expect("it is open");
    begin(w, rank, Operation::new(Kind::Write, inode, file, range, absorbed));
}

/// What no library may do: the kernel call, with neither slot nor lease.
pub fn write_without_asking(w: &mut World, rank: usize) {
    let operation = w.ranks[rank].operation.take().expect("it has begun");
    write_slow(w, &operation, operation.range);
    finish(w, rank, &operation);
}

/// Begins something else.
pub fn begin_other(w: &mut World, rank: usize, kind: Kind, inode: usize, range: Range) {
    let file = w.open[rank / 2].get(&inode).copied().flatten().unwrap_or(0);
    if matches!(kind, Kind::Open(_) | Kind::Close) {
        w.open[rank / 2].insert(inode, None);
    }
    begin(w, rank, Operation::new(kind, inode, file, range, false));
}

/// Whether the thread has read bytes on flash, and has not looked yet whether they count.
pub fn has_read_flash(w: &World, rank: usize) -> bool {
    let doing = w.ranks[rank].operation.as_ref().map(|operation| operation.doing);
    matches!(doing, Some(Doing::Made(Step::Flash { .. }, _)))
}

fn finish(w: &mut World, rank: usize, operation: &Operation) {
    assert_eq!(w.slot(rank).state.load(Ordering::Relaxed), STATE_FREE, "its request has ended");
    let now = w.now();
    for &(range, byte) in &operation.found {
        let result = w.inodes[operation.inode].register.read(range, byte, operation.begun, now);
        w.violation(result.map_err(|text| format!("inode {}: {text}", operation.inode)));
    }
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
    match o.doing {
        Doing::Begin => match begin_call(w, rank, o) {
            Some((call, step)) => {
                o.call = Some(call);
                follow(w, rank, o, step)
            }
            None => {
                let request = control(w, o);
                follow(w, rank, o, Step::Ask(request))
            }
        },
        Doing::Next(Step::Look) => {
            let (thread, call) = (library(w, rank, o, false), o.call.as_mut());
            let step = call.expect("it has begun").look(&thread);
            follow(w, rank, o, step)
        }
        Doing::Next(Step::Push) => {
            let (thread, call) = (library(w, rank, o, false), o.call.as_mut());
            let step = call.expect("it has begun").push(&thread);
            w.pushes += 1;
            take(o, step)
        }
        Doing::Next(Step::Tell(_)) => {
            // A thread waits for nothing then; the agent may look at once, or later.
            if !w.whims.deaf && w.random.chance(50) {
                w.poll();
            }
            let (thread, call) = (library(w, rank, o, false), o.call.as_mut());
            let step = call.expect("it has begun").on_told(&thread);
            follow(w, rank, o, step)
        }
        Doing::Next(step @ (Step::Slow(_) | Step::Flash { .. } | Step::Sync)) => {
            o.doing = Doing::Made(step, transfer(w, rank, o, step));
            true
        }
        Doing::Next(step) => follow(w, rank, o, step),
        Doing::Made(step, moved) => {
            let hints = o.kind == Kind::Read && matches!(step, Step::Slow(_)) && w.random.chance(60);
            let (thread, call) = (library(w, rank, o, hints), o.call.as_mut());
            let step = call.expect("it has begun").on_moved(&thread, moved);
            follow(w, rank, o, step)
        }
        Doing::Asked => match w.ranks[rank].answer.take() {
            Some(answer) => on_answer(w, rank, o, answer),
            None => true,
        },
    }
}

/// Asks at once what is to be asked.
fn follow(w: &mut World, rank: usize, o: &mut Operation, step: Step) -> bool {
    match step {
        Step::Ask(request) => w.request(rank, &request),
        Step::AskPushed(request) => w.request_again(rank, &request),
        step => return take(o, step),
    }
    o.doing = Doing::Asked;
    true
}

fn take(o: &mut Operation, step: Step) -> bool {
    o.doing = Doing::Next(step);
    step != Step::Done
}

fn library<'a>(w: &'a World, rank: usize, o: &Operation, hints: bool) -> Library<'a> {
    let decision = match o.kind {
        Kind::Write if o.absorbs => Decision::Flash { benefit_ns: 1 },
        Kind::Read if hints => Decision::Fetch { benefit_ns: 1 << 20, turn: FetchTurn::Soon },
        _ => Decision::Disk(Reason::NoBenefit),
    };
    let index = w.ranks[rank].slot as u32;
    Library { index, slot: w.slot(rank), shared: w.agents[w.at].memory.view(), decision }
}

/// None of what moves no bytes.
fn begin_call(w: &World, rank: usize, o: &Operation) -> Option<(Call, Step)> {
    let (thread, file) = (library(w, rank, o, false), o.file);
    let request = |direction| client::Request { direction, range: o.range, distance: Distance::far(0) };
    Some(match o.kind {
        Kind::Read => Call::read(file, request(Direction::Read)),
        Kind::Write => Call::write(&thread, file, request(Direction::Write)),
        Kind::Truncate => Call::truncate(file, o.range.offset),
        Kind::Rearrange => Call::rearrange(file, o.range.offset),
        Kind::Fsync => Call::sync(&thread, file),
        Kind::WriteBack => Call::write_back(&thread, file, o.range),
        Kind::Bypass(_) | Kind::Open(_) | Kind::Close | Kind::Unlink => return None,
    })
}

/// What is asked by who moves no bytes.
fn control(w: &World, o: &Operation) -> Request<'static> {
    let (file, identity) = (o.file, w.inodes[o.inode].identity);
    let (inode, birth_ns) = (identity.inode, identity.birth_ns);
    match o.kind {
        Kind::Bypass(writes) => Request::Bypass { file, writes },
        Kind::Close => Request::Close { file },
        Kind::Unlink => Request::Unlinked { inode },
        Kind::Open(writable) => {
            let size = w.inodes[o.inode].store.size();
            Request::Open { inode, birth_ns, size, writable, path: b"/slow/x" }
        }
        kind => unreachable!("{kind:?} is a call"),
    }
}

fn on_answer(w: &mut World, rank: usize, o: &mut Operation, answer: Answer) -> bool {
    w.sooner_reads += u64::from(matches!(answer, Answer::Sooner { .. }));
    if matches!(answer, Answer::Error { .. }) {
        on_error(w, rank, o, &answer);
    }
    let Some(mut call) = o.call else {
        on_control_answer(w, rank, o, answer);
        return false;
    };
    let Ok(step) = call.on_answer(&library(w, rank, o, false), (&answer).into()) else {
        w.violations.push(format!("{answer:?} is no answer to {o:?}"));
        w.slot(rank).free();
        return false;
    };
    o.call = Some(call);
    take(o, step)
}

/// Of an operation that moves no bytes.
fn on_control_answer(w: &mut World, rank: usize, o: &Operation, answer: Answer) {
    match answer {
        Answer::Done | Answer::Error { .. } => {}
        Answer::Opened { file } => {
            w.open[rank / 2].insert(o.inode, Some(file));
            if o.kind == Kind::Open(true) {
                w.writable[rank / 2].insert(o.inode);
            }
        }
        answer => w.violations.push(format!("{answer:?} is no answer to {o:?}")),
    }
}

/// A failed sync promises nothing; a failed open leaves nothing open; a failed write-back is tried again.
fn on_error(w: &mut World, rank: usize, o: &mut Operation, answer: &Answer) {
    if !w.whims.may_fail || matches!(o.kind, Kind::Read | Kind::Write | Kind::Truncate) {
        w.violations.push(format!("{answer:?} is the answer to {o:?}"));
    }
    match o.kind {
        Kind::Fsync => o.begun = 0,
        Kind::Open(_) if w.open[rank / 2][&o.inode].is_none() => drop(w.open[rank / 2].remove(&o.inode)),
        _ => {}
    }
}

/// Moves the bytes of a step.
fn transfer(w: &mut World, rank: usize, o: &mut Operation, step: Step) -> Moved {
    match (step, o.kind) {
        (Step::Slow(range), Kind::Read) => {
            let bytes = w.inodes[o.inode].store.read(range);
            find(o, range, bytes);
            Moved::Bytes(range.length)
        }
        (Step::Slow(_), Kind::Truncate) => {
            w.inodes[o.inode].store.truncate(o.range.offset);
            Moved::Bytes(0)
        }
        (Step::Slow(_), Kind::Rearrange) => Moved::Bytes(w.inodes[o.inode].store.size()),
        (Step::Slow(range), _) => {
            write_slow(w, o, range);
            Moved::Bytes(range.length)
        }
        (Step::Flash { range, data_file, place }, Kind::Read) => {
            let is_leased = w.slot(rank).held_pieces().next().is_some();
            w.listed += u64::from(!is_leased);
            // Another node's is found by its number.
            let of = if w.cluster.is_some() { (data_file >> 22) as usize } else { w.at };
            let Some(store) = w.agents[of].data.get(&data_file) else {
                assert!(!is_leased || of != w.at, "a leased data file exists");
                return Moved::FlashFailed(FlashFault::Broken);
            };
            let bytes = moved(&store.read(Range::new(place, range.length)), place, range.offset);
            find(o, range, bytes);
            Moved::Bytes(range.length)
        }
        (Step::Flash { range, data_file, place }, _) => {
            let bytes = written(o, place, range);
            w.agents[w.at].data.get_mut(&data_file).expect("a slab's data file exists").write(bytes);
            Moved::Bytes(range.length)
        }
        (Step::Sync, _) => {
            w.inodes[o.inode].store.sync();
            Moved::Bytes(0)
        }
        (step, _) => unreachable!("{step:?} moves nothing"),
    }
}

/// The bytes of a range of the file, as they lie from `at` on.
fn written(o: &Operation, at: u64, range: Range) -> Bytes {
    vec![(Range::new(at, range.length), Byte::Written { version: o.version, shift: at.wrapping_sub(range.offset) })]
}

fn write_slow(w: &mut World, o: &Operation, range: Range) {
    w.inodes[o.inode].store.write(written(o, range.offset, range));
}

/// The rest of what was in vain is read again too.
fn find(o: &mut Operation, range: Range, bytes: Bytes) {
    o.found.retain(|(before, _)| !before.overlaps(range));
    o.found.extend(bytes);
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
        if matches!(o.doing, Doing::Next(Step::Slow(_))) && w.random.chance(50) {
            target.store.truncate(o.range.offset);
        }
        // The file is as long as it is from here on, whatever is on flash.
        if !target.disturbed && target.resizing.is_empty() {
            target.size = Some(target.store.size());
        }
        return;
    }
    let late = match (o.doing, o.kind) {
        (Doing::Next(Step::Flash { range, data_file, place }), Kind::Write) => {
            Late::Flash { agent: w.agent_of(rank), data_file, bytes: written(&o, place, range) }
        }
        (Doing::Next(Step::Slow(range)), Kind::Write) => {
            Late::Slow { inode: o.inode, bytes: written(&o, range.offset, range) }
        }
        _ => return,
    };
    w.late.push(late);
}
