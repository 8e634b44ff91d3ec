//! Which granules are listed in the shared file, so that threads read them without a question
//! ([`headstart_protocol::listing`]), and which were asked for once and may be worth it.
//!
//! A granule whose map changes is forgotten here at once. That threads are to see it is noted: they do, by
//! [`Listings::show_ends`], before anything is that rests on the change.

use std::collections::BTreeMap;

use headstart_protocol::shared::Shared;
use headstart_protocol::shared::word_of;
use headstart_units::GRANULE_BYTES;
use headstart_units::request::Range;

/// A granule of a file, ordered by the word that it shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Granule {
    /// The file.
    pub(crate) file: u32,
    /// Its word.
    pub(crate) word: usize,
    number: u64,
}

impl Granule {
    /// That of an offset.
    pub(crate) fn of(file: u32, offset: u64) -> Granule {
        Granule { file, word: word_of(offset), number: offset / GRANULE_BYTES }
    }

    /// Its number within the file.
    pub(crate) fn number(self) -> u64 {
        self.number
    }

    /// Its bytes.
    pub(crate) fn range(self) -> Range {
        let begin = self.number * GRANULE_BYTES;
        Range::between(begin, begin.saturating_add(GRANULE_BYTES))
    }
}

/// What is known of a granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Somebody asked for bytes of it, and nothing there has changed since.
    Read,
    /// It is to be listed, from this offset on if all is too much.
    Wanted(u64),
    /// It is listed.
    Listed,
}

/// Whose a listing is, and whose it may be next.
#[derive(Clone, Copy, Debug, Default)]
struct Candidates {
    listed: Option<Granule>,
    read: Option<Granule>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listings {
    /// By granule: its listing.
    known: BTreeMap<Granule, (u32, State)>,
    /// By listing.
    candidates: BTreeMap<u32, Candidates>,
    /// Listings that ended, which threads have not been shown.
    ending: Vec<u32>,
    /// The listing whose uses are looked at next.
    hand: u32,
}

impl Listings {
    /// Somebody reads bytes of the granule on flash, whose listing is `index`. Whether it is worth one: it is the second
    /// time since something changed there, and no other granule with the same listing was read between.
    pub(crate) fn note_read(&mut self, index: u32, granule: Granule) -> bool {
        match self.known.get(&granule) {
            Some((_, state)) => !matches!(state, State::Wanted(_)),
            None => {
                self.set_read(index, granule, State::Read);
                false
            }
        }
    }

    /// Whether the next read of the granule would find it worth a listing, which it has not.
    pub(crate) fn was_read(&self, granule: Granule) -> bool {
        self.known.get(&granule).is_some_and(|(_, state)| *state == State::Read)
    }

    /// It is to be listed, with the bytes at `offset`.
    pub(crate) fn want(&mut self, index: u32, granule: Granule, offset: u64) {
        // The one there is does not say all that is asked for.
        self.forget(granule);
        self.set_read(index, granule, State::Wanted(offset));
    }

    fn set_read(&mut self, index: u32, granule: Granule, state: State) {
        let before = self.candidates.entry(index).or_default().read.replace(granule);
        if let Some(before) = before.filter(|before| *before != granule) {
            self.known.remove(&before);
        }
        self.known.insert(granule, (index, state));
    }

    /// The granule that is to be listed there, if nothing has changed in it since, and from which offset on. It is
    /// listed from now on.
    pub(crate) fn begin(&mut self, index: u32) -> Option<(Granule, u64)> {
        let candidates = self.candidates.get_mut(&index)?;
        let granule = candidates.read?;
        let (_, State::Wanted(offset)) = *self.known.get(&granule)? else { return None };
        candidates.read = None;
        if let Some(before) = candidates.listed.replace(granule) {
            self.known.remove(&before);
        }
        self.known.insert(granule, (index, State::Listed));
        // Filling it ends what was there.
        self.ending.retain(|ending| *ending != index);
        Some((granule, offset))
    }

    fn forget(&mut self, granule: Granule) {
        let Some((index, state)) = self.known.remove(&granule) else { return };
        let candidates = self.candidates.entry(index).or_default();
        if state == State::Listed {
            candidates.listed = None;
            self.ending.push(index);
        } else {
            candidates.read = None;
        }
    }

    /// The map changes in `range`.
    pub(crate) fn changed(&mut self, file: u32, range: Range) {
        if range.is_empty() || self.known.is_empty() {
            return;
        }
        let (first, last) = (range.offset / GRANULE_BYTES, (range.end() - 1) / GRANULE_BYTES);
        if last - first < 4 {
            return (first..=last).for_each(|number| self.forget(Granule::of(file, number * GRANULE_BYTES)));
        }
        self.forget_those(file, 0..=usize::MAX, |granule| (first..=last).contains(&granule.number));
    }

    /// Bytes may come to the granules of this word without being asked for.
    pub(crate) fn opened(&mut self, file: u32, word: usize) {
        self.forget_those(file, word..=word, |_| true);
    }

    /// None is listed any more.
    pub(crate) fn end_all(&mut self) {
        std::mem::take(&mut self.known).into_values().for_each(|(index, _)| self.ending.push(index));
        self.candidates.clear();
    }

    fn forget_those(&mut self, file: u32, words: std::ops::RangeInclusive<usize>, are_they: impl Fn(&Granule) -> bool) {
        let from = Granule { file, word: *words.start(), number: 0 };
        let to = Granule { file, word: *words.end(), number: u64::MAX };
        let known = self.known.range(from..=to).map(|(granule, _)| *granule);
        known.filter(are_they).collect::<Vec<_>>().into_iter().for_each(|granule| self.forget(granule));
    }

