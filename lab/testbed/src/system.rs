//! The libc calls that concern the process: identity, real-time priority, limits, signals.
//!
//! None of them is needed for correctness; what is not permitted is reported as text and the testbed goes on.

use std::io;

use serde::{Deserialize, Serialize};

/// Turns a libc return value into a result.
pub(crate) fn check(code: libc::c_int) -> io::Result<libc::c_int> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(code) }
}

/// Like [`check`] for calls that return a length or an offset.
pub(crate) fn check_size(code: libc::ssize_t) -> io::Result<usize> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(code as usize) }
}

/// The effective user.
pub(crate) fn user_id() -> u32 {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

/// What the process was allowed to do about its own latency.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealTime {
    /// Whether the serving threads run under SCHED_FIFO.
    pub scheduler_fifo: bool,
    /// Whether all memory is locked.
    pub memory_locked: bool,
    /// Whether timers expire without slack.
    pub timer_slack_1ns: bool,
    /// What was refused and why it matters; empty if nothing was.
    pub refused: Vec<String>,
}

impl RealTime {
    /// Asks for everything for the calling thread; threads it starts later inherit the scheduler and the slack.
    pub(crate) fn acquire() -> RealTime {
        let mut outcome = RealTime::default();
        let parameter = libc::sched_param { sched_priority: 50 };
        // SAFETY: `parameter` lives across the call; 0 names the calling thread.
        match check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) }) {
            Ok(_) => outcome.scheduler_fifo = true,
            Err(error) => outcome.refused.push(format!(
                "SCHED_FIFO refused ({error}): replies will be up to 2 ms late beside computing ranks; run as root or raise 'ulimit -r'"
            )),
        }
        // SAFETY: mlockall takes flags only.
        match check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) }) {
            Ok(_) => outcome.memory_locked = true,
            Err(error) => outcome.refused.push(format!("mlockall refused ({error}): raise 'ulimit -l'")),
        }
        // SAFETY: PR_SET_TIMERSLACK takes one integer and changes only the calling thread.
        match check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1usize, 0usize, 0usize, 0usize) }) {
            Ok(_) => outcome.timer_slack_1ns = true,
            Err(error) => outcome.refused.push(format!("timer slack of 1 ns refused ({error})")),
        }
        outcome
    }
}

/// Raises the limit of open files to its hard limit and returns it: every inode the kernel remembers needs one.
pub(crate) fn raise_file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit for both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        }
    }
    limit.rlim_cur
}

/// The termination signals, blocked so that one thread can wait for them; threads started later inherit the mask.
pub(crate) struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks SIGTERM, SIGINT and SIGHUP in the calling thread.
    pub(crate) fn block() -> Signals {
        // SAFETY: a zeroed sigset_t is a valid argument for sigemptyset, which initialises it.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is a valid signal set for all calls; the previous mask is not asked for.
        unsafe {
            libc::sigemptyset(&mut set);
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(&mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        }
        Signals(set)
    }

    /// Waits for one of them.
    pub(crate) fn wait(&self) -> i32 {
        let mut signal = 0;
        // SAFETY: the set is initialised and `signal` is valid for writing.
        unsafe { libc::sigwait(&self.0, &mut signal) };
        signal
    }
}

/// Lets FUSE requests grow beyond 1 MiB where the kernel permits; returns the limit in bytes that holds afterwards.
pub(crate) fn raise_fuse_request_limit(bytes: u64) -> u64 {
    const LIMIT: &str = "/proc/sys/fs/fuse/max_pages_limit";
    const PAGE_BYTES: u64 = 4096;
    let read = || std::fs::read_to_string(LIMIT).ok().and_then(|text| text.trim().parse::<u64>().ok());
    // Kernels without the file allow 256 pages.
    let pages = read().unwrap_or(256);
    if pages * PAGE_BYTES < bytes && std::fs::write(LIMIT, (bytes / PAGE_BYTES).to_string()).is_ok() {
        return read().unwrap_or(256) * PAGE_BYTES;
    }
    pages * PAGE_BYTES
}
