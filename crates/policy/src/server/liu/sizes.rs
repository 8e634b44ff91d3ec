//! How long segments and their heads are (section II-B), from what was measured of a disk and its flash.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cost::DISK_S_MIN;
use crate::cost::KNEE_SHARE;
use crate::server::segments::HEAD_BLOCKS_MAX;
use headstart_units::BLOCK_BYTES;
use headstart_units::{KIB, MIB};

/// No head is longer.
pub const HEAD_BYTES_MAX: u64 = HEAD_BLOCKS_MAX as u64 * BLOCK_BYTES;

/// The part of a disk that is measured, from its begin (Fig. 2: of two, the authors chose the larger).
pub const PROBED_BYTES: u64 = 10_000_000_000;
/// Length of reads at random (the paper's are of one byte).
pub const PROBE_READ_BYTES: u64 = BLOCK_BYTES;
/// Bytes read in order, of the disk and of flash, a MiB at a time.
pub const PROBE_SEQUENTIAL_BYTES: u64 = 64 * MIB;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// t: four fifths of small reads at random are no slower.
    pub positioning_p80_s: f64,
    /// Their mean, see [`usual_s`].
    pub positioning_mean_s: f64,
    /// B: the disk's rate in order.
    pub disk_bytes_per_s: f64,
    /// The rate of flash, reads of a MiB; none if that is not known.
    pub flash_bytes_per_s: Option<f64>,
}

impl Probe {
    /// Of a disk alone: how long each of its reads at random took, and its rate in order.
    ///
    /// # Panics
    /// If there are no reads.
    pub fn of_disk(mut random_s: Vec<f64>, bytes_per_s: f64) -> Probe {
        let positioning_mean_s = usual_s(&mut random_s);
        Probe {
            positioning_p80_s: random_s[random_s.len() * 4 / 5],
            positioning_mean_s,
            disk_bytes_per_s: bytes_per_s,
            flash_bytes_per_s: None,
        }
    }

    /// Whether what was measured has an arm and a spindle: flash and memory have no positioning to hide.
    pub fn is_of_a_disk(&self) -> bool {
        self.positioning_mean_s >= DISK_S_MIN
    }
}

/// The mean without the shortest and the longest twentieth, so that what else the device or the machine had
/// to do meanwhile does not count; sorts.
///
/// # Panics
/// If there are none.
pub fn usual_s(seconds: &mut [f64]) -> f64 {
    assert!(!seconds.is_empty(), "some reads were measured");
    seconds.sort_by(f64::total_cmp);
    let cut = seconds.len() / 20;
    let kept = &seconds[cut..seconds.len() - cut];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// Where a volume's sizes come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Not kept: the volume has no heads, or another version created it.
    #[default]
    Unknown,
    /// The user named them.
    Given,
    /// The paper's, since there was no disk to measure.
    Paper,
    /// A model of the disk was measured.
    Model,
    /// The disk was measured.
    Disk,
}

impl Origin {
    const ALL: [Origin; 5] = [Origin::Unknown, Origin::Given, Origin::Paper, Origin::Model, Origin::Disk];

    /// As superblocks have it.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Of that number; nothing depends on one that is not known here.
    pub fn of_number(number: u32) -> Origin {
        Origin::ALL.into_iter().find(|origin| origin.number() == number).unwrap_or_default()
    }
}

/// Where a volume's sizes come from, as its superblock keeps it. Zero: not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Basis {
    /// From what.
    pub origin: Origin,
    /// See [`Probe`].
    pub positioning_p80_us: u32,
    /// See [`Probe`].
    pub positioning_mean_us: u32,
    /// See [`Probe`].
    pub disk_bytes_per_s: u64,
    /// See [`Probe`].
    pub flash_bytes_per_s: u64,
}

impl Basis {
    /// Figures, rounded.
    pub fn of(origin: Origin, probe: &Probe) -> Basis {
        let us = |seconds: f64| (seconds * 1e6).round() as u32;
        Basis {
            origin,
            positioning_p80_us: us(probe.positioning_p80_s),
            positioning_mean_us: us(probe.positioning_mean_s),
            disk_bytes_per_s: probe.disk_bytes_per_s.round() as u64,
            flash_bytes_per_s: probe.flash_bytes_per_s.unwrap_or(0.0).round() as u64,
        }
    }
}

