//! A thread's part in the protocol: its slot in the shared file and its connection to the agent.
//!
//! A session begins at the thread's first managed call and ends with the thread. The last session to end in a process
//! is parked for the next thread, so that the agent sees the process as long as it lives. A call that is entered while
//! its thread is already in one (a signal handler) gets a session of its own for that call. Threads for which
//! the program has left no descriptor take turns at one session ([`loan`]).

mod command;
mod connection;
pub(crate) mod door;
mod loan;
mod mapping;
mod standing_in;
pub(crate) mod uses;

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence};

use headstart_policy::client;
use headstart_policy::client::Decision;
use headstart_policy::client::carl::Regions;
use headstart_policy::client::s4d::S4d;
use headstart_policy::order::Distance;
use headstart_protocol::counters::Counter;
use headstart_protocol::message::{Envelope, Request};
use headstart_protocol::shared::{SLOTS_MAX, Slot};
use headstart_units::request::{Direction, Range};

use crate::files::descriptors::{self, Own, Target};
use crate::kernel::{self, Errno};
use crate::process;
use crate::settings::{self, settings};

pub(crate) use command::command;
pub(crate) use connection::{Answer, complain, say_once};
pub(crate) use mapping::{runtime_path, shared};
pub(crate) use standing_in::{stand_in, stands_in_for_the_parent};

use loan::Loan;

/// One thread's slot and connection.
pub(crate) struct Session {
    /// The slot; only its owner writes it, but for what the agent grants.
    pub slot: &'static Slot,
    index: u32,
    /// Process and start time that the agent knows it by: those that its own namespace shows.
    owner: (u32, u64),
    thread: u32,
    /// Whether it serves a signal handler that interrupted a request of its thread.
    pub nested: bool,
    socket: Option<i32>,
    packet: Vec<u8>,
    answer: Vec<u8>,
}

struct Thread {
    session: Cell<*mut Session>,
    busy: AtomicBool,
}

thread_local! {
    /// Without a destructor, so that it serves to the very end of a thread and of the process.
    static THREAD: Thread = const { Thread { session: Cell::new(ptr::null_mut()), busy: AtomicBool::new(false) } };
}

/// The last session that a thread left behind.
static PARKED: AtomicPtr<Session> = AtomicPtr::new(ptr::null_mut());
/// Key whose destructor ends a thread's session.
static KEY: AtomicU32 = AtomicU32::new(0);
/// Slots of this process, one bit each.
static SLOTS: [AtomicU64; SLOTS_MAX / 64] = [const { AtomicU64::new(0) }; SLOTS_MAX / 64];

/// What the agent told the process's first thread.
#[derive(Debug)]
struct Site {
    s4d: S4d,
    fast: Vec<u8>,
}

static SITE: OnceLock<Site> = OnceLock::new();

/// Called once, before any session.
pub(crate) fn start() {
    let mut key = 0;
    // SAFETY: `key` is writable, and the destructor lives as long as the library.
    unsafe { libc::pthread_key_create(&mut key, Some(end_of_thread)) };
    KEY.store(key, Ordering::Relaxed);
}

/// Runs `work` with the calling thread's session.
#[inline]
pub(crate) fn with<R>(work: impl FnOnce(&mut Session) -> Result<R, Errno>) -> Result<R, Errno> {
    THREAD.with(|thread| {
        if thread.busy.load(Ordering::Relaxed) {
            return work(&mut *join(true)?);
        }
        if thread.session.get().is_null() {
            return if process::is_own() { work_first(thread, work) } else { apart(work) };
        }
        let _busy = Busy::begin(&thread.busy);
        // SAFETY: the pointer came from `Box::into_raw`, only this thread has it, and `busy` keeps a handler from
        // using it too.
        work(unsafe { &mut *thread.session.get() })
    })
}

/// A thread's first call. Apart, so that the calls after it have no loan to give back.
#[cold]
#[inline(never)]
fn work_first<R>(thread: &Thread, work: impl FnOnce(&mut Session) -> Result<R, Errno>) -> Result<R, Errno> {
    // Before `busy`, so that it ends after it.
    let _loan = begin(thread)?;
    let _busy = Busy::begin(&thread.busy);
    // SAFETY: as in `with`; the session is this thread's for as long as the loan, if not for good.
    work(unsafe { &mut *thread.session.get() })
}

