//! Filters of system calls (seccomp). A program says in advance which calls it will make, and is ended for
//! any other: the library must make none that the program would not make.
//!
//! A filter that lets the library's own calls through changes nothing: it is run here, over each of them, as
//! the kernel will. Before any other one, and before the strict mode, the process leaves flash: what it has
//! open is written back and bypasses flash from then on, and the hooks only pass on what the program calls.

use std::mem::MaybeUninit;
use std::ptr;

use libc::{c_int, c_long, c_ulong, sock_filter};

use crate::files::bypass;
use crate::files::{descriptors, opening};
use crate::kernel::raw::syscall;
use crate::kernel::{self, Errno};
use crate::location::Link;
use crate::{recording, session, settings};

const SET_MODE_STRICT: c_ulong = 0;
const SET_MODE_FILTER: c_ulong = 1;
const RET_ALLOW: u32 = 0x7fff_0000;
const RET_LOG: u32 = 0x7ffc_0000;
const RET_ERRNO: u32 = 0x0005_0000;
const RET_ACTION: u32 = 0xffff_0000;
/// Longest filter that the kernel takes.
const INSTRUCTIONS_MAX: usize = 4096;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// `struct seccomp_data`, as words.
type Call = [u32; 16];

/// `prctl`.
pub(crate) fn by_prctl(option: c_int, mode: c_ulong, program: c_ulong, pass: impl FnOnce() -> c_int) -> c_int {
    if option != libc::PR_SET_SECCOMP {
        return pass();
    }
    installed(mode == c_ulong::from(libc::SECCOMP_MODE_STRICT), program as usize, pass)
}

/// `seccomp`.
pub(crate) fn by_seccomp(operation: c_ulong, program: usize, pass: impl FnOnce() -> c_long) -> c_long {
    match operation {
        SET_MODE_STRICT | SET_MODE_FILTER => {
            installed(operation == SET_MODE_STRICT, program, || pass() as c_int).into()
        }
        _ => pass(),
    }
}

fn installed(strict: bool, program: usize, pass: impl FnOnce() -> c_int) -> c_int {
    opening::told_of_filter();
    let saved = kernel::errno();
    if settings::active() && (strict || !lets_through(program)) {
        if let Err(errno) = leave_flash() {
            return kernel::answer(Err(errno), saved) as c_int;
        }
        kernel::set_errno(saved);
    }
    pass()
}

/// Writes back what this process has open, and does nothing any more but pass calls on.
fn leave_flash() -> Result<(), Errno> {
    (0..descriptors::FIRST_MAX).for_each(|fd| drop(descriptors::managed(fd)));
    bypass::bypass_all()?;
    if settings::served() && session::shared().is_some() {
        let slow = settings::settings().slow.escape_ascii();
        session::complain(format_args!(
            "this program is about to have its system calls filtered, those of the library too: from now on it \
             reads and writes {slow} on the disk alone. Files that others write meanwhile may be old to it: run it \
             after them, or \
             after `headstart drain`"
        ));
    }
    recording::turn_off();
    settings::retire(recording::is_on());
    Ok(())
}

/// Whether the filter at this address allows the library's calls.
fn lets_through(program: usize) -> bool {
    let mut instructions = vec![MaybeUninit::<sock_filter>::uninit(); INSTRUCTIONS_MAX];
    let count = match copied(program, &mut instructions) {
        Ok(count) => count,
        // The kernel will say so, and no filter comes of it: so programs ask whether there are filters.
        Err(libc::EFAULT | libc::EINVAL) => return true,
        Err(_) => return false,
    };
    // SAFETY: so many were copied, and every bit pattern is a valid one.
    let filter: Vec<sock_filter> = instructions[..count].iter().map(|one| unsafe { one.assume_init() }).collect();
    calls().iter().all(|(call, may_fail)| match run(&filter, call).map(|value| value & RET_ACTION) {
        Some(RET_ALLOW | RET_LOG) => true,
        Some(RET_ERRNO) => *may_fail,
        _ => false,
    })
}

/// Copies the program's instructions, by way of the kernel: the address is whatever the program passed.
fn copied(program: usize, to: &mut [MaybeUninit<sock_filter>]) -> Result<usize, Errno> {
    let mut head = MaybeUninit::<libc::sock_fprog>::uninit();
    read_own(program, head.as_mut_ptr().cast(), size_of::<libc::sock_fprog>())?;
    // SAFETY: it was copied, and every bit pattern is a valid one.
    let head = unsafe { head.assume_init() };
    let count = usize::from(head.len);
    if count == 0 || count > to.len() {
        return Err(libc::EINVAL);
    }
    read_own(head.filter as usize, to.as_mut_ptr().cast(), count * size_of::<sock_filter>())?;
    Ok(count)
}

