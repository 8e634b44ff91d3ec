//! A start after anything: what the journal says, and what of it counts.
//!
//! | boot id of the journal | copy of its end in memory | decision |
//! |---|---|---|
//! | this boot | there | the agent died: every whole record counts |
//! | this boot | gone | the memory file was removed: only what a barrier covers |
//! | another boot | there or gone | power may have been lost: only what a barrier covers |
//!
//! Clean bytes of files that were open for writing are dropped: after power loss the slow file behind them
//! may hold something older. After the agent's death they could stay where the shared file is adopted; where
//! it is gone with its leases, the slow file may hold something newer.

mod listed;

use std::collections::BTreeMap;

use crate::extent_map::{Benefit, ExtentMap, Mapped};
use crate::fingerprint::Fingerprint;
use crate::flash_space::Run;
use crate::journal::{Extent, Identity, Record, records};
use crate::page_set::PageSet;
use crate::parts::data_files::nothing_of;
use crate::recency::Stamp;
use headstart_cluster::Log;
use headstart_policy::client::carl::Regions;
use headstart_units::request::Range;
use listed::Listing;

/// More than any member appends.
pub(crate) const APPENDED_EVER_MAX: u64 = 1 << 62;

/// What was found at a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The journal was written since the machine started.
    pub same_boot: bool,
    /// The memory file that holds appended records is there.
    pub tail_present: bool,
}

/// What counts of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Every whole record.
    Everything,
    /// Records before the position of the last whole barrier.
    ToLastBarrier,
}

impl Observation {
    /// The recovery table.
    pub fn decide(self) -> Replay {
        match (self.same_boot, self.tail_present) {
            (true, true) => Replay::Everything,
            (true, false) | (false, true) | (false, false) => Replay::ToLastBarrier,
        }
    }
}

/// One file as the journal leaves it.
#[derive(Clone, Debug)]
pub struct RecoveredFile {
    /// Who it is.
    pub identity: Identity,
    /// Where it was last.
    pub path: Vec<u8>,
    /// What is on flash.
    pub map: ExtentMap,
    /// It was open for writing.
    pub intent: bool,
    /// How the slow file looked when nobody had it open; none if it was written since, or never looked at.
    pub fingerprint: Option<Fingerprint>,
    /// Its last name was removed.
    pub unlinked: bool,
    /// It was gone when the file system gave its identity to a file that came later.
    pub followed: bool,
    /// What of it belongs on flash.
    pub regions: Regions,
}

impl RecoveredFile {
    /// The slow file could not be synced: what write-backs wrote there is written again.
    pub fn write_back_again(&mut self) {
        for mapped in self.map.iter().filter(|mapped| !mapped.dirty).collect::<Vec<_>>() {
            self.map.carve(mapped.range);
            self.map.put(Mapped { dirty: true, ..mapped });
        }
    }
}

/// What a journal says. Not an [`Overlay`](crate::Overlay) yet: nothing can be asked of it before it is adopted.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Files by number.
    pub files: BTreeMap<u32, RecoveredFile>,
    /// Data files and the file each belongs to.
    pub data_files: BTreeMap<u32, u32>,
    /// The last commit of each slot.
    pub last_commits: BTreeMap<u32, u64>,
    /// Pages whose sync failed.
    pub untrusted: BTreeMap<u32, Vec<Run>>,
    /// Pages written since the last barrier.
    pub(crate) uncovered: PageSet,
    /// Records that counted.
    pub records: usize,
    /// What it says of files that other members use.
    pub(crate) log: Log,
    listing: Listing,
    /// Bytes that the member had ever appended by the end of the journal.
    pub(crate) appended_ever: u64,
    /// The file that came last with each identity.
    latest: BTreeMap<Identity, u32>,
}

