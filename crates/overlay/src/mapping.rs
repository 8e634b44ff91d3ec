//! Changes of what is mapped: each goes through here, so that space, granules and accounts follow.

use crate::extent_map::Mapped;
use crate::flash_space::Run;
use crate::overlay::Overlay;
use crate::recency::{Access, Stamp};
use headstart_protocol::counters::Dropped;
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

impl Overlay {
    /// Adds an extent where nothing is mapped; it was used just now. Who reads the slow file there sees it grow first.
    pub(crate) fn map_in(&mut self, shared: Shared<'_>, file: u32, mapped: Mapped, access: Access) {
        shared.raise_generation(file, mapped.range);
        self.listings.changed(file, mapped.range);
        for part in mapped.parts() {
            let stamp = self.stamp(file, part.range.offset, access);
            let part = Mapped { stamp, ..part };
            self.space.hold(Run::touching(part.data_file, part.place, part.range.length));
            self.file(file).map.put(part);
            self.enlist(file, &part);
        }
    }

    /// Removes what is mapped of `range`. The record that says so has been appended.
    pub(crate) fn carve(&mut self, file: u32, range: Range, why: Dropped) {
        self.listings.changed(file, range);
        let known = self.file(file);
        let change = known.map.carve(range);
        if known.map.is_empty() && !known.users.are_there() {
            self.files.forget_after_barrier(file);
        }
        for kept in &change.kept {
            self.space.hold(Run::touching(kept.data_file, kept.place, kept.range.length));
            self.enlist(file, kept);
            let held = self.files[&file].placed.holding(kept.range.offset).is_some();
            if held != kept.stamp.is_kept() {
                let stamp = self.stamp(file, kept.range.offset, Access::Random);
                self.restamp(file, kept, stamp);
            }
        }
        for removed in &change.removed {
            *self.outbox.counters.dropped(why) += removed.range.intersection(range).length;
            self.delist(file, removed);
            self.space.release(Run::touching(removed.data_file, removed.place, removed.range.length));
            self.granules.emptied(file, removed.range.intersection(range), self.outbox.journal_end());
        }
    }

    /// The disk has the bytes of this extent.
    pub(crate) fn set_clean(&mut self, file: u32, mapped: &Mapped) {
        self.file(file).map.set_clean(mapped.range.offset);
        self.delist(file, mapped);
        self.enlist(file, &Mapped { dirty: false, ..*mapped });
    }

    /// The disk may have lost the bytes of this clean extent.
    pub(crate) fn set_dirty(&mut self, file: u32, mapped: &Mapped) {
        let dirty = Mapped { dirty: true, ..*mapped };
        let map = &mut self.file(file).map;
        map.carve(mapped.range);
        map.put(dirty);
        self.delist(file, mapped);
        self.enlist(file, &dirty);
    }

    /// An extent is in the map now.
    fn enlist(&mut self, file: u32, mapped: &Mapped) {
        self.mapping.enlist(file, mapped);
        if mapped.dirty {
            self.file(file).dirty_bytes += mapped.range.length;
        }
    }

    /// An extent is no longer in the map.
    fn delist(&mut self, file: u32, mapped: &Mapped) {
        let known = self.file(file);
        if mapped.dirty {
            known.dirty_bytes -= mapped.range.length;
        }
        let (left, left_dirty) = (known.map.len(), known.map.dirty());
        self.mapping.delist(file, mapped, left, left_dirty);
    }

    /// A use of an extent: it becomes one of the most recent.
    pub(crate) fn touch(&mut self, file: u32, mapped: &Mapped, access: Access) {
        let stamp = self.mapping.stamp_use(access);
        if stamp.generation <= mapped.stamp.at(stamp.folds).generation {
            return;
        }
        self.restamp(file, mapped, stamp);
    }

    pub(crate) fn restamp(&mut self, file: u32, mapped: &Mapped, stamp: Stamp) {
        self.mapping.restamp(mapped, stamp);
        self.file(file).map.set_stamp(mapped.range.offset, stamp);
    }

    /// The clean extent to evict next: one of those least recently used.
    pub(crate) fn least_recently_used(&mut self) -> Option<(u32, Mapped)> {
        let files = &mut self.files;
        self.mapping.least_recently_used(|file, offset, limit| files.get_mut(&file)?.map.oldest(offset, limit))
    }

    /// Whether any byte of `range` is dirty.
    pub(crate) fn is_dirty(&self, file: u32, range: Range) -> bool {
        let map = &self.files[&file].map;
        let first = map.overlapping(range).next();
        first.is_some_and(|mapped| mapped.dirty)
            || map.next_dirty(range.offset).is_some_and(|mapped| mapped.range.overlaps(range))
    }

