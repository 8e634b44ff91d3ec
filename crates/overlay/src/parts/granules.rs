//! Which bits are set, and when they may be cleared.
//!
//! A bit is set before anything of its granule may be on flash. It is *settled* once no thread that may have
//! seen it clear is still at the slow file; only then may something be absorbed or fetched there. It is
//! cleared when nothing is mapped, nothing is under way, and a barrier covers the record that removed the
//! last extent.

use std::collections::{BTreeMap, BTreeSet};

use headstart_protocol::handshake::shares;
use headstart_protocol::shared::{BITS_PER_FILE, GRANULES_PER_FILE, Shared, bits_of};
use headstart_units::GRANULE_BYTES;
use headstart_units::request::Range;

use super::looks;
use crate::extent_map::ExtentMap;

/// 64 neighbouring bits of a file.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    /// Bits that are set.
    set: u64,
    /// Those of them that are settled.
    settled: u64,
}

/// Every set bit of every file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Granules {
    /// By file and bit / 64; none is empty.
    words: BTreeMap<(u32, u32), Word>,
    /// How many operations under way hold a granule: file, bit.
    held: BTreeMap<(u32, u64), u32>,
    emptied: BTreeMap<(u32, u64), u64>,
    /// Files of which all bits are set in the shared file, as others may be at them.
    denied: BTreeSet<u32>,
    /// Of set bits that are not settled: the slot that was in the way. Those before it need not be looked at again.
    unsettled: BTreeMap<(u32, u64), usize>,
}

/// Where a bit stands: its word and its place there.
fn place_of(file: u32, bit: u64) -> ((u32, u32), u64) {
    ((file, (bit / 64) as u32), 1 << (bit % 64))
}

impl Granules {
    /// At a start: bits of the file that are set in the shared file. They are cleared when a barrier finds
    /// nothing there.
    pub(crate) fn adopt(&mut self, file: u32, bits: Vec<u64>) {
        if bits.len() as u64 == BITS_PER_FILE {
            // Others may have been at the file. What is set beside is set again for what is mapped.
            self.denied.insert(file);
            return;
        }
        for bit in bits {
            let (word, mask) = place_of(file, bit);
            self.words.entry(word).or_default().set |= mask;
            self.emptied.entry((file, bit)).or_insert(0);
        }
    }

    /// Sets the bits of `range`, fences, and keeps them from being cleared until `let_go`.
    pub(crate) fn hold(&mut self, shared: Shared<'_>, file: u32, range: Range) {
        for bit in bits_of(range) {
            let (word, mask) = place_of(file, bit);
            self.words.entry(word).or_default().set |= mask;
            *self.held.entry((file, bit)).or_insert(0) += 1;
        }
        shared.announce(file, range);
    }

    /// Sets all bits of the file, and fences: its threads ask about every byte.
    pub(crate) fn deny(&mut self, shared: Shared<'_>, file: u32) {
        self.denied.insert(file);
        shared.announce_all(file);
    }

    /// Undoes `deny`: those stay set that are by other rules.
    pub(crate) fn admit(&mut self, shared: Shared<'_>, file: u32) {
        if self.denied.remove(&file) {
            let words = &self.words;
            shared.clear_all_but(file, |word| words.get(&(file, word)).map_or(0, |word| word.set));
        }
    }

    /// The same of all files.
    pub(crate) fn admit_all(&mut self, shared: Shared<'_>) {
        self.denied.clone().into_iter().for_each(|file| self.admit(shared, file));
    }

    /// Undoes `hold`.
    pub(crate) fn let_go(&mut self, file: u32, range: Range) {
        for bit in bits_of(range) {
            let holders = self.held.get_mut(&(file, bit)).expect("a held granule is known");
            *holders -= 1;
            if *holders == 0 {
                self.held.remove(&(file, bit));
                // It may be that nothing was mapped in the end; the next barrier looks.
                self.emptied.entry((file, bit)).or_insert(0);
            }
        }
    }

    /// Whether nobody who may have seen one of the range's bits clear is still at the slow file.
    pub(crate) fn settled(&mut self, shared: Shared<'_>, file: u32, range: Range) -> bool {
        for bit in bits_of(range) {
            if !self.bit_is_settled(shared, file, bit).expect("a held granule is known") {
                return false;
            }
        }
        true
    }

    /// The same of all bits that are set whose granules share this word of the shared file.
    pub(crate) fn word_is_settled(&mut self, shared: Shared<'_>, file: u32, word: usize) -> bool {
        (word as u64..BITS_PER_FILE)
            .step_by(GRANULES_PER_FILE)
            .all(|bit| self.bit_is_settled(shared, file, bit).unwrap_or(true))
    }

    /// Whether nobody is at the slow file who may have seen the bit clear. None: it is clear.
    fn bit_is_settled(&mut self, shared: Shared<'_>, file: u32, bit: u64) -> Option<bool> {
        let (word, mask) = place_of(file, bit);
        let word = self.words.get_mut(&word).filter(|word| word.set & mask != 0)?;
        if word.settled & mask == 0 {
            let from = self.unsettled.get(&(file, bit)).copied().unwrap_or(0);
            let found = shared.unsettled_from(file, bit, from);
            looks::note(shared, from, found);
            if let Some(slot) = found {
                self.unsettled.insert((file, bit), slot);
                return Some(false);
            }
            self.unsettled.remove(&(file, bit));
            word.settled |= mask;
        }
        Some(true)
    }

