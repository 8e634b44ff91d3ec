//! `dlsym` and `dlvsym`: whoever looks for one of libc's functions in libc itself gets the hook in its place,
//! as one who is linked with it does.
//!
//! A look-up from here on (RTLD_NEXT) or by the usual order (RTLD_DEFAULT) goes by who asks, so that it is
//! left to libc with the program's return address; the hooks stand in that order anyway. A library that
//! defines the function itself stands in front of libc's, or behind the hook: it means libc's, and would call
//! itself without end if it got the hook.

use std::ffi::{CStr, c_void};
use std::ptr;

use libc::{c_char, c_int};

use crate::hooks::objects::{Dlvsym, Walk, dlsym_address, dlsym_real, dlvsym_address, is_ours, parts, real_dlsym};
use crate::start;

unsafe extern "C" fn in_ours(object: *mut libc::dl_phdr_info, _size: usize, walk: *mut c_void) -> c_int {
    // SAFETY: as `Walk::all` calls it.
    let (object, walk) = unsafe { parts(object, walk) };
    if !is_ours(&object) {
        return 0;
    }
    walk.found = object.defines(walk.name).unwrap_or(ptr::null_mut());
    1
}

/// What the object that has an address defines, and whether it is a file whose functions are hooked.
unsafe extern "C" fn at_address(object: *mut libc::dl_phdr_info, _size: usize, walk: *mut c_void) -> c_int {
    // SAFETY: as `Walk::all` calls it.
    let (object, walk) = unsafe { parts(object, walk) };
    if !object.holds(walk.address) {
        return 0;
    }
    walk.found = object.defines(walk.name).unwrap_or(ptr::null_mut());
    walk.named = object.is_hooked();
    1
}

/// What a look-up that found `found` returns to `caller`.
fn seen(found: *mut c_void, name: &CStr, caller: usize) -> *mut c_void {
    if found.is_null() || !start::active() {
        return found;
    }
    let walk = |address, visit| {
        let mut walk = Walk { own: false, name, address, found: ptr::null_mut(), named: false };
        walk.all(visit);
        walk
    };
    let ours = walk(0, in_ours).found;
    if ours.is_null() || ours == found || !walk(found.addr(), at_address).named {
        return found;
    }
    if walk(caller, at_address).found.is_null() { ours } else { found }
}

unsafe extern "C" fn dlsym_seen(handle: *mut c_void, name: *const c_char, caller: usize) -> *mut c_void {
    // SAFETY: the program's own arguments.
    let found = unsafe { real_dlsym()(handle, name) };
    // SAFETY: a name that was found is a string.
    if found.is_null() { found } else { seen(found, unsafe { CStr::from_ptr(name) }, caller) }
}

unsafe extern "C" fn dlvsym_seen(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
    caller: usize,
) -> *mut c_void {
    // SAFETY: what is called `dlvsym` takes and returns this; the arguments are the program's own.
    let found = unsafe { std::mem::transmute::<*mut c_void, Dlvsym>(dlvsym_address())(handle, name, version) };
    if found.is_null() {
        return found;
    }
    // SAFETY: a name that was found is a string.
    let name = unsafe { CStr::from_ptr(name) };
    // The hooks are what the newest version does.
    if dlsym_real(handle, name) == found { seen(found, name, caller) } else { found }
}

/// A look-up that goes by who asks goes on with the program's return address; another is looked at.
#[cfg(target_arch = "x86_64")]
macro_rules! look_up {
    ($name:ident, $address:path, $seen:path, $caller:literal) => {
        #[doc = "Takes the place of libc's."]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                // RTLD_NEXT is -1, RTLD_DEFAULT 0.
                "lea rax, [rdi + 1]",
                "cmp rax, 1",
                "jbe 2f",
                concat!("mov ", $caller, ", [rsp]"),
                "jmp {seen}",
                "2:",
                "push rdi",
                "push rsi",
                "push rdx",
                "call {address}",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp rax",
                seen = sym $seen,
                address = sym $address,
            )
        }
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! look_up {
    ($name:ident, $address:path, $seen:path, $caller:literal) => {
        #[doc = "Takes the place of libc's."]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                // RTLD_NEXT is -1, RTLD_DEFAULT 0.
                "add x9, x0, #1",
                "cmp x9, #1",
                "b.ls 2f",
                concat!("mov ", $caller, ", x30"),
                "b {seen}",
                "2:",
                "stp x29, x30, [sp, #-48]!",
                "stp x0, x1, [sp, #16]",
                "str x2, [sp, #32]",
                "bl {address}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldr x2, [sp, #32]",
                "ldp x29, x30, [sp], #48",
                "br x16",
                seen = sym $seen,
                address = sym $address,
            )
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod hooks {
    look_up!(dlsym, super::dlsym_address, super::dlsym_seen, "rdx");
    look_up!(dlvsym, super::dlvsym_address, super::dlvsym_seen, "rcx");
}

#[cfg(target_arch = "aarch64")]
mod hooks {
    look_up!(dlsym, super::dlsym_address, super::dlsym_seen, "x2");
    look_up!(dlvsym, super::dlvsym_address, super::dlvsym_seen, "x3");
}
