//! Libraries that the dynamic linker is about to read: those that a program or another library needs, and
//! those that are asked for by their names. What of them lies under the managed directory is made whole
//! first.
//!
//! They are searched for as ld.so(8) does: DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH, the system's directories.
//! Every match in a managed directory is made whole, whichever the linker takes. If neither the program, nor the
//! environment, nor any loaded object names a managed directory, no further object is read. Not followed: a
//! library outside the managed directory that is the only one to name a managed directory; `$LIB` and
//! `$PLATFORM`.

mod object;

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_char, c_int};

use crate::files::{records, write_back};
use crate::hooks::loaded::{self, Loaded};
use crate::kernel::{self, Facts};
use crate::location::{self, PathBuffer};
use crate::settings;
use object::{DT_RPATH, DT_RUNPATH, Object};

/// Where the dynamic linker looks last (Debian, Red Hat and their kin).
const OF_THE_SYSTEM: [&[u8]; 7] = [
    b"/lib/x86_64-linux-gnu",
    b"/usr/lib/x86_64-linux-gnu",
    b"/lib/aarch64-linux-gnu",
    b"/usr/lib/aarch64-linux-gnu",
    b"/lib64",
    b"/usr/lib64",
    b"/usr/lib",
];
/// Below a directory it looks here before.
const BY_PROCESSOR: [&[u8]; 3] = [b"glibc-hwcaps/x86-64-v4", b"glibc-hwcaps/x86-64-v3", b"glibc-hwcaps/x86-64-v2"];
/// Objects that are looked at for one call (assumed: more than any program has).
const OBJECTS_MAX: usize = 4096;

/// LD_LIBRARY_PATH as the dynamic linker found it.
static LIBRARY_PATH: OnceLock<Vec<u8>> = OnceLock::new();
/// Whether one of its directories is managed.
static LEADS_THERE: OnceLock<bool> = OnceLock::new();

thread_local! {
    /// The environment that the program which this thread is about to execute gets; null: its own.
    static ENVIRONMENT: Cell<*const *const c_char> = const { Cell::new(ptr::null()) };
}

/// Called when the library is loaded, before the program can change its environment.
pub(crate) fn start() {
    // SAFETY: the name is a string.
    let found = unsafe { libc::getenv(c"LD_LIBRARY_PATH".as_ptr()) };
    if settings::served() && !found.is_null() {
        // SAFETY: getenv returns a string.
        let _ = LIBRARY_PATH.set(unsafe { CStr::from_ptr(found) }.to_bytes().to_vec());
    }
}

/// Runs `work`, which executes a program with this environment.
pub(crate) fn with_environment<R>(environment: *const *const c_char, work: impl FnOnce() -> R) -> R {
    let before = ENVIRONMENT.replace(environment);
    let result = work();
    ENVIRONMENT.set(before);
    result
}

/// A variable of the program that is about to be executed.
fn variable(name: &CStr) -> Vec<u8> {
    let mut at = ENVIRONMENT.get();
    if at.is_null() {
        // SAFETY: the name is a string.
        let found = unsafe { libc::getenv(name.as_ptr()) };
        // SAFETY: getenv returns a string.
        return if found.is_null() { Vec::new() } else { unsafe { CStr::from_ptr(found) }.to_bytes().to_vec() };
    }
    // SAFETY: the program passed strings with a null pointer behind the last.
    while let Some(variable) = unsafe { at.read().as_ref() } {
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(variable) }.to_bytes();
        if let Some(value) = text.strip_prefix(name.to_bytes()).and_then(|rest| rest.strip_prefix(b"=")) {
            return value.to_vec();
        }
        at = at.wrapping_add(1);
    }
    Vec::new()
}

/// How many objects had been loaded when none that was there named a managed directory.
static LEAD_ELSEWHERE: AtomicU64 = AtomicU64::new(0);

/// What the objects name that are loaded.
struct Named {
    directories: Vec<Vec<u8>>,
    /// How many were loaded so far.
    loaded: u64,
    /// Whether it is known that a managed directory is among them.
    searches: bool,
}

/// One look for everything that an object brings with it.
struct Search {
    library_path: Vec<Vec<u8>>,
    /// Whether a managed directory is among those to look in.
    on: bool,
    seen: Vec<(u64, u64)>,
}

