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
//! durable, and nobody reads it (rule 3). 24 bytes a record.

use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, Debug)]
struct Record {
    seq: u64,
    /// Highest seq of the records that ended extents of it.
    ended_by: u64,
    block: u32,
    /// Extents of the map that lie in it.
    live: u32,
}

/// Records of the ring, oldest first.
#[derive(Clone, Debug)]
pub struct Ring {
    blocks: u32,
    head: u32,
    records: VecDeque<Record>,
    pins: BTreeMap<u64, u32>,
}

impl Ring {
    /// An empty ring of `blocks`, the next record of which goes to block `head`.
    pub fn new(blocks: u64, head: u32) -> Ring {
        let blocks = u32::try_from(blocks).expect("a layout's ring has fewer than 2^32 blocks");
        Ring { blocks, head, records: VecDeque::new(), pins: BTreeMap::new() }
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
        if self.records.len() == self.records.capacity() {
            // An eighth more than there is: twice as much would cost each record 24 bytes more.
            self.records.reserve_exact((self.records.len() / 8).max(64));
        }
        self.records.push_back(Record { seq, ended_by: 0, block, live: 0 });
    }

    /// A record that a checkpoint names; they come in any order, before any is appended.
    pub fn found(&mut self, seq: u64, block: u32) {
        match self.records.back_mut() {
            Some(last) if last.seq == seq => last.block = last.block.min(block),
            _ => self.push(seq, block),
        }
    }

    /// Puts the records found in order; false if no ring can hold them like that.
    pub fn settle(&mut self) -> bool {
        let mut records: Vec<Record> = std::mem::take(&mut self.records).into();
        records.sort_by_key(|record| (record.seq, record.block));
        records.dedup_by_key(|record| record.seq);
        let Some(oldest) = records.first().map(|record| record.block) else { return true };
        let ordered =
            records.windows(2).all(|pair| self.distance(oldest, pair[0].block) < self.distance(oldest, pair[1].block));
        let last = records.last().map_or(oldest, |record| record.block);
        let ends = self.distance(oldest, last) < self.distance(oldest, self.head);
        self.records = records.into();
        ordered && ends
    }

    fn index_of(&self, block: u32) -> usize {
        let oldest = self.records.front().expect("a live block belongs to a record").block;
        let at = self.distance(oldest, block);
        self.records.partition_point(|record| self.distance(oldest, record.block) <= at) - 1
    }

    /// Seq of the record that holds a block.
    pub fn seq_of(&self, block: u32) -> u64 {
        self.records[self.index_of(block)].seq
    }

    /// One more extent lies at `block`.
    pub fn live(&mut self, block: u32) {
        let index = self.index_of(block);
        self.records[index].live += 1;
    }

    /// One extent less, by the record `ended_by`.
    pub fn dead(&mut self, block: u32, ended_by: u64) {
        let index = self.index_of(block);
        let record = &mut self.records[index];
        record.live -= 1;
        record.ended_by = record.ended_by.max(ended_by);
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
            let dead = oldest.live == 0 && oldest.ended_by <= durable_to;
            if oldest.seq >= start_seq || !dead || self.pins.contains_key(&oldest.seq) {
                break;
            }
            self.records.pop_front();
        }
    }

    /// What keeps the tail where it is.
    pub fn oldest(&self) -> Option<Oldest> {
        let oldest = self.records.front()?;
        Some(Oldest { seq: oldest.seq, live: oldest.live > 0, ended_by: oldest.ended_by })
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
