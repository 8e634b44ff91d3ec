//! Fetches: a run of the disk in one order, to whoever waits for parts of it and, for the rest, to staging.
//!
//! ```text
//! Waiting --its turn--> Reading --waiters have theirs--> Staging: the rest is written to flash --> installed
//!    '------ reads join, as long as their range is still valid ------'
//! ```
//!
//! *Valid* is what of its range is the newest there is: not what the log has instead when it begins, and not
//! what a write has touched since, be it that the write began or that it ended (a write that was under way
//! when the fetch began changes the disk, or the map, until it ends). What is staged is dropped likewise.
//! What is not valid is neither given to readers nor installed.

use super::Engine;
use super::orders::Purpose;
use crate::devices::Device;
use crate::order::{Action, Part};
use headstart_policy::server::Policy;
use headstart_units::BLOCK_BYTES;
use headstart_units::ranges::Ranges;
use headstart_units::request::Range;

impl<P: Policy> Engine<P> {
    /// What of a wanted range is neither staged nor being fetched, from its begin on and without gaps.
    fn unfetched(&self, wanted: Range) -> Range {
        let down = |byte: u64| byte / BLOCK_BYTES * BLOCK_BYTES;
        let end = wanted.end().next_multiple_of(BLOCK_BYTES).min(down(self.in_force.disk_bytes()));
        let mut rest = Range::between(down(wanted.offset), end);
        // Guarded blocks are left out: staging knows no keystream.
        while let Some(guarded) =
            self.in_force.regions().overlapping(rest).next().filter(|held| held.range.offset <= rest.offset)
        {
            rest = Range::between(guarded.range.end().next_multiple_of(BLOCK_BYTES), rest.end());
        }
        let mut rest = self.in_force.regions().cut(rest);
        let others = self.copies.fetches.ranges().filter(|held| held.overlaps(rest));
        let mut covered: Vec<Range> = others.chain(self.copies.staging.staged(rest)).collect();
        covered.sort();
        for held in covered {
            if held.offset <= rest.offset {
                rest = Range::between(held.end().max(rest.offset).next_multiple_of(BLOCK_BYTES), rest.end());
            } else {
                return Range::between(rest.offset, rest.end().min(down(held.offset)));
            }
        }
        rest
    }

    pub(super) fn add_fetch(&mut self, wanted: Range) {
        let range = self.unfetched(wanted);
        if range.is_empty()
            || self.condition.flash_failed()
            || self.condition.disk_failed()
            || self.condition.is_stopping()
        {
            return;
        }
        let mut valid = Ranges::default();
        valid.insert(range, ());
        for piece in self.map.pieces(range).into_iter().filter(|piece| piece.dirty) {
            valid.carve(piece.range);
        }
        // What a read has seen of them on the disk no later one may miss.
        for written in self.writes.overlapping(range) {
            valid.carve(written);
        }
        let order = self.orders.name();
        self.copies.fetches.add(range, valid, order);
    }

    pub(super) fn pump_fetches(&mut self) {
        while let Some(id) = self.copies.fetches.next() {
            let range = self.copies.fetches.get(id).range();
            let load = self.load();
            if !self.policy.begins_fetch(range, &load) {
                return;
            }
            // Without room its waiters are served, and the rest is read again.
            let slots = self.copies.staging.allocate(range.length).unwrap_or_default();
            let order = self.copies.fetches.begin(id, slots).order();
            self.counters.fetched_bytes_total += range.length;
            self.emit(order, Device::Disk, Action::Read, range, Purpose::Fetch(id));
        }
    }

    pub(super) fn on_fetch(&mut self, id: u64, result: Result<&[u8], ()>) {
        let fetch = self.copies.fetches.end_read(id);
        let (range, order) = (fetch.range(), fetch.order());
        let waiters = fetch.take_waiters();
        self.policy.on_background_end(self.condition.now(), range);
        // Its own hold on the buffer.
        self.orders.hold(order);
        let mut given = Vec::new();
        for waiter in waiters {
            let fetch = self.copies.fetches.get(id);
            let part = (result.is_ok() && fetch.is_valid(waiter.range)).then(|| fetch.part(waiter.range));
            if part.is_some() {
                self.orders.share(order);
            }
            given.extend(part.is_some().then_some(waiter.range));
            self.counters.fetch_waits.add(self.condition.now().since(waiter.since));
            self.on_fetched(waiter, part);
        }
        // Read once: only what nobody waited for is staged.
        let fetch = self.copies.fetches.get_mut(id);
        given.into_iter().for_each(|range| fetch.carve(range));
        match result {
            Ok(data) => self.stage(id, data),
            Err(()) => self.end_fetch(id),
        }
    }

    /// Writes what nobody waited for to flash.
    fn stage(&mut self, id: u64, data: &[u8]) {
        let staging = &mut self.copies.staging;
        let fetch = self.copies.fetches.get_mut(id);
        let writes = fetch.begin_stage(staging.slot_bytes(), |slot| staging.place_of(slot));
        let start = fetch.range().offset;
        let parts: Vec<Part> = writes.iter().map(|(_, range)| fetch.part(*range)).collect();
        for ((place, range), part) in writes.iter().zip(parts) {
            let bytes = &data[(range.offset - start) as usize..(range.end() - start) as usize];
            let crcs: Vec<u32> = bytes.chunks(BLOCK_BYTES as usize).map(crc32c::crc32c).collect();
            self.copies.staging.set_crcs(*place, &crcs);
            let at = self.in_force.layout().staging_offset(0) + place;
            self.counters.staged_bytes_total += range.length;
            self.order(Device::Flash, Action::Write(vec![part]), Range::new(at, range.length), Purpose::Stage(id));
        }
        if writes.is_empty() {
            self.end_fetch(id);
        }
    }

    pub(super) fn on_staged(&mut self, id: u64, ok: bool) {
        if self.copies.fetches.get_mut(id).end_stage(ok) {
            self.end_fetch(id);
        }
    }

    /// Installs what is on flash and still valid.
    fn end_fetch(&mut self, id: u64) {
        let fetch = self.copies.fetches.end(id);
        let is_staged = fetch.is_staged();
        for (slot, within) in fetch.slots(self.copies.staging.slot_bytes()) {
            let valid: Vec<Range> = fetch.valid(within).filter(|_| is_staged).collect();
            if valid.is_empty() {
                self.copies.staging.give_back(&[slot]);
            } else {
                self.copies.staging.install(slot, within, &valid);
            }
        }
        self.orders.release(fetch.order());
    }
}
