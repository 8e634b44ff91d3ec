//! Which granules are open, so that commits there need no answer, and what was taken out of rings.

use std::collections::{BTreeMap, BTreeSet};

use headstart_protocol::handshake::shares;
use headstart_protocol::marks::SlotSet;
use headstart_protocol::ring::{Collector, Pushed};
use headstart_protocol::shared::{GRANULES_PER_FILE, Shared, word_of};
use headstart_units::atomics::{Ordering, fence};
use headstart_units::request::Range;

/// Who pushed something so lately may be pushing more (assumed: what the agent looks for twice meanwhile).
const IN_USE_NS: u64 = 2_000_000;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rings {
    collector: Collector,
    /// The words that are open, by file, with their numbers.
    open: BTreeMap<(u32, usize), u64>,
    /// Those that are closed, until what was pushed under them is appended.
    closing: BTreeSet<(u32, usize)>,
    /// When something was last taken out.
    pushed_ns: Option<u64>,
    /// When marks were last found.
    marked_ns: u64,
    /// Slots of which something was taken out, until that is appended.
    collected: BTreeSet<u32>,
}

/// Whether a granule that `range` touches has this word.
pub(crate) fn touches(range: Range, word: usize) -> bool {
    shares(word as u64, GRANULES_PER_FILE as u64, range)
}

impl Rings {
    /// What threads pushed, in the order in which it is to be applied.
    pub(crate) fn take(&mut self, shared: Shared<'_>, now_ns: u64) -> Vec<Pushed> {
        let taken = self.collector.take(shared);
        if !taken.is_empty() {
            self.pushed_ns = Some(now_ns);
        }
        self.collected.extend(taken.iter().map(|pushed| pushed.slot));
        taken
    }

    /// Whose threads may have left hints; none of them any more. Marks were taken with what threads pushed.
    pub(crate) fn take_hinted(&mut self, now_ns: u64) -> SlotSet {
        let hinted = self.collector.take_hinted();
        if !hinted.is_empty() {
            self.marked_ns = now_ns;
        }
        hinted
    }

    /// When marks were last found.
    pub(crate) fn marked_ns(&self) -> u64 {
        self.marked_ns
    }

    /// Nobody looks at marks before a message says so; no, if there is something to look at.
    pub(crate) fn fall_asleep(&self, shared: Shared<'_>) -> bool {
        self.collector.fall_asleep(shared)
    }

    /// Whether threads pushed something not long ago.
    pub(crate) fn are_in_use(&self, now_ns: u64) -> bool {
        self.pushed_ns.is_some_and(|pushed_ns| now_ns.saturating_sub(pushed_ns) < IN_USE_NS)
    }

    /// The same at a start, of all rings.
    pub(crate) fn take_all(&mut self, shared: Shared<'_>) -> Vec<Pushed> {
        let taken = self.collector.take_all(shared);
        self.collected.extend(taken.iter().map(|pushed| pushed.slot));
        taken
    }

    /// Whether its granule is open under the number that it was pushed under.
    pub(crate) fn counts(&self, pushed: &Pushed) -> bool {
        self.open.get(&(pushed.place.file, word_of(pushed.range.offset))) == Some(&pushed.open)
    }

    /// Opens the word of a granule, unless it is open, or something of its last closing is not appended.
    pub(crate) fn open(&mut self, shared: Shared<'_>, file: u32, word: usize) {
        if !self.closing.contains(&(file, word)) {
            self.open.entry((file, word)).or_insert_with(|| shared.open(file, word));
        }
    }

    /// Whether it is open.
    pub(crate) fn is_open(&self, file: u32, word: usize) -> bool {
        self.open.contains_key(&(file, word))
    }

