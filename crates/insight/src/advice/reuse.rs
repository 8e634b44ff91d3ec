//! Which reads S4D would find on flash, for every capacity at once, from a sample of the pages that were used.
//!
//! Blocks are sampled by a hash of their place, so that of a sampled block every use is seen; when there are
//! too many, those of the highest hash are dropped and the rate falls (SHARDS: C. Waldspurger et al.,
//! "Efficient MRC Construction with SHARDS", FAST 2015, §3.3, of fixed size). Flash, as the agent runs it:
//!
//! - *Written* pages, those that a critical write absorbed, leave last, when room is needed for later writes,
//!   the longest unwritten first: a read of one hits if fewer bytes of others were written since than there
//!   is room for. Their stack distances are measured. That reads keep a page a little longer is not in it, as
//!   what they keep depends on the capacity.
//! - *Read* pages come by critical reads that missed, the most benefit first, and do not displace each other:
//!   those that came first stay, as far as there is room beside the written ones.
//!
//! What a first use finds is what the run before left there: the trace is taken as going round and round.
//! Memory is bounded. No time is in it: a fetch is done before the next use.

mod stack;

use std::collections::BTreeMap;

use self::stack::{Stack, Time};
use headstart_units::request::{Direction, Range};

/// What is sampled together, and what a use is counted in: the page of flash.
const BLOCK_BYTES: u64 = 64 << 10;
use headstart_units::PAGE_BYTES;
const BLOCK_PAGES: usize = (BLOCK_BYTES / PAGE_BYTES) as usize;

/// Blocks in the sample at most: hit ratios within some 2 % of the exact ones (FAST 2015, §5: 8000 samples
/// give less than 1 %; pages of one block are alike).
const BLOCKS_MAX: usize = 4096;

/// Blocks of one request that are looked at, from its begin: 4 GiB.
const REQUEST_BLOCKS_MAX: u64 = 1 << 16;

/// Classes of distances an octave.
const STEPS: u64 = 16;

/// A block: its hash first, by which it is dropped.
type BlockId = (u32, u32, u64);

/// One page of a sampled block.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// Its place among the written pages, if it is one.
    time: Time,
    /// When it was first used, and first written critically, in uses of the sample; 0 if never.
    first: u32,
    first_write: u32,
    /// When it was first read critically, and the highest benefit of such a read, in octaves per byte; 0 if never.
    first_fetch: u32,
    benefit: u8,
    /// Reads while it was none of the written pages: not critical ones, critical ones.
    reads: [u32; 2],
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Reuse {
    /// Hashes below it are sampled.
    threshold: u64,
    blocks: BTreeMap<BlockId, [Page; BLOCK_PAGES]>,
    stack: Stack,
    uses: u32,
    /// Pages of reads by class of distance, for reads that are not critical and for those that are.
    distances: [BTreeMap<u64, f64>; 2],
    /// Pages written again by class of distance.
    rewrites: BTreeMap<u64, f64>,
    /// Bytes of critical writes, and how many of them do not go on where the rank's request before ended.
    stretches: (f64, f64),
}

impl Default for Reuse {
    fn default() -> Reuse {
        let (blocks, distances) = (BTreeMap::new(), Default::default());
        let (stack, rewrites, stretches) = (Stack::default(), BTreeMap::new(), (0.0, 0.0));
        Reuse { threshold: 1 << 32, blocks, stack, uses: 0, distances, rewrites, stretches }
    }
}

impl Reuse {
    /// Adds a request; `benefit_ns`: what flash saves, if the request is critical.
    pub(crate) fn add(&mut self, file: u32, direction: Direction, range: Range, benefit_ns: Option<u64>) {
        let blocks = range.offset / BLOCK_BYTES..=(range.end() - 1) / BLOCK_BYTES;
        for block in blocks.take(REQUEST_BLOCKS_MAX as usize) {
            let hash = hash(file, block);
            if u64::from(hash) < self.threshold {
                let part = range.intersection(Range::new(block * BLOCK_BYTES, BLOCK_BYTES));
                self.add_sampled((hash, file, block), direction, part, benefit_ns.map(|ns| octaves(ns, range.length)));
            }
        }
    }

    /// Tells of a critical write whether it goes on where the rank's request before ended.
    pub(crate) fn add_stretch(&mut self, length: u64, goes_on: bool) {
        self.stretches.0 += length as f64;
        self.stretches.1 += f64::from(!goes_on);
    }

