//! What wakes the thread that waits for devices: rung by any thread, heard by one.
//!
//! Ringing costs a system call only while that thread sleeps or is about to: it says so with
//! [`Bell::listen`], then looks once more at what others may have left for it, then sleeps.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;

/// The bell.
#[derive(Debug)]
pub struct Bell {
    event: EventFd,
    listening: AtomicBool,
}

impl Bell {
    /// A bell that has not been rung.
    pub fn new() -> io::Result<Bell> {
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Bell { event, listening: AtomicBool::new(false) })
    }

    /// Wakes whoever listens.
    pub fn ring(&self) {
        if self.listening.swap(false, Ordering::SeqCst) {
            // A counter that cannot take one more wakes as well.
            let _ = self.event.write(1);
        }
    }

    /// From now on the bell is heard. The caller looks at what it waits for once more before it sleeps.
    pub fn listen(&self) {
        self.listening.store(true, Ordering::SeqCst);
    }

    /// Awake: nobody needs to ring.
    pub fn wake(&self) {
        self.listening.store(false, Ordering::SeqCst);
    }

    /// Sleeps until it is rung or `timeout` is over.
    pub fn sleep(&self, timeout: Option<Duration>) {
        let mut descriptors = [PollFd::new(self.event.as_fd(), PollFlags::POLLIN)];
        match nix::poll::ppoll(&mut descriptors, timeout.map(TimeSpec::from), None) {
            Ok(_) | Err(Errno::EINTR) => self.clear(),
            Err(error) => panic!("a poll of an eventfd does not fail: {error}"),
        }
    }

    fn clear(&self) {
        // Nothing to read means that it was not rung.
        let _ = self.event.read();
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
