//! The program that `run` and `trace` start: with the library preloaded, until it ends.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context, Result, bail};

use crate::interrupts::Interrupts;

/// A program and its arguments.
pub struct Program<'a>(pub &'a [OsString]);

impl Program<'_> {
    /// As it stands.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.0[0]);
        command.args(&self.0[1..]);
        command
    }

    /// With the library before whatever else the user preloads.
    pub fn preloaded(&self, library: &Path) -> Command {
        let mut command = self.command();
        let mut preload = library.as_os_str().to_owned();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        command.env("LD_PRELOAD", preload);
        command
    }

    /// Runs it to its end.
    pub fn wait(&self, mut command: Command, interrupts: &Interrupts) -> Result<ExitStatus> {
        let mut child = command.spawn().with_context(|| format!("cannot start {}", Path::new(&self.0[0]).display()))?;
        interrupts.pass_to(child.id());
        let status = child.wait().context("cannot wait for the program");
        interrupts.pass_to(0);
        status
    }
}

/// The program's own status; a signal as a shell reports it.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    ExitCode::from(u8::try_from(exit_number(status)).unwrap_or(crate::EXIT_FAILED))
}

/// The same as a number.
pub fn exit_number(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// The library: `$HEADSTART_LIBRARY`, beside this program, or in `../lib` of it.
pub fn library() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("HEADSTART_LIBRARY") {
        let path = PathBuf::from(path);
        if !path.exists() {
            bail!("HEADSTART_LIBRARY names {}, which does not exist", path.display());
        }
        return path.canonicalize().context("HEADSTART_LIBRARY");
    }
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let beside = program.with_file_name("libheadstart.so");
    let installed = program.parent().and_then(Path::parent).map(|prefix| prefix.join("lib/libheadstart.so"));
    for candidate in [Some(beside.clone()), installed].into_iter().flatten() {
        if candidate.exists() {
            return Ok(candidate);
        }
    }
    bail!("libheadstart.so is not at {}; build it with 'make build' or name it in HEADSTART_LIBRARY", beside.display())
}
