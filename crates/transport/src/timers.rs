//! What is due when. A timer for what is no longer there does nothing, so that none is ever taken back.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::batch::PeerId;

/// What to look after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// The pause before the next attempt to connect is over.
    Dial(PeerId),
    /// The peer should have said by now who it is.
    Greeting(u64),
    /// The peer should have answered by now.
    Silence(u64),
    /// Descriptors may be free again.
    Listen,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Timers(BTreeSet<(Instant, Due)>);

impl Timers {
    pub(crate) fn set(&mut self, at: Instant, due: Due) {
        self.0.insert((at, due));
    }

    /// The next that is due.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Due> {
        let (at, due) = *self.0.first()?;
        (at <= now).then(|| {
            self.0.pop_first();
            due
        })
    }

    /// When something is due.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }
}
