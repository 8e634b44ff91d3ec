//! Which segments are strong, which heads are on flash, and which come or make room next.
//!
//! ```text
//!                strong                    lifted                 lost to a write
//!   unknown ------------> waits for a lift --------> head on flash ----------------> head in the log
//!      ^                     |  ^                       |                                |
//!      '---- weak -----------'  '---- is to come back --+--------------------------------'
//! ```
//!
//! A segment that is neither strong nor lifted is forgotten.

use std::collections::{BTreeMap, BTreeSet};

/// Where the head of a segment is that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    /// On the disk alone.
    Disk,
    /// On flash.
    Lifted,
    /// On flash until a write made it the log's; it will be again.
    Written,
}

/// A segment that was found strong, or is lifted.
#[derive(Clone, Copy, Debug)]
struct Known {
    is_strong: bool,
    head: Head,
    /// When it was used last, in uses.
    used: u64,
    /// Uses of other segments before it came into the stack, since it was used last; none for one that was never seen
    /// before.
    interval: u64,
}

impl Known {
    fn strong(used: u64) -> Known {
        Known { is_strong: true, head: Head::Disk, used, interval: 0 }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Heads {
    known: BTreeMap<u64, Known>,
    /// Lifted ones by their last use.
    lifted_by_use: BTreeMap<u64, u64>,
    uses: u64,
    /// Strong ones to be lifted, by address, and where the last one was.
    waiting: BTreeSet<u64>,
    cursor: u64,
}

impl Heads {
    /// A segment is used; `is_new`: it was not in the stack.
    pub(super) fn touch(&mut self, segment: u64, is_new: bool) {
        self.uses += 1;
        let Some(known) = self.known.get_mut(&segment) else { return };
        if is_new {
            known.interval = self.uses - known.used;
        }
        if known.head == Head::Lifted {
            self.lifted_by_use.remove(&known.used);
            self.lifted_by_use.insert(self.uses, segment);
        }
        known.used = self.uses;
    }

    /// Whether a segment was found strong.
    pub(super) fn is_strong(&self, segment: u64) -> bool {
        self.known.get(&segment).is_some_and(|known| known.is_strong)
    }

    /// A segment is found strong.
    pub(super) fn on_strong(&mut self, segment: u64) {
        let used = self.uses;
        let known = self.known.entry(segment).or_insert(Known::strong(used));
        known.is_strong = true;
        if known.head != Head::Lifted {
            self.waiting.insert(segment);
        }
    }

    /// A segment is found weak.
    pub(super) fn on_weak(&mut self, segment: u64) {
        let Some(known) = self.known.get_mut(&segment) else { return };
        known.is_strong = false;
        self.waiting.remove(&segment);
        if known.head != Head::Lifted {
            self.known.remove(&segment);
        }
    }

    /// How many wait for a lift.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the next one that waits for a lift, upwards and around.
    pub(super) fn next(&mut self) -> Option<u64> {
        let upwards = self.waiting.range(self.cursor..).next().or_else(|| self.waiting.first());
        let segment = *upwards?;
        self.waiting.remove(&segment);
        self.cursor = segment + 1;
        Some(segment)
    }

    /// A lift could not begin, or came to nothing; `again`: later it may.
    pub(super) fn on_refused(&mut self, segment: u64, again: bool) {
        let Some(known) = self.known.get_mut(&segment) else { return };
        if again && known.is_strong && known.head != Head::Lifted {
            self.waiting.insert(segment);
        }
        if !again && known.head == Head::Written {
            known.head = Head::Disk;
        }
    }

    /// A head is on flash. One that nobody knew is taken for strong: it was there when the volume started.
    pub(super) fn on_lifted(&mut self, segment: u64) {
        let used = self.known.get(&segment).map_or(self.uses, |known| known.used);
        self.uses += 1;
        let used = if self.lifted_by_use.contains_key(&used) { self.uses } else { used };
        let known = self.known.entry(segment).or_insert(Known::strong(used));
        (known.head, known.used) = (Head::Lifted, used);
        self.lifted_by_use.insert(used, segment);
        self.waiting.remove(&segment);
    }

    /// A head is not on flash any more; `again`: it is to come back once it is clean.
    pub(super) fn on_lost(&mut self, segment: u64, again: bool) {
        let Some(known) = self.known.get_mut(&segment) else { return };
        if known.head == Head::Lifted {
            self.lifted_by_use.remove(&known.used);
            known.head = Head::Written;
        }
        if !known.is_strong {
            self.known.remove(&segment);
        } else if again {
            self.waiting.insert(segment);
        } else {
            known.head = Head::Disk;
        }
    }

    /// The least recently used head, if the segment that wants its room was used later, and has come back sooner than
    /// that head by now.
    pub(super) fn victim(&self, newcomer: u64) -> Option<u64> {
        let (used, segment) = self.lifted_by_use.first_key_value()?;
        let newcomer = self.known.get(&newcomer)?;
        (*used < newcomer.used && self.uses - used > newcomer.interval).then_some(*segment)
    }

    /// Whether what is written to a segment's head is flash's: it is there, or was until a write before.
    pub(super) fn takes_writes(&self, segment: u64) -> bool {
        self.known.get(&segment).is_some_and(|known| known.head != Head::Disk)
    }

    /// Whether a segment waits for a lift.
    #[cfg(test)]
    pub(super) fn waits(&self, segment: u64) -> bool {
        self.waiting.contains(&segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strong_segment_waits_until_it_is_lifted_and_a_weak_one_is_forgotten() {
        let mut heads = Heads::default();
        [7, 3, 5].into_iter().for_each(|segment| heads.on_strong(segment));
        assert_eq!((heads.next(), heads.next()), (Some(3), Some(5)), "upwards");
        heads.on_strong(1);
        assert_eq!((heads.next(), heads.next(), heads.next()), (Some(7), Some(1), None), "and around");
        heads.on_lifted(7);
        heads.on_weak(7);
        heads.on_weak(3);
        assert!(heads.takes_writes(7) && !heads.is_strong(7) && !heads.is_strong(3) && heads.is_strong(5));
        heads.on_lost(7, true);
        assert!(!heads.takes_writes(7) && heads.waiting() == 0, "a weak one does not come back");
    }

    #[test]
    fn the_least_recently_used_head_makes_room_for_one_that_came_back_sooner() {
        let mut heads = Heads::default();
        heads.on_lifted(1);
        heads.on_lifted(2);
        heads.on_strong(9);
        (0..5).for_each(|_| heads.touch(2, false));
        heads.touch(9, true);
        assert_eq!(heads.victim(9), Some(1));
        heads.on_lost(1, false);
        assert_eq!(heads.victim(9), None, "the other one was used as lately");
    }
}
