//! The Rebuilder's pace (S4D §III-F): how many write-backs may be in flight.
//!
//! | state | limit |
//! |---|---|
//! | draining | all |
//! | dirty above the full mark | all, or what keeps the minimum share of the disks' requests |
//! | active (high mark passed, low mark not yet reached), no program at the disks | all |
//! | active, programs at the disks | none: it yields |
//! | otherwise | none |
//!
//! "All" is many on purpose: address order pays only when a disk can sort a deep queue, and one write-back at a time behind a
//! busy foreground never catches up.

use super::Settings;

/// Where write-back stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Everything is to be written back.
    pub(super) draining: bool,
    /// Between the marks.
    pub(super) active: bool,
    /// Flash was almost full, and the low mark is not yet reached: programs wait for space, not for disks.
    pub(super) pressed: bool,
    /// Address order goes on from here: file, offset.
    pub(super) cursor: (u32, u64),
}

fn share(dirty_bytes: u64, capacity_bytes: u64) -> f64 {
    if capacity_bytes == 0 { 1.0 } else { dirty_bytes as f64 / capacity_bytes as f64 }
}

impl Pace {
    /// Whether anything may be written back now, the programs at the disks aside.
    pub(super) fn is_due(&mut self, settings: &Settings, dirty_bytes: u64, capacity_bytes: u64) -> bool {
        let share = share(dirty_bytes, capacity_bytes);
        self.active = share > settings.dirty_high || (self.active && share > settings.dirty_low);
        self.active || self.draining || share > settings.dirty_full
    }

    /// The number of copies that may be in flight, with `foreground` requests of programs at the disks.
    pub(super) fn limit(
        &mut self,
        settings: &Settings,
        dirty_bytes: u64,
        capacity_bytes: u64,
        foreground: usize,
    ) -> usize {
        let share = share(dirty_bytes, capacity_bytes);
        self.is_due(settings, dirty_bytes, capacity_bytes);
        if self.draining {
            return settings.copies_max;
        }
        self.pressed = share > settings.dirty_full || (self.pressed && share > settings.dirty_high);
        if self.pressed {
            let least = settings.write_back_share_min / (1.0 - settings.write_back_share_min) * foreground as f64;
            return settings.copies_max.max(least.ceil() as usize);
        }
        if self.active && foreground == 0 { settings.copies_max } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_back_starts_at_the_high_mark_stops_at_the_low_and_yields_in_between() {
        let settings = Settings { dirty_high: 0.5, dirty_low: 0.25, dirty_full: 0.9, ..Settings::default() };
        let mut pace = Pace::default();
        let all = settings.copies_max;
        assert_eq!(pace.limit(&settings, 40, 100, 0), 0);
        assert_eq!(pace.limit(&settings, 60, 100, 0), all);
        assert_eq!(pace.limit(&settings, 60, 100, 3), 0, "programs go first");
        assert_eq!(pace.limit(&settings, 40, 100, 0), all, "it goes on to the low mark");
        assert_eq!(pace.limit(&settings, 20, 100, 0), 0);
        assert_eq!(pace.limit(&settings, 95, 100, 16), all, "almost full: it keeps its share");
        pace.draining = true;
        assert_eq!(pace.limit(&settings, 1, 100, 16), all);
    }
}
