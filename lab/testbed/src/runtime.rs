//! The models in real time: who owns them, who advances them, who answers.
//!
//! ```text
//!  kernel --> one FUSE thread per mount --> model (under the lock) --> timer thread --> kernel
//!             reads a request, never blocks    knows when it is done      answers at that time
//! ```
//!
//! Invariants:
//! * A model only ever sees events in order of time: whoever holds the lock first lets everything happen that
//!   was due, at the time it was due and not at the time it was noticed, so that a late thread never slows
//!   the modelled disks.
//! * Bytes of a write reach the backing file while its request is in the model and always before it is
//!   acknowledged; bytes of a read are fetched when it is answered, large ones piecemeal before that. So a
//!   read returns everything acknowledged before it was issued, and the early visibility of unacknowledged
//!   bytes is one that concurrent writes permit anyway.
//! * The FUSE threads do nothing that waits for modelled time.
//!
//! A request cannot be taken back: fuser does not pass on the kernel's interrupts. A killed process therefore
//! dies when its reply is due, at most one modelled service time later.

pub mod clock;
mod replies;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use headstart_model::request::{Completion, Operation};
use headstart_units::Nanos;

use crate::filesystem::errno;
use crate::placement::Region;
use crate::runtime::clock::Clock;
use crate::runtime::replies::{Body, Pending, PendingRequests, Replier, STAGED_READ_BYTES_MIN, Staged, StagingJob};
use crate::servers::{Ask, Servers};
use crate::stats::{MountCounters, MountStats};
use crate::system::RealTime;

/// Up to this size the bytes of a write are stored before the model is told: about 20 us. Larger ones are
/// stored while it works.
const STORE_FIRST_BYTES_MAX: usize = 128 << 10;

/// Time to fetch a piece of a large read ahead of time.
const STAGING_NS: u64 = 50_000;

/// The models of all mounts and the thread that answers for them.
pub struct Engine {
    shared: Mutex<Shared>,
    wake: Condvar,
    clock: Clock,
    counters: Vec<MountCounters>,
}

struct Shared {
    mounts: Vec<Mounted>,
    /// Real time at which the timer thread will wake by itself; `None` while it is awake.
    sleeping_until: Option<u64>,
    stopping: bool,
}

struct Mounted {
    servers: Servers,
    /// The last time the model has seen.
    now: Nanos,
    pending: PendingRequests,
    /// Finished requests by due time; the model may announce them early.
    finished: BinaryHeap<Reverse<(Nanos, u64)>>,
    scratch: Vec<Completion>,
    in_flight_max: usize,
    /// Large reads whose bytes could be fetched ahead of time, oldest first.
    to_stage: VecDeque<u64>,
}

/// The engine together with its timer thread.
pub struct RunningEngine {
    /// The shared part.
    pub engine: Arc<Engine>,
    /// What the timer thread was permitted.
    pub real_time: RealTime,
    timer: Option<JoinHandle<()>>,
}

impl RunningEngine {
    /// Starts the timer thread for these directories; `real_time` asks for SCHED_FIFO and locked memory.
    pub fn start(mounts: Vec<(&'static str, Servers)>, time_scale: f64, real_time: bool) -> RunningEngine {
        let counters = mounts.iter().map(|(name, _)| MountCounters::named(name)).collect();
        let mounts = mounts.into_iter().map(|(_, servers)| Mounted::at_rest(servers)).collect();
        let shared = Shared { mounts, sleeping_until: None, stopping: false };
        let engine = Arc::new(Engine {
            shared: Mutex::new(shared),
            wake: Condvar::new(),
            clock: Clock::start(time_scale),
            counters,
        });
        let (sender, receiver) = std::sync::mpsc::channel();
        let timer = std::thread::Builder::new().name("timer".to_string()).spawn({
            let engine = Arc::clone(&engine);
            move || {
                let outcome = if real_time { RealTime::acquire() } else { RealTime::default() };
                // The receiver waits below; if it has gone there is nobody to tell.
                let _ = sender.send(outcome);
                engine.answer();
            }
        });
        let timer = timer.expect("the system has room for one more thread");
        let real_time = receiver.recv().unwrap_or_default();
        RunningEngine { engine, real_time, timer: Some(timer) }
    }
}

impl Drop for RunningEngine {
    fn drop(&mut self) {
        self.engine.lock().stopping = true;
        self.engine.wake.notify_all();
        if let Some(timer) = self.timer.take() {
            // A panic of the timer thread was reported when it happened.
            let _ = timer.join();
        }
    }
}

impl Mounted {
    fn at_rest(servers: Servers) -> Mounted {
        Mounted {
            servers,
            now: Nanos::ZERO,
            pending: PendingRequests::default(),
            finished: BinaryHeap::new(),
            scratch: Vec::new(),
            in_flight_max: 0,
            to_stage: VecDeque::new(),
        }
    }

    /// Lets everything happen that is due by `now`.
    fn advance(&mut self, now: Nanos) {
        while let Some(at) = self.servers.next_timer().filter(|at| *at <= now) {
            self.step(at);
        }
        self.now = self.now.max(now);
    }

