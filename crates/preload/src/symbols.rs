//! The table of libc symbols the library takes the place of, and the one macro that makes hooks of it.
//!
//! A line names the symbols that share a signature and a behaviour, the arguments, and what to do; `pass` makes the
//! program's call as it stands, with the next library of the chain. While the library is off, a hook does nothing
//! else.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{AT_FDCWD, FILE, c_char, c_int, c_long, c_uint, c_ulong, iovec, mode_t, off64_t, size_t, ssize_t};

use crate::aio::{self, ControlBlock, Operation};
use crate::{closing, data_calls, metadata, names, opening, resizing, settings, stdio, transfers};

/// The next definition of a symbol after ours.
struct Symbol(AtomicPtr<c_void>);

impl Symbol {
    const fn unknown() -> Symbol {
        Symbol(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline]
    fn address(&self, name: &CStr) -> *mut c_void {
        let known = self.0.load(Ordering::Relaxed);
        if known.is_null() { self.find(name) } else { known }
    }

    #[cold]
    fn find(&self, name: &CStr) -> *mut c_void {
        // SAFETY: `name` ends with NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        assert!(!found.is_null(), "this libc has no {name:?}, and nobody can have called it");
        self.0.store(found, Ordering::Relaxed);
        found
    }
}

macro_rules! hook {
    ($name:ident ($($argument:ident: $type:ty),*) $(-> $result:ty)?, |$pass:ident| $body:expr) => {
        /// Takes the place of libc's.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the arguments are the program's, as this function's contract says.
            let $pass = || unsafe { real::$name($($argument),*) };
            if !settings::active() {
                return $pass();
            }
            #[allow(unused_unsafe)]
            // SAFETY: the arguments are the program's, as this function's contract says.
            unsafe { $body }
        }
    };
}

