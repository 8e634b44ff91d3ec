//! The Rebuilder's pace (S4D §III-F): how many write-backs may be in flight.
//!
//! | state | limit |
//! |---|---|
//! | draining | all |
//! | dirty above the full mark, or a write of a burst that does not fit found no space; programs write | all, or what keeps the minimum share of the disks' requests |
//! | active (high mark passed, low mark not yet reached), programs at the disks | none: it yields |
//! | active, disks idle, flash absorbs a burst of writes that fits, or regions alone are dirty | none |
//! | active, disks idle, programs read from flash, or write a burst of which nothing is known and half of flash is not dirty | a few |
//! | active, disks idle | all |
//! | otherwise | none |
//!
//! Whoever writes into full flash waits for space; whoever only reads waits for the disks, and write-back
//! would take them away. A gap between two requests is not idleness: what is started in it stands before the
//! next request. Absorbed writes and reads from flash do not need the disks, but write-back reads from the
//! flash they go to: a burst that fits is left alone, as far as the last one tells, and readers are not made
//! to stand behind a long queue.
//!
//! Beside writers only what lies outside of regions counts: dirty bytes of regions give no space when they
//! are written back, and programs write most of them again. They go back when writes pause.
//!
//! "All" is many on purpose: address order pays only when a disk can sort a deep queue, and one write-back at
//! a time behind a busy foreground never catches up.

use crate::parts::copies::Copy;
use crate::parts::reserve::WRITE_PAUSE_NS;
use crate::settings::Settings;
use headstart_protocol::handover::COPIES_MAX;

/// A tier counts as idle after so long without a request seen there; assumed: longer than 16 ranks between
/// two requests.
const IDLE_NS: u64 = 5_000_000;
/// Below this dirty share a burst of which nothing is known is in no hurry for space.
const UNHURRIED_SHARE: f64 = 0.5;
/// Bytes asked of flash at once for write-back beside programs that use it; assumed: what a few servers
/// deliver in the time of a small request.
const BESIDE_FLASH_BYTES: u64 = 256 << 10;

/// Bytes in flight beside programs: what disks have taken they finish before what programs ask next; assumed:
/// a tenth of a second of a few disks. A queue of small pieces, which needs sorting, is limited by their
/// number.
const IN_FLIGHT_BYTES: u64 = 16 << 20;

/// Copies under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InFlight {
    copies: usize,
    bytes: u64,
    /// Asked of flash at once.
    flash_bytes: u64,
}

impl InFlight {
    pub(crate) fn add(&mut self, copy: &Copy) {
        self.copies += 1;
        self.bytes += copy.range.length;
        self.flash_bytes += copy.flash_bytes;
    }
}

/// What must not be in flight for another write-back to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    copies: usize,
    bytes: u64,
    flash_bytes: u64,
    /// Whether dirty bytes of regions are left where they are.
    pub(crate) spares_regions: bool,
}

impl Limit {
    const NONE: Limit = Limit { copies: 0, bytes: 0, flash_bytes: 0, spares_regions: false };

    fn copies(copies: usize) -> Limit {
        Limit { copies, bytes: u64::MAX, flash_bytes: u64::MAX, spares_regions: false }
    }

    pub(crate) fn allows(&self, flight: InFlight) -> bool {
        flight.copies < self.copies.min(COPIES_MAX)
            && flight.bytes < self.bytes
            && flight.flash_bytes < self.flash_bytes
    }
}

/// What programs are at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Foreground {
    /// Requests at the disks.
    pub(crate) disk_requests: usize,
    /// Whether one of them is a write.
    pub(crate) writes_disk: bool,
    /// Whether anybody reads from flash.
    pub(crate) reads_flash: bool,
    /// When a write last asked for space or was absorbed.
    pub(crate) last_write_ns: u64,
    /// Whether a write found no space a moment ago.
    pub(crate) starves: bool,
    /// Whether what is expected of the writes under way finds space.
    pub(crate) burst_fits: bool,
}

/// Where write-back stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// Everything is to be written back.
    draining: bool,
    /// Between the marks.
    active: bool,
    /// Flash was almost full, and the low mark is not yet reached: programs wait for space, not for disks.
    pressed: bool,
    /// Address order goes on from here: file, offset.
    cursor: (u32, u64),
    last_disk_request_ns: u64,
    last_disk_write_ns: u64,
    last_hint_ns: u64,
    last_flash_read_ns: u64,
}

/// What of flash is dirty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dirty {
    pub(crate) bytes: u64,
    /// Those of regions: they stay where they are when the disk has them too, so that no space comes of it.
    pub(crate) kept_bytes: u64,
    pub(crate) capacity_bytes: u64,
}

impl Dirty {
    /// Of all flash.
    fn share(self) -> f64 {
        share(self.bytes, self.capacity_bytes)
    }

    /// Of the flash that is not kept: what writes are short of.
    fn share_of_rest(self) -> f64 {
        share(self.bytes - self.kept_bytes, self.capacity_bytes.saturating_sub(self.kept_bytes))
    }
}

