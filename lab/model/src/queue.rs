//! A drive's own command queue (NCQ): the command nearest to the head goes next, unless one has waited too long.

use headstart_units::Nanos;

/// Commands a SATA drive holds at once; of 32 tags one is kept for errors.
pub const TAGS: usize = 31;
/// A command that has waited longer goes first, oldest of them first (calibrated).
pub const AGE_LIMIT: Nanos = Nanos(500_000_000);

/// What a command moves, and which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub address: u64,
    /// The byte after the last.
    pub end: u64,
    /// To the medium.
    pub write: bool,
}

impl Span {
    fn continues(&self, other: &Span) -> bool {
        self.address == other.end && self.write == other.write
    }
}

#[derive(Clone, Copy, Debug)]
struct Place {
    span: Span,
    /// Waiting commands that this one continues.
    follows_count: u32,
}

/// Commands in order of arrival, each with whatever its owner knows about it.
///
/// What every command that comes is compared with lies apart from the rest, close together.
#[derive(Debug)]
pub struct CommandQueue<T> {
    places: Vec<Place>,
    /// When each came, and what it is.
    items: Vec<(Nanos, T)>,
    age_limit: Nanos,
}

impl<T> CommandQueue<T> {
    /// An empty queue whose commands wait at most about `age_limit`.
    pub fn new(age_limit: Nanos) -> CommandQueue<T> {
        CommandQueue { places: Vec::with_capacity(TAGS), items: Vec::with_capacity(TAGS), age_limit }
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Adds a command at `now`, not before any added earlier.
    pub fn push(&mut self, now: Nanos, span: Span, item: T) {
        assert!(self.places.len() < TAGS, "the host may not send more commands than the drive has tags");
        let mut follows_count = 0;
        for other in &mut self.places {
            follows_count += u32::from(span.continues(&other.span));
            other.follows_count += u32::from(other.span.continues(&span));
        }
        self.places.push(Place { span, follows_count });
        self.items.push((now, item));
    }

    /// True if the oldest command is over the age limit at `now`.
    pub fn is_overdue(&self, now: Nanos) -> bool {
        self.items.first().is_some_and(|(arrived, _)| now.since(*arrived) > self.age_limit)
    }

    /// The index and cost of the next command: the oldest if overdue, else the cheapest, the older of equals. A command
    /// that continues another waiting one is left to follow it.
    pub fn choose(&self, now: Nanos, mut cost: impl FnMut(&Span, &T) -> Nanos) -> Option<(usize, Nanos)> {
        let mut cost = |index: usize| cost(&self.places[index].span, &self.items[index].1);
        if self.is_overdue(now) {
            return Some((0, cost(0)));
        }
        let runs = self.places.iter().enumerate().filter(|(_, place)| place.follows_count == 0);
        runs.map(|(index, _)| (index, cost(index))).min_by_key(|&(index, cost)| (cost, index))
    }

    /// The index of the oldest command that came before `now` and goes on at `address` the same way.
    pub fn find(&self, now: Nanos, address: u64, write: bool) -> Option<usize> {
        let goes_on = |place: &Place| place.span.address == address && place.span.write == write;
        // Those that came later are behind it.
        self.places.iter().position(goes_on).filter(|index| self.items[*index].0 < now)
    }

    /// Removes the command at `index`.
    pub fn take(&mut self, index: usize) -> (Span, T) {
        let span = self.places.remove(index).span;
        for other in &mut self.places {
            other.follows_count -= u32::from(other.span.continues(&span));
        }
        (span, self.items.remove(index).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(address: u64) -> Span {
        Span { address, end: address + 1, write: false }
    }

    fn queue(addresses: impl IntoIterator<Item = u64>) -> CommandQueue<()> {
        let mut queue = CommandQueue::new(AGE_LIMIT);
        addresses.into_iter().for_each(|address| queue.push(Nanos::ZERO, read(address), ()));
        queue
    }

    #[test]
    fn the_cheapest_goes_first_and_the_older_of_equals() {
        assert_eq!(queue([50, 30, 30, 90]).choose(Nanos(1), |span, _| Nanos(span.address)), Some((1, Nanos(30))));
    }

    #[test]
    fn a_run_is_entered_at_its_start() {
        let mut queue = queue([11, 3, 10]);
        assert_eq!(queue.choose(Nanos(1), |span, _| Nanos(20 - span.address)), Some((2, Nanos(10))));
        assert_eq!(queue.take(2).0, read(10));
        let next = queue.choose(Nanos(1), |span, _| Nanos(20 - span.address));
        assert_eq!(next, Some((0, Nanos(9))), "what it continued is gone");
    }

    #[test]
    fn what_goes_on_at_an_address_is_the_oldest_that_was_there_before() {
        let mut queue = queue([7, 11, 11]);
        queue.push(Nanos(5), read(20), ());
        queue.push(Nanos(5), Span { write: true, ..read(7) }, ());
        assert_eq!(queue.find(Nanos(5), 11, false), Some(1));
        assert_eq!(queue.find(Nanos(5), 11, true), None, "the other way");
        assert_eq!(queue.find(Nanos(5), 20, false), None, "it has only just come");
        assert_eq!(queue.find(Nanos(6), 20, false), Some(3));
        assert_eq!(queue.find(Nanos(6), 7, true), Some(4));
    }

    #[test]
    fn an_overdue_command_goes_before_a_cheaper_one() {
        let mut queue = queue([100]);
        queue.push(Nanos(1), read(0), ());
        assert_eq!(queue.choose(AGE_LIMIT, |span, _| Nanos(span.address)), Some((1, Nanos(0))));
        assert_eq!(queue.choose(AGE_LIMIT + Nanos(1), |span, _| Nanos(span.address)), Some((0, Nanos(100))));
    }
}
