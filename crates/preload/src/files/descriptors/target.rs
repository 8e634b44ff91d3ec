//! A managed descriptor as one call sees it.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{Ordering, fence};

use headstart_protocol::shared::{FileEntry, Shared};
use libc::c_int;

use super::descriptions::{DESCRIPTIONS, record_of};
use super::offset::HeldOffset;
use super::table::{CLOSING_MANAGED, MANAGED, TABLE, WANTED};
use crate::files::records::Record;
use crate::kernel::{self, Errno};
use crate::session::uses::Use;

/// What a call comes to when its descriptor means something else than when the call began. It is made again, and the
/// program never sees this.
pub(crate) const CHANGED: Errno = -1;

/// A managed descriptor as one call sees it.
pub(crate) struct Target {
    /// The descriptor, open on the slow file.
    pub fd: c_int,
    /// Index of the file in the shared table.
    pub file: u32,
    /// The file's record.
    pub record: &'static Record,
    entry: u32,
    /// Which of the files that the record stood for it is.
    serial: u32,
    flags: c_int,
    /// Whether the call's use of the number is noted.
    pub noted: bool,
    /// Whether it was seen after the note that the descriptor means this file: then it does until the call ends.
    held: Cell<bool>,
}

impl Target {
    /// Whether the descriptor still means the same file; asked after the request is published, against a `close` at
    /// the same time.
    #[inline]
    pub(crate) fn still_open(&self) -> bool {
        let open = self.means_the_file();
        self.held.set(open && self.noted);
        open
    }

    /// Whether the descriptor means the same file as when the call began, for a call that nobody may have waited for:
    /// asked after the kernel's part of it, so that what came of that is thrown away if it was another file's. The
    /// number may have been closed and given out again, and the agent may have forgotten the file meanwhile and given
    /// its number in the shared file to another: then the record was opened anew.
    #[inline]
    pub(crate) fn means_the_file(&self) -> bool {
        let now = TABLE[self.fd as usize].load(Ordering::Acquire);
        let same = now & !WANTED == self.entry || self.held.get() && now == CLOSING_MANAGED;
        let description = &DESCRIPTIONS[(self.entry - MANAGED) as usize];
        same
            && ptr::eq(record_of(self.entry).1, self.record)
            // Closed and opened again before it was held, the same file may append now.
            && (self.held.get() || description.flags.load(Ordering::Relaxed) == self.flags)
            && self.record.file() == self.file
            && self.record.is_current()
            && self.record.serial() == self.serial
    }

    /// The same for a call that uses the number before a request is published, or without one.
    pub(crate) fn hold(&self) -> Result<(), Errno> {
        fence(Ordering::SeqCst);
        if self.still_open() { Ok(()) } else { Err(CHANGED) }
    }

    /// Before a write: sees to it that the flags are those of now. Another process that has the same open
    /// description may have changed them, if this one forked or is the child of one that has it.
    #[inline]
    pub(crate) fn know_flags(&self) -> Result<(), Errno> {
        if !self.record.is_inherited() {
            return Ok(());
        }
        self.hold()?;
        learn_flags(self.fd, self.entry);
        let flags = DESCRIPTIONS[(self.entry - MANAGED) as usize].flags.load(Ordering::Relaxed);
        if flags == self.flags { Ok(()) } else { Err(CHANGED) }
    }

    /// Keeps other threads from using the description's offset.
    #[inline]
    pub(crate) fn hold_offset(&self) -> Option<HeldOffset> {
        DESCRIPTIONS[(self.entry - MANAGED) as usize].offset.hold()
    }

    /// What the shared table says of the file.
    #[inline]
    pub(crate) fn entry<'s>(&self, shared: &Shared<'s>) -> &'s FileEntry {
        &shared.files[self.file as usize]
    }

    /// Whether it may be read.
    pub(crate) fn readable(&self) -> bool {
        matches!(self.flags & libc::O_ACCMODE, libc::O_RDONLY | libc::O_RDWR)
    }

    /// Whether it may be written.
    pub(crate) fn writable(&self) -> bool {
        can_write(self.flags)
    }

    /// Whether writes go to the end of the file.
    pub(crate) fn appends(&self) -> bool {
        self.flags & libc::O_APPEND != 0
    }

    /// Whether writes are durable when they return.
    pub(crate) fn durable(&self) -> bool {
        self.flags & libc::O_DSYNC != 0
    }

    /// Whether the slow file is read and written past the page cache.
    pub(crate) fn uncached(&self) -> bool {
        self.flags & libc::O_DIRECT != 0
    }
}

pub(crate) fn can_write(flags: c_int) -> bool {
    matches!(flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR)
}

#[inline(always)]
pub(crate) fn target(fd: c_int, entry: u32) -> Target {
    let record = record_of(entry).1;
    let flags = DESCRIPTIONS[(entry - MANAGED) as usize].flags.load(Ordering::Relaxed);
    let (file, serial) = (record.file(), record.serial());
    Target { fd, file, record, entry, serial, flags, noted: false, held: Cell::new(false) }
}

/// Asks for a descriptor's flags, if it still is what its entry says; whoever closes it waits meanwhile.
pub(crate) fn learn_flags(fd: c_int, entry: u32) {
    let _using = Use::begin(fd);
    fence(Ordering::SeqCst);
    if TABLE[fd as usize].load(Ordering::Acquire) & !WANTED == entry
        && let Ok(flags) = kernel::fcntl(fd, libc::F_GETFL, 0)
    {
        DESCRIPTIONS[(entry - MANAGED) as usize].flags.store(flags, Ordering::Release);
    }
}
