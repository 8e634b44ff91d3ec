//! Units: time in nanoseconds, sizes in bytes, and their text forms.
//!
//! Times are `u64` nanoseconds from an origin the caller chooses; the crate never reads a clock.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A point in time or a duration, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The origin, or no time at all.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than every event.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// `seconds` rounded to the nearest nanosecond; negative values become zero.
    pub fn from_seconds(seconds: f64) -> Nanos {
        Nanos((seconds * 1e9).round().max(0.0) as u64)
    }

    /// `milliseconds` rounded to the nearest nanosecond; negative values become zero.
    pub fn from_millis(milliseconds: f64) -> Nanos {
        Nanos::from_seconds(milliseconds * 1e-3)
    }

    /// This time in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// This time in milliseconds.
    pub fn millis(self) -> f64 {
        self.0 as f64 * 1e-6
    }

    /// `self - earlier`, zero if `earlier` is later.
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl std::ops::AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

/// Bytes in a KiB.
pub const KIB: u64 = 1 << 10;
/// Bytes in a MiB.
pub const MIB: u64 = 1 << 20;
/// Bytes in a GiB.
pub const GIB: u64 = 1 << 30;

/// A size as a user writes it: `4096`, `64KiB`, `8MiB`, `2GB`.
///
/// `KiB`, `MiB`, `GiB`, `TiB` are powers of 1024; `KB`, `MB`, `GB`, `TB` powers of 1000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// Text that is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a size; write a number with an optional unit, such as 4096, 64KiB, 8MiB or 2GB")]
pub struct ParseSizeError(String);

/// No file and no flash is larger: 8 EiB.
const SIZE_MAX: u64 = 1 << 63;

const UNITS: [(&str, u64); 9] = [
    ("KiB", KIB),
    ("MiB", MIB),
    ("GiB", GIB),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

impl FromStr for ByteSize {
    type Err = ParseSizeError;

    fn from_str(text: &str) -> Result<ByteSize, ParseSizeError> {
        let bad = || ParseSizeError(text.to_string());
        let trimmed = text.trim();
        let (digits, factor) = UNITS
            .iter()
            .find_map(|(unit, factor)| trimmed.strip_suffix(unit).map(|rest| (rest.trim_end(), *factor)))
            .unwrap_or((trimmed, 1));
        if let Ok(count) = digits.parse::<u64>() {
            let bytes = count.checked_mul(factor).filter(|bytes| *bytes <= SIZE_MAX);
            return bytes.map(ByteSize).ok_or_else(bad);
        }
        let value: f64 = digits.parse().map_err(|_| bad())?;
        let bytes = value * factor as f64;
        if !(0.0..=SIZE_MAX as f64).contains(&bytes) {
            return Err(bad());
        }
        Ok(ByteSize(bytes.round() as u64))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, factor) in [("TiB", 1u64 << 40), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)] {
            if self.0 >= factor {
                return if self.0.is_multiple_of(factor) {
                    write!(f, "{}{unit}", self.0 / factor)
                } else {
                    write!(f, "{:.1}{unit}", self.0 as f64 / factor as f64)
                };
            }
        }
        write!(f, "{}B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_binary_and_decimal_units() {
        for (text, bytes) in
            [("4096", 4096), ("64KiB", 65536), ("8 MiB", 8 << 20), ("2GB", 2_000_000_000), ("1.5KiB", 1536), ("7B", 7)]
        {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "x", "-1", "1e40", "99999999999TiB", "11111111111000002909", "4 QB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_print_in_the_largest_fitting_unit() {
        assert_eq!(ByteSize(65536).to_string(), "64KiB");
        assert_eq!(ByteSize(1536).to_string(), "1.5KiB");
        assert_eq!(ByteSize(12).to_string(), "12B");
        let largest = ByteSize(SIZE_MAX - 1);
        assert_eq!(largest.to_string().parse(), Ok(ByteSize(SIZE_MAX)), "what is printed is a size");
    }
}
