//! From a request's arrival to its reply: disk operations, caches, elevator, device.

use headstart_units::Nanos;

use super::{Actor, EventKind, Operation, Owner, Pending, Request, Sent, Server, Stage};
use crate::device::Command;
use crate::elevator::{Batch, NR_REQUESTS, Part};
use crate::file_cache::{Fetch, Lookup};
use crate::nic::HEADER_BYTES;
use crate::server::Origin;

impl Server {
    pub(super) fn on_arrival(&mut self, now: Nanos, slot: u32) {
        let Pending { request, cancelled, .. } = self.pending[slot as usize];
        if cancelled {
            return self.release(slot);
        }
        self.counters.arrive(now);
        match request.operation {
            Operation::Flush => {
                self.pending[slot as usize].stage = Stage::Started;
                if self.cache.as_mut().is_none_or(|cache| cache.on_flush(now, slot)) {
                    self.flush_device(now, slot);
                }
            }
            _ if request.length == 0 => self.reply(now, slot),
            _ if self.operations >= self.operations_max => self.without_operation.push_back(slot),
            _ => self.take_up(now, slot, request),
        }
        self.dispatch(now);
    }

    /// Begins a disk operation.
    fn take_up(&mut self, now: Nanos, slot: u32, request: Request) {
        self.operations += 1;
        self.pending[slot as usize].holds_operation = true;
        let end = request.address.saturating_add(request.length);
        match (request.operation, &mut self.cache) {
            (Operation::Write, Some(cache)) => {
                self.pending[slot as usize].stage = Stage::Started;
                let mut acknowledged = std::mem::take(&mut self.acknowledged);
                cache.on_write(slot, request.address, end, &mut acknowledged);
                self.reply_all(now, &mut acknowledged);
                self.acknowledged = acknowledged;
            }
            (Operation::Read, Some(cache)) if cache.covers(request.address, end) => self.reply(now, slot),
            (Operation::Read, _) if self.file_cache.is_some() => self.look_up(now, slot, request, end),
            _ => self.enqueue(now, slot, request),
        }
    }

    fn end_operation(&mut self, slot: u32) {
        let pending = &mut self.pending[slot as usize];
        self.operations -= usize::from(pending.holds_operation);
        pending.holds_operation = false;
    }

    /// Serves a read from the file cache as far as that goes.
    fn look_up(&mut self, now: Nanos, slot: u32, request: Request, end: u64) {
        let Some(cache) = &mut self.file_cache else { unreachable!("there is a file cache to look into") };
        let mut fetches = std::mem::take(&mut self.fetches);
        let lookup = cache.on_read(slot, request.origin, request.address, end, &mut fetches);
        // Before anything is asked: a volume may have the bytes in memory, and answer at once.
        let pending = &mut self.pending[slot as usize];
        match lookup {
            Lookup::Alone => {}
            Lookup::Hit => pending.stage = Stage::Started,
            Lookup::Waits(pages) => {
                (pending.stage, pending.parts_left) = (Stage::Started, pages);
                self.reads_under_way += 1;
            }
        }
        // A command reads as many whole pages as it may.
        let pages_max = self.command_bytes_max / self.page_bytes;
        for fetch in fetches.drain(..) {
            let (mut page, stop) = (fetch.page, fetch.page + fetch.count);
            while page < stop {
                let count = pages_max.min(stop - page);
                let part = Part {
                    owner: Owner::Fill { page, count: count as u32 },
                    operation: Operation::Read,
                    address: page * self.page_bytes,
                    length: count * self.page_bytes,
                    origin: request.origin,
                    is_read_ahead: true,
                };
                if self.volume.is_some() {
                    self.ask_volume(now, part.owner, Operation::Read, part.address, part.length);
                } else {
                    self.elevator.on_part(now, part);
                }
                page += count;
            }
        }
        self.fetches = fetches;
        match lookup {
            Lookup::Alone => self.enqueue(now, slot, request),
            Lookup::Hit => self.schedule(now + self.hit_cost, EventKind::Hit, slot),
            Lookup::Waits(_) => {}
        }
    }

