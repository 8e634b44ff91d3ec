//! The server's write-back page cache.
//!
//! A write is acknowledged when its bytes are in the cache; it waits for room, first come first served and piecewise.
//! Bytes take room from then until the drive has acknowledged them. Reads of bytes that are all dirty (or on their way
//! to the drive) are served from the cache; clean bytes are not kept, so a read cache is not part of this model.
//!
//! Write-back goes in rising address order around the device (C-SCAN), neighbours coalesced into one command:
//!
//! | dirty | in flight at most | beside reads |
//! |---|---|---|
//! | less than half the limit, nobody waits | 4 | no: it yields to every read at the server |
//! | half or more, or a writer or a flush waits | 64 | yes |
//!
//! While a flush waits, what was dirty when it came goes first, as the page cache of Linux tags it. After a
//! quarter of a second, as long as Linux's CFQ lets writes wait (ours has no expiry), nothing else goes: else
//! a writer that is always ahead of the arm would keep the flush waiting for as long as it writes.
//!
//! It starts as soon as anything is dirty: an idle disk has nothing better to do, and while it works neighbours gather.

use std::collections::{BTreeMap, VecDeque};

use headstart_units::Nanos;

use crate::extents::Extents;

/// Write-backs in flight while there is no hurry (assumed).
const BACKGROUND_IN_FLIGHT: usize = 4;
/// Write-backs in flight under pressure: the drive's 31 tags and as many again in the elevator (assumed).
const PRESSED_IN_FLIGHT: usize = 64;

/// A flush that has waited so long is waited for by all else.
const FLUSH_PATIENCE: Nanos = Nanos(250_000_000);

