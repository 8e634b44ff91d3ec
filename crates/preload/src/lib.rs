//! libheadstart.so: preloaded into unmodified programs, it decides for every request whether its bytes go to flash or
//! to disk.
//!
//! ```text
//! program -> hook (symbols) -> descriptors -> files -> data path -> slow file, by a system call
//!                                                               \-> data file on flash, by a system call
//!                                                    session: the thread's slot and socket -> agent
//! ```
//!
//! A process that never opens a managed file never speaks to the agent: its calls cost one table look-up.
//!
//! **Invariants.**
//! - A managed file's bytes are read or written in the slow file only with a published slot and clear bits, or under a
//!   lease.
//! - The library calls the kernel itself (`kernel`), so that no hook is entered twice and no slot is left behind by a
//!   cancelled thread. Hooks of unmanaged descriptors call the next library in the chain.
//! - No lock and no allocation in a data call; opening and closing a managed file take one lock (`gate`).
//! - A forked child never uses its parent's sockets or slots (`process`).
//!
//! **What it does not see**: bytes that stdio, `mmap`, io_uring, aio, static binaries or raw system calls move.
//! `fopen`, `fdopen` and `mmap` of a managed file write it back first, so that they read the right bytes; what stdio
//! or a shared mapping *writes* bypasses flash. `_Fork` and a raw `clone` skip the handler that separates a child from
//! its parent. An `O_APPEND` that another process sets on a shared open description is not noticed. A file made with
//! `O_TMPFILE` stays unmanaged in the process that made it. Managed descriptors must be below
//! [`descriptors::DESCRIPTORS_MAX`].

mod buffers;
mod closing;
mod data_calls;
mod data_files;
mod data_path;
mod descriptors;
mod files;
mod gate;
mod kernel;
mod location;
mod metadata;
mod names;
mod opening;
mod process;
mod resizing;
mod session;
mod settings;
mod stdio;
mod symbols;
mod transfers;
