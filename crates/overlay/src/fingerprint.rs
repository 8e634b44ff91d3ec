//! How a slow file looks from outside.

/// What a change behind our back would alter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// `st_size`.
    pub size: u64,
    /// `st_mtime`, nanoseconds since 1970; of an earlier one the two's complement.
    pub modified_ns: u64,
}
