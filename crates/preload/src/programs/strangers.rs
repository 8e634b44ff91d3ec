//! Programs that the library will not be in (static, setuid, of another libc). They read and write the slow
//! files alone, so the agent empties flash before one starts, and keeps it empty until that program and its
//! children have ended; or the library refuses to start it. Each is named on stderr once a run.
//!
//! The agent knows that a program lives by a descriptor, one end of a fifo that the program inherits and hands
//! down, and by its process (`strangers.rs` of the agent).

use std::io::Write;

use headstart_program::image::Stranger;
use headstart_protocol::{STRANGERS_FILE, Strangers};
use libc::c_int;

use crate::kernel::raw::syscall;
use crate::kernel::{self, Facts};
use crate::location::{self, PathBuffer};
use crate::{session, settings};

/// Descriptors of programs' own are seldom so high.
const TOKEN_MIN: i64 = 500;
/// Of a file system whose programs run with nobody else's rights.
const ST_NOSUID: u64 = 2;
/// The word of `struct statfs` that holds the flags.
const STATFS_FLAGS: usize = 10;
/// Where programs keep capabilities.
const CAPABILITIES: &std::ffi::CStr = c"security.capability";

/// What became of a program that was looked at.
#[derive(Debug)]
pub(crate) enum Met {
    /// It may start; what tells that it lives, where there is an agent that keeps flash empty meanwhile.
    Admitted(Option<Token>),
    /// It is not to start.
    Refused,
}

/// The end of the fifo.
#[derive(Debug)]
pub(crate) struct Token {
    /// None where there is no descriptor left for it: the process alone tells then.
    end: Option<c_int>,
}

impl Token {
    fn open() -> Option<Token> {
        let path = settings::runtime_path(STRANGERS_FILE).ok()?;
        let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
        match kernel::openat(libc::AT_FDCWD, &path, flags, 0) {
            Ok(fd) => {
                // Not closed by exec: the program is to have it.
                let high = kernel::fcntl(fd, libc::F_DUPFD, TOKEN_MIN).or_else(|_| kernel::fcntl(fd, libc::F_DUPFD, 0));
                let _ = kernel::close(fd);
                Some(Token { end: high.ok() })
            }
            // No agent was ever there.
            Err(libc::ENOENT) => None,
            Err(_) => Some(Token { end: None }),
        }
    }

    /// The program did not start in this process.
    pub(crate) fn give_back(self) {
        self.close();
        tell("no_stranger", kernel::process());
    }

    /// It started in process `pid`, if that is known, and has the other copies.
    pub(crate) fn hand_over(self, pid: Option<u32>) {
        if let Some(pid) = pid {
            tell("stranger_started", pid);
        }
        if self.end.is_none() {
            // This process stood for it.
            tell("no_stranger", kernel::process());
        }
        self.close();
    }

    fn close(&self) {
        if let Some(end) = self.end {
            let _ = kernel::close(end);
        }
    }
}

/// Tells the agent of a process. Where it does not hear, flash stays empty until that has ended.
fn tell(command: &str, pid: u32) {
    let mut text = Vec::new();
    let _ = write!(text, "{{\"command\":\"{command}\",\"pid\":{pid}}}");
    let _ = session::command(&text, |_| {});
}

/// The question.
fn about(path: &[u8], pid: Option<u32>) -> Vec<u8> {
    let mut text = b"{\"command\":\"stranger\",".to_vec();
    if let Some(pid) = pid {
        let _ = write!(text, "\"pid\":{pid},");
    }
    text.extend_from_slice(b"\"path\":\"");
    for &byte in path {
        match byte {
            b'"' | b'\\' => text.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => text.push(byte),
            _ => text.push(b'?'),
        }
    }
    text.extend_from_slice(b"\"}");
    text
}

/// Whether the system would start the program, which `fd` addresses, with other rights, and so keep the
/// library out of it.
pub(crate) fn gains_rights(fd: c_int, facts: &Facts) -> Option<Stranger> {
    let setuid = facts.mode & libc::S_ISUID != 0 && facts.owner.0 != kernel::real_user();
    let setgid = facts.mode & libc::S_ISGID != 0 && facts.owner.1 != kernel::real_group();
    let why = if setuid || setgid {
        Stranger::Privileged
    } else if kernel::real_user() != 0 && has_capabilities(fd) {
        Stranger::Capable
    } else {
        return None;
    };
    (!keeps_rights(fd)).then_some(why)
}

fn has_capabilities(fd: c_int) -> bool {
    let link = location::Link::of(fd);
    // SAFETY: both are strings, and no room is given for the value.
    unsafe { syscall!(libc::SYS_getxattr, link.path().as_ptr(), CAPABILITIES.as_ptr(), 0, 0) }
        .is_ok_and(|length| length > 0)
}

/// Whether no program gets other rights: none that this process starts, or none of this file system.
fn keeps_rights(fd: c_int) -> bool {
    // SAFETY: no memory is involved.
    if unsafe { syscall!(libc::SYS_prctl, libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } == Ok(1) {
        return true;
    }
    // The kernel's structure is made of words on 64-bit machines; libc's does not name all.
    let mut words = [0u64; 16];
    // SAFETY: what is found is written where there is room for it.
    let known = unsafe { syscall!(libc::SYS_fstatfs, fd, words.as_mut_ptr()) }.is_ok();
    known && words[STATFS_FLAGS] & ST_NOSUID != 0
}

/// A program is about to be started, in this process if `here`; `fd` addresses it.
pub(crate) fn meet(fd: c_int, facts: &Facts, why: Stranger, here: bool) -> Met {
    let mut buffer = PathBuffer::empty();
    let path = location::path_of(fd, &mut buffer).unwrap_or(b"a program");
    let strangers = settings::settings().strangers;
    if strangers == Strangers::Refuse || session::say_once(facts) {
        say(path, why, strangers);
    }
    match strangers {
        Strangers::Refuse => Met::Refused,
        Strangers::Warn => Met::Admitted(None),
        Strangers::Wait => Met::Admitted(wait(path, here)),
    }
}

fn say(path: &[u8], why: Stranger, strangers: Strangers) {
    let (path, reason, advice) = (path.escape_ascii(), why.reason(), why.advice());
    match strangers {
        Strangers::Refuse => {
            session::complain(format_args!("{path} {reason}: it is not started (strangers = \"refuse\"). {advice}"))
        }
        Strangers::Warn => session::complain(format_args!(
            "{path} {reason}: it sees only what was written back, and what it writes is not seen. {advice}"
        )),
        Strangers::Wait => session::complain(format_args!(
            "{path} {reason}: flash is emptied before it starts, and serves nobody until it has ended. {advice}"
        )),
    }
}

fn wait(path: &[u8], here: bool) -> Option<Token> {
    let token = Token::open()?;
    let pid = (here || token.end.is_none()).then(kernel::process);
    let asked = session::command(&about(path, pid), |problem| {
        session::complain(format_args!(
            "{} starts though not everything went back: {}; it sees old bytes there",
            path.escape_ascii(),
            problem.escape_ascii()
        ));
    });
    if let Err(errno) = asked.as_ref()
        && *errno != libc::ENOENT
    {
        session::complain(format_args!(
            "the agent did not empty flash (error {errno}): {} sees only what was written back",
            path.escape_ascii()
        ));
    }
    Some(token)
}
