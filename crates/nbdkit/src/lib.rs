//! A volume over NBD: a plugin of nbdkit, which speaks the protocol, TLS and its filters.
//!
//! ```text
//! nbdkit's threads, one a connection: pread, pwrite, zero, ... --Block::call--> the volume's event loop, same process
//! ```
//!
//! | nbdkit calls | here |
//! |---|---|
//! | `config`, `config_complete` | parameters are read and checked |
//! | `after_fork` | the volume is opened and served: its threads would not survive the fork |
//! | `cleanup`, `unload` | no request comes any more: it is drained, unless told to keep, and released |
//!
//! All connections see one disk, and a FLUSH on any of them covers the completed writes of all: clients may use several
//! (`can_multi_conn`). FUA is the volume's own. Extents are not offered: to a client every byte of a disk is data.

mod api;
mod parameters;
mod serving;

use std::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;

use api::{Handle, Plugin};
use headstart_units::request::Range;
use headstart_volume::block::{Block, Buffer, Request};
use parameters::Parameters;
use serving::serving;

/// Smallest request: a sector.
const REQUEST_BYTES_MIN: u32 = 512;
/// What clients should align to: a block of the volume, smaller writes read and write a whole one.
const REQUEST_BYTES_PREFERRED: u32 = 4096;
/// Largest request: what clients assume where nothing is said (NBD protocol, "Block size constraints").
const REQUEST_BYTES_MAX: u32 = 32 << 20;

static PARAMETERS: Mutex<Option<Parameters>> = Mutex::new(None);

/// A callback that succeeds or says why it does not.
fn outcome(result: Result<(), String>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(reason) => {
            api::say(&reason);
            -1
        }
    }
}

/// Carries a request out. What fails is logged with its place, and told to the client.
fn request(what: &str, offset: u64, request: Request) -> Result<Buffer, c_int> {
    serving().handle.call(request).map_err(|error| {
        api::say(&format!("{what} at byte {offset}: {error}"));
        api::set_error(error.raw_os_error().unwrap_or(libc::EIO));
        -1
    })
}

unsafe extern "C" fn config(key: *const c_char, value: *const c_char) -> c_int {
    // SAFETY: nbdkit passes two C strings that live until it ends.
    let (key, value) = unsafe { (api::text(key), api::text(value)) };
    let (Some(key), Some(value)) = (key, value) else {
        return outcome(Err("parameters must be UTF-8".into()));
    };
    let mut parameters = PARAMETERS.lock().expect("no panic while holding the lock");
    outcome(parameters.get_or_insert_default().set(key, value))
}

extern "C" fn config_complete() -> c_int {
    let mut parameters = PARAMETERS.lock().expect("no panic while holding the lock");
    outcome(parameters.get_or_insert_default().devices().map(drop))
}

/// Where several threads answer one connection, an nbdkit (1.32 at least) fails an assertion of its own when its
/// client is killed: one of them closes the socket on which another answers, and the volume ends for all. So a
/// connection has one request at a time unless it is asked for.
extern "C" fn thread_model() -> c_int {
    let parameters = PARAMETERS.lock().expect("no panic while holding the lock");
    match parameters.as_ref().is_some_and(|parameters| parameters.is_parallel) {
        true => api::THREAD_MODEL_PARALLEL,
        false => api::THREAD_MODEL_SERIALIZE_REQUESTS,
    }
}

extern "C" fn after_fork() -> c_int {
    let parameters = PARAMETERS.lock().expect("no panic while holding the lock").take();
    outcome(serving::start(parameters.unwrap_or_default()))
}

extern "C" fn end() {
    serving::stop();
}

extern "C" fn open(_read_only: c_int) -> Handle {
    serving::connected();
    // Nothing else is remembered of a connection, but null would mean failure.
    std::ptr::NonNull::<c_void>::dangling().as_ptr()
}

extern "C" fn close(_: Handle) {
    serving::disconnected();
}

extern "C" fn get_size(_: Handle) -> i64 {
    serving().handle.size_bytes() as i64
}

extern "C" fn yes(_: Handle) -> c_int {
    1
}

extern "C" fn can_fua(_: Handle) -> c_int {
    api::FUA_NATIVE
}

