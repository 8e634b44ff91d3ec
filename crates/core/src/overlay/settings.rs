//! What an agent is told once, and how much flash it may use.

use crate::protocol::shared::FILES_MAX;
use crate::request::Range;
use crate::units::ByteSize;

/// What an agent is told once.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How much flash may be used.
    pub capacity: Capacity,
    /// Write-back starts when more than this share of the capacity is dirty.
    pub dirty_high: f64,
    /// and stops when less than this share is.
    pub dirty_low: f64,
    /// Above this dirty share write-back no longer yields to the foreground.
    pub dirty_full: f64,
    /// The least share of the requests at the disks that write-back keeps then.
    pub write_back_share_min: f64,
    /// Copies in flight at once.
    pub copies_max: usize,
    /// Longest write-back, bytes.
    pub write_back_bytes_max: u64,
    /// What write-back leaps over behind a piece shorter than that, bytes: it comes the next time round, when the disk has been elsewhere.
    pub write_back_leap_bytes: u64,
    /// Entries of the critical data table.
    pub critical_max: usize,
    /// Largest slab, bytes.
    pub slab_bytes_max: u64,
    /// Files known at once, if the shared table has as many: each takes descriptors of the runtime.
    pub files_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            capacity: Capacity::Share(0.2),
            dirty_high: 0.2,
            dirty_low: 0.1,
            dirty_full: 0.9,
            write_back_share_min: 0.25,
            copies_max: 256,
            write_back_bytes_max: 1 << 20,
            write_back_leap_bytes: 0,
            critical_max: 65536,
            slab_bytes_max: 256 << 10,
            files_max: FILES_MAX,
        }
    }
}

impl Settings {
    /// Where address order goes on behind what is written back.
    pub(super) fn behind_write_back(&self, range: Range) -> u64 {
        match range.length < self.write_back_leap_bytes {
            true => range.end().saturating_add(self.write_back_leap_bytes),
            false => range.end(),
        }
    }
}

/// How much flash may be used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capacity {
    /// Bytes.
    Bytes(u64),
    /// A share, 0 to 1, of the size of the files known.
    Share(f64),
}

impl std::str::FromStr for Capacity {
    type Err = String;

    fn from_str(text: &str) -> Result<Capacity, String> {
        if let Some(percent) = text.trim().strip_suffix('%') {
            let share: f64 = percent.trim().parse().map_err(|_| format!("'{text}' is not a percentage"))?;
            return if (0.0..=100.0).contains(&share) {
                Ok(Capacity::Share(share / 100.0))
            } else {
                Err(format!("'{text}' is not between 0% and 100%"))
            };
        }
        let bytes = text.parse::<ByteSize>().map_err(|error| format!("{error}, or a share such as 20%"))?.0;
        if (1..=100).contains(&bytes) && text.trim().ends_with(|end: char| end.is_ascii_digit()) {
            return Err(format!(
                "'{text}' would be {bytes} bytes; write {bytes}% for a share, or a size with its unit"
            ));
        }
        Ok(Capacity::Bytes(bytes))
    }
}

impl std::fmt::Display for Capacity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Capacity::Bytes(bytes) => write!(f, "{}", ByteSize(*bytes)),
            Capacity::Share(share) => write!(f, "{}%", share * 100.0),
        }
    }
}