/// A library that was asked for: by a path, or by a name that whoever is loaded may have directories for.
///
/// # Safety
/// `path` is a string.
pub(crate) unsafe fn loaded(path: *const c_char) {
    // SAFETY: the caller's contract.
    let name = unsafe { CStr::from_ptr(path) }.to_bytes();
    let mut search = Search {
        library_path: listed(LIBRARY_PATH.get().map_or(&b""[..], Vec::as_slice), b""),
        on: *LEADS_THERE.get_or_init(|| LIBRARY_PATH.get().is_some_and(|list| Search::begin(list).on)),
        seen: Vec::new(),
    };
    if name.contains(&b'/') {
        search.visit(name, &[]);
        return;
    }
    let mut named = Named { directories: search.library_path.clone(), loaded: 0, searches: search.on };
    // SAFETY: `named_by` is called during this call alone, with what nobody else uses meanwhile.
    unsafe { loaded::each(named_by, ptr::from_mut(&mut named).cast()) };
    search.on |= named.directories.iter().any(|directory| is_managed(directory));
    if search.on {
        search.find(name, &named.directories, &[]);
    } else {
        LEAD_ELSEWHERE.store(named.loaded, Ordering::Relaxed);
    }
}

/// A program is about to be executed, which `fd` addresses and which is whole.
pub(crate) fn of_program(fd: c_int) {
    let mut buffer = PathBuffer::empty();
    let Ok(path) = location::path_of(fd, &mut buffer) else { return };
    let mut search = Search::begin(&variable(c"LD_LIBRARY_PATH"));
    for name in variable(c"LD_PRELOAD").split(|byte| b" :".contains(byte)).filter(|name| !name.is_empty()) {
        if name.contains(&b'/') {
            if !is_own(name) {
                search.visit(name, &[]);
            }
        } else if search.on {
            search.find(name, &search.library_path.clone(), &[]);
        }
    }
    if let Ok(facts) = kernel::facts(fd) {
        search.read(&facts, path, &[]);
    }
}

/// Whether this library is loaded from there, which every program is given.
fn is_own(path: &[u8]) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked for; what is found is written where there is room for it, and its name
    // is a string.
    unsafe {
        libc::dladdr(is_own as *const c_void, found.as_mut_ptr()) != 0
            && CStr::from_ptr(found.assume_init().dli_fname).to_bytes() == path
    }
}

/// Adds the directories that a loaded object names; not if it is known that all lead elsewhere.
unsafe extern "C" fn named_by(object: *mut libc::dl_phdr_info, _size: usize, collect: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker describes an object that is loaded; what is collected is `loaded`'s.
    let (object, named) = unsafe { (Loaded::of(object), &mut *collect.cast::<Named>()) };
    named.loaded = object.count();
    if !named.searches && LEAD_ELSEWHERE.load(Ordering::Relaxed) == named.loaded {
        return 1;
    }
    // The kernel's own is no file.
    if object.path().starts_with(b"linux-") {
        return 0;
    }
    for path in [DT_RPATH, DT_RUNPATH].into_iter().filter_map(|which| object.string(which)) {
        let name = if object.path().is_empty() { b"/proc/self/exe" } else { object.path() };
        named.directories.extend(listed(path, &origin_of(name)));
    }
    0
}

/// The directory of an object, for `$ORIGIN`.
fn origin_of(path: &[u8]) -> Vec<u8> {
    let mut buffer = PathBuffer::empty();
    let real = if path == b"/proc/self/exe" {
        kernel::readlink(c"/proc/self/exe", buffer.room()).unwrap_or(b"")
    } else {
        path
    };
    let slash = real.iter().rposition(|&byte| byte == b'/');
    slash.map_or(b".".to_vec(), |slash| real[..slash.max(1)].to_vec())
}

/// The directories of a list, with `$ORIGIN` put in; an empty one is the working directory.
fn listed(list: &[u8], origin: &[u8]) -> Vec<Vec<u8>> {
    if list.is_empty() {
        return Vec::new();
    }
    let here = |directory: &[u8]| if directory.is_empty() { b".".to_vec() } else { expanded(directory, origin) };
    list.split(|byte| b":;".contains(byte)).map(here).collect()
}

fn expanded(path: &[u8], origin: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(path.len() + origin.len());
    let mut rest = path;
    while let Some((&first, behind)) = rest.split_first() {
        match rest.strip_prefix(b"$ORIGIN").or_else(|| rest.strip_prefix(b"${ORIGIN}")) {
            Some(behind) => {
                whole.extend_from_slice(origin);
                rest = behind;
            }
            None => {
                whole.push(first);
                rest = behind;
            }
        }
    }
    whole
}

