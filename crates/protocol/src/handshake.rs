//! How a request that needs no message and an agent that puts bytes on flash keep out of each other's way.
//!
//! ```text
//! write:   write the request, CHEAP | fence | load the bits  -> all clear: slow file, then FREE
//!                                                            -> one set:   ASKING, a message
//! agent:   set the bits             | fence | look at slots  -> none overlaps: commit, fetch
//!                                                            -> one does:      look again later
//! ```
//!
//! Of two sequentially consistent fences one comes first: either the library sees the bit or the agent sees
//! the slot. The size bit works the same way for writes that may make the file longer. A thread that leaves
//! the slow file says so with release ordering, and what it writes to the slot afterwards is ordered behind
//! that too: so an agent that reads half of one request and half of the next knows that the first one has
//! ended. The fields are therefore stored with release and loaded with acquire ordering; on x86 that costs
//! nothing.
//!
//! **Reads** are in nobody's way, and nobody waits for one: they look before and after.
//!
//! ```text
//! read:    load the generation | load the bits, all clear | slow file | fence | load the generation: the same
//! agent:   set a bit | raise the generation | fence | whatever is written beneath bytes on flash
//! ```
//!
//! A *generation* only grows, and that of a range is the sum over its words, so that the same sum means that none
//! grew. The bit comes first, then the generation: who loads the new generation sees the bit. The slow file holds
//! bytes that nobody may read only where somebody was given leave to write it beneath bytes on flash, and that comes
//! after the generation grew: a read that met such bytes sees it grown. The agent raises it also before each extent
//! that comes to flash where the bit was set before, and before it lets somebody write beneath clean bytes, which
//! others may be reading from the disk. The fences are those of acquire and release ordering, which cost nothing on
//! x86.
//!
//! Only the agent changes bits and generations, and one agent at a time. The count of set bits is never less than
//! their number, not even when the agent dies between two stores: an fsync rests on it. An agent that takes over
//! raises the generation of every set bit, as the one before may have died between the two.

use super::shared::{
    BITS_PER_FILE, Counter, FileEntry, GRANULES_PER_FILE, KIND_EXTEND, KIND_WRITE, STATE_ASKING, STATE_CHEAP,
    STATE_FREE, STATE_LISTED, STATE_READING, Shared, Slot, bits_of, granules_of, only_granule, word_of_granule,
};
use headstart_units::GRANULE_BYTES;
use headstart_units::atomics::{Ordering, fence};
use headstart_units::request::Range;

/// The library's side.
impl Slot {
    #[inline]
    fn publish(&self, state: u32, kind: u32, file: u32, range: Range) {
        self.kind.store(kind, Ordering::Release);
        self.file.store(file, Ordering::Release);
        self.offset.store(range.offset, Ordering::Release);
        self.length.store(range.length, Ordering::Release);
        self.state.store(state, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Publishes a write that may go to the slow file without the agent, and fences: bits loaded afterwards
    /// are newer than the publication.
    #[inline]
    pub fn publish_cheap(&self, kind: u32, file: u32, range: Range) {
        self.publish(STATE_CHEAP, kind, file, range);
    }

    /// Publishes a request that nobody has to wait for, so that a `close` in another thread sees it.
    pub fn publish_asking(&self, kind: u32, file: u32, range: Range) {
        self.publish(STATE_ASKING, kind, file, range);
    }

    /// Publishes a write of `range`; whether it may make the file longer.
    #[inline]
    pub fn publish_write(&self, entry: &FileEntry, file: u32, range: Range) -> bool {
        let may_extend = || range.end() > entry.size.load(Ordering::Acquire);
        let extends = may_extend();
        self.publish_cheap(if extends { KIND_EXTEND } else { KIND_WRITE }, file, range);
        if !extends && may_extend() {
            // The file shrank meanwhile.
            self.publish_cheap(KIND_EXTEND, file, range);
            return true;
        }
        extends
    }

    /// Says that the request waits for the agent; whoever waited for the slot goes on.
    #[inline]
    pub fn ask(&self) {
        self.state.store(STATE_ASKING, Ordering::Release);
    }

    /// Says that the thread reads `file`, the slow file, without anybody's leave: a hint that nothing is ordered by,
    /// and for which nobody waits.
    #[inline]
    pub(crate) fn hint_reading(&self, file: u32) {
        self.file.store(file, Ordering::Relaxed);
        self.state.store(STATE_READING, Ordering::Relaxed);
    }

    /// It does so no longer.
    #[inline]
    pub(crate) fn end_reading(&self) {
        self.state.store(STATE_FREE, Ordering::Relaxed);
    }

    /// Says that the request, which is published, goes by a listing: a hint as well, for the pace of copies.
    #[inline]
    pub(crate) fn hint_listed(&self) {
        self.state.store(STATE_LISTED, Ordering::Relaxed);
    }

    /// No request is under way any more.
    #[inline]
    pub fn free(&self) {
        self.state.store(STATE_FREE, Ordering::Release);
    }
}

/// What others read of a slot.
impl Slot {
    /// Whether no request is under way that anybody has to do with.
    pub fn is_free(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), STATE_FREE | STATE_READING)
    }

