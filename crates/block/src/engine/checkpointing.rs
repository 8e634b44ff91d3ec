//! Checkpoints while the volume serves (rule 4).
//!
//! ```text
//! idle -> draining: nothing is appended, what is in flight completes -> writing: the map goes to the other area, chunk by chunk
//!      -> settling: flash FLUSH, for the area and every record below S -> superblock, to one place and then the other: each time
//!         written -> sealing: flash FLUSH -> idle
//! ```
//!
//! Nothing is appended until what is in flight has completed: the map is then the replay of the log up to S.
//! While it is encoded, records are appended and completed again: what they end stays in memory until it is
//! encoded, with the checksums (`snapshot`), and what they say is told by its seq. CLEANs that might be
//! written when it begins are left to the checkpoint, which leaves out what they say; it needs no room in the
//! log.

use super::Engine;
use super::orders::Purpose;
use crate::checkpoint::Encoder;
use crate::devices::Device;
use crate::order::{Action, Part};
use crate::superblock::Superblock;
use headstart_policy::server::Policy;
use headstart_units::request::Range;

/// How far the checkpoint is.
#[derive(Clone, Debug)]
pub enum Checkpoint {
    Idle,
    Draining,
    Writing { encoder: Box<Encoder>, next: Box<Superblock>, written: u64 },
    Settling { encoder: Box<Encoder>, next: Box<Superblock>, ticket: u64 },
    Superblock { encoder: Box<Encoder>, next: Box<Superblock>, place: Place },
    Sealing { encoder: Box<Encoder>, next: Box<Superblock>, place: Place, ticket: u64 },
}

/// Which place of superblocks a new one is written to: where the older of the two lies, and when it is
/// durable there the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    First,
    Second,
}

impl Checkpoint {
    /// Whether none is being made.
    pub fn is_idle(&self) -> bool {
        matches!(self, Checkpoint::Idle)
    }

    /// Whether nothing may be appended.
    pub fn holds_log(&self) -> bool {
        matches!(self, Checkpoint::Draining)
    }

    /// Whether CLEANs rest on it that no record says.
    pub fn holds_cleans(&self) -> bool {
        match self {
            Checkpoint::Idle | Checkpoint::Draining => false,
            Checkpoint::Writing { encoder, .. }
            | Checkpoint::Settling { encoder, .. }
            | Checkpoint::Superblock { encoder, .. }
            | Checkpoint::Sealing { encoder, .. } => !encoder.skipped().is_empty(),
        }
    }
}

impl<P: Policy> Engine<P> {
    /// Whether a checkpoint is due, beside those that are asked for.
    fn is_checkpoint_due(&self) -> bool {
        let start = self.in_force.superblock().start_block;
        let ring = self.map.ring.blocks();
        let grown = (self.map.ring.head() + ring - start) % ring;
        let many = grown >= self.settings.checkpoint_every_blocks.min(ring / 4);
        // A full log whose tail is kept by nothing but S.
        let blocked = self.is_full
            && self.map.ring.oldest().is_some_and(|oldest| {
                !oldest.live && oldest.ended_by <= self.durable_to && oldest.seq >= self.in_force.superblock().start_seq
            });
        let owed = !self.owed.is_empty() || !self.owed_in_flush.is_empty();
        let draining = self.condition.is_draining()
            && self.stuck.is_empty()
            && !self.condition.disk_failed()
            && !self.map.is_written_back();
        let busy = draining || owed || !self.write_backs.is_empty() || !self.writes.is_empty();
        let stop = self.condition.is_stopping() && self.has_news() && !busy;
        many || blocked || stop
    }

