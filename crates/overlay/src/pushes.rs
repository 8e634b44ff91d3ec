//! Commits that threads pushed: taking them out of the rings, and when a granule is open for them.
//!
//! | when | what |
//! |---|---|
//! | before a request is looked at, at every poll, before a thread's end | what is pushed is applied |
//! | a commit was asked for and is stored, and nothing forbids it | its granule is opened |
//! | a direct write is granted, a fetch begins, nothing is mapped any more, the file is left alone, the agent ends | closed |
//!
//! Nothing that a commit would have to wait for may begin in an open granule: what was pushed counts.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use headstart_protocol::ring::Pushed;
use headstart_protocol::shared::{GRANULES_PER_FILE, Shared, word_of};
use headstart_units::request::Range;
use headstart_units::{GRANULE_BYTES, PAGE_BYTES};

use crate::flash_space::Run;
use crate::overlay::Overlay;
use crate::parts::granules::is_mapped;
use crate::parts::pending::{Commit, CommitStep};
use crate::parts::rings::touches;

impl Overlay {
    /// Applies what threads pushed.
    pub(crate) fn collect_pushes(&mut self, shared: Shared<'_>) {
        let taken = self.rings.take(shared, self.measured_ns);
        if taken.is_empty() {
            return;
        }
        let mut used: BTreeMap<(u32, u32), (Range, u64)> = BTreeMap::new();
        for pushed in &taken {
            if self.counts(pushed, 0) && self.take_pages(pushed) {
                self.apply_pushed(shared, pushed);
                let (range, bytes) = used.entry((pushed.slot, pushed.place.file)).or_default();
                (*range, *bytes) = (pushed.range, *bytes + pushed.range.length);
            } else {
                self.outbox.counters.pushes_passed_over_total += 1;
            }
        }
        if !self.waits_for_space() {
            used.retain(|(slot, _), _| self.threads.owner(*slot).is_some());
            for ((slot, file), (range, bytes)) in used {
                self.refill(shared, slot, file, range, 2 * bytes);
            }
        }
    }

    /// Whether the commit is one that its thread may take for done. It lies within the known size, or within what that
    /// was under an agent before, which may have been of a file that has no name any more.
    fn counts(&self, pushed: &Pushed, size_before: u64) -> bool {
        let Pushed { slot, seq, range, place, .. } = *pushed;
        let end = range.offset.saturating_add(range.length);
        self.rings.counts(pushed)
            && self.files.get(&place.file).is_some_and(|known| end <= known.length.size().max(size_before))
            && self.threads.last_commit(slot).is_none_or(|last| last < seq)
            && place.place % PAGE_BYTES == range.offset % PAGE_BYTES
            && !range.is_empty()
            && (end - 1) / GRANULE_BYTES == range.offset / GRANULE_BYTES
    }

    fn take_pages(&mut self, &Pushed { slot, range, place, .. }: &Pushed) -> bool {
        self.consume(slot, place.file, Run::touching(place.data_file, place.place, range.length))
    }

    fn apply_pushed(&mut self, shared: Shared<'_>, pushed: &Pushed) {
        let Pushed { slot, seq, range, place, .. } = *pushed;
        let (file, data_file) = (place.file, place.data_file);
        let step = CommitStep::Applied;
        let commit = Commit { file, range, data_file, place: place.place, step, kept: range.offset, now_ns: 0 };
        self.apply(shared, slot, seq, &commit);
        self.outbox.counters.pushed_commits_total += 1;
        self.absorbed.insert(file);
    }

    /// Whether threads pushed something not long ago: they may be pushing more.
    pub fn was_pushed_to(&self) -> bool {
        self.rings.are_in_use(self.measured_ns)
    }

    /// When threads last left something that the agent looks for by itself.
    pub fn marked_ns(&self) -> u64 {
        self.rings.marked_ns()
    }

    /// Threads that leave something tell the agent, from now on and until [`Shared::wake_up`]; no, if there is
    /// something to look at.
    pub fn fall_asleep(&self, shared: Shared<'_>) -> bool {
        self.rings.fall_asleep(shared)
    }

    /// Files of which bytes were absorbed without a question, since this was asked last.
    pub fn take_absorbed(&mut self) -> impl Iterator<Item = u32> + use<> {
        std::mem::take(&mut self.absorbed).into_iter()
    }

