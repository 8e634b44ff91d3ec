//! When extents were last used, to about one part in 32, in one byte each.
//!
//! Uses are counted in *generations*: one lasts as many uses as a 24th of the extents. An extent keeps the
//! number of the generation of its last use, 0 to 174. When the numbers run out all are halved at once (a
//! *fold*): the present becomes 87, and each number is shifted only when it is looked at next, as a [`Stamp`]
//! says at which fold it was written. So order holds to 1/12 of the number of extents for what was used
//! within twice as many uses as there are extents, half as finely for twice as long, and so on.
//!
//! What a disk serves at its sequential rate gains little from flash, however recent. So a use out of
//! sequence counts as one of later: of [`LEAD`] generations from now. A fold may halve that, so that it
//! outlives sequential uses of between one and a half and three times as many extents as there are.
//!
//! Extents of regions that are to stay on flash ([`super::regions`]) have no generation: whatever is used, they stay.
//!
//! The clean extents of each generation are counted, so that the oldest that has any is known; which they
//! are, the extent map finds ([`super::extent_map::ExtentMap::oldest`]).

/// A generation lasts as many uses as this part of the extents.
const GENERATIONS: u64 = 24;
/// How much later a use out of sequence counts; assumed: the time of a disk's random request is some times
/// that of a sequential one.
const LEAD: u8 = 80;
/// The last number of the present.
const NOW_MAX: u8 = KEPT - 1 - LEAD;
/// Instead of a generation: the extent is kept.
const KEPT: u8 = u8::MAX;

/// How a use of an extent follows the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The thread goes through the file.
    Sequential,
    /// It does not.
    Random,
}

impl Access {
    /// Of a use, by whether it is in order.
    pub(crate) fn of(in_order: bool) -> Access {
        if in_order { Access::Sequential } else { Access::Random }
    }
}

/// When an extent was last used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The number of the generation, as of that fold.
    pub(crate) generation: u8,
    /// Folds until it was written.
    pub(crate) folds: u32,
}

impl Stamp {
    /// That of extents which are kept.
    pub(crate) const KEPT: Stamp = Stamp { generation: KEPT, folds: 0 };

    /// Whether the extent is kept, however long ago it was used.
    pub(crate) fn is_kept(self) -> bool {
        self.generation == KEPT
    }

    /// The same as of a later fold.
    pub(crate) fn at(self, folds: u32) -> Stamp {
        if self.is_kept() {
            return Stamp { folds, ..Stamp::KEPT };
        }
        debug_assert!(folds >= self.folds, "a stamp is never older than what it is compared with");
        Stamp { generation: self.generation.checked_shr(folds - self.folds).unwrap_or(0), folds }
    }
}

/// The present, and the clean extents by generation.
#[derive(Clone, Debug)]
pub(crate) struct Recency {
    now: Stamp,
    /// Uses left of this generation.
    left: u64,
    clean: [u64; 256],
    clean_count: u64,
    /// Clean extents that are kept.
    pub(crate) kept_clean: u64,
    /// No generation before this one has clean extents.
    oldest: u8,
}

impl Default for Recency {
    fn default() -> Recency {
        Recency { now: Stamp::default(), left: 1, clean: [0; 256], clean_count: 0, kept_clean: 0, oldest: 0 }
    }
}

impl Recency {
    /// The stamp of a use now, with so many `extents`.
    pub(crate) fn stamp_use(&mut self, extents: u64, access: Access) -> Stamp {
        let lead = if access == Access::Random { LEAD } else { 0 };
        let stamp = Stamp { generation: self.now.generation + lead, ..self.now };
        self.left -= 1;
        if self.left == 0 {
            self.left = (extents / GENERATIONS).max(1);
            if self.now.generation == NOW_MAX {
                self.fold();
            }
            self.now.generation += 1;
        }
        stamp
    }

    /// Whether any clean extent is not kept.
    pub(crate) fn has_clean(&self) -> bool {
        self.clean_count > 0
    }

    /// How many times numbers were halved.
    pub(crate) fn folds(&self) -> u32 {
        self.now.folds
    }

    #[cfg(test)]
    fn now(&self) -> Stamp {
        self.now
    }

    fn fold(&mut self) {
        for generation in 0..128 {
            self.clean[generation] = self.clean[2 * generation] + self.clean[2 * generation + 1];
        }
        self.clean[128..].fill(0);
        self.now = Stamp { generation: NOW_MAX / 2, folds: self.now.folds + 1 };
        self.oldest /= 2;
    }

    /// An extent of this stamp is clean now.
    pub(crate) fn enlist(&mut self, stamp: Stamp) {
        if stamp.is_kept() {
            self.kept_clean += 1;
            return;
        }
        let generation = stamp.at(self.now.folds).generation;
        self.clean[usize::from(generation)] += 1;
        self.clean_count += 1;
        self.oldest = self.oldest.min(generation);
    }

    /// A clean extent of this stamp is no longer that.
    pub(crate) fn delist(&mut self, stamp: Stamp) {
        if stamp.is_kept() {
            self.kept_clean -= 1;
            return;
        }
        self.clean[usize::from(stamp.at(self.now.folds).generation)] -= 1;
        self.clean_count -= 1;
    }

    /// The oldest generation with a clean extent that is not kept.
    pub(crate) fn oldest(&mut self) -> Option<Stamp> {
        if self.clean_count == 0 {
            return None;
        }
        while self.clean[usize::from(self.oldest)] == 0 {
            self.oldest += 1;
        }
        Some(Stamp { generation: self.oldest, folds: self.now.folds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_generation_is_found_again_after_any_number_of_folds() {
        let mut recency = Recency::default();
        let first = recency.stamp_use(1, Access::Sequential);
        recency.enlist(first);
        let mut last = first;
        for _ in 0..10_000 {
            last = recency.stamp_use(1, Access::Sequential);
        }
        recency.enlist(last);
        let oldest = recency.oldest().unwrap();
        assert_eq!(first.at(oldest.folds), oldest);
        recency.delist(first);
        let oldest = recency.oldest().unwrap();
        assert_eq!(last.at(oldest.folds), oldest);
        recency.delist(last);
        assert_eq!(recency.oldest(), None);
    }

    #[test]
    fn order_holds_to_a_12th_of_the_extents_for_twice_as_many_uses() {
        let extents = 6400;
        let mut recency = Recency::default();
        let stamps: Vec<Stamp> = (0..20 * extents).map(|_| recency.stamp_use(extents, Access::Sequential)).collect();
        let now = recency.now();
        let recent = &stamps[18 * extents as usize..];
        for pair in recent.windows(extents as usize / 12 + 1).map(|window| (window[0], window[window.len() - 1])) {
            assert!(pair.0.at(now.folds).generation < pair.1.at(now.folds).generation, "{pair:?}");
        }
    }

    #[test]
    fn a_random_use_outlives_sequential_uses_of_one_and_a_half_times_as_many_extents_and_not_of_four_times() {
        let extents = 6400;
        let recency = Recency::default();
        for start in (0..40 * extents).step_by(extents as usize / 7) {
            let mut recency = recency.clone();
            for _ in 0..start {
                recency.stamp_use(extents, Access::Sequential);
            }
            let random = recency.stamp_use(extents, Access::Random);
            let mut later = (0..4 * extents).map(|_| recency.stamp_use(extents, Access::Sequential));
            let (soon, late) = (later.nth(extents as usize * 3 / 2).unwrap(), later.last().unwrap());
            assert!(random.at(soon.folds).generation > soon.generation, "{start}");
            assert!(random.at(late.folds).generation < late.generation, "{start}");
        }
    }
}
