//! One system call, by the instruction itself: libc's `syscall` is a symbol that programs and this very library take
//! the place of.

use std::arch::asm;

use super::errno::Errno;

/// System calls answer -4095 to -1 for an error.
const ERRNO_MAX: isize = 4095;

/// Makes a system call; arguments it does not take are zero. errno stays as it is.
///
/// # Safety
/// As the system call.
#[inline]
pub(crate) unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: the caller's contract.
    let result = unsafe { enter(number, arguments) };
    if (-ERRNO_MAX..0).contains(&result) { Err(-result as Errno) } else { Ok(result as usize) }
}

#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn enter(number: libc::c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result;
    // SAFETY: the caller's contract; the kernel changes the result, rcx and r11 alone.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

#[cfg(target_arch = "aarch64")]
#[inline]
unsafe fn enter(number: libc::c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result;
    // SAFETY: the caller's contract; the kernel changes the result alone.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a => result, in("x1") b, in("x2") c, in("x3") d, in("x4") e,
            in("x5") f, options(nostack));
    }
    result
}

/// A system call as libc's `syscall` is called, but with an `Err` that is the error number.
macro_rules! syscall {
    ($number:expr $(, $argument:expr)* $(,)?) => {
        $crate::kernel::raw::call($number, $crate::kernel::raw::padded([$($argument as usize),*]))
    };
}

pub(crate) use syscall;

/// Arguments, and zeroes behind them.
#[inline]
pub(crate) fn padded<const COUNT: usize>(arguments: [usize; COUNT]) -> [usize; 6] {
    let mut all = [0; 6];
    all[..COUNT].copy_from_slice(&arguments);
    all
}
