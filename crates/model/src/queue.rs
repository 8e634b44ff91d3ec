//! A drive's own command queue (NCQ): the command nearest to the head goes next, unless one has waited too long.

use headstart_core::units::Nanos;

/// Commands a SATA drive holds at once; of 32 tags one is kept for errors.
pub const TAGS: usize = 31;
/// A command that has waited longer goes first, oldest of them first (calibrated).
pub const AGE_LIMIT: Nanos = Nanos(500_000_000);

/// A waiting command with whatever its owner knows about it.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<T> {
    /// When it came.
    pub arrived: Nanos,
    /// The command.
    pub item: T,
    /// Waiting commands that this one continues.
    follows_count: u32,
}

/// Commands in order of arrival.
#[derive(Debug)]
pub struct CommandQueue<T> {
    waiting: Vec<Waiting<T>>,
    age_limit: Nanos,
    continues: fn(&T, &T) -> bool,
}

impl<T> CommandQueue<T> {
    /// An empty queue whose commands wait at most about `age_limit`; `continues(a, b)` says whether a begins where b ends.
    pub fn new(age_limit: Nanos, continues: fn(&T, &T) -> bool) -> CommandQueue<T> {
        CommandQueue { waiting: Vec::with_capacity(TAGS), age_limit, continues }
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a command at `now`, not before any added earlier.
    pub fn push(&mut self, now: Nanos, item: T) {
        assert!(self.waiting.len() < TAGS, "the host may not send more commands than the drive has tags");
        let mut follows_count = 0;
        for other in &mut self.waiting {
            follows_count += u32::from((self.continues)(&item, &other.item));
            other.follows_count += u32::from((self.continues)(&other.item, &item));
        }
        self.waiting.push(Waiting { arrived: now, item, follows_count });
    }

    /// True if the oldest command is over the age limit at `now`.
    pub fn is_overdue(&self, now: Nanos) -> bool {
        self.waiting.first().is_some_and(|oldest| now.since(oldest.arrived) > self.age_limit)
    }

    /// The index and cost of the next command: the oldest if overdue, else the cheapest, the older of equals. A command
    /// that continues another waiting one is left to follow it.
    pub fn choose(&self, now: Nanos, mut cost: impl FnMut(&T) -> Nanos) -> Option<(usize, Nanos)> {
        if self.is_overdue(now) {
            return Some((0, cost(&self.waiting[0].item)));
        }
        let runs = self.waiting.iter().enumerate().filter(|(_, waiting)| waiting.follows_count == 0);
        let costs = runs.map(|(index, waiting)| (index, cost(&waiting.item)));
        costs.min_by_key(|&(index, cost)| (cost, index))
    }

    /// The index of the oldest command that satisfies `wanted`.
    pub fn find(&self, wanted: impl FnMut(&Waiting<T>) -> bool) -> Option<usize> {
        self.waiting.iter().position(wanted)
    }

    /// Removes the command at `index`.
    pub fn take(&mut self, index: usize) -> T {
        let item = self.waiting.remove(index).item;
        for other in &mut self.waiting {
            other.follows_count -= u32::from((self.continues)(&other.item, &item));
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_goes_first_and_the_older_of_equals() {
        let mut queue = CommandQueue::new(AGE_LIMIT, |_, _| false);
        for item in [5, 3, 3, 9] {
            queue.push(Nanos::ZERO, item);
        }
        assert_eq!(queue.choose(Nanos(1), |&item| Nanos(item)), Some((1, Nanos(3))));
    }

    #[test]
    fn a_run_is_entered_at_its_start() {
        let mut queue = CommandQueue::new(AGE_LIMIT, |item: &u64, other: &u64| *item == other + 1);
        for item in [11, 3, 10] {
            queue.push(Nanos::ZERO, item);
        }
        assert_eq!(queue.choose(Nanos(1), |&item| Nanos(20 - item)), Some((2, Nanos(10))));
        assert_eq!(queue.take(2), 10);
        assert_eq!(queue.choose(Nanos(1), |&item| Nanos(20 - item)), Some((0, Nanos(9))), "what it continued is gone");
    }

    #[test]
    fn an_overdue_command_goes_before_a_cheaper_one() {
        let mut queue = CommandQueue::new(AGE_LIMIT, |_, _| false);
        queue.push(Nanos::ZERO, 100);
        queue.push(Nanos(1), 0);
        assert_eq!(queue.choose(AGE_LIMIT, |&item| Nanos(item)), Some((1, Nanos(0))));
        assert_eq!(queue.choose(AGE_LIMIT + Nanos(1), |&item| Nanos(item)), Some((0, Nanos(100))));
    }
}