    /// Lets happen what is due at `at`.
    fn step(&mut self, at: Nanos) {
        self.now = self.now.max(at);
        self.servers.on_timer(self.now, &mut self.scratch);
        self.finished.extend(self.scratch.drain(..).map(|done| Reverse((done.at, done.id))));
    }

    /// The next time at which a model or a reply is due.
    fn next_due(&self) -> Option<Nanos> {
        let reply = self.finished.peek().map(|Reverse((at, _))| *at);
        match (self.servers.next_timer(), reply) {
            (Some(timer), Some(reply)) => Some(timer.min(reply)),
            (timer, reply) => timer.or(reply),
        }
    }
}

/// A place in a file of a mount.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    /// The mount, by number.
    pub mount: usize,
    /// Where the file lies on its servers.
    pub place: Region,
    /// The byte in the file.
    pub offset: u64,
}

impl Spot {
    fn ask(self, operation: Operation, length: u64) -> Ask {
        Ask { operation, place: self.place, offset: self.offset, length }
    }
}

impl Engine {
    /// Reads `length` bytes at `offset`; the caller has cut the length at the end of the file.
    pub fn read(&self, file: &Arc<File>, at: Spot, length: u32, reply: ReplyData) {
        let entered = self.clock.real();
        let body = Body::Read { file: Arc::clone(file), offset: at.offset, length, reply, staged: Staged::default() };
        let ask = at.ask(Operation::Read, length.into());
        self.submit(at.mount, entered, ask, Pending::complete(body));
    }

    /// Writes `data` at `offset`.
    pub fn write(&self, file: &File, at: Spot, data: &[u8], reply: ReplyWrite) {
        let entered = self.clock.real();
        let ask = at.ask(Operation::Write, data.len() as u64);
        if data.len() <= STORE_FIRST_BYTES_MAX {
            if let Err(error) = file.write_all_at(data, at.offset) {
                return reply.error(errno(&error));
            }
            let body = Body::Write { reply, stored: Ok(data.len() as u32) };
            self.submit(at.mount, entered, ask, Pending::complete(body));
            return;
        }
        let body = Body::Write { reply, stored: Ok(data.len() as u32) };
        let pending = Pending::awaiting_bytes(body);
        let id = self.submit(at.mount, entered, ask, pending);
        let outcome = file.write_all_at(data, at.offset).map_err(|error| errno(&error));
        self.bytes_stored(at.mount, id, outcome.err());
    }

    /// Makes everything acknowledged durable on all servers of the file.
    pub fn flush(&self, mount: usize, place: Region, reply: ReplyEmpty) {
        let entered = self.clock.real();
        let ask = Ask { operation: Operation::Flush, place, offset: 0, length: 0 };
        self.submit(mount, entered, ask, Pending::complete(Body::Flush { reply }));
    }

    /// The state of one directory and its servers now.
    pub fn stats(&self, mount: usize) -> MountStats {
        let mut shared = self.lock();
        let mounted = &mut shared.mounts[mount];
        mounted.advance(self.clock.now());
        let servers = mounted.servers.stats(mounted.now);
        let (now, in_flight, in_flight_max) = (mounted.now, mounted.pending.len(), mounted.in_flight_max);
        drop(shared);
        MountStats { in_flight, in_flight_max, ..self.counters[mount].snapshot(now, servers) }
    }

    /// Lets a directory's servers write back what they hold, ahead of time: what they held, and how long it
    /// would have taken.
    pub fn drain(&self, mount: usize) -> (u64, Nanos) {
        let mut shared = self.lock();
        let mounted = &mut shared.mounts[mount];
        mounted.advance(self.clock.now());
        let (dirty_bytes, begun) = (mounted.servers.dirty_bytes(), mounted.now);
        mounted.servers.drain(begun);
        while mounted.servers.dirty_bytes() > 0
            && let Some(at) = mounted.servers.next_timer()
        {
            mounted.step(at);
        }
        (dirty_bytes - mounted.servers.dirty_bytes(), mounted.now.since(begun))
    }

    /// Starts counting anew; requests in flight are counted when they are answered.
    pub fn reset_stats(&self) {
        let mut shared = self.lock();
        for (mounted, counters) in shared.mounts.iter_mut().zip(&self.counters) {
            mounted.advance(self.clock.now());
            mounted.servers.reset_stats(mounted.now);
            mounted.in_flight_max = mounted.pending.len();
            counters.reset();
        }
    }

    /// Servers forget what they have read.
    pub fn empty_buffers(&self) {
        for mounted in &mut self.lock().mounts {
            mounted.advance(self.clock.now());
            mounted.servers.empty_buffers(mounted.now);
        }
    }

