//! When the agent does what nobody waits for: how fast bytes go back, how far a drain is, how much flash is kept free
//! ahead of need.

use std::collections::BTreeMap;

use headstart_units::request::Range;

use super::disk_writes::DiskWrites;
use super::drain_round::DrainRound;
use super::pace::{Dirty, Foreground, Limit, Pace};
use super::reserve::Reserve;
use super::watch::Watch;
use crate::settings::Settings;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Pacing {
    settings: Settings,
    pace: Pace,
    round: Option<DrainRound>,
    disk_writes: DiskWrites,
    reserve: Reserve,
    watch: Watch,
}

impl Pacing {
    /// Nothing has happened yet.
    pub(crate) fn new(settings: Settings) -> Pacing {
        Pacing {
            settings,
            pace: Pace::default(),
            round: None,
            disk_writes: DiskWrites::default(),
            reserve: Reserve::default(),
            watch: Watch::default(),
        }
    }

    /// Longest write-back.
    pub(crate) fn write_back_bytes_max(&self) -> u64 {
        self.settings.write_back_bytes_max
    }

    /// Whether anything may be written back now, the programs aside.
    pub(crate) fn is_due(&mut self, dirty: Dirty, now_ns: u64) -> bool {
        self.pace.is_due(&self.settings, dirty, now_ns)
    }

    /// What may be in flight now that programs are at `foreground`, after [`Pacing::is_due`] was asked.
    pub(crate) fn limit(&mut self, dirty: Dirty, foreground: Foreground, now_ns: u64) -> Limit {
        self.pace.limit(&self.settings, dirty, foreground, now_ns)
    }

    /// Whether dirty bytes are between the marks.
    pub(crate) fn is_active(&self) -> bool {
        self.pace.is_active()
    }

    /// Whether no program has been seen at the disks or has left word of it lately.
    pub(crate) fn are_disks_idle(&self, now_ns: u64) -> bool {
        self.pace.are_disks_idle(now_ns)
    }

    /// A program has left word of a read from the disks.
    pub(crate) fn hear_of_read(&mut self, now_ns: u64) {
        self.pace.hear_of_read(now_ns);
    }

    /// Whose slots are looked at for what programs are at.
    pub(crate) fn watch_mut(&mut self) -> &mut Watch {
        &mut self.watch
    }

    /// Where address order goes on: file, offset.
    pub(crate) fn cursor(&self) -> (u32, u64) {
        self.pace.cursor()
    }

    /// It goes on behind a write-back of `range`, or a leap farther on.
    pub(crate) fn go_on_behind(&mut self, file: u32, range: Range) {
        self.pace.set_cursor((file, self.settings.behind_write_back(range)));
    }

    /// Everything is to be written back that is dirty now, in files up to `ends`; none: as the marks say.
    pub(crate) fn drain(&mut self, ends: Option<BTreeMap<u32, u64>>) {
        self.pace.set_draining(ends.is_some());
        self.round = ends.map(DrainRound::new);
    }

    /// The drain under way.
    pub(crate) fn round(&self) -> Option<&DrainRound> {
        self.round.as_ref()
    }

    /// The same, to be moved on.
    pub(crate) fn round_mut(&mut self) -> Option<&mut DrainRound> {
        self.round.as_mut()
    }

    /// A direct write took so long, from its lease to its end, or a write-back.
    pub(crate) fn disk_write_took(&mut self, ns: u64) {
        self.disk_writes.took(ns);
    }

    /// How long a write may wait for space.
    pub(crate) fn space_wait_ns(&self) -> u64 {
        self.disk_writes.space_wait_ns()
    }

    /// How much flash is kept free.
    pub(crate) fn reserve(&self) -> &Reserve {
        &self.reserve
    }

    /// The same, to be told what happens.
    pub(crate) fn reserve_mut(&mut self) -> &mut Reserve {
        &mut self.reserve
    }

    /// Write-back leaps over so many bytes from now on.
    #[cfg(test)]
    pub(crate) fn set_leap(&mut self, bytes: u64) {
        self.settings.write_back_leap_bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_order_goes_on_behind_a_write_back_or_a_leap_farther_on() {
        let mut pacing = Pacing::new(Settings::default());
        pacing.go_on_behind(3, Range::new(0, 4096));
        assert_eq!(pacing.cursor(), (3, 4096));
        pacing.set_leap(8192);
        pacing.go_on_behind(3, Range::new(4096, 4096));
        assert_eq!(pacing.cursor(), (3, 16384));
    }

    #[test]
    fn a_drain_is_due_whatever_is_dirty_and_another_one_begins_anew() {
        let mut pacing = Pacing::new(Settings::default());
        let dirty = Dirty { bytes: 1, kept_bytes: 0, capacity_bytes: 1 << 20 };
        assert!(!pacing.is_due(dirty, 0));
        pacing.drain(Some(BTreeMap::from([(1, 10)])));
        assert!(pacing.is_due(dirty, 0));
        pacing.round_mut().expect("it is under way").advance(Range::new(0, 10), (1, 10));
        pacing.drain(Some(BTreeMap::from([(1, 10)])));
        assert!(pacing.round().expect("it is under way").rest().eq([(1, 0, 10)]));
        pacing.drain(None);
        assert!(!pacing.is_due(dirty, 0) && pacing.round().is_none());
    }
}
