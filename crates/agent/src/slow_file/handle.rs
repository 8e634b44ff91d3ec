//! The one descriptor the agent has of a slow file: for reading, and for writing too while there may be
//! something to write.
//!
//! A file that anybody has open for writing cannot be executed (ETXTBSY), and somebody who executes a program
//! just built does not know of the agent. One descriptor is enough because it is exchanged only where nothing
//! rests on the old one:
//!
//! - **For one that writes**, when a process opens the file for writing, or before a write-back. The kernel
//!   tells a descriptor of failures to write since it was opened, and of older ones that nobody was told of;
//!   what the old descriptor alone would have been told of is older than a sync that succeeded, or was
//!   written by a stranger.
//! - **For one that reads**, after a barrier synced the file through the one that writes, if nobody has had
//!   it open for writing and no write-back has been under way since before that sync, and nothing waits on
//!   flash. So the mode may change while bytes wait or a writer is there, and a file system that syncs only
//!   through descriptors that write (some do, behind FUSE) is asked through one.
//!
//! It is opened by way of `/proc/self/fd`: the file may have another name by now, or none. Where that fails
//! the old one stays.

use std::fmt::{Debug, Formatter};
use std::io;
use std::sync::{Arc, Mutex, Weak};

use crate::storage::{File, FileRef};

/// See the module.
pub(crate) struct Handle {
    current: Mutex<Current>,
}

struct Current {
    file: FileRef,
    /// The descriptor for writing that was given up last: a thread may still use it.
    leaving: Option<Weak<dyn File>>,
}

impl Debug for Handle {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.file().fmt(f)
    }
}

impl Handle {
    /// A file just opened.
    pub(crate) fn new(file: FileRef) -> Handle {
        Handle { current: Mutex::new(Current { file, leaving: None }) }
    }

    /// The file as it is open now; not to be kept.
    pub(crate) fn file(&self) -> FileRef {
        self.current.lock().expect("no thread panics with the lock").file.clone()
    }

    /// Opens it for writing, too; `other` opens it in another way.
    pub(crate) fn make_writable(&self, other: impl FnOnce() -> Option<FileRef>) -> io::Result<()> {
        let file = self.file();
        if !file.is_writable() {
            let held = |error| other().filter(|file| file.is_writable()).ok_or(error);
            self.replace(file.reopen(true).or_else(held)?);
        }
        Ok(())
    }

    /// Keeps it open for reading alone.
    pub(crate) fn make_readable(&self) -> io::Result<()> {
        let file = self.file();
        if file.is_writable() {
            self.replace(file.reopen(false)?);
        }
        Ok(())
    }

    fn replace(&self, file: FileRef) {
        let mut current = self.current.lock().expect("no thread panics with the lock");
        let old = std::mem::replace(&mut current.file, file);
        current.leaving = old.is_writable().then(|| Arc::downgrade(&old));
    }

    /// Whether no descriptor for writing is left.
    pub(crate) fn is_released(&self) -> bool {
        let current = self.current.lock().expect("no thread panics with the lock");
        let gone = current.leaving.as_ref().is_none_or(|leaving| leaving.strong_count() == 0);
        gone && !current.file.is_writable()
    }
}
