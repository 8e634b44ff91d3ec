//! From a request's arrival to its reply: disk operations, caches, elevator, device.

use headstart_units::Nanos;

use super::Server;
use super::accesses::Actor;
use super::disk::{Next, Owner, Pages};
use super::events::EventKind;
use super::requests::{Pending, Stage};
use crate::elevator::{Batch, NR_REQUESTS, Part};
use crate::file_cache::Lookup;
use crate::request::{Operation, Origin, Request};

impl Server {
    pub(super) fn on_arrival(&mut self, now: Nanos, slot: u32) {
        let Pending { request, cancelled, .. } = self.requests[slot];
        if cancelled {
            return self.requests.release(slot);
        }
        self.counters.arrive(now);
        match request.operation {
            Operation::Flush => {
                self.requests[slot].stage = Stage::Started;
                if self.cache.as_mut().is_none_or(|cache| cache.on_flush(now, slot)) {
                    self.flush_device(now, slot);
                }
            }
            _ if request.length == 0 => self.reply(now, slot),
            _ if self.operations.is_full() => self.operations.wait(slot),
            _ => self.take_up(now, slot, request),
        }
        self.dispatch(now);
    }

    /// Begins a disk operation.
    fn take_up(&mut self, now: Nanos, slot: u32, request: Request) {
        self.operations.begin();
        self.requests[slot].holds_operation = true;
        let end = request.address.saturating_add(request.length);
        match (request.operation, &mut self.cache) {
            (Operation::Write, Some(cache)) => {
                self.requests[slot].stage = Stage::Started;
                let mut acknowledged = std::mem::take(&mut self.scratch.acknowledged);
                cache.on_write(slot, request.address, end, &mut acknowledged);
                self.reply_all(now, &mut acknowledged);
                self.scratch.acknowledged = acknowledged;
            }
            (Operation::Read, Some(cache)) if cache.covers(request.address, end) => self.reply(now, slot),
            (Operation::Read, _) if self.files.is_some() => self.look_up(now, slot, request, end),
            _ => self.enqueue(now, slot, request),
        }
    }

    /// Serves a read from the file cache as far as that goes.
    fn look_up(&mut self, now: Nanos, slot: u32, request: Request, end: u64) {
        let Some(files) = &mut self.files else { unreachable!("there is a file cache to look into") };
        let mut fetches = std::mem::take(&mut files.fetches);
        let (hit_cost, page_bytes) = (files.hit_cost, files.page_bytes);
        let lookup = files.cache.on_read(slot, request.origin, request.address, end, &mut fetches);
        // Before anything is asked: a volume may have the bytes in memory, and answer at once.
        let pending = &mut self.requests[slot];
        match lookup {
            Lookup::Alone => {}
            Lookup::Hit => pending.stage = Stage::Started,
            Lookup::Waits(pages) => {
                (pending.stage, pending.parts_left) = (Stage::Started, pages);
                self.reads_under_way += 1;
            }
        }
        // A command reads as many whole pages as it may.
        let pages_max = self.disk.command_bytes_max() / page_bytes;
        for fetch in fetches.drain(..) {
            let (mut page, stop) = (fetch.page, fetch.page + fetch.count);
            while page < stop {
                let count = pages_max.min(stop - page);
                let part = Part {
                    owner: Owner::Fill(Pages { page, count: count as u32 }),
                    operation: Operation::Read,
                    address: page * page_bytes,
                    length: count * page_bytes,
                    origin: request.origin,
                    is_read_ahead: true,
                };
                if self.volume.is_some() {
                    self.ask_volume(now, part.owner, Operation::Read, part.address, part.length);
                } else {
                    self.disk.on_part(now, part);
                }
                page += count;
            }
        }
        if let Some(files) = &mut self.files {
            files.fetches = fetches;
        }
        match lookup {
            Lookup::Alone => self.enqueue(now, slot, request),
            Lookup::Hit => self.events.push(now + hit_cost, EventKind::Hit, slot),
            Lookup::Waits(_) => {}
        }
    }