    /// Whether a request for `file` is under way that was published.
    pub fn is_busy_with(&self, file: u32) -> bool {
        !self.is_free() && self.file.load(Ordering::Acquire) == file
    }

    /// What tells the slot's request from the next: for whoever waited for it in vain, and decides nothing by
    /// it but where bytes go.
    pub fn glance(&self) -> [u64; 4] {
        let (state, lease) = (self.state.load(Ordering::Relaxed), self.lease.load(Ordering::Relaxed));
        let ended = self.counters[Counter::CheapRequests as usize].load(Ordering::Relaxed);
        let (seq, offset) = (self.seq.load(Ordering::Relaxed), self.offset.load(Ordering::Relaxed));
        [u64::from(state) << 32 | u64::from(lease), seq, ended, offset]
    }

    fn is_cheap_in(&self, file: u32) -> bool {
        self.state.load(Ordering::Acquire) == STATE_CHEAP && self.file.load(Ordering::Acquire) == file
    }

    /// The published range.
    pub fn requested(&self) -> Range {
        Range::new(self.offset.load(Ordering::Acquire), self.length.load(Ordering::Acquire))
    }

    /// Whether a write in `CHEAP` state touches a granule that `bit` of `file` speaks for.
    pub fn cheap_touches(&self, file: u32, bit: u64) -> bool {
        self.is_cheap_in(file) && speaks_for(bit, self.requested())
    }

    /// Whether a `CHEAP` write is under way that may make `file` longer than `size`. The kind alone does not
    /// suffice: the file may have become shorter since the thread looked at its size.
    pub fn cheap_extends(&self, file: u32, size: u64) -> bool {
        if !self.is_cheap_in(file) {
            return false;
        }
        self.kind.load(Ordering::Acquire) == KIND_EXTEND || self.requested().end() > size
    }

    /// The file and range that a `CHEAP` write of a dead thread may still change.
    pub fn cheap_write(&self) -> Option<(u32, Range)> {
        let writes = self.state.load(Ordering::Acquire) == STATE_CHEAP;
        writes.then(|| (self.file.load(Ordering::Acquire), self.requested()))
    }
}

/// Whether `bit` speaks for a granule that `range` touches.
pub fn speaks_for(bit: u64, range: Range) -> bool {
    shares(bit, BITS_PER_FILE, range)
}

/// Whether `range` touches a granule whose number leaves `rest` when divided by `turn`.
pub fn shares(rest: u64, turn: u64, range: Range) -> bool {
    if range.is_empty() {
        return false;
    }
    let first = range.offset / GRANULE_BYTES;
    let granules = (range.end() - 1) / GRANULE_BYTES - first;
    (rest + turn - first % turn) % turn <= granules
}

