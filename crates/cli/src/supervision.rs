//! While a program runs, an agent does: one that dies is followed by another, which goes on with the shared file.
//!
//! The ranks wait for it where bits are set, and go on elsewhere. An agent that was told to stop has taken
//! its socket away; nobody follows it. Agents that die again and again as soon as they serve are started at
//! longer and longer distances, for about as long as ranks are patient, and then given up: something is wrong
//! that another start does not mend.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use headstart_agent::process::ProcessHandle;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::start::{SHORT_LIVES_MAX, Start, Watched, pause_after, reason};

/// An agent that served for less than this was no help: time for some thousand answers.
const SHORT_LIFE: Duration = Duration::from_millis(100);
/// Of so many in a row the user is told, after somewhat more than a second: what passes sooner is no trouble of theirs.
const SHORT_LIVES_TOLD: u32 = 7;
/// Watches the agent until it is dropped.
pub struct Supervision {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Supervision {
    /// Watches the agent that is process `pid`.
    pub fn begin(start: Start, pid: u32) -> Result<Supervision> {
        // The program has no use for it.
        let stop = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC);
        let stop = Arc::new(stop.context("cannot create an event descriptor")?);
        let seen = stop.clone();
        let thread = std::thread::spawn(move || watch(&start, pid, &seen));
        Ok(Supervision { stop, thread: Some(thread) })
    }
}

impl Drop for Supervision {
    fn drop(&mut self) {
        // It fails only if the counter would overflow.
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(start: &Start, first: u32, stop: &EventFd) {
    let (mut pid, mut short_lives) = (first, 0);
    // What it was told holds as long as the connection.
    let mut _agent: Option<Watched> = None;
    loop {
        let began = Instant::now();
        if !outlives(pid, short_lives, stop) {
            return;
        }
        // It may be a child of ours.
        let _ = waitpid(Pid::from_raw(pid as i32), Some(WaitPidFlag::WNOHANG));
        if !start.socket().exists() {
            return; // it was told to stop
        }
        let served = began.elapsed() >= SHORT_LIFE;
        short_lives = if served { 0 } else { short_lives + 1 };
        if served {
            eprintln!("headstart: the agent (process {pid}) has ended while the program runs; starting another one");
        }
        let mut cause = format!("the agent (process {pid}) ended as soon as it served");
        let next = loop {
            if short_lives == SHORT_LIVES_TOLD {
                say_failing(&cause, &start.log());
            }
            if short_lives >= SHORT_LIVES_MAX {
                return give_up(&start.log());
            }
            if is_over_within(pause_after(short_lives), stop) {
                return;
            }
            match start.follow_on() {
                Ok(next) => break next,
                Err(error) => cause = reason(&error),
            }
            short_lives += 1;
        };
        pid = next.pid();
        _agent = Some(next);
    }
}

/// Waits for so long; whether the program has ended meanwhile.
fn is_over_within(pause: Duration, stop: &EventFd) -> bool {
    let mut polled = [PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
    let _ = poll(&mut polled, PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX));
    polled[0].any().unwrap_or(false)
}

/// Some in a row have failed.
fn say_failing(cause: &str, log: &Path) {
    eprintln!(
        "headstart: no agent stays up: {cause}. Others are tried for some 25 s in all, while the program waits \
         where it needs one; mend the cause meanwhile. See {}",
        log.display()
    );
}

fn give_up(log: &Path) {
    eprintln!(
        "headstart: {SHORT_LIVES_MAX} agents in a row ended at once; no other is started, and the program's calls on managed \
         files fail where they need one. What was acknowledged is kept; with the cause mended, 'headstart agent' goes on while the \
         program runs, and the next 'headstart run' or 'drain' afterwards. See {}",
        log.display()
    );
}

/// Waits for the end of the process; false if it is no longer to be waited for. Where the user was told that none stays
/// up, this one's staying is told.
fn outlives(pid: u32, short_lives: u32, stop: &EventFd) -> bool {
    let handle = match ProcessHandle::of_number(pid) {
        Ok(handle) => handle,
        Err(error) if error.raw_os_error() == Some(Errno::ESRCH as i32) => return true,
        Err(error) => {
            eprintln!("headstart: the agent (process {pid}) cannot be watched: {error}");
            return false;
        }
    };
    let mut is_awaited = short_lives >= SHORT_LIVES_TOLD;
    loop {
        let mut polled = [PollFd::new(stop.as_fd(), PollFlags::POLLIN), PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
        let limit = PollTimeout::try_from(SHORT_LIFE).ok().filter(|_| is_awaited);
        let polling = poll(&mut polled, limit.unwrap_or(PollTimeout::NONE));
        match polled.map(|fd| fd.any().unwrap_or(false)) {
            [true, _] => return false,
            [false, true] => return true,
            [false, false] => {}
        }
        if is_awaited && polling == Ok(0) {
            eprintln!("headstart: an agent (process {pid}) serves again; the program goes on");
            is_awaited = false;
        }
    }
}
