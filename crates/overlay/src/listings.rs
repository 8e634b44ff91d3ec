//! Reads of flash that ask nobody: which granules are listed for them, and until when
//! ([`headstart_protocol::listing`]).
//!
//! | when | what becomes of listings |
//! |---|---|
//! | a read is answered from flash, the second one of its granule while nothing changed there | the granule is listed with the answer, if it is not open |
//! | that read finds the granule open, and nothing was pushed there since the one before | it is closed first |
//! | an extent comes to the map or leaves it, for whatever reason | that of its granule ends, before anything is visible that rests on it |
//! | a granule is opened | those of all granules that share its word end |
//! | flash is not trusted any more, the disks answer sooner, the agent ends | those of the file, or all |
//! | an agent starts | all end, before anything else |
//!
//! All changes of the map go through `map_in` and `carve`, which note them; [`Overlay::on_appended`] and the opening of a
//! granule show the ends, and nothing else shows threads what changed. A listing is filled when the answer of the read
//! is sent, by when the records are appended that it rests on; a change between the two takes that back.
//!
//! **Direct writes.** Bytes on flash are read, listed or not, until the end of the write drops them. That nobody reads
//! newer bytes in the slow file before, and then older ones here, rests on the generation: it grows before the write is
//! granted, so that a read of clean bytes from the disk that met any of it does not count; and none is sent there while
//! the write is under way. So whoever has read newer bytes did it after the drop, which ended the listing.

use crate::output::Output;
use crate::overlay::Overlay;
use crate::parts::listings::Granule;
use crate::recency::Access;
use headstart_protocol::lease::Place;
use headstart_protocol::listing::EXTENTS_MAX;
use headstart_protocol::shared::Shared;
use headstart_units::GRANULE_BYTES;
use headstart_units::request::Range;

/// A read that is answered over more granules than this gains nothing from being listed: its question is a small part
/// of it (assumed).
const GRANULES_MAX: u64 = 2;
/// Listings whose uses are looked at in one poll, and extents that are touched for it (assumed: a fraction of a
/// millisecond).
const SWEEP_LISTINGS: usize = 256;
const SWEEP_EXTENTS: usize = 4096;

impl Overlay {
    /// Before the places of a read are looked up: closes its granules where they may be worth a listing with this read.
    pub(crate) fn close_to_list(&mut self, shared: Shared<'_>, file: u32, range: Range) {
        if range.is_empty() {
            return;
        }
        let granule = Granule::of(file, range.offset);
        if self.listings.was_read(granule) && self.rings.is_open(file, granule.word) {
            self.close_granules(shared, file, granule.range());
        }
    }

    /// Bytes of `range` are read on flash, as the agent says: those read again are listed.
    pub(crate) fn note_flash_read(&mut self, shared: Shared<'_>, file: u32, range: Range) {
        let (first, last) = (range.offset / GRANULE_BYTES, range.end().saturating_sub(1) / GRANULE_BYTES);
        let is_sooner = self.file(file).sooner.is_disk(&shared.files[file as usize].read_times);
        if is_sooner || last.saturating_sub(first) >= GRANULES_MAX {
            return;
        }
        for number in first..=last {
            let granule = Granule::of(file, number * GRANULE_BYTES);
            let Some(index) = shared.listing_of(file, number) else { return };
            if self.listings.note_read(index, granule) && !self.rings.is_open(file, granule.word) {
                self.listings.want(index, granule, range.offset.max(granule.range().offset));
                self.outbox.push(Output::List(index));
            }
        }
    }

    /// The listing has memory, and what was appended before is stored: it is filled, if nothing has changed since that
    /// was wanted.
    pub fn list(&mut self, shared: Shared<'_>, index: u32) {
        let Some((granule, offset)) = self.listings.begin(index) else { return };
        let Granule { file, word, .. } = granule;
        assert!(!self.rings.is_open(file, word), "what is pushed is not in the map");
        let all = granule.range();
        let map = &self.files[&file].map;
        let is_too_much = map.overlapping(all).nth(EXTENTS_MAX).is_some();
        let range = Range::between(if is_too_much { offset } else { all.offset }, all.end());
        let trusted = map.overlapping(range).filter(|mapped| !self.is_untrusted(mapped));
        let extents = trusted.map(|mapped| {
            let part = mapped.part(all);
            (part.range.offset, Place { file, data_file: part.data_file, place: part.place, length: part.range.length })
        });
        shared.fill_listing(index, file, granule.number(), extents);
        self.outbox.counters.listings_total += 1;
    }

    /// What was read by listings was used, and is read by programs; those of files that the disks answer sooner end.
    pub(crate) fn hear_of_listed_reads(&mut self, shared: Shared<'_>) {
        let mut extents = 0;
        for (index, granule) in self.listings.next_listed(SWEEP_LISTINGS) {
            let (file, bytes) = (granule.file, granule.range());
            let uses = shared.take_uses(index);
            if uses.is_empty() {
                continue;
            }
            if self.file(file).sooner.is_disk(&shared.files[file as usize].read_times) {
                self.listings.changed(file, Range::new(0, u64::MAX));
                continue;
            }
            for (read, in_order) in uses.ranges(bytes.offset) {
                self.note_read(file, read);
                let used: Vec<_> = self.files[&file].map.overlapping(read).collect();
                extents += used.len();
                let access = Access::of(in_order);
                used.iter().for_each(|mapped| self.touch(file, mapped, access));
            }
            if extents > SWEEP_EXTENTS {
                break;
            }
        }
        self.listings.show_ends(shared);
    }

    /// Nobody reads anything without a question any more.
    pub(crate) fn end_listings(&mut self, shared: Shared<'_>) {
        self.listings.end_all();
        self.listings.show_ends(shared);
    }
}
