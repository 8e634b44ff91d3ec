//! Bytes moved between the tiers: write-back (flash to disk) and fetch (disk to flash).
//!
//! Write-back takes dirty extents in address order, coalesced; a direct write waits for it, a commit may overtake it, and its
//! `Clean` record counts only where the place is still the mapped one. A fetch yields to all: whoever writes cancels it.

use std::sync::atomic::Ordering;

use super::extent_map::Mapped;
use super::flash_space::{PAGE_BYTES, Run};
use super::journal::Record;
use super::{CopyKind, CopyOrder, CopyPiece, Output, Overlay};
use crate::policy::s4d::Critical;
use crate::protocol::shared::{LEASE_DIRECT_WRITE, LEASE_SLOW_READ, STATE_CHEAP, Shared};
use crate::request::Range;

/// A copy under way.
#[derive(Clone, Debug)]
pub(super) struct CopyState {
    pub(super) kind: CopyKind,
    pub(super) file: u32,
    pub(super) range: Range,
    pub(super) pieces: Vec<CopyPiece>,
    pub(super) cancelled: bool,
}

/// How far a fetch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchStep {
    /// Waits until nobody is at the slow file without the agent's knowledge.
    Settling,
    /// The runtime copies; its number.
    Copying,
    /// Copied; waits until no slow read overlaps.
    Publishing,
}

/// A fetch under way.
#[derive(Clone, Debug)]
pub(super) struct Fetch {
    pub(super) file: u32,
    pub(super) range: Range,
    run: Run,
    place: u64,
    benefit_per_kib: u32,
    step: FetchStep,
    copy: u64,
    cancelled: bool,
}

impl Overlay {
    /// Requests at the disks now, as the slots show them.
    fn foreground_disk_requests(shared: Shared<'_>) -> usize {
        shared
            .used_slots()
            .iter()
            .filter(|slot| {
                let lease = slot.lease.load(Ordering::Relaxed);
                slot.state.load(Ordering::Relaxed) == STATE_CHEAP
                    || lease == LEASE_SLOW_READ
                    || lease == LEASE_DIRECT_WRITE
            })
            .count()
    }

    /// Starts write-backs and fetches as far as their pace allows.
    pub(super) fn plan_copies(&mut self, shared: Shared<'_>) {
        self.advance_fetches(shared);
        let idle = self.dirty.is_empty() && self.critical.is_empty();
        if idle {
            self.pace.active = false;
            return;
        }
        let foreground = Self::foreground_disk_requests(shared);
        let urgent: Vec<(u32, Range)> =
            self.pending.iter().filter_map(|pending| pending.wants_written_back()).collect();
        for (file, range) in urgent {
            while self.copies.len() < self.settings.copies_max && self.write_back_in(file, range) {}
        }
        let capacity = self.space.capacity_bytes();
        let limit = self.pace.limit(&self.settings, self.dirty_bytes, capacity, foreground);
        while self.copies.len() < limit && self.write_back_next() {}
        self.plan_fetches(shared, foreground);
    }

    fn write_back_in(&mut self, file: u32, range: Range) -> bool {
        let first = self.files[&file].map.overlapping(range).find(|m| m.dirty && self.may_write_back(file, m));
        first.is_some_and(|mapped| self.start_write_back(file, mapped))
    }

    /// Starts the next write-back in address order, from where the last one ended; false if there is none.
    fn write_back_next(&mut self) -> bool {
        let cursor = self.pace.cursor;
        let next = self.dirty.range(cursor..).chain(self.dirty.range(..cursor)).find_map(|&(file, offset)| {
            let mapped = self.files[&file].map.at(offset).expect("the dirty list names extents");
            self.may_write_back(file, &mapped).then_some((file, mapped))
        });
        next.is_some_and(|(file, mapped)| self.start_write_back(file, mapped))
    }

    fn may_write_back(&self, file: u32, mapped: &Mapped) -> bool {
        self.files[&file].write_back_error.is_none()
            && self.files[&file].extension.is_none()
            && !self.direct_overlaps(file, mapped.range)
            && !self.copies.values().any(|copy| copy.file == file && copy.range.overlaps(mapped.range))
    }

    /// Writes `first` back with the dirty extents that follow it without a gap.
    fn start_write_back(&mut self, file: u32, first: Mapped) -> bool {
        let mut pieces = vec![piece_of(&first)];
        let mut end = first.range.end();
        let limit = first.range.offset.saturating_add(self.settings.write_back_bytes_max);
        let following = Range::between(end, limit);
        for mapped in self.files[&file].map.overlapping(following) {
            let fits = mapped.range.offset == end && mapped.range.end() <= limit;
            if !fits || !mapped.dirty || !self.may_write_back(file, &mapped) {
                break;
            }
            pieces.push(piece_of(&mapped));
            end = mapped.range.end();
        }
        self.pace.cursor = (file, end);
        self.start_copy(CopyKind::WriteBack, file, Range::between(first.range.offset, end), pieces);
        true
    }

