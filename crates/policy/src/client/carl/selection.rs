//! The best regions that fit (CARL §III-E: gain positive, and among the top n of those without a place).
//!
//! Regions may differ in size, so they rank by gain per byte of flash; one that does not fit is passed over.
//! With regions of one size that is the paper's top n. With several it may miss the best choice, by less than
//! the gain of one region.

use std::cmp::Ordering;

use crate::cost::region::gain_table::RegionId;

/// A region that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub id: RegionId,
    /// What having it on flash saves, nanoseconds.
    pub gain_ns: i64,
    /// What it takes there.
    pub flash_bytes: u64,
}

impl Candidate {
    /// The order of ranking: more gain per byte first, then by file and number.
    pub fn rank(&self, other: &Candidate) -> Ordering {
        let of = |gain: i64, bytes: u64| i128::from(gain) * i128::from(bytes);
        of(other.gain_ns, self.flash_bytes).cmp(&of(self.gain_ns, other.flash_bytes)).then(self.id.cmp(&other.id))
    }
}

/// The regions that belong on flash, best first: those with a gain, by rank, as they fit into `capacity_bytes`.
pub fn select(mut candidates: Vec<Candidate>, capacity_bytes: u64) -> Vec<RegionId> {
    candidates.retain(|candidate| candidate.gain_ns > 0 && candidate.flash_bytes > 0);
    candidates.sort_unstable_by(Candidate::rank);
    let mut free_bytes = capacity_bytes;
    candidates.retain(|candidate| match free_bytes.checked_sub(candidate.flash_bytes) {
        Some(rest) => {
            free_bytes = rest;
            true
        }
        None => false,
    });
    candidates.into_iter().map(|candidate| candidate.id).collect()
}
