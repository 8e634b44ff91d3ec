//! The table of libc symbols the library takes the place of.
//!
//! A line names the symbols that share a signature and a behaviour, the arguments, and what to do; `pass` makes the
//! program's call as it stands, with the next library of the chain. Unless the condition behind `while` holds, a hook
//! does nothing else.

#![allow(non_snake_case)]

use std::ffi::c_void;

use libc::{AT_FDCWD, FILE, c_char, c_int, c_long, c_uint, c_ulong, iovec, mode_t, off64_t, size_t, ssize_t, wchar_t};

use crate::calls::aio::{self, ControlBlock, Operation};
use crate::calls::copying::Place;
use crate::calls::{copying, data, ioctls, metadata, names, resizing, stdio::input, stdio::output};
use crate::calls::{rings, stdio, transfers};
use crate::files::{arrivals, closing, opening};
use crate::fork;
use crate::hooks::macros::hooks;
use crate::hooks::trampolines::{lists, trampolines};
use crate::programs::environment::{self, Strings, current};
use crate::programs::executing::Start;
use crate::programs::spawning;
use crate::programs::{confinement, executing};

hooks! {
    mod real;
    while active;

    open | open64 | __open | __open64 (path: *const c_char, flags: c_int, mode: mode_t) -> c_int
        = |pass| opening::open(AT_FDCWD, path, flags, mode, pass);
    __open_2 | __open64_2 (path: *const c_char, flags: c_int) -> c_int
        = |pass| opening::open(AT_FDCWD, path, flags, 0, pass);
    openat | openat64 (dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int
        = |pass| opening::open(dir, path, flags, mode, pass);
    __openat_2 | __openat64_2 (dir: c_int, path: *const c_char, flags: c_int) -> c_int
        = |pass| opening::open(dir, path, flags, 0, pass);
    creat | creat64 (path: *const c_char, mode: mode_t) -> c_int
        = |pass| opening::open(AT_FDCWD, path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode, pass);
    open_by_handle_at (mount: c_int, handle: *mut c_void, flags: c_int) -> c_int
        = |_pass| opening::by_handle(flags, |flags| real::open_by_handle_at(mount, handle, flags));
    mkstemp | mkstemp64 (template: *mut c_char) -> c_int = |pass| opening::made(pass);
    mkostemp | mkostemp64 (template: *mut c_char, flags: c_int) -> c_int = |pass| opening::made(pass);
    mkstemps | mkstemps64 (template: *mut c_char, suffix: c_int) -> c_int = |pass| opening::made(pass);
    mkostemps | mkostemps64 (template: *mut c_char, suffix: c_int, flags: c_int) -> c_int = |pass| opening::made(pass);

    close | __close (fd: c_int) -> c_int = |pass| closing::close(fd, pass);
    close_range (first: c_uint, last: c_uint, flags: c_int) -> c_int
        = |pass| closing::close_range(first, last, flags, pass);
    closefrom (first: c_int) = |_pass| closing::closefrom(first);
    dup (fd: c_int) -> c_int = |pass| closing::duplicate(fd, pass);
    dup2 | __dup2 (fd: c_int, to: c_int) -> c_int = |pass| closing::duplicate_to(fd, to, pass);
    dup3 (fd: c_int, to: c_int, flags: c_int) -> c_int = |pass| closing::duplicate_to(fd, to, pass);
    fcntl | fcntl64 | __fcntl (fd: c_int, command: c_int, argument: c_long) -> c_int
        = |pass| closing::fcntl(fd, command, argument, pass);

    read | __read (fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t
        = |pass| data::read(fd, buffer, length, pass);
    __read_chk (fd: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t
        = |pass| data::read_checked(fd, buffer, length, room, pass);
    pread | pread64 | __pread64 (fd: c_int, buffer: *mut c_void, length: size_t, offset: off64_t) -> ssize_t
        = |pass| data::pread(fd, buffer, length, offset, pass);
    __pread_chk | __pread64_chk (
        fd: c_int, buffer: *mut c_void, length: size_t, offset: off64_t, room: size_t
    ) -> ssize_t
        = |pass| data::pread_checked(fd, buffer, length, offset, room, pass);
    readv (fd: c_int, vector: *const iovec, count: c_int) -> ssize_t
        = |pass| data::readv(fd, vector, count, -1, 0, pass);
    preadv | preadv64 (fd: c_int, vector: *const iovec, count: c_int, offset: off64_t) -> ssize_t
        = |pass| data::preadv(fd, vector, count, offset, pass);
    preadv2 | preadv64v2 (fd: c_int, vector: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t
        = |pass| data::readv(fd, vector, count, offset, flags, pass);

    write | __write (fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t
        = |pass| data::write(fd, buffer, length, pass);
    pwrite | pwrite64 | __pwrite64 (
        fd: c_int, buffer: *const c_void, length: size_t, offset: off64_t
    ) -> ssize_t
        = |pass| data::pwrite(fd, buffer, length, offset, pass);
    writev (fd: c_int, vector: *const iovec, count: c_int) -> ssize_t
        = |pass| data::writev(fd, vector, count, -1, 0, pass);
    pwritev | pwritev64 (fd: c_int, vector: *const iovec, count: c_int, offset: off64_t) -> ssize_t
        = |pass| data::pwritev(fd, vector, count, offset, pass);
    pwritev2 | pwritev64v2 (fd: c_int, vector: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t
        = |pass| data::writev(fd, vector, count, offset, flags, pass);

    aio_read | aio_read64 (block: *mut ControlBlock) -> c_int = |pass| aio::submit(block, Operation::Read, pass);
    aio_write | aio_write64 (block: *mut ControlBlock) -> c_int = |pass| aio::submit(block, Operation::Write, pass);
    aio_fsync | aio_fsync64 (kind: c_int, block: *mut ControlBlock) -> c_int = |pass| aio::sync(kind, block, pass);
    aio_suspend | aio_suspend64 (
        list: *const *const ControlBlock, count: c_int, timeout: *const libc::timespec
    ) -> c_int
        = |pass| aio::suspend(list, count, timeout, pass);
    aio_cancel | aio_cancel64 (fd: c_int, block: *mut ControlBlock) -> c_int = |pass| aio::cancel(fd, block, pass);
    lio_listio | lio_listio64 (
        mode: c_int, blocks: *const *mut ControlBlock, count: c_int, event: *mut libc::sigevent
    ) -> c_int
        = |pass| aio::list_io(mode, blocks, count, event, pass);

    mmap | mmap64 (
        address: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off64_t
    ) -> *mut c_void
        = |pass| transfers::mmap(flags, fd, offset, pass);
    sendfile | sendfile64 (to: c_int, from: c_int, offset: *mut off64_t, length: size_t) -> ssize_t
        = |pass| copying::sendfile(to, from, offset, length, pass);
    copy_file_range (
        from: c_int, from_offset: *mut off64_t, to: c_int, to_offset: *mut off64_t, length: size_t, flags: c_uint
    ) -> ssize_t
        = |pass| copying::copy_file_range(Place::of(from, from_offset), Place::of(to, to_offset), length, flags, pass);
    splice (
        from: c_int, from_offset: *mut off64_t, to: c_int, to_offset: *mut off64_t, length: size_t, flags: c_uint
    ) -> ssize_t
        = |pass| copying::splice(Place::of(from, from_offset), Place::of(to, to_offset), length, flags, pass);
    ioctl (fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int
        = |pass| ioctls::ioctl(fd, request, argument, pass);

    fopen | fopen64 | _IO_fopen | setmntent | __setmntent (path: *const c_char, mode: *const c_char) -> *mut FILE
        = |pass| stdio::fopen(path, mode, pass);
    freopen | freopen64 (path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE
        = |pass| stdio::freopen(path, mode, stream, pass);
    fdopen | _IO_fdopen (fd: c_int, mode: *const c_char) -> *mut FILE = |pass| stdio::fdopen(fd, mode, pass);
    tmpfile | tmpfile64 () -> *mut FILE = |pass| stdio::made(pass);
    popen | _IO_popen (command: *const c_char, mode: *const c_char) -> *mut FILE
        = |pass| {
            fork::bequeath();
            match environment::command(command) {
                None => stdio::made(pass),
                Some(command) => stdio::made(|| real::popen(command.as_ptr(), mode)),
            }
        };
    fclose | _IO_fclose | endmntent | __endmntent | pclose (stream: *mut FILE) -> c_int
        = |pass| stdio::fclose(stream, pass);
    fwrite | fwrite_unlocked | _IO_fwrite (
        bytes: *const c_void, size: size_t, count: size_t, stream: *mut FILE
    ) -> size_t
        = |pass| output::write(stream, pass);
    fread | fread_unlocked | _IO_fread (bytes: *mut c_void, size: size_t, count: size_t, stream: *mut FILE) -> size_t
        = |pass| input::read(stream, pass);
    __fread_chk | __fread_unlocked_chk (
        bytes: *mut c_void, room: size_t, size: size_t, count: size_t, stream: *mut FILE
    ) -> size_t
        = |pass| input::read(stream, pass);
    fgets | fgets_unlocked | _IO_fgets (line: *mut c_char, room: c_int, stream: *mut FILE) -> *mut c_char
        = |pass| input::line(stream, pass);
    __fgets_chk | __fgets_unlocked_chk (
        line: *mut c_char, room: size_t, length: c_int, stream: *mut FILE
    ) -> *mut c_char
        = |pass| input::line(stream, pass);
    fgetws | fgetws_unlocked (line: *mut wchar_t, room: c_int, stream: *mut FILE) -> *mut wchar_t
        = |pass| input::line(stream, pass);
    __fgetws_chk | __fgetws_unlocked_chk (
        line: *mut wchar_t, room: size_t, length: c_int, stream: *mut FILE
    ) -> *mut wchar_t
        = |pass| input::line(stream, pass);
    gets | _IO_gets (line: *mut c_char) -> *mut c_char = |pass| input::standard_line(pass);
    __gets_chk (line: *mut c_char, room: size_t) -> *mut c_char = |pass| input::standard_line(pass);
    getdelim | __getdelim (
        line: *mut *mut c_char, room: *mut size_t, end: c_int, stream: *mut FILE
    ) -> ssize_t
        = |pass| if input::may_read(stream) { pass() } else { -1 };
    rewind (stream: *mut FILE) = |pass| input::rewind(stream, pass);
    backtrace_symbols_fd | __backtrace_symbols_fd (addresses: *const *mut c_void, count: c_int, fd: c_int)
        = |pass| stdio::traced(fd, pass);
    vdprintf (fd: c_int, format: *const c_char, list: *mut c_void) -> c_int = |pass| stdio::printed(fd, pass);
    __vdprintf_chk (fd: c_int, flag: c_int, format: *const c_char, list: *mut c_void) -> c_int
        = |pass| stdio::printed(fd, pass);

    socket (domain: c_int, kind: c_int, protocol: c_int) -> c_int = |pass| arrivals::fresh(pass);
    socketpair (domain: c_int, kind: c_int, protocol: c_int, made: *mut c_int) -> c_int
        = |pass| arrivals::pair(made, pass);
    accept (fd: c_int, address: *mut c_void, length: *mut c_uint) -> c_int = |pass| arrivals::fresh(pass);
    accept4 (fd: c_int, address: *mut c_void, length: *mut c_uint, flags: c_int) -> c_int
        = |pass| arrivals::fresh(pass);
    pipe | __pipe (made: *mut c_int) -> c_int = |pass| arrivals::pair(made, pass);
    pipe2 (made: *mut c_int, flags: c_int) -> c_int = |pass| arrivals::pair(made, pass);
    eventfd (value: c_uint, flags: c_int) -> c_int = |pass| arrivals::fresh(pass);
    epoll_create (size: c_int) -> c_int = |pass| arrivals::fresh(pass);
    epoll_create1 (flags: c_int) -> c_int = |pass| arrivals::fresh(pass);
    signalfd (fd: c_int, mask: *const c_void, flags: c_int) -> c_int = |pass| arrivals::fresh(pass);
    timerfd_create (clock: c_int, flags: c_int) -> c_int = |pass| arrivals::fresh(pass);
    inotify_init () -> c_int = |pass| arrivals::fresh(pass);
    inotify_init1 (flags: c_int) -> c_int = |pass| arrivals::fresh(pass);
    fanotify_init (flags: c_uint, event_flags: c_uint) -> c_int = |pass| arrivals::fresh(pass);
    memfd_create (name: *const c_char, flags: c_uint) -> c_int = |pass| arrivals::fresh(pass);
    pidfd_open (process: c_int, flags: c_uint) -> c_int = |pass| arrivals::fresh(pass);
    pidfd_getfd (process: c_int, fd: c_int, flags: c_uint) -> c_int = |pass| arrivals::fresh(pass);
    posix_openpt (flags: c_int) -> c_int = |pass| arrivals::fresh(pass);
    getpt () -> c_int = |pass| arrivals::fresh(pass);
    openpty (
        one: *mut c_int, other: *mut c_int, name: *mut c_char, terminal: *const c_void, size: *const c_void
    ) -> c_int
        = |pass| arrivals::two(one, other, pass);
    recvmsg (fd: c_int, message: *mut libc::msghdr, flags: c_int) -> ssize_t = |pass| arrivals::received(message, pass);
    recvmmsg (
        fd: c_int, messages: *mut libc::mmsghdr, count: c_uint, flags: c_int, timeout: *mut libc::timespec
    ) -> c_int
        = |pass| arrivals::received_many(messages, pass);
    daemon (same_directory: c_int, same_descriptors: c_int) -> c_int
        = |pass| arrivals::standard_replaced(|result| result == 0 && same_descriptors == 0, pass);
    login_tty (fd: c_int) -> c_int = |pass| arrivals::standard_replaced(|result| result == 0, pass);
    forkpty (fd: *mut c_int, name: *mut c_char, terminal: *const c_void, size: *const c_void) -> c_int
        = |pass| arrivals::forked(fd, pass);

    _Fork () -> c_int = |pass| fork::forked(pass);
    system (command: *const c_char) -> c_int
        = |pass| {
            fork::bequeath();
            environment::command(command).map_or_else(pass, |command| real::system(command.as_ptr()))
        };

    execve (path: *const c_char, arguments: Strings, environment: Strings) -> c_int
        = |_pass| executing::by_path(
            Start::Here, (AT_FDCWD, path, 0), environment, |all| real::execve(path, arguments, all)
        );
    execv (path: *const c_char, arguments: Strings) -> c_int
        = |_pass| executing::by_path(
            Start::Here, (AT_FDCWD, path, 0), current(), |all| real::execve(path, arguments, all)
        );
    execvp (name: *const c_char, arguments: Strings) -> c_int
        = |_pass| executing::by_name(Start::Here, name, current(), |all| real::execvpe(name, arguments, all));
    execvpe (name: *const c_char, arguments: Strings, environment: Strings) -> c_int
        = |_pass| executing::by_name(Start::Here, name, environment, |all| real::execvpe(name, arguments, all));
    execveat (dir: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int
        = |_pass| executing::by_path(
            Start::Here, (dir, path, flags), environment, |all| real::execveat(dir, path, arguments, all, flags)
        );
    fexecve (fd: c_int, arguments: Strings, environment: Strings) -> c_int
        = |_pass| executing::by_path(
            Start::Here, (fd, c"".as_ptr(), libc::AT_EMPTY_PATH), environment, |all| real::fexecve(fd, arguments, all)
        );
    posix_spawn (
        process: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: Strings, environment: Strings
    ) -> c_int
        = |_pass| executing::by_path(Start::Child(process), (AT_FDCWD, path, 0), environment, |all| {
            spawning::spawn(actions, || real::posix_spawn(process, path, actions, attributes, arguments, all))
        });
    posix_spawnp (
        process: *mut c_int, name: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: Strings, environment: Strings
    ) -> c_int
        = |_pass| executing::by_name(Start::Child(process), name, environment, |all| {
            spawning::spawn(actions, || real::posix_spawnp(process, name, actions, attributes, arguments, all))
        });
    posix_spawn_file_actions_init | posix_spawn_file_actions_destroy (actions: *mut c_void) -> c_int
        = |pass| { spawning::forget(actions); pass() };
    posix_spawn_file_actions_addopen (
        actions: *mut c_void, fd: c_int, path: *const c_char, flags: c_int, mode: mode_t
    ) -> c_int
        = |pass| spawning::opens(actions, path, flags, pass);
    posix_spawn_file_actions_addchdir_np (actions: *mut c_void, path: *const c_char) -> c_int
        = |pass| spawning::enters(actions, path, pass);
    posix_spawn_file_actions_addfchdir_np (actions: *mut c_void, fd: c_int) -> c_int
        = |pass| spawning::enters_open(actions, fd, pass);

    setuid (user: c_uint) -> c_int = |pass| confinement::restricted(pass);
    setgid (group: c_uint) -> c_int = |pass| confinement::restricted(pass);
    seteuid (user: c_uint) -> c_int = |pass| confinement::restricted(pass);
    setegid (group: c_uint) -> c_int = |pass| confinement::restricted(pass);
    setreuid (real: c_uint, effective: c_uint) -> c_int = |pass| confinement::restricted(pass);
    setregid (real: c_uint, effective: c_uint) -> c_int = |pass| confinement::restricted(pass);
    setresuid (real: c_uint, effective: c_uint, saved: c_uint) -> c_int = |pass| confinement::restricted(pass);
    setresgid (real: c_uint, effective: c_uint, saved: c_uint) -> c_int = |pass| confinement::restricted(pass);
    setfsuid (user: c_uint) -> c_int = |pass| confinement::restricted(pass);
    setfsgid (group: c_uint) -> c_int = |pass| confinement::restricted(pass);
    capset (header: *mut c_void, capabilities: *const c_void) -> c_int = |pass| confinement::restricted(pass);
    unshare (flags: c_int) -> c_int = |pass| confinement::moved(pass);
    setns (fd: c_int, kinds: c_int) -> c_int = |pass| confinement::moved(pass);
    chroot (path: *const c_char) -> c_int = |pass| confinement::moved(pass);
    pivot_root (new: *const c_char, old: *const c_char) -> c_int = |pass| confinement::moved(pass);
    prctl (option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int
        = |pass| confinement::by_prctl(option, a, b, pass);
}

// What only an agent must hear of.
hooks! {
    mod told;
    while served;

    lseek | lseek64 | __lseek | llseek (fd: c_int, offset: off64_t, whence: c_int) -> off64_t
        = |pass| data::lseek(fd, whence, pass);
    fsync (fd: c_int) -> c_int = |pass| data::sync(fd, pass);
    fdatasync (fd: c_int) -> c_int = |pass| data::sync(fd, pass);
    sync () = |pass| data::sync_everything(pass);
    syncfs (fd: c_int) -> c_int = |pass| data::sync_all(pass);

    truncate | truncate64 (path: *const c_char, size: off64_t) -> c_int = |pass| resizing::truncate(path, size, pass);
    ftruncate | ftruncate64 (fd: c_int, size: off64_t) -> c_int = |pass| resizing::ftruncate(fd, size, pass);
    fallocate | fallocate64 (fd: c_int, mode: c_int, offset: off64_t, length: off64_t) -> c_int
        = |pass| resizing::fallocate(fd, mode, offset, length, pass);
    posix_fallocate | posix_fallocate64 (fd: c_int, offset: off64_t, length: off64_t) -> c_int
        = |pass| resizing::posix_fallocate(fd, offset, pass);

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
        = |pass| metadata::times_set(AT_FDCWD, path, std::ptr::null(), 0, pass);
    utimes (path: *const c_char, times: *const libc::timeval) -> c_int
        = |pass| metadata::times_set(AT_FDCWD, path, std::ptr::null(), 0, pass);
    lutimes (path: *const c_char, times: *const libc::timeval) -> c_int
        = |pass| metadata::times_set(AT_FDCWD, path, std::ptr::null(), libc::AT_SYMLINK_NOFOLLOW, pass);
    futimesat (dir: c_int, path: *const c_char, times: *const libc::timeval) -> c_int
        = |pass| metadata::times_set(dir, path, std::ptr::null(), 0, pass);
    utimensat (dir: c_int, path: *const c_char, times: *const libc::timespec, flags: c_int) -> c_int
        = |pass| metadata::times_set(dir, path, times, flags, pass);
    futimes (fd: c_int, times: *const libc::timeval) -> c_int
        = |pass| metadata::times_set(fd, std::ptr::null(), std::ptr::null(), 0, pass);
    futimens (fd: c_int, times: *const libc::timespec) -> c_int
        = |pass| metadata::times_set(fd, std::ptr::null(), times, 0, pass);

    unlink | remove (path: *const c_char) -> c_int = |pass| names::unlink(AT_FDCWD, path, pass);
    unlinkat (dir: c_int, path: *const c_char, flags: c_int) -> c_int = |pass| names::unlink(dir, path, pass);
    link (old: *const c_char, new: *const c_char) -> c_int
        = |pass| names::link(AT_FDCWD, old, AT_FDCWD, new, 0, pass);
    linkat (old_dir: c_int, old: *const c_char, new_dir: c_int, new: *const c_char, flags: c_int) -> c_int
        = |pass| names::link(old_dir, old, new_dir, new, flags, pass);
    rename (old: *const c_char, new: *const c_char) -> c_int
        = |pass| names::rename(AT_FDCWD, old, AT_FDCWD, new, 0, pass);
    renameat (old_dir: c_int, old: *const c_char, new_dir: c_int, new: *const c_char) -> c_int
        = |pass| names::rename(old_dir, old, new_dir, new, 0, pass);
    renameat2 (old_dir: c_int, old: *const c_char, new_dir: c_int, new: *const c_char, flags: c_uint) -> c_int
        = |pass| names::rename(old_dir, old, new_dir, new, flags, pass);
}

// What the kernel reads by itself once it was told of it by a path.
hooks! {
    mod by_kernel;
    while served;

    swapon (path: *const c_char, flags: c_int) -> c_int = |pass| { executing::seen_by_kernel(AT_FDCWD, path); pass() };
    acct (path: *const c_char) -> c_int = |pass| { executing::seen_by_kernel(AT_FDCWD, path); pass() };
    mount (
        source: *const c_char, target: *const c_char, kind: *const c_char, flags: c_ulong, data: *const c_void
    ) -> c_int
        = |pass| { executing::seen_by_kernel(AT_FDCWD, source); pass() };
    fsconfig (fd: c_int, command: c_uint, key: *const c_char, value: *const c_void, other: c_int) -> c_int
        = |pass| { executing::configures(command, value, other); pass() };
}

// Of libaio and liburing, for programs linked with them.
hooks! {
    mod beside;
    while active;

    io_submit (context: *mut c_void, count: c_long, blocks: *const *const rings::Submission) -> c_int
        = |pass| rings::submit(count, blocks, pass);
    io_uring_queue_init (entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int
        = |pass| rings::set_up(flags, pass);
    io_uring_queue_init_params (entries: c_uint, ring: *mut c_void, parameters: *mut c_void) -> c_int
        = |pass| rings::set_up(rings::flags_of(parameters), pass);
    io_uring_queue_init_mem (
        entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void, length: size_t
    ) -> c_int
        = |pass| rings::set_up(rings::flags_of(parameters), pass);
    io_uring_setup (entries: c_uint, parameters: *mut c_void) -> c_int
        = |pass| rings::set_up(rings::flags_of(parameters), pass);
    io_uring_submit | io_uring_submit_and_get_events (ring: *mut c_void) -> c_int = |pass| rings::submits(pass);
    io_uring_submit_and_wait (ring: *mut c_void, count: c_uint) -> c_int = |pass| rings::submits(pass);
    io_uring_submit_and_wait_timeout | io_uring_wait_cqes (
        ring: *mut c_void, outcome: *mut c_void, count: c_uint, time: *mut c_void, mask: *mut c_void
    ) -> c_int
        = |pass| rings::submits(pass);
    io_uring_submit_and_wait_min_timeout | io_uring_wait_cqes_min_timeout (
        ring: *mut c_void, outcome: *mut c_void, count: c_uint, time: *mut c_void, least: c_uint, mask: *mut c_void
    ) -> c_int
        = |pass| rings::submits(pass);
    io_uring_submit_and_wait_reg (ring: *mut c_void, outcome: *mut c_void, count: c_uint, index: c_int) -> c_int
        = |pass| rings::submits(pass);
    io_uring_wait_cqe_timeout (ring: *mut c_void, outcome: *mut c_void, time: *mut c_void) -> c_int
        = |pass| rings::submits(pass);
    io_uring_enter (ring: c_uint, count: c_uint, least: c_uint, flags: c_uint, mask: *mut c_void) -> c_int
        = |pass| rings::submits(pass);
    io_uring_enter2 (
        ring: c_uint, count: c_uint, least: c_uint, flags: c_uint, argument: *mut c_void, length: size_t
    ) -> c_int
        = |pass| rings::submits(pass);
}

trampolines! {
    dprintf = |[fd, ..]| stdio::may_print(fd as c_int);
    __dprintf_chk = |[fd, ..]| stdio::may_print(fd as c_int);
    vfork = |_| fork::bequeath();
    __vfork = |_| fork::bequeath();
    dlopen = |[path, flags, _]| executing::loaded(path as *const c_char, flags as c_int),
        then |[_, flags, _]| *flags = executing::shared_flags(*flags);
    dlmopen = |[_, path, flags]| executing::loaded(path as *const c_char, flags as c_int),
        then |[_, _, flags]| *flags = executing::shared_flags(*flags);
}

lists! {
    execl = |path, arguments, _| {
        executing::by_path(Start::Here, (AT_FDCWD, path, 0), current(), |all| real::execve(path, arguments, all))
    };
    execle = |path, arguments, environment| {
        executing::by_path(Start::Here, (AT_FDCWD, path, 0), environment, |all| real::execve(path, arguments, all))
    };
    execlp = |name, arguments, _| {
        executing::by_name(Start::Here, name, current(), |all| real::execvpe(name, arguments, all))
    };
}
