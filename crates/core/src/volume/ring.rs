//! The log's ring: which records lie in it, and from where on it is free.
//!
//! Records lie back to back in the order of their seq; the end of the ring that is too short for one is filled by a pad, a record as
//! well. So a record's place follows from its seq by replay, and space becomes free at the tail only, in order:
//!
//! ```text
//! free | tail: oldest record that may still be read or replayed ... | head: where the next one goes | free
//! ```
//!
//! A record may be overwritten when it lies below the replay start of a durable checkpoint, what ended its last live extent is
//! durable, and nobody reads it (rule 3).
//!
//! A record takes 16 bytes: seqs are counted from a base that follows the tail. None lies 2^32 or more behind another, because each takes a
//! block and a ring has fewer.

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

/// Records of the ring, oldest first.
#[derive(Clone, Debug)]
pub struct Ring {
    blocks: u32,
    head: u32,
    base_seq: u64,
    records: VecDeque<Record>,
    /// Of a checkpoint, until they are settled.
    found: Vec<(u64, u32)>,
    /// So many of those are in order, each once.
    found_in_order: usize,
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
            found: Vec::new(),
            found_in_order: 0,
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
        if self.records.len() == self.records.capacity() {
            // An eighth more than there is: twice as much would cost each record 16 bytes more.
            self.records.reserve_exact((self.records.len() / 8).max(64));
        }
        let seq = u32::try_from(seq - self.base_seq).expect("each record of a ring takes a block");
        self.records.push_back(Record { seq, ended: 0, block, live: 0 });
    }

    fn seq(&self, record: &Record) -> u64 {
        self.base_seq + u64::from(record.seq)
    }

    fn ended_by(&self, record: &Record) -> u64 {
        if record.ended == 0 { 0 } else { self.seq(record) + u64::from(record.ended) - 1 }
    }

    /// A record that a checkpoint names; they come in any order, before any is appended.
    pub fn found(&mut self, seq: u64, block: u32) {
        match self.found.last_mut() {
            Some(last) if last.0 == seq => last.1 = last.1.min(block),
            _ => self.found.push((seq, block)),
        }
        // A record of many extents comes as often.
        if self.found.len() >= (2 * self.found_in_order).max(1 << 16) {
            self.order_found();
        }
    }

    fn order_found(&mut self) {
        self.found.sort_unstable();
        self.found.dedup_by_key(|(seq, _)| *seq);
        self.found_in_order = self.found.len();
    }

    /// Puts the records found in order; false if no ring can hold them like that, and as many as there were since, up to `start_seq`.
    pub fn settle(&mut self, start_seq: u64) -> bool {
        self.order_found();
        let found = std::mem::take(&mut self.found);
        let (Some((first, oldest)), Some((last, newest))) = (found.first().copied(), found.last().copied()) else {
            return true;
        };
        let ordered = found.windows(2).all(|pair| self.distance(oldest, pair[0].1) < self.distance(oldest, pair[1].1));
        let ends = self.distance(oldest, newest) < self.distance(oldest, self.head);
        if !ordered || !ends || last >= start_seq || start_seq - first > u64::from(self.blocks) {
            return false;
        }
        self.records.reserve_exact(found.len());
        found.into_iter().for_each(|(seq, block)| self.push(seq, block));
        true
    }

    fn index_of(&self, block: u32) -> usize {
        let oldest = self.records.front().expect("a live block belongs to a record").block;
        let distance = |index: usize| self.distance(oldest, self.records[index].block);
        let (at, count) = (self.distance(oldest, block), self.records.len());
        // Records are much alike: it is near where it would be if they all were. Of millions, most lie in no cache.
        let used = u64::from(self.distance(oldest, self.head).max(1));
        let guess = ((u64::from(at) * count as u64 / used) as usize).min(count - 1);
        let (mut low, mut high, mut step) = (guess, guess, 1);
        while distance(low) > at {
            high = low;
            low = low.saturating_sub(step);
            step *= 2;
        }
        step = 1;
        while high < count && distance(high) <= at {
            low = high;
            high = (high + step).min(count);
            step *= 2;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            *(if distance(middle) <= at { &mut low } else { &mut high }) = middle;
        }
        low
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

    /// Frees what may be overwritten (rule 3); records from `start_seq` on are replayed, those up to `durable_to` are durable.
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
