//! Flushes of one device, counted. One covers what had completed when it was given; one is under way at a
//! time, and whoever asks meanwhile takes part in the next.

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceFlush {
    given: u64,
    done: u64,
    wanted: u64,
    /// What had completed when the last one was given, as its device counts.
    covers: u64,
    /// The same of the last one that was done.
    covered: u64,
}

impl DeviceFlush {
    /// Asks for a flush that covers everything completed by now; the ticket for it.
    pub(super) fn ask(&mut self) -> u64 {
        self.wanted = self.given + 1;
        self.wanted
    }

    /// The ticket of the last flush that was given.
    pub(super) fn last(&self) -> u64 {
        self.given
    }

    /// Whether the flush of a ticket is over.
    pub(super) fn is_done(&self, ticket: u64) -> bool {
        self.done >= ticket
    }

    /// Whether none is under way or wanted.
    pub(super) fn is_idle(&self) -> bool {
        self.wanted <= self.done
    }

    /// Whether one is wanted and none is under way.
    pub(super) fn may_be_given(&self) -> bool {
        self.wanted > self.given && self.given == self.done
    }

    /// One is given when so much has completed.
    pub(super) fn give(&mut self, completed: u64) {
        self.given += 1;
        self.covers = completed;
    }

    /// The one under way is done; how much it covers.
    pub(super) fn end(&mut self) -> u64 {
        self.done = self.given;
        self.covered = self.covers;
        self.covered
    }

    /// Whether one is under way that covers so much.
    pub(super) fn will_cover(&self, completed: u64) -> bool {
        self.given > self.done && self.covers >= completed
    }

    /// What the last one that was given covers.
    pub(super) fn covers(&self) -> u64 {
        self.covers
    }

    /// What the last one that was done covers.
    pub(super) fn covered(&self) -> u64 {
        self.covered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_while_a_flush_is_under_way_waits_for_the_next() {
        let mut flush = DeviceFlush::default();
        let first = flush.ask();
        assert!(flush.may_be_given() && !flush.is_idle());
        flush.give(5);
        let second = flush.ask();
        assert!(!flush.may_be_given() && flush.will_cover(5) && !flush.will_cover(6));
        assert_eq!((flush.covers(), flush.covered(), flush.end()), (5, 0, 5));
        assert!(flush.is_done(first) && !flush.is_done(second) && flush.may_be_given());
        assert_eq!((flush.last(), flush.covered()), (first, 5));
    }
}
