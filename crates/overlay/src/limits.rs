//! What no request exceeds.

/// No call of the kernel moves more at once: whoever asks for more flash gets none, and a hint that says more is none.
pub(crate) const REQUEST_BYTES_MAX: u64 = 1 << 31;
/// No file is longer.
pub(crate) const FILE_BYTES_MAX: u64 = i64::MAX as u64;