    fn start_copy(&mut self, kind: CopyKind, file: u32, range: Range, pieces: Vec<CopyPiece>) -> u64 {
        let id = self.next_copy;
        self.next_copy += 1;
        self.copies.insert(id, CopyState { kind, file, range, pieces: pieces.clone(), cancelled: false });
        self.outputs.push(Output::Copy(CopyOrder { id, kind, file, range, pieces }));
        id
    }

    /// The slow file of a copy under way.
    pub fn copy_file(&self, id: u64) -> Option<u32> {
        self.copies.get(&id).map(|copy| copy.file)
    }

    /// A copy ended, or failed with an `errno`.
    pub fn on_copy_done(&mut self, shared: Shared<'_>, id: u64, result: Result<(), i32>) {
        let Some(copy) = self.copies.remove(&id) else { return };
        match copy.kind {
            CopyKind::WriteBack => self.write_back_done(&copy, result),
            CopyKind::Fetch => {
                if let Some(fetch) = self.fetches.iter_mut().find(|fetch| fetch.copy == id) {
                    fetch.step = FetchStep::Publishing;
                    fetch.cancelled |= copy.cancelled || result.is_err();
                }
            }
        }
        self.forget_if_done(shared, copy.file);
        self.poll(shared);
    }

    fn write_back_done(&mut self, copy: &CopyState, result: Result<(), i32>) {
        if let Err(errno) = result {
            self.counters.write_back_errors_total += 1;
            if let Some(file) = self.files.get_mut(&copy.file) {
                file.write_back_error = Some(errno);
            }
            return;
        }
        self.counters.write_backs_total += 1;
        self.counters.written_back_bytes_total += copy.range.length;
        let Some(known) = self.files.get(&copy.file) else { return };
        let cleaned: Vec<Mapped> = copy
            .pieces
            .iter()
            .flat_map(|piece| {
                known.map.overlapping(piece.range).filter(|mapped| {
                    mapped.dirty && mapped.same_place(piece.data_file, piece.range.offset, piece.place)
                })
            })
            .collect();
        for mapped in cleaned {
            self.counters.written_back_extents_total += 1;
            self.append(&Record::Clean {
                file: copy.file,
                offset: mapped.range.offset,
                length: mapped.range.length,
                data_file: mapped.data_file,
                place: mapped.place,
            });
            self.delist(copy.file, &mapped);
            self.file(copy.file).map.set_clean(mapped.range.offset);
            self.enlist(copy.file, &Mapped { dirty: false, ..mapped });
        }
    }

    /// Reads the threads' hints into the critical data table.
    pub(super) fn take_hints(&mut self, shared: Shared<'_>) {
        for slot in shared.used_slots() {
            while let Some((file, range, benefit_ns)) = slot.take_hint() {
                self.counters.critical_reads_total += 1;
                if self.files.contains_key(&file) && !range.is_empty() {
                    self.critical.insert(Critical { file, range, benefit_ns });
                }
            }
        }
    }

    fn plan_fetches(&mut self, shared: Shared<'_>, foreground: usize) {
        // Fetches have the lowest priority: they are for later requests, so they take the disks only while these are idle,
        // and a few at a time otherwise.
        let limit = if foreground == 0 { self.settings.copies_max / 4 } else { 1 };
        while self.fetches.len() < limit.max(1) && self.copies.len() < self.settings.copies_max {
            let Some(critical) = self.critical.pop() else { return };
            if !self.start_fetch(shared, critical) {
                return;
            }
        }
    }

    /// Starts fetching the first part of a critical range that is not on flash; false if there is no room now.
    fn start_fetch(&mut self, shared: Shared<'_>, critical: Critical) -> bool {
        let Some(file) = self.files.get(&critical.file) else { return true };
        let size = file.size;
        let mut range = Range::between(critical.range.offset, critical.range.end().min(size));
        while let Some(mapped) = file.map.overlapping(range).next() {
            if mapped.range.offset > range.offset {
                range = Range::between(range.offset, mapped.range.offset);
                break;
            }
            range = Range::between(mapped.range.end(), range.end());
        }
        let fetching = self.fetches.iter().any(|fetch| fetch.file == critical.file && fetch.range.overlaps(range));
        if range.is_empty() || fetching || file.unlinked || file.openers.is_empty() {
            return true;
        }
        let benefit_per_kib = (critical.benefit_ns * 1024 / critical.range.length).min(u64::from(u32::MAX) - 1) as u32;
        let data_file = self.data_file_of(critical.file);
        let pages = Run::touching(data_file, range.offset % PAGE_BYTES, range.length).pages;
        let size_before = self.space.size_bytes(data_file);
        // The reserve is for writes: a fetch that took of it would evict bytes of more benefit in the next moment.
        let room = self.space.available_bytes().saturating_sub(self.reserve_bytes()) / PAGE_BYTES;
        let Some(run) = (room >= pages).then(|| self.space.allocate(data_file, pages, pages)).flatten() else {
            self.displace(pages, benefit_per_kib);
            return false;
        };
        let size = self.space.size_bytes(data_file);
        if size > size_before {
            self.outputs.push(Output::Grow { data_file, size });
        }
        self.granules.hold(shared, critical.file, range);
        self.fetches.push(Fetch {
            file: critical.file,
            range,
            run,
            place: run.page * PAGE_BYTES + range.offset % PAGE_BYTES,
            benefit_per_kib,
            step: FetchStep::Settling,
            copy: 0,
            cancelled: false,
        });
        self.advance_fetches(shared);
        true
    }

