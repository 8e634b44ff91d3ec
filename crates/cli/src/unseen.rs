//! Programs that the library cannot be in: `run` names its own before it starts, the library those it sees executed, once a
//! run, for which it leaves marks in the runtime directory.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use headstart_core::image::{HEAD_BYTES, Image};
use headstart_core::protocol::MARK_PREFIX;

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

/// One line on stderr if the library will not be in the program.
pub fn warn(program: &OsStr) {
    if let Some((path, why)) = without_library(program) {
        eprintln!(
            "headstart: {} {why}: it sees only what was written back, and what it writes is not seen. Use a dynamically linked \
             build, or run it after 'headstart run' has ended",
            path.display()
        );
    }
}

/// The same where its requests were to be recorded.
pub fn warn_untraced(program: &OsStr) {
    if let Some((path, why)) = without_library(program) {
        eprintln!("headstart: {} {why}: its requests are not recorded. Use a dynamically linked build", path.display());
    }
}

/// Why the library will not be in a program.
fn without_library(program: &OsStr) -> Option<(PathBuf, &'static str)> {
    let path = found(program)?;
    let why = if runs_as_another(&path) {
        "runs with the rights of another user, so that the system keeps the library out of it"
    } else if is_static(&path) {
        "is statically linked, so that the library cannot be in it"
    } else {
        return None;
    };
    Some((path, why))
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

fn runs_as_another(path: &Path) -> bool {
    let Ok(found) = fs::metadata(path) else { return false };
    let (user, group) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
    found.mode() & libc::S_ISUID != 0 && found.uid() != user
        || found.mode() & libc::S_ISGID != 0 && found.gid() != group
}

fn is_static(path: &Path) -> bool {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let read = File::open(path).and_then(|file| file.take(HEAD_BYTES as u64).read_to_end(&mut head));
    let is_linker = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld"));
    read.is_ok() && !is_linker && Image::of(&mut head) == Image::Static
}
