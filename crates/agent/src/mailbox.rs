//! Completions on their way from worker threads to the event loop.

use std::os::fd::BorrowedFd;
use std::sync::Mutex;

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::{Error, Result};

/// A queue whose descriptor becomes readable when something is in it.
pub(crate) struct Mailbox<T> {
    letters: Mutex<Vec<T>>,
    bell: EventFd,
}

impl<T> Mailbox<T> {
    /// An empty mailbox.
    pub(crate) fn new() -> Result<Mailbox<T>> {
        let bell = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|error| Error::system("create an event descriptor", error))?;
        Ok(Mailbox { letters: Mutex::new(Vec::new()), bell })
    }

    /// Puts one in and wakes the reader.
    pub(crate) fn post(&self, letter: T) {
        let mut letters = self.letters.lock().expect("no thread panics with the lock");
        letters.push(letter);
        if letters.len() == 1 {
            // It fails only if the counter would overflow, and then the reader is awake anyway.
            let _ = self.bell.write(1);
        }
    }

    /// Takes all.
    pub(crate) fn collect(&self) -> Vec<T> {
        let mut letters = self.letters.lock().expect("no thread panics with the lock");
        let _ = self.bell.read();
        std::mem::take(&mut *letters)
    }

    /// The descriptor to wait on.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.bell.as_fd()
    }
}