impl Recovered {
    /// Replays a journal's body.
    pub fn replay(body: &[u8], replay: Replay) -> Recovered {
        let covered = records(body)
            .filter_map(|(record, _)| match record {
                Record::Barrier { end } => Some(end),
                _ => None,
            })
            .last()
            .unwrap_or(0);
        let limit = match replay {
            Replay::Everything => u64::MAX,
            Replay::ToLastBarrier => covered,
        };
        let mut recovered = Recovered::default();
        for (record, end) in records(body) {
            if end > limit {
                break;
            }
            if end > covered {
                recovered.note_uncovered(&record);
            }
            recovered.list(&record);
            recovered.apply(record);
            recovered.records += 1;
        }
        // What does not count was appended all the same.
        let before = match records(body).next() {
            Some((Record::Origin { before, .. }, _)) => before,
            _ => 0,
        };
        recovered.appended_ever = before.saturating_add(body.len() as u64);
        recovered.distrust_clean_bytes();
        if replay == Replay::ToLastBarrier {
            // No writer lives, and the slow files are synced before the next checkpoint counts.
            recovered.files.values_mut().for_each(|file| file.intent = false);
        }
        recovered
    }

    /// Whether the journal can be one of ours: its files have numbers less than `files_max`, and every extent
    /// lies in a data file that has the bytes; `data_bytes` tells a data file's size. A journal that says
    /// something else, though its checksums are right, must not be adopted.
    pub fn is_plausible(&self, files_max: usize, data_bytes: impl Fn(u32) -> u64) -> bool {
        if self.data_files.contains_key(&u32::MAX) || self.appended_ever > APPENDED_EVER_MAX {
            return false; // the next one would have no number, or no position
        }
        let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
        self.files.iter().all(|(&number, file)| {
            (number as usize) < files_max
                && file.map.iter().all(|mapped| {
                    let size = *sizes.entry(mapped.data_file).or_insert_with(|| data_bytes(mapped.data_file));
                    mapped.place + mapped.range.length <= size
                })
        })
    }

    fn note_uncovered(&mut self, record: &Record) {
        let mut note = |data_file, place, length| self.uncovered.insert(Run::touching(data_file, place, length));
        match record {
            Record::Map { data_file, place, length, .. } | Record::Fetched { data_file, place, length, .. } => {
                note(*data_file, *place, *length);
            }
            Record::Extents { data_file, extents, .. } => {
                extents.iter().for_each(|extent| note(*data_file, extent.place, extent.length));
            }
            _ => {}
        }
    }

    pub(crate) fn apply(&mut self, record: Record) {
        match record {
            Record::File { file, identity, path } => match self.files.get_mut(&file) {
                Some(known) => known.path = path,
                None => self.add_file(file, identity, path),
            },
            Record::DataFile { file, data_file } => {
                self.data_files.insert(data_file, file);
            }
            Record::Map { file, offset, length, data_file, place, slot, seq } => {
                self.last_commits.insert(slot, seq);
                self.put(file, Range::new(offset, length), data_file, place, true);
            }
            Record::Fetched { file, offset, length, data_file, place } => {
                self.put(file, Range::new(offset, length), data_file, place, false);
            }
            Record::Extents { file, data_file, extents } => {
                for Extent { offset, length, place, dirty } in extents {
                    self.put(file, Range::new(offset, length), data_file, place, dirty);
                }
            }
            Record::Clean { file, offset, length, data_file, place } => {
                self.set_clean(file, Range::new(offset, length), data_file, place);
            }
            Record::Drop { file, offset, length } => self.carve(file, Range::new(offset, length)),
            Record::Truncate { file, size } => self.carve(file, Range::new(size, u64::MAX)),
            Record::Intent { file } => {
                self.set_intent(file, true);
                self.set_fingerprint(file, None);
            }
            Record::Closed { file } => self.set_intent(file, false),
            Record::Remove { file } => self.remove_file(file),
            Record::LastCommit { slot, seq } => {
                self.last_commits.insert(slot, seq);
            }
            Record::Fingerprint { file, size, modified_ns } => {
                self.set_fingerprint(file, Some(Fingerprint { size, modified_ns }));
            }
            Record::Untrusted { data_file, page, pages } => {
                self.untrusted.entry(data_file).or_default().push(Run { data_file, page, pages });
            }
            Record::Unlinked { file } => {
                if let Some(known) = self.files.get_mut(&file) {
                    known.unlinked = true;
                }
            }
            Record::Wanted { file, region } => {
                if let Some(known) = self.files.get_mut(&file) {
                    known.regions.put(region);
                }
            }
            Record::Unwanted { file, offset, length } => {
                if let Some(known) = self.files.get_mut(&file) {
                    known.regions.remove(Range::new(offset, length));
                }
            }
            Record::Epoch { .. }
            | Record::Ordered { .. }
            | Record::Copying { .. }
            | Record::Copied { .. }
            | Record::Gone { .. } => {}
            Record::Barrier { .. } | Record::Origin { .. } => {}
        }
    }

