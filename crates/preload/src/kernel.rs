//! System calls as the library itself makes them: past every hook, and never a cancellation point.
//!
//! ```text
//! opened        open, close, fcntl, lseek          packets       sockets to the agent
//! bytes         read, write, sync                  waiting       futexes, sleep, clocks
//! facts         statx, statfs, truncate            identity      process, thread, user, limits
//! buffers       the program's memory of a request  cancellation  of the calling thread
//! raw           the instruction itself             allocator     the library's own memory
//! ```

mod allocator;
pub(crate) mod buffers;
mod bytes;
mod cancellation;
mod errno;
mod facts;
mod identity;
mod opened;
mod packets;
pub(crate) mod raw;
mod waiting;

pub(crate) use bytes::{read, read_at, sync, write, write_at};
pub(crate) use cancellation::{forbid_cancellation, restore_cancellation, uncancelled};
pub(crate) use errno::{Errno, answer, errno, set_errno};
pub(crate) use facts::{Facts, facts, facts_at, file_system, ftruncate, readlink, truncate};
pub(crate) use identity::{boot_id, descriptor_limit, file_size_limit, id_of, process, real_group, real_user, thread};
pub(crate) use opened::{close, close_range, fcntl, lseek, openat, openat_raw};
pub(crate) use packets::{is_hung_up, receive, receive_with, send, send_with, socket_pair, wait_readable};
pub(crate) use waiting::{
    monotonic_coarse_ns, monotonic_ms, monotonic_ns, sleep_ms, unix_coarse_ns, unix_ns, wait, wake, wake_address,
};