    /// Extents of `range` were removed by a record that ends at `position`.
    pub(crate) fn emptied(&mut self, file: u32, range: Range, position: u64) {
        for bit in bits_of(range) {
            self.emptied.insert((file, bit), position);
        }
    }

    /// Clears the bits that may be: removed before `durable_end`, held by nobody, not `in_use` by a copy or by commits
    /// that need no answer, and not `occupied` by an extent.
    pub(crate) fn clear(
        &mut self,
        shared: Shared<'_>,
        durable_end: u64,
        in_use: impl Fn(u32, u64) -> bool,
        occupied: impl Fn(u32, u64) -> bool,
    ) {
        let (words, held, unsettled, denied) = (&mut self.words, &self.held, &mut self.unsettled, &self.denied);
        self.emptied.retain(|&(file, bit), &mut position| {
            let (at, mask) = place_of(file, bit);
            let Some(word) = words.get_mut(&at).filter(|word| word.set & mask != 0) else { return false };
            if position > durable_end || held.contains_key(&(file, bit)) || in_use(file, bit) {
                return true;
            }
            if !occupied(file, bit) {
                word.set &= !mask;
                word.settled &= !mask;
                if word.set == 0 {
                    words.remove(&at);
                }
                unsettled.remove(&(file, bit));
                if !denied.contains(&file) {
                    shared.clear_bit(file, bit);
                }
            }
            false
        });
    }

    /// Whether any bit of the file is set.
    pub(crate) fn any(&self, file: u32) -> bool {
        self.words.range((file, 0)..=(file, u32::MAX)).next().is_some()
    }

    /// The journal begins anew with a checkpoint that ends at `position`: what was emptied before is emptied by it.
    pub(crate) fn rebase(&mut self, position: u64) {
        self.emptied.values_mut().for_each(|emptied| *emptied = position);
    }
}

/// Whether anything is mapped of the granules that share a bit or a word: those whose numbers leave `rest` when divided
/// by `turn`, the number of bits or words of a file.
pub(crate) fn is_mapped(map: &ExtentMap, rest: u64, turn: u64) -> bool {
    let (end, turn_bytes) = (map.end(), turn * GRANULE_BYTES);
    // Whichever are fewer.
    if end / turn_bytes > map.len() as u64 {
        return map.iter().any(|mapped| shares(rest, turn, mapped.range));
    }
    let offsets = (rest * GRANULE_BYTES..end).step_by(turn_bytes as usize);
    offsets.map(|offset| Range::new(offset, GRANULE_BYTES)).any(|granule| map.touches(granule))
}

#[cfg(test)]
mod tests {
    use headstart_protocol::memory::Memory;
    use headstart_protocol::shared::KIND_WRITE;

    use super::*;
    use crate::extent_map::{Benefit, Mapped};
    use crate::recency::Stamp;

    #[test]
    fn what_is_mapped_is_found_by_its_bit_and_its_word_in_files_long_and_short() {
        let turns = [GRANULES_PER_FILE as u64, BITS_PER_FILE];
        for granule in [0, 3, GRANULES_PER_FILE as u64 - 1, 5 + BITS_PER_FILE, 5 + 7 * BITS_PER_FILE] {
            let mut map = ExtentMap::default();
            let range = Range::new((granule + 1) * GRANULE_BYTES - 4096, 4096);
            let (stamp, benefit) = (Stamp::default(), Benefit::default());
            map.put(Mapped { range, data_file: 1, place: 0, dirty: true, stamp, benefit });
            for turn in turns {
                assert!(is_mapped(&map, granule % turn, turn));
                assert!(
                    !is_mapped(&map, (granule + 1) % turn, turn) && !is_mapped(&map, (granule + turn - 1) % turn, turn)
                );
            }
        }
        assert!(turns.iter().all(|turn| !is_mapped(&ExtentMap::default(), 0, *turn)));
    }

    #[test]
    fn slots_are_looked_at_once_for_a_word_that_does_not_settle() {
        let (memory, range) = (Memory::new(1, 3, 1), Range::new(0, 4096));
        let (shared, mut granules) = (memory.view(), Granules::default());
        memory.slots[2].publish_cheap(KIND_WRITE, 0, range);
        granules.hold(shared, 0, range);
        assert!(!granules.word_is_settled(shared, 0, 0));
        looks::take();
        assert!(!granules.word_is_settled(shared, 0, 0) && !granules.settled(shared, 0, range));
        assert_eq!(looks::take(), 2, "who is in the way");
        memory.slots[2].free();
        assert!(granules.word_is_settled(shared, 0, 0));
    }

    #[test]
    fn a_bit_that_was_cleared_meanwhile_settles_anew() {
        let (memory, range) = (Memory::new(1, 3, 1), Range::new(0, 4096));
        let (shared, mut granules) = (memory.view(), Granules::default());
        let publish = |slot: usize| memory.slots[slot].publish_cheap(KIND_WRITE, 0, range);
        publish(2);
        granules.hold(shared, 0, range);
        assert!(!granules.settled(shared, 0, range));
        // Whoever waited is refused, and nothing is there.
        granules.let_go(0, range);
        granules.clear(shared, 0, |_, _| false, |_, _| false);
        assert!(!granules.any(0) && shared.all_clear(0, range));
        publish(1);
        granules.hold(shared, 0, range);
        memory.slots[2].free();
        assert!(!granules.settled(shared, 0, range), "who sees the bit clear is waited for");
        memory.slots[1].free();
        assert!(granules.settled(shared, 0, range));
    }
}