fn read_own(from: usize, to: *mut libc::c_void, length: usize) -> Result<(), Errno> {
    let local = libc::iovec { iov_base: to, iov_len: length };
    let remote = libc::iovec { iov_base: ptr::with_exposed_provenance_mut(from), iov_len: length };
    let (local, remote) = (&raw const local, &raw const remote);
    // SAFETY: there is room for `length` bytes; the kernel checks where they come from.
    let copied = unsafe { syscall!(libc::SYS_process_vm_readv, kernel::process(), local, 1, remote, 1, 0) };
    if copied? == length { Ok(()) } else { Err(libc::EFAULT) }
}

/// The library's calls with arguments as it makes them, and whether it goes on where one fails.
fn calls() -> Vec<(Call, bool)> {
    let (at, close_on_exec) = (libc::AT_FDCWD as i64, i64::from(libc::O_CLOEXEC));
    let path = Link::of(0).path().as_ptr().addr() as i64;
    let packets = i64::from(libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC);
    let memory = [0, 4096, i64::from(libc::PROT_READ | libc::PROT_WRITE)];
    let private = i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let (read_write, high) = (i64::from(libc::O_RDWR) | close_on_exec, i64::from(libc::F_DUPFD_CLOEXEC));
    let made: [(c_long, [i64; 6]); 29] = [
        (libc::SYS_openat, [at, path, close_on_exec, 0, 0, 0]),
        (libc::SYS_openat, [at, path, read_write, 0, 0, 0]),
        (libc::SYS_openat, [at, path, close_on_exec | i64::from(libc::O_PATH), 0, 0, 0]),
        (libc::SYS_close, [900, 0, 0, 0, 0, 0]),
        (libc::SYS_statx, [3, path, i64::from(libc::AT_EMPTY_PATH), 0x17ff, path, 0]),
        (libc::SYS_readlinkat, [at, path, path, 4096, 0, 0]),
        (libc::SYS_fcntl, [3, high, 900, 0, 0, 0]),
        (libc::SYS_fcntl, [3, i64::from(libc::F_GETFL), 0, 0, 0, 0]),
        (libc::SYS_socket, [i64::from(libc::AF_UNIX), packets, 0, 0, 0, 0]),
        (libc::SYS_connect, [3, path, 110, 0, 0, 0]),
        (libc::SYS_sendto, [900, path, 64, i64::from(libc::MSG_NOSIGNAL), 0, 0]),
        (libc::SYS_recvfrom, [900, path, 4096, 0, 0, 0]),
        (libc::SYS_recvmsg, [900, path, i64::from(libc::MSG_CMSG_CLOEXEC), 0, 0, 0]),
        (libc::SYS_mmap, [memory[0], memory[1], memory[2], private, -1, 0]),
        (libc::SYS_mmap, [memory[0], memory[1], memory[2], i64::from(libc::MAP_SHARED), 3, 0]),
        (libc::SYS_munmap, [path, 4096, 0, 0, 0, 0]),
        (libc::SYS_getpid, [0; 6]),
        (libc::SYS_gettid, [0; 6]),
        (libc::SYS_futex, [path, 128, 0, 0, 0, 0]),
        (libc::SYS_nanosleep, [path, 0, 0, 0, 0, 0]),
        (libc::SYS_rt_sigprocmask, [2, path, path, 8, 0, 0]),
        (libc::SYS_prlimit64, [0, 7, 0, path, 0, 0]),
        (libc::SYS_lseek, [3, 0, 1, 0, 0, 0]),
        (libc::SYS_pread64, [3, path, 4096, 0, 0, 0]),
        (libc::SYS_pwrite64, [3, path, 4096, 0, 0, 0]),
        (libc::SYS_preadv, [3, path, 2, 0, 0, 0]),
        (libc::SYS_pwritev, [3, path, 2, 0, 0, 0]),
        (libc::SYS_fdatasync, [3, 0, 0, 0, 0, 0]),
        (libc::SYS_process_vm_writev, [1, path, 1, path, 1, 0]),
    ];
    let may_fail = |number| number == libc::SYS_process_vm_writev;
    made.into_iter().map(|(number, arguments)| (call(number, arguments), may_fail(number))).collect()
}

