//! A drive's volatile write cache: writes are acknowledged after the bus transfer while there is room.
//!
//! States of a byte: waiting (no room) -> in transfer -> dirty -> being destaged -> on the medium. All but
//! the first take room. Transfers go one after another; each costs the command overhead and the bus time.

use std::collections::VecDeque;

use headstart_units::Nanos;

use crate::device::{Command, Finished};
use crate::extents::Extents;

/// Dirty ranges considered for the next destage, as many as the drive has tags.
const CANDIDATES: usize = 31;
/// Longest destage in one access (assumed).
const DESTAGE_BYTES_MAX: u64 = 1 << 20;

/// The write cache of one drive.
#[derive(Debug)]
pub struct WriteCache {
    limit_bytes: u64,
    overhead: Nanos,
    ns_per_byte: f64,
    waiting: VecDeque<(Nanos, Command)>,
    transfers: VecDeque<(Nanos, Command)>,
    interface_free: Nanos,
    transfer_bytes: u64,
    dirty: Extents,
    destaging_bytes: u64,
}

impl WriteCache {
    /// An empty cache of `limit_bytes`.
    pub fn new(limit_bytes: u64, overhead: Nanos, ns_per_byte: f64) -> WriteCache {
        WriteCache {
            limit_bytes,
            overhead,
            ns_per_byte,
            waiting: VecDeque::new(),
            transfers: VecDeque::new(),
            interface_free: Nanos::ZERO,
            transfer_bytes: 0,
            dirty: Extents::default(),
            destaging_bytes: 0,
        }
    }

    fn held_bytes(&self) -> u64 {
        self.transfer_bytes + self.dirty.bytes() + self.destaging_bytes
    }

    /// Takes a write command at `now`.
    pub fn on_write(&mut self, now: Nanos, command: Command) {
        self.waiting.push_back((now, command));
        self.admit(now);
    }

    fn admit(&mut self, now: Nanos) {
        while let Some((_, command)) = self.waiting.front().copied() {
            let held_bytes = self.held_bytes();
            if held_bytes > 0 && held_bytes + command.length > self.limit_bytes {
                return;
            }
            self.waiting.pop_front();
            self.transfer_bytes += command.length;
            let bus = Nanos((command.length as f64 * self.ns_per_byte).round() as u64);
            self.interface_free = self.interface_free.max(now) + self.overhead + bus;
            self.transfers.push_back((self.interface_free, command));
        }
    }

    /// When the next transfer ends.
    pub fn next_timer(&self) -> Option<Nanos> {
        self.transfers.front().map(|(at, _)| *at)
    }

    /// Ends the transfer that is due.
    pub fn on_timer(&mut self) -> Finished {
        let (at, command) = self.transfers.pop_front().expect("a transfer is due");
        self.transfer_bytes -= command.length;
        self.dirty.insert(command.address, command.end(), 0);
        self.admit(at);
        Finished { tag: command.tag, at }
    }

    /// True if destaging may delay reads.
    pub fn is_pressed(&self) -> bool {
        !self.waiting.is_empty() || self.dirty.bytes() * 2 >= self.limit_bytes
    }

    /// True if a write has waited for room longer than `limit`: destaging goes before everything else.
    pub fn is_overdue(&self, now: Nanos, limit: Nanos) -> bool {
        self.waiting.front().is_some_and(|(arrived, _)| now.since(*arrived) > limit)
    }

    /// True if nothing is held or waits.
    pub fn is_clean(&self) -> bool {
        self.waiting.is_empty() && self.held_bytes() == 0
    }

    /// True if there is something to destage.
    pub fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// True if all of `address..end` is dirty, so that a read needs no medium.
    pub fn covers(&self, address: u64, end: u64) -> bool {
        self.dirty.covered_until(address) >= end
    }

    /// The dirty range that is cheapest to reach, among the nearest on both sides of the head, with its cost.
    pub fn choose(&self, head_address: u64, mut cost: impl FnMut(u64) -> Nanos) -> Option<(u64, u64, Nanos)> {
        let candidates = self.dirty.around(head_address, CANDIDATES);
        let chosen = candidates.map(|(start, end)| (cost(start), start, end)).min();
        chosen.map(|(cost, start, end)| (start, end.min(start + DESTAGE_BYTES_MAX), cost))
    }

    /// Starts to destage `start..end`.
    pub fn begin_destage(&mut self, start: u64, end: u64) {
        let mut bytes = 0;
        self.dirty.remove(start, end, |_, piece| bytes += piece);
        self.destaging_bytes = bytes;
    }

    /// The destage in progress ended at `now`.
    pub fn end_destage(&mut self, now: Nanos) {
        self.destaging_bytes = 0;
        self.admit(now);
    }
}
