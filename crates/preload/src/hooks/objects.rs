//! What the loaded objects define: `dlsym` and `dlvsym` behind ours, and walks over the objects.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_char, c_int};

use crate::hooks::loaded::{self, Loaded, Visit};

static DLSYM: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static DLVSYM: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The definition of `dlsym` behind ours.
pub(crate) extern "C" fn dlsym_address() -> *mut c_void {
    next(&DLSYM, c"dlsym")
}

pub(crate) extern "C" fn dlvsym_address() -> *mut c_void {
    next(&DLVSYM, c"dlvsym")
}

fn next(known: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let found = known.load(Ordering::Relaxed);
    if !found.is_null() {
        return found;
    }
    let mut walk = Walk { own: false, name, address: 0, found: ptr::null_mut(), named: false };
    walk.all(behind_ours);
    assert!(!walk.found.is_null(), "nothing loaded has {name:?}");
    known.store(walk.found, Ordering::Relaxed);
    walk.found
}

/// libc's `dlsym`, on behalf of this library.
pub(crate) fn dlsym_real(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: it is `dlsym`, and the name a string.
    unsafe { real_dlsym()(handle, name.as_ptr()) }
}

pub(crate) type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
pub(crate) type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

pub(crate) fn real_dlsym() -> Dlsym {
    // SAFETY: what is called `dlsym` takes and returns this.
    unsafe { std::mem::transmute::<*mut c_void, Dlsym>(dlsym_address()) }
}

/// What the objects that are loaded are asked for, one after the other.
pub(crate) struct Walk<'n> {
    /// Whether this library was passed.
    pub(crate) own: bool,
    pub(crate) name: &'n CStr,
    /// An address that one of them has.
    pub(crate) address: usize,
    pub(crate) found: *mut c_void,
    /// Whether it is a file of [`HOOKED`].
    pub(crate) named: bool,
}

impl Walk<'_> {
    pub(crate) fn all(&mut self, visit: Visit) {
        // SAFETY: `visit` is called during this call alone, with this.
        unsafe { loaded::each(visit, ptr::from_mut(self).cast()) };
    }
}

/// # Safety
/// `walk` is a [`Walk`], `object` describes what is loaded.
pub(crate) unsafe fn parts<'a>(object: *mut libc::dl_phdr_info, walk: *mut c_void) -> (Loaded<'a>, &'a mut Walk<'a>) {
    // SAFETY: the caller's contract.
    unsafe { (Loaded::of(object), &mut *walk.cast()) }
}

pub(crate) fn is_ours(object: &Loaded) -> bool {
    object.holds(dlsym_address as *const () as usize)
}

unsafe extern "C" fn behind_ours(object: *mut libc::dl_phdr_info, _size: usize, walk: *mut c_void) -> c_int {
    // SAFETY: as `Walk::all` calls it.
    let (object, walk) = unsafe { parts(object, walk) };
    if !walk.own {
        walk.own = is_ours(&object);
    } else if let Some(found) = object.defines(walk.name) {
        walk.found = found;
        return 1;
    }
    0
}
