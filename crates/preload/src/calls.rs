//! What a hook does on a managed file, one file a subject. Each takes `pass`, the program's call as it stands.
//!
//! ```text
//! data        read, write, seek, sync            transfers   mmap, and copies out of a managed file
//! names       unlink, rename, link               copying     copies into one
//! metadata    stat, times                        ioctls      what ioctl does to data
//! resizing    truncate, fallocate                stdio       streams, by which libc reads and writes unseen
//! aio         POSIX asynchronous I/O             rings       io_uring, Linux aio
//! ```

pub(crate) mod aio;
pub(crate) mod copying;
pub(crate) mod data;
pub(crate) mod ioctls;
pub(crate) mod metadata;
pub(crate) mod names;
pub(crate) mod resizing;
pub(crate) mod rings;
pub(crate) mod stdio;
pub(crate) mod transfers;
