//! The Rebuilder's pace (S4D §III-F): how many write-backs may be in flight.
//!
//! | state | limit |
//! |---|---|
//! | draining | all |
//! | dirty above the full mark, programs write | all, or what keeps the minimum share of the disks' requests |
//! | active (high mark passed, low mark not yet reached), no program at the disks for a while | all |
//! | active, programs at the disks | none: it yields |
//! | otherwise | none |
//!
//! Whoever writes into full flash waits for space; whoever only reads waits for the disks, and write-back would take them away. A
//! gap between two requests is not idleness: what is started in it stands before the next request.
//!
//! "All" is many on purpose: address order pays only when a disk can sort a deep queue, and one write-back at a time behind a
//! busy foreground never catches up.

use super::Settings;

/// Turns of the overlay (a message, a completion, or a poll about every millisecond) without a write, after which programs count
/// as not writing; assumed: some turns for each of as many ranks as a node has cores.
const TURNS_WITHOUT_WRITE: u32 = 256;
/// Turns without a program at the disks after which these count as idle; assumed: longer than 16 ranks between two requests.
const TURNS_IDLE: u32 = 16;

/// What programs are at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Foreground {
    /// Requests at the disks.
    pub(super) disk_requests: usize,
    /// Whether one of them is a write.
    pub(super) writes_disk: bool,
    /// Writes that asked the agent so far, for space or to be committed.
    pub(super) writes_asked_total: u64,
}

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
    /// Writes that had asked in the turn before.
    writes_asked_total: u64,
    turns_without_write: u32,
    turns_idle: u32,
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

    /// The number of copies that may be in flight, in a turn in which programs are at `foreground`.
    pub(super) fn limit(
        &mut self,
        settings: &Settings,
        dirty_bytes: u64,
        capacity_bytes: u64,
        foreground: Foreground,
    ) -> usize {
        let share = share(dirty_bytes, capacity_bytes);
        self.is_due(settings, dirty_bytes, capacity_bytes);
        self.observe(foreground);
        if self.draining {
            return settings.copies_max;
        }
        self.pressed = share > settings.dirty_full || (self.pressed && share > settings.dirty_high);
        if self.pressed && self.turns_without_write < TURNS_WITHOUT_WRITE {
            let requests = foreground.disk_requests as f64;
            let least = settings.write_back_share_min / (1.0 - settings.write_back_share_min) * requests;
            return settings.copies_max.max(least.ceil() as usize);
        }
        if self.active && self.turns_idle >= TURNS_IDLE { settings.copies_max } else { 0 }
    }

    fn observe(&mut self, foreground: Foreground) {
        let count = |turns: &mut u32, counts: bool| *turns = if counts { turns.saturating_add(1) } else { 0 };
        let writes = foreground.writes_disk || foreground.writes_asked_total != self.writes_asked_total;
        self.writes_asked_total = foreground.writes_asked_total;
        count(&mut self.turns_without_write, !writes);
        count(&mut self.turns_idle, foreground.disk_requests == 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(disk_requests: usize) -> Foreground {
        Foreground { disk_requests, ..Foreground::default() }
    }

    fn writing(disk_requests: usize) -> Foreground {
        Foreground { disk_requests, writes_disk: true, ..Foreground::default() }
    }

    #[test]
    fn write_back_starts_at_the_high_mark_stops_at_the_low_and_yields_in_between() {
        let settings = Settings { dirty_high: 0.5, dirty_low: 0.25, dirty_full: 0.9, ..Settings::default() };
        let mut pace = Pace::default();
        let all = settings.copies_max;
        let idle = |pace: &mut Pace, dirty| {
            (0..TURNS_IDLE).map(|_| pace.limit(&settings, dirty, 100, reading(0))).last().unwrap()
        };
        assert_eq!(idle(&mut pace, 40), 0);
        assert_eq!(idle(&mut pace, 60), all);
        assert_eq!(pace.limit(&settings, 60, 100, reading(3)), 0, "programs go first");
        assert_eq!(pace.limit(&settings, 60, 100, reading(0)), 0, "a gap between requests is no idleness");
        assert_eq!(idle(&mut pace, 40), all, "it goes on to the low mark");
        assert_eq!(idle(&mut pace, 20), 0);
        assert_eq!(pace.limit(&settings, 95, 100, writing(16)), all, "almost full: it keeps its share");
        pace.draining = true;
        assert_eq!(pace.limit(&settings, 1, 100, writing(16)), all);
    }

    #[test]
    fn full_flash_is_written_back_beside_writers_and_not_beside_readers() {
        let settings = Settings { dirty_high: 0.5, dirty_low: 0.25, dirty_full: 0.9, ..Settings::default() };
        let mut pace = Pace::default();
        let all = settings.copies_max;
        assert_eq!(pace.limit(&settings, 95, 100, writing(16)), all);
        for _ in 1..TURNS_WITHOUT_WRITE {
            assert_eq!(pace.limit(&settings, 95, 100, reading(16)), all, "a write may come at any moment");
        }
        assert_eq!(pace.limit(&settings, 95, 100, reading(16)), 0, "they only read");
        let absorbed = Foreground { writes_asked_total: 1, ..reading(16) };
        assert_eq!(pace.limit(&settings, 80, 100, absorbed), all, "a write that went to flash counts");
    }
}
