//! How much of what the shared file has room for.

/// Files that can be known at once.
pub const FILES_MAX: usize = 16384;
