//! What the environment of every child must hold, or the library is not in it: LD_PRELOAD with the library, and the variables that
//! it came up with. Programs clear and replace both; at every exec and spawn what is missing is put back.
//!
//! - The program's own environment is never changed: the child gets a list of its own. That of a `vfork` child lies on the stack:
//!   memory from the kernel, which a long one takes, stays its parent's when it executes.
//! - An environment that says `HEADSTART=off` or names another managed directory is left as it is.
//! - Where no library can be named (its path has a space or a colon), the variables alone are put back.

use std::ffi::{CStr, CString, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use headstart_core::preloading::{self, Preload};
use headstart_core::protocol::{
    ENVIRONMENT_POLICY, ENVIRONMENT_RUNTIME, ENVIRONMENT_SLOW, ENVIRONMENT_SWITCH, ENVIRONMENT_TRACE,
};
use libc::{c_char, c_int};

use crate::kernel;
use crate::location::PathBuffer;
use crate::{process, session};

/// An environment or a list of arguments.
pub type Strings = *const *const c_char;

/// Pointers, and bytes of text, that lie on the stack.
const POINTERS: usize = 512;
const TEXT_BYTES: usize = 512;

/// The variables, by their place in [`Kept::variables`].
const VARIABLES: [&str; 4] = [ENVIRONMENT_SLOW, ENVIRONMENT_RUNTIME, ENVIRONMENT_POLICY, ENVIRONMENT_TRACE];
const SLOW: usize = 0;
const RUNTIME: usize = 1;

/// What children are to have.
struct Kept {
    /// Path of the library; none if no list can hold it.
    library: Option<CString>,
    /// `NAME=value`, where the library found them.
    variables: [Option<CString>; VARIABLES.len()],
}

static KEPT: OnceLock<Kept> = OnceLock::new();

unsafe extern "C" {
    /// libc's, or the program's copy of it.
    static environ: Strings;
}

/// The environment as libc has it now.
pub fn current() -> Strings {
    // SAFETY: a pointer is read whole; a program that changes it meanwhile has the same race with every exec of its own.
    unsafe { (&raw const environ).read_volatile() }
}

/// Called once: remembers what there is.
pub fn start(variable: impl Fn(&str) -> Option<Vec<u8>>) {
    let assigned = |name: &str| {
        let value = variable(name)?;
        CString::new([name.as_bytes(), b"=", &value].concat()).ok()
    };
    let library = own_path().filter(|path| preloading::is_nameable(path)).and_then(|path| CString::new(path).ok());
    KEPT.get_or_init(|| Kept { library, variables: VARIABLES.map(assigned) });
}

/// Where the library lies, by the name it was loaded by.
fn own_path() -> Option<Vec<u8>> {
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
        return Some(name.to_vec());
    }
    let mut buffer = PathBuffer::empty();
    let directory = kernel::readlink(c"/proc/self/cwd", buffer.room()).ok()?;
    Some([directory, b"/", name].concat())
}

/// Elements that lie on the stack if there are not too many.
pub struct Room<T, const COUNT: usize> {
    few: [MaybeUninit<T>; COUNT],
    many: Vec<T>,
    length: usize,
    is_large: bool,
}

impl<T: Copy, const COUNT: usize> Room<T, COUNT> {
    /// Room for so many elements.
    pub fn of(count: usize) -> Room<T, COUNT> {
        let is_large = count > COUNT;
        let many = if is_large { Vec::with_capacity(count) } else { Vec::new() };
        Room { few: [const { MaybeUninit::uninit() }; COUNT], many, length: 0, is_large }
    }

    /// Adds one.
    pub fn push(&mut self, element: T) {
        if self.is_large {
            return self.many.push(element);
        }
        self.few[self.length].write(element);
        self.length += 1;
    }

    /// The first of those there are.
    pub fn as_ptr(&self) -> *const T {
        if self.is_large { self.many.as_ptr() } else { self.few.as_ptr().cast() }
    }
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

/// What an environment has, and what it lacks.
struct Survey<'a> {
    count: usize,
    /// What the dynamic linker goes by: the last of several.
    list: Option<&'a [u8]>,
    /// Variables to be given.
    given: [Option<&'static CStr>; VARIABLES.len()],
    preload: Option<Preload<'a>>,
}

impl<'a> Survey<'a> {
    /// Nothing where the environment is to be left as it is.
    ///
    /// # Safety
    /// As [`each`].
    unsafe fn of(environment: Strings) -> Option<Survey<'a>> {
        let kept = KEPT.get()?;
        let mut survey = Survey { count: 0, list: None, given: [None; VARIABLES.len()], preload: None };
        let mut has = [false; VARIABLES.len()];
        // SAFETY: the caller's contract.
        for string in unsafe { each(environment) } {
            survey.count += 1;
            match string.to_bytes().first() {
                Some(b'L') => survey.list = assigned(string, preloading::VARIABLE).or(survey.list),
                Some(b'H') => {
                    if assigned(string, ENVIRONMENT_SWITCH) == Some(b"off") {
                        return None;
                    }
                    for (k, name) in VARIABLES.iter().enumerate() {
                        let Some(value) = assigned(string, name) else { continue };
                        let own = kept.variables[k].as_deref().and_then(|own| assigned(own, name));
                        if k == SLOW && Some(trimmed(value)) != own.map(trimmed) {
                            return None;
                        }
                        has[k] |= k != RUNTIME || !value.is_empty();
                    }
                }
                _ => {}
            }
        }
        // A runtime directory means nothing without the managed one.
        has[RUNTIME] &= has[SLOW];
        for (k, given) in survey.given.iter_mut().enumerate() {
            *given = kept.variables[k].as_deref().filter(|_| !has[k]);
        }
        if let Some(library) = kept.library.as_deref() {
            let library = library.to_bytes();
            let list = survey.list.unwrap_or_default();
            let has_library = preloading::entries(list).any(|entry| is_ours(entry, library));
            let preload = Preload { list, library, has_library, first: None };
            survey.preload = Some(preload).filter(|preload| !preload.is_complete());
        }
        Some(survey).filter(|survey| survey.preload.is_some() || survey.given.iter().any(Option::is_some))
    }

