//! Fencing by time: until when this member's threads may rely upon what they hold, and when those that were expelled no
//! longer do.
//!
//! A deadline is the *begin* of a look at the membership service that showed this agent in the view, and a length of
//! time. Whoever is expelled after that look began is *over* for others when that length and a margin have passed since
//! they learned of it: at that time its own deadline has passed. No clock is compared with another; they only have to
//! go at about the same pace, and the margin is for that. No member's answer renews anything: two that are cut off from
//! the service would renew one another for ever while the others go on without them.

use headstart_units::Nanos;

use crate::names::MemberId;
use crate::rules::{Rule, kept};
use crate::view::{Fate, View};

/// The lengths, the same for all members of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// How long a look at the membership service holds.
    pub hold: Nanos,
    /// How much more others wait.
    pub margin: Nanos,
}

/// A member's deadline, and those of members that leave.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lease {
    timing: Timing,
    until: Nanos,
    over: Vec<(MemberId, Nanos)>,
}

impl Lease {
    pub(crate) fn new(timing: Timing) -> Lease {
        Lease { timing, until: Nanos::ZERO, over: Vec::new() }
    }

    /// A look at the membership service that began at `started` and ended at `now` showed a view with this agent.
    pub(crate) fn look(&mut self, started: Nanos, now: Nanos, view: &View) -> Nanos {
        let from = if kept(Rule::RenewedAtEnd) { started } else { now };
        self.until = self.until.max(from + self.timing.hold);
        self.over.retain(|(member, _)| view.fate(*member) == Fate::Leaving);
        for (member, cut) in view.gone() {
            if cut.is_none() && !self.over.iter().any(|(other, _)| *other == member) {
                self.over.push((member, now + self.timing.hold + self.timing.margin));
            }
        }
        self.until
    }

    /// Whether threads may rely upon what they hold.
    pub(crate) fn is_valid(&self, now: Nanos) -> bool {
        now < self.until
    }

    /// Members that leave and whose deadline has surely passed: their logs are to be cut.
    pub(crate) fn over(&self, now: Nanos) -> impl Iterator<Item = MemberId> {
        let past = move |at: Nanos| now >= at || !kept(Rule::GoneEarly);
        self.over.iter().filter(move |(_, at)| past(*at)).map(|(member, _)| *member)
    }

    /// For the checker, to which only the distance of times matters: a tick has passed, and now is what it was.
    #[cfg(test)]
    pub(crate) fn age(&mut self, tick: Nanos, now: Nanos) {
        self.until = self.until.since(tick).max(now);
        self.over.iter_mut().for_each(|(_, at)| *at = at.since(tick).max(now));
    }

    /// For the checker: whether time makes a difference to those that leave.
    #[cfg(test)]
    pub(crate) fn leaving_ages(&self, now: Nanos) -> bool {
        self.over.iter().any(|(_, at)| *at > now)
    }
}
