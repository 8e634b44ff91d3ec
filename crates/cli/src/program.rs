//! The program that `run` and `trace` start: with the library preloaded, until it ends.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context, Result, bail};
use headstart_agent::runtime_directory;
use headstart_cli::command::EXIT_FAILED;
use headstart_program::image::{HEAD_BYTES, Image, Stranger};
use headstart_program::preloading;
use headstart_program::preloading::Preload;
use headstart_protocol::ENVIRONMENT_FIRST;
use nix::sys::statvfs::{FsFlags, statvfs};

use crate::interrupts::Interrupts;
use crate::looks::Looks;

/// A program and its arguments.
pub struct Program<'a>(pub &'a [OsString]);

impl Program<'_> {
    /// As it stands.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.0[0]);
        command.args(&self.0[1..]);
        command
    }

    /// With the library before whatever else the user preloads, but for a sanitizer's runtime: that of a
    /// program that is linked with one comes first, for this program alone. One with another libc would not
    /// start with the library.
    pub fn preloaded(&self, library: &Path, looks: &Looks) -> Command {
        let mut command = self.command();
        if looks.stranger.as_ref().is_some_and(|(_, why)| *why == Stranger::OtherLinker) {
            return command;
        }
        let list = std::env::var_os(preloading::VARIABLE).unwrap_or_default();
        let (list, library) = (list.as_bytes(), library.as_os_str().as_bytes());
        let has_library = preloading::entries(list).any(|entry| entry == library);
        let preload = Preload { list, library, has_library, first: looks.sanitizer.as_deref() };
        command.env(preloading::VARIABLE, OsStr::from_bytes(&preload.completed()));
        if let Some(borrowed) = preload.borrowed() {
            command.env(ENVIRONMENT_FIRST, OsStr::from_bytes(borrowed));
        }
        command
    }

    /// Runs it to its end.
    pub fn wait(&self, command: Command, interrupts: &Interrupts) -> Result<ExitStatus> {
        self.wait_after(command, interrupts, |_| Ok(()))
    }

    /// The same; `started` is done once it has started, with its process.
    pub fn wait_after(
        &self,
        mut command: Command,
        interrupts: &Interrupts,
        started: impl FnOnce(u32) -> Result<()>,
    ) -> Result<ExitStatus> {
        let mut child = command.spawn().with_context(|| format!("cannot start {}", Path::new(&self.0[0]).display()))?;
        interrupts.pass_to(child.id());
        // Whatever comes of that, it is waited for.
        let done = started(child.id());
        let status = child.wait().context("cannot wait for the program");
        done?;
        interrupts.pass_to(0);
        status
    }
}

/// The program's own status; a signal as a shell reports it.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    ExitCode::from(u8::try_from(exit_number(status)).unwrap_or(EXIT_FAILED))
}

/// The same as a number.
pub fn exit_number(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Lets a program that is to be started inherit a descriptor of this process, and no other that is started meanwhile.
pub fn hand_down(command: &mut Command, descriptor: RawFd) {
    // SAFETY: `fcntl` is async-signal-safe and touches no memory.
    unsafe {
        command.pre_exec(move || match libc::fcntl(descriptor, libc::F_SETFD, 0) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
}

/// The library by a name that LD_PRELOAD can hold: the dynamic linker splits it at spaces and colons. Where
/// the library's own path has one, a link to it in the runtime directory, or where that is by default.
pub fn nameable(library: PathBuf, runtime: Option<&Path>) -> Result<PathBuf> {
    let is_nameable = |path: &Path| preloading::is_nameable(path.as_os_str().as_bytes());
    if is_nameable(&library) {
        return Ok(library);
    }
    let shared = runtime_directory::default_path(&library);
    let places = runtime.into_iter().chain([shared.as_path()]).filter(|place| is_nameable(place));
    let mut problem = None;
    for place in places {
        match link_in(place, "libheadstart.so", &library) {
            Ok(link) => return Ok(link),
            Err(error) => problem = Some(error),
        }
    }
    let why = problem.map_or_else(String::new, |error| format!(" ({error:#})"));
    bail!(
        "{} has a space, a colon or a $ in its path, at which the dynamic linker splits LD_PRELOAD, and no link to it can be made{why}: \
         install Headstart elsewhere, or set HEADSTART_RUNTIME_BASE to a directory of a tmpfs without such characters",
        library.display()
    )
}

/// A link of this name in a directory that nobody else can write; one to somewhere else is replaced.
pub fn link_in(place: &Path, name: &str, target: &Path) -> Result<PathBuf> {
    runtime_directory::create(place)?;
    let (link, fresh) = (place.join(name), place.join(format!("{name}.{}", std::process::id())));
    if std::fs::read_link(&link).is_ok_and(|found| found == target) {
        return Ok(link);
    }
    let made = symlink(target, &fresh).and_then(|()| std::fs::rename(&fresh, &link));
    made.with_context(|| format!("cannot make the link {}", link.display()))?;
    Ok(link)
}

/// Refuses a library that no program would load, which the dynamic linker would only grumble about.
pub fn check_library(library: &Path) -> Result<()> {
    let shown = library.display();
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let read = File::open(library).and_then(|file| file.take(HEAD_BYTES as u64).read_to_end(&mut head));
    read.with_context(|| format!("cannot read the library {shown}, and no program could: mend its permissions"))?;
    if !matches!(Image::of(&mut head), Image::Static | Image::Dynamic) {
        bail!("the library {shown} is none for this machine: install that of this build");
    }
    if statvfs(library).is_ok_and(|system| system.flags().contains(FsFlags::ST_NOEXEC)) {
        bail!(
            "the library {shown} lies on a file system that is mounted noexec, where no program can load it: install it elsewhere"
        );
    }
    Ok(())
}

/// Where installations have the library, from the directory above the program's. No other program is linked with it,
/// so it lies where the dynamic linker does not look.
const INSTALLED: &str = "lib/headstart/libheadstart.so";

/// The library: `$HEADSTART_LIBRARY`, beside this program, or in `../lib/headstart` of it.
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
    let installed = program.parent().and_then(Path::parent).map(|prefix| prefix.join(INSTALLED));
    for candidate in [Some(beside.clone()), installed].into_iter().flatten() {
        if candidate.exists() {
            return Ok(candidate);
        }
    }
    bail!(
        "libheadstart.so is neither beside {} nor in ../{INSTALLED}; build it with 'make build' or name it in HEADSTART_LIBRARY",
        program.display()
    )
}