    /// Whether the completed environment has something else in the place of the string.
    fn replaces(&self, string: &CStr) -> bool {
        let given = |k: usize| self.given[k].is_some() && assigned(string, VARIABLES[k]).is_some();
        (0..VARIABLES.len()).any(given) || self.preload.is_some() && assigned(string, preloading::VARIABLE).is_some()
    }

    /// Hands on what is put back.
    fn compose_preload(&self, add: &mut impl FnMut(&[u8])) {
        if let Some(preload) = &self.preload {
            add(preloading::VARIABLE.as_bytes());
            add(b"=");
            preload.compose(add);
            add(b"\0");
        }
    }
    /// Calls `call` with the completed environment. Apart, so that its stack is taken only where something is missing.
    ///
    /// # Safety
    /// The survey is of this environment, as [`each`] takes it.
    #[inline(never)]
    unsafe fn complete<const POINTERS: usize, const BYTES: usize>(
        &self,
        environment: Strings,
        call: impl FnOnce(Strings) -> c_int,
    ) -> c_int {
        let mut length = 0;
        self.compose_preload(&mut |piece| length += piece.len());
        let mut text = Room::<u8, BYTES>::of(length);
        self.compose_preload(&mut |piece| piece.iter().for_each(|&byte| text.push(byte)));
        let mut strings = Room::<*const c_char, POINTERS>::of(self.count + VARIABLES.len() + 2);
        // SAFETY: the caller's contract.
        for string in unsafe { each(environment) }.filter(|string| !self.replaces(string)) {
            strings.push(string.as_ptr());
        }
        if self.preload.is_some() {
            strings.push(text.as_ptr().cast());
        }
        self.given.iter().flatten().for_each(|given| strings.push(given.as_ptr()));
        strings.push(std::ptr::null());
        let result = call(strings.as_ptr());
        // `posix_spawn` returns the error, exec sets it.
        if result == libc::E2BIG || result == -1 && kernel::errno() == libc::E2BIG {
            let given: usize = self.given.iter().flatten().map(|given| given.to_bytes().len() + 1).sum();
            session::complain(format_args!(
                "a program is not started: its arguments and its environment are as long as the kernel takes, and the {} bytes \
                 that put the library into it find no room; make them so much shorter",
                length + given
            ));
            kernel::set_errno(libc::E2BIG);
        }
        result
    }
}

fn trimmed(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    &path[..end]
}

/// Whether an entry of a list is the library, maybe by another path: one that is not there would not be loaded.
fn is_ours(entry: &[u8], library: &[u8]) -> bool {
    if entry == library {
        return true;
    }
    let mut buffer = PathBuffer::empty();
    let same_name = preloading::file_name(entry) == preloading::file_name(library);
    same_name
        && entry.contains(&b'/')
        // SAFETY: a string.
        && buffer.fill(&[entry]).is_some_and(|path| unsafe { kernel::facts_at(libc::AT_FDCWD, path.as_ptr(), 0) }.is_ok())
}

/// Calls `call`, an exec or a spawn, with the environment, or one that has what it lacks. Where that makes it too long, says so.
///
/// # Safety
/// `environment` is null or a list of strings that ends with null.
pub unsafe fn completed(environment: Strings, call: impl FnOnce(Strings) -> c_int) -> c_int {
    // SAFETY: the caller's contract.
    let Some(survey) = (unsafe { Survey::of(environment) }) else { return call(environment) };
    // SAFETY: the caller's contract.
    unsafe {
        if process::is_own() {
            survey.complete::<0, 0>(environment, call)
        } else {
            survey.complete::<POINTERS, TEXT_BYTES>(environment, call)
        }
    }
}

/// The command for a shell that libc starts with the environment it has, if that lacks something: the shell, which the library is
/// not in, only puts that there and executes another one in its place.
///
/// # Safety
/// `command` is a string.
pub unsafe fn command(command: *const c_char) -> Option<CString> {
    if command.is_null() {
        return None;
    }
    // SAFETY: libc's list.
    let survey = unsafe { Survey::of(current()) }?;
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
