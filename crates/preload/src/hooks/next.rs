//! The definition of a function that stands behind ours: what the program would call if the library were not there.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::hooks::objects;

/// The next definition of a symbol after ours.
pub(crate) struct Symbol(AtomicPtr<c_void>);

impl Symbol {
    /// One nobody has asked for.
    pub(crate) const fn unknown() -> Symbol {
        Symbol(AtomicPtr::new(ptr::null_mut()))
    }

    /// Its address, looked for once.
    #[inline]
    pub(crate) fn address(&self, name: &CStr) -> *mut c_void {
        let known = self.0.load(Ordering::Relaxed);
        if known.is_null() { self.find(name) } else { known }
    }

    #[cold]
    fn find(&self, name: &CStr) -> *mut c_void {
        let mut found = objects::dlsym_real(libc::RTLD_NEXT, name);
        // A library that the program itself loaded is not in the chain.
        for library in [c"libaio.so.1", c"liburing.so.2"] {
            if found.is_null() {
                // SAFETY: the string ends with NUL; a library that is not loaded yet stays so.
                let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
                found = if handle.is_null() { handle } else { objects::dlsym_real(handle, name) };
            }
        }
        assert!(!found.is_null(), "nothing loaded has {name:?}, and nobody can have called it");
        self.0.store(found, Ordering::Relaxed);
        found
    }
}

/// Whether what comes after our `open` and its kin is libc's: no other library in the chain sees a file
/// opened in their stead.
pub(crate) fn opens_by_libc() -> bool {
    let libc = library_of(libc::gnu_get_libc_version as *const c_void);
    [c"open", c"open64", c"openat", c"openat64"].iter().all(|name| {
        let next = objects::dlsym_real(libc::RTLD_NEXT, name);
        libc.is_some() && library_of(next) == libc
    })
}

/// Where the library begins that an address lies in.
fn library_of(address: *const c_void) -> Option<usize> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked for; what is found is written where there is room for it.
    let known = unsafe { libc::dladdr(address, found.as_mut_ptr()) } != 0;
    // SAFETY: all zeroes, or what was found.
    known.then(|| unsafe { found.assume_init() }.dli_fbase.addr())
}

/// Makes functions that call the next definition: for callers that are not hooks.
macro_rules! real {
    ($name:ident ($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {
        /// The next definition in the chain.
        ///
        /// # Safety
        /// As libc's.
        #[inline]
        pub(crate) unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
            static SYMBOL: $crate::hooks::next::Symbol = $crate::hooks::next::Symbol::unknown();
            const NAME: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes(),
            ) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            };
            type Function = unsafe extern "C-unwind" fn($($type),*) $(-> $result)?;
            // SAFETY: the symbol is libc's function of this name, which takes these arguments. (Variadic ones are
            // called alike on the machines supported.)
            let function = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(SYMBOL.address(NAME)) };
            // SAFETY: the caller's contract.
            unsafe { function($($argument),*) }
        }
    };
}

pub(crate) use real;
