//! Writes that are answered before the disk has them, as a disk's write cache does it, so that more of them
//! wait at once and the disk writes them in longer runs. LiU alone asks for it.
//!
//! ```text
//! on its way to the disk --room--> held: answered --the disk has it--> ended
//!              '-- no room: waits for some, the oldest first  |--the disk fails: the log takes it--> ended
//!                                                             '--the log fails as well--> lost until it is written again
//! ```
//!
//! A held write is an unfinished write like any other, and its data stay where they are; only its answer
//! comes early. Therefore:
//!
//! - A read of its range waits for its end, and so does a FLUSH that came after its answer.
//! - Its orders wait behind all others, unless somebody waits for them ([`Engine::presses`]).
//! - What is lost is read as EIO, never as the older bytes of the disk, and FLUSH fails.
//!
//! Nothing is held with FUA, as a part of a longer write, on failed devices, or while the volume is being emptied.

use std::collections::BTreeSet;

use super::{Engine, flushing};
use crate::order::{Error, Output, Tag};
use headstart_policy::server::Policy;
use headstart_units::ranges::Ranges;
use headstart_units::request::Range;

/// Held at once: each write that comes is compared with all that are unfinished (assumed: so many take less
/// time than a copy of the data of one).
const WRITES_MAX: usize = 4096;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// By range, which no two share, and by age.
    by_range: Ranges<u64>,
    ids: BTreeSet<u64>,
    bytes: u64,
    /// Those that would be held if there were room.
    waiting: BTreeSet<u64>,
    /// What was answered and is nowhere.
    lost: Ranges<()>,
}

impl Held {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Bytes of all.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a write is held.
    pub fn has(&self, id: u64) -> bool {
        self.ids.contains(&id)
    }

    /// Whether some came no later than this one.
    pub fn has_up_to(&self, id: u64) -> bool {
        self.ids.first().is_some_and(|first| *first <= id)
    }

    /// Whether a write is held, or would be.
    pub fn is_patient(&self, id: u64) -> bool {
        self.has(id) || self.waiting.contains(&id)
    }

    /// Those that overlap a range.
    pub fn overlapping(&self, range: Range) -> Vec<u64> {
        self.by_range.overlapping(range).map(|(_, id)| id).collect()
    }

    /// Whether bytes of a range were answered and are nowhere.
    pub fn is_lost(&self, range: Range) -> bool {
        self.lost.touches(range)
    }

    /// Whether any were.
    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// How many were.
    pub fn lost_bytes(&self) -> u64 {
        self.lost.iter().map(|(range, ())| range.length).sum()
    }

    /// A range has been written.
    pub fn on_written(&mut self, range: Range) {
        self.lost.carve(range);
    }

    fn add(&mut self, id: u64, range: Range) {
        self.by_range.insert(range, id);
        self.ids.insert(id);
        self.bytes += range.length;
    }

    fn remove(&mut self, id: u64, range: Range) {
        self.by_range.carve(range);
        self.ids.remove(&id);
        self.bytes -= range.length;
    }
}

impl<P: Policy> Engine<P> {
    /// Whether writes are held now, as far as there is room.
    fn holds(&self) -> bool {
        self.absorbs() && !self.disk_failed && !self.draining && !self.stopping
    }

    fn has_room_to_hold(&self, bytes: u64) -> bool {
        self.held.bytes + bytes <= self.policy.holds_bytes_max() && self.held.ids.len() < WRITES_MAX
    }

    /// A write whose bypass begins is held, or waits for room to be. No sooner: only the disk can fail it
    /// now, not flash that other things wait for.
    pub(super) fn ask_to_hold(&mut self, id: u64) {
        let write = &self.writes[&id];
        if write.may_be_held() && self.holds() && write.range.length <= self.policy.holds_bytes_max() {
            self.held.waiting.insert(id);
            self.hold_waiting();
        }
    }

    /// Holds those that wait for room as far as there is some, the oldest first.
    fn hold_waiting(&mut self) {
        while self.holds()
            && let Some(id) = self.held.waiting.first().copied()
            && self.has_room_to_hold(self.writes[&id].range.length)
        {
            self.held.waiting.pop_first();
            let (range, tag) = (self.writes[&id].range, self.writes[&id].tag);
            self.held.add(id, range);
            self.counters.early_writes_total += 1;
            self.counters.early_bytes_total += range.length;
            self.moves += 1;
            self.outputs.push(Output::Acknowledge(tag));
        }
    }

    /// A write has ended. One that was held and failed is lost.
    pub(super) fn end_hold(&mut self, id: u64, range: Range, ok: bool) {
        self.held.waiting.remove(&id);
        if !self.held.has(id) {
            return;
        }
        self.held.remove(id, range);
        if !ok {
            self.held.lost.insert(range, ());
            self.counters.lost_writes_total += 1;
            self.counters.lost_bytes_total += range.length;
            self.fail_flushes(id);
        }
        self.hold_waiting();
    }

    /// A read that comes now waits until those of its range have ended; whether there are any.
    pub(super) fn wait_for_held(&mut self, tag: Tag, range: Range) -> usize {
        let held = self.held.overlapping(range);
        for id in &held {
            let write = self.writes.get_mut(id).expect("what is held is unfinished");
            write.readers.push((tag, range));
            self.disk_queue.hasten(write.range);
        }
        held.len()
    }

    /// Whether orders of held writes take turns with others, and not what these leave.
    pub(super) fn presses(&self) -> bool {
        !self.held.waiting.is_empty()
            || self.draining
            || self.stopping
            || self.is_short_of_room()
            || self.flushes.iter().any(flushing::Flush::waits_for_held)
    }

    /// FLUSHes that have waited for a write which is lost.
    fn fail_flushes(&mut self, id: u64) {
        let (failed, others) = std::mem::take(&mut self.flushes).into_iter().partition(|flush| flush.rests_on(id));
        self.flushes = others;
        let failed: Vec<flushing::Flush> = failed;
        failed.into_iter().for_each(|flush| self.reply(flush.tag, Err(Error::Io)));
    }
}
