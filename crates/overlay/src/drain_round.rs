//! What a drain owes: everything that was dirty when it was asked for, and not what others write meanwhile,
//! who may never pause.
//!
//! A round goes over what was dirty then, in address order: once, or as often as write-back leaps over
//! something, but never more than [`PASSES_MAX`] times, since others may write again what was leapt over. An
//! extent that is held up is waited for; only one of a file that cannot be written back, or that flash has
//! lost, is passed over. The round is over when the write-backs have ended that were under way by then.

use std::collections::BTreeMap;

use crate::extent_map::Mapped;
use crate::overlay::Overlay;
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

impl Overlay {
    pub(crate) fn begin_drain_round(&mut self) {
        let end = |file: u32| self.files[&file].map.end().max(self.files[&file].size);
        let ends = self.mapping.dirty_files.iter().map(|file| (*file, end(*file))).collect();
        self.drain_round =
            Some(DrainRound { at: (0, 0), passes_left: PASSES_MAX, has_leapt: false, ends, copies_below: None });
    }

    /// Whether everything that was dirty when a drain was last asked for has been written back since, as far
    /// as that can be.
    pub fn has_drained(&self) -> bool {
        let is_over = |end| self.copies.have_written_back(end);
        let copies_below = self.drain_round.as_ref().and_then(|round| round.copies_below);
        self.mapping.dirty_bytes == 0 || copies_below.is_some_and(is_over)
    }

    /// The next extent of the round, if nothing holds it up.
    pub(crate) fn next_of_drain_round(&mut self) -> Option<(u32, Mapped)> {
        let mut first = self.first_of(self.drain_round.as_ref()?);
        while first.is_none()
            && let Some(round) = &mut self.drain_round
        {
            if !round.has_leapt {
                round.copies_below.get_or_insert(self.copies.next_id());
                break;
            }
            (round.at, round.has_leapt, round.passes_left) = ((0, 0), false, round.passes_left - 1);
            first = self.first_of(self.drain_round.as_ref()?);
        }
        first.filter(|(file, mapped)| self.obstacle(*file, mapped).is_none())
    }

    /// The first extent that the round has not come to.
    fn first_of(&self, round: &DrainRound) -> Option<(u32, Mapped)> {
        for (&file, &end) in round.ends.range(round.at.0..) {
            let Some(known) = self.files.get(&file).filter(|known| known.write_back_error.is_none()) else { continue };
            let mut offset = if file == round.at.0 { round.at.1 } else { 0 };
            while let Some(mapped) = known.map.next_dirty(offset).filter(|mapped| mapped.range.offset < end) {
                if !self.is_untrusted(&mapped) {
                    return Some((file, mapped));
                }
                offset = mapped.range.end();
            }
        }
        None
    }

    /// A write-back of the round's next extent has begun, of that range; address order goes on at the cursor.
    pub(crate) fn advance_drain_round(&mut self, range: Range) {
        let (file, cursor) = self.pace.cursor;
        if let Some(round) = &mut self.drain_round {
            let is_last = round.passes_left == 1;
            round.at = (file, if is_last { range.end() } else { cursor });
            round.has_leapt |= round.at.1 > range.end();
        }
    }

    /// What was written back from there on does not count: the disk may not hold it.
    pub(crate) fn rewind_drain_round(&mut self, to: (u32, u64)) {
        if let Some(round) = &mut self.drain_round {
            (round.at, round.copies_below) = (round.at.min(to), None);
        }
    }
}
