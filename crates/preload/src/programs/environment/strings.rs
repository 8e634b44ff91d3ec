//! Environments and lists of arguments as C has them: strings up to a null pointer.

use std::ffi::CStr;

use libc::c_char;

/// An environment or a list of arguments.
pub(crate) type Strings = *const *const c_char;

unsafe extern "C" {
    /// libc's, or the program's copy of it.
    static environ: Strings;
}

/// The environment as libc has it now.
pub(crate) fn current() -> Strings {
    // SAFETY: a pointer is read whole; a program that changes it meanwhile has the same race with every exec
    // of its own.
    unsafe { (&raw const environ).read_volatile() }
}

/// The strings of a list that ends with null.
///
/// # Safety
/// `strings` is null or such a list, which lasts as long as is asked for.
pub(crate) unsafe fn each<'a>(strings: Strings) -> impl Iterator<Item = &'a CStr> + Clone {
    let at = move |k: usize| {
        // SAFETY: the caller's contract; the one that is null was not passed.
        let string = if strings.is_null() { std::ptr::null() } else { unsafe { *strings.add(k) } };
        // SAFETY: the caller's contract.
        (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) })
    };
    (0..).map_while(at)
}

/// The value, if the string assigns one to the name.
pub(crate) fn assigned<'a>(string: &'a CStr, name: &str) -> Option<&'a [u8]> {
    string.to_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// What a variable has now; to be looked at before the program can change it.
pub(crate) fn value<'a>(name: &str) -> Option<&'a [u8]> {
    // SAFETY: libc's list.
    unsafe { each(current()) }.find_map(|string| assigned(string, name))
}
