//! What the library came up with, which every child is to have: its own path, and the variables of Headstart.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use headstart_program::image::Stranger;
use headstart_program::preloading::{self, is_nameable};
use headstart_protocol::{
    ENVIRONMENT_LAUNCH, ENVIRONMENT_POLICY, ENVIRONMENT_RUNTIME, ENVIRONMENT_SLOW, ENVIRONMENT_STRANGERS,
    ENVIRONMENT_TRACE,
};

use super::strings::{assigned, current, each, value};
use crate::kernel;
use crate::location::{PATH_MAX, PathBuffer};

/// How the library's file is called where nobody renamed it.
const LIBRARY_FILE: &[u8] = b"libheadstart.so";
/// Bytes of what is kept, that fit into a page of most runs.
const TEXTS_BYTES: usize = 4096;

/// The variables, by their place in [`Kept::variables`].
pub(crate) const VARIABLES: [&str; 6] = [
    ENVIRONMENT_SLOW,
    ENVIRONMENT_RUNTIME,
    ENVIRONMENT_POLICY,
    ENVIRONMENT_STRANGERS,
    ENVIRONMENT_TRACE,
    ENVIRONMENT_LAUNCH,
];
pub(crate) const SLOW: usize = 0;
pub(crate) const RUNTIME: usize = 1;

/// What children must have. All texts lie in one allocation: each allocation is a call of the kernel, and every
/// program makes them when it starts.
pub(crate) struct Kept {
    texts: Vec<u8>,
    /// Where the library's path begins; none if no list can hold it.
    library: Option<usize>,
    /// Where `NAME=value` begins, if the library found it.
    variables: [Option<usize>; VARIABLES.len()],
}

impl Kept {
    fn at(&self, place: Option<usize>) -> Option<&CStr> {
        CStr::from_bytes_until_nul(&self.texts[place?..]).ok()
    }

    pub(crate) fn library(&self) -> Option<&CStr> {
        self.at(self.library)
    }

    pub(crate) fn variable(&self, k: usize) -> Option<&CStr> {
        self.at(self.variables[k])
    }

    /// Keeps a text, which holds no NUL.
    fn keep(&mut self, parts: &[&[u8]]) -> usize {
        let place = self.texts.len();
        parts.iter().for_each(|part| self.texts.extend_from_slice(part));
        self.texts.push(0);
        place
    }
}

pub(crate) static KEPT: OnceLock<Kept> = OnceLock::new();

/// Called once: remembers what there is.
pub(crate) fn start() {
    KEPT.get_or_init(|| {
        let texts = Vec::with_capacity(TEXTS_BYTES);
        let mut kept = Kept { texts, library: None, variables: [None; VARIABLES.len()] };
        // SAFETY: libc's list, which the program has not begun to change.
        for string in unsafe { each(current()) } {
            // The first of several counts, as for `getenv`.
            let of = VARIABLES.iter().position(|name| assigned(string, name).is_some());
            if let Some(k) = of.filter(|k| kept.variables[*k].is_none()) {
                kept.variables[k] = Some(kept.keep(&[string.to_bytes()]));
            }
        }
        let mut buffer = PathBuffer::empty();
        if let Some([directory, name]) = listed().or_else(|| own_path(&mut buffer)) {
            let place = kept.keep(&[directory, name]);
            kept.library =
                Some(place).filter(|_| kept.at(Some(place)).is_some_and(|path| is_nameable(path.to_bytes())));
        }
        kept
    });
}

/// Where the library lies by the list it was loaded from, which is sooner found than by the linker's tables.
fn listed<'b>() -> Option<[&'b [u8]; 2]> {
    let entries = preloading::entries(value(preloading::VARIABLE).unwrap_or_default());
    let mut ours = entries.filter(|entry| preloading::file_name(entry) == LIBRARY_FILE);
    let first = ours.next().filter(|path| path.starts_with(b"/"))?;
    ours.next().is_none().then_some([b"", first])
}

/// Where the library lies, by the name it was loaded by; a relative one behind the directory it was.
fn own_path(buffer: &mut PathBuffer) -> Option<[&[u8]; 2]> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked for; what is found is written where there is room for it.
    let known = unsafe { libc::dladdr(own_path as *const c_void, found.as_mut_ptr()) } != 0;
    // SAFETY: all zeroes, or what was found.
    let name = unsafe { found.assume_init() }.dli_fname;
    if !known || name.is_null() {
        return None;
    }
    // SAFETY: the linker's own string.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    if name.starts_with(b"/") {
        return Some([b"", name]);
    }
    let room = buffer.room();
    let length = kernel::readlink(c"/proc/self/cwd", &mut room[..PATH_MAX - 1]).ok()?.len();
    room[length] = b'/';
    Some([&room[..=length], name])
}

/// Whether the library's file is gone, so that no program would have it.
pub(crate) fn lost_library() -> Option<Stranger> {
    let library = KEPT.get()?.library()?;
    // SAFETY: a string.
    let found = unsafe { kernel::facts_at(libc::AT_FDCWD, library.as_ptr(), 0) };
    matches!(found, Err(libc::ENOENT | libc::ENOTDIR | libc::EACCES)).then_some(Stranger::NoLibrary)
}
