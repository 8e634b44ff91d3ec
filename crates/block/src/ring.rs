//! The log's ring: which records lie in it, and from where on it is free.
//!
//! Records lie back to back in the order of their seq; the end of the ring that is too short for one is
//! filled by a pad, a record as well. So a record's place follows from its seq by replay, and space becomes
//! free at the tail only, in order:
//!
//! ```text
//! free | tail: oldest record that may still be read or replayed ... | head: where the next one goes | free
//! ```
//!
//! A record may be overwritten when it lies below the replay start of a durable checkpoint, what ended its
//! last live extent is durable, and nobody reads it (rule 3).
//!
//! A record takes 16 bytes: seqs are counted from a base that follows the tail. None lies 2^32 or more behind
//! another, because each takes a block and a ring has fewer.

use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, Debug)]
struct Record {
    /// From the ring's base on.
    seq: u32,
    /// Highest seq of the records that ended extents of it, from one before its own on; zero: nothing did.
    ended: u32,
    block: u32,
    /// Extents of the map that lie in it.
    live: u32,
}

impl Record {
    /// More extents lie in it, the first of them at `block`.
    fn merge(&mut self, block: u32, live: u32) {
        self.block = self.block.min(block);
        self.live += live;
    }
}

/// Records of the ring, oldest first.
#[derive(Clone, Debug)]
pub struct Ring {
    blocks: u32,
    head: u32,
    base_seq: u64,
    records: VecDeque<Record>,
    /// So many of those that a checkpoint names are in order, each once.
    found_in_order: usize,
    /// So many others are not the first of their seq.
    found_again: usize,
    /// A bit for each seq that a checkpoint may name: it does.
    found: Vec<u64>,
    /// A checkpoint names one that no ring can hold.
    is_unsound: bool,
    pins: BTreeMap<u64, u32>,
}

impl Ring {
    /// An empty ring of `blocks`, the next record of which goes to block `head`.
    pub fn new(blocks: u64, head: u32) -> Ring {
        let blocks = u32::try_from(blocks).expect("a layout's ring has fewer than 2^32 blocks");
        Ring {
            blocks,
            head,
            base_seq: 0,
            records: VecDeque::new(),
            found_in_order: 0,
            found_again: 0,
            found: Vec::new(),
            is_unsound: false,
            pins: BTreeMap::new(),
        }
    }

    /// Length in blocks.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Where the next record goes.
    pub fn head(&self) -> u32 {
        self.head
    }

    fn distance(&self, from: u32, to: u32) -> u32 {
        if to >= from { to - from } else { self.blocks - from + to }
    }

    /// Blocks that may be written; one stays empty, to tell a full ring from an empty one.
    pub fn free_blocks(&self) -> u32 {
        self.blocks - 1 - self.records.front().map_or(0, |oldest| self.distance(oldest.block, self.head))
    }

    /// Blocks from the head to the end of the ring: a longer record needs a pad first.
    pub fn blocks_to_end(&self) -> u32 {
        self.blocks - self.head
    }

    /// Takes the next `blocks` for a record.
    pub fn append(&mut self, seq: u64, blocks: u32) -> u32 {
        assert!(blocks <= self.free_blocks() && blocks <= self.blocks_to_end(), "a record is put where there is room");
        let block = self.head;
        self.push(seq, block);
        self.head = (self.head + blocks) % self.blocks;
        block
    }

    fn push(&mut self, seq: u64, block: u32) {
        if self.records.is_empty() {
            self.base_seq = seq;
        } else if seq - self.base_seq > u64::from(u32::MAX) {
            let passed = self.records[0].seq;
            self.records.iter_mut().for_each(|record| record.seq -= passed);
            self.base_seq += u64::from(passed);
        }
        let seq = u32::try_from(seq - self.base_seq).expect("each record of a ring takes a block");
        self.put(seq, block, 0);
    }

    fn put(&mut self, seq: u32, block: u32, live: u32) {
        if self.records.len() == self.records.capacity() {
            // An eighth more than there is: twice as much would cost each record 16 bytes more.
            self.records.reserve_exact((self.records.len() / 8).max(64));
        }
        self.records.push_back(Record { seq, ended: 0, block, live });
    }

    fn seq(&self, record: &Record) -> u64 {
        self.base_seq + u64::from(record.seq)
    }

    fn ended_by(&self, record: &Record) -> u64 {
        if record.ended == 0 { 0 } else { self.seq(record) + u64::from(record.ended) - 1 }
    }

    /// A ring whose records a checkpoint names, with the replay start behind them. Each has taken a block.
    pub fn of_checkpoint(blocks: u64, head: u32, start_seq: u64) -> Ring {
        let found = vec![0; blocks.div_ceil(64) as usize];
        Ring { base_seq: start_seq.saturating_sub(blocks), found, ..Ring::new(blocks, head) }
    }

