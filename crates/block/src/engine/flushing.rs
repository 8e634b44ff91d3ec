//! Flushes of the devices, and FLUSH, which is made of them (rule 2): disk, then CLEANs, then every earlier
//! record, then flash.
//!
//! A device flush covers what had completed when it was given; one is under way at a time, and whoever comes
//! meanwhile takes part in the next. The disk is flushed for a FLUSH only if a bypass has completed since the
//! last time: what write-back wrote is on flash still.

use super::Engine;
use super::flushes::Stage;
use super::orders::Purpose;
use crate::devices::Device;
use crate::order::{Action, Error, Tag};
use headstart_policy::server::Policy;
use headstart_units::BLOCK_BYTES;
use headstart_units::request::Range;

impl<P: Policy> Engine<P> {
    pub(super) fn add_flush(&mut self, tag: Tag) {
        self.flushes.add(tag, Stage::Asked);
    }

    /// A FUA write is written: now it is made durable.
    pub(super) fn add_fua(&mut self, tag: Tag) {
        let stage = self.flushes.disk_stage();
        self.flushes.add(tag, stage);
    }

    pub(super) fn pump_flushes(&mut self) {
        let mut index = 0;
        while let Some(stage) = self.flushes.stage(index) {
            let result = match self.advance(stage) {
                Ok(Some(stage)) => {
                    self.orders.note_moves(u64::from(self.flushes.set_stage(index, stage)));
                    index += 1;
                    continue;
                }
                Ok(None) => Ok(Vec::new()),
                Err(()) => Err(Error::Io),
            };
            let tag = self.flushes.end(index);
            self.orders.reply(tag, result);
        }
    }

    /// The stage that a FLUSH reaches from this one by now; none: it is done.
    fn advance(&mut self, mut stage: Stage) -> Result<Option<Stage>, ()> {
        if self.condition.flash_failed() {
            return Err(());
        }
        if let Stage::Asked = stage {
            stage = self.flushes.disk_stage();
        }
        if let Stage::Disk(ticket) = stage {
            if !self.flushes.disk.is_done(ticket) {
                return if self.condition.disk_failed() { Err(()) } else { Ok(Some(stage)) };
            }
            stage = Stage::Cleans;
        }
        if let Stage::Cleans = stage {
            // What a checkpoint leaves out counts as said when it is durable.
            if self.flushes.owed.flushed() > 0 || self.checkpoints.hold_cleans() {
                return Ok(Some(stage));
            }
            stage = Stage::Records(self.log.records.seq_next() - 1);
        }
        if let Stage::Records(seq) = stage {
            if self.log.records.durable_to() >= seq {
                return Ok(None);
            }
            if self.log.records.completed_to() >= seq {
                self.want_durable();
            }
        }
        Ok(Some(stage))
    }

    /// Asks for a flush of flash unless the one under way covers every completed record.
    pub(super) fn want_durable(&mut self) {
        let completed = self.log.records.completed_to();
        if !self.flushes.flash.will_cover(completed) && completed > self.log.records.durable_to() {
            self.flushes.flash.ask();
        }
    }

    /// Whether CLEANs should be written now.
    pub(super) fn cleans_are_due(&self) -> bool {
        let asked = self.flushes.wait_for_cleans();
        asked
            || self.is_short_of_room()
            || self.copies.lifts.are_cleans_awaited()
            || self.flushes.owed.flushed() >= self.settings.owed_max
    }

    pub(super) fn pump_device_flushes(&mut self) {
        let many = self.flushes.owed.unflushed() >= self.settings.owed_max || self.is_reclaim_due();
        let full =
            self.writes.are_crowded() || self.log.is_full() && (self.write_backs.is_empty() || self.is_reclaimable(64));
        if self.flushes.owed.unflushed() > 0
            && (many
                || full
                || self.condition.is_draining()
                || self.condition.is_stopping()
                || self.copies.lifts.are_cleans_awaited())
        {
            self.flushes.disk.ask();
        }
        // Who keeps what is dirty stops without another flush of the disk.
        if self.condition.is_stopping() && self.flushes.is_bypassed() && self.writes.is_empty() {
            self.flushes.disk.ask();
        }
        // The tail waits for what ended its extents, or write-back for durable records (rule 5).
        let tail = self
            .map
            .ring
            .oldest()
            .is_some_and(|oldest| !oldest.live && oldest.ended_by > self.log.records.durable_to());
        if tail || self.is_short_of_room() || self.condition.is_draining() || self.copies.lifts.are_heads_awaited() {
            self.want_durable();
        }
        if self.flushes.disk.may_be_given() && !self.condition.disk_failed() {
            self.flushes.give_disk();
            self.write_backs.note_flush();
            self.order(Device::Disk, Action::Flush, Range::default(), Purpose::DiskFlush);
        }
        if self.flushes.flash.may_be_given() && !self.condition.flash_failed() {
            self.flushes.flash.give(self.log.records.completed_to());
            self.order(Device::Flash, Action::Flush, Range::default(), Purpose::FlashFlush);
        }
    }

    /// Half of the log is in use.
    fn is_filling(&self) -> bool {
        self.map.ring.free_blocks() < self.map.ring.blocks() / 2
    }

    /// Enough has been written back that its room is worth a checkpoint (assumed: a sixteenth of the log).
    fn is_reclaim_due(&self) -> bool {
        self.is_filling() && self.is_reclaimable(16)
    }

    /// Whether one of so many parts of the log has been written back since the last disk FLUSH.
    fn is_reclaimable(&self, parts: u64) -> bool {
        self.write_backs.unreclaimed_bytes() >= u64::from(self.map.ring.blocks()) * BLOCK_BYTES / parts
    }

    pub(super) fn on_disk_flush(&mut self, ok: bool) {
        if !ok {
            // What it covered may be lost or not, and no later flush will tell: CLEANs for it stay owed for ever.
            self.condition.fail(Device::Disk);
            return;
        }
        self.flushes.end_disk();
        // Before the log is full: what the disk holds is left out of a checkpoint, which frees the tail.
        let is_worth_it = self.is_filling() && self.flushes.owed.flushed() > 0 && !self.condition.is_draining();
        self.checkpoints.want(is_worth_it);
    }

    pub(super) fn on_flash_flush(&mut self, ok: bool) {
        if !ok {
            self.condition.fail(Device::Flash);
            return;
        }
        let completed_to = self.flushes.flash.end();
        self.log.records.note_durable(completed_to);
    }
}
