//! Fetches under way, and the critical ranges that are to be fetched next.

use headstart_policy::client::s4d::{Critical, CriticalData};
use headstart_units::request::Range;

use crate::extent_map::Benefit;
use crate::flash_space::Run;

/// How far a fetch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchStep {
    /// Waits until nobody is at the slow file without the agent's knowledge.
    Settling,
    /// The runtime copies; its number.
    Copying,
    /// Copied; waits until no slow read overlaps.
    Publishing,
}

/// A fetch under way.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    /// The slow file.
    pub(crate) file: u32,
    /// Its bytes.
    pub(crate) range: Range,
    /// The pages they come to.
    pub(crate) run: Run,
    /// Where in the data file.
    pub(crate) place: u64,
    /// What it is worth.
    pub(crate) benefit: Benefit,
    /// How far it is.
    pub(crate) step: FetchStep,
    /// When the step began.
    pub(crate) since_ns: u64,
    /// The copy's number.
    pub(crate) copy: u64,
    /// It comes to nothing.
    pub(crate) cancelled: bool,
}

impl Fetch {
    /// Whether it places a region; what a read left a hint of has a benefit of its own.
    pub(crate) fn places(&self) -> bool {
        self.benefit == Benefit::HIGHEST
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Fetches {
    under_way: Vec<Fetch>,
    critical: CriticalData,
    /// A critical range that waits for room to become free.
    deferred: Option<Critical>,
}

impl Fetches {
    /// None, and none to come. At most `critical_max` ranges are remembered.
    pub(crate) fn new(critical_max: usize) -> Fetches {
        Fetches { under_way: Vec::new(), critical: CriticalData::new(critical_max), deferred: None }
    }

    /// How many are under way.
    pub(crate) fn count(&self) -> usize {
        self.under_way.len()
    }

    /// One begins, or goes on.
    pub(crate) fn push(&mut self, fetch: Fetch) {
        self.under_way.push(fetch);
    }

    /// Takes all out, to be moved on one by one.
    pub(crate) fn take(&mut self) -> Vec<Fetch> {
        std::mem::take(&mut self.under_way)
    }

    /// The fetch that the copy is for.
    pub(crate) fn of_copy(&mut self, copy: u64) -> Option<&mut Fetch> {
        self.under_way.iter_mut().find(|fetch| fetch.copy == copy)
    }

    /// Whether one of the file is under way.
    pub(crate) fn any_of(&self, file: u32) -> bool {
        self.under_way.iter().any(|fetch| fetch.file == file)
    }

    /// The ranges under way that share a byte with `range`.
    pub(crate) fn within(&self, file: u32, range: Range) -> impl Iterator<Item = Range> + '_ {
        let found = move |fetch: &&Fetch| fetch.file == file && fetch.range.overlaps(range);
        self.under_way.iter().filter(found).map(|fetch| fetch.range)
    }

    /// Whether any region is being placed.
    pub(crate) fn any_places(&self) -> bool {
        self.under_way.iter().any(Fetch::places)
    }

    /// Whether one waits for something of which no message tells.
    pub(crate) fn wait_for_slots(&self) -> bool {
        self.under_way.iter().any(|fetch| fetch.step != FetchStep::Copying)
    }

    /// Somebody writes the range: a fetch of it must not be published.
    pub(crate) fn cancel(&mut self, file: u32, range: Range) {
        self.cancel_each(|fetch| fetch.file == file && fetch.range.overlaps(range));
    }

    /// Nothing is published that goes to the data file.
    pub(crate) fn cancel_data_file(&mut self, data_file: u32) {
        self.cancel_each(|fetch| fetch.run.data_file == data_file);
    }

    /// Nothing is published.
    pub(crate) fn cancel_all(&mut self) {
        self.cancel_each(|_| true);
    }

    fn cancel_each(&mut self, which: impl Fn(&Fetch) -> bool) {
        self.under_way.iter_mut().filter(|fetch| which(fetch)).for_each(|fetch| fetch.cancelled = true);
    }

    /// A thread has read this range from the disk, and flash would have been sooner.
    pub(crate) fn note_critical(&mut self, critical: Critical) {
        self.critical.insert(critical);
    }

    /// The range to fetch next.
    pub(crate) fn next_critical(&mut self, disks_are_idle: bool) -> Option<Critical> {
        self.deferred.take().or_else(|| self.critical.pop(disks_are_idle))
    }

    /// There is no room for it yet: it comes next.
    pub(crate) fn defer(&mut self, critical: Critical) {
        self.deferred = Some(critical);
    }

    /// Whether any range is to be fetched.
    pub(crate) fn any_critical(&self) -> bool {
        self.deferred.is_some() || !self.critical.is_empty()
    }

    /// The file is forgotten.
    pub(crate) fn forget_file(&mut self, file: u32) {
        self.critical.remove_file(file);
        self.deferred = self.deferred.filter(|critical| critical.file != file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetch(file: u32, range: Range, data_file: u32) -> Fetch {
        let run = Run::touching(data_file, range.offset, range.length);
        let (benefit, step) = (Benefit::default(), FetchStep::Copying);
        Fetch { file, range, run, place: 0, benefit, step, since_ns: 0, copy: 5, cancelled: false }
    }

    #[test]
    fn a_write_cancels_the_fetches_that_share_a_byte_with_it() {
        let mut fetches = Fetches::new(4);
        fetches.push(fetch(1, Range::new(0, 10), 1));
        fetches.push(fetch(1, Range::new(10, 10), 1));
        fetches.push(fetch(2, Range::new(0, 10), 2));
        fetches.cancel(1, Range::new(5, 5));
        fetches.cancel_data_file(2);
        assert!(fetches.within(1, Range::new(0, 100)).eq([Range::new(0, 10), Range::new(10, 10)]));
        let cancelled: Vec<bool> = fetches.take().iter().map(|fetch| fetch.cancelled).collect();
        assert_eq!(cancelled, [true, false, true]);
        assert_eq!(fetches.count(), 0);
    }

    #[test]
    fn a_copy_under_way_tells_of_its_end_by_a_message_and_what_settles_does_not() {
        let mut fetches = Fetches::new(4);
        fetches.push(fetch(1, Range::new(0, 10), 1));
        assert!(!fetches.wait_for_slots() && fetches.any_of(1) && !fetches.any_places());
        fetches.of_copy(5).expect("it is under way").step = FetchStep::Publishing;
        assert!(fetches.wait_for_slots() && fetches.of_copy(6).is_none());
    }
}
