//! How long segments and their heads are (section II-B), from what was measured of a disk and its flash.

use crate::calibration::transfer::KNEE_SHARE;
use crate::units::{KIB, MIB};
use crate::volume::layout::{BLOCK_BYTES, HEAD_BLOCKS_MAX};

/// No head is longer.
pub const HEAD_BYTES_MAX: u64 = HEAD_BLOCKS_MAX as u64 * BLOCK_BYTES;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// t: four fifths of small reads at random are no slower.
    pub positioning_p80_s: f64,
    /// Their mean.
    pub positioning_mean_s: f64,
    /// B: the disk's rate in order.
    pub disk_bytes_per_s: f64,
    /// The rate of flash, reads of a head's length.
    pub flash_bytes_per_s: f64,
}

/// Lengths of a segment and of its head, which is a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Bytes of a head.
    pub head_bytes: u64,
}

impl Sizes {
    /// The paper's: 1 MiB of 5 MiB.
    pub const PAPER: Sizes = Sizes { segment_bytes: 5 * MIB, head_bytes: MIB };

    /// Whether a head is at least a block, fits into a record and leaves something of its segment.
    pub fn are_sound(&self) -> bool {
        (BLOCK_BYTES..=HEAD_BYTES_MAX).contains(&self.head_bytes) && self.head_bytes < self.segment_bytes
    }

    /// Head: B t, up to the next 256 KiB. Body: the length of random reads that have 85 % of B, up to the next MiB.
    pub fn fit(probe: &Probe) -> Sizes {
        let up = |bytes: f64, unit: u64| (bytes / unit as f64).ceil().max(1.0) as u64 * unit;
        let head_bytes = up(probe.disk_bytes_per_s * probe.positioning_p80_s, 256 * KIB);
        let knee = KNEE_SHARE / (1.0 - KNEE_SHARE) * probe.positioning_mean_s * probe.disk_bytes_per_s;
        let longest = HEAD_BYTES_MAX / (256 * KIB) * (256 * KIB);
        let head_bytes = head_bytes.min(longest);
        Sizes { segment_bytes: head_bytes + up(knee, MIB), head_bytes }
    }

    /// Whether flash brings a head before the disk is at the body.
    pub fn hide_positioning(&self, probe: &Probe) -> bool {
        self.head_bytes as f64 / probe.flash_bytes_per_s <= probe.positioning_p80_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_disk_has_the_papers_sizes_and_a_modern_one_segments_of_14_mb() {
        let paper = Probe {
            positioning_p80_s: 0.012,
            positioning_mean_s: 0.0095,
            disk_bytes_per_s: 70e6,
            flash_bytes_per_s: 125e6,
        };
        assert_eq!(Sizes::fit(&paper), Sizes::PAPER);
        assert!(Sizes::PAPER.hide_positioning(&paper));
        let modern = Probe {
            positioning_p80_s: 0.0115,
            positioning_mean_s: 0.008,
            disk_bytes_per_s: 285e6,
            flash_bytes_per_s: 2.5e9,
        };
        let sizes = Sizes::fit(&modern);
        assert_eq!((sizes.head_bytes, sizes.segment_bytes), (13 * 256 * KIB, 13 * MIB + 13 * 256 * KIB));
    }
}
