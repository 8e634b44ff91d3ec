//! `syscall`: a system call by its number is taken for the call of libc's that makes it, where that one is hooked.

use libc::{c_int, c_long, c_void};

use crate::calls::{metadata, rings, transfers};
use crate::files::{arrivals, opening};
use crate::fork;
use crate::hooks::macros::hooks;
use crate::hooks::symbols;
use crate::kernel;
use crate::location::mounts;
use crate::programs::{confinement, executing};

hooks! {
    mod real;
    while active;

    syscall (number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long
        = |pass| dispatch(number, [a, b, c, d, e, f], pass);
}

/// A table, the longest function of the library: one line a system call.
///
/// # Safety
/// As syscall(2).
// A table: one arm a system call.
#[allow(clippy::too_many_lines)]
unsafe fn dispatch(number: c_long, [a, b, c, d, e, f]: [c_long; 6], pass: impl Fn() -> c_long) -> c_long {
    let (fd, result) = (a as c_int, |result: c_int| c_long::from(result));
    // SAFETY: the arguments are the program's, meant for the call of this number.
    unsafe {
        match number {
            libc::SYS_read => symbols::read(fd, b as *mut c_void, c as usize) as c_long,
            libc::SYS_write => symbols::write(fd, b as *const c_void, c as usize) as c_long,
            libc::SYS_pread64 => symbols::pread(fd, b as *mut c_void, c as usize, d) as c_long,
            libc::SYS_pwrite64 => symbols::pwrite(fd, b as *const c_void, c as usize, d) as c_long,
            libc::SYS_readv => symbols::readv(fd, b as *const _, c as c_int) as c_long,
            libc::SYS_writev => symbols::writev(fd, b as *const _, c as c_int) as c_long,
            libc::SYS_preadv => symbols::preadv(fd, b as *const _, c as c_int, d) as c_long,
            libc::SYS_pwritev => symbols::pwritev(fd, b as *const _, c as c_int, d) as c_long,
            libc::SYS_preadv2 => symbols::preadv2(fd, b as *const _, c as c_int, d, f as c_int) as c_long,
            libc::SYS_pwritev2 => symbols::pwritev2(fd, b as *const _, c as c_int, d, f as c_int) as c_long,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => result(symbols::open(a as *const _, b as c_int, c as u32)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => result(symbols::creat(a as *const _, b as u32)),
            libc::SYS_openat => result(symbols::openat(fd, b as *const _, c as c_int, d as u32)),
            libc::SYS_seccomp => confinement::by_seccomp(a as _, c as usize, pass),
            restricting if confinement::restricts(restricting) => confinement::restricted(pass),
            libc::SYS_prctl => result(symbols::prctl(fd, b as _, c as _, d as _, e as _)),
            libc::SYS_openat2 => {
                let opened = opening::open2(fd, b as *const _, c as *const _, d as usize);
                kernel::answer(opened.map(|fd| fd as usize), kernel::errno()) as c_long
            }
            libc::SYS_open_by_handle_at => result(symbols::open_by_handle_at(fd, b as *mut c_void, c as c_int)),
            libc::SYS_close => result(symbols::close(fd)),
            libc::SYS_close_range => result(symbols::close_range(a as u32, b as u32, c as c_int)),
            libc::SYS_dup => result(symbols::dup(fd)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => result(symbols::dup2(fd, b as c_int)),
            libc::SYS_dup3 => result(symbols::dup3(fd, b as c_int, c as c_int)),
            libc::SYS_fcntl => result(symbols::fcntl(fd, b as c_int, c)),
            libc::SYS_pidfd_getfd => arrivals::fresh(|| pass() as c_int).into(),
            libc::SYS_recvmsg => symbols::recvmsg(fd, b as *mut _, c as c_int) as c_long,
            libc::SYS_lseek => symbols::lseek(fd, b, c as c_int),
            libc::SYS_fsync => result(symbols::fsync(fd)),
            libc::SYS_fdatasync => result(symbols::fdatasync(fd)),
            libc::SYS_syncfs => result(symbols::syncfs(fd)),
            libc::SYS_sync => {
                symbols::sync();
                0
            }
            libc::SYS_fstat => result(symbols::fstat(fd, b as *mut _)),
            libc::SYS_newfstatat => result(symbols::fstatat(fd, b as *const _, c as *mut _, d as c_int)),
            libc::SYS_statx => result(symbols::statx(fd, b as *const _, c as c_int, d as u32, e as *mut _)),
            // Without a path, of the descriptor, as futimens has it.
            libc::SYS_utimensat => {
                result(metadata::times_set(fd, b as *const _, c as *const _, d as c_int, || pass() as c_int))
            }
            libc::SYS_truncate => result(symbols::truncate(a as *const _, b)),
            libc::SYS_ftruncate => result(symbols::ftruncate(fd, b)),
            libc::SYS_fallocate => result(symbols::fallocate(fd, b as c_int, c, d)),
            libc::SYS_copy_file_range => {
                symbols::copy_file_range(fd, b as *mut _, c as c_int, d as *mut _, e as usize, f as u32) as c_long
            }
            libc::SYS_splice => {
                symbols::splice(fd, b as *mut _, c as c_int, d as *mut _, e as usize, f as u32) as c_long
            }
            libc::SYS_sendfile => symbols::sendfile(fd, b as c_int, c as *mut _, d as usize) as c_long,
            libc::SYS_ioctl => result(symbols::ioctl(fd, b as _, c as *mut c_void)),
            // By its number again, not by its name: a library behind this one, such as UCX, may have put
            // itself in the place of libc's mmap and call here.
            libc::SYS_mmap => transfers::mmap(d as c_int, e as c_int, f, || pass() as *mut c_void) as c_long,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => result(symbols::unlink(a as *const _)),
            libc::SYS_unlinkat => result(symbols::unlinkat(fd, b as *const _, c as c_int)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => result(symbols::link(a as *const _, b as *const _)),
            libc::SYS_linkat => result(symbols::linkat(fd, b as *const _, c as c_int, d as *const _, e as c_int)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => result(symbols::rename(a as *const _, b as *const _)),
            libc::SYS_renameat => result(symbols::renameat(fd, b as *const _, c as c_int, d as *const _)),
            libc::SYS_renameat2 => result(symbols::renameat2(fd, b as *const _, c as c_int, d as *const _, e as u32)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_fork => fork::forked(pass),
            // A child with a memory of its own.
            libc::SYS_clone if a as c_int & libc::CLONE_VM == 0 => {
                let child = fork::forked(pass);
                if child == 0 && a as c_int & libc::CLONE_NEWNS != 0 {
                    mounts::forget();
                }
                child
            }
            libc::SYS_unshare | libc::SYS_setns | libc::SYS_chroot | libc::SYS_pivot_root => {
                confinement::moved(|| pass() as c_int).into()
            }
            libc::SYS_clone | libc::SYS_clone3 => {
                fork::bequeath();
                pass()
            }
            libc::SYS_execve => result(symbols::execve(a as *const _, b as *const _, c as *const _)),
            libc::SYS_execveat => {
                result(symbols::execveat(fd, b as *const _, c as *const _, d as *const _, e as c_int))
            }
            libc::SYS_io_submit => rings::submit_raw(b, c as *const *const _, pass),
            libc::SYS_io_uring_setup => rings::set_up_raw(rings::flags_of(b as *const c_void), pass),
            libc::SYS_io_uring_enter if b != 0 => rings::submits_raw(pass),
            libc::SYS_swapon => result(symbols::swapon(a as *const _, b as c_int)),
            libc::SYS_acct => result(symbols::acct(a as *const _)),
            libc::SYS_mount => {
                result(symbols::mount(a as *const _, b as *const _, c as *const _, d as _, e as *const c_void))
            }
            libc::SYS_fsconfig => {
                executing::configures(b as u32, d as *const c_void, e as c_int);
                pass()
            }
            // The kernel reads a module, another kernel and its first files by their descriptors.
            libc::SYS_finit_module => read_by_kernel(&[fd], pass),
            libc::SYS_kexec_file_load => read_by_kernel(&[fd, b as c_int], pass),
            _ => pass(),
        }
    }
}

/// Their slow files are whole before the call.
fn read_by_kernel(fds: &[c_int], pass: impl Fn() -> c_long) -> c_long {
    let saved = kernel::errno();
    match fds.iter().try_for_each(|&fd| transfers::brought_back(fd, || ())) {
        Ok(()) => pass(),
        Err(errno) => kernel::answer(Err(errno), saved) as c_long,
    }
}