/// Whether a directory is the managed one or lies in it; one that is not there yet, by its name.
fn is_managed(directory: &[u8]) -> bool {
    let mut buffer = PathBuffer::empty();
    let Some(path) = buffer.fill(&[directory, b"/"]) else { return false };
    // SAFETY: a string.
    let Ok(fd) = (unsafe { location::address(libc::AT_FDCWD, path.as_ptr(), libc::O_DIRECTORY) }) else {
        return location::is_managed(path.to_bytes());
    };
    let found = location::path_of(fd, &mut buffer).is_ok_and(|path| location::is_managed(&[path, b"/"].concat()));
    let _ = kernel::close(fd);
    found
}

impl Search {
    fn begin(library_path: &[u8]) -> Search {
        let library_path = listed(library_path, b"");
        let on = library_path.iter().any(|directory| is_managed(directory));
        Search { library_path, on, seen: Vec::new() }
    }

    /// Makes an object whole if it is managed, and what it needs; `above`: the DT_RPATH of those that need
    /// it. Whether it is an object.
    fn visit(&mut self, path: &[u8], above: &[Vec<u8>]) -> bool {
        let mut buffer = PathBuffer::empty();
        let Some(name) = buffer.fill(&[path]) else { return false };
        // SAFETY: a string.
        let Ok(fd) = (unsafe { location::address(libc::AT_FDCWD, name.as_ptr(), 0) }) else { return false };
        let found = kernel::facts(fd).is_ok_and(|facts| facts.regular && self.look(fd, &facts, path, above));
        let _ = kernel::close(fd);
        found
    }

    fn look(&mut self, fd: c_int, facts: &Facts, path: &[u8], above: &[Vec<u8>]) -> bool {
        if self.seen.contains(&(facts.device, facts.inode)) {
            return true;
        }
        if self.seen.len() == OBJECTS_MAX {
            return false;
        }
        // Where nothing else is looked at it costs memory for nothing.
        if self.on {
            self.seen.push((facts.device, facts.inode));
        }
        let _ = write_back::make_whole(fd, facts);
        self.read(facts, path, above)
    }

    /// Reads an object that is whole, and goes on with what it needs.
    fn read(&mut self, facts: &Facts, path: &[u8], above: &[Vec<u8>]) -> bool {
        // Closing a second descriptor of a file would drop the process's locks on it.
        if records::entry_of(facts.device, facts.inode).is_some() {
            return true;
        }
        let mut buffer = PathBuffer::empty();
        let Some(name) = buffer.fill(&[path]) else { return false };
        let Ok(readable) = kernel::openat(libc::AT_FDCWD, name, libc::O_RDONLY | libc::O_CLOEXEC, 0) else {
            return false;
        };
        let object = Object::of(readable);
        if let Some(object) = &object {
            self.follow(object, path, above);
        }
        let _ = kernel::close(readable);
        object.is_some()
    }

    /// Looks for all that an object needs.
    fn follow(&mut self, object: &Object, path: &[u8], above: &[Vec<u8>]) {
        let (rpath, runpath) = (object.directories(DT_RPATH), object.directories(DT_RUNPATH));
        if !self.on && rpath.is_none() && runpath.is_none() {
            return;
        }
        let origin = origin_of(path);
        let (rpath, runpath) =
            (listed(&rpath.unwrap_or_default(), &origin), runpath.map(|list| listed(&list, &origin)));
        let named = || rpath.iter().chain(runpath.iter().flatten());
        let on = self.on || named().any(|directory| is_managed(directory));
        if !on {
            return;
        }
        self.on = true;
        let rpaths = if runpath.is_some() { Vec::new() } else { [&rpath[..], above].concat() };
        let directories = [&rpaths[..], &self.library_path, runpath.as_deref().unwrap_or_default()].concat();
        let below = [&rpath[..], above].concat();
        if let Some(interpreter) = object.interpreter() {
            self.visit(&interpreter, &[]);
        }
        for name in object.needed() {
            if name.contains(&b'/') {
                self.visit(&expanded(&name, &origin), &below);
            } else {
                self.find(&name, &directories, &below);
            }
        }
    }

    /// Looks for a library by its name, until the first is found.
    fn find(&mut self, name: &[u8], directories: &[Vec<u8>], above: &[Vec<u8>]) {
        let of_the_system = OF_THE_SYSTEM.iter().map(|directory| directory.to_vec());
        for directory in directories.iter().cloned().chain(of_the_system) {
            for below in BY_PROCESSOR.iter().filter(|_| is_managed(&directory)) {
                self.visit(&[directory.as_slice(), b"/", below, b"/", name].concat(), above);
            }
            if self.visit(&[directory.as_slice(), b"/", name].concat(), above) {
                break;
            }
        }
    }
}
