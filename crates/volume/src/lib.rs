//! The server side's runtime: one volume, which is a disk and a slice of flash, served as one block device.
//!
//! ```text
//! exports (NBD plugin, FUSE file)        commands (create, check, inspect, detach)
//!        |  Block: submit(request), done            |  Devices: one operation after the other
//!        v                                          v
//! event loop: core's Engine + policy  <--start-- recovery, guard    owner lock, identities (`device`)
//!        |  Storage: a few verbs, many at once
//!        v
//! io_uring | memory | emulated | faulty
//! ```
//!
//! What is decided lies in `headstart_block`, without I/O; here are files, threads and clocks.

pub mod block;
pub mod control;
pub mod creation;
pub mod detaching;
pub mod device;
pub mod ends;
pub mod event_loop;
pub mod export;
mod guarded_blocks;
mod handle;
pub mod pair;
pub mod probe;
pub mod server;
pub mod settings;
pub mod signatures;
pub mod status;
pub mod storage;
pub mod survey;
pub mod synchronous;
pub mod trace;
