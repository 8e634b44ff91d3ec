//! Bytes moved between the tiers: write-back, and what it has in common with [`super::fetches`].
//!
//! Write-back takes dirty extents in address order, coalesced, or leaps over what is too near for a disk to
//! be in time for it; a direct write waits for it, a commit may overtake it, and its `Clean` record counts
//! only where the place is still the mapped one.

use std::sync::atomic::Ordering;

use crate::extent_map::Mapped;
use crate::journal::Record;
use crate::output::{CopyKind, CopyPiece, Output};
use crate::overlay::Overlay;
use crate::parts::copies::{Copy, NewCopy};
use crate::parts::looks;
use crate::parts::pace::{Dirty, Foreground, InFlight};
use headstart_protocol::shared::{
    LEASE_DIRECT_WRITE, LEASE_FLASH_READ, LEASE_NONE, LEASE_SLOW_READ, STATE_CHEAP, STATE_LISTED, STATE_READING, Shared,
};
use headstart_units::request::Range;

impl Overlay {
    /// What programs are at now, as the slots show it.
    fn foreground(&mut self, shared: Shared<'_>) -> Foreground {
        let mut found = Foreground {
            last_write_ns: self.pacing.reserve().last_write_ns(),
            starves: self.pacing.reserve().is_starving(self.measured_ns),
            burst_fits: self
                .pacing
                .reserve()
                .burst_fits(self.room_bytes() + self.mapped_bytes().saturating_sub(self.mapping.dirty_bytes())),
            ..Foreground::default()
        };
        let slots = shared.used_slots();
        self.pacing.watch_mut().look(slots.len(), |at| {
            looks::count(1);
            let slot = &slots[at];
            let lease = slot.lease.load(Ordering::Relaxed);
            let state = slot.state.load(Ordering::Relaxed);
            let writes = state == STATE_CHEAP || lease == LEASE_DIRECT_WRITE;
            if writes || state == STATE_READING || lease == LEASE_SLOW_READ {
                found.disk_requests += 1;
            }
            found.reads_flash |= lease == LEASE_FLASH_READ || state == STATE_LISTED;
            found.writes_disk |= writes;
            matches!(state, STATE_CHEAP | STATE_READING | STATE_LISTED) || lease != LEASE_NONE
        });
        found
    }

    /// Starts write-backs and fetches as far as their pace allows.
    pub(crate) fn plan_copies(&mut self, shared: Shared<'_>) {
        self.advance_fetches(shared);
        self.plan_shared_copies(shared);
        self.write_back_for_heirs(shared);
        for (file, range) in self.pending.wanted_written_back() {
            while self.copies.may_begin() && self.write_back_in(shared, file, range) {}
        }
        while self.copies.may_begin()
            && let Some(file) = self.pending.leaving().next_unwritten()
        {
            if !self.write_back_in(shared, file, Range::new(0, u64::MAX)) {
                self.pending.leaving().is_written(file);
            }
        }
        let dirty = Dirty {
            bytes: self.mapping.dirty_bytes(),
            kept_bytes: self.mapping.kept_dirty_bytes(),
            capacity_bytes: self.space.capacity_bytes(),
        };
        let due = self.pacing.is_due(dirty, self.measured_ns) && self.mapping.dirty_files(0).next().is_some();
        let wanted = self.fetches.any_critical() || self.placing.is_on();
        if !due && !wanted {
            return;
        }
        let foreground = self.foreground(shared);
        let limit = self.pacing.limit(dirty, foreground, self.measured_ns);
        let mut flight = InFlight::default();
        self.copies.iter().for_each(|copy| flight.add(copy));
        while limit.allows(flight) {
            let Some(copy) = self.write_back_next(shared, limit.spares_regions) else { break };
            flight.add(self.copies.get(copy).expect("it has just begun"));
        }
        self.plan_fetches(shared, foreground.disk_requests);
    }