/// Asked of the disk, which may not be able to.
extern "C" fn can_trim(_: Handle) -> c_int {
    c_int::from(serving().handle.discards())
}

/// Zeros are a record without payload, where writes go to flash.
extern "C" fn can_fast_zero(_: Handle) -> c_int {
    c_int::from(serving().zeros_are_fast)
}

extern "C" fn can_cache(_: Handle) -> c_int {
    api::CACHE_NONE
}

unsafe extern "C" fn block_size(_: Handle, minimum: *mut u32, preferred: *mut u32, maximum: *mut u32) -> c_int {
    // SAFETY: nbdkit passes three places of its own.
    unsafe {
        *minimum = REQUEST_BYTES_MIN;
        *preferred = REQUEST_BYTES_PREFERRED;
        *maximum = REQUEST_BYTES_MAX;
    }
    0
}

unsafe extern "C" fn pread(_: Handle, buffer: *mut c_void, count: u32, offset: u64, _flags: u32) -> c_int {
    let data = match request("read", offset, Request::Read(Range::new(offset, u64::from(count)))) {
        Ok(data) => data,
        Err(failed) => return failed,
    };
    assert_eq!(data.len(), count as usize, "a read is answered with all its bytes");
    // SAFETY: nbdkit's buffer has room for `count` bytes, and is its own.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), buffer.cast(), data.len()) };
    serving().handle.recycle(data);
    0
}

unsafe extern "C" fn pwrite(_: Handle, buffer: *const c_void, count: u32, offset: u64, flags: u32) -> c_int {
    // SAFETY: nbdkit's buffer holds `count` bytes until this returns.
    let data = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), count as usize) };
    let mut copy = serving().handle.buffer(data.len());
    copy.copy_from_slice(data);
    let write = Request::Write { offset, data: copy, fua: flags & api::FLAG_FUA != 0 };
    request("write", offset, write).map_or_else(|failed| failed, |_| 0)
}

extern "C" fn zero(_: Handle, count: u32, offset: u64, flags: u32) -> c_int {
    let zero = Request::Zero { range: Range::new(offset, u64::from(count)), fua: flags & api::FLAG_FUA != 0 };
    request("zeroing", offset, zero).map_or_else(|failed| failed, |_| 0)
}

extern "C" fn flush(_: Handle, _flags: u32) -> c_int {
    request("flush", 0, Request::Flush).map_or_else(|failed| failed, |_| 0)
}

/// What nbdkit asks for first.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_init() -> *const Plugin {
    // nbdkit keeps it until it ends.
    Box::leak(Box::new(Plugin {
        struct_size: size_of::<Plugin>() as u64,
        api_version: 2,
        thread_model: api::THREAD_MODEL_PARALLEL,
        name: c"headstart".as_ptr(),
        long_name: c"Headstart volume: a disk and a slice of flash".as_ptr(),
        version: concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast(),
        description: c"Serves a volume that `headstart volume create` has made.".as_ptr(),
        load: None,
        unload: Some(end),
        config: Some(config),
        config_complete: Some(config_complete),
        config_help: parameters::HELP.as_ptr(),
        open: Some(open),
        close: Some(close),
        get_size: Some(get_size),
        can_write: Some(yes),
        can_flush: Some(yes),
        // Reads that flash does not hold make the disk seek.
        is_rotational: Some(yes),
        can_trim: Some(can_trim),
        unused_version_1: [None; 5],
        errno_is_preserved: 0,
        dump_plugin: None,
        can_zero: Some(yes),
        can_fua: Some(can_fua),
        pread: Some(pread),
        pwrite: Some(pwrite),
        flush: Some(flush),
        trim: Some(zero),
        zero: Some(zero),
        magic_config_key: std::ptr::null(),
        can_multi_conn: Some(yes),
        unused_extents: [None; 2],
        can_cache: Some(can_cache),
        unused_cache: None,
        thread_model_of_parameters: Some(thread_model),
        can_fast_zero: Some(can_fast_zero),
        unused_preconnect: None,
        get_ready: None,
        after_fork: Some(after_fork),
        unused_exports: [None; 3],
        cleanup: Some(end),
        block_size: Some(block_size),
    }))
}
