//! Records in flight: their numbers, up to which one all have completed or are durable, and holes.
//!
//! A record that failed is a hole: it keeps its place among those in flight, so that nothing behind it
//! counts as completed, until a checkpoint covers its place. Nothing is appended meanwhile.

use std::collections::BTreeMap;

use super::log_queue::Item;
use headstart_units::Nanos;
use headstart_units::request::Range;

/// A flash that fails so often at a stretch does not recover (assumed).
const HOLES_MAX: u32 = 3;

/// A record in flight, or one that failed.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    pub block: u32,
    pub items: Vec<Item>,
    pub cleans: Vec<(Range, u64)>,
    /// Begins of the heads that it names.
    pub heads: Vec<u64>,
    /// Bytes of a checkpoint its entries may take.
    pub growth: u64,
    /// When it was given to flash.
    pub given: Nanos,
    /// Its length.
    pub bytes: u64,
    /// Flash has failed to take it: it is a hole.
    pub failed: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Records {
    in_flight: BTreeMap<u64, InFlight>,
    seq_next: u64,
    durable_to: u64,
    has_hole: bool,
    holes_in_a_row: u32,
}

impl Records {
    /// None, behind those that a start has found.
    pub(super) fn new(start_seq: u64) -> Records {
        Records {
            in_flight: BTreeMap::new(),
            seq_next: start_seq,
            durable_to: start_seq - 1,
            has_hole: false,
            holes_in_a_row: 0,
        }
    }

    /// The number of the next one.
    pub(super) fn seq_next(&self) -> u64 {
        self.seq_next
    }

    /// A number for one that is appended.
    pub(super) fn name(&mut self) -> u64 {
        self.seq_next += 1;
        self.seq_next - 1
    }

    /// It is given to flash.
    pub(super) fn begin(&mut self, seq: u64, record: InFlight) {
        self.in_flight.insert(seq, record);
    }

    /// It has completed.
    pub(super) fn complete(&mut self, seq: u64) -> InFlight {
        self.holes_in_a_row = 0;
        self.in_flight.remove(&seq).expect("it was in flight")
    }

    /// It has failed: what it was to say is to be said again. Whether flash has failed too often by now.
    pub(super) fn fail(&mut self, seq: u64) -> (InFlight, bool) {
        let record = self.in_flight.get_mut(&seq).expect("it was in flight");
        let hole = InFlight { failed: true, growth: record.growth, ..InFlight::default() };
        let record = std::mem::replace(record, hole);
        // Those in flight together fail together.
        self.holes_in_a_row += u32::from(!self.has_hole);
        self.has_hole = true;
        (record, self.holes_in_a_row > HOLES_MAX)
    }

    /// Everything below a checkpoint's S is settled; only holes are left there.
    pub(super) fn forget_holes(&mut self, start_seq: u64) {
        self.in_flight.retain(|seq, record| !record.failed || *seq >= start_seq);
        self.has_hole = self.in_flight.values().any(|record| record.failed);
    }

    /// Whether nothing may be appended because one has failed.
    pub(super) fn has_hole(&self) -> bool {
        self.has_hole
    }

    /// Every record up to this one has completed.
    pub(super) fn completed_to(&self) -> u64 {
        self.in_flight.first_key_value().map_or(self.seq_next, |(seq, _)| *seq) - 1
    }

    /// Every record up to this one is durable.
    pub(super) fn durable_to(&self) -> u64 {
        self.durable_to
    }

    /// Every record up to this one is.
    pub(super) fn note_durable(&mut self, seq: u64) {
        self.durable_to = self.durable_to.max(seq);
    }

    /// How many are in flight, or holes.
    pub(super) fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether some may still complete.
    pub(super) fn may_complete(&self) -> bool {
        self.in_flight.values().any(|record| !record.failed)
    }

    /// Bytes of a checkpoint that the entries of all may take.
    pub(super) fn growth(&self) -> u64 {
        self.in_flight.values().map(|record| record.growth).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_behind_a_hole_counts_as_completed_until_a_checkpoint_covers_it() {
        let mut records = Records::new(5);
        for growth in 1..4 {
            let seq = records.name();
            records.begin(seq, InFlight { growth, ..InFlight::default() });
        }
        records.complete(5);
        assert_eq!((records.completed_to(), records.durable_to(), records.growth()), (5, 4, 5));
        assert_eq!((records.fail(6).0.growth, records.has_hole()), (2, true));
        records.complete(7);
        assert_eq!((records.completed_to(), records.len(), records.may_complete()), (5, 1, false));
        records.forget_holes(6);
        assert!(records.has_hole(), "the checkpoint begins with it");
        records.forget_holes(8);
        records.note_durable(7);
        records.note_durable(3);
        assert_eq!((records.has_hole(), records.completed_to(), records.durable_to()), (false, 7, 7));
    }

    #[test]
    fn flash_has_failed_when_one_record_after_the_other_does() {
        let mut records = Records::new(1);
        let mut holes = 0;
        loop {
            holes += 1;
            let seq = records.name();
            records.begin(seq, InFlight::default());
            let has_failed = records.fail(seq).1;
            records.forget_holes(seq + 1);
            if has_failed {
                break;
            }
        }
        assert_eq!(holes, HOLES_MAX + 1);
    }
}
