//! Futexes, sleep and clocks.

use std::sync::atomic::AtomicU32;

use super::errno::Errno;
use super::raw::syscall;

/// Waits until `word` is woken, if it still holds `value`; at most `milliseconds`, if that is given.
pub(crate) fn wait(word: &AtomicU32, value: u32, milliseconds: Option<u64>) -> Result<(), Errno> {
    let time =
        milliseconds.map(|ms| libc::timespec { tv_sec: (ms / 1000) as i64, tv_nsec: (ms % 1000 * 1_000_000) as i64 });
    let time = time.as_ref().map_or(std::ptr::null(), |time| &raw const *time);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is ours, the time is readable or null.
    unsafe { syscall!(libc::SYS_futex, word.as_ptr(), operation, value, time) }.map(drop)
}

/// Wakes at most `count` waiters of `word`.
pub(crate) fn wake(word: &AtomicU32, count: u32) {
    wake_address(word.as_ptr(), count);
}

/// The same by the word's address, where the word itself may be gone.
pub(crate) fn wake_address(word: *const u32, count: u32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel does not touch the word.
    let _ = unsafe { syscall!(libc::SYS_futex, word, operation, count) };
}

/// Sleeps; a signal may cut it short.
pub(crate) fn sleep_ms(milliseconds: u64) {
    let time =
        libc::timespec { tv_sec: (milliseconds / 1000) as i64, tv_nsec: (milliseconds % 1000 * 1_000_000) as i64 };
    let rest = std::ptr::null_mut::<libc::timespec>();
    // SAFETY: `time` is readable; the rest is not asked for.
    let _ = unsafe { syscall!(libc::SYS_nanosleep, &raw const time, rest) };
}

/// CLOCK_MONOTONIC in milliseconds.
pub(crate) fn monotonic_ms() -> u64 {
    monotonic_ns() / 1_000_000
}

/// CLOCK_MONOTONIC in nanoseconds, without a system call.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// The same up to a tick of the kernel ago, and sooner.
pub(crate) fn monotonic_coarse_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC_COARSE)
}

/// Nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// The same as exact as times of files are, and sooner.
#[inline]
pub(crate) fn unix_coarse_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME_COARSE)
}

#[inline]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