fn share(dirty_bytes: u64, capacity_bytes: u64) -> f64 {
    match (dirty_bytes, capacity_bytes) {
        (0, _) => 0.0,
        (_, 0) => 1.0,
        _ => dirty_bytes as f64 / capacity_bytes as f64,
    }
}

impl Pace {
    /// Whether anything may be written back now, the programs aside.
    pub(crate) fn is_due(&mut self, settings: &Settings, dirty: Dirty, now_ns: u64) -> bool {
        let share = dirty.share();
        if share > settings.dirty_high && !self.active {
            self.active = true;
            // Nobody has looked at the programs until now.
            self.last_disk_request_ns = now_ns;
            self.last_flash_read_ns = now_ns;
        }
        self.active &= share > settings.dirty_low;
        self.active || self.draining || share > settings.dirty_full
    }

    /// What may be in flight now that programs are at `foreground`, after [`Pace::is_due`] was asked.
    pub(crate) fn limit(&mut self, settings: &Settings, dirty: Dirty, foreground: Foreground, now_ns: u64) -> Limit {
        let share = dirty.share_of_rest();
        self.observe(foreground, now_ns);
        if self.draining {
            return Limit::copies(settings.copies_max);
        }
        let since = |then: u64| now_ns.saturating_sub(then);
        let absorbs = since(foreground.last_write_ns) <= WRITE_PAUSE_NS;
        let all = Limit { bytes: IN_FLIGHT_BYTES, ..Limit::copies(settings.copies_max) };
        let all = match absorbs && dirty.kept_bytes > 0 {
            // No more than there is, or the rest would be looked for among the regions in vain.
            true => Limit { bytes: all.bytes.min(dirty.bytes - dirty.kept_bytes), spares_regions: true, ..all },
            false => all,
        };
        let writes = since(foreground.last_write_ns.max(self.last_disk_write_ns)) <= IDLE_NS;
        let starves = self.active && foreground.starves && !foreground.burst_fits && share > settings.dirty_low;
        let full = share > settings.dirty_full || starves;
        self.pressed = full || (self.pressed && share > settings.dirty_high);
        if self.pressed && writes {
            let requests = foreground.disk_requests as f64;
            let least = settings.write_back_share_min / (1.0 - settings.write_back_share_min) * requests;
            return Limit { copies: settings.copies_max.max(least.ceil() as usize), ..all };
        }
        if !self.active || since(self.last_disk_request_ns) < IDLE_NS {
            return Limit::NONE;
        }
        let few = Limit { flash_bytes: BESIDE_FLASH_BYTES, ..all };
        let reads_flash = since(self.last_flash_read_ns) < IDLE_NS;
        match absorbs {
            true if foreground.burst_fits || share <= settings.dirty_low => Limit::NONE,
            true if share <= UNHURRIED_SHARE => few,
            false if reads_flash => few,
            _ => all,
        }
    }

    /// Everything is to be written back, or no longer.
    pub(crate) fn set_draining(&mut self, draining: bool) {
        self.draining = draining;
    }

    /// Whether dirty bytes are between the marks.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// Where address order goes on: file, offset.
    pub(crate) fn cursor(&self) -> (u32, u64) {
        self.cursor
    }

    /// It goes on there.
    pub(crate) fn set_cursor(&mut self, cursor: (u32, u64)) {
        self.cursor = cursor;
    }