    pub(crate) fn write_back_in(&mut self, shared: Shared<'_>, file: u32, range: Range) -> bool {
        let first = self.files[&file].map.overlapping(range).next();
        let first =
            first.filter(|first| first.dirty && self.obstacle(file, first).is_none()).map(|first| (file, first));
        let found = first.or_else(|| self.next_writable((file, range.offset), (file, range.end()), false));
        found.map(|(file, mapped)| self.start_write_back(shared, file, mapped, false)).is_some()
    }

    /// Starts the next write-back in address order, from where the last one ended, if there is one.
    pub(crate) fn write_back_next(&mut self, shared: Shared<'_>, spares_regions: bool) -> Option<u64> {
        if let Some((file, mapped)) = self.next_of_drain_round() {
            let copy = self.start_write_back(shared, file, mapped, false);
            let (range, cursor) = (self.copies.get(copy).expect("it has just begun").range, self.pacing.cursor());
            if let Some(round) = self.pacing.round_mut() {
                round.advance(range, cursor);
            }
            return Some(copy);
        }
        let cursor = self.pacing.cursor();
        let next = |from, until| self.next_writable(from, until, spares_regions);
        let next = next(cursor, (u32::MAX, u64::MAX)).or_else(|| next((0, 0), cursor));
        next.map(|(file, mapped)| self.start_write_back(shared, file, mapped, spares_regions))
    }

    /// The first dirty extent between two positions that may be written back. Ranges that may not are leapt
    /// over whole, so that a long list behind a lease or in a file with an error costs nothing.
    fn next_writable(&self, from: (u32, u64), until: (u32, u64), spares_regions: bool) -> Option<(u32, Mapped)> {
        let mut at = from;
        while at < until {
            let (file, mapped) = self.next_dirty(at, until)?;
            let region = || self.files[&file].placed.holding(mapped.range.offset).map(|region| region.range.end());
            let spared = if spares_regions { region() } else { None };
            match spared.or_else(|| self.obstacle(file, &mapped)) {
                None => return Some((file, mapped)),
                Some(end) => at = (file, end.max(mapped.range.offset + 1)),
            }
        }
        None
    }

    /// Where in the file what keeps the extent from being written back ends; none if nothing does.
    pub(crate) fn obstacle(&self, file: u32, mapped: &Mapped) -> Option<u64> {
        let known = &self.files[&file];
        // Its owner has it written back, or is about to be told of it.
        if self.is_owners(file) || (self.commits() && !self.sharing.has_landed()) {
            return Some(u64::MAX);
        }
        if self.is_untrusted(mapped) {
            return Some(mapped.range.end());
        }
        if known.write_back_error.is_some() {
            return Some(u64::MAX);
        }
        // The file is about to be made longer: a write-back there would put that off until it has ended, and
        // who asks for the size meanwhile sees less than who reads.
        let grows = || known.length.is_extending() || self.pending.are_mapped_beyond(file, known.length.size());
        if mapped.range.end() > known.length.size() && grows() {
            return Some(u64::MAX);
        }
        let ends = |range: Range| range.overlaps(mapped.range).then(|| range.end());
        let direct = self.leases.direct_of(file).find_map(|direct| ends(direct.range));
        let copied = || self.copies.within(file, mapped.range).next().map(|copy| copy.range.end());
        // Whoever waits to write the range would wait for ever if one write-back after the other began there.
        // But where threads wait until the file has left flash.
        let waiting = || self.pending.wanted_to_write(file).find_map(ends).filter(|_| !self.sharing.holds_back(file));
        direct.or_else(copied).or_else(waiting)
    }

