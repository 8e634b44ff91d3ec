//! Which side answers reads of a file sooner, from reads of both sides that were measured.
//!
//! Cost models say it of disks that have to move. What file servers have in their memory they may answer sooner than
//! flash does. The means of at least [`READS_MIN`] reads of each side are compared, if the reads were of like size.
//! Once the disks are preferred no read may go to flash any more: of [`TRIAL_READS`] one does all the same, so that
//! it stays known what flash takes.

/// Reads of a side that make a mean (assumed: of 32 that vary as much as disks' do, the mean is known to about a
/// sixth).
const READS_MIN: u64 = 32;
/// Of so many reads that the disks should answer one is a trial of flash (assumed: costs a hundredth).
const TRIAL_READS: u32 = 64;
/// The disks have to take less than this share of flash's time, in percent, before they are preferred; once they
/// are, as much (assumed: more than a mean of [`READS_MIN`] is wrong by). Seen on second runs of random reads over
/// LiU (`compose/ior-random-read`).
const LESS_PERCENT: u64 = 80;
/// Flash that answers within this is soon enough (assumed: a disk's own answer is never sooner, and caches that
/// are save little).
const SOON_NS: u64 = 100_000;

/// The sums of one side's measured reads as they were at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Reads.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Nanoseconds that they took.
    pub ns: u64,
}

impl Measured {
    /// What came to them since `earlier`.
    pub(crate) fn since(self, earlier: Measured) -> Measured {
        Measured {
            requests: self.requests.wrapping_sub(earlier.requests),
            bytes: self.bytes.wrapping_sub(earlier.bytes),
            ns: self.ns.wrapping_sub(earlier.ns),
        }
    }
}

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

/// What is guessed of one file.
#[derive(Clone, Copy, Debug, Default)]
pub struct FasterSide {
    /// Sums that the last judgement of each side went by.
    disk_before: Measured,
    flash_before: Measured,
    /// What flash took last.
    flash: Option<Mean>,
    is_disk: bool,
    reads: u32,
}

impl FasterSide {
    /// Whether the disks answer sooner, by what was measured of both sides by now.
    pub fn is_disk(&mut self, disk: Measured, flash: Measured) -> bool {
        let newer = flash.since(self.flash_before);
        if newer.requests >= READS_MIN {
            (self.flash, self.flash_before) = (Some(Mean::of(newer)), flash);
        }
        let newer = disk.since(self.disk_before);
        if newer.requests >= READS_MIN
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
    pub fn prefers_disk(&mut self, disk: Measured, flash: Measured) -> bool {
        if !self.is_disk(disk, flash) {
            return false;
        }
        self.reads = (self.reads + 1) % TRIAL_READS;
        self.reads != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums over so many reads of 4 KiB that took so long each.
    fn of(requests: u64, ns: u64) -> Measured {
        Measured { requests, bytes: requests * 4096, ns: requests * ns }
    }

    fn plus(before: Measured, ns: u64) -> Measured {
        let Measured { requests, bytes, ns: sum } = of(READS_MIN, ns);
        Measured { requests: before.requests + requests, bytes: before.bytes + bytes, ns: before.ns + sum }
    }

    #[test]
    fn the_disks_are_preferred_when_they_were_clearly_sooner_and_no_longer_when_they_are_not() {
        for (disk_ns, flash_ns, is_disk) in [
            (480_000, 1_060_000, true),
            (850_000, 1_060_000, false),
            (12_000_000, 1_060_000, false),
            (10_000, 90_000, false),
        ] {
            let found = FasterSide::default().is_disk(of(READS_MIN, disk_ns), of(READS_MIN, flash_ns));
            assert_eq!(found, is_disk, "{disk_ns} and {flash_ns}");
        }
        let (mut side, disk, flash) = (FasterSide::default(), of(READS_MIN, 480_000), of(READS_MIN, 1_060_000));
        assert!(side.is_disk(disk, flash));
        let disk = plus(disk, 1_000_000);
        assert!(side.is_disk(disk, flash), "still sooner");
        assert!(!side.is_disk(plus(disk, 1_100_000), flash));
    }

    #[test]
    fn nothing_is_said_of_few_reads_nor_of_those_of_other_sizes() {
        let (mut side, disk) = (FasterSide::default(), of(READS_MIN, 480_000));
        assert!(!side.is_disk(disk, of(READS_MIN - 1, 1_060_000)));
        assert!(side.is_disk(disk, of(READS_MIN, 1_060_000)));
        let unlike = Measured { requests: READS_MIN, bytes: 9000 * READS_MIN, ns: 1_060_000 * READS_MIN };
        assert!(!FasterSide::default().is_disk(disk, unlike));
    }

    #[test]
    fn one_read_in_sixty_four_tries_flash() {
        let (mut side, disk, flash) = (FasterSide::default(), of(READS_MIN, 480_000), of(READS_MIN, 1_060_000));
        let tried = (0..640).filter(|_| !side.prefers_disk(disk, flash)).count();
        assert_eq!(tried, 10);
    }
}