    fn submit(&self, mount: usize, entered: u64, ask: Ask, mut pending: Pending) -> u64 {
        let mut shared = self.lock();
        let real = self.clock.real();
        let mounted = &mut shared.mounts[mount];
        mounted.advance(if self.clock.is_virtual() { Nanos::ZERO } else { self.clock.to_model(real) });
        pending.arrived = mounted.now;
        let id = mounted.pending.insert(pending);
        mounted.in_flight_max = mounted.in_flight_max.max(mounted.pending.len());
        if ask.operation == Operation::Read && ask.length >= u64::from(STAGED_READ_BYTES_MIN) {
            mounted.to_stage.push_back(id);
        }
        mounted.servers.on_request(mounted.now, id, ask);
        let due = mounted.next_due().map(|at| self.clock.to_real(at));
        let wake = match (shared.sleeping_until, due) {
            (Some(until), Some(due)) => due < until || self.clock.is_virtual(),
            _ => false,
        };
        let wake = wake || (shared.sleeping_until.is_some() && !shared.mounts[mount].to_stage.is_empty());
        drop(shared);
        if wake {
            self.wake.notify_one();
        }
        self.counters[mount].arrived(real - entered);
        id
    }

    /// The bytes of a large write are in the backing file, or could not be stored.
    fn bytes_stored(&self, mount: usize, id: u64, failure: Option<Errno>) {
        let mut shared = self.lock();
        let mounted = &mut shared.mounts[mount];
        if let Some(due) = mounted.pending.bytes_stored(id, failure) {
            // The model was done first: answer now, late by the time the copy took.
            mounted.finished.push(Reverse((due, id)));
            drop(shared);
            self.wake.notify_one();
        }
    }

    /// The timer thread: answers every request at its time until told to stop.
    fn answer(&self) {
        let mut replier = Replier::with_buffer();
        let mut batch = Vec::new();
        let mut shared = self.lock();
        while !shared.stopping {
            let next = self.collect(&mut shared, &mut batch);
            if batch.is_empty() {
                shared = match self.begin_staging(&mut shared, next) {
                    Some((mount, mut job)) => {
                        drop(shared);
                        job.run(&mut replier);
                        let mut shared = self.lock();
                        shared.mounts[mount].pending.end_staging(job);
                        shared
                    }
                    None => self.sleep(shared, next),
                };
                continue;
            }
            drop(shared);
            for (mount, due, pending) in batch.drain(..) {
                self.deliver(&mut replier, mount, due, pending);
            }
            shared = self.lock();
        }
        for mounted in &mut shared.mounts {
            mounted.pending.fail_all();
        }
    }

    /// A piece of a large read, if there is time for one before the next thing is due.
    fn begin_staging(&self, shared: &mut Shared, next: Option<u64>) -> Option<(usize, StagingJob)> {
        if self.clock.is_virtual() || next.is_some_and(|next| next < self.clock.real() + STAGING_NS) {
            return None;
        }
        shared.mounts.iter_mut().enumerate().find_map(|(mount, mounted)| {
            while let Some(id) = mounted.to_stage.front() {
                if let Some(job) = mounted.pending.begin_staging(*id) {
                    return Some((mount, job));
                }
                mounted.to_stage.pop_front();
            }
            None
        })
    }

    fn deliver(&self, replier: &mut Replier, mount: usize, due: Nanos, pending: Pending) {
        let due = self.clock.to_real(due);
        let service = due.saturating_sub(self.clock.to_real(pending.arrived));
        // Counted before the reply, so that whoever has the reply finds it counted.
        self.counters[mount].answering(pending.operation(), pending.bytes(), service);
        replier.send(pending);
        let late = if self.clock.is_virtual() { 0 } else { self.clock.real().saturating_sub(due) };
        self.counters[mount].answered(late);
    }

    /// Advances all models to now and takes out what is to be answered; returns the next real time something is due.
    fn collect(&self, shared: &mut Shared, batch: &mut Vec<(usize, Nanos, Pending)>) -> Option<u64> {
        let mut next = None;
        for (index, mounted) in shared.mounts.iter_mut().enumerate() {
            let mut now = self.clock.now();
            if self.clock.is_virtual() {
                now = mounted.next_due().unwrap_or(mounted.now);
            }
            mounted.advance(now);
            while let Some(Reverse((due, id))) =
                mounted.finished.peek().copied().filter(|Reverse((due, _))| *due <= now)
            {
                mounted.finished.pop();
                batch.extend(mounted.pending.take(id, due).map(|pending| (index, due, pending)));
            }
            let due = mounted.next_due().map(|at| self.clock.to_real(at));
            next = [next, due].into_iter().flatten().min();
        }
        batch.sort_by_key(|(_, due, _)| *due);
        next
    }

    fn sleep<'a>(&self, mut shared: MutexGuard<'a, Shared>, next: Option<u64>) -> MutexGuard<'a, Shared> {
        if self.clock.is_virtual() && next.is_some() {
            return shared;
        }
        shared.sleeping_until = Some(next.unwrap_or(u64::MAX));
        let mut shared = match next {
            Some(next) => {
                let wait = self.clock.until(next);
                self.wake.wait_timeout(shared, wait).map(|(shared, _)| shared).expect("no panic while holding the lock")
            }
            None => self.wake.wait(shared).expect("no panic while holding the lock"),
        };
        shared.sleeping_until = None;
        shared
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no panic while holding the lock")
    }
}
