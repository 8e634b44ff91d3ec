//! `errno` values the overlay answers with.

/// Input or output error: bytes would be lost otherwise.
pub const EIO: i32 = 5;
/// Too many open files in the system.
pub const ENFILE: i32 = 23;
/// The message broke the protocol.
pub const EPROTO: i32 = 71;
/// What is asked for is in use, and stays so.
pub const EBUSY: i32 = 16;
/// The file was changed behind our back while newer bytes wait on flash.
pub const ESTALE: i32 = 116;