impl From<Origin> for Basis {
    fn from(origin: Origin) -> Basis {
        Basis { origin, ..Basis::default() }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.origin {
            Origin::Unknown => return f.write_str("not kept"),
            Origin::Given => return f.write_str("as given"),
            Origin::Paper => return f.write_str("the paper's; the disk was not measured"),
            Origin::Model => "from the disk's model",
            Origin::Disk => "measured on the disk",
        };
        let ms = |us: u32| f64::from(us) / 1e3;
        let mb_s = |bytes_per_s: u64| bytes_per_s as f64 / 1e6;
        write!(
            f,
            "{what}: four fifths of random reads within {:.1} ms, {:.1} ms on average, {:.1} MB/s in order",
            ms(self.positioning_p80_us),
            ms(self.positioning_mean_us),
            mb_s(self.disk_bytes_per_s)
        )?;
        match self.flash_bytes_per_s {
            0 => Ok(()),
            bytes_per_s => write!(f, "; flash {:.1} MB/s", mb_s(bytes_per_s)),
        }
    }
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

    /// Whether flash brings a head before the disk is at the body, as far as is known.
    pub fn hide_positioning(&self, probe: &Probe) -> bool {
        probe.flash_bytes_per_s.is_none_or(|rate| self.head_bytes as f64 / rate <= probe.positioning_p80_s)
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
            flash_bytes_per_s: Some(125e6),
        };
        assert_eq!(Sizes::fit(&paper), Sizes::PAPER);
        assert!(Sizes::PAPER.hide_positioning(&paper));
        let modern = Probe {
            positioning_p80_s: 0.0115,
            positioning_mean_s: 0.008,
            disk_bytes_per_s: 285e6,
            flash_bytes_per_s: Some(2.5e9),
        };
        let sizes = Sizes::fit(&modern);
        assert_eq!((sizes.head_bytes, sizes.segment_bytes), (13 * 256 * KIB, 13 * MIB + 13 * 256 * KIB));
    }

    #[test]
    fn four_fifths_of_the_reads_are_no_slower_than_p80_and_memory_is_no_disk() {
        let probe = Probe::of_disk((1..=100).rev().map(|ms| f64::from(ms) / 1e3).collect(), 70e6);
        assert!((probe.positioning_p80_s - 0.081).abs() < 1e-12, "{probe:?}");
        assert!((probe.positioning_mean_s - 0.0505).abs() < 1e-12, "{probe:?}");
        assert!(probe.is_of_a_disk() && Sizes::PAPER.hide_positioning(&probe));
        assert!(!Probe::of_disk(vec![2e-6; 9], 5e9).is_of_a_disk());
        let slow = Probe { flash_bytes_per_s: Some(5e6), ..probe };
        assert!(!Sizes::PAPER.hide_positioning(&slow), "a MiB in 210 ms");
    }

    #[test]
    fn a_few_reads_that_waited_for_something_else_do_not_count() {
        let calm = Probe::of_disk((0..300).map(|read| 0.005 + f64::from(read) * 3e-5).collect(), 70e6);
        let waited = (0..300).map(|read| if read % 30 == 7 { 2.0 } else { 0.005 + f64::from(read) * 3e-5 });
        assert_eq!(Sizes::fit(&Probe::of_disk(waited.collect(), 70e6)), Sizes::fit(&calm));
    }

    #[test]
    fn a_basis_says_what_was_measured() {
        let mut probe = Probe::of_disk(vec![0.012; 5], 70e6);
        probe.flash_bytes_per_s = Some(125e6);
        let text = Basis::of(Origin::Disk, &probe).to_string();
        let figures =
            "four fifths of random reads within 12.0 ms, 12.0 ms on average, 70.0 MB/s in order; flash 125.0 MB/s";
        assert_eq!(text, format!("measured on the disk: {figures}"));
        assert_eq!(Basis::from(Origin::Given).to_string(), "as given");
        for origin in Origin::ALL {
            assert_eq!(Origin::of_number(origin.number()), origin);
        }
        assert_eq!(Origin::of_number(99), Origin::Unknown);
    }
}