/// Sees to it that the calling thread has a session for good, for what cannot be done with one on loan.
pub(crate) fn begin_own() -> Result<(), Errno> {
    THREAD.with(|thread| {
        let has = thread.busy.load(Ordering::Relaxed) || !thread.session.get().is_null();
        if has || begin(thread)?.is_none() { Ok(()) } else { Err(libc::EMFILE) }
    })
}

/// Whether the calling thread's session is in use: the caller is in a handler that interrupted a request.
#[inline]
pub(crate) fn is_interrupted() -> bool {
    THREAD.with(|thread| thread.busy.load(Ordering::Relaxed))
}

/// A thread's session in use, until it is dropped.
struct Busy<'t>(&'t AtomicBool);

impl Busy<'_> {
    #[inline]
    fn begin(busy: &AtomicBool) -> Busy<'_> {
        busy.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        Busy(busy)
    }
}

impl Drop for Busy<'_> {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Gives the thread a session: for good, or until the loan is dropped.
#[cold]
fn begin(thread: &Thread) -> Result<Option<Loan<'_>>, Errno> {
    let parked = PARKED.swap(ptr::null_mut(), Ordering::AcqRel);
    let session = match parked.is_null().then(|| join(false)) {
        None => parked,
        Some(Ok(joined)) => {
            loan::provide();
            Box::into_raw(joined)
        }
        Some(Err(errno @ (libc::EMFILE | libc::ENFILE))) => return Loan::take(thread, errno).map(Some),
        Some(Err(errno)) => return Err(errno),
    };
    // SAFETY: the pointer came from `Box::into_raw`, and no other thread has it.
    unsafe { (*session).belongs_to(kernel::thread()) };
    thread.session.set(session);
    // SAFETY: the key exists since `start`.
    unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), session.cast()) };
    Ok(None)
}

#[cold]
fn join(nested: bool) -> Result<Box<Session>, Errno> {
    Session::join(kernel::thread(), nested).map(Box::new)
}

/// Runs `work` with a session of its own, as the process that calls: for a `vfork` child, which shares its parent's
/// memory, but is another process to the agent. Whatever it opens is closed when it hangs up.
pub(crate) fn apart<R>(work: impl FnOnce(&mut Session) -> Result<R, Errno>) -> Result<R, Errno> {
    work(&mut *Session::join_as(kernel::process(), process::read_start_time(), kernel::thread(), true).map(Box::new)?)
}

unsafe extern "C" fn end_of_thread(session: *mut c_void) {
    // Its system calls may be filtered, so that it may not even hang up.
    if !settings::active() {
        return;
    }
    THREAD.with(|thread| thread.session.set(ptr::null_mut()));
    let session: *mut Session = session.cast();
    // SAFETY: the pointer came from `Box::into_raw`, and the thread just gave it up.
    uses::end(unsafe { (*session).index });
    if PARKED.compare_exchange(ptr::null_mut(), session, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        // SAFETY: the pointer came from `Box::into_raw`, and the thread just gave it up.
        drop(unsafe { Box::from_raw(session) });
    }
}

/// In a forked child: forgets the parent's sessions. Their memory is left alone, as another thread may have been in
/// the middle of one.
pub(crate) fn abandon() {
    THREAD.with(|thread| {
        thread.session.set(ptr::null_mut());
        thread.busy.store(false, Ordering::Relaxed);
    });
    // SAFETY: the key exists since `start`; setting it to nothing frees nothing.
    unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), ptr::null()) };
    PARKED.store(ptr::null_mut(), Ordering::Relaxed);
    loan::abandon();
    uses::abandon();
    SLOTS.iter().for_each(|word| word.store(0, Ordering::Relaxed));
}

/// Waits until no other thread of this process has a request for `file` under way. The caller took the file's
/// descriptor away and fenced; whoever publishes later sees that.
pub(crate) fn wait_for_requests(file: u32) {
    let Some(shared) = shared() else { return };
    for (word_index, word) in SLOTS.iter().enumerate() {
        let mut bits = word.load(Ordering::Acquire);
        while bits != 0 {
            let slot = &shared.slots[word_index * 64 + bits.trailing_zeros() as usize];
            bits &= bits - 1;
            let mine = THREAD.with(|thread| {
                let session = thread.session.get();
                // SAFETY: the pointer is this thread's own; `slot` never changes after `join`.
                !session.is_null() && ptr::eq(unsafe { (*session).slot }, slot)
            });
            let mut tries = 0;
            while !mine && slot.is_busy_with(file) {
                tries += 1;
                if tries < 100 { std::thread::yield_now() } else { kernel::sleep_ms(1) }
            }
        }
    }
}