    /// Drops clean extents of less benefit than `benefit_per_kib`, least recently used first, to make room for `pages`.
    fn displace(&mut self, pages: u64, benefit_per_kib: u32) {
        let mut room = self.space.removed_bytes() / PAGE_BYTES;
        while room < pages {
            let Some((_, &(file, offset))) = self.clean.first_key_value() else { return };
            let mapped = self.files[&file].map.at(offset).expect("the clean list names extents");
            if mapped.benefit_per_kib >= benefit_per_kib {
                return;
            }
            self.evict(file, &mapped);
            room = self.space.removed_bytes() / PAGE_BYTES;
        }
        self.barrier.wanted = true;
    }

    fn evict(&mut self, file: u32, mapped: &Mapped) {
        debug_assert!(!mapped.dirty, "only clean extents are evicted");
        self.append(&Record::Drop { file, offset: mapped.range.offset, length: mapped.range.length });
        self.carve(file, mapped.range);
        self.counters.evicted_extents_total += 1;
    }

    fn advance_fetches(&mut self, shared: Shared<'_>) {
        for mut fetch in std::mem::take(&mut self.fetches) {
            if self.advance_fetch(shared, &mut fetch) {
                self.fetches.push(fetch);
            } else {
                self.granules.let_go(fetch.file, fetch.range);
                self.forget_if_done(shared, fetch.file);
            }
        }
    }

    /// Moves a fetch on; false when it has ended.
    fn advance_fetch(&mut self, shared: Shared<'_>, fetch: &mut Fetch) -> bool {
        match fetch.step {
            FetchStep::Settling => {
                let forbidden = self.direct_overlaps(fetch.file, fetch.range)
                    || self.quarantine.iter().any(|(file, range)| *file == fetch.file && range.overlaps(fetch.range))
                    || self.files[&fetch.file].map.touches(fetch.range);
                if forbidden || fetch.cancelled {
                    self.space.give_back(fetch.run);
                    self.counters.fetches_cancelled_total += 1;
                    return false;
                }
                if self.granules.settled(shared, fetch.file, fetch.range) {
                    let piece = CopyPiece { range: fetch.range, data_file: fetch.run.data_file, place: fetch.place };
                    fetch.copy = self.start_copy(CopyKind::Fetch, fetch.file, fetch.range, vec![piece]);
                    fetch.step = FetchStep::Copying;
                }
                true
            }
            FetchStep::Copying => true,
            FetchStep::Publishing => {
                if fetch.cancelled {
                    self.space.give_back(fetch.run);
                    self.counters.fetches_cancelled_total += 1;
                    return false;
                }
                if shared.slow_read_overlaps(fetch.file, fetch.range) {
                    return true;
                }
                self.publish(fetch);
                false
            }
        }
    }

    fn publish(&mut self, fetch: &Fetch) {
        let (file, range) = (fetch.file, fetch.range);
        let (data_file, place) = (fetch.run.data_file, fetch.place);
        self.append(&Record::Fetched { file, offset: range.offset, length: range.length, data_file, place });
        let benefit_per_kib = fetch.benefit_per_kib;
        self.map_in(file, Mapped { range, data_file, place, dirty: false, stamp: 0, benefit_per_kib });
        self.counters.fetches_total += 1;
        self.counters.fetched_bytes_total += range.length;
    }

    /// Somebody writes the range: a fetch of it must not be published.
    pub(super) fn cancel_fetches(&mut self, file: u32, range: Range) {
        for fetch in self.fetches.iter_mut().filter(|fetch| fetch.file == file && fetch.range.overlaps(range)) {
            fetch.cancelled = true;
        }
        for copy in self.copies.values_mut() {
            if copy.kind == CopyKind::Fetch && copy.file == file && copy.range.overlaps(range) {
                copy.cancelled = true;
            }
        }
    }

    fn reserve_bytes(&self) -> u64 {
        self.space.capacity_bytes() / RESERVE_SHARE
    }

    /// Drops clean extents ahead of need, least recently used first, so that a reserve of places becomes free with the next
    /// barrier; asks for that barrier when space runs short.
    pub(super) fn keep_reserve(&mut self) {
        let reserve = self.reserve_bytes();
        let available = self.space.available_bytes();
        if available >= reserve {
            return;
        }
        while self.space.available_bytes() + self.space.removed_bytes() < reserve {
            let Some((_, &(file, offset))) = self.clean.first_key_value() else { break };
            let mapped = self.files[&file].map.at(offset).expect("the clean list names extents");
            self.evict(file, &mapped);
        }
        if self.space.removed_bytes() > 0 {
            self.barrier.wanted = true;
        }
    }
}

/// One part in so many of the capacity is kept free ahead of need.
const RESERVE_SHARE: u64 = 16;

fn piece_of(mapped: &Mapped) -> CopyPiece {
    CopyPiece { range: mapped.range, data_file: mapped.data_file, place: mapped.place }
}