    /// The first dirty extent that begins between two positions, each a file and an offset.
    pub(crate) fn next_dirty(&self, from: (u32, u64), until: (u32, u64)) -> Option<(u32, Mapped)> {
        let after = self.mapping.dirty_files(from.0).map(|file| (file, if file == from.0 { from.1 } else { 0 }));
        let mut found = after.filter_map(|(file, offset)| Some((file, self.files[&file].map.next_dirty(offset)?)));
        found.next().filter(|(file, mapped)| (*file, mapped.range.offset) < until)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::extent_map::Benefit;
    use crate::file::File;
    use crate::journal::Identity;
    use crate::settings::Settings;
    use headstart_protocol::memory::Memory;

    const FILES: u32 = 3;

    /// What these tests do not look at.
    fn memory() -> Memory {
        Memory::new(FILES as usize, 0, 0)
    }

    fn overlay() -> Overlay {
        let mut overlay = Overlay::new(Settings::default(), 0, 1);
        for number in 0..FILES {
            overlay.files.insert(number, File::new(Identity::default(), Vec::new(), 0));
        }
        overlay
    }

    /// Where extent `k` lies.
    fn address(k: u64) -> (u32, u64) {
        ((k % u64::from(FILES)) as u32, k / u64::from(FILES) * 8192)
    }

    fn put(overlay: &mut Overlay, k: u64, dirty: bool) {
        let (file, offset) = address(k);
        let (range, place) = (Range::new(offset, 4096), offset / 2);
        let (stamp, benefit) = (Stamp::default(), Benefit::HIGHEST);
        let memory = memory();
        overlay.map_in(
            memory.view(),
            file,
            Mapped { range, data_file: file, place, dirty, stamp, benefit },
            Access::Sequential,
        );
    }

    fn mapped(overlay: &Overlay, k: u64) -> Option<Mapped> {
        let (file, offset) = address(k);
        overlay.files[&file].map.at(offset)
    }

    fn touch(overlay: &mut Overlay, k: u64) {
        let extent = mapped(overlay, k).expect("it is mapped");
        overlay.touch(address(k).0, &extent, Access::Sequential);
    }

    #[test]
    fn extents_in_use_survive_a_scan_of_many_times_as_many() {
        let (hot, room) = (200, 2000);
        let mut overlay = overlay();
        (0..hot).for_each(|k| put(&mut overlay, k, false));
        for k in hot..50_000 {
            if overlay.extents() >= room {
                let (file, oldest) = overlay.least_recently_used().unwrap();
                overlay.evict(file, &oldest);
            }
            put(&mut overlay, k, false);
            if k % 4 == 0 {
                touch(&mut overlay, k / 4 % hot);
            }
        }
        assert_eq!(overlay.extents(), room);
        assert!((0..hot).all(|k| mapped(&overlay, k).is_some()));
    }

    #[test]
    fn extents_used_out_of_sequence_are_evicted_after_sequential_ones_used_later() {
        let room = 1000;
        let mut overlay = overlay();
        (0..2 * room).for_each(|k| put(&mut overlay, k, false));
        for k in 0..2 * room {
            let access = if k < room { Access::Random } else { Access::Sequential };
            let extent = mapped(&overlay, k).unwrap();
            overlay.touch(address(k).0, &extent, access);
        }
        for _ in 0..room {
            let (file, oldest) = overlay.least_recently_used().unwrap();
            overlay.evict(file, &oldest);
        }
        assert!((0..room).all(|k| mapped(&overlay, k).is_some()));
        assert!((room..2 * room).all(|k| mapped(&overlay, k).is_none()));
    }

    #[test]
    fn clean_extents_leave_in_the_order_of_their_last_use_to_a_16th_of_their_number() {
        let count = 6000u64;
        let mut overlay = overlay();
        let mut last_use = BTreeMap::new();
        let mut uses = 0;
        for step in 0..count {
            let k = step * 7919 % count;
            put(&mut overlay, k, k.is_multiple_of(5));
            uses += 1;
            for touched in [k, (step * step) % (step + 1) * 7919 % count] {
                uses += 1;
                touch(&mut overlay, touched);
                last_use.insert(address(touched), uses);
            }
        }
        // Those that become clean keep the order of their use.
        for k in (0..count).step_by(10) {
            let extent = mapped(&overlay, k).unwrap();
            overlay.set_clean(address(k).0, &extent);
        }
        let mut evicted = 0;
        let mut newest = 0;
        while let Some((file, extent)) = overlay.least_recently_used() {
            let used = last_use[&(file, extent.range.offset)];
            assert!(used + count / 16 >= newest, "use {used} of {uses} after {newest}");
            newest = newest.max(used);
            overlay.evict(file, &extent);
            evicted += 1;
        }
        assert_eq!((evicted, overlay.extents() as u64), (count * 9 / 10, count / 10), "dirty extents stay");
        assert!(overlay.mapping.nothing_is_clean());
    }

    #[test]
    fn dirty_extents_are_found_in_address_order_over_all_files() {
        let mut overlay = overlay();
        (0..900).for_each(|k| put(&mut overlay, k, k % 7 == 0));
        let mut expected: Vec<(u32, u64)> = (0..900).step_by(7).map(address).collect();
        expected.sort_unstable();
        let (mut found, mut from) = (Vec::new(), (0, 0));
        while let Some((file, extent)) = overlay.next_dirty(from, (u32::MAX, 0)) {
            found.push((file, extent.range.offset));
            from = (file, extent.range.offset + 1);
            overlay.set_clean(file, &extent);
        }
        assert_eq!(found, expected);
        assert!(overlay.mapping.dirty_files(0).next().is_none() && overlay.dirty_bytes() == 0);
    }
}
