//! How long a run takes that writes more to flash than fits there at once: write-back has to empty what writes fill.

use crate::software::{DISKS_WAVER, Software, both};

/// Share of flash that is dirty when write-back is at work: above `dirty_high`, as a first burst may fit.
const BEGINS: f64 = 0.4;

/// Share that stays dirty where there is room enough: `dirty_high`.
const STAYS_DIRTY: f64 = 0.2;

/// Share of the processors that write-back gets for which nothing waits (assumed: of 0.1 to 0.5 nearest to such runs).
const UNHURRIED_CPU: f64 = 0.4;

/// From the write of a byte until its place is free again: a deep queue of write-backs, and a barrier (assumed).
const TURN_S: f64 = 0.25;

/// Flash that writes fill, and how fast write-back empties it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Room {
    pub(crate) bytes: f64,
    /// What all critical writes bring, and bring again after it was written back.
    pub(crate) written_bytes: f64,
    /// How fast the disks take it, in pieces of that length, on average.
    pub(crate) s_per_byte: f64,
    pub(crate) piece_bytes: f64,
}

impl Room {
    /// Time of a run that absorbs that share of the writes. Flash serves them and is read for write-back,
    /// processors work for both, and the last write needs room.
    pub(crate) fn run_s(&self, absorbed: f64, flash: &OnFlash, software: &Software) -> f64 {
        let written = absorbed * self.written_bytes;
        if written <= BEGINS * self.bytes {
            return flash.run_s;
        }
        let before = BEGINS * self.bytes / written;
        let beyond = (written - self.bytes).max(0.0);
        let copy_s_per_byte = software.copies_s(1.0 / self.piece_bytes.max(1.0));
        // What is left of the run, while so many bytes are written back.
        let left_s = |bytes: f64| {
            let copying_s = (flash.copying_s - flash.run_s) * bytes / written;
            let flash_s = flash.run_s * (1.0 - before) + copying_s + bytes * flash.delay_s_per_byte;
            both(flash_s, beyond * self.s_per_byte, DISKS_WAVER)
        };
        // Disks and processors copy what they can, and at least what must go: the fewest bytes that they need
        // all of that time for.
        let s_per_byte = self.s_per_byte.max(copy_s_per_byte / UNHURRIED_CPU);
        let (mut few, mut many) = (beyond, beyond.max(written - STAYS_DIRTY * self.bytes));
        if few * s_per_byte >= left_s(few) {
            many = few;
        }
        for _ in 0..30 {
            let middle = (few + many) / 2.0;
            if middle * s_per_byte < left_s(middle) { few = middle } else { many = middle }
        }
        flash.run_s * before + left_s(many)
    }

    /// Pieces that are written back if every write of that share is.
    pub(crate) fn copies(&self, absorbed: f64) -> f64 {
        absorbed * self.written_bytes / self.piece_bytes.max(1.0)
    }

    /// Time in which places are free as often as that share of the writes needs.
    pub(crate) fn turns_s(&self, absorbed: f64) -> f64 {
        let turns = absorbed * self.written_bytes / self.bytes.max(1.0);
        if turns > 1.0 { turns * TURN_S } else { 0.0 }
    }
}

/// What a run asks of flash.
pub(crate) struct OnFlash {
    /// How long it takes, with what software takes for it.
    pub(crate) run_s: f64,
    /// The same if all that is written were copied back beside it, as far as the processors go.
    pub(crate) copying_s: f64,
    /// How much longer for each byte that is read beside it.
    pub(crate) delay_s_per_byte: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE_BYTES: f64 = 16384.0;

    /// Flash of 100 MB to which a run writes, within a second if nothing else were in its way, on disks that
    /// take 100 MB/s.
    fn run_s(written_bytes: f64, delay_s_per_byte: f64, software: Software) -> f64 {
        let room = Room { bytes: 100e6, written_bytes, s_per_byte: 1e-8, piece_bytes: PIECE_BYTES };
        // Processors are busy all the time.
        let copying_s = 1.0 + software.copies_s(room.copies(1.0));
        room.run_s(1.0, &OnFlash { run_s: 1.0, copying_s, delay_s_per_byte }, &software)
    }

    #[test]
    fn reads_for_write_back_delay_writes_that_fit() {
        assert_eq!(run_s(40e6, 2e-9, Software::default()), 1.0, "write-back does not begin");
        assert_eq!(run_s(90e6, 0.0, Software::default()), 1.0);
        // It has five ninths of the run, longer by 2 ns for each of the bytes that the disks take in 10 ns.
        let found = run_s(90e6, 2e-9, Software::default());
        assert!((found - (4.0 / 9.0 + 5.0 / 9.0 / 0.8)).abs() < 1e-6, "{found}");
    }

    #[test]
    fn no_more_is_read_than_would_stay_dirty() {
        let found = run_s(50e6, 2e-9, Software::default());
        let least = run_s(50e6, 20e-9, Software::default());
        assert!((found - (0.8 + 0.2 / 0.8)).abs() < 1e-6, "{found}");
        assert!((least - (1.0 + 30e6 * 20e-9)).abs() < 1e-6, "all but 20 MB: {least}");
    }

    #[test]
    fn copies_for_which_nothing_waits_get_a_part_of_the_processors() {
        let software = |copy_cpu_ms| Software { processors: 1, request_cpu_ms: 0.5, copy_cpu_ms };
        let (free, costly) = (run_s(90e6, 0.0, software(0.0)), run_s(90e6, 0.0, software(10.0)));
        assert!(costly > 1.05 * free && costly < free / (1.0 - UNHURRIED_CPU), "{free} {costly}");
        // Those that writes wait for have all they need.
        let copies_s = software(10.0).copies_s(50e6 / PIECE_BYTES);
        assert!(run_s(150e6, 0.0, software(10.0)) > copies_s);
    }

    #[test]
    fn writes_beyond_flash_wait_for_the_disks() {
        let found = run_s(400e6, 0.0, Software::default());
        assert!((3.0..3.3).contains(&found), "300 MB at 100 MB/s: {found}");
    }
}
