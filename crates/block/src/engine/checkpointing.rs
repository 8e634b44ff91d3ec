//! Checkpoints while the volume serves (rule 4).
//!
//! ```text
//! idle -> draining: nothing is appended, what is in flight completes
//!      -> writing: the map goes to the other area, chunk by chunk
//!      -> settling: flash FLUSH, for the area and every record below S
//!      -> superblock, to one place and then the other: each time written -> sealing: flash FLUSH -> idle
//! ```
//!
//! Nothing is appended until what is in flight has completed: the map is then the replay of the log up to S.
//! While it is encoded, records are appended and completed again: what they end stays in memory until it is
//! encoded, with the checksums (`snapshot`), and what they say is told by its seq. CLEANs that might be
//! written when it begins are left to the checkpoint, which leaves out what they say; it needs no room in the
//! log.

use super::Engine;
use super::checkpoints::{Draft, Place, Stage};
use super::orders::Purpose;
use crate::checkpoint::Encoder;
use crate::devices::Device;
use crate::order::{Action, Part};
use headstart_policy::server::Policy;
use headstart_units::request::Range;

impl<P: Policy> Engine<P> {
    /// Whether a checkpoint is due, beside those that are asked for.
    fn is_checkpoint_due(&self) -> bool {
        let start = self.in_force.superblock().start_block;
        let ring = self.map.ring.blocks();
        let grown = (self.map.ring.head() + ring - start) % ring;
        let many = grown >= self.settings.checkpoint_every_blocks.min(ring / 4);
        // A full log whose tail is kept by nothing but S.
        let blocked = self.log.is_full()
            && self.map.ring.oldest().is_some_and(|oldest| {
                !oldest.live
                    && oldest.ended_by <= self.log.records.durable_to()
                    && oldest.seq >= self.in_force.superblock().start_seq
            });
        let owed = self.flushes.owed.awaits_flush();
        let draining = self.condition.is_draining()
            && self.write_backs.refused.is_empty()
            && !self.condition.disk_failed()
            && !self.map.is_written_back();
        let busy = draining || owed || !self.write_backs.is_empty() || !self.writes.is_empty();
        let stop = self.condition.is_stopping() && self.has_news() && !busy;
        many || blocked || stop
    }

    pub(super) fn pump_checkpoint(&mut self) {
        if self.condition.flash_failed() {
            self.checkpoints.set_stage(Stage::Idle);
            self.map.end_snapshot();
            return;
        }
        match self.checkpoints.take_stage() {
            Stage::Idle if self.checkpoints.is_wanted() || self.is_checkpoint_due() => {
                self.checkpoints.take_wish();
                self.orders.note_moves(1);
                if self.has_news() || self.log.records.has_hole() {
                    self.checkpoints.set_stage(Stage::Draining);
                }
                self.begin_if_drained();
            }
            Stage::Draining => {
                self.checkpoints.set_stage(Stage::Draining);
                self.begin_if_drained();
            }
            Stage::Settling { mut draft, ticket } if self.flushes.flash.is_done(ticket) => {
                draft.next.number += 1;
                (draft.next.checkpoint_bytes, draft.next.checkpoint_crc) = draft.encoder.sum();
                draft.next.guard = self.in_force.superblock().guard.clone();
                self.write_superblock(draft, Place::First);
            }
            Stage::Sealing { draft, place, ticket } if self.flushes.flash.is_done(ticket) => match place {
                Place::First => self.write_superblock(draft, Place::Second),
                Place::Second => self.end_checkpoint(draft),
            },
            other => self.checkpoints.set_stage(other),
        }
    }

    fn begin_if_drained(&mut self) {
        if !self.checkpoints.hold_log() || self.log.records.may_complete() {
            return;
        }
        self.map.heads.begin_checkpoint();
        self.map.begin_snapshot(self.log.records.seq_next());
        let encoder = Box::new(Encoder::new(self.flushes.owed.take_flushed(), &self.map.heads));
        // What is written from here on marks blocks again, here and in a replay.
        let is_named = |block| self.map.pieces(block).into_iter().any(|piece| !encoder.kept(piece).is_empty());
        let mut next = Box::new(self.in_force.next(is_named));
        next.start_seq = self.log.records.seq_next();
        next.start_block = self.map.ring.head();
        self.write_chunk(Draft { encoder, next }, 0);
    }

    fn write_chunk(&mut self, mut draft: Draft, written: u64) {
        let chunk = draft.encoder.chunk(&self.map, self.settings.checkpoint_chunk_bytes);
        if draft.encoder.has_ended() {
            self.map.end_snapshot();
        } else {
            self.map.pass_snapshot(draft.encoder.cursor());
        }
        if chunk.is_empty() {
            let ticket = self.flushes.flash.ask();
            self.checkpoints.set_stage(Stage::Settling { draft, ticket });
            return;
        }
        let layout = self.in_force.layout();
        let range = Range::new(layout.checkpoint_offset(draft.next.area) + written, chunk.len() as u64);
        let end = written + chunk.len() as u64;
        assert!(end <= layout.checkpoint_bytes(), "the log takes only what a checkpoint has room for");
        self.order(Device::Flash, Action::Write(vec![Part::Bytes(chunk)]), range, Purpose::CheckpointArea);
        self.checkpoints.set_stage(Stage::Writing { draft, written: end });
    }

    pub(super) fn on_checkpoint_area(&mut self, ok: bool) {
        if !ok {
            self.condition.fail(Device::Flash);
        }
        match self.checkpoints.take_stage() {
            Stage::Writing { draft, written } if ok => self.write_chunk(draft, written),
            _ => {}
        }
    }

    fn write_superblock(&mut self, draft: Draft, place: Place) {
        let bytes = draft.next.encode().to_vec();
        let range = Range::new(draft.next.places()[place as usize], bytes.len() as u64);
        self.order(Device::Flash, Action::Write(vec![Part::Bytes(bytes)]), range, Purpose::Superblock);
        self.checkpoints.set_stage(Stage::Superblock { draft, place });
    }

    pub(super) fn on_superblock(&mut self, ok: bool) {
        if !ok {
            self.condition.fail(Device::Flash);
        }
        match self.checkpoints.take_stage() {
            Stage::Superblock { draft, place } if ok => {
                let ticket = self.flushes.flash.ask();
                self.checkpoints.set_stage(Stage::Sealing { draft, place, ticket });
            }
            _ => {}
        }
    }

    fn end_checkpoint(&mut self, draft: Draft) {
        let Draft { encoder, next } = draft;
        self.orders.note_moves(1);
        self.counters.checkpoints_total += 1;
        self.log.records.note_durable(next.start_seq - 1);
        self.log.records.forget_holes(next.start_seq);
        self.in_force.replace(*next);
        for slot in self.map.heads.end_checkpoint() {
            self.copies.slots.give_back(slot);
        }
        for (range, upto) in encoder.skipped().iter() {
            self.map.carve_up_to(range, upto, 0);
        }
    }
}
