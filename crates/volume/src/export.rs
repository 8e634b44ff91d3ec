//! Ways to the bytes of a volume for others than us. An export translates requests and decides nothing.
//!
//! NBD is the plugin of nbdkit in `crates/nbdkit`; a file that `losetup` turns into a disk is here.

pub mod ending;
pub mod file;
pub mod opening;
pub mod progress;
pub mod service;