    /// An extent of the checkpoint lies in a record, from this block on; they come in any order, before
    /// anything is appended.
    #[inline]
    pub fn found(&mut self, seq: u64, block: u32) {
        let seq = seq.checked_sub(self.base_seq).filter(|seq| *seq < self.blocks.into());
        let Some(seq) = seq.map(|seq| seq as u32) else {
            self.is_unsound = true;
            return;
        };
        let (word, bit) = (seq as usize / 64, 1 << (seq % 64));
        let is_known = self.found[word] & bit != 0;
        self.found[word] |= bit;
        if is_known {
            self.merge_found(seq, block);
        } else {
            self.put(seq, block, 1);
        }
    }

    /// The same of a record that was found before.
    fn merge_found(&mut self, seq: u32, block: u32) {
        if let Some(last) = self.records.back_mut().filter(|last| last.seq == seq) {
            last.merge(block, 1);
            return;
        }
        if let Some(index) = self.index_in_order(seq) {
            self.records[index].merge(block, 1);
            return;
        }
        self.put(seq, block, 1);
        self.found_again += 1;
        if self.found_again >= (self.records.len() / 2).max(1 << 16) {
            self.order_found();
        }
    }

    /// Where a seq stands among those in order.
    fn index_in_order(&self, seq: u32) -> Option<usize> {
        let last = self.found_in_order.checked_sub(1)?;
        let from = seq.checked_sub(self.records[0].seq)?;
        let span = u64::from(self.records[last].seq - self.records[0].seq).max(1);
        let guess = (u64::from(from) * last as u64 / span) as usize;
        let index = last_where(self.found_in_order, guess, |index| self.records[index].seq <= seq);
        (self.records[index].seq == seq).then_some(index)
    }

    fn order_found(&mut self) {
        let mut records: Vec<Record> = std::mem::take(&mut self.records).into();
        records.sort_unstable_by_key(|record| u64::from(record.seq) << 32 | u64::from(record.block));
        records.dedup_by(|next, kept| {
            let is_same = next.seq == kept.seq;
            if is_same {
                kept.merge(next.block, next.live);
            }
            is_same
        });
        (self.found_in_order, self.found_again) = (records.len(), 0);
        self.records = records.into();
    }

    /// Puts the records found in order; false if no ring can hold them like that.
    pub fn settle(&mut self) -> bool {
        self.order_found();
        self.found = Vec::new();
        let (Some(first), Some(last)) = (self.records.front(), self.records.back()) else { return !self.is_unsound };
        let distance = |record: &Record| self.distance(first.block, record.block);
        let pairs = self.records.iter().zip(self.records.iter().skip(1));
        let ordered = pairs.into_iter().all(|(one, next)| distance(one) < distance(next));
        ordered && !self.is_unsound && distance(last) < self.distance(first.block, self.head)
    }

    /// Where the record that holds a block would be if all were alike.
    fn guess(&self, oldest: u32, block: u32) -> usize {
        let used = u64::from(self.distance(oldest, self.head).max(1));
        let at = u64::from(self.distance(oldest, block));
        ((at * self.records.len() as u64 / used) as usize).min(self.records.len() - 1)
    }

    fn index_of(&self, block: u32) -> usize {
        let oldest = self.records.front().expect("a live block belongs to a record").block;
        let at = self.distance(oldest, block);
        // Records are much alike: it is near where it would be if they all were. Of millions, most lie in no cache.
        let guess = self.guess(oldest, block);
        last_where(self.records.len(), guess, |index| self.distance(oldest, self.records[index].block) <= at)
    }

    /// Something of what is likely to be read to find the record of a block: so that memory is waited for
    /// once for many of them.
    pub fn near(&self, block: u32) -> u32 {
        self.records.front().map_or(0, |oldest| self.records[self.guess(oldest.block, block)].block)
    }

    /// Seq of the record that holds a block.
    pub fn seq_of(&self, block: u32) -> u64 {
        self.seq(&self.records[self.index_of(block)])
    }

    /// One more extent lies at `block`.
    pub fn live(&mut self, block: u32) {
        let index = self.index_of(block);
        self.records[index].live += 1;
    }

    /// One extent less, by the record `ended_by`.
    pub fn dead(&mut self, block: u32, ended_by: u64) {
        let index = self.index_of(block);
        let ended = (ended_by + 1).saturating_sub(self.seq(&self.records[index]));
        let record = &mut self.records[index];
        record.live -= 1;
        record.ended = record.ended.max(u32::try_from(ended).expect("each record of a ring takes a block"));
    }

    /// Somebody reads the record that holds `block`; its seq, for `unpin`.
    pub fn pin(&mut self, block: u32) -> u64 {
        let seq = self.seq_of(block);
        *self.pins.entry(seq).or_default() += 1;
        seq
    }

    /// The end of that.
    pub fn unpin(&mut self, seq: u64) {
        let pins = self.pins.get_mut(&seq).expect("it was pinned");
        *pins -= 1;
        if *pins == 0 {
            self.pins.remove(&seq);
        }
    }

    /// Frees what may be overwritten (rule 3); records from `start_seq` on are replayed, those up to
    /// `durable_to` are durable.
    pub fn release(&mut self, start_seq: u64, durable_to: u64) {
        while let Some(oldest) = self.records.front() {
            let seq = self.seq(oldest);
            let dead = oldest.live == 0 && self.ended_by(oldest) <= durable_to;
            if seq >= start_seq || !dead || self.pins.contains_key(&seq) {
                break;
            }
            self.records.pop_front();
        }
    }

