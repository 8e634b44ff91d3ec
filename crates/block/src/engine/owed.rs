//! CLEANs that the log is owed: ranges of which it says something though the disk is as new.
//!
//! ```text
//! owed --a disk FLUSH is given--> in flush --it is done--> flushed
//!      --a CLEAN says it, or a checkpoint leaves it out--> gone
//! ```

use headstart_units::ranges::Ranges;
use headstart_units::request::Range;

/// See the module; each range with the newest seq that the disk is as new as.
#[derive(Clone, Debug, Default)]
pub(super) struct Owed {
    owed: Ranges<u64>,
    in_flush: Ranges<u64>,
    flushed: Ranges<u64>,
}

impl Owed {
    /// The disk holds a range, not yet durably.
    pub(super) fn raise(&mut self, range: Range, upto: u64) {
        self.owed.raise(range, upto);
    }

    /// A disk FLUSH is given.
    pub(super) fn give_flush(&mut self) {
        self.in_flush = std::mem::take(&mut self.owed);
    }

    /// It is done.
    pub(super) fn end_flush(&mut self) {
        let covered = std::mem::take(&mut self.in_flush);
        covered.iter().for_each(|(range, upto)| self.flushed.raise(range, upto));
    }

    /// A CLEAN was to say this of what is flushed, and does not.
    pub(super) fn raise_flushed(&mut self, range: Range, upto: u64) {
        self.flushed.raise(range, upto);
    }

    /// A CLEAN says the first of what is flushed.
    pub(super) fn pop_flushed(&mut self) -> Option<(Range, u64)> {
        self.flushed.pop_first()
    }

    /// A checkpoint leaves out what is flushed.
    pub(super) fn take_flushed(&mut self) -> Ranges<u64> {
        std::mem::take(&mut self.flushed)
    }

    /// Ranges that no disk FLUSH covers.
    pub(super) fn unflushed(&self) -> usize {
        self.owed.len()
    }

    /// Ranges of which a CLEAN may be written.
    pub(super) fn flushed(&self) -> usize {
        self.flushed.len()
    }

    /// Whether something waits for a disk FLUSH, or for its end.
    pub(super) fn awaits_flush(&self) -> bool {
        !self.owed.is_empty() || !self.in_flush.is_empty()
    }

    /// Whether nothing is owed at all.
    pub(super) fn is_empty(&self) -> bool {
        !self.awaits_flush() && self.flushed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_may_be_written_once_a_disk_flush_that_was_given_later_is_done() {
        let mut owed = Owed::default();
        let range = Range::new(0, 512);
        owed.raise(range, 4);
        owed.give_flush();
        owed.raise(Range::new(512, 512), 5);
        assert_eq!((owed.unflushed(), owed.flushed(), owed.awaits_flush()), (1, 0, true));
        owed.end_flush();
        assert_eq!((owed.pop_flushed(), owed.flushed()), (Some((range, 4)), 0));
        owed.raise_flushed(range, 4);
        owed.give_flush();
        owed.end_flush();
        assert_eq!((owed.take_flushed().len(), owed.is_empty()), (2, true));
    }
}
