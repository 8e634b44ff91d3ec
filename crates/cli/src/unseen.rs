//! Programs that the library cannot be in: `run` names its own before it starts, the library those it sees
//! executed, once a run, for which it leaves marks in the runtime directory. Before such a program starts,
//! the agent empties flash and keeps it empty while the program lives, or what it started ([`Kept`]); or it
//! is refused, as the site has it.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use headstart_agent::Error;
use headstart_agent::status::Command as Ask;
use headstart_program::image;
use headstart_program::image::{HEAD_BYTES, Image, Stranger};
use headstart_protocol::{MARK_PREFIX, STRANGERS_FILE, Strangers};
use nix::sys::signal::{Signal, kill};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::Pid;

use crate::program::hand_down;
use crate::service::Service;

/// Interpreters of interpreters that the kernel follows.
const SCRIPTS_MAX: usize = 5;

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

/// What a program is, as far as it matters to what is put into its environment.
#[derive(Default)]
pub struct Looks {
    /// The library will not be in it: the program, or its interpreter, and why.
    pub stranger: Option<(PathBuf, Stranger)>,
    /// The sanitizer's runtime that it is linked with.
    pub sanitizer: Option<Vec<u8>>,
}

impl Looks {
    /// Of the program that a shell would find.
    pub fn of(program: &OsStr) -> Looks {
        found(program).map_or_else(Looks::default, |path| Looks::of_file(path, SCRIPTS_MAX))
    }

    fn of_file(path: PathBuf, scripts_left: usize) -> Looks {
        if let Some(why) = gains_rights(&path) {
            return Looks { stranger: Some((path, why)), sanitizer: None };
        }
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let opened = File::open(&path);
        let Ok(file) = opened else { return Looks::default() };
        if (&file).take(HEAD_BYTES as u64).read_to_end(&mut head).is_err() {
            return Looks::default();
        }
        let mut name = [0; 64];
        let needed = image::sanitizer(&head, &mut name, |at, to| file.read_at(to, at).unwrap_or(0));
        let sanitizer = needed.map(<[u8]>::to_vec);
        match Image::of(&mut head) {
            Image::Script(interpreter) if scripts_left > 0 => {
                Looks::of_file(OsStr::from_bytes(interpreter.to_bytes()).into(), scripts_left - 1)
            }
            Image::Static if image::is_linker(path.as_os_str().as_bytes()) => Looks::default(),
            image => Looks { stranger: image.stranger().map(|why| (path, why)), sanitizer },
        }
    }
}

/// Where a shell would find the program.
fn found(program: &OsStr) -> Option<PathBuf> {
    if program.to_string_lossy().contains('/') {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH")?;
    let is_program =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0);
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(is_program)
}

/// Whether the system would start the program with other rights.
fn gains_rights(path: &Path) -> Option<Stranger> {
    let found = fs::metadata(path).ok()?;
    let (user, group) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
    let why = if found.mode() & libc::S_ISUID != 0 && found.uid() != user
        || found.mode() & libc::S_ISGID != 0 && found.gid() != group
    {
        Stranger::Privileged
    } else if user != 0 && has_capabilities(path) {
        Stranger::Capable
    } else {
        return None;
    };
    let keeps = nix::sys::prctl::get_no_new_privs().unwrap_or(false)
        || statvfs(path).is_ok_and(|system| system.flags().contains(FsFlags::ST_NOSUID));
    (!keeps).then_some(why)
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both are strings, and no room is given for the value.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
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