/// A write-back on its way to the drive.
#[derive(Debug)]
struct InFlight {
    end: u64,
    /// Epochs and bytes of each.
    pieces: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct WaitingWrite {
    owner: u32,
    address: u64,
    end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flush {
    owner: u32,
    /// The last that it waits for.
    epoch: u64,
    arrived: Nanos,
}

/// The cache of one server.
#[derive(Debug)]
pub struct ServerCache {
    limit_bytes: u64,
    command_bytes_max: u64,
    dirty: Extents,
    in_flight: BTreeMap<u64, InFlight>,
    in_flight_bytes: u64,
    waiting: VecDeque<WaitingWrite>,
    cursor: u64,
    epoch: u64,
    /// Bytes of each epoch not yet acknowledged by the drive.
    epoch_bytes: BTreeMap<u64, u64>,
    /// In order of arrival.
    flushes: VecDeque<Flush>,
    /// What the first flush waits for and was not yet on its way: start and end, in the order of write-back.
    tagged: VecDeque<(u64, u64)>,
}

impl ServerCache {
    /// An empty cache of `limit_bytes`, which must not be zero; a write-back is at most `command_bytes_max` long.
    pub fn new(limit_bytes: u64, command_bytes_max: u64) -> ServerCache {
        assert!(limit_bytes > 0, "leave the cache out to have none");
        ServerCache {
            limit_bytes,
            command_bytes_max,
            dirty: Extents::default(),
            in_flight: BTreeMap::new(),
            in_flight_bytes: 0,
            waiting: VecDeque::new(),
            cursor: 0,
            epoch: 0,
            epoch_bytes: BTreeMap::new(),
            flushes: VecDeque::new(),
            tagged: VecDeque::new(),
        }
    }

    /// Bytes that take room.
    pub fn held_bytes(&self) -> u64 {
        self.dirty.bytes() + self.in_flight_bytes
    }

    /// Takes a write of `address..end`; appends the owners of writes that are now in the cache to `acknowledged`.
    pub fn on_write(&mut self, owner: u32, address: u64, end: u64, acknowledged: &mut Vec<u32>) {
        self.waiting.push_back(WaitingWrite { owner, address, end });
        self.admit(acknowledged);
    }

    fn admit(&mut self, acknowledged: &mut Vec<u32>) {
        while let Some(write) = self.waiting.front_mut() {
            // Bytes that are dirty already are overwritten in place.
            let fresh = self.dirty.covered_until(write.address).max(write.address);
            let held_bytes = self.dirty.bytes() + self.in_flight_bytes;
            let room = self.limit_bytes.saturating_sub(held_bytes);
            let end = write.end.min(fresh.saturating_add(room));
            let added = self.dirty.insert(write.address, end, self.epoch);
            if added > 0 {
                *self.epoch_bytes.entry(self.epoch).or_default() += added;
            }
            write.address = end.max(write.address);
            if write.address < write.end {
                if added == 0 {
                    return;
                }
                continue;
            }
            acknowledged.push(write.owner);
            self.waiting.pop_front();
        }
    }

    /// Takes a flush at `arrived`. True if nothing is dirty, so that there is nothing to wait for.
    pub fn on_flush(&mut self, arrived: Nanos, owner: u32) -> bool {
        if self.epoch_bytes.is_empty() {
            return true;
        }
        self.flushes.push_back(Flush { owner, epoch: self.epoch, arrived });
        self.epoch += 1;
        if self.flushes.len() == 1 {
            self.tag();
        }
        false
    }

    /// Tags what the first flush waits for.
    fn tag(&mut self) {
        self.tagged.clear();
        if let Some(&Flush { epoch, .. }) = self.flushes.front() {
            self.tagged.extend(self.dirty.around_up_to(self.cursor, epoch));
        }
    }

    /// True if all of `address..end` is in the cache.
    pub fn covers(&self, address: u64, end: u64) -> bool {
        let mut position = address;
        while position < end {
            let mut next = self.dirty.covered_until(position);
            if let Some((_, in_flight)) = self.in_flight.range(..=position).next_back() {
                next = next.max(in_flight.end);
            }
            if next <= position {
                return false;
            }
            position = next;
        }
        true
    }

    /// True if a writer or a flush waits, or half the room is taken.
    fn is_pressed(&self) -> bool {
        !self.waiting.is_empty() || !self.flushes.is_empty() || self.held_bytes() * 2 >= self.limit_bytes
    }

    /// The next range to write back, if one should be `now`; `reads_wait` says whether the server has reads to serve.
    /// Report its end with `on_written`.
    pub fn next_write_back(&mut self, now: Nanos, reads_wait: bool) -> Option<(u64, u64)> {
        let pressed = self.is_pressed();
        let in_flight_max = if pressed { PRESSED_IN_FLIGHT } else { BACKGROUND_IN_FLIGHT };
        if self.dirty.is_empty() || self.in_flight.len() >= in_flight_max || (reads_wait && !pressed) {
            return None;
        }
        let (start, end) = match self.flushes.front().copied() {
            None => self.next_in_order()?,
            Some(flush) => match self.next_tagged() {
                Some(run) => run,
                None if now.since(flush.arrived) < FLUSH_PATIENCE => self.next_in_order()?,
                None => return None,
            },
        };
        self.cursor = end;
        let mut pieces = Vec::with_capacity(1);
        self.dirty.remove(start, end, |epoch, bytes| pieces.push((epoch, bytes)));
        self.in_flight_bytes += end - start;
        self.in_flight.insert(start, InFlight { end, pieces });
        Some((start, end))
    }

    fn next_in_order(&self) -> Option<(u64, u64)> {
        self.free_run(self.cursor).or_else(|| self.free_run(0))
    }

    /// The next tagged run. Bytes that were written again while on their way are tagged anew when nothing else is.
    fn next_tagged(&mut self) -> Option<(u64, u64)> {
        if self.tagged.is_empty() && self.in_flight.is_empty() {
            self.tag();
        }
        while let Some(&(start, end)) = self.tagged.front() {
            match self.free_run(start).filter(|run| run.0 < end) {
                Some(run) => return Some(run),
                None => self.tagged.pop_front(),
            };
        }
        None
    }

    /// The first dirty run from `cursor` of which no byte is on its way already.
    fn free_run(&self, mut cursor: u64) -> Option<(u64, u64)> {
        loop {
            let (start, end) = self.dirty.run_from(cursor, self.command_bytes_max)?;
            let busy = self.in_flight.range(..end).next_back().filter(|(_, in_flight)| in_flight.end > start);
            let Some((&busy_start, _)) = busy else { return Some((start, end)) };
            // In-flight ranges do not overlap; find the first that touches this run.
            let before = self.in_flight.range(..=start).next_back().filter(|(_, in_flight)| in_flight.end > start);
            if let Some((_, in_flight)) = before {
                cursor = in_flight.end;
                continue;
            }
            let first = self.in_flight.range(start..).next().map_or(busy_start, |(&first, _)| first);
            return Some((start, first));
        }
    }

    /// The drive has acknowledged the range that started at `start`; appends writers and flushes that may go on.
    pub fn on_written(&mut self, start: u64, acknowledged: &mut Vec<u32>, flushed: &mut Vec<u32>) {
        let done = self.in_flight.remove(&start).expect("only ranges on their way are written");
        self.in_flight_bytes -= done.end - start;
        for (epoch, bytes) in done.pieces {
            let left = self.epoch_bytes.get_mut(&epoch).expect("bytes on their way belong to an epoch");
            *left -= bytes;
            if *left == 0 {
                self.epoch_bytes.remove(&epoch);
            }
        }
        while let Some(&Flush { owner, epoch, .. }) = self.flushes.front()
            && self.epoch_bytes.first_key_value().is_none_or(|(oldest, _)| *oldest > epoch)
        {
            self.flushes.pop_front();
            flushed.push(owner);
        }
        if !flushed.is_empty() {
            self.tag();
        }
        self.admit(acknowledged);
    }
}

#[cfg(test)]
mod tests;