    fn on_filled(&mut self, now: Nanos, fetch: Fetch) {
        let Some(cache) = &mut self.file_cache else { unreachable!("only a file cache reads ahead") };
        let mut woken = std::mem::take(&mut self.woken);
        cache.on_filled(fetch, &mut woken);
        for slot in woken.drain(..) {
            self.finish_part(now, Owner::Request(slot));
        }
        self.woken = woken;
    }

    fn enqueue(&mut self, now: Nanos, slot: u32, request: Request) {
        let pending = &mut self.pending[slot as usize];
        pending.stage = Stage::Queued;
        pending.parts_left = request.length.div_ceil(self.command_bytes_max) as u32;
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
        let is_free = self.cache.is_none() && self.flushes.is_empty() && self.under_way < self.queue_depth;
        if is_free && left <= self.command_bytes_max {
            let part = Part { owner, operation, address, length: left, origin, is_read_ahead: false };
            self.count_alone(part.operation, origin, true);
            if let Some(batch) = self.elevator.pass(now, part) {
                self.send_batch(now, batch);
            }
            return;
        }
        while left > 0 {
            let length = left.min(self.command_bytes_max);
            let part = Part { owner, operation, address, length, origin, is_read_ahead: false };
            self.count_alone(operation, origin, true);
            self.elevator.on_part(now, part);
            address = address.saturating_add(length);
            left -= length;
        }
    }

    /// Tells the file cache of a part that waits for the drive, or no longer does.
    fn count_alone(&mut self, operation: Operation, origin: Origin, waits: bool) {
        if let Some(cache) = &mut self.file_cache
            && operation == Operation::Read
        {
            cache.on_alone(origin.job, waits);
        }
    }

    fn flush_device(&mut self, now: Nanos, slot: u32) {
        if self.volume.is_some() {
            self.flush_volume(now, slot);
        } else if self.device.has_volatile_cache() {
            self.flushes.push_back(Owner::Request(slot));
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
            if self.operations >= self.operations_max || self.without_operation.is_empty() {
                return;
            }
        }
    }

    /// Begins disk operations while there are any left.
    fn admit(&mut self, now: Nanos) {
        while self.operations < self.operations_max
            && let Some(slot) = self.without_operation.pop_front()
        {
            let Pending { request, cancelled, .. } = self.pending[slot as usize];
            if cancelled {
                self.counters.leave(now);
                self.release(slot);
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
                .map_or(self.elevator.has_room(), |volume| volume.asked() + written_back.len() < NR_REQUESTS)
                && let Some((start, end)) = cache.next_write_back(now, self.reads_under_way > 0)
            {
                let owner = Owner::WriteBack { start };
                let (operation, length, origin) = (Operation::Write, end - start, Origin::default());
                if self.volume.is_some() {
                    written_back.push((owner, start, length));
                    continue;
                }
                let part = Part { owner, operation, address: start, length, origin, is_read_ahead: false };
                self.elevator.on_part(now, part);
            }
        }
        for (owner, start, length) in written_back {
            self.ask_volume(now, owner, Operation::Write, start, length);
        }
        while self.under_way < self.queue_depth {
            if let Some(first) = self.flushes.pop_front() {
                let sent = Sent { first, merged: Vec::new(), queue: None };
                self.send(now, Operation::Flush, (0, 0), sent);
            } else if let Some(batch) = self.elevator.next_command(now) {
                self.send_batch(now, batch);
            } else {
                return;
            }
        }
    }

    /// Sends a command unless everybody has withdrawn from it.
    fn send_batch(&mut self, now: Nanos, batch: Batch<Owner>) {
        let Batch { address, end, operation, first, mut merged, queue, .. } = batch;
        merged.retain(|owner| self.start_part(now, *owner));
        let first = if self.start_part(now, first) { Some(first) } else { merged.pop() };
        match first {
            Some(first) => self.send(now, operation, (address, end), Sent { first, merged, queue: Some(queue) }),
            None => self.elevator.on_finished(now, queue),
        }
    }

    /// Notes that a part goes to the device; false if its request was withdrawn.
    fn start_part(&mut self, now: Nanos, owner: Owner) -> bool {
        let Owner::Request(slot) = owner else { return true };
        let Request { operation, origin, .. } = self.pending[slot as usize].request;
        self.count_alone(operation, origin, false);
        let pending = &mut self.pending[slot as usize];
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
            self.end_operation(slot);
            self.release(slot);
        }
        false
    }

