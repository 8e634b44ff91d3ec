//! Which side answers reads of a file sooner. Cost models say it of disks that have to move; what file
//! servers have in their memory they may answer sooner than flash does, and then bytes that lie on both sides
//! are read from the disks, and none are fetched.
//!
//! Judged by the means of reads that threads measured ([`headstart_protocol::read_times`]), [`READS`] of each
//! side at least, and only where these are of like size. All may be on the disks' side then: of [`TRIAL`]
//! reads one goes to flash all the same, so that it is known what flash would take.

use headstart_protocol::read_times::{Measured, ReadTimes, Side};

/// Reads of a side that make a mean (assumed: of 32 that vary as much as disks' do, the mean is known to
/// about a sixth).
const READS: u64 = 32;
/// One of so many reads is a trial.
const TRIAL: u32 = 64;
/// The disks have to take less than this share of flash's time, in percent, before they are preferred; once
/// they are, as much (assumed: more than a mean of [`READS`] is wrong by).
const LESS_PERCENT: u64 = 80;
/// Flash that answers within this is soon enough (assumed: a disk's own answer is never sooner, and caches
/// that are save little).
const SOON_NS: u64 = 100_000;

/// A mean over reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mean {
    ns: u64,
    bytes: u64,
}

impl Mean {
    fn of(measured: Measured) -> Mean {
        let reads = measured.requests.max(1);
        Mean { ns: measured.ns / reads, bytes: measured.bytes / reads }
    }

    /// Whether the means are of reads of like size.
    fn is_like(self, other: Mean) -> bool {
        let (least, most) = (self.bytes.min(other.bytes), self.bytes.max(other.bytes));
        most <= least.saturating_mul(2)
    }
}

/// What is known of one file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sooner {
    /// Sums that the last judgement of each side went by.
    disk_before: Measured,
    flash_before: Measured,
    /// What flash took last.
    flash: Option<Mean>,
    is_disk: bool,
    reads: u32,
}

impl Sooner {
    /// Whether the disks answer sooner, by what was measured by now.
    pub(super) fn is_disk(&mut self, times: &ReadTimes) -> bool {
        let flash = times.measured(Side::Flash);
        let newer = flash.since(self.flash_before);
        if newer.requests >= READS {
            (self.flash, self.flash_before) = (Some(Mean::of(newer)), flash);
        }
        let disk = times.measured(Side::Disk);
        let newer = disk.since(self.disk_before);
        if newer.requests >= READS
            && let Some(flash) = self.flash
        {
            let disk_mean = Mean::of(newer);
            let percent = if self.is_disk { 100 } else { LESS_PERCENT };
            let is_less = disk_mean.ns.saturating_mul(100) < flash.ns.saturating_mul(percent);
            self.is_disk = is_less && flash.ns > SOON_NS && disk_mean.is_like(flash);
            self.disk_before = disk;
        }
        self.is_disk
    }

    /// The same for a read of bytes that both sides have, unless it is a trial.
    pub(super) fn prefers_disk(&mut self, times: &ReadTimes) -> bool {
        if !self.is_disk(times) {
            return false;
        }
        self.reads = (self.reads + 1) % TRIAL;
        self.reads != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(disk_ns: u64, flash_ns: u64) -> ReadTimes {
        let times = ReadTimes::default();
        add(&times, Side::Disk, disk_ns, 4096);
        add(&times, Side::Flash, flash_ns, 4096);
        times
    }

    fn add(times: &ReadTimes, side: Side, ns: u64, bytes: u64) {
        (0..READS).for_each(|_| times.add(side, bytes, ns));
    }

    #[test]
    fn the_disks_are_preferred_when_they_were_clearly_sooner_and_no_longer_when_they_are_not() {
        for (disk_ns, flash_ns, is_disk) in [
            (480_000, 1_060_000, true),
            (850_000, 1_060_000, false),
            (12_000_000, 1_060_000, false),
            (10_000, 90_000, false),
        ] {
            let mut sooner = Sooner::default();
            assert_eq!(sooner.is_disk(&times(disk_ns, flash_ns)), is_disk, "{disk_ns} and {flash_ns}");
        }
        let (mut sooner, times) = (Sooner::default(), times(480_000, 1_060_000));
        assert!(sooner.is_disk(&times));
        add(&times, Side::Disk, 1_000_000, 4096);
        assert!(sooner.is_disk(&times), "still sooner");
        add(&times, Side::Disk, 1_100_000, 4096);
        assert!(!sooner.is_disk(&times));
    }

    #[test]
    fn nothing_is_said_of_few_reads_nor_of_those_of_other_sizes() {
        let few = ReadTimes::default();
        add(&few, Side::Disk, 480_000, 4096);
        (1..READS).for_each(|_| few.add(Side::Flash, 4096, 1_060_000));
        let mut sooner = Sooner::default();
        assert!(!sooner.is_disk(&few));
        few.add(Side::Flash, 4096, 1_060_000);
        assert!(sooner.is_disk(&few));
        let unlike = ReadTimes::default();
        add(&unlike, Side::Disk, 480_000, 4096);
        add(&unlike, Side::Flash, 1_060_000, 9000);
        assert!(!Sooner::default().is_disk(&unlike));
    }

    #[test]
    fn one_read_in_sixty_four_tries_flash() {
        let (mut sooner, times) = (Sooner::default(), times(480_000, 1_060_000));
        let tried = (0..640).filter(|_| !sooner.prefers_disk(&times)).count();
        assert_eq!(tried, 10);
    }
}
