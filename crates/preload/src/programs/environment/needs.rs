//! What one program needs in its environment besides, by its file.

use headstart_program::image;
use libc::c_int;

use crate::kernel;

/// What a program needs besides, by its file.
pub(crate) struct Needs {
    /// A sanitizer's runtime before the library: its name, and how long that is.
    first: ([u8; 64], usize),
    /// The library is not to be named: a program with another libc would not start.
    pub no_library: bool,
}

impl Default for Needs {
    fn default() -> Needs {
        Needs { first: ([0; 64], 0), no_library: false }
    }
}

impl Needs {
    /// Finds the sanitizer's runtime in the program that begins with `head` and that `fd` reads.
    pub(crate) fn find_sanitizer(&mut self, head: &[u8], fd: c_int) {
        let read = |offset: u64, to: &mut [u8]| {
            let to = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
            // SAFETY: the element is memory that may be written.
            unsafe { kernel::read_at(fd, &[to], offset) }.unwrap_or(0)
        };
        self.first.1 = image::sanitizer(head, &mut self.first.0, read).map_or(0, <[u8]>::len);
    }

    pub(crate) fn first(&self) -> Option<&[u8]> {
        (self.first.1 > 0).then(|| &self.first.0[..self.first.1])
    }
}