    /// A commit that was asked for is stored: the next ones in its granule need not be, if nothing that they would
    /// have to wait for is under way there.
    pub(crate) fn open_granule(&mut self, shared: Shared<'_>, file: u32, range: Range) {
        let word = word_of(range.offset);
        let is_one = (range.end() - 1) / GRANULE_BYTES == range.offset / GRANULE_BYTES;
        if is_one && !self.rings.is_open(file, word) && self.may_open(shared, file, word) {
            self.listings.opened(file, word);
            self.listings.show_ends(shared);
            self.rings.open(shared, file, word);
        }
    }

    fn may_open(&mut self, shared: Shared<'_>, file: u32, word: usize) -> bool {
        let known = &self.files[&file];
        if self.is_left_alone(file)
            || !self.sharing.is_alone(file)
            || known.data_file.is_none()
            || known.length.is_extending()
        {
            return false;
        }
        let whole = Range::new(0, u64::MAX);
        let mut in_the_way = self
            .leases
            .all_of(shared, file)
            .chain(self.fetches.within(file, whole))
            .chain(self.pending.wanted_to_write(file));
        !in_the_way.any(|range| touches(range, word))
            && !self.pending.any_truncation_of(file)
            && self.granules.word_is_settled(shared, file, word)
    }

    /// Bytes of `range` may come to flash from now on; nothing is pushed to granules of it that had none before, until
    /// they have settled.
    pub(crate) fn hold_granules(&mut self, shared: Shared<'_>, file: u32, range: Range) {
        if shared.is_any_clear(file, range) {
            self.close_granules(shared, file, range);
        }
        self.granules.hold(shared, file, range);
    }

    /// The thread behind the slot is gone: applies what it pushed, be it that it could not say so any more.
    pub(crate) fn collect_last_pushes(&mut self, shared: Shared<'_>, slot: u32) {
        self.rings.look_into(slot);
        self.collect_pushes(shared);
    }

    /// Commits in the granules of `range` need an answer from now on; those that did not have theirs.
    pub(crate) fn close_granules(&mut self, shared: Shared<'_>, file: u32, range: Range) {
        let words = self.rings.open_in(file, range);
        self.close_words(shared, &words);
    }

    fn close_words(&mut self, shared: Shared<'_>, words: &[(u32, usize)]) {
        if words.is_empty() {
            return;
        }
        self.rings.begin_closing(shared, words);
        self.collect_pushes(shared);
        self.rings.closed(words);
    }

    /// Closes all granules, and ends all listings: nobody does anything without an answer any more.
    pub fn close_all_granules(&mut self, shared: Shared<'_>) {
        self.end_listings(shared);
        let words: Vec<(u32, usize)> = self.rings.all_open().collect();
        self.close_words(shared, &words);
    }

    /// Closes those of files whose data file takes nothing more.
    pub(crate) fn close_retired(&mut self, shared: Shared<'_>) {
        let is_retired = |file: &u32| self.files.get(file).is_none_or(|known| known.data_file.is_none());
        let files: Vec<u32> = self.rings.files().filter(is_retired).collect();
        files.into_iter().for_each(|file| self.close_granules(shared, file, Range::new(0, u64::MAX)));
    }

    /// Closes granules of which nothing is on flash: their bits may clear.
    pub(crate) fn close_empty(&mut self, shared: Shared<'_>) {
        let is_empty = |(file, word): &(u32, usize)| {
            let turn = GRANULES_PER_FILE as u64;
            !self.files.get(file).is_some_and(|known| is_mapped(&known.map, *word as u64, turn))
        };
        let words: Vec<(u32, usize)> = self.rings.all_open().filter(is_empty).collect();
        self.close_words(shared, &words);
    }

    /// At a start: takes over the granules that the agent before has left open, and what threads pushed there. They
    /// are closed then.
    pub(crate) fn adopt_rings(&mut self, shared: Shared<'_>) {
        for file in self.files.keys().copied().collect::<Vec<_>>() {
            self.rings.adopt(shared, file);
        }
        let words: Vec<(u32, usize)> = self.rings.all_open().collect();
        self.rings.begin_closing(shared, &words);
        for pushed in &self.rings.take_all(shared) {
            let Pushed { range, place, .. } = *pushed;
            // Of a thread that is gone the slabs are too; nothing else is where they were.
            let adopts = |overlay: &mut Overlay| {
                let run = Run::touching(place.data_file, place.place, range.length);
                overlay.is_of_before(place.file, place.data_file) && overlay.space.adopt_slab(run)
            };
            let size_before = shared.files.get(place.file as usize).map_or(0, |file| file.size.load(Ordering::Acquire));
            if self.counts(pushed, size_before) && (self.take_pages(pushed) || adopts(self)) {
                self.apply_pushed(shared, pushed);
            }
        }
        self.rings.closed(&words);
    }
}