/// What the library asks after it has published.
impl Shared<'_> {
    /// Whether every bit of `range` is clear: the slow file may be read.
    #[inline]
    pub fn all_clear(&self, file: u32, range: Range) -> bool {
        match only_granule(range) {
            Some(granule) => !self.is_set(file, granule % BITS_PER_FILE),
            None => bits_of(range).all(|bit| !self.is_set(file, bit)),
        }
    }

    /// Whether any bit of `range` is clear.
    pub fn is_any_clear(&self, file: u32, range: Range) -> bool {
        bits_of(range).any(|bit| !self.is_set(file, bit))
    }

    /// A write finds no space on flash, and the agent is not asked: it sees how much was refused, and how
    /// long the file becomes.
    pub(crate) fn refuse_write(&self, file: u32, range: Range) {
        self.files[file as usize].refuse(range.end());
        self.header.refused_bytes.fetch_add(range.length, Ordering::Relaxed);
    }

    /// Whether the slow file may be written in `range`; `extends` as [`Slot::publish_write`] said.
    #[inline]
    pub fn write_is_cheap(&self, file: u32, range: Range, extends: bool) -> bool {
        let entry = &self.files[file as usize];
        self.all_clear(file, range) && !(extends && entry.size_bit.load(Ordering::Acquire) != 0)
    }

    /// Whether the slow file may be written at its end, wherever that is.
    pub fn append_is_cheap(&self, file: u32) -> bool {
        let entry = &self.files[file as usize];
        entry.set_bits.load(Ordering::Acquire) == 0 && entry.size_bit.load(Ordering::Acquire) == 0
    }

    /// Whether one bit is set.
    #[inline]
    pub fn is_set(&self, file: u32, bit: u64) -> bool {
        self.word(file, bit).load(Ordering::Acquire) & (1 << (bit % 64)) != 0
    }
}

/// What a read asks before and after.
impl Shared<'_> {
    /// The generation of `range`, to be loaded before its bits, or before the agent is asked where its bytes lie.
    #[inline]
    pub fn generation_of(&self, file: u32, range: Range) -> u64 {
        let generation = |word| self.granule(file, word).generation.load(Ordering::Acquire);
        match only_granule(range) {
            Some(granule) => generation(word_of_granule(granule)),
            None => granules_of(range).map(generation).fold(0, u64::wrapping_add),
        }
    }

    /// Whether the generation of `range` is still what it was before the slow file was read: then what was read
    /// counts, if nothing of it was on flash before.
    #[inline]
    pub fn is_unchanged(&self, file: u32, range: Range, generation: u64) -> bool {
        fence(Ordering::Acquire);
        self.generation_of(file, range) == generation
    }
}

/// What the library asks before it settles.
impl FileEntry {
    /// Whether bytes of the file may be on flash. An fsync asks before it syncs the slow file ([`crate::call`]).
    #[inline]
    pub fn has_set_bits(&self) -> bool {
        self.set_bits.load(Ordering::Acquire) != 0
    }
}

impl Shared<'_> {
    /// Whether no byte of `range` is on flash, for who publishes nothing: it may be by the time that this returns.
    pub(crate) fn is_off_flash(&self, file: u32, range: Range) -> bool {
        fence(Ordering::SeqCst);
        !self.files[file as usize].has_set_bits() || self.all_clear(file, range)
    }
}