    fn add_sampled(&mut self, id: BlockId, direction: Direction, part: Range, benefit: Option<u8>) {
        self.blocks.entry(id).or_default();
        if self.blocks.len() > BLOCKS_MAX {
            let ((hash, ..), mut dropped) = self.blocks.pop_last().expect("there are too many");
            dropped.iter_mut().for_each(|page| self.stack.remove(&mut page.time));
            self.threshold = hash.into();
        }
        let weight = 1.0 / self.rate();
        for page in part.offset % BLOCK_BYTES / PAGE_BYTES..=(part.end() - 1) % BLOCK_BYTES / PAGE_BYTES {
            if self.stack.is_full() {
                self.stack.compact(self.blocks.values_mut().flatten().map(|page| &mut page.time));
            }
            let Some(page) = self.blocks.get_mut(&id).map(|block| &mut block[page as usize]) else { return };
            self.uses = self.uses.saturating_add(1);
            if page.first == 0 {
                page.first = self.uses;
            }
            match (direction, benefit, page.time) {
                (Direction::Read, _, Some(_)) => {
                    let above = self.stack.above(page.time).expect("it is there");
                    let distance = step(f64::from(above + 1) * weight * PAGE_BYTES as f64);
                    *self.distances[usize::from(benefit.is_some())].entry(distance).or_default() += weight;
                }
                (Direction::Read, _, None) => {
                    let reads = &mut page.reads[usize::from(benefit.is_some())];
                    *reads = reads.saturating_add(1);
                    if let Some(benefit) = benefit {
                        page.first_fetch = if page.first_fetch == 0 { self.uses } else { page.first_fetch };
                        page.benefit = page.benefit.max(benefit);
                    }
                }
                (Direction::Write, Some(_), _) => {
                    if let Some(above) = self.stack.touch(&mut page.time) {
                        let distance = step(f64::from(above + 1) * weight * PAGE_BYTES as f64);
                        *self.rewrites.entry(distance).or_default() += weight;
                    }
                    page.first_write = if page.first_write == 0 { self.uses } else { page.first_write };
                }
                (Direction::Write, None, _) => self.stack.remove(&mut page.time),
            }
        }
    }

    fn rate(&self) -> f64 {
        self.threshold as f64 / (1u64 << 32) as f64
    }

    /// What reads find, once all requests were added.
    pub(crate) fn finish(mut self) -> Residence {
        let rate = self.rate();
        let mut residence = Residence { page_bytes: PAGE_BYTES as f64 / rate, ..Residence::default() };
        residence.rewrites = std::mem::take(&mut self.rewrites).into_iter().collect();
        residence.stretch_bytes = (self.stretches.1 > 0.0).then(|| self.stretches.0 / self.stretches.1);
        let (mut written, mut fetched) = (Vec::new(), Vec::new());
        for ((_, file, block), pages) in &mut self.blocks {
            residence.blocks.extend(WrittenBlock::of(pages, &self.stack));
            for (number, page) in pages.iter_mut().enumerate().filter(|(_, page)| page.first > 0) {
                let place = (*file, *block * BLOCK_BYTES + number as u64 * PAGE_BYTES);
                let reads = page.reads.map(|reads| f64::from(reads) / rate);
                if page.time.is_some() {
                    residence.written.push(place);
                    written.push((*page, place, reads));
                } else if page.first_fetch > 0 {
                    fetched.push((u8::MAX - page.benefit, page.first_fetch, place, reads));
                } else {
                    residence.never = [residence.never[0] + reads[0], residence.never[1] + reads[1]];
                }
            }
        }
        let rounds = self.go_round(&mut written, residence.page_bytes);
        residence.distances = self.distances.map(|distances| distances.into_iter().collect());
        for (distance, reads) in rounds {
            for (class, reads) in reads.into_iter().enumerate().filter(|(_, reads)| *reads > 0.0) {
                residence.round_distances[class].push((distance, reads));
            }
        }
        fetched.sort_unstable_by_key(|(benefit, first, place, _)| (*benefit, *first, *place));
        residence.fetched = fetched.into_iter().map(|(.., place, reads)| (place, reads)).collect();
        residence
    }