    pub(super) fn pump_checkpoint(&mut self) {
        if self.condition.flash_failed() {
            self.checkpoint = Checkpoint::Idle;
            self.map.end_snapshot();
            return;
        }
        match std::mem::replace(&mut self.checkpoint, Checkpoint::Idle) {
            Checkpoint::Idle if self.checkpoint_wanted || self.is_checkpoint_due() => {
                self.checkpoint_wanted = false;
                self.orders.note_moves(1);
                if self.has_news() || self.has_hole {
                    self.checkpoint = Checkpoint::Draining;
                }
                self.begin_if_drained();
            }
            Checkpoint::Draining => {
                self.checkpoint = Checkpoint::Draining;
                self.begin_if_drained();
            }
            Checkpoint::Settling { encoder, mut next, ticket } if self.flash_flush.is_done(ticket) => {
                next.number += 1;
                (next.checkpoint_bytes, next.checkpoint_crc) = encoder.sum();
                next.guard = self.in_force.superblock().guard.clone();
                self.write_superblock(encoder, next, Place::First);
            }
            Checkpoint::Sealing { encoder, next, place, ticket } if self.flash_flush.is_done(ticket) => match place {
                Place::First => self.write_superblock(encoder, next, Place::Second),
                Place::Second => self.end_checkpoint(&encoder, *next),
            },
            other => self.checkpoint = other,
        }
    }

    fn begin_if_drained(&mut self) {
        if !matches!(self.checkpoint, Checkpoint::Draining) || self.is_log_in_flight() {
            return;
        }
        self.map.heads.begin_checkpoint();
        self.map.begin_snapshot(self.seq_next);
        let encoder = Box::new(Encoder::new(std::mem::take(&mut self.flushed), &self.map.heads));
        // What is written from here on marks blocks again, here and in a replay.
        let is_named = |block| self.map.pieces(block).into_iter().any(|piece| !encoder.kept(piece).is_empty());
        let mut next = Box::new(self.in_force.next(is_named));
        next.start_seq = self.seq_next;
        next.start_block = self.map.ring.head();
        self.write_chunk(encoder, next, 0);
    }

    fn write_chunk(&mut self, mut encoder: Box<Encoder>, next: Box<Superblock>, written: u64) {
        let chunk = encoder.chunk(&self.map, self.settings.checkpoint_chunk_bytes);
        if encoder.has_ended() {
            self.map.end_snapshot();
        } else {
            self.map.pass_snapshot(encoder.cursor());
        }
        if chunk.is_empty() {
            let ticket = self.flash_flush.ask();
            self.checkpoint = Checkpoint::Settling { encoder, next, ticket };
            return;
        }
        let layout = self.in_force.layout();
        let range = Range::new(layout.checkpoint_offset(next.area) + written, chunk.len() as u64);
        let end = written + chunk.len() as u64;
        assert!(end <= layout.checkpoint_bytes(), "the log takes only what a checkpoint has room for");
        self.order(Device::Flash, Action::Write(vec![Part::Bytes(chunk)]), range, Purpose::CheckpointArea);
        self.checkpoint = Checkpoint::Writing { encoder, next, written: end };
    }

    pub(super) fn on_checkpoint_area(&mut self, ok: bool) {
        if !ok {
            self.condition.fail(Device::Flash);
        }
        match std::mem::replace(&mut self.checkpoint, Checkpoint::Idle) {
            Checkpoint::Writing { encoder, next, written } if ok => self.write_chunk(encoder, next, written),
            _ => {}
        }
    }

    fn write_superblock(&mut self, encoder: Box<Encoder>, next: Box<Superblock>, place: Place) {
        let bytes = next.encode().to_vec();
        let range = Range::new(next.places()[place as usize], bytes.len() as u64);
        self.order(Device::Flash, Action::Write(vec![Part::Bytes(bytes)]), range, Purpose::Superblock);
        self.checkpoint = Checkpoint::Superblock { encoder, next, place };
    }

    pub(super) fn on_superblock(&mut self, ok: bool) {
        if !ok {
            self.condition.fail(Device::Flash);
        }
        match std::mem::replace(&mut self.checkpoint, Checkpoint::Idle) {
            Checkpoint::Superblock { encoder, next, place } if ok => {
                let ticket = self.flash_flush.ask();
                self.checkpoint = Checkpoint::Sealing { encoder, next, place, ticket };
            }
            _ => {}
        }
    }

    fn end_checkpoint(&mut self, encoder: &Encoder, next: Superblock) {
        self.orders.note_moves(1);
        self.counters.checkpoints_total += 1;
        self.durable_to = self.durable_to.max(next.start_seq - 1);
        self.forget_holes(next.start_seq);
        self.in_force.replace(next);
        for slot in self.map.heads.end_checkpoint() {
            self.slots.give_back(slot);
        }
        for (range, upto) in encoder.skipped().iter() {
            self.map.carve_up_to(range, upto, 0);
        }
    }
}