    fn add_file(&mut self, file: u32, identity: Identity, path: Vec<u8>) {
        let earlier = self.latest.insert(identity, file).and_then(|earlier| self.files.get_mut(&earlier));
        if let Some(earlier) = earlier {
            earlier.followed = true;
        }
        let known = RecoveredFile {
            identity,
            path,
            map: ExtentMap::default(),
            intent: false,
            fingerprint: None,
            unlinked: false,
            followed: false,
            regions: Regions::default(),
        };
        self.files.insert(file, known);
    }

    fn remove_file(&mut self, file: u32) {
        if let Some(removed) = self.files.remove(&file)
            && self.latest.get(&removed.identity) == Some(&file)
        {
            self.latest.remove(&removed.identity);
        }
    }

    /// A write-back counts only where its place is still the mapped one.
    fn set_clean(&mut self, file: u32, range: Range, data_file: u32, place: u64) {
        let Some(known) = self.files.get_mut(&file) else { return };
        let same = |mapped: &Mapped| mapped.same_place(data_file, range.offset, place);
        let clean: Vec<Mapped> = known.map.overlapping(range).filter(same).collect();
        clean.iter().for_each(|mapped| known.map.set_clean(mapped.range.offset));
    }

    fn set_fingerprint(&mut self, file: u32, fingerprint: Option<Fingerprint>) {
        if let Some(known) = self.files.get_mut(&file) {
            known.fingerprint = fingerprint;
        }
    }

    fn set_intent(&mut self, file: u32, intent: bool) {
        if let Some(known) = self.files.get_mut(&file) {
            known.intent = intent;
        }
    }

    fn carve(&mut self, file: u32, range: Range) {
        if let Some(known) = self.files.get_mut(&file) {
            known.map.carve(range);
        }
    }

    fn put(&mut self, file: u32, range: Range, data_file: u32, place: u64, dirty: bool) {
        if range.is_empty() || place.checked_add(range.length).is_none() {
            return;
        }
        if let Some(known) = self.files.get_mut(&file) {
            known.map.carve(range);
            let (stamp, benefit) = (Stamp::default(), Benefit::default());
            let mapped = Mapped { range, data_file, place, dirty, stamp, benefit };
            mapped.parts().for_each(|part| known.map.put(part));
        }
    }

    fn distrust_clean_bytes(&mut self) {
        for file in self.files.values_mut().filter(|file| file.intent) {
            let clean: Vec<Range> = file.map.iter().filter(|mapped| !mapped.dirty).map(|mapped| mapped.range).collect();
            clean.into_iter().for_each(|range| {
                file.map.carve(range);
            });
        }
    }

    /// A data file could not be synced: what was written to it since the last barrier is not trusted.
    pub fn distrust(&mut self, data_file: u32) {
        let lost: Vec<Run> =
            [nothing_of(data_file)].into_iter().chain(self.uncovered.of_data_file(data_file)).collect();
        for known in self.files.values_mut() {
            let touched = |mapped: &Mapped| !mapped.dirty && mapped.data_file == data_file;
            // Clean bytes are on the disk as well.
            for mapped in known.map.iter().filter(touched).collect::<Vec<_>>() {
                known.map.carve(mapped.range);
            }
        }
        self.untrusted.entry(data_file).or_default().extend(lost);
    }

