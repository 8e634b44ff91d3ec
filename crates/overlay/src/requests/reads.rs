//! Where the bytes of a read lie: on flash, under a lease, or in the slow file.
//!
//! Who reads the slow file sees by the generation whether that was right (`protocol`'s `handshake`), so that it
//! holds nobody up: every extent that comes to flash and every write beneath clean bytes raises the generation
//! first. A read for which that happens again and again asks for a lease: on flash of whatever is there, as nothing
//! would tell it of writes beneath clean bytes, and on the slow file of the rest. Commits and fetches wait for that one
//! for a while.
//!
//! What is read on flash again is listed, so that threads read it without a question ([`crate::listings`]).

use crate::extent_map::Mapped;
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::pending::Reading;
use headstart_protocol::lease::Place;
use headstart_protocol::shared::{PIECES_MAX, Shared};
use headstart_units::request::Range;

impl Overlay {
    pub(crate) fn read(&mut self, shared: Shared<'_>, slot: u32, reading: Reading) -> Answer {
        let Reading { file, range, leased, access } = reading;
        if leased {
            // Nothing is committed under a lease on the slow file.
            self.close_granules(shared, file, range);
        }
        self.close_to_list(shared, file, range);
        let cell = &shared.slots[slot as usize];
        cell.forget_read();
        if !leased && let Some(part) = self.sooner_on_disk(shared, file, range) {
            self.note_read(file, part);
            return Answer::Sooner { length: part.length };
        }
        let mut next = range.offset;
        let mut pieces = Vec::new();
        for mapped in self.files[&file].map.overlapping(range) {
            if mapped.range.offset > next || pieces.len() == PIECES_MAX || self.is_untrusted(&mapped) {
                break;
            }
            pieces.push(mapped);
            next = mapped.range.end().min(range.end());
        }
        if pieces.is_empty() {
            let first = self.files[&file].map.overlapping(range).next();
            let until = first.map_or(range.end(), |mapped| mapped.range.offset);
            if until <= range.offset {
                return Answer::lost_bytes();
            }
            let hole = Range::between(range.offset, until);
            if leased {
                cell.grant_slow_read(hole);
                self.leases.note_slow_read(slot);
            }
            return Answer::Disk { length: hole.length };
        }
        cell.grant_flash_read(pieces.iter().map(|mapped| {
            let part = mapped.part(range);
            Place { file, data_file: part.data_file, place: part.place, length: part.range.length }
        }));
        self.leases.note_flash_read(slot);
        self.note_read(file, Range::between(range.offset, next));
        for mapped in &pieces {
            self.touch(file, mapped, access);
        }
        self.note_flash_read(shared, file, Range::between(range.offset, next));
        Answer::Flash { length: next - range.offset }
    }

    /// The first part of a read that flash has, if the disks answer it sooner and have the same: nothing of
    /// it is dirty, and nobody writes it, dead or alive. Before somebody does, the generation grows
    /// ([`Overlay::grant_direct`]), so that nobody reads older bytes on flash than were read here.
    fn sooner_on_disk(&mut self, shared: Shared<'_>, file: u32, range: Range) -> Option<Range> {
        let known = self.files.get_mut(&file)?;
        let first = known.map.overlapping(range).next().filter(|first| first.range.offset <= range.offset)?;
        if first.dirty || !known.sooner.prefers_disk(&shared.files[file as usize].read_times) {
            return None;
        }
        let other = |mapped: &Mapped| mapped.dirty || self.is_untrusted(mapped);
        let end =
            self.files[&file].map.overlapping(range).find(other).map_or(range.end(), |mapped| mapped.range.offset);
        let part = Range::between(range.offset, end);
        let is_written = self.leases.direct_overlaps(file, part)
            || self.leases.quarantines(file, part)
            || self.copies.within(file, part).next().is_some();
        (!part.is_empty() && !is_written).then_some(part)
    }
}
