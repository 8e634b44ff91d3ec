//! What the environment of every child must hold, or the library is not in it: LD_PRELOAD with the library,
//! and the variables that it came up with. Programs clear and replace both; at every exec and spawn what is
//! missing is put back.
//!
//! - The program's own environment is never changed: the child gets a list of its own. That of a `vfork`
//!   child lies on the stack: memory from the kernel, which a long one takes, stays its parent's when it
//!   executes.
//! - An environment that says `HEADSTART=off` or names another managed directory is left as it is.
//! - Where no library can be named (its path has a space or a colon), the variables alone are put back.

mod own;
mod room;
mod survey;

use std::ffi::{CStr, CString, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use headstart_program::image;
use headstart_program::image::Stranger;
use headstart_program::preloading;
use headstart_program::preloading::is_nameable;
use headstart_protocol::{
    ENVIRONMENT_POLICY, ENVIRONMENT_RUNTIME, ENVIRONMENT_SLOW, ENVIRONMENT_STRANGERS, ENVIRONMENT_TRACE,
};
use libc::{c_char, c_int};

use crate::kernel;
use crate::location::{PATH_MAX, PathBuffer};
use crate::process;

pub(crate) use own::settle;
pub(crate) use room::Room;
use survey::Survey;

/// An environment or a list of arguments.
pub(crate) type Strings = *const *const c_char;

/// How the library's file is called where nobody renamed it.
const LIBRARY_FILE: &[u8] = b"libheadstart.so";
/// Pointers, and bytes of text, that lie on the stack.
const POINTERS: usize = 512;
const TEXT_BYTES: usize = 512;
/// Bytes of what is kept, that fit into a page of most runs.
const TEXTS_BYTES: usize = 4096;

/// The variables, by their place in [`Kept::variables`].
const VARIABLES: [&str; 5] =
    [ENVIRONMENT_SLOW, ENVIRONMENT_RUNTIME, ENVIRONMENT_POLICY, ENVIRONMENT_STRANGERS, ENVIRONMENT_TRACE];
const SLOW: usize = 0;
const RUNTIME: usize = 1;

/// What children are to have. All texts lie in one piece, as each piece of memory is a call of the kernel's,
/// and every program that starts makes them.
struct Kept {
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

    fn library(&self) -> Option<&CStr> {
        self.at(self.library)
    }

    fn variable(&self, k: usize) -> Option<&CStr> {
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

static KEPT: OnceLock<Kept> = OnceLock::new();

unsafe extern "C" {
    /// libc's, or the program's copy of it.
    static environ: Strings;
}

/// The environment as libc has it now.
pub(crate) fn current() -> Strings {
    // SAFETY: a pointer is read whole; a program that changes it meanwhile has the same race with every exec
    // of its own.
    unsafe { (&raw const environ).read_volatile() }
}

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

/// What a variable has now; to be looked at before the program can change it.
pub(crate) fn value<'a>(name: &str) -> Option<&'a [u8]> {
    // SAFETY: libc's list.
    unsafe { each(current()) }.find_map(|string| assigned(string, name))
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

/// The strings of a list that ends with null.
///
/// # Safety
/// `strings` is null or such a list, which lasts as long as is asked for.
unsafe fn each<'a>(strings: Strings) -> impl Iterator<Item = &'a CStr> + Clone {
    let at = move |k: usize| {
        // SAFETY: the caller's contract; the one that is null was not passed.
        let string = if strings.is_null() { std::ptr::null() } else { unsafe { *strings.add(k) } };
        // SAFETY: the caller's contract.
        (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) })
    };
    (0..).map_while(at)
}

/// The value, if the string assigns one to the name.
fn assigned<'a>(string: &'a CStr, name: &str) -> Option<&'a [u8]> {
    string.to_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// What a program needs besides, by its file.
pub(crate) struct Needs {
    /// A sanitizer's runtime before the library: its name, and how long that is.
    first: ([u8; 64], usize),
    /// The library is not to be named: a program with another libc would not start.
    pub no_library: bool,
}

impl Default for Needs {
    fn default() -> Needs {
        Needs { first: ([0; 64], 0), no_library: false }
    }
}

impl Needs {
    /// Finds the sanitizer's runtime in the program that begins with `head` and that `fd` reads.
    pub(crate) fn find_sanitizer(&mut self, head: &[u8], fd: c_int) {
        let read = |offset: u64, to: &mut [u8]| {
            let to = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
            // SAFETY: the element is memory that may be written.
            unsafe { kernel::read_at(fd, &[to], offset) }.unwrap_or(0)
        };
        self.first.1 = image::sanitizer(head, &mut self.first.0, read).map_or(0, <[u8]>::len);
    }

    fn first(&self) -> Option<&[u8]> {
        (self.first.1 > 0).then(|| &self.first.0[..self.first.1])
    }
}

/// Whether the library's file is gone, so that no program would have it.
pub(crate) fn lost_library() -> Option<Stranger> {
    let library = KEPT.get()?.library()?;
    // SAFETY: a string.
    let found = unsafe { kernel::facts_at(libc::AT_FDCWD, library.as_ptr(), 0) };
    matches!(found, Err(libc::ENOENT | libc::ENOTDIR | libc::EACCES)).then_some(Stranger::NoLibrary)
}

/// Calls `call`, an exec or a spawn, with the environment, or one that has what it lacks. Where that makes it
/// too long, says so.
///
/// # Safety
/// `environment` is null or a list of strings that ends with null.
pub(crate) unsafe fn completed(environment: Strings, needs: &Needs, call: impl FnOnce(Strings) -> c_int) -> c_int {
    // SAFETY: the caller's contract.
    let Some(survey) = (unsafe { Survey::of(environment, needs) }) else { return call(environment) };
    // SAFETY: the caller's contract.
    unsafe {
        if process::is_own() {
            survey.complete::<0, 0>(environment, call)
        } else {
            survey.complete::<POINTERS, TEXT_BYTES>(environment, call)
        }
    }
}

/// The command for a shell that libc starts with the environment it has, if that lacks something: the shell,
/// which the library is not in, only puts that there and executes another one in its place.
///
/// # Safety
/// `command` is a string.
pub(crate) unsafe fn command(command: *const c_char) -> Option<CString> {
    if command.is_null() {
        return None;
    }
    let needs = Needs::default();
    // SAFETY: libc's list.
    let survey = unsafe { Survey::of(current(), &needs) }?;
    // SAFETY: the caller's contract.
    let command = unsafe { CStr::from_ptr(command) }.to_bytes();
    let mut text = b"export".to_vec();
    let mut preload = Vec::new();
    survey.compose_preload(&mut |piece| preload.extend_from_slice(piece));
    preload.pop();
    let given = survey.given.iter().flatten().map(|given| given.to_bytes());
    for assignment in given.chain(Some(preload.as_slice()).filter(|preload| !preload.is_empty())) {
        let name = assignment.iter().position(|&byte| byte == b'=').map_or(assignment.len(), |at| at + 1);
        text.push(b' ');
        text.extend_from_slice(&assignment[..name]);
        quote(&assignment[name..], &mut text);
    }
    text.extend_from_slice(b"; exec /bin/sh -c ");
    quote(command, &mut text);
    CString::new(text).ok()
}

/// As one word of a shell.
fn quote(word: &[u8], text: &mut Vec<u8>) {
    text.push(b'\'');
    for &byte in word {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            byte => text.push(byte),
        }
    }
    text.push(b'\'');
}