    /// Threads see which listings have ended, before whatever they see next.
    pub(crate) fn show_ends(&mut self, shared: Shared<'_>) {
        if self.ending.is_empty() {
            return;
        }
        self.ending.drain(..).for_each(|index| shared.end_listing(index));
        shared.fence_listings();
    }

    /// The next listed granules, at most `count` of them, round and round: with their listings.
    pub(crate) fn next_listed(&mut self, count: usize) -> Vec<(u32, Granule)> {
        let listed = |(index, candidates): (&u32, &Candidates)| Some((*index, candidates.listed?));
        let found: Vec<_> = self.candidates.range(self.hand..).filter_map(listed).take(count).collect();
        self.hand = found.last().filter(|_| found.len() == count).map_or(0, |(index, _)| index + 1);
        found
    }

    /// Those that are listed.
    #[cfg(test)]
    pub(crate) fn listed(&self) -> impl Iterator<Item = (u32, Granule)> + '_ {
        self.candidates.iter().filter_map(|(index, candidates)| Some((*index, candidates.listed?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_protocol::lease::Place;
    use headstart_protocol::memory::Memory;
    use headstart_protocol::shared::GRANULES_PER_FILE;

    const TURN_BYTES: u64 = GRANULES_PER_FILE as u64 * GRANULE_BYTES;

    fn granule(offset: u64) -> Granule {
        Granule::of(0, offset)
    }

    /// Listed in `memory` too.
    fn list(listings: &mut Listings, memory: &Memory, index: u32, granule: Granule) {
        listings.note_read(index, granule);
        assert!(listings.note_read(index, granule));
        listings.want(index, granule, 7);
        assert_eq!(listings.begin(index), Some((granule, 7)));
        let place = Place { file: 0, data_file: 1, place: 0, length: 4096 };
        memory.view().fill_listing(index, granule.file, granule.number(), [(granule.range().offset, place)]);
    }

    fn is_listed(memory: &Memory, offset: u64) -> bool {
        memory.view().listed(0, offset).is_some()
    }

    #[test]
    fn a_granule_is_worth_a_listing_when_it_is_read_twice_and_nothing_happened_between() {
        let (mut listings, first, other) = (Listings::default(), granule(0), granule(GRANULE_BYTES));
        assert!(!listings.note_read(0, first) && listings.was_read(first));
        assert!(listings.note_read(0, first));
        listings.changed(0, Range::new(5, 1));
        assert!(!listings.note_read(0, first), "it changed");
        assert!(!listings.note_read(0, other) && !listings.note_read(0, first), "the other one came between");
        listings.want(0, first, 0);
        assert!(!listings.note_read(0, first), "it is under way");
        listings.changed(0, Range::new(0, u64::MAX));
        assert_eq!(listings.begin(0), None, "it changed before it was filled");
    }

    #[test]
    fn a_change_ends_what_is_listed_there_and_nothing_else_once_it_is_shown() {
        let (memory, mut listings) = (Memory::new(1, 1, 1), Listings::default());
        for index in 0..3 {
            list(&mut listings, &memory, index, granule(u64::from(index) * GRANULE_BYTES));
        }
        listings.changed(0, Range::new(GRANULE_BYTES + 9, 1));
        listings.changed(1, Range::new(0, u64::MAX));
        assert_eq!(listings.listed().count(), 2);
        assert!(is_listed(&memory, GRANULE_BYTES), "nobody was shown anything yet");
        listings.show_ends(memory.view());
        assert!(is_listed(&memory, 0) && !is_listed(&memory, GRANULE_BYTES) && is_listed(&memory, 2 * GRANULE_BYTES));
        listings.end_all();
        listings.show_ends(memory.view());
        assert!((0..3).all(|number| !is_listed(&memory, number * GRANULE_BYTES)));
    }

    #[test]
    fn a_word_that_is_opened_ends_all_granules_that_share_it() {
        let (memory, mut listings) = (Memory::new(1, 1, 1), Listings::default());
        let offsets = [0, GRANULE_BYTES, 2 * GRANULE_BYTES + TURN_BYTES];
        for (index, offset) in (0..).zip(offsets) {
            list(&mut listings, &memory, index, granule(offset));
        }
        listings.opened(0, 2);
        listings.opened(0, 1);
        assert!(listings.listed().eq([(0, granule(0))]));
    }

    #[test]
    fn the_newest_granule_takes_the_listing_and_a_change_of_the_one_before_ends_nothing() {
        let (memory, mut listings) = (Memory::new(1, 1, 1), Listings::default());
        let count = memory.listings.len() as u64 * GRANULE_BYTES;
        list(&mut listings, &memory, 0, granule(0));
        list(&mut listings, &memory, 0, granule(count));
        listings.changed(0, Range::new(0, 10));
        listings.show_ends(memory.view());
        assert!(is_listed(&memory, count) && listings.listed().eq([(0, granule(count))]));
        assert!(listings.note_read(0, granule(count)), "what is asked for is not listed: it is filled anew");
        listings.want(0, granule(count), 0);
        assert!(listings.begin(0).is_some(), "nothing of it is left to be shown");
        listings.show_ends(memory.view());
        assert!(is_listed(&memory, count));
    }

    #[test]
    fn listings_are_looked_at_in_turn() {
        let (memory, mut listings) = (Memory::new(1, 1, 1), Listings::default());
        (0..3).for_each(|index| list(&mut listings, &memory, index, granule(u64::from(index) * GRANULE_BYTES)));
        let mut next = || listings.next_listed(2).into_iter().map(|(index, _)| index).collect::<Vec<_>>();
        assert_eq!((next(), next(), next()), (vec![0, 1], vec![2], vec![0, 1]));
    }
}
