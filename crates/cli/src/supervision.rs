//! While a program runs, an agent does: one that dies is followed by another, which goes on with the shared file.
//!
//! The ranks wait for it where bits are set, and go on elsewhere. An agent that was told to stop has taken
//! its socket away; nobody follows it. Agents that die again and again as soon as they serve are started at
//! longer and longer distances, for about as long as ranks are patient, and then given up: something is wrong
//! that another start does not mend.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use headstart_agent::client::{Client, Overrides};
use headstart_agent::process::ProcessHandle;
use headstart_agent::runtime_directory;
use headstart_agent::site::Site;
use headstart_agent::status::Command as Ask;
use headstart_protocol::SOCKET_FILE;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::place::remind_of_plan;
use crate::run::reason;
use crate::write_back::connect_or_start;

/// An agent that served for less than this was no help: time for some thousand answers.
const SHORT_LIFE: Duration = Duration::from_millis(100);
/// So many of them in a row are enough: with the pauses about 25 s, somewhat less than a rank waits for an agent.
pub const SHORT_LIVES_MAX: u32 = 19;
/// Of so many in a row the user is told, after somewhat more than a second: what passes sooner is no trouble of theirs.
const SHORT_LIVES_TOLD: u32 = 7;
/// Pause after the first of them; it doubles with each.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// What it takes to start an agent.
#[derive(Clone, Debug)]
pub struct Start {
    pub site: Site,
    pub site_path: PathBuf,
    pub overrides: Overrides,
    /// Regions follow what programs read.
    pub follow: bool,
    /// The plan of the run, whose regions are of whatever file has the name: an agent knows those only as
    /// long as it lives.
    pub plan: Option<PathBuf>,
    /// It is for a run, whose patterns hold, and not for a command, which has none.
    pub runs: bool,
}

impl Start {
    /// For a command, which leaves the agent as it is.
    pub fn for_command(site: &Site, site_path: &Path) -> Start {
        let (site, site_path, overrides) = (site.clone(), site_path.to_path_buf(), Overrides::default());
        Start { site, site_path, overrides, follow: false, plan: None, runs: false }
    }

    /// Connects to the site's agent, or starts one.
    pub fn connect(&self) -> headstart_agent::Result<Client> {
        connect_or_start(&self.site, &self.site_path, &self.overrides)
    }

    /// Which files belong on flash.
    pub fn selection(&self) -> Ask {
        Ask::Select { include: self.overrides.include.clone(), exclude: self.overrides.exclude.clone() }
    }

    /// The same; it is told what the agent before was told.
    pub fn follow_on(&self) -> headstart_agent::Result<Watched> {
        let client = self.connect()?;
        if self.runs {
            // Somebody else may have started it.
            client.ask(&self.selection())?;
        }
        if let Some(plan) = &self.plan {
            remind_of_plan(&client, &self.site, plan);
        }
        let status = client.ask(if self.follow { &Ask::Follow } else { &Ask::Status })?;
        Ok(Watched { pid: status.pid, told: client })
    }

    /// Where an agent listens, or one that was killed did.
    pub fn socket(&self) -> PathBuf {
        runtime_directory::path(&self.site.slow).join(SOCKET_FILE)
    }

    fn log(&self) -> PathBuf {
        runtime_directory::log(&runtime_directory::path(&self.site.slow))
    }
}

/// An agent.
pub struct Watched {
    pid: u32,
    /// What it was told holds as long as this connection.
    told: Client,
}

impl Watched {
    /// The connection.
    pub fn into_client(self) -> Client {
        self.told
    }
}

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
        pid = next.pid;
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

/// Pause before the next try, after so many in a row that failed.
pub fn pause_after(short_lives: u32) -> Duration {
    let doublings = short_lives.saturating_sub(1).min(16);
    if short_lives == 0 { Duration::ZERO } else { (PAUSE_MIN * (1 << doublings)).min(PAUSE_MAX) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_over_before_ranks_lose_patience() {
        assert_eq!(pause_after(0), Duration::ZERO, "one that served is followed at once");
        let pauses: Vec<Duration> = (1..=SHORT_LIVES_MAX).map(pause_after).collect();
        assert!(pauses.is_sorted() && pauses[0] == PAUSE_MIN);
        let whole: Duration = pauses.iter().sum();
        assert!(whole > Duration::from_secs(15) && whole < Duration::from_secs(28), "{whole:?}");
    }
}
