//! Programs that the library cannot be in: `run` names its own before it starts, the library those it sees
//! executed, once a run, for which it leaves marks in the runtime directory. Before such a program starts,
//! the agent empties flash and keeps it empty while the program lives, or what it started ([`Kept`]); or it
//! is refused, as the site has it.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use headstart_agent::Error;
use headstart_agent::status::Command as Ask;
use headstart_program::image::Stranger;
use headstart_protocol::{MARK_PREFIX, STRANGERS_FILE, Strangers};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::looks::Looks;
use crate::program::hand_down;
use crate::service::Service;

/// Removes the marks of earlier runs.
pub fn forget_marks(runtime: &Path) {
    let Ok(entries) = fs::read_dir(runtime) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(MARK_PREFIX) {
            // One that stays costs a line on stderr.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// One line on stderr where a program's requests were to be recorded.
pub fn warn_untraced(program: &OsStr) {
    if let Some((path, why)) = Looks::of(program).stranger {
        eprintln!("headstart: {} {}: its requests are not recorded. {}", path.display(), why.reason(), why.advice());
    }
}

/// Flash kept empty for a program that is about to start.
pub struct Kept<'a> {
    service: &'a Service,
    path: PathBuf,
    /// The program inherits it, and whoever it starts: its last close tells the agent.
    token: Option<File>,
}

impl Kept<'_> {
    /// Says so, and does what the site wants done before the program starts.
    pub fn admit<'a>(
        service: &'a Service,
        strangers: Strangers,
        path: &Path,
        why: Stranger,
    ) -> Result<Option<Kept<'a>>> {
        let (shown, reason, advice) = (path.display(), why.reason(), why.advice());
        match strangers {
            Strangers::Refuse => bail!("{shown} {reason}: it is not started (strangers = \"refuse\"). {advice}"),
            Strangers::Warn => eprintln!(
                "headstart: {shown} {reason}: it sees only what was written back, and what it writes is not seen. {advice}"
            ),
            Strangers::Wait => eprintln!(
                "headstart: {shown} {reason}: flash is emptied before it starts, and serves nobody until it has ended. {advice}"
            ),
        }
        if strangers == Strangers::Warn {
            return Ok(None);
        }
        let fifo = service.runtime().join(STRANGERS_FILE);
        let token = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(fifo).ok();
        let kept = Kept { service, path: path.to_path_buf(), token };
        kept.ask(None)?;
        Ok(Some(kept))
    }

    fn ask(&self, pid: Option<u32>) -> Result<()> {
        match self.service.ask(&Ask::Stranger { pid, path: self.path.display().to_string() }) {
            Err(Error::Refused(problem)) => eprintln!(
                "headstart: {} starts though not everything went back: {problem}; it sees old bytes there",
                self.path.display()
            ),
            asked => drop(asked?),
        }
        Ok(())
    }

    /// Lets the program inherit what tells that it lives.
    pub fn hand_down(&self, command: &mut Command) {
        if let Some(token) = &self.token {
            hand_down(command, token.as_raw_fd());
        }
    }

    /// It has started, as this process.
    pub fn started(self, pid: u32) {
        // An agent started anew meanwhile knows of it by the fifo.
        let _ = self.service.ask(&Ask::StrangerStarted { pid });
    }
}

/// A program runs in which the library did not come up though it should have: it is held until flash is
/// empty, or ended.
pub fn unloaded(service: &Service, strangers: Strangers, path: &Path, pid: u32) -> Result<()> {
    let process = Pid::from_raw(pid as i32);
    let signalled = |signal| kill(process, signal).is_ok();
    say_unloaded(path);
    match strangers {
        Strangers::Warn => Ok(()),
        Strangers::Refuse => {
            signalled(Signal::SIGKILL);
            bail!("{} was ended (strangers = \"refuse\")", path.display());
        }
        Strangers::Wait => {
            signalled(Signal::SIGSTOP);
            let kept = Kept { service, path: path.to_path_buf(), token: None };
            let asked = kept.ask(Some(pid));
            signalled(Signal::SIGCONT);
            asked
        }
    }
}

/// One line on stderr.
pub fn say_unloaded(path: &Path) {
    let why = Stranger::NotLoaded;
    eprintln!(
        "headstart: {} {}: what it read may be old, and what it wrote was not seen. {}",
        path.display(),
        why.reason(),
        why.advice()
    );
}
