//! Times of last write, for those who see the slow file alone: while a program has a file open its slow file
//! gets the time of the last absorbed write not much later than that. When nobody has it open any more it
//! gets it at once (`Tiers::take_fingerprint`).

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::EventLoop;

/// A time is shown this long after the first write that it is to show (assumed: what those who poll a file
/// put up with; it is two calls on the slow file system in this time).
const DELAY: Duration = Duration::from_secs(1);
/// Files whose times are shown before the next event is looked at.
const FILES_AT_ONCE: usize = 16;

/// Files with absorbed writes that their slow files do not show.
#[derive(Default)]
pub(super) struct Times {
    /// When they are to, the first one first.
    due: VecDeque<(Instant, u32)>,
    waiting: BTreeSet<u32>,
}

impl Times {
    /// Bytes of the file may have been absorbed.
    pub(super) fn absorbed(&mut self, file: u32) {
        if self.waiting.insert(file) {
            self.due.push_back((Instant::now() + DELAY, file));
        }
    }

    /// How long until the next is due.
    pub(super) fn left(&self) -> Option<Duration> {
        self.due.front().map(|(due, _)| due.saturating_duration_since(Instant::now()))
    }

    fn next(&mut self, now: Instant) -> Option<u32> {
        let (_, file) = self.due.front().copied().filter(|(due, _)| *due <= now)?;
        self.due.pop_front();
        self.waiting.remove(&file);
        Some(file)
    }
}

impl EventLoop<'_> {
    /// Shows the times that are due.
    pub(super) fn show_times(&mut self) {
        if self.times.due.is_empty() {
            return;
        }
        let now = Instant::now();
        for _ in 0..FILES_AT_ONCE {
            let Some(file) = self.times.next(now) else { return };
            if self.tiers.overlay.is_open(file) && !self.show_time(file) {
                self.times.absorbed(file);
            }
        }
    }

    /// Sets the slow file's time to that of the last absorbed write, or to what it was before write-backs of
    /// a file that nobody writes; false if some are under way.
    pub(super) fn show_time(&mut self, file: u32) -> bool {
        let absorbed_ns = self.shared().files[file as usize].modified_ns.load(Ordering::Relaxed);
        let is_known = self.tiers.overlay.path(file).is_some();
        self.tiers.store.slow_mut(file).filter(|_| is_known).is_none_or(|slow| slow.show(absorbed_ns))
    }
}
