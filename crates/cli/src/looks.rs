//! What a program is before it starts: its own file, or that of its interpreter.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use headstart_program::image;
use headstart_program::image::{HEAD_BYTES, Image, Stranger};
use nix::sys::statvfs::{FsFlags, statvfs};

/// Interpreters of interpreters that the kernel follows.
const SCRIPTS_MAX: usize = 5;

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
