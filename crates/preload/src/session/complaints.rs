//! What the library says to the user: lines on stderr, few in a process.

use std::fmt::{Arguments, Write};
use std::sync::atomic::{AtomicU32, Ordering};

use headstart_protocol::MARK_PREFIX;

use crate::files::descriptors::table;
use crate::kernel;
use crate::settings;

/// Lines one process writes to stderr at most.
const COMPLAINTS_MAX: u32 = 20;

static COMPLAINTS: AtomicU32 = AtomicU32::new(0);

struct Line {
    text: [u8; 512],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let count = text.len().min(self.text.len() - 1 - self.length);
        self.text[self.length..self.length + count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

/// One line on stderr, unless that is a managed file.
#[cold]
#[inline(never)]
pub(crate) fn complain(what: Arguments) {
    if COMPLAINTS.fetch_add(1, Ordering::Relaxed) >= COMPLAINTS_MAX || table::known_managed(libc::STDERR_FILENO) {
        return;
    }
    let mut line = Line { text: [0; 512], length: 0 };
    let _ = write!(line, "headstart: {what}");
    line.text[line.length] = b'\n';
    let element = libc::iovec { iov_base: line.text.as_mut_ptr().cast(), iov_len: line.length + 1 };
    // SAFETY: the element is the line's text.
    let _ = unsafe { kernel::write(libc::STDERR_FILENO, &[element]) };
}

/// Whether nobody said it yet of the program `facts` are of: the first to ask leaves a mark in the runtime directory,
/// which `headstart run` removes when it begins.
pub(crate) fn say_once(facts: &kernel::Facts) -> bool {
    let name = format!("{MARK_PREFIX}{:x}.{:x}", facts.device, facts.inode);
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_CLOEXEC;
    match settings::runtime_path(&name).and_then(|path| kernel::openat(libc::AT_FDCWD, &path, flags, 0o600)) {
        Ok(fd) => kernel::close(fd).is_ok(),
        Err(errno) => errno != libc::EEXIST,
    }
}
