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
use super::reading::Waiter;
use crate::devices::Device;
use crate::order::{Action, OrderId, Part};
use headstart_policy::server::Policy;
use headstart_units::BLOCK_BYTES;
use headstart_units::ranges::Ranges;
use headstart_units::request::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Reading,
    /// Orders that are missing, and whether all that have completed are on flash.
    Staging {
        missing: usize,
        is_whole: bool,
    },
}

/// A fetch under way.
#[derive(Clone, Debug)]
pub struct Fetch {
    range: Range,
    valid: Ranges<()>,
    waiters: Vec<Waiter>,
    slots: Vec<u32>,
    stage: Stage,
    /// The order that reads it.
    order: OrderId,
}

/// How a read takes part in a fetch.
pub enum Joined {
    /// It will hear of it.
    Waits,
    /// The bytes are there.
    Has(Part),
    /// There is none for its range.
    No,
}

impl Fetch {
    fn part(&self, range: Range) -> Part {
        Part::Buffer { order: self.order, offset: range.offset - self.range.offset, length: range.length }
    }

    fn is_valid(&self, range: Range) -> bool {
        let covered: u64 = self.valid.overlapping(range).map(|(held, _)| held.intersection(range).length).sum();
        covered == range.length
    }
}

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
        let others = self.fetches.values().map(|fetch| fetch.range).filter(|held| held.overlaps(rest));
        let mut covered: Vec<Range> = others.chain(self.staging.staged(rest)).collect();
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
        for write in self.writes.values().filter(|write| write.range.overlaps(range)) {
            valid.carve(write.range);
        }
        self.fetches_begun += 1;
        let order = self.orders.name();
        let fetch = Fetch { range, valid, waiters: Vec::new(), slots: Vec::new(), stage: Stage::Waiting, order };
        self.fetches.insert(self.fetches_begun, fetch);
        self.fetch_queue.insert((range.offset, self.fetches_begun));
    }

    pub(super) fn join_fetch(&mut self, waiter: Waiter) -> Joined {
        let range = waiter.range;
        let found = self.fetches.values_mut().find(|fetch| fetch.range.contains(range) && fetch.is_valid(range));
        let Some(fetch) = found else { return Joined::No };
        if matches!(fetch.stage, Stage::Staging { .. }) {
            fetch.valid.carve(range);
            let part = fetch.part(range);
            self.orders.share(fetch.order);
            return Joined::Has(part);
        }
        fetch.waiters.push(waiter);
        Joined::Waits
    }

    /// A write of `range` begins or ends.
    pub(super) fn cancel_copies(&mut self, range: Range) {
        self.staging.drop_range(range);
        self.cancel_lifts(range);
        self.loads.values_mut().for_each(|load| load.cancel(range));
        for fetch in self.fetches.values_mut().filter(|fetch| fetch.range.overlaps(range)) {
            fetch.valid.carve(range);
        }
    }

    pub(super) fn pump_fetches(&mut self) {
        while !self.fetch_queue.is_empty() {
            let upwards = self.fetch_queue.range((self.fetch_cursor, 0)..).next().copied();
            let key = upwards.unwrap_or_else(|| *self.fetch_queue.first().expect("one waits"));
            let range = self.fetches[&key.1].range;
            let load = self.load();
            if !self.policy.begins_fetch(range, &load) {
                return;
            }
            self.fetch_queue.remove(&key);
            self.fetch_cursor = range.end();
            // Without room its waiters are served, and the rest is read again.
            let slots = self.staging.allocate(range.length).unwrap_or_default();
            let fetch = self.fetches.get_mut(&key.1).expect("it waits");
            fetch.slots = slots;
            fetch.stage = Stage::Reading;
            let order = fetch.order;
            self.fetches_reading += 1;
            self.counters.fetched_bytes_total += range.length;
            self.emit(order, Device::Disk, Action::Read, range, Purpose::Fetch(key.1));
        }
    }

    pub(super) fn on_fetch(&mut self, id: u64, result: Result<&[u8], ()>) {
        self.fetches_reading -= 1;
        let fetch = self.fetches.get_mut(&id).expect("it is under way");
        let (range, order) = (fetch.range, fetch.order);
        let waiters = std::mem::take(&mut fetch.waiters);
        self.policy.on_background_end(self.condition.now(), range);
        // Its own hold on the buffer.
        self.orders.hold(order);
        let mut given = Vec::new();
        for waiter in waiters {
            let fetch = self.fetches.get_mut(&id).expect("it is under way");
            let part = (result.is_ok() && fetch.is_valid(waiter.range)).then(|| fetch.part(waiter.range));
            if part.is_some() {
                self.orders.share(order);
            }
            given.extend(part.is_some().then_some(waiter.range));
            self.counters.fetch_waits.add(self.condition.now().since(waiter.since));
            self.on_fetched(waiter, part);
        }
        // Read once: only what nobody waited for is staged.
        let fetch = self.fetches.get_mut(&id).expect("it is under way");
        given.into_iter().for_each(|range| drop(fetch.valid.carve(range)));
        match result {
            Ok(data) => self.stage(id, data),
            Err(()) => self.end_fetch(id),
        }
    }

    /// Writes what nobody waited for to flash.
    fn stage(&mut self, id: u64, data: &[u8]) {
        let fetch = &self.fetches[&id];
        let slot_bytes = self.staging.slot_bytes();
        let mut writes: Vec<(u64, Range)> = Vec::new();
        for (index, slot) in fetch.slots.iter().enumerate() {
            let within =
                Range::new(fetch.range.offset + index as u64 * slot_bytes, slot_bytes).intersection(fetch.range);
            let parts = fetch.valid.overlapping(within).map(|(held, _)| held.intersection(within));
            let Some(span) = parts.reduce(|first, last| Range::between(first.offset, last.end())) else { continue };
            let blocks = Range::between(
                span.offset / BLOCK_BYTES * BLOCK_BYTES,
                span.end().next_multiple_of(BLOCK_BYTES).min(within.end()),
            );
            let place = self.staging.place_of(*slot) + blocks.offset - within.offset;
            match writes.last_mut() {
                Some((at, last)) if *at + last.length == place && last.end() == blocks.offset => {
                    *last = Range::between(last.offset, blocks.end());
                }
                _ => writes.push((place, blocks)),
            }
        }
        let fetch = self.fetches.get_mut(&id).expect("it is under way");
        fetch.stage = Stage::Staging { missing: writes.len(), is_whole: true };
        let start = fetch.range.offset;
        let parts: Vec<Part> = writes.iter().map(|(_, range)| fetch.part(*range)).collect();
        for ((place, range), part) in writes.iter().zip(parts) {
            let bytes = &data[(range.offset - start) as usize..(range.end() - start) as usize];
            let crcs: Vec<u32> = bytes.chunks(BLOCK_BYTES as usize).map(crc32c::crc32c).collect();
            self.staging.set_crcs(*place, &crcs);
            let at = self.in_force.layout().staging_offset(0) + place;
            self.counters.staged_bytes_total += range.length;
            self.order(Device::Flash, Action::Write(vec![part]), Range::new(at, range.length), Purpose::Stage(id));
        }
        if writes.is_empty() {
            self.end_fetch(id);
        }
    }

    pub(super) fn on_staged(&mut self, id: u64, ok: bool) {
        let fetch = self.fetches.get_mut(&id).expect("it is under way");
        let Stage::Staging { missing, is_whole } = &mut fetch.stage else { unreachable!("it is being staged") };
        *missing -= 1;
        *is_whole &= ok;
        if *missing == 0 {
            self.end_fetch(id);
        }
    }

    /// Installs what is on flash and still valid.
    fn end_fetch(&mut self, id: u64) {
        let fetch = self.fetches.remove(&id).expect("it is under way");
        let is_staged = matches!(fetch.stage, Stage::Staging { is_whole: true, .. });
        let slot_bytes = self.staging.slot_bytes();
        for (index, slot) in fetch.slots.iter().enumerate() {
            let within =
                Range::new(fetch.range.offset + index as u64 * slot_bytes, slot_bytes).intersection(fetch.range);
            let valid = fetch.valid.overlapping(within).map(|(held, _)| held.intersection(within));
            let valid: Vec<Range> = valid.filter(|_| is_staged).collect();
            if valid.is_empty() {
                self.staging.give_back(&[*slot]);
            } else {
                self.staging.install(*slot, within, &valid);
            }
        }
        self.orders.release(fetch.order);
    }
}