    /// Whether no program has been seen at the disks or has left word of it lately.
    pub(crate) fn are_disks_idle(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.last_disk_request_ns.max(self.last_hint_ns)) >= IDLE_NS
    }

    /// A program has left word of a read from the disks.
    pub(crate) fn hear_of_read(&mut self, now_ns: u64) {
        self.last_hint_ns = now_ns;
    }

    fn observe(&mut self, foreground: Foreground, now_ns: u64) {
        let seen = |last: &mut u64, now: bool| *last = if now { now_ns } else { *last };
        seen(&mut self.last_disk_request_ns, foreground.disk_requests > 0);
        seen(&mut self.last_disk_write_ns, foreground.writes_disk);
        seen(&mut self.last_flash_read_ns, foreground.reads_flash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings { dirty_high: 0.4, dirty_low: 0.2, dirty_full: 0.9, ..Settings::default() }
    }

    /// A pace at work, of a flash of 100 bytes.
    #[derive(Default)]
    struct Site {
        pace: Pace,
        now_ns: u64,
        last_write_ns: u64,
        kept_bytes: u64,
    }

    impl Site {
        /// The first time, long after anything happened.
        fn new() -> Site {
            Site { now_ns: 100 * WRITE_PAUSE_NS, ..Site::default() }
        }

        fn limit(&mut self, dirty: u64, foreground: Foreground) -> usize {
            self.whole_limit(dirty, foreground).copies
        }

        fn whole_limit(&mut self, dirty: u64, foreground: Foreground) -> Limit {
            let foreground = Foreground { last_write_ns: self.last_write_ns, ..foreground };
            let dirty = Dirty { bytes: dirty, kept_bytes: self.kept_bytes, capacity_bytes: 100 };
            self.pace.is_due(&settings(), dirty, self.now_ns);
            self.pace.limit(&settings(), dirty, foreground, self.now_ns)
        }

        /// After time enough for what happened before to be over.
        fn idle(&mut self, dirty: u64) -> usize {
            self.limit(dirty, Foreground::default());
            self.now_ns += WRITE_PAUSE_NS + 1;
            self.limit(dirty, Foreground::default())
        }

        fn absorb(&mut self, dirty: u64, burst_fits: bool) -> usize {
            self.now_ns += IDLE_NS;
            self.last_write_ns = self.now_ns;
            self.limit(dirty, Foreground { burst_fits, ..Foreground::default() })
        }
    }

    fn reading(disk_requests: usize) -> Foreground {
        Foreground { disk_requests, ..Foreground::default() }
    }

    fn writing(disk_requests: usize) -> Foreground {
        Foreground { disk_requests, writes_disk: true, ..Foreground::default() }
    }

    #[test]
    fn write_back_starts_at_the_high_mark_stops_at_the_low_and_yields_in_between() {
        let (mut site, all) = (Site::new(), settings().copies_max);
        assert_eq!(site.idle(30), 0);
        assert_eq!(site.idle(50), all);
        assert_eq!(site.limit(50, reading(3)), 0, "programs go first");
        assert_eq!(site.limit(50, reading(0)), 0, "a gap between requests is no idleness");
        assert_eq!(site.idle(30), all, "it goes on to the low mark");
        assert_eq!(site.idle(15), 0);
        assert_eq!(site.limit(95, writing(16)), all, "almost full: it keeps its share");
        site.pace.draining = true;
        assert_eq!(site.limit(1, writing(16)), all);
    }

    #[test]
    fn full_flash_is_written_back_beside_writers_and_not_beside_readers() {
        let (mut site, all) = (Site::new(), settings().copies_max);
        assert_eq!(site.limit(95, writing(16)), all);
        site.now_ns += IDLE_NS;
        assert_eq!(site.limit(95, reading(16)), all, "a write may come at any moment");
        site.now_ns += 1;
        assert_eq!(site.limit(95, reading(16)), 0, "they only read");
        site.last_write_ns = site.now_ns;
        assert_eq!(site.limit(80, reading(16)), all, "a write that went to flash counts");
    }

    #[test]
    fn flash_is_full_when_a_write_finds_no_space_whatever_its_dirty_bytes() {
        let (mut site, all) = (Site::new(), settings().copies_max);
        assert_eq!(site.limit(60, writing(16)), 0);
        let fits = Foreground { starves: true, burst_fits: true, ..writing(16) };
        assert_eq!(site.limit(60, fits), 0, "space for it waits for a barrier, not for write-back");
        assert_eq!(site.limit(60, Foreground { starves: true, ..writing(16) }), all);
        assert_eq!(site.limit(60, writing(16)), all);
        assert_eq!(site.limit(30, Foreground { starves: true, ..writing(16) }), all, "until the high mark is reached");
        assert_eq!(site.limit(30, writing(16)), 0);
    }

    #[test]
    fn a_burst_that_fits_is_absorbed_before_it_is_written_back() {
        let (mut site, all) = (Site::new(), settings().copies_max);
        for dirty in 1..=80 {
            assert_eq!(site.absorb(dirty, true), 0);
        }
        assert_eq!(site.absorb(80, false), all);
        let unknown = Foreground::default();
        assert_eq!(site.whole_limit(50, unknown).flash_bytes, BESIDE_FLASH_BYTES);
        assert_eq!(site.whole_limit(51, unknown).flash_bytes, u64::MAX);
        assert_eq!(site.absorb(80, true), 0);
        assert_eq!(site.idle(80), all);
    }

    #[test]
    fn dirty_bytes_of_regions_wait_until_writes_pause() {
        let (mut site, all) = (Site { kept_bytes: 90, ..Site::new() }, settings().copies_max);
        assert_eq!(site.absorb(90, false), 0, "no space comes of writing them back");
        assert_eq!(site.limit(90, Foreground { starves: true, ..writing(16) }), 0);
        assert_eq!(site.absorb(95, false), all, "half of what is not theirs is dirty");
        assert!(site.whole_limit(95, Foreground::default()).spares_regions);
        assert_eq!(site.idle(90), all);
        assert!(!site.whole_limit(90, Foreground::default()).spares_regions);
    }

    #[test]
    fn readers_of_flash_share_it_with_a_few_write_backs() {
        let (mut site, all) = (Site::new(), settings().copies_max);
        assert_eq!(site.idle(50), all);
        let every = Limit { bytes: IN_FLIGHT_BYTES, ..Limit::copies(all) };
        let few = Limit { flash_bytes: BESIDE_FLASH_BYTES, ..every };
        assert_eq!(site.whole_limit(50, Foreground { reads_flash: true, ..reading(0) }), few);
        assert_eq!(site.whole_limit(50, reading(0)), few);
        site.idle(50);
        assert_eq!(site.whole_limit(50, reading(0)), every);
    }
}