    /// Files with words that are open.
    pub(crate) fn files(&self) -> impl Iterator<Item = u32> + '_ {
        let mut next = self.open.keys().next().map(|(file, _)| *file);
        std::iter::from_fn(move || {
            let file = next?;
            next = self.open.range((file + 1, 0)..).next().map(|((file, _), _)| *file);
            Some(file)
        })
    }

    /// The thread behind the slot is gone, maybe before it could mark its ring.
    pub(crate) fn look_into(&mut self, slot: u32) {
        self.collector.look_into(slot);
    }

    /// All that are open.
    pub(crate) fn all_open(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        self.open.keys().copied()
    }

    /// Those of the file that speak for a granule of `range`.
    pub(crate) fn open_in(&self, file: u32, range: Range) -> Vec<(u32, usize)> {
        let of_file = self.open.range((file, 0)..=(file, usize::MAX)).map(|(&key, _)| key);
        of_file.filter(|(_, word)| touches(range, *word)).collect()
    }

    /// Threads see from now on that the words are closed. What was pushed before still counts: it is to be taken out,
    /// and then they [are](Rings::closed).
    pub(crate) fn begin_closing(&mut self, shared: Shared<'_>, words: &[(u32, usize)]) {
        words.iter().for_each(|(file, word)| shared.begin_closing(*file, *word));
        fence(Ordering::SeqCst);
    }

    /// Nothing pushed under the numbers of the words counts any more.
    pub(crate) fn closed(&mut self, words: &[(u32, usize)]) {
        for word in words {
            self.open.remove(word);
            self.closing.insert(*word);
        }
    }

    /// At a start: the words of a file that an agent before has left open, or was about to close. Threads may be
    /// pushing.
    pub(crate) fn adopt(&mut self, shared: Shared<'_>, file: u32) {
        self.open.extend(shared.open_words(file).map(|(word, number)| ((file, word), number)));
    }

    /// What was taken out is appended: rings have room again, and closed words may be opened. Whose slots they are.
    pub(crate) fn on_appended(&mut self, shared: Shared<'_>) -> BTreeSet<u32> {
        self.collector.store_tails(shared);
        std::mem::take(&mut self.closing).into_iter().for_each(|(file, word)| shared.end_closing(file, word));
        std::mem::take(&mut self.collected)
    }

    /// Whether nothing waits to be appended.
    pub(crate) fn is_settled(&self) -> bool {
        self.closing.is_empty() && self.collected.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use headstart_protocol::lease::Place;
    use headstart_protocol::memory::Memory;
    use headstart_units::GRANULE_BYTES;

    use super::*;

    const BLOCK: Range = Range { offset: 0, length: 4096 };
    const PLACE: Place = Place { file: 0, data_file: 1, place: 0, length: 4096 };

    #[test]
    fn what_is_pushed_under_a_number_counts_until_the_word_is_closed() {
        let memory = Memory::new(1, 2, 1);
        let (shared, mut rings) = (memory.view(), Rings::default());
        shared.announce(0, BLOCK);
        rings.open(shared, 0, 0);
        let open = shared.open_for(1, 0, BLOCK).unwrap();
        shared.push(1, open, BLOCK, PLACE);
        assert!(shared.is_open_under(0, BLOCK, open));
        let words = rings.open_in(0, BLOCK);
        rings.begin_closing(shared, &words);
        assert_eq!((shared.open_for(0, 0, BLOCK), shared.is_open_under(0, BLOCK, open)), (None, false));
        let taken = rings.take(shared, 1_000_000);
        assert!(taken.len() == 1 && rings.counts(&taken[0]));
        rings.closed(&words);
        shared.push(0, open, BLOCK, PLACE);
        let late = rings.take(shared, 5_000_000);
        assert!(!rings.counts(&late[0]), "its thread saw that it is closed");
        assert!(rings.take(shared, 6_500_000).is_empty());
        assert_eq!([6_500_000, 7_000_000].map(|now_ns| rings.are_in_use(now_ns)), [true, false], "by time alone");
        rings.open(shared, 0, 0);
        assert!(!rings.is_open(0, 0), "what was pushed under the number before is not appended yet");
        assert!(rings.on_appended(shared).into_iter().eq([0, 1]) && rings.is_settled());
        rings.open(shared, 0, 0);
        assert_ne!(shared.open_for(1, 0, BLOCK), Some(open), "no number comes twice");
    }

    #[test]
    fn a_range_touches_the_words_of_its_granules_round_the_end() {
        let last = GRANULES_PER_FILE as u64 - 1;
        let range = Range::new(last * GRANULE_BYTES, 2 * GRANULE_BYTES);
        assert!(touches(range, GRANULES_PER_FILE - 1) && touches(range, 0) && !touches(range, 1));
        assert!(touches(Range::new(5, u64::MAX - 5), 77) && !touches(Range::default(), 0));
    }
}