/// How a request of this process lies to those before it, the last of which it becomes: its own, and where
/// the cost model of a policy asks for it, those of other processes.
#[inline]
pub(crate) fn distance(target: &Target, direction: Direction, range: Range) -> Distance {
    let distance = target.record.distance(range);
    let asks = |site: &Site| settings().policies.asks_s4d() && site.s4d.of(direction).interleaved_stays;
    // There is memory behind what the agent was told of.
    match mapping::region().filter(|_| SITE.get().is_some_and(asks) && target.record.is_current()) {
        Some(region) => {
            let others = region.interleaving(target.file);
            Distance { interleaved: others.add(direction, range, process::number()), ..distance }
        }
        None => distance,
    }
}

/// What the site, and then the policies of this run, want of the first part of a request, which is not empty;
/// how far that reaches is where the part ends. Most requests are one part.
#[inline]
pub(crate) fn decide(target: &Target, request: &client::Request) -> (client::Request, Decision) {
    if let Some(reason) = target.record.stays_on_disk() {
        return (*request, Decision::Disk(reason));
    }
    let (chain, s4d) = (settings().policies, SITE.get().map(|site| &site.s4d));
    if !chain.asks_regions() {
        return chain.first_part(s4d, &Regions::NONE, request);
    }
    target.record.with_regions(|regions| chain.first_part(s4d, regions, request))
}

/// Absolute path of the fast directory; empty before the first session.
pub(crate) fn fast_directory() -> &'static [u8] {
    SITE.get().map_or(b"", |site| &site.fast)
}

impl Session {
    /// Sends a request under the slot's next number and waits for the answer, over a restart of the agent if need be.
    pub(crate) fn call(&mut self, request: &Request) -> Result<Answer, Errno> {
        let seq = self.slot.seq.load(Ordering::Relaxed) + 1;
        self.slot.seq.store(seq, Ordering::Release);
        self.slot.count(Counter::RoundTrips, 1);
        let envelope = Envelope { slot: self.index, seq };
        request.encode(envelope, &mut self.packet);
        let answered = self.deliver(envelope);
        if answered.is_err() {
            self.give_up();
        }
        answered
    }

    /// The agent answered with something that is no answer to the request.
    pub(crate) fn unexpected(&self, answer: Answer) -> Errno {
        self.give_up();
        connection::complain(format_args!(
            "the agent gave an unexpected answer ({answer:?}); library and agent differ"
        ));
        libc::EIO
    }

    /// A request is given up: no call of the kernel is under way for it, and nobody must wait for what was
    /// granted. Unless the slot is another's by now.
    fn give_up(&self) {
        if self.owns_slot() {
            self.slot.give_up();
        }
    }

    fn owns_slot(&self) -> bool {
        let owner = (self.slot.owner_pid.load(Ordering::Acquire), self.slot.owner_tid.load(Ordering::Acquire));
        owner == (self.owner.0, self.thread)
    }

    /// A parked session goes on with another thread: an agent that starts while a request is under way looks
    /// whether it lives.
    fn belongs_to(&mut self, thread: u32) {
        if self.thread != thread {
            self.thread = thread;
            self.slot.owner_tid.store(thread, Ordering::Release);
        }
    }

    fn own_slot(&self, mine: bool) {
        let (word, bit) = (&SLOTS[self.index as usize / 64], 1 << (self.index % 64));
        if mine {
            word.fetch_or(bit, Ordering::AcqRel)
        } else {
            word.fetch_and(!bit, Ordering::AcqRel)
        };
    }

    fn hang_up(&mut self) {
        if let Some(socket) = self.socket.take() {
            descriptors::close_own(socket);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.own_slot(false);
        // Where no agent hears of the end of the socket, the next one sees it here.
        if self.owns_slot() {
            self.slot.owner_tid.store(0, Ordering::Release);
        }
        self.hang_up();
    }
}

/// Marks a new socket as the library's and moves it away from the program's numbers.
fn own_socket(socket: i32) -> Result<i32, Errno> {
    descriptors::make_own(socket, Own::Socket)
}