    fn on_filled(&mut self, now: Nanos, pages: Pages) {
        let Some(files) = &mut self.files else { unreachable!("only a file cache reads ahead") };
        let mut woken = std::mem::take(&mut files.woken);
        files.cache.on_filled(pages.into(), &mut woken);
        for slot in woken.drain(..) {
            self.finish_part(now, Owner::Request(slot));
        }
        if let Some(files) = &mut self.files {
            files.woken = woken;
        }
    }

    fn enqueue(&mut self, now: Nanos, slot: u32, request: Request) {
        let pending = &mut self.requests[slot];
        pending.stage = Stage::Queued;
        pending.parts_left = request.length.div_ceil(self.disk.command_bytes_max()) as u32;
        if request.operation == Operation::Read {
            self.reads_under_way += 1;
        }
        let Request { operation, mut address, length: mut left, origin, .. } = request;
        if self.volume.is_some() {
            pending.stage = Stage::Started;
            pending.parts_left = Server::volume_parts(left);
            self.ask_volume(now, Owner::Request(slot), operation, address, left);
            return;
        }
        let owner = Owner::Request(slot);
        let is_free = self.cache.is_none() && self.disk.is_free();
        if is_free && left <= self.disk.command_bytes_max() {
            let part = Part { owner, operation, address, length: left, origin, is_read_ahead: false };
            self.count_alone(part.operation, origin, true);
            if let Some(batch) = self.disk.pass(now, part) {
                self.send_batch(now, batch);
            }
            return;
        }
        while left > 0 {
            let length = left.min(self.disk.command_bytes_max());
            let part = Part { owner, operation, address, length, origin, is_read_ahead: false };
            self.count_alone(operation, origin, true);
            self.disk.on_part(now, part);
            address = address.saturating_add(length);
            left -= length;
        }
    }

    /// Tells the file cache of a part that waits for the drive, or no longer does.
    fn count_alone(&mut self, operation: Operation, origin: Origin, waits: bool) {
        if let Some(files) = &mut self.files
            && operation == Operation::Read
        {
            files.cache.on_alone(origin.job, waits);
        }
    }

    fn flush_device(&mut self, now: Nanos, slot: u32) {
        if self.volume.is_some() {
            self.flush_volume(now, slot);
        } else if self.disk.has_volatile_cache() {
            self.disk.on_flush(Owner::Request(slot));
        } else {
            self.reply(now, slot);
        }
    }

    /// Keeps the elevator supplied with write-backs and the device with commands.
    pub(super) fn dispatch(&mut self, now: Nanos) {
        loop {
            self.admit(now);
            self.supply(now);
            // A command whose owners have all withdrawn ends operations.
            if !self.operations.could_begin() {
                return;
            }
        }
    }

    /// Begins disk operations while there are any left.
    fn admit(&mut self, now: Nanos) {
        while let Some(slot) = self.operations.next() {
            let Pending { request, cancelled, .. } = self.requests[slot];
            if cancelled {
                self.counters.leave(now);
                self.requests.release(slot);
            } else {
                self.take_up(now, slot, request);
            }
        }
    }

    fn supply(&mut self, now: Nanos) {
        let mut written_back = Vec::new();
        if let Some(cache) = &mut self.cache {
            while self
                .volume
                .as_ref()
                .map_or(self.disk.has_room(), |volume| volume.asked() + written_back.len() < NR_REQUESTS)
                && let Some((start, end)) = cache.next_write_back(now, self.reads_under_way > 0)
            {
                let owner = Owner::WriteBack { start };
                let (operation, length, origin) = (Operation::Write, end - start, Origin::default());
                if self.volume.is_some() {
                    written_back.push((owner, start, length));
                    continue;
                }
                let part = Part { owner, operation, address: start, length, origin, is_read_ahead: false };
                self.disk.on_part(now, part);
            }
        }
        for (owner, start, length) in written_back {
            self.ask_volume(now, owner, Operation::Write, start, length);
        }
        while let Some(next) = self.disk.next(now) {
            match next {
                Next::Flush(owner) => {
                    self.note(now, Actor::Device, Operation::Flush, 0, 0);
                    self.disk.send_flush(now, owner);
                }
                Next::Batch(batch) => self.send_batch(now, batch),
            }
        }
    }

