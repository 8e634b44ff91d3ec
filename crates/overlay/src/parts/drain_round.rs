//! What a drain owes: everything that was dirty when it was asked for, and not what others write meanwhile, who may
//! never pause.
//!
//! A round goes over what was dirty then, in address order: once, or as often as write-back leaps over something, but
//! never more than [`PASSES_MAX`] times, since others may write again what was leapt over. An extent that is held up
//! is waited for; only one of a file that cannot be written back, or that flash has lost, is passed over. The round
//! is over when the write-backs have ended that were under way by then.

use std::collections::BTreeMap;

use headstart_units::request::Range;

/// The last one leaps over nothing. Leaps of 64 KiB have passed no piece of 8 KiB by then that they have not come to.
const PASSES_MAX: u8 = 8;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct DrainRound {
    /// Everything before is written back, or being so, or was leapt over: file, offset.
    at: (u32, u64),
    passes_left: u8,
    /// Whether this pass has leapt over anything.
    has_leapt: bool,
    /// Where each file ended that was dirty.
    ends: BTreeMap<u32, u64>,
    /// Once it has come to the end: its write-backs are among the copies below this one.
    copies_below: Option<u64>,
}

impl DrainRound {
    /// A round over files that are dirty up to `ends`.
    pub(crate) fn new(ends: BTreeMap<u32, u64>) -> DrainRound {
        DrainRound { at: (0, 0), passes_left: PASSES_MAX, has_leapt: false, ends, copies_below: None }
    }

    /// What it has not come to: each file with where it goes on there, and where it ends.
    pub(crate) fn rest(&self) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        let (first, offset) = self.at;
        self.ends.range(first..).map(move |(&file, &end)| (file, if file == first { offset } else { 0 }, end))
    }

    /// Nothing is left of this pass. Begins the next one, or, if it has leapt over nothing, is at the end: the copies
    /// of the round are those below `next_copy`. True if there is another pass.
    pub(crate) fn end_pass(&mut self, next_copy: u64) -> bool {
        if !self.has_leapt {
            self.copies_below.get_or_insert(next_copy);
            return false;
        }
        (self.at, self.has_leapt, self.passes_left) = ((0, 0), false, self.passes_left - 1);
        true
    }

    /// A write-back of `range` has begun, and address order goes on at the cursor.
    pub(crate) fn advance(&mut self, range: Range, (file, cursor): (u32, u64)) {
        let is_last = self.passes_left == 1;
        self.at = (file, if is_last { range.end() } else { cursor });
        self.has_leapt |= self.at.1 > range.end();
    }

    /// What was written back from there on does not count: the disk may not hold it.
    pub(crate) fn rewind(&mut self, to: (u32, u64)) {
        (self.at, self.copies_below) = (self.at.min(to), None);
    }

    /// The round has come to the end: its write-backs are among the copies below this one.
    pub(crate) fn copies_below(&self) -> Option<u64> {
        self.copies_below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(round: &DrainRound) -> Vec<(u32, u64, u64)> {
        round.rest().collect()
    }

    #[test]
    fn a_pass_that_leapt_is_followed_by_another_and_the_last_one_leaps_over_nothing() {
        let mut round = DrainRound::new(BTreeMap::from([(1, 100), (3, 50)]));
        assert_eq!(rest(&round), [(1, 0, 100), (3, 0, 50)]);
        for _ in 1..PASSES_MAX {
            round.advance(Range::new(0, 10), (1, 20));
            assert_eq!(rest(&round), [(1, 20, 100), (3, 0, 50)]);
            assert!(round.end_pass(7) && round.copies_below().is_none());
        }
        round.advance(Range::new(0, 10), (1, 20));
        assert_eq!(rest(&round)[0], (1, 10, 100));
        assert!(!round.end_pass(7) && !round.end_pass(9));
        assert_eq!(round.copies_below(), Some(7));
    }

    #[test]
    fn what_does_not_count_is_gone_over_again() {
        let mut round = DrainRound::new(BTreeMap::from([(1, 100)]));
        round.advance(Range::new(50, 10), (1, 60));
        round.end_pass(4);
        round.rewind((1, 20));
        assert_eq!((rest(&round), round.copies_below()), (vec![(1, 20, 100)], None));
        round.rewind((1, 40));
        assert_eq!(rest(&round), [(1, 20, 100)]);
    }
}
