//! Which regions gain from flash, most gain per byte first.

use headstart_policy::client::carl::selection::Candidate;
use headstart_units::request::Range;

/// Regions that are named.
pub(crate) const TOP_REGIONS: usize = 50;
/// Steps of the curve of gains.
const GAIN_STEPS: usize = 200;

/// One region and what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionSummary {
    /// Index in [`Advice::files`](super::Advice::files).
    pub file: usize,
    /// Its bytes in the file.
    pub range: Range,
    /// Its gain (CARL eq. 9), seconds; below zero if disks serve it sooner.
    pub gain_s: f64,
    /// Requests to read.
    pub reads: u64,
    /// Requests to write.
    pub writes: u64,
    /// Bytes of both.
    pub bytes: u64,
}

/// The regions of all files.
#[derive(Clone, Debug, Default)]
pub struct Gains {
    /// Most gain per byte first, at most [`TOP_REGIONS`].
    pub regions: Vec<RegionSummary>,
    /// Regions with requests.
    pub touched_regions: u64,
    /// Regions that gain.
    pub gaining_regions: u64,
    /// Gain of all regions that gain, seconds.
    pub gain_s: f64,
    /// Gains by flash they take: bytes and seconds so far, in at most [`GAIN_STEPS`] steps.
    pub gain_steps: Vec<(u64, f64)>,
}

impl Gains {
    /// Of regions in any order.
    pub(crate) fn of(mut regions: Vec<(Candidate, RegionSummary)>) -> Gains {
        regions.sort_unstable_by(|a, b| a.0.rank(&b.0));
        let gaining = regions.iter().take_while(|(candidate, _)| candidate.gain_ns > 0).count();
        let (mut bytes, mut gain_s, mut gain_steps) = (0, 0.0, vec![(0, 0.0)]);
        for (number, (candidate, summary)) in regions[..gaining].iter().enumerate() {
            bytes += candidate.flash_bytes;
            gain_s += summary.gain_s;
            if (number + 1) * GAIN_STEPS / gaining > number * GAIN_STEPS / gaining {
                gain_steps.push((bytes, gain_s));
            }
        }
        Gains {
            touched_regions: regions.len() as u64,
            gaining_regions: gaining as u64,
            gain_s,
            gain_steps,
            regions: regions.into_iter().take(TOP_REGIONS).map(|(_, summary)| summary).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_rank_by_gain_per_byte_and_steps_add_up_to_the_gain_of_those_that_gain() {
        let region = |number: u64, gain_ns: i64, flash_bytes: u64| {
            let (range, gain_s) = (Range::new(number * flash_bytes, flash_bytes), gain_ns as f64 * 1e-9);
            let summary = RegionSummary { file: 0, range, gain_s, reads: 1, writes: 0, bytes: flash_bytes };
            (Candidate { id: (0, number), gain_ns, flash_bytes }, summary)
        };
        let found = Gains::of(vec![region(0, 4000, 8192), region(1, -5, 4096), region(2, 3000, 4096)]);
        assert_eq!(found.gain_steps.iter().map(|(bytes, _)| *bytes).collect::<Vec<_>>(), [0, 4096, 12_288]);
        assert_eq!((found.touched_regions, found.gaining_regions), (3, 2));
        assert!((found.gain_s - 7e-6).abs() < 1e-12 && found.regions[0].gain_s == 3000.0 * 1e-9, "{found:?}");
        let many = Gains::of((0..1000).map(|number| region(number, 10, 4096)).collect());
        assert_eq!((many.regions.len(), many.gain_steps.len()), (TOP_REGIONS, GAIN_STEPS + 1));
    }
}
