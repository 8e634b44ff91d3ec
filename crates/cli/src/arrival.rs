//! Whether the library has come up in the program that was started: it writes a byte to a pipe that the
//! program inherits.
//!
//! Where it is silent, what is mapped into the program tells: the dynamic linker maps what is preloaded
//! before the libc that the program needs. Nothing is waited for once the program has ended.

use std::fs;
use std::io::{PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use headstart_agent::process::ProcessHandle;
use headstart_protocol::ENVIRONMENT_ARRIVAL;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::program::hand_down;

/// The first look at what is mapped; the next ones come at distances that double.
const LOOK_MS_MIN: u16 = 5;
const LOOK_MS_MAX: u16 = 1000;

/// What became of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is there.
    Arrived,
    /// The program has ended without it, or closed the pipe.
    Ended,
    /// The program runs without it.
    NotLoaded,
}

/// See the module.
pub struct Arrival {
    reader: PipeReader,
    writer: PipeWriter,
}

impl Arrival {
    /// Makes the program tell.
    pub fn expect(command: &mut Command) -> Result<Arrival> {
        let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
        hand_down(command, writer.as_raw_fd());
        command.env(ENVIRONMENT_ARRIVAL, writer.as_raw_fd().to_string());
        Ok(Arrival { reader, writer })
    }

    /// Waits until that is known of process `pid`.
    pub fn wait(self, pid: u32, library: &Path) -> Outcome {
        let Arrival { mut reader, writer } = self;
        drop(writer);
        let Ok(process) = ProcessHandle::of_number(pid) else { return Outcome::Ended };
        // Auditors' libraries come before what is preloaded, with a libc of their own.
        let is_audited = std::env::var_os("LD_AUDIT").is_some();
        let mut look_ms = LOOK_MS_MIN;
        loop {
            let mut polled =
                [PollFd::new(reader.as_fd(), PollFlags::POLLIN), PollFd::new(process.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut polled, PollTimeout::from(look_ms));
            let [told, ended] = polled.map(|fd| fd.any().unwrap_or(false));
            if told {
                let arrived = reader.read(&mut [0; 1]).is_ok_and(|length| length > 0);
                return if arrived { Outcome::Arrived } else { Outcome::Ended };
            }
            if ended {
                return Outcome::Ended;
            }
            if !is_audited && runs_without(pid, library) {
                return Outcome::NotLoaded;
            }
            look_ms = (look_ms * 2).min(LOOK_MS_MAX);
        }
    }
}

/// Whether a process has libc mapped, and the library not.
fn runs_without(pid: u32, library: &Path) -> bool {
    let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else { return false };
    let names = || maps.lines().filter_map(|line| Some(line.split_once('/')?.1.rsplit('/').next().unwrap_or("")));
    let library = library.file_name().unwrap_or_default().to_string_lossy();
    // One whose file was removed meanwhile has something behind its name.
    let is_library = |name: &str| name.starts_with(library.as_ref());
    names().any(|name| name.starts_with("libc.so.") || name.starts_with("libc-2.")) && !names().any(is_library)
}
