//! A server asks its volume, and carries out what that orders.

use headstart_block::devices::Device as Which;
use headstart_block::order::{OrderId, Output, Request as Asked};
use headstart_units::Nanos;
use headstart_units::SECTOR_BYTES;
use headstart_units::request::Range;

use super::Server;
use super::disk::Owner;
use super::volume::{Ordered, PART_BYTES_MAX, operation};
use crate::elevator::Part;
use crate::request::{Operation, Origin};

impl Server {
    /// Asks the volume, in as many parts as `volume_parts` says.
    pub(super) fn ask_volume(&mut self, now: Nanos, owner: Owner, operation: Operation, address: u64, length: u64) {
        let volume = self.volume.as_mut().expect("there is one");
        let disk_bytes = volume.engine.superblock().disk_bytes;
        let (mut address, end) = (address, address + length);
        while address < end {
            let length = PART_BYTES_MAX.min(end - address);
            // Addresses beyond the end wrap, as those of the devices do.
            let first = address % disk_bytes / SECTOR_BYTES * SECTOR_BYTES;
            let last = (address % disk_bytes + length).next_multiple_of(SECTOR_BYTES).min(disk_bytes);
            let range = Range::between(first, last.min(first + PART_BYTES_MAX));
            let tag = volume.tag(owner);
            let request = match operation {
                Operation::Read => Asked::Read(range),
                _ => {
                    let data = &volume.zeros[..range.length as usize];
                    Asked::Write { offset: range.offset, data, fua: false }
                }
            };
            volume.engine.on_request(now, tag, request);
            address += length;
        }
        self.carry_out(now);
    }

    /// Parts that a request of a volume has.
    pub(super) fn volume_parts(length: u64) -> u32 {
        length.div_ceil(PART_BYTES_MAX) as u32
    }

    /// Everything that the volume has acknowledged becomes durable.
    pub(super) fn flush_volume(&mut self, now: Nanos, slot: u32) {
        let volume = self.volume.as_mut().expect("there is one");
        if volume.is_draining {
            volume.drains.push(slot);
        } else {
            let tag = volume.tag(Owner::Request(slot));
            volume.engine.on_request(now, tag, Asked::Flush);
        }
        self.carry_out(now);
    }

    /// Bytes that its volume or its cache holds and its disk does not.
    pub fn dirty_bytes(&self) -> u64 {
        let volume = self.volume.as_ref().map_or(0, |volume| volume.engine.map().dirty_bytes());
        volume + self.cache.as_ref().map_or(0, |cache| cache.held_bytes())
    }

    /// From now on what is dirty is written back, and a flush waits until nothing is.
    pub fn drain(&mut self, now: Nanos) {
        let now = now.max(self.clock);
        if let Some(volume) = &mut self.volume {
            volume.is_draining = true;
            volume.engine.drain(now, true);
            self.carry_out(now);
            self.dispatch(now);
        }
    }

    /// Forgets what the volume holds in memory of segments, and what the file cache holds.
    pub fn empty_buffers(&mut self, now: Nanos) {
        let now = now.max(self.clock);
        if let Some(files) = &mut self.files {
            files.cache.empty();
        }
        if let Some(volume) = &mut self.volume {
            volume.engine.empty_buffer(now);
            self.carry_out(now);
            self.dispatch(now);
        }
    }

    /// Does what the engine has ordered.
    pub(super) fn carry_out(&mut self, now: Nanos) {
        loop {
            let Some(volume) = &mut self.volume else { return };
            let outputs = volume.engine.take_outputs();
            if outputs.is_empty() {
                break;
            }
            for output in outputs {
                match output {
                    Output::Order(order) => {
                        let range = Range::new(order.offset, order.length);
                        self.begin_order(now, order.id, order.device, operation(&order.action), range);
                    }
                    Output::Reply { tag, result } => {
                        assert!(result.is_ok(), "nothing fails here");
                        let volume = self.volume.as_mut().expect("there is one");
                        let owner = volume.asked[tag as u32];
                        volume.asked.remove(tag as u32);
                        self.finish_part(now, owner);
                    }
                    Output::Release(_) => {}
                }
            }
        }
        let Some(volume) = &mut self.volume else { return };
        volume.send_flash(now, &mut self.accesses);
        if !volume.drains.is_empty() && volume.engine.is_drained() {
            for slot in std::mem::take(&mut volume.drains) {
                self.reply(now, slot);
            }
        }
    }

    fn begin_order(&mut self, now: Nanos, id: OrderId, which: Which, operation: Operation, range: Range) {
        let bytes_max = self.disk.command_bytes_max();
        let volume = self.volume.as_mut().expect("there is one");
        let bytes = if operation == Operation::Read { range.length } else { 0 };
        let is_disk = which == Which::Disk && operation != Operation::Flush;
        let parts_left = if is_disk { range.length.div_ceil(bytes_max) as u32 } else { 1 };
        volume.orders.insert(id, Ordered { parts_left, bytes });
        if which == Which::Flash {
            volume.flash_waiting.push_back((id, operation, range));
        } else if operation == Operation::Flush {
            if self.disk.has_volatile_cache() {
                self.disk.on_flush(Owner::Volume(id));
            } else {
                self.finish_order(now, id);
            }
        } else {
            let mut address = range.offset;
            while address < range.end() {
                let length = bytes_max.min(range.end() - address);
                let (owner, origin) = (Owner::Volume(id), Origin::default());
                self.disk.on_part(now, Part { owner, operation, address, length, origin, is_read_ahead: false });
                address += length;
            }
        }
    }

    /// A part of an order is done.
    pub(super) fn finish_order(&mut self, now: Nanos, id: OrderId) {
        let volume = self.volume.as_mut().expect("it gave the order");
        let order = volume.orders.get_mut(&id).expect("it is under way");
        order.parts_left -= 1;
        if order.parts_left > 0 {
            return;
        }
        let bytes = order.bytes;
        volume.orders.remove(&id);
        let data = &volume.zeros[..bytes.min(PART_BYTES_MAX) as usize];
        volume.engine.on_completion(now, id, Ok(data));
    }

    /// When the volume has something to do of its own.
    pub(super) fn volume_due(&self) -> Nanos {
        let Some(volume) = &self.volume else { return Nanos::MAX };
        volume.flash_due.min(volume.engine.next_timer().unwrap_or(Nanos::MAX))
    }

    /// Flash has finished something, or the engine's time has come.
    pub(super) fn on_volume(&mut self, now: Nanos) {
        let volume = self.volume.as_mut().expect("it has a timer");
        let mut finished = std::mem::take(&mut volume.finished);
        if volume.flash_due <= now {
            volume.flash.on_timer(now, &mut finished);
        }
        for done in finished.drain(..) {
            let volume = self.volume.as_mut().expect("there is one");
            volume.flash_under_way -= 1;
            let id = volume.flash_tags[done.tag];
            volume.flash_tags.remove(done.tag);
            self.finish_order(now, id);
        }
        let volume = self.volume.as_mut().expect("there is one");
        volume.finished = finished;
        if volume.engine.next_timer().is_some_and(|at| at <= now) {
            volume.engine.on_timer(now);
        }
        self.carry_out(now);
        self.dispatch(now);
    }
}