    /// What keeps the tail where it is.
    pub fn oldest(&self) -> Option<Oldest> {
        let oldest = self.records.front()?;
        Some(Oldest { seq: self.seq(oldest), live: oldest.live > 0, ended_by: self.ended_by(oldest) })
    }

    /// Bytes of memory of the index.
    pub fn memory_bytes(&self) -> usize {
        self.records.capacity() * size_of::<Record>()
    }
}

/// The last of `count` indices for which something holds that holds up to some index, the first at least; it
/// is near `guess`.
fn last_where(count: usize, guess: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high, mut step) = (guess.min(count - 1), guess.min(count - 1), 1);
    while low > 0 && !holds(low) {
        high = low;
        low = low.saturating_sub(step);
        step *= 2;
    }
    step = 1;
    while high < count && holds(high) {
        low = high;
        high = (high + step).min(count);
        step *= 2;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        *(if holds(middle) { &mut low } else { &mut high }) = middle;
    }
    low
}

/// The record at the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oldest {
    /// Its seq.
    pub seq: u64,
    /// Extents lie in it.
    pub live: bool,
    /// The last record that ended one.
    pub ended_by: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_units::chance::Random;

    #[test]
    fn the_record_of_a_block_is_found_whatever_lengths_and_seqs_are() {
        let seed = std::env::var("SEED").ok().map_or(9, |text| text.parse().expect("SEED is a number"));
        println!("SEED={seed}");
        let mut random = Random(seed);
        let mut ring = Ring::new(4096, 77);
        let (mut seq, mut placed) = (1, VecDeque::new());
        for _ in 0..20_000 {
            let wanted = if random.chance(90) { 2 } else { 1 + random.below(300) as u32 };
            let length = wanted.min(ring.blocks_to_end());
            if length <= ring.free_blocks() {
                placed.push_back((ring.append(seq, length), length, seq));
                // As if all the others of four thousand million records had been here.
                seq += if random.chance(99) { 1 } else { 1 << 20 };
            } else {
                ring.release(u64::MAX, u64::MAX);
                assert_eq!(ring.oldest(), None);
                placed.clear();
            }
            if !placed.is_empty() {
                let (block, length, seq) = placed[random.below(placed.len() as u64) as usize];
                assert_eq!(ring.seq_of(block + random.below(length.into()) as u32), seq);
            }
        }
        assert!(seq > 1 << 27);
    }

    #[test]
    fn the_records_of_a_checkpoint_are_found_in_whatever_order_its_extents_come() {
        let seed = std::env::var("SEED").ok().map_or(4, |text| text.parse().expect("SEED is a number"));
        println!("SEED={seed}");
        let mut random = Random(seed);
        for (count, extents_max) in [(1, 1), (1000, 1), (40_000, 1), (40_000, 9), (300, 2000)] {
            // Records back to back, some of them gone, each with so many extents in so many blocks.
            let (blocks, head) = (1 << 20, random.below(1 << 20) as u32);
            let (mut extents, mut live, mut block, mut seq) = (Vec::new(), Vec::new(), head, 1 << 20);
            for _ in 0..count {
                let held = 1 + random.below(extents_max) as u32;
                block = if block + 1 + held > blocks { 0 } else { block };
                live.push((seq, block + 1, held));
                extents.extend((1..=held).map(|at| (seq, block + at)));
                block = (block + 1 + held) % blocks;
                seq += 1 + random.below(2);
            }
            for index in (1..extents.len()).rev() {
                extents.swap(index, random.below(index as u64 + 1) as usize);
            }
            let mut ring = Ring::of_checkpoint(blocks.into(), block, seq);
            extents.iter().for_each(|(seq, block)| ring.found(*seq, *block));
            assert!(ring.settle());
            let found = ring.records.iter().map(|record| (ring.seq(record), record.block, record.live));
            assert!(found.eq(live));
            assert!(extents.iter().all(|(seq, block)| ring.seq_of(*block) == *seq));
        }
    }

    #[test]
    fn seqs_go_on_beyond_what_a_record_counts_from_the_tail() {
        let mut ring = Ring::new(64, 0);
        for seq in [1, 2] {
            let block = ring.append(seq, 4);
            ring.live(block);
        }
        ring.dead(0, 2);
        ring.release(2, u64::MAX);
        let far = 2 + u64::from(u32::MAX);
        let block = ring.append(far, 4);
        ring.live(block);
        assert_eq!((ring.seq_of(5), ring.seq_of(block)), (2, far));
        ring.dead(block, far + 7);
        ring.dead(4, 5);
        assert_eq!(ring.oldest(), Some(Oldest { seq: 2, live: false, ended_by: 5 }));
        ring.release(far, far);
        assert_eq!(ring.oldest(), Some(Oldest { seq: far, live: false, ended_by: far + 7 }));
    }
}
