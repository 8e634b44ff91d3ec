//! Variables that an exec, or `headstart run`, sets for one program alone. The program's library removes them
//! before the program begins, so that neither it nor its children see them.

use std::ffi::CStr;

use headstart_program::preloading;
use headstart_protocol::{ENVIRONMENT_ARRIVAL, ENVIRONMENT_FIRST};
use libc::{c_char, c_int};

use super::strings::{Strings, assigned, current, each};
use crate::kernel;

/// Written to whoever waits for the library.
static PRESENT: u8 = b'!';

/// Called once, before all else: takes out of the environment what was put there for this program alone, and
/// tells whoever waits that the library has come up.
pub(crate) fn settle() {
    let strings = current().cast_mut();
    if strings.is_null() {
        return;
    }
    let mut at = strings;
    // SAFETY: the list that the program began with: nobody has changed it yet.
    while let Some(string) = unsafe { string_at(at) } {
        if let Some(descriptor) = assigned(string, ENVIRONMENT_ARRIVAL) {
            arrive(descriptor);
        } else if let Some(first) = assigned(string, ENVIRONMENT_FIRST) {
            // SAFETY: as above.
            unsafe { take_out(strings, first) };
        } else {
            at = at.wrapping_add(1);
            continue;
        }
        let mut from = at;
        // SAFETY: as above; the list ends with null, which is moved as well.
        unsafe {
            while !from.read().is_null() {
                from.write(from.add(1).read());
                from = from.add(1);
            }
        }
    }
}

/// # Safety
/// `at` points to an element of a list of strings.
unsafe fn string_at<'a>(at: *const *const c_char) -> Option<&'a CStr> {
    // SAFETY: the caller's contract.
    let string = unsafe { at.read() };
    // SAFETY: the caller's contract.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) })
}

fn arrive(descriptor: &[u8]) {
    let number = std::str::from_utf8(descriptor).ok().and_then(|text| text.parse::<c_int>().ok());
    if let Some(fd) = number.filter(|fd| *fd > libc::STDERR_FILENO) {
        let byte = libc::iovec { iov_base: (&raw const PRESENT).cast_mut().cast(), iov_len: 1 };
        // SAFETY: the element is a byte that is only read.
        let _ = unsafe { kernel::write(fd, &[byte]) };
        let _ = kernel::close(fd);
    }
}

/// Takes the first library out of LD_PRELOAD, where it lies.
///
/// # Safety
/// `strings` is a list of strings that may be changed.
unsafe fn take_out(strings: Strings, first: &[u8]) {
    // SAFETY: the caller's contract.
    for string in unsafe { each(strings) } {
        let Some(rest) = assigned(string, preloading::VARIABLE).and_then(|list| list.strip_prefix(first)) else {
            continue;
        };
        let from = if rest.first().is_some_and(|byte| b" :".contains(byte)) { &rest[1..] } else { rest };
        let to = string.as_ptr().wrapping_add(preloading::VARIABLE.len() + 1).cast_mut();
        // SAFETY: the end of the string, with its NUL, is moved towards its beginning.
        unsafe { std::ptr::copy(from.as_ptr().cast(), to, from.len() + 1) };
    }
}