    /// The run goes round: what is read before its first write finds what the end of the run before left.
    /// Distances of those reads.
    fn go_round(&mut self, written: &mut [(Page, (u32, u64), [f64; 2])], page_bytes: f64) -> Vec<(u64, [f64; 2])> {
        self.stack.compact(written.iter_mut().map(|(page, ..)| &mut page.time));
        let mut events: Vec<(u32, bool, usize)> = Vec::new();
        for (number, (page, _, reads)) in written.iter().enumerate() {
            events.push((page.first_write, true, number));
            if reads[0] + reads[1] > 0.0 {
                events.push((page.first, false, number));
            }
        }
        events.sort_unstable();
        let mut rounds = Vec::new();
        for (_, is_write, number) in events {
            let (page, _, reads) = &mut written[number];
            if !is_write {
                let above = self.stack.above(page.time).expect("it is there");
                rounds.push((step(f64::from(above + 1) * page_bytes), *reads));
                continue;
            }
            if !self.stack.is_full() {
                self.stack.touch(&mut page.time);
            }
        }
        rounds
    }
}

/// What reads of a run find on flash, by capacity.
#[derive(Clone, Debug, Default)]
pub(crate) struct Residence {
    /// Bytes that a page of the sample stands for.
    page_bytes: f64,
    /// The written pages: file and offset.
    written: Vec<(u32, u64)>,
    /// Pages of writes to them again, by distance in bytes.
    rewrites: Vec<(u64, f64)>,
    /// Their blocks.
    blocks: Vec<WrittenBlock>,
    /// Mean length of what a rank writes without a gap, if it is known.
    stretch_bytes: Option<f64>,
    /// Reads of written pages, in pages, by distance in bytes; not critical ones, critical ones.
    distances: [Vec<(u64, f64)>; 2],
    /// The same of those before the first write, to what the run before left.
    round_distances: [Vec<(u64, f64)>; 2],
    /// The read pages in the order in which they come to flash, with their reads.
    fetched: Vec<((u32, u64), [f64; 2])>,
    /// Reads of pages that never come to flash.
    never: [f64; 2],
}

/// Flash, for S4D.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flash {
    /// How much there is.
    pub bytes: f64,
    /// Share of critical writes that it absorbs.
    pub absorbed: f64,
    /// Whether a run before has left there what it can hold.
    pub is_filled: bool,
}

/// What a capacity gives.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Hits {
    /// Share of the bytes of reads that are not critical, and of those that are.
    pub reads: [f64; 2],
    /// Bytes of the read pages that are on flash.
    pub fetched_bytes: f64,
}

impl Residence {
    /// Bytes of the written pages, each once, of those that `is_left` says, by file and offset, are not on
    /// flash anyway.
    pub(crate) fn written_bytes(&self, is_left: impl Fn(u32, u64) -> bool) -> f64 {
        self.written.iter().filter(|(file, offset)| is_left(*file, *offset)).count() as f64 * self.page_bytes
    }

    /// What reads of such pages find.
    pub(crate) fn hits(&self, flash: Flash, is_left: impl Fn(u32, u64) -> bool) -> Hits {
        let written_bytes = self.written_bytes(&is_left);
        let left = written_bytes / (self.written.len() as f64 * self.page_bytes).max(1.0);
        let (mut hit, mut all) = ([0.0; 2], self.never);
        for class in 0..2 {
            let rounds = self.round_distances[class].iter().map(|found| (found, flash.is_filled));
            for ((distance, reads), may_hit) in self.distances[class].iter().map(|found| (found, true)).chain(rounds) {
                all[class] += left * reads;
                // What is not absorbed takes no room, and is not found.
                let fits = *distance as f64 * left * flash.absorbed <= flash.bytes;
                hit[class] += if fits && may_hit { left * reads * flash.absorbed } else { 0.0 };
            }
        }
        let (free, mut taken) = ((flash.bytes - written_bytes * flash.absorbed).max(0.0), 0.0);
        for ((file, offset), reads) in &self.fetched {
            if !is_left(*file, *offset) {
                continue;
            }
            let fits = taken + self.page_bytes <= free;
            taken += if fits { self.page_bytes } else { 0.0 };
            // On empty flash the first critical read misses.
            let missed = if flash.is_filled { [0.0; 2] } else { [0.0, self.page_bytes / PAGE_BYTES as f64] };
            for class in 0..2 {
                all[class] += reads[class];
                hit[class] += if fits { (reads[class] - missed[class]).max(0.0) } else { 0.0 };
            }
        }
        let share = |class: usize| if all[class] > 0.0 { hit[class] / all[class] } else { 0.0 };
        Hits { reads: [share(0), share(1)], fetched_bytes: taken }
    }