    /// Sends a command unless everybody has withdrawn from it.
    fn send_batch(&mut self, now: Nanos, mut batch: Batch<Owner>) {
        batch.merged.retain(|owner| self.start_part(now, *owner));
        let first = if self.start_part(now, batch.first) { Some(batch.first) } else { batch.merged.pop() };
        match first {
            Some(first) => {
                self.note(now, Actor::Device, batch.operation, batch.address, batch.end - batch.address);
                batch.first = first;
                self.disk.send_batch(now, batch);
            }
            None => self.disk.withdraw(now, batch.queue),
        }
    }

    /// Notes that a part goes to the device; false if its request was withdrawn.
    fn start_part(&mut self, now: Nanos, owner: Owner) -> bool {
        let Owner::Request(slot) = owner else { return true };
        let Request { operation, origin, .. } = self.requests[slot].request;
        self.count_alone(operation, origin, false);
        let pending = &mut self.requests[slot];
        if !pending.cancelled {
            pending.stage = Stage::Started;
            return true;
        }
        pending.parts_left -= 1;
        if pending.parts_left == 0 {
            if pending.request.operation == Operation::Read {
                self.reads_under_way -= 1;
            }
            self.counters.leave(now);
            self.operations.end(&mut self.requests[slot].holds_operation);
            self.requests.release(slot);
        }
        false
    }

    pub(super) fn on_device(&mut self, now: Nanos) {
        let mut finished = std::mem::take(&mut self.scratch.finished);
        self.disk.on_timer(now, &mut finished);
        for done in finished.drain(..) {
            let (first, merged) = self.disk.finish(now, done);
            self.finish_part(now, first);
            for owner in merged {
                self.finish_part(now, owner);
            }
        }
        self.scratch.finished = finished;
        self.carry_out(now);
        self.dispatch(now);
    }

    pub(super) fn finish_part(&mut self, now: Nanos, owner: Owner) {
        match owner {
            Owner::WriteBack { start } => self.on_written(now, start),
            Owner::Volume(order) => self.finish_order(now, order),
            Owner::Fill(pages) => self.on_filled(now, pages),
            Owner::Request(slot) => {
                let pending = &mut self.requests[slot];
                // A flush has no parts.
                pending.parts_left = pending.parts_left.saturating_sub(1);
                if pending.parts_left > 0 {
                    return;
                }
                let Request { operation, address, length, .. } = pending.request;
                if operation == Operation::Read {
                    self.reads_under_way -= 1;
                    if let Some(files) = &mut self.files {
                        files.cache.on_read_done(address, address.saturating_add(length));
                    }
                }
                self.reply(now, slot);
            }
        }
    }

    fn on_written(&mut self, now: Nanos, start: u64) {
        let Some(cache) = &mut self.cache else { unreachable!("only a cache writes back") };
        let mut acknowledged = std::mem::take(&mut self.scratch.acknowledged);
        let mut flushed = std::mem::take(&mut self.scratch.flushed);
        cache.on_written(start, &mut acknowledged, &mut flushed);
        self.reply_all(now, &mut acknowledged);
        for slot in flushed.drain(..) {
            self.flush_device(now, slot);
        }
        (self.scratch.acknowledged, self.scratch.flushed) = (acknowledged, flushed);
    }

    fn reply_all(&mut self, now: Nanos, slots: &mut Vec<u32>) {
        for slot in slots.drain(..) {
            self.reply(now, slot);
        }
    }

    pub(super) fn reply(&mut self, now: Nanos, slot: u32) {
        let pending = &mut self.requests[slot];
        pending.stage = Stage::Started;
        self.counters.leave(now);
        self.operations.end(&mut pending.holds_operation);
        let (request, latency) = (pending.request, now.since(pending.arrived));
        self.note(now, Actor::Server { latency }, request.operation, request.address, request.length);
        let payload = if request.operation == Operation::Read { request.length } else { 0 };
        let at = self.intake.reply(now, payload);
        self.events.push(at, EventKind::Reply, slot);
    }
}