fn call(number: c_long, arguments: [i64; 6]) -> Call {
    let mut words = [0; 16];
    (words[0], words[1]) = (number as u32, ARCHITECTURE);
    for (at, argument) in arguments.into_iter().enumerate() {
        (words[4 + 2 * at], words[5 + 2 * at]) = (argument as u32, (argument as u64 >> 32) as u32);
    }
    words
}

/// What the filter answers for a call; nothing if it is no filter that the kernel would take.
fn run(filter: &[sock_filter], call: &Call) -> Option<u32> {
    let (mut a, mut x, mut memory, mut at) = (0u32, 0u32, [0u32; 16], 0usize);
    loop {
        let sock_filter { code, jt, jf, k } = *filter.get(at)?;
        at += 1;
        let operand = if code & 0x08 == 0 { k } else { x };
        match code {
            0x20 => a = *call.get(k as usize / 4).filter(|_| k.is_multiple_of(4))?,
            0x80 => a = size_of::<Call>() as u32,
            0x81 => x = size_of::<Call>() as u32,
            0x00 => a = k,
            0x01 => x = k,
            0x60 => a = *memory.get(k as usize)?,
            0x61 => x = *memory.get(k as usize)?,
            0x02 => *memory.get_mut(k as usize)? = a,
            0x03 => *memory.get_mut(k as usize)? = x,
            0x04 | 0x0c => a = a.wrapping_add(operand),
            0x14 | 0x1c => a = a.wrapping_sub(operand),
            0x24 | 0x2c => a = a.wrapping_mul(operand),
            0x34 | 0x3c => a = a.checked_div(operand).unwrap_or(0),
            0x44 | 0x4c => a |= operand,
            0x54 | 0x5c => a &= operand,
            0x64 | 0x6c => a = a.checked_shl(operand).unwrap_or(0),
            0x74 | 0x7c => a = a.checked_shr(operand).unwrap_or(0),
            0xa4 | 0xac => a ^= operand,
            0x84 => a = a.wrapping_neg(),
            0x05 => at += k as usize,
            0x15 | 0x1d => at += usize::from(if a == operand { jt } else { jf }),
            0x25 | 0x2d => at += usize::from(if a > operand { jt } else { jf }),
            0x35 | 0x3d => at += usize::from(if a >= operand { jt } else { jf }),
            0x45 | 0x4d => at += usize::from(if a & operand != 0 { jt } else { jf }),
            0x07 => x = a,
            0x87 => a = x,
            0x06 => return Some(k),
            0x16 => return Some(a),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn step(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
        sock_filter { code, jt, jf, k }
    }

    /// Answers `listed` for a number, `other` for the others.
    fn filter(number: c_long, listed: u32, other: u32) -> [sock_filter; 4] {
        [step(0x20, 0, 0, 0), step(0x15, 0, 1, number as u32), step(0x06, 0, 0, listed), step(0x06, 0, 0, other)]
    }

    fn lets(filter: &mut [sock_filter]) -> bool {
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        lets_through((&raw const program).expose_provenance())
    }

    #[test]
    fn a_filter_is_asked_for_every_call_of_the_library() {
        assert!(lets(&mut filter(libc::SYS_ptrace, 0, RET_ALLOW)), "the library traces nobody");
        for number in [libc::SYS_sendto, libc::SYS_statx, libc::SYS_pread64] {
            assert!(!lets(&mut filter(number, 0, RET_ALLOW)), "{number} ends the process");
            assert!(!lets(&mut filter(number, RET_ALLOW, RET_ERRNO | 1)), "no other is allowed");
        }
        assert!(lets(&mut filter(libc::SYS_process_vm_writev, RET_ERRNO | 1, RET_ALLOW)));
        assert!(lets_through(8), "an address of nothing, of which no filter comes");
    }

    #[test]
    fn arguments_and_the_architecture_are_seen_and_nonsense_is_no_filter() {
        let call = call(libc::SYS_socket, [1, 0x1_0000_0005, 0, 0, 0, 0]);
        let load = |offset| run(&[step(0x20, 0, 0, offset), step(0x16, 0, 0, 0)], &call);
        assert_eq!(load(4), Some(ARCHITECTURE));
        assert_eq!((load(16), load(24), load(28)), (Some(1), Some(5), Some(1)));
        assert_eq!((load(64), load(2)), (None, None));
        assert_eq!(run(&[step(0x05, 0, 0, 9)], &call), None, "it ends without an answer");
        assert_eq!(run(&[step(0xff, 0, 0, 0)], &call), None);
    }
}
