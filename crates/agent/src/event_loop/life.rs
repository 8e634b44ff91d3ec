//! An agent that nobody needs gives the directory up, so that another user or node can have it without asking.
//!
//! It is needed while a program takes part, while a command or a run is connected, and while anything is to be written
//! back, copied or made durable. Clean bytes and regions stay on flash for whoever comes with the same flash; a
//! capacity that it was told, and regions of names, it takes along, as with every other end.

use std::time::{Duration, Instant};

/// Unless the site file says otherwise: long enough for the next step of a script, short enough for the next user.
const IDLE_S: u64 = 600;

/// Since when nobody needs the agent.
struct Idleness {
    limit: Option<Duration>,
    since: Option<Instant>,
}

impl Idleness {
    /// By the site file.
    fn of(idle_s: Option<u64>) -> Idleness {
        let limit = Some(idle_s.unwrap_or(IDLE_S)).filter(|seconds| *seconds > 0);
        Idleness { limit: limit.map(Duration::from_secs), since: None }
    }

    /// How long until it is enough; none while somebody needs it.
    fn left(&self) -> Option<Duration> {
        let (since, limit) = self.since.zip(self.limit)?;
        Some(limit.saturating_sub(since.elapsed()))
    }

    fn note(&mut self, is_needed: bool) {
        self.since = if is_needed { None } else { self.since.or_else(|| Some(Instant::now())) };
    }
}

/// How far the agent is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It serves.
    No,
    /// Nobody is served any more; a barrier makes what was acknowledged durable.
    Syncing,
    /// It ends now; false if the barrier failed.
    Now { durable: bool },
}

/// Whether the agent serves, and since when nobody needs it.
pub(super) struct Life {
    ending: Ending,
    idleness: Idleness,
}

impl Life {
    /// It serves, and ends by itself as the site file says.
    pub(super) fn new(idle_s: Option<u64>) -> Life {
        Life { ending: Ending::No, idleness: Idleness::of(idle_s) }
    }

    pub(super) fn ending(&self) -> Ending {
        self.ending
    }

    /// Whether programs and commands are served.
    pub(super) fn serves(&self) -> bool {
        self.ending == Ending::No
    }

    /// It serves no more, and ends once all is durable.
    pub(super) fn end(&mut self) {
        self.ending = Ending::Syncing;
    }

    /// It ends now, whether or not all is durable.
    pub(super) fn end_now(&mut self, durable: bool) {
        self.ending = Ending::Now { durable };
    }

    /// Whether somebody needs it is told after events; true if nobody has for long enough.
    pub(super) fn is_idle(&mut self, is_needed: bool) -> bool {
        self.idleness.note(is_needed);
        self.serves() && self.idleness.left() == Some(Duration::ZERO)
    }

    /// How long until it is enough; none while somebody needs it.
    pub(super) fn left(&self) -> Option<Duration> {
        self.idleness.left()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idleness_counts_from_when_nobody_needs_it_and_zero_is_never() {
        let mut idleness = Idleness::of(Some(0));
        idleness.note(false);
        assert_eq!(idleness.left(), None);
        let mut idleness = Idleness::of(None);
        assert_eq!(idleness.left(), None, "it is needed until it is known not to be");
        idleness.note(false);
        assert!(idleness.left().is_some_and(|left| left > Duration::from_secs(500)));
        idleness.since = Some(Instant::now() - Duration::from_secs(IDLE_S));
        idleness.note(false);
        assert_eq!(idleness.left(), Some(Duration::ZERO));
        idleness.note(true);
        assert_eq!(idleness.left(), None);
    }
}