macro_rules! real {
    ($name:ident ($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {
        /// The next definition in the chain.
        ///
        /// # Safety
        /// As libc's.
        #[inline]
        pub unsafe fn $name($($argument: $type),*) $(-> $result)? {
            static SYMBOL: Symbol = Symbol::unknown();
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            };
            type Function = unsafe extern "C-unwind" fn($($type),*) $(-> $result)?;
            // SAFETY: the symbol is libc's function of this name, which takes these arguments. (Variadic ones are
            // called alike on the machines supported.)
            let function = unsafe { std::mem::transmute::<*mut c_void, Function>(SYMBOL.address(NAME)) };
            // SAFETY: the caller's contract.
            unsafe { function($($argument),*) }
        }
    };
}

macro_rules! hooks {
    ($($($name:ident)|+ ($($arguments:tt)*) $(-> $result:ty)? = |$pass:ident| $body:expr;)*) => {
        $(hooks!{ @hook [$($name)+] ($($arguments)*) [$(-> $result)?] |$pass| $body })*

        /// The functions whose place the hooks take.
        #[allow(dead_code)]
        pub mod real {
            use super::*;
            $(hooks!{ @real [$($name)+] ($($arguments)*) [$(-> $result)?] })*
        }
    };
    (@hook [] $arguments:tt [$(-> $result:ty)?] |$pass:ident| $body:expr) => {};
    (@hook [$name:ident $($more:ident)*] ($($a:ident: $t:ty),*) [$(-> $result:ty)?] |$pass:ident| $body:expr) => {
        hook!{ $name ($($a: $t),*) $(-> $result)?, |$pass| $body }
        hooks!{ @hook [$($more)*] ($($a: $t),*) [$(-> $result)?] |$pass| $body }
    };
    (@real [] $arguments:tt [$(-> $result:ty)?]) => {};
    (@real [$name:ident $($more:ident)*] ($($a:ident: $t:ty),*) [$(-> $result:ty)?]) => {
        real!{ $name ($($a: $t),*) $(-> $result)? }
        hooks!{ @real [$($more)*] ($($a: $t),*) [$(-> $result)?] }
    };
}

hooks! {
    open | open64 (path: *const c_char, flags: c_int, mode: mode_t) -> c_int
        = |pass| opening::open(AT_FDCWD, path, flags, mode, pass);
    __open_2 | __open64_2 (path: *const c_char, flags: c_int) -> c_int
        = |pass| opening::open(AT_FDCWD, path, flags, 0, pass);
    openat | openat64 (dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int
        = |pass| opening::open(dir, path, flags, mode, pass);
    __openat_2 | __openat64_2 (dir: c_int, path: *const c_char, flags: c_int) -> c_int
        = |pass| opening::open(dir, path, flags, 0, pass);
    creat | creat64 (path: *const c_char, mode: mode_t) -> c_int
        = |pass| opening::open(AT_FDCWD, path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode, pass);
    mkstemp | mkstemp64 (template: *mut c_char) -> c_int = |pass| opening::made(pass);
    mkostemp | mkostemp64 (template: *mut c_char, flags: c_int) -> c_int = |pass| opening::made(pass);
    mkstemps | mkstemps64 (template: *mut c_char, suffix: c_int) -> c_int = |pass| opening::made(pass);
    mkostemps | mkostemps64 (template: *mut c_char, suffix: c_int, flags: c_int) -> c_int = |pass| opening::made(pass);

    close (fd: c_int) -> c_int = |pass| closing::close(fd, pass);
    close_range (first: c_uint, last: c_uint, flags: c_int) -> c_int
        = |pass| closing::close_range(first, last, flags, pass);
    closefrom (first: c_int) = |_pass| closing::closefrom(first);
    dup (fd: c_int) -> c_int = |pass| closing::duplicate(fd, pass);
    dup2 (fd: c_int, to: c_int) -> c_int = |pass| closing::duplicate_to(fd, to, pass);
    dup3 (fd: c_int, to: c_int, flags: c_int) -> c_int = |pass| closing::duplicate_to(fd, to, pass);
    fcntl | fcntl64 (fd: c_int, command: c_int, argument: c_long) -> c_int
        = |pass| closing::fcntl(fd, command, argument, pass);

    read (fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t
        = |pass| data_calls::read(fd, buffer, length, pass);
    __read_chk (fd: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t
        = |pass| data_calls::read_checked(fd, buffer, length, room, pass);
    pread | pread64 (fd: c_int, buffer: *mut c_void, length: size_t, offset: off64_t) -> ssize_t
        = |pass| data_calls::pread(fd, buffer, length, offset, pass);
    __pread_chk | __pread64_chk (
        fd: c_int, buffer: *mut c_void, length: size_t, offset: off64_t, room: size_t
    ) -> ssize_t
        = |pass| data_calls::pread_checked(fd, buffer, length, offset, room, pass);
    readv (fd: c_int, vector: *const iovec, count: c_int) -> ssize_t
        = |pass| data_calls::readv(fd, vector, count, -1, 0, pass);
    preadv | preadv64 (fd: c_int, vector: *const iovec, count: c_int, offset: off64_t) -> ssize_t
        = |pass| data_calls::preadv(fd, vector, count, offset, pass);
    preadv2 | preadv64v2 (fd: c_int, vector: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t
        = |pass| data_calls::readv(fd, vector, count, offset, flags, pass);

    write (fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t
        = |pass| data_calls::write(fd, buffer, length, pass);
    pwrite | pwrite64 (fd: c_int, buffer: *const c_void, length: size_t, offset: off64_t) -> ssize_t
        = |pass| data_calls::pwrite(fd, buffer, length, offset, pass);
    writev (fd: c_int, vector: *const iovec, count: c_int) -> ssize_t
        = |pass| data_calls::writev(fd, vector, count, -1, 0, pass);
    pwritev | pwritev64 (fd: c_int, vector: *const iovec, count: c_int, offset: off64_t) -> ssize_t
        = |pass| data_calls::pwritev(fd, vector, count, offset, pass);
    pwritev2 | pwritev64v2 (fd: c_int, vector: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t
        = |pass| data_calls::writev(fd, vector, count, offset, flags, pass);

    aio_read | aio_read64 (block: *mut ControlBlock) -> c_int = |pass| aio::submit(block, Operation::Read, pass);
    aio_write | aio_write64 (block: *mut ControlBlock) -> c_int = |pass| aio::submit(block, Operation::Write, pass);
    aio_fsync | aio_fsync64 (kind: c_int, block: *mut ControlBlock) -> c_int = |pass| aio::sync(kind, block, pass);
    lio_listio | lio_listio64 (
        mode: c_int, blocks: *const *mut ControlBlock, count: c_int, event: *mut libc::sigevent
    ) -> c_int
        = |pass| aio::list(mode, blocks, count, event, pass);

    lseek | lseek64 (fd: c_int, offset: off64_t, whence: c_int) -> off64_t = |pass| data_calls::lseek(fd, whence, pass);
    fsync (fd: c_int) -> c_int = |pass| data_calls::sync(fd, pass);
    fdatasync (fd: c_int) -> c_int = |pass| data_calls::sync(fd, pass);

    truncate | truncate64 (path: *const c_char, size: off64_t) -> c_int = |pass| resizing::truncate(path, size, pass);
    ftruncate | ftruncate64 (fd: c_int, size: off64_t) -> c_int = |pass| resizing::ftruncate(fd, size, pass);
    fallocate | fallocate64 (fd: c_int, mode: c_int, offset: off64_t, length: off64_t) -> c_int
        = |pass| resizing::fallocate(fd, mode, offset, length, pass);
    posix_fallocate | posix_fallocate64 (fd: c_int, offset: off64_t, length: off64_t) -> c_int
        = |pass| resizing::posix_fallocate(fd, pass);

    stat | stat64 | lstat | lstat64 (path: *const c_char, found: *mut libc::stat) -> c_int
        = |pass| metadata::dated(found, pass);
    fstat | fstat64 (fd: c_int, found: *mut libc::stat) -> c_int = |pass| metadata::dated(found, pass);
    fstatat | fstatat64 (dir: c_int, path: *const c_char, found: *mut libc::stat, flags: c_int) -> c_int
        = |pass| metadata::dated(found, pass);
    __xstat | __xstat64 | __lxstat | __lxstat64 (version: c_int, path: *const c_char, found: *mut libc::stat) -> c_int
        = |pass| metadata::dated(found, pass);
    __fxstat | __fxstat64 (version: c_int, fd: c_int, found: *mut libc::stat) -> c_int
        = |pass| metadata::dated(found, pass);
    __fxstatat | __fxstatat64 (
        version: c_int, dir: c_int, path: *const c_char, found: *mut libc::stat, flags: c_int
    ) -> c_int
        = |pass| metadata::dated(found, pass);
    statx (dir: c_int, path: *const c_char, flags: c_int, mask: c_uint, found: *mut libc::statx) -> c_int
        = |pass| metadata::dated_x(found, pass);

    utime (path: *const c_char, times: *const libc::utimbuf) -> c_int
        = |pass| metadata::times_set(AT_FDCWD, path, 0, pass);
    utimes (path: *const c_char, times: *const libc::timeval) -> c_int
        = |pass| metadata::times_set(AT_FDCWD, path, 0, pass);
    lutimes (path: *const c_char, times: *const libc::timeval) -> c_int
        = |pass| metadata::times_set(AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW, pass);
    futimesat (dir: c_int, path: *const c_char, times: *const libc::timeval) -> c_int
        = |pass| metadata::times_set(dir, path, 0, pass);
    utimensat (dir: c_int, path: *const c_char, times: *const libc::timespec, flags: c_int) -> c_int
        = |pass| metadata::times_set(dir, path, flags, pass);
    futimes (fd: c_int, times: *const libc::timeval) -> c_int
        = |pass| metadata::times_set(fd, std::ptr::null(), 0, pass);
    futimens (fd: c_int, times: *const libc::timespec) -> c_int
        = |pass| metadata::times_set(fd, std::ptr::null(), 0, pass);

    unlink | remove (path: *const c_char) -> c_int = |pass| names::unlink(AT_FDCWD, path, pass);
    unlinkat (dir: c_int, path: *const c_char, flags: c_int) -> c_int = |pass| names::unlink(dir, path, pass);
    rename (old: *const c_char, new: *const c_char) -> c_int
        = |pass| names::rename(AT_FDCWD, old, AT_FDCWD, new, 0, pass);
    renameat (old_dir: c_int, old: *const c_char, new_dir: c_int, new: *const c_char) -> c_int
        = |pass| names::rename(old_dir, old, new_dir, new, 0, pass);
    renameat2 (old_dir: c_int, old: *const c_char, new_dir: c_int, new: *const c_char, flags: c_uint) -> c_int
        = |pass| names::rename(old_dir, old, new_dir, new, flags, pass);

    mmap | mmap64 (
        address: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off64_t
    ) -> *mut c_void
        = |pass| transfers::mmap(flags, fd, pass);
    sendfile | sendfile64 (to: c_int, from: c_int, offset: *mut off64_t, length: size_t) -> ssize_t
        = |pass| transfers::copy(from, to, libc::EINVAL, pass);
    copy_file_range (
        from: c_int, from_offset: *mut off64_t, to: c_int, to_offset: *mut off64_t, length: size_t, flags: c_uint
    ) -> ssize_t
        = |pass| transfers::copy(from, to, libc::EXDEV, pass);
    splice (
        from: c_int, from_offset: *mut off64_t, to: c_int, to_offset: *mut off64_t, length: size_t, flags: c_uint
    ) -> ssize_t
        = |pass| transfers::copy(from, to, libc::EINVAL, pass);
    ioctl (fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int
        = |pass| transfers::ioctl(fd, request, argument, pass);

    fopen | fopen64 (path: *const c_char, mode: *const c_char) -> *mut FILE = |pass| stdio::fopen(path, mode, pass);
    freopen | freopen64 (path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE
        = |pass| stdio::freopen(path, mode, stream, pass);
    fdopen (fd: c_int, mode: *const c_char) -> *mut FILE = |pass| stdio::fdopen(fd, mode, pass);
    fclose (stream: *mut FILE) -> c_int = |pass| stdio::fclose(stream, pass);
}
