//! An agent that nobody needs gives the directory up, so that another user or node can have it without asking.
//!
//! It is needed while a program takes part, while a command or a run is connected, and while anything is to be written
//! back, copied or made durable. Clean bytes and regions stay on flash for whoever comes with the same flash; a
//! capacity that it was told, and regions of names, it takes along, as with every other end.

use std::time::{Duration, Instant};

use super::{Ending, EventLoop};

/// Unless the site file says otherwise: long enough for the next step of a script, short enough for the next user.
const IDLE_S: u64 = 600;

/// Since when nobody needs the agent.
pub(super) struct Idleness {
    limit: Option<Duration>,
    since: Option<Instant>,
}

impl Idleness {
    /// By the site file.
    pub(super) fn of(idle_s: Option<u64>) -> Idleness {
        let limit = Some(idle_s.unwrap_or(IDLE_S)).filter(|seconds| *seconds > 0);
        Idleness { limit: limit.map(Duration::from_secs), since: None }
    }

    /// How long until it is enough; none while somebody needs it.
    pub(super) fn left(&self) -> Option<Duration> {
        let (since, limit) = self.since.zip(self.limit)?;
        Some(limit.saturating_sub(since.elapsed()))
    }

    fn note(&mut self, is_needed: bool) {
        self.since = if is_needed { None } else { self.since.or_else(|| Some(Instant::now())) };
    }
}

impl EventLoop<'_> {
    /// Ends as if told to, once nobody has needed it for long enough.
    pub(super) fn end_if_idle(&mut self) {
        let is_needed = !self.connections.is_empty()
            || self.overlay.threads() > 0
            || self.overlay.dirty_bytes() > 0
            || self.marks.are_shown()
            || self.draining
            || self.overlay.is_placing();
        self.idleness.note(is_needed);
        if self.ending == Ending::No && self.idleness.left() == Some(Duration::ZERO) {
            tracing::info!("nobody needs the agent: it ends and leaves the directory to others");
            self.end();
        }
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
