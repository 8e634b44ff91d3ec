//! Ways to the bytes of a volume for others than us. An export translates requests and decides nothing.
//!
//! | | |
//! |---|---|
//! | [`nbd`] | a unix socket on which NBD is spoken |
//! | [`file`](mod@file) | a file that `losetup` turns into a disk |
//! | `crates/nbdkit` | a plugin of nbdkit, for TCP, TLS and filters |

pub mod ending;
pub mod file;
pub mod nbd;
pub mod opening;
pub mod progress;
pub mod service;
