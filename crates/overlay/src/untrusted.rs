//! Syncs that fail. The kernel then forgets the bytes that were not durable: reads may still see them, a
//! later sync succeeds without them. So no later barrier may vouch for them.
//!
//! - **A data file** whose sync failed is used no more: nothing new is committed to it. What was mapped in it
//!   since the last barrier is *untrusted*, for ever and in the journal too: it is neither read nor written
//!   back, an fsync of its file fails, until the program writes the range anew, cuts it off or removes the
//!   file. What a barrier covered before stays good.
//! - **A slow file** whose sync failed is written again: what is clean on flash since write-backs becomes
//!   dirty, also where it was evicted since and no barrier has freed its place. Bytes that a program wrote to
//!   the disk itself share the fate of any write to a disk that fails: fsync says so, once.

use crate::extent_map::Mapped;
use crate::file::File;
use crate::flash_space::Run;
use crate::journal::{Extent, Record};
use crate::output::NotSynced;
use crate::overlay::Overlay;
use crate::recency::Access;
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

impl Overlay {
    /// A barrier could not sync these files.
    pub(crate) fn distrust(&mut self, shared: Shared<'_>, failed: &NotSynced) {
        for (data_file, pages) in self.barrier.take_unsynced_pages(failed) {
            self.retire(data_file);
            for record in self.data_files.distrust(data_file, pages) {
                self.append(&record);
            }
            self.drop_untrusted_clean(data_file);
            if let Some(owner) = self.data_files.owner(data_file) {
                self.listings.changed(owner, Range::new(0, u64::MAX));
            }
            self.copies.cancel_data_file(data_file);
            // One that is copied and waits to be published is named by no record yet.
            self.fetches.cancel_data_file(data_file);
        }
        for &file in &failed.slow_files {
            self.write_back_again(shared, file);
        }
    }

    /// Nothing new goes to the data file.
    fn retire(&mut self, data_file: u32) {
        self.space.retire(data_file);
        self.data_files.retire(data_file);
        for file in self.files.values_mut().filter(|file| file.data_file == Some(data_file)) {
            file.data_file = None;
        }
    }

    /// Clean bytes are on the disk as well.
    fn drop_untrusted_clean(&mut self, data_file: u32) {
        let Some(owner) = self.data_files.owner(data_file) else { return };
        let Some(known) = self.files.get(&owner) else { return };
        let clean: Vec<Mapped> = known.map.iter().filter(|mapped| !mapped.dirty && self.is_untrusted(mapped)).collect();
        for mapped in clean {
            self.evict(owner, &mapped);
            // Unless the disk fails as well.
            self.mapping.evicted().remember(owner, mapped);
        }
    }

    fn write_back_again(&mut self, shared: Shared<'_>, file: u32) {
        let Some(known) = self.files.get(&file).filter(|known| known.written_back) else { return };
        let clean: Vec<Mapped> = known.map.iter().filter(|mapped| !mapped.dirty).collect();
        if let Some(round) = self.pacing.round_mut() {
            round.rewind((file, 0));
        }
        for mapped in clean {
            let Range { offset, length } = mapped.range;
            let extents = vec![Extent { offset, length, place: mapped.place, dirty: true }];
            self.append(&Record::Extents { file, data_file: mapped.data_file, extents });
            self.set_dirty(file, &mapped);
        }
        let bypassed = self.is_kept_off() || self.files[&file].users.bypass_us() || !self.sharing.is_alone(file);
        for mapped in self.mapping.evicted().take(file) {
            if bypassed || self.files[&file].map.touches(mapped.range) {
                continue;
            }
            let Range { offset, length } = mapped.range;
            let extents = vec![Extent { offset, length, place: mapped.place, dirty: true }];
            self.append(&Record::Extents { file, data_file: mapped.data_file, extents });
            self.space.reclaim(Run::touching(mapped.data_file, mapped.place, length));
            self.map_in(shared, file, Mapped { dirty: true, ..mapped }, Access::Sequential);
        }
    }

    /// Whether the extent's bytes may not be what was written.
    pub(crate) fn is_untrusted(&self, mapped: &Mapped) -> bool {
        self.data_files.is_untrusted(Run::touching(mapped.data_file, mapped.place, mapped.range.length))
    }

    /// Whether bytes of `range` are lost.
    pub(crate) fn has_untrusted(&self, file: u32, range: Range) -> bool {
        let lost = |known: &File| known.map.overlapping(range).any(|mapped| self.is_untrusted(&mapped));
        self.data_files.any_failed() && self.files.get(&file).is_some_and(lost)
    }
}
