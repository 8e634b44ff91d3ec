//! Another process, held by a descriptor that cannot come to mean a third one; and what the kernel says of
//! processes by their numbers.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A process; its descriptor becomes readable when all its threads are gone.
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// The process of that number, if it is the one that started then.
    pub fn open(pid: u32, started: u64) -> Option<ProcessHandle> {
        ProcessHandle::of_number(pid).ok().filter(|_| start_time(pid) == Some(started))
    }

    /// Whatever process has the number now.
    // libc has no function for it; the ban is for the library, which takes the place of `syscall`.
    #[expect(clippy::disallowed_methods)]
    pub fn of_number(pid: u32) -> io::Result<ProcessHandle> {
        // SAFETY: plain integers; the answer is an error or a new descriptor that nobody else has.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(ProcessHandle(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// A copy of one of its descriptors. Refused where this process may not trace that one.
    #[expect(clippy::disallowed_methods)]
    pub fn descriptor(&self, number: i32) -> io::Result<OwnedFd> {
        // SAFETY: plain integers; the answer is an error or a new descriptor that nobody else has.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, self.0.as_raw_fd(), number, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    /// Waits for its end, so long at most; whether it has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        let mut polled = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        matches!(poll(&mut polled, timeout), Ok(count) if count > 0)
    }
}

impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Start time of a process in clock ticks since boot; none if there is no such process.
pub fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = &stat[stat.rfind(')')? + 2..];
    after_name.split(' ').nth(19)?.parse().ok()
}

/// Whether a process is stopped, by a signal or a debugger; of a freezer its state does not tell.
pub fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|fields| fields.starts_with(['T', 't']))
}

/// Whether a process has ended with all its threads, and only waits for somebody to ask for its exit status.
pub fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let mut fields = stat.rsplit(") ").next().unwrap_or("").split(' ');
    let (state, threads) = (fields.next(), fields.nth(16).and_then(|count| count.parse::<u32>().ok()));
    state == Some("Z") && threads.is_none_or(|count| count <= 1)
}

/// The kernel's boot id.
pub fn boot_id() -> io::Result<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
        let pair = std::str::from_utf8(pair).unwrap_or("0");
        *byte = u8::from_str_radix(pair, 16).unwrap_or(0);
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_start_time_and_a_dead_one_has_none() {
        assert!(start_time(std::process::id()).is_some());
        assert_eq!(start_time(u32::MAX), None);
    }

    #[test]
    fn the_kernel_says_which_boot_this_is() {
        assert_ne!(boot_id().unwrap(), [0; 16]);
    }

    #[test]
    fn the_end_of_a_process_is_noticed_and_another_of_its_number_is_not_taken_for_it() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let started = start_time(child.id()).unwrap();
        assert!(ProcessHandle::open(child.id(), started + 1).is_none());
        let handle = ProcessHandle::open(child.id(), started).unwrap();
        assert!(!handle.wait(Duration::ZERO));
        child.kill().unwrap();
        assert!(handle.wait(Duration::from_secs(60)));
        child.wait().unwrap();
        assert!(ProcessHandle::open(child.id(), started).is_none());
    }
}
