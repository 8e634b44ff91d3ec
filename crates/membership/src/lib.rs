//! What makes nodes members of one cluster: the register that holds their view, the locks that say who is there, and
//! the probe that says whether two nodes may share a directory at all.
//!
//! The view's contents and every decision on them are the crate `cluster`'s: here they are opaque bytes. This crate
//! makes calls on files, sockets and clocks.
//!
//! | module | what it owns |
//! |---|---|
//! | [`register`] | what a register is: linearizable reads, swaps by version |
//! | [`file_register`] | the register in a directory that the nodes share |
//! | [`etcd_register`] | the register in etcd |
//! | [`envelope`] | how a view is stored |
//! | [`service`] | the thread that makes a register's calls for an event loop |
//! | [`presence`] | the locks of one member, and how others see them |
//! | [`holder`] | the process that keeps a node's lock while agents come and go |
//! | [`probe`] | whether two nodes may share a directory |

mod directory;
pub mod envelope;
pub mod error;
pub mod etcd_register;
pub mod file_register;
pub mod holder;
mod limits;
mod lock;
mod packets;
pub mod presence;
pub mod probe;
pub mod register;
pub mod service;

/// Waits until it is so: a process that another test starts has copies of all descriptors until it becomes the program
/// that it is to be.
#[cfg(test)]
fn until(mut is_so: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !is_so() {
        assert!(started.elapsed() < std::time::Duration::from_secs(120), "it does not come to be");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

pub use error::{Error, Result};
pub use etcd_register::{EtcdRegister, EtcdSettings};
pub use file_register::FileRegister;
pub use holder::Holder;
pub use limits::VALUE_BYTES_MAX;
pub use presence::{LockState, Observed, Places, Presence};
pub use register::{Register, Swap, Value, Version, now_ns};
pub use service::{Answer, Service};
