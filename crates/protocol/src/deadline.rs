//! Until when this node's threads may rely upon what they hold, where the managed directory has several nodes.
//!
//! A thread looks once, when all that its call does is done: what it did counts only if the node is a member of the
//! cluster after that. So whoever sees the deadline ahead was not given up before or during the call, and nobody acted
//! on its absence. There is no look before the call: what a node does late that was given up was never acknowledged.
//!
//! The word says nothing of other words, and no order between them matters.

use headstart_units::atomics::{AtomicU64, Ordering};

/// There are no other nodes.
const NONE: u64 = 0;
/// The node is no member any more.
const EXPELLED: u64 = 1;

/// In the shared file's header, apart from all that is stored often: alone it costs a call one load of a line that
/// nobody writes.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Deadline {
    /// Nanoseconds of CLOCK_MONOTONIC; [`NONE`] or [`EXPELLED`].
    until_ns: AtomicU64,
    reserved: [AtomicU64; 15],
}

/// What a thread finds whose call is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The call counts.
    Member,
    /// Nobody knows: it is to look again.
    Unknown,
    /// It does not, and never will.
    Expelled,
}

impl Deadline {
    /// Whether it has to be looked at: there are other nodes.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.until_ns.load(Ordering::Acquire) != NONE
    }

    /// How the node stands at a time of CLOCK_MONOTONIC, or of its coarse sibling, which is never ahead of it: taken
    /// after the call is done.
    pub fn standing(&self, now_ns: u64) -> Standing {
        match self.until_ns.load(Ordering::Acquire) {
            EXPELLED => Standing::Expelled,
            until_ns if until_ns == NONE || now_ns < until_ns => Standing::Member,
            _ => Standing::Unknown,
        }
    }

    /// The agent's side: threads may rely upon what they hold until then.
    pub fn set(&self, until_ns: u64) {
        self.until_ns.store(until_ns.clamp(EXPELLED + 1, u64::MAX - 1), Ordering::Release);
    }

    /// There are no other nodes any more, or not yet.
    pub fn lift(&self) {
        self.until_ns.store(NONE, Ordering::Release);
    }

    /// The node was given up.
    pub fn expel(&self) {
        self.until_ns.store(EXPELLED, Ordering::Release);
    }

    /// Until when; none without other nodes.
    pub fn until_ns(&self) -> Option<u64> {
        Some(self.until_ns.load(Ordering::Acquire)).filter(|until_ns| *until_ns != NONE)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_before_the_deadline_and_without_one() {
        let deadline = Deadline::default();
        assert!(!deadline.is_set() && deadline.standing(u64::MAX) == Standing::Member);
        deadline.set(1000);
        assert!(deadline.is_set());
        assert_eq!([999, 1000].map(|now_ns| deadline.standing(now_ns)), [Standing::Member, Standing::Unknown]);
        deadline.expel();
        assert_eq!(deadline.standing(0), Standing::Expelled);
        // A time is never taken for one of the two words.
        for until_ns in [0, 1, u64::MAX] {
            deadline.set(until_ns);
            assert!(deadline.is_set() && deadline.standing(u64::MAX) == Standing::Unknown, "{until_ns}");
        }
        deadline.lift();
        assert_eq!(deadline.until_ns(), None);
    }
}
