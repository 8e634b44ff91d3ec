//! The part of nbdkit's C interface that this plugin uses: version 2, as nbdkit-plugin.h declares it
//! (nbdkit-plugin(3)).
//!
//! The interface is stable: members are only added at the end, and nbdkit goes by `struct_size`. Not by the
//! `nbdkit` crate, whose structure ends before `cleanup` and `block_size`, which this plugin needs.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// What a connection is, where nothing needs to be remembered of it.
pub type Handle = *mut c_void;

type Ask = Option<extern "C" fn(Handle) -> c_int>;
type Change = Option<extern "C" fn(Handle, u32, u64, u32) -> c_int>;
type Step = Option<extern "C" fn() -> c_int>;
type Absent = Option<extern "C" fn()>;

/// `struct nbdkit_plugin`. Members named `unused` are callbacks that this plugin leaves to nbdkit.
#[repr(C)]
pub struct Plugin {
    pub struct_size: u64,
    pub api_version: c_int,
    pub thread_model: c_int,
    pub name: *const c_char,
    pub long_name: *const c_char,
    pub version: *const c_char,
    pub description: *const c_char,
    pub load: Absent,
    pub unload: Option<extern "C" fn()>,
    pub config: Option<unsafe extern "C" fn(*const c_char, *const c_char) -> c_int>,
    pub config_complete: Step,
    pub config_help: *const c_char,
    pub open: Option<extern "C" fn(c_int) -> Handle>,
    pub close: Option<extern "C" fn(Handle)>,
    pub get_size: Option<extern "C" fn(Handle) -> i64>,
    pub can_write: Ask,
    pub can_flush: Ask,
    pub is_rotational: Ask,
    pub can_trim: Ask,
    pub unused_version_1: [Absent; 5],
    pub errno_is_preserved: c_int,
    pub dump_plugin: Absent,
    pub can_zero: Ask,
    pub can_fua: Ask,
    pub pread: Option<unsafe extern "C" fn(Handle, *mut c_void, u32, u64, u32) -> c_int>,
    pub pwrite: Option<unsafe extern "C" fn(Handle, *const c_void, u32, u64, u32) -> c_int>,
    pub flush: Option<extern "C" fn(Handle, u32) -> c_int>,
    pub trim: Change,
    pub zero: Change,
    pub magic_config_key: *const c_char,
    pub can_multi_conn: Ask,
    pub unused_extents: [Absent; 2],
    pub can_cache: Ask,
    pub unused_cache: Absent,
    pub thread_model_of_parameters: Step,
    pub can_fast_zero: Ask,
    pub unused_preconnect: Absent,
    pub get_ready: Step,
    pub after_fork: Step,
    pub unused_exports: [Absent; 3],
    pub cleanup: Option<extern "C" fn()>,
    pub block_size: Option<unsafe extern "C" fn(Handle, *mut u32, *mut u32, *mut u32) -> c_int>,
}

/// `NBDKIT_THREAD_MODEL_SERIALIZE_REQUESTS`: one request of a connection at a time, many connections.
pub const THREAD_MODEL_SERIALIZE_REQUESTS: c_int = 2;
/// `NBDKIT_THREAD_MODEL_PARALLEL`: many requests at once, also of one connection.
pub const THREAD_MODEL_PARALLEL: c_int = 3;
/// `NBDKIT_FUA_NATIVE`: the flag comes with the request.
pub const FUA_NATIVE: c_int = 2;
/// `NBDKIT_CACHE_NONE`: clients are not offered to warm anything.
pub const CACHE_NONE: c_int = 0;
/// `NBDKIT_FLAG_FUA`.
pub const FLAG_FUA: u32 = 1 << 1;

unsafe extern "C" {
    fn nbdkit_set_error(errno: c_int);
    fn nbdkit_error(format: *const c_char, ...);
    fn nbdkit_shutdown();
}

/// What the running callback fails with; it must return -1.
pub fn set_error(errno: i32) {
    // SAFETY: nbdkit stores the number for the calling thread, which is one of its own.
    unsafe { nbdkit_set_error(errno) }
}

/// Says why, where nbdkit's messages go: stderr, or the system's log when it runs in the background.
pub fn say(message: &str) {
    let message = CString::new(message.replace('\0', " ")).expect("zero bytes were replaced");
    // SAFETY: the format takes one string, which lives across the call.
    unsafe { nbdkit_error(c"%s".as_ptr(), message.as_ptr()) }
}

/// Ends nbdkit as SIGTERM would.
pub fn shut_down() {
    // SAFETY: it may be called at any time, from any thread.
    unsafe { nbdkit_shutdown() }
}

/// A string of nbdkit's; nothing where it is not UTF-8.
///
/// # Safety
/// It must be a C string that lives as long as the result is used.
pub unsafe fn text<'a>(string: *const c_char) -> Option<&'a str> {
    // SAFETY: the caller says so.
    unsafe { CStr::from_ptr(string) }.to_str().ok()
}