    /// Writes `first` back with the dirty extents that follow it without a gap. Address order goes on behind
    /// it, or a leap farther on.
    fn start_write_back(&mut self, shared: Shared<'_>, file: u32, first: Mapped, spares_regions: bool) -> u64 {
        let mut pieces = vec![piece_of(&first)];
        let mut extents = 1;
        let mut end = first.range.end();
        let limit = first.range.offset.saturating_add(self.pacing.write_back_bytes_max());
        let following = Range::between(end, limit);
        for mapped in self.files[&file].map.overlapping(following) {
            let fits = mapped.range.offset == end && mapped.range.end() <= limit;
            let is_spared = spares_regions && mapped.stamp.is_kept();
            if !fits || !mapped.dirty || is_spared || self.obstacle(file, &mapped).is_some() {
                break;
            }
            match pieces.last_mut() {
                Some(CopyPiece { range, data_file, place }) if mapped.same_place(*data_file, range.offset, *place) => {
                    range.length += mapped.range.length;
                }
                _ => pieces.push(piece_of(&mapped)),
            }
            extents += 1;
            end = mapped.range.end();
        }
        // Programs that write here and there, each into its slab, leave one behind the other on flash what
        // they leave apart in the file.
        pieces.sort_by_key(|piece| (piece.data_file, piece.place));
        let range = Range::between(first.range.offset, end);
        self.pacing.go_on_behind(file, range);
        self.start_copy(shared, NewCopy { kind: CopyKind::WriteBack, file, range, pieces, extents })
    }

    pub(crate) fn start_copy(&mut self, shared: Shared<'_>, new: NewCopy) -> u64 {
        let order = self.copies.begin(shared, new, self.measured_ns);
        let id = order.id;
        self.outbox.push(Output::Copy(order));
        id
    }

    /// The slow file of a copy under way.
    pub fn copy_file(&self, id: u64) -> Option<u32> {
        self.copies.get(id).map(|copy| copy.file)
    }

    /// A copy ended, or failed with an `errno`.
    pub fn on_copy_done(&mut self, shared: Shared<'_>, id: u64, result: Result<(), i32>) {
        let Some(copy) = self.copies.end(shared, id) else { return };
        let intent = self.sharing.get_mut().and_then(|cluster| cluster.commits.end_copy(id));
        match copy.kind {
            _ if intent.is_some() => {
                self.outbox.counters.write_backs_total += 1;
                self.outbox.counters.written_back_bytes_total += copy.range.length;
                intent.into_iter().for_each(|it| self.end_shared_copy(shared, it, result.is_ok() && !copy.cancelled));
            }
            CopyKind::WriteBack => self.write_back_done(&copy, result),
            CopyKind::Fetch => self.fetch_copied(id, result, copy.cancelled),
        }
        self.free_copied(shared, &copy);
        self.forget_if_done(shared, copy.file);
        self.poll(shared);
    }

    fn write_back_done(&mut self, copy: &Copy, result: Result<(), i32>) {
        if let Err(errno) = result {
            self.outbox.counters.write_back_errors_total += 1;
            if let Some(file) = self.files.get_mut(&copy.file) {
                file.write_back_error = Some(errno);
            }
            return;
        }
        if copy.cancelled {
            if let Some(round) = self.pacing.round_mut() {
                round.rewind((copy.file, copy.range.offset));
            }
            return;
        }
        self.pacing.disk_write_took(self.measured_ns.saturating_sub(copy.since_ns));
        self.outbox.counters.write_backs_total += 1;
        self.outbox.counters.written_back_bytes_total += copy.range.length;
        self.outbox.counters.seeks_avoided_total += copy.extents - 1;
        let Some(known) = self.files.get_mut(&copy.file) else { return };
        known.written_back = true;
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
            self.outbox.counters.written_back_extents_total += 1;
            self.append(&Record::Clean {
                file: copy.file,
                offset: mapped.range.offset,
                length: mapped.range.length,
                data_file: mapped.data_file,
                place: mapped.place,
            });
            self.set_clean(copy.file, &mapped);
        }
    }
}

fn piece_of(mapped: &Mapped) -> CopyPiece {
    CopyPiece { range: mapped.range, data_file: mapped.data_file, place: mapped.place }
}