/// The agent's side.
impl Shared<'_> {
    /// Sets the bits of `range` and fences: slots looked at afterwards are newer than the bits.
    pub fn announce(&self, file: u32, range: Range) {
        bits_of(range).for_each(|bit| self.set_bit(file, bit));
        fence(Ordering::SeqCst);
    }

    fn set_bit(&self, file: u32, bit: u64) {
        if !self.is_set(file, bit) {
            self.files[file as usize].set_bits.fetch_add(1, Ordering::SeqCst);
            self.word(file, bit).fetch_or(1 << (bit % 64), Ordering::SeqCst);
            self.raise_generation_in(file, word_of_granule(bit));
        }
    }

    fn raise_generation_in(&self, file: u32, word: usize) {
        self.granule(file, word).generation.fetch_add(1, Ordering::Release);
    }

    /// Raises the generation of `range`, before bytes of it come to flash, or somebody may write the slow file beneath
    /// bytes that are there: who reads the slow file without a lease at that moment sees afterwards that this does not
    /// count.
    pub fn raise_generation(&self, file: u32, range: Range) {
        granules_of(range).for_each(|word| self.raise_generation_in(file, word));
        fence(Ordering::Release);
    }

    /// Sets all bits of a file, and then raises all its generations: from now on its threads ask about every byte, and
    /// whoever reads the slow file at that moment sees afterwards that this does not count.
    pub fn announce_all(&self, file: u32) {
        for first in (0..BITS_PER_FILE).step_by(64) {
            let clear = !self.word(file, first).load(Ordering::SeqCst);
            if clear != 0 {
                self.files[file as usize].set_bits.fetch_add(clear.count_ones().into(), Ordering::SeqCst);
                self.word(file, first).fetch_or(clear, Ordering::SeqCst);
            }
        }
        (0..GRANULES_PER_FILE).for_each(|word| self.raise_generation_in(file, word));
        fence(Ordering::SeqCst);
    }

    /// Clears all bits of a file but those that `kept` says of each word, as [`Self::clear_bit`] does one.
    pub fn clear_all_but(&self, file: u32, kept: impl Fn(u32) -> u64) {
        for (number, first) in (0..).zip((0..BITS_PER_FILE).step_by(64)) {
            let kept = kept(number);
            let cleared = self.word(file, first).fetch_and(kept, Ordering::SeqCst) & !kept;
            if cleared != 0 {
                self.files[file as usize].set_bits.fetch_sub(cleared.count_ones().into(), Ordering::SeqCst);
            }
        }
    }

    /// Clears one bit. Nothing of its granules is on flash, and whoever sees it clear sees the slow file as
    /// it was left.
    pub fn clear_bit(&self, file: u32, bit: u64) {
        let mask = 1 << (bit % 64);
        if self.word(file, bit).fetch_and(!mask, Ordering::SeqCst) & mask != 0 {
            self.files[file as usize].set_bits.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// The bits set in the shared file, for an agent that takes over from one that died.
    pub fn set_bits(&self, file: u32) -> impl Iterator<Item = u64> + '_ {
        (0..BITS_PER_FILE).step_by(64).flat_map(move |first| {
            let word = self.word(file, first).load(Ordering::Acquire);
            (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| first + bit)
        })
    }

    /// Takes the bits of `file` over from an agent that died: they stay set, their count is put right, their
    /// generation raised, and the fence is made that the dead one may not have come to. The slots have to be looked at
    /// again for every one of them.
    pub fn adopt_bits(&self, file: u32) -> Vec<u64> {
        if self.files[file as usize].set_bits.load(Ordering::SeqCst) == 0 {
            return Vec::new(); // the count is never less than their number
        }
        let bits: Vec<u64> = self.set_bits(file).collect();
        self.files[file as usize].set_bits.store(bits.len() as u64, Ordering::SeqCst);
        for &bit in &bits {
            self.raise_generation_in(file, word_of_granule(bit));
        }
        fence(Ordering::SeqCst);
        bits
    }

    /// Whether no thread that may have seen `bit` clear is still at the slow file; the bit was announced.
    pub fn is_settled(&self, file: u32, bit: u64) -> bool {
        self.unsettled_from(file, bit, 0).is_none()
    }

    /// The first slot from `from` on whose thread may have seen `bit` clear and is still at the slow file. Slots that
    /// were looked at since the bit was announced need not be looked at again: what they begin now sees it.
    pub fn unsettled_from(&self, file: u32, bit: u64, from: usize) -> Option<usize> {
        self.first_from(from, |slot| slot.cheap_touches(file, bit))
    }

    fn first_from(&self, from: usize, is_in_the_way: impl Fn(&Slot) -> bool) -> Option<usize> {
        let behind = self.used_slots().get(from..)?;
        behind.iter().position(is_in_the_way).map(|at| from + at)
    }

    /// From here on threads that may make the file longer ask; then [`Shared::may_be_extending`] is worth asking.
    pub fn announce_extension(&self, file: u32) {
        self.files[file as usize].size_bit.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The file may become as short as `size`. From here on threads whose writes end behind that look at the size bit,
    /// which is set, and ask; then [`Shared::may_be_extending`] tells of those that began before.
    pub fn lower_size(&self, file: u32, size: u64) {
        self.files[file as usize].size.fetch_min(size, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The size is changed.
    pub fn end_extension(&self, file: u32) {
        self.files[file as usize].size_bit.store(0, Ordering::SeqCst);
    }

    /// Whether a thread is at a call that makes the file longer than `size`, without the agent's knowledge.
    pub fn may_be_extending(&self, file: u32, size: u64) -> bool {
        self.extending_from(file, size, 0).is_some()
    }

    /// The first slot from `from` on whose thread is at such a call. Slots that were looked at since the extension was
    /// announced, for no larger a size, need not be looked at again.
    pub fn extending_from(&self, file: u32, size: u64, from: usize) -> Option<usize> {
        self.first_from(from, |slot| slot.cheap_extends(file, size))
    }
}