    /// Whether bytes of an extent may not be what was written, as a page could not be synced.
    pub fn is_untrusted(&self, mapped: &Mapped) -> bool {
        let pages = Run::touching(mapped.data_file, mapped.place, mapped.range.length);
        self.untrusted.get(&mapped.data_file).is_some_and(|runs| runs.iter().any(|run| run.overlaps(pages)))
    }

    /// Bytes on flash that the disk does not have.
    pub fn dirty_bytes(&self) -> u64 {
        let maps = self.files.values().map(|file| &file.map);
        maps.flat_map(|map| map.iter()).filter(|mapped| mapped.dirty).map(|mapped| mapped.range.length).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::Overlay;
    use std::collections::BTreeSet;

    use crate::journal::{HEADER_BYTES, Journal};
    use crate::settings::Settings;
    use headstart_cluster::MemberId;
    use headstart_protocol::memory::Memory;

    fn body(records: &[Record]) -> Vec<u8> {
        let mut journal = Journal::default();
        records.iter().for_each(|record| journal.append(record));
        journal.take()
    }

    fn file() -> Record {
        Record::File { file: 1, identity: Identity::default(), path: b"/slow/a".to_vec() }
    }

    fn map(offset: u64, place: u64) -> Record {
        Record::Map { file: 1, offset, length: 10, data_file: 1, place, slot: 3, seq: place }
    }

    #[test]
    fn a_clean_record_counts_only_where_its_place_is_still_mapped() {
        let clean = Record::Clean { file: 1, offset: 0, length: 10, data_file: 1, place: 4096 };
        let newer = body(&[file(), map(0, 4096), map(0, 8192), clean.clone()]);
        assert_eq!(Recovered::replay(&newer, Replay::Everything).dirty_bytes(), 10);
        let split = body(&[file(), map(0, 4096), map(4, 8192 + 4), clean]);
        assert_eq!(
            Recovered::replay(&split, Replay::Everything).dirty_bytes(),
            10,
            "only the first four bytes are clean"
        );
    }

    #[test]
    fn power_loss_keeps_what_a_barrier_covers_and_drops_clean_bytes_of_files_being_written() {
        let fetched = Record::Fetched { file: 1, offset: 100, length: 10, data_file: 1, place: 4196 };
        let mut records = vec![file(), Record::Intent { file: 1 }, map(0, 4096), fetched];
        let end = super::super::journal::HEADER_BYTES as u64 + body(&records).len() as u64;
        records.push(Record::Barrier { end });
        records.push(map(200, 8192 + 200));
        let lost = Recovered::replay(&body(&records), Replay::ToLastBarrier);
        assert_eq!(lost.files[&1].map.iter().map(|m| m.range.offset).collect::<Vec<_>>(), vec![0]);
        let killed = Recovered::replay(&body(&records), Replay::Everything);
        let kept: Vec<u64> = killed.files[&1].map.iter().map(|m| m.range.offset).collect();
        assert_eq!(kept, vec![0, 200], "a direct write may have gone on behind the clean bytes");
        assert_eq!(killed.last_commits[&3], 8192 + 200);
    }

    #[test]
    fn positions_told_to_others_rise_over_journals_and_starts_whatever_counts_of_them() {
        let member = MemberId { node: 3, life: 1 };
        let mut journal = body(&[file(), map(0, 4096), map(20, 8192 + 20)]);
        let mut before = 0;
        for replay in [Replay::Everything, Replay::ToLastBarrier, Replay::Everything] {
            let memory = Memory::new(8, 1, 4);
            let recovered = Recovered::replay(&journal, replay);
            let appended = before + journal.len() as u64;
            assert_eq!(recovered.appended_ever, appended);
            let settings = Settings { member, ..Settings::default() };
            let mut overlay =
                Overlay::adopt(settings, recovered, memory.view(), &BTreeMap::from([(1, 0)]), &BTreeSet::new());
            journal = overlay.checkpoint(HEADER_BYTES as u64);
            assert_eq!(
                records(&journal).next().map(|(record, _)| record),
                Some(Record::Origin { member, before: appended })
            );
            let rotated = overlay.begin_journal(HEADER_BYTES as u64);
            before = appended + journal.len() as u64;
            assert_eq!(records(&rotated).next().map(|(record, _)| record), Some(Record::Origin { member, before }));
            journal = rotated;
        }
    }

    #[test]
    fn a_position_that_no_member_reaches_is_not_plausible() {
        let origin = |before| body(&[Record::Origin { member: MemberId { node: 0, life: 0 }, before }]);
        let is_plausible = |before| Recovered::replay(&origin(before), Replay::Everything).is_plausible(8, |_| 0);
        assert!(is_plausible(1 << 50) && !is_plausible(u64::MAX));
    }

    #[test]
    fn that_a_file_was_unlinked_is_known_after_a_restart() {
        let records = [file(), map(0, 4096), Record::Unlinked { file: 1 }];
        assert!(Recovered::replay(&body(&records), Replay::Everything).files[&1].unlinked);
        assert!(!Recovered::replay(&body(&records[..2]), Replay::Everything).files[&1].unlinked);
    }

    #[test]
    fn of_two_files_with_one_identity_the_later_has_it_over_any_number_of_starts() {
        for (gone, later) in [(2, 5), (5, 2)] {
            let named = |file| Record::File { file, identity: Identity::default(), path: b"/slow/a".to_vec() };
            let unlinked = |file| Record::Unlinked { file };
            let mut journal = body(&[named(gone), unlinked(gone), named(later), unlinked(later)]);
            for _ in 0..3 {
                let memory = Memory::new(8, 1, 4);
                let recovered = Recovered::replay(&journal, Replay::Everything);
                // A process has the later file open: under the identity both seem to be there.
                let sizes = BTreeMap::from([(gone, 0), (later, 0)]);
                let mut overlay =
                    Overlay::adopt(Settings::default(), recovered, memory.view(), &sizes, &BTreeSet::new());
                assert_eq!(overlay.find(Identity::default()), Some(later));
                journal = overlay.begin_journal(0);
            }
        }
    }

    #[test]
    fn a_file_that_was_followed_is_not_taken_for_the_later_one_that_the_agent_has_forgotten() {
        let (gone, later) = (2, 5);
        let named = |file| Record::File { file, identity: Identity::default(), path: b"/slow/a".to_vec() };
        let mut journal =
            body(&[named(gone), Record::Unlinked { file: gone }, named(later), Record::Remove { file: later }]);
        for _ in 0..3 {
            let memory = Memory::new(8, 1, 4);
            // Until a barrier has cleared it the file stays.
            memory.view().announce(gone, Range::new(0, 1));
            let recovered = Recovered::replay(&journal, Replay::Everything);
            // The later file is there: under the identity the one that is gone seems to be.
            let sizes = BTreeMap::from([(gone, 0)]);
            let mut overlay = Overlay::adopt(Settings::default(), recovered, memory.view(), &sizes, &BTreeSet::new());
            assert!(overlay.files[&gone].names.is_unlinked());
            assert_eq!(overlay.find(Identity::default()), None);
            journal = overlay.begin_journal(0);
        }
    }

    #[test]
    fn the_recovery_table_trusts_appended_records_only_after_a_mere_death_of_the_agent() {
        for same_boot in [false, true] {
            for tail_present in [false, true] {
                let expected = if same_boot && tail_present { Replay::Everything } else { Replay::ToLastBarrier };
                assert_eq!(Observation { same_boot, tail_present }.decide(), expected);
            }
        }
    }
}
