//! A drain: what was dirty when it was asked for goes back ([`crate::parts::drain_round`]).

use crate::extent_map::Mapped;
use crate::overlay::Overlay;
use crate::parts::drain_round::DrainRound;

impl Overlay {
    /// Asks that all dirty bytes go to disk, whatever the marks say, until none is left; clears errors of earlier
    /// tries. [`Overlay::has_drained`] tells when those have that were dirty now. `false` ends that.
    pub fn drain(&mut self, on: bool) {
        if !on {
            return self.pacing.drain(None);
        }
        self.files.values_mut().for_each(|file| file.write_back_error = None);
        self.pending.leaving().stir_all();
        let end = |file: u32| self.files[&file].map.end().max(self.files[&file].length.size());
        let ends = self.mapping.dirty_files(0).map(|file| (file, end(file))).collect();
        self.pacing.drain(Some(ends));
    }

    /// Whether everything that was dirty when a drain was last asked for has been written back since, as far
    /// as that can be.
    pub fn has_drained(&self) -> bool {
        let copies_below = self.pacing.round().and_then(DrainRound::copies_below);
        self.mapping.dirty_bytes() == 0 || copies_below.is_some_and(|end| self.copies.have_written_back(end))
    }

    /// The next extent of the round, if nothing holds it up.
    pub(crate) fn next_of_drain_round(&mut self) -> Option<(u32, Mapped)> {
        let next_copy = self.copies.next_id();
        let mut first = self.first_of(self.pacing.round()?);
        while first.is_none() && self.pacing.round_mut()?.end_pass(next_copy) {
            first = self.first_of(self.pacing.round()?);
        }
        first.filter(|(file, mapped)| self.obstacle(*file, mapped).is_none())
    }

    /// The first extent that the round has not come to.
    fn first_of(&self, round: &DrainRound) -> Option<(u32, Mapped)> {
        for (file, mut offset, end) in round.rest() {
            let Some(known) = self.files.get(&file).filter(|known| known.write_back_error.is_none()) else { continue };
            while let Some(mapped) = known.map.next_dirty(offset).filter(|mapped| mapped.range.offset < end) {
                if !self.is_untrusted(&mapped) {
                    return Some((file, mapped));
                }
                offset = mapped.range.end();
            }
        }
        None
    }
}
