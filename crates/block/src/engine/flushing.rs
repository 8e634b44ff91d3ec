//! Flushes of the devices, and FLUSH, which is made of them (rule 2): disk, then CLEANs, then every earlier
//! record, then flash.
//!
//! A device flush covers what had completed when it was given; one is under way at a time, and whoever comes
//! meanwhile takes part in the next. The disk is flushed for a FLUSH only if a bypass has completed since the
//! last time: what write-back wrote is on flash still.

use super::Engine;
use super::orders::Purpose;
use crate::devices::Device;
use crate::order::{Action, Error, Tag};
use headstart_policy::server::Policy;
use headstart_units::BLOCK_BYTES;
use headstart_units::ranges::Ranges;
use headstart_units::request::Range;

/// Flushes of one device, counted.
#[derive(Clone, Debug, Default)]
pub struct DeviceFlush {
    given: u64,
    done: u64,
    wanted: u64,
    /// Every record up to this one had completed when the one under way was given.
    completed_to: u64,
}

impl DeviceFlush {
    /// Asks for a flush that covers everything completed by now; the ticket for it.
    pub fn ask(&mut self) -> u64 {
        self.wanted = self.given + 1;
        self.wanted
    }

    /// Whether the flush of a ticket is over.
    pub fn is_done(&self, ticket: u64) -> bool {
        self.done >= ticket
    }

    /// Whether none is under way or wanted.
    pub fn is_idle(&self) -> bool {
        self.wanted <= self.done
    }

    fn may_be_given(&self) -> bool {
        self.wanted > self.given && self.given == self.done
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Has just come.
    Asked,
    /// Waits for a flush of the disk.
    Disk(u64),
    /// Waits until no CLEAN is due.
    Cleans,
    /// Waits until every record up to this one is durable.
    Records(u64),
}

/// A FLUSH, or a FUA write whose data are written.
#[derive(Clone, Debug)]
pub struct Flush {
    pub tag: Tag,
    stage: Stage,
}

impl<P: Policy> Engine<P> {
    pub(super) fn add_flush(&mut self, tag: Tag) {
        self.flushes.push(Flush { tag, stage: Stage::Asked });
    }

    /// A FUA write is written: now it is made durable.
    pub(super) fn add_fua(&mut self, tag: Tag) {
        let stage = self.disk_stage();
        self.flushes.push(Flush { tag, stage });
    }

    fn disk_stage(&mut self) -> Stage {
        Stage::Disk(if self.bypassed { self.disk_flush.ask() } else { self.disk_flush.given })
    }

    pub(super) fn pump_flushes(&mut self) {
        let mut index = 0;
        while index < self.flushes.len() {
            match self.advance(self.flushes[index].stage) {
                Ok(Some(stage)) => {
                    self.orders.note_moves(u64::from(self.flushes[index].stage != stage));
                    self.flushes[index].stage = stage;
                    index += 1;
                }
                Ok(None) => {
                    let flush = self.flushes.remove(index);
                    self.orders.reply(flush.tag, Ok(Vec::new()));
                }
                Err(()) => {
                    let flush = self.flushes.remove(index);
                    self.orders.reply(flush.tag, Err(Error::Io));
                }
            }
        }
    }

    /// The stage that a FLUSH reaches from this one by now; none: it is done.
    fn advance(&mut self, mut stage: Stage) -> Result<Option<Stage>, ()> {
        if self.condition.flash_failed() {
            return Err(());
        }
        if let Stage::Asked = stage {
            stage = self.disk_stage();
        }
        if let Stage::Disk(ticket) = stage {
            if !self.disk_flush.is_done(ticket) {
                return if self.condition.disk_failed() { Err(()) } else { Ok(Some(stage)) };
            }
            stage = Stage::Cleans;
        }
        if let Stage::Cleans = stage {
            // What a checkpoint leaves out counts as said when it is durable.
            if !self.flushed.is_empty() || self.checkpoint.holds_cleans() {
                return Ok(Some(stage));
            }
            stage = Stage::Records(self.seq_next - 1);
        }
        if let Stage::Records(seq) = stage {
            if self.durable_to >= seq {
                return Ok(None);
            }
            if self.completed_to() >= seq {
                self.want_durable();
            }
        }
        Ok(Some(stage))
    }

    /// Asks for a flush of flash unless the one under way covers every completed record.
    pub(super) fn want_durable(&mut self) {
        let completed = self.completed_to();
        let covered = self.flash_flush.given > self.flash_flush.done && self.flash_flush.completed_to >= completed;
        if !covered && completed > self.durable_to {
            self.flash_flush.ask();
        }
    }

    /// Whether CLEANs should be written now.
    pub(super) fn cleans_are_due(&self) -> bool {
        let asked = self.flushes.iter().any(|flush| matches!(flush.stage, Stage::Cleans));
        asked || self.is_short_of_room() || self.cleans_awaited || self.flushed.len() >= self.settings.owed_max
    }

    pub(super) fn pump_device_flushes(&mut self) {
        let many = self.owed.len() >= self.settings.owed_max || self.is_reclaim_due();
        let full = self.is_crowded || self.is_full && (self.write_backs.is_empty() || self.is_reclaimable(64));
        if !self.owed.is_empty()
            && (many || full || self.condition.is_draining() || self.condition.is_stopping() || self.cleans_awaited)
        {
            self.disk_flush.ask();
        }
        // Who keeps what is dirty stops without another flush of the disk.
        if self.condition.is_stopping() && self.bypassed && self.writes.is_empty() {
            self.disk_flush.ask();
        }
        // The tail waits for what ended its extents, or write-back for durable records (rule 5).
        let tail = self.map.ring.oldest().is_some_and(|oldest| !oldest.live && oldest.ended_by > self.durable_to);
        if tail || self.is_short_of_room() || self.condition.is_draining() || self.heads_awaited {
            self.want_durable();
        }
        if self.disk_flush.may_be_given() && !self.condition.disk_failed() {
            self.disk_flush.given += 1;
            self.owed_in_flush = std::mem::take(&mut self.owed);
            self.bypassed = false;
            self.disk_writes_in_flush = self.disk_writes;
            self.unreclaimed_bytes = 0;
            self.order(Device::Disk, Action::Flush, Range::default(), Purpose::DiskFlush);
        }
        if self.flash_flush.may_be_given() && !self.condition.flash_failed() {
            self.flash_flush.given += 1;
            self.flash_flush.completed_to = self.completed_to();
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
        self.unreclaimed_bytes >= u64::from(self.map.ring.blocks()) * BLOCK_BYTES / parts
    }

    pub(super) fn on_disk_flush(&mut self, ok: bool) {
        if !ok {
            // What it covered may be lost or not, and no later flush will tell: CLEANs for it stay owed for ever.
            self.condition.fail(Device::Disk);
            return;
        }
        self.disk_flush.done = self.disk_flush.given;
        self.disk_writes_flushed = self.disk_writes_in_flush;
        let covered: Ranges<u64> = std::mem::take(&mut self.owed_in_flush);
        covered.iter().for_each(|(range, upto)| self.flushed.raise(range, upto));
        // Before the log is full: what the disk holds is left out of a checkpoint, which frees the tail.
        self.checkpoint_wanted |= self.is_filling() && !self.flushed.is_empty() && !self.condition.is_draining();
    }

    pub(super) fn on_flash_flush(&mut self, ok: bool) {
        if !ok {
            self.condition.fail(Device::Flash);
            return;
        }
        self.flash_flush.done = self.flash_flush.given;
        self.durable_to = self.durable_to.max(self.flash_flush.completed_to);
    }
}