    /// Mean length of the pieces that written pages form while so many bytes of them are on flash, as far as
    /// blocks show it; none if nothing was written.
    pub(crate) fn run_bytes(&self, flash_bytes: f64) -> Option<f64> {
        let bytes = (self.written.len() as u64 * PAGE_BYTES) as f64;
        // A whole block goes on in its neighbour (assumed), unless single requests are that long: then they end it.
        let whole = self.stretch_bytes.filter(|stretch| *stretch >= BLOCK_BYTES as f64).unwrap_or(LONG_RUN_BYTES);
        let pages = (flash_bytes / self.page_bytes) as u32;
        let runs: f64 = self.blocks.iter().map(|block| block.runs(pages).unwrap_or(BLOCK_BYTES as f64 / whole)).sum();
        (bytes > 0.0).then(|| bytes / runs.max(bytes / LONG_RUN_BYTES))
    }

    /// Bytes that are written back and then written again, if flash holds so many dirty. Write-back in the
    /// order of addresses comes by a page at any time of a round, so that pages stay dirty for up to twice
    /// the mean, in which as much is written as flash holds.
    pub(crate) fn written_again_bytes(&self, flash_bytes: f64) -> f64 {
        let round = (2.0 * flash_bytes).max(1.0);
        let passed = |distance: u64| (distance as f64 / round).min(1.0);
        self.rewrites.iter().map(|(distance, pages)| pages * passed(*distance)).sum::<f64>() * PAGE_BYTES as f64
    }

    /// Bytes from the first to the last written page of each file: what write-back in the order of addresses
    /// passes over.
    pub(crate) fn span_bytes(&self) -> f64 {
        let mut spans: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for (file, offset) in &self.written {
            let span = spans.entry(*file).or_insert((*offset, *offset));
            *span = (span.0.min(*offset), span.1.max(*offset));
        }
        spans.values().map(|(first, last)| (last - first + PAGE_BYTES) as f64).sum()
    }
}

/// A block with written pages.
#[derive(Clone, Debug)]
struct WrittenBlock {
    /// Written pages whose predecessor in the block is not.
    begins: u32,
    is_whole: bool,
    /// Of neighbours, both written: how many other pages were written between the two.
    apart: Vec<u32>,
}

impl WrittenBlock {
    fn of(pages: &[Page; BLOCK_PAGES], stack: &Stack) -> Option<WrittenBlock> {
        let above: Vec<Option<u32>> = pages.iter().map(|page| stack.above(page.time)).collect();
        let begins =
            (0..BLOCK_PAGES).filter(|page| above[*page].is_some() && (*page == 0 || above[page - 1].is_none()));
        let apart = above.windows(2).filter_map(|pair| Some(pair[0]?.abs_diff(pair[1]?))).collect();
        let block = WrittenBlock { begins: begins.count() as u32, is_whole: above.iter().all(Option::is_some), apart };
        (block.begins > 0).then_some(block)
    }

    /// Pieces while so many pages of the sample are on flash; none if it is whole.
    fn runs(&self, pages: u32) -> Option<f64> {
        let cuts = self.apart.iter().filter(|apart| **apart > pages).count() as u32;
        (!self.is_whole || cuts > 0).then(|| f64::from(self.begins + cuts))
    }
}

/// The longest piece that write-back copies at once.
const LONG_RUN_BYTES: f64 = (1 << 20) as f64;

fn hash(file: u32, block: u64) -> u32 {
    let mut state = (u64::from(file) << 44) ^ block;
    (headstart_units::chance::splitmix64(&mut state) >> 32) as u32
}

/// A distance in classes, as the least of its class.
fn step(bytes: f64) -> u64 {
    let bytes = bytes.round() as u64;
    let width = (1u64 << bytes.max(1).ilog2()).div_ceil(STEPS).max(1);
    bytes / width * width
}

/// Benefit for each byte in half octaves, above zero.
fn octaves(benefit_ns: u64, length: u64) -> u8 {
    (((benefit_ns.max(1) as f64 / length.max(1) as f64).log2() * 2.0) as i64).clamp(-100, 100) as u8 ^ 0x80
}

#[cfg(test)]
mod tests;
