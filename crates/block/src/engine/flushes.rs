//! FLUSHes that are not finished, flushes of both devices, and what the disk has been written since.

use super::device_flush::DeviceFlush;
use super::owed::Owed;
use crate::order::Tag;

/// How far a FLUSH is, or a FUA write whose data are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Has just come.
    Asked,
    /// Waits for a flush of the disk.
    Disk(u64),
    /// Waits until no CLEAN is due.
    Cleans,
    /// Waits until every record up to this one is durable.
    Records(u64),
}

#[derive(Clone, Debug)]
struct Flush {
    tag: Tag,
    stage: Stage,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Flushes {
    waiting: Vec<Flush>,
    /// Flushes of the disk; what they cover are writes of it that have ended.
    pub disk: DeviceFlush,
    /// Flushes of flash; what they cover are records.
    pub flash: DeviceFlush,
    /// CLEANs that are owed.
    pub owed: Owed,
    /// Writes of the disk that have ended.
    disk_writes: u64,
    /// A bypass has completed since the last disk FLUSH was given.
    bypassed: bool,
}

impl Flushes {
    /// A FLUSH, or FUA write, waits from this stage on.
    pub(super) fn add(&mut self, tag: Tag, stage: Stage) {
        self.waiting.push(Flush { tag, stage });
    }

    /// The stage of the FLUSH at a place in line.
    pub(super) fn stage(&self, index: usize) -> Option<Stage> {
        self.waiting.get(index).map(|flush| flush.stage)
    }

    /// It has come so far; whether that is farther than before.
    pub(super) fn set_stage(&mut self, index: usize, stage: Stage) -> bool {
        std::mem::replace(&mut self.waiting[index].stage, stage) != stage
    }

    /// It is finished.
    pub(super) fn end(&mut self, index: usize) -> Tag {
        self.waiting.remove(index).tag
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether one waits for CLEANs.
    pub(super) fn wait_for_cleans(&self) -> bool {
        self.waiting.iter().any(|flush| flush.stage == Stage::Cleans)
    }

    /// The stage from which on a flush of the disk is waited for, if what bypassed flash needs one.
    pub(super) fn disk_stage(&mut self) -> Stage {
        Stage::Disk(if self.bypassed { self.disk.ask() } else { self.disk.last() })
    }

    /// A write of the disk has ended.
    pub(super) fn note_disk_write(&mut self) {
        self.disk_writes += 1;
    }

    /// Writes of the disk that have ended.
    pub(super) fn disk_writes(&self) -> u64 {
        self.disk_writes
    }

    /// A bypass has ended.
    pub(super) fn note_bypass(&mut self) {
        self.bypassed = true;
    }

    /// Whether one has since the last disk FLUSH was given.
    pub(super) fn is_bypassed(&self) -> bool {
        self.bypassed
    }

    /// A disk FLUSH is given.
    pub(super) fn give_disk(&mut self) {
        self.disk.give(self.disk_writes);
        self.owed.give_flush();
        self.bypassed = false;
    }

    /// It is done.
    pub(super) fn end_disk(&mut self) {
        self.disk.end();
        self.owed.end_flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_flushed_for_what_bypassed_flash_and_for_nothing_else() {
        let mut flushes = Flushes::default();
        flushes.note_disk_write();
        let stage = flushes.disk_stage();
        assert!(stage == Stage::Disk(0) && flushes.disk.is_done(0));
        flushes.note_bypass();
        assert_eq!(flushes.disk_stage(), Stage::Disk(1));
        flushes.give_disk();
        assert_eq!((flushes.is_bypassed(), flushes.disk.covers()), (false, 1));
    }

    #[test]
    fn a_flush_moves_when_it_comes_farther_and_the_others_keep_their_places() {
        let mut flushes = Flushes::default();
        flushes.add(1, Stage::Asked);
        flushes.add(3, Stage::Cleans);
        assert!(flushes.wait_for_cleans());
        assert!(flushes.set_stage(1, Stage::Records(7)) && !flushes.set_stage(1, Stage::Records(7)));
        assert_eq!((flushes.end(0), flushes.stage(0), flushes.end(0)), (1, Some(Stage::Records(7)), 3));
        assert!(flushes.is_empty());
    }
}