    fn send(&mut self, now: Nanos, operation: Operation, range: (u64, u64), sent: Sent) {
        let tag = match self.free_commands.pop() {
            Some(tag) => {
                self.commands[tag as usize] = sent;
                tag
            }
            None => {
                self.commands.push(sent);
                self.commands.len() as u32 - 1
            }
        };
        self.under_way += 1;
        self.note(now, Actor::Device, operation, range.0, range.1 - range.0);
        self.device.on_command(now, Command { tag, operation, address: range.0, length: range.1 - range.0 });
        self.device_due = self.device.next_timer().unwrap_or(Nanos::MAX);
    }

    pub(super) fn on_device(&mut self, now: Nanos) {
        let mut finished = std::mem::take(&mut self.finished);
        self.device.on_timer(now, &mut finished);
        self.device_due = self.device.next_timer().unwrap_or(Nanos::MAX);
        for done in finished.drain(..) {
            self.under_way -= 1;
            self.free_commands.push(done.tag);
            let Sent { first, merged, queue } = &mut self.commands[done.tag as usize];
            let (first, merged, queue) = (*first, std::mem::take(merged), *queue);
            if let Some(queue) = queue {
                self.elevator.on_finished(now, queue);
            }
            self.finish_part(now, first);
            for owner in merged {
                self.finish_part(now, owner);
            }
        }
        self.finished = finished;
        self.carry_out(now);
        self.dispatch(now);
    }

    pub(super) fn finish_part(&mut self, now: Nanos, owner: Owner) {
        match owner {
            Owner::WriteBack { start } => self.on_written(now, start),
            Owner::Volume(order) => self.finish_order(now, order),
            Owner::Fill { page, count } => self.on_filled(now, Fetch { page, count: u64::from(count) }),
            Owner::Request(slot) => {
                let pending = &mut self.pending[slot as usize];
                // A flush has no parts.
                pending.parts_left = pending.parts_left.saturating_sub(1);
                if pending.parts_left > 0 {
                    return;
                }
                let Request { operation, address, length, .. } = pending.request;
                if operation == Operation::Read {
                    self.reads_under_way -= 1;
                    if let Some(cache) = &mut self.file_cache {
                        cache.on_read_done(address, address.saturating_add(length));
                    }
                }
                self.reply(now, slot);
            }
        }
    }

    fn on_written(&mut self, now: Nanos, start: u64) {
        let Some(cache) = &mut self.cache else { unreachable!("only a cache writes back") };
        let mut acknowledged = std::mem::take(&mut self.acknowledged);
        let mut flushed = std::mem::take(&mut self.flushed);
        cache.on_written(start, &mut acknowledged, &mut flushed);
        self.reply_all(now, &mut acknowledged);
        for slot in flushed.drain(..) {
            self.flush_device(now, slot);
        }
        (self.acknowledged, self.flushed) = (acknowledged, flushed);
    }

    fn reply_all(&mut self, now: Nanos, slots: &mut Vec<u32>) {
        for slot in slots.drain(..) {
            self.reply(now, slot);
        }
    }

    pub(super) fn reply(&mut self, now: Nanos, slot: u32) {
        let pending = &mut self.pending[slot as usize];
        pending.stage = Stage::Started;
        self.counters.leave(now);
        self.operations -= usize::from(std::mem::take(&mut pending.holds_operation));
        let (request, latency) = (pending.request, now.since(pending.arrived));
        self.note(now, Actor::Server { latency }, request.operation, request.address, request.length);
        let payload = if request.operation == Operation::Read { request.length } else { 0 };
        let at = self.nic_out.send(now, payload.max(HEADER_BYTES));
        self.schedule(at, EventKind::Reply, slot);
    }
}
