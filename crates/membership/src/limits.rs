//! What a register takes.

/// The format that this program writes, and the only one that it reads.
pub const FORMAT: u32 = 1;

/// Longest value: etcd takes requests of 1.5 MiB.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
