//! Whether processes go through a file together, each with the next piece: what no process sees of its own
//! requests, which leave out what the others use. Disks serve such requests as one stream, whatever distance
//! each process has to its last one.
//!
//! Of the granules used last it is known who touched them and which of their blocks, so that processes may be
//! far apart: a granule that is touched whole, by more than one process, counts up; one that makes room for
//! another before, or that one process has for its own, counts down. Where pieces leave gaps some blocks are
//! never touched.
//!
//! Threads and processes share one of these for a file, without order: a lost count or block costs a wrong
//! guess, no more.

use headstart_units::GRANULE_BYTES;
use headstart_units::atomics::{AtomicU32, AtomicU64, Ordering};
use headstart_units::request::{Direction, Range};

/// Each has a byte, anywhere in it, that stands for it: what leaves gaps of any size and distance out misses
/// some of them. Chosen on HPIO's gaps of 512 bytes to 4 KiB (`paper` S11 and S13).
const BLOCK_BYTES: u64 = 8 << 10;
const BLOCKS: u64 = GRANULE_BYTES / BLOCK_BYTES;
const WORDS: usize = (BLOCKS / 64) as usize;
/// Granules that are known, 256 MiB: processes may be so far apart (assumed; ranks of S11 come to be a thousand
/// rounds apart).
const GRANULES: usize = if cfg!(loom) { 1 } else { 256 };
/// The most that a score comes to (assumed).
const SCORE_MAX: u32 = 8;
/// That from which on requests count as interleaved (assumed; two of 4 MiB instead of 1 cost tiles 17 %).
const SCORE_INTERLEAVED: u32 = 2;
/// Of [`Granule::who`]: more than one process.
const SEVERAL: u64 = u64::MAX;

/// Of one file: the granules that requests used last, and how many were touched whole by several processes.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Interleaving {
    /// By [`Direction`].
    scores: [AtomicU32; 2],
    /// Each at its number modulo the length.
    granules: [Granule; GRANULES],
}

#[repr(C)]
#[derive(Debug, Default)]
struct Granule {
    /// Its number and direction, see [`Granule::name`]; zero: none.
    name: AtomicU64,
    /// Who touched it, by any number plus 1, or [`SEVERAL`].
    who: AtomicU64,
    /// A bit for each block that was touched.
    touched: [AtomicU64; WORDS],
}

impl Default for Interleaving {
    fn default() -> Interleaving {
        let scores = std::array::from_fn(|_| AtomicU32::new(0));
        Interleaving { scores, granules: std::array::from_fn(|_| Granule::default()) }
    }
}

/// The byte that stands for a block.
fn byte_of(block: u64) -> u64 {
    block * BLOCK_BYTES + (block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % BLOCK_BYTES
}

impl Granule {
    fn name(number: u64, direction: Direction) -> u64 {
        (number << 1 | direction as u64) + 1
    }

    fn is_whole(&self) -> bool {
        self.touched.iter().all(|word| word.load(Ordering::Relaxed) == u64::MAX)
    }

    /// Becomes another one.
    fn begin(&self, name: u64) {
        self.who.store(0, Ordering::Relaxed);
        self.touched.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        self.name.store(name, Ordering::Relaxed);
    }

    /// Some of its blocks are touched; whether that makes it whole.
    fn touch(&self, blocks: std::ops::Range<u64>, who: u32) -> bool {
        let who = u64::from(who) + 1;
        match self.who.load(Ordering::Relaxed) {
            0 => self.who.store(who, Ordering::Relaxed),
            known if known == who || known == SEVERAL => {}
            _ => self.who.store(SEVERAL, Ordering::Relaxed),
        }
        let mut is_new = false;
        for (word, begin) in self.touched.iter().zip((0..).step_by(64)) {
            let (from, to) = (blocks.start.max(begin), blocks.end.min(begin + 64));
            if from < to {
                let bits = u64::MAX >> (64 - (to - from)) << (from - begin);
                is_new |= word.fetch_or(bits, Ordering::Relaxed) & bits != bits;
            }
        }
        is_new && self.is_whole()
    }
}

impl Interleaving {
    /// Adds a request of a process, by any number of it; whether the file's requests of this direction are
    /// interleaved by now.
    // The model checker has one granule.
    #[cfg_attr(loom, allow(clippy::modulo_one))]
    pub fn add(&self, direction: Direction, range: Range, who: u32) -> bool {
        let score = &self.scores[direction as usize];
        // Long ones have neighbours enough of their own.
        if range.length > GRANULE_BYTES {
            return score.load(Ordering::Relaxed) >= SCORE_INTERLEAVED;
        }
        let (mut up, mut down) = (0, 0);
        let mut rest = range;
        while !rest.is_empty() {
            let number = rest.offset / GRANULE_BYTES;
            let part = rest.intersection(Range::new(number * GRANULE_BYTES, GRANULE_BYTES));
            rest = Range::between(part.end(), rest.end());
            let granule = &self.granules[number as usize % GRANULES];
            let name = Granule::name(number, direction);
            let before = granule.name.load(Ordering::Relaxed);
            if before != name {
                down += u32::from(before != 0 && !granule.is_whole());
                granule.begin(name);
            }
            // The first block whose byte lies there or behind.
            let block = |offset: u64| {
                let block = offset / BLOCK_BYTES;
                block + u64::from(offset > byte_of(block)) - number * BLOCKS
            };
            if granule.touch(block(part.offset)..block(part.end()), who) {
                let several = granule.who.load(Ordering::Relaxed) == SEVERAL;
                (up, down) = (up + u32::from(several), down + u32::from(!several));
            }
        }
        let before = score.load(Ordering::Relaxed);
        let after = (before + up).saturating_sub(down).min(SCORE_MAX);
        if after != before {
            score.store(after, Ordering::Relaxed);
        }
        after >= SCORE_INTERLEAVED
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use headstart_units::chance::Random;

    const SIZE: u64 = 8 << 10;

    /// How many of `rounds` rounds of 16 processes' writes count as interleaved, where each begins at
    /// `place(round, process)`. Every other process is `apart` rounds behind.
    fn interleaved(rounds: u64, apart: u64, seed: u64, mut place: impl FnMut(u64, u64, &mut Random) -> u64) -> usize {
        let (file, mut random) = (Interleaving::default(), Random(seed));
        let mut count = 0;
        for round in 0..rounds + apart {
            let mut order: Vec<u64> = (0..16).collect();
            (1..16).rev().for_each(|last| order.swap(last, random.below(last as u64 + 1) as usize));
            for process in order {
                let Some(round) = round.checked_sub(process % 2 * apart).filter(|round| *round < rounds) else {
                    continue;
                };
                let offset = place(round, process, &mut random);
                count += usize::from(file.add(Direction::Write, Range::new(offset, SIZE), 4000 + process as u32));
            }
        }
        count
    }

    #[test]
    fn processes_that_write_piece_by_piece_are_interleaved_in_whatever_order_they_come_and_far_apart() {
        for seed in 0..20 {
            let count = |apart| interleaved(2000, apart, seed, |round, process, _| (round * 16 + process) * SIZE);
            let [together, apart, farther] = [0, 100, 400].map(count);
            assert!(together > 31_000, "seed {seed}: {together} of 32,000");
            assert!(apart > 30_000 && farther > 25_000, "seed {seed}: {apart}, {farther} of 32,000");
        }
    }

    #[test]
    fn pieces_with_gaps_parts_of_their_own_and_random_ones_are_not() {
        for seed in 0..20 {
            let gaps = |gap| interleaved(2000, 0, seed, |round, process, _| (round * 16 + process) * (SIZE + gap));
            let parts = interleaved(2000, 0, seed, |round, process, _| (process * 2000 + round) * SIZE);
            let random = interleaved(2000, 0, seed, |_, _, random| random.below(64_000) * SIZE);
            assert_eq!((gaps(512), gaps(1024), gaps(4096), random), (0, 0, 0, 0), "seed {seed}");
            assert!(parts < 100, "seed {seed}: {parts} where one's part ends and the next one's begins");
        }
    }

    #[test]
    fn reads_are_told_from_writes_and_an_end_of_the_stream_is_noticed() {
        let file = Interleaving::default();
        let at = |direction, block: u64, who| file.add(direction, Range::new(block * SIZE, SIZE), who);
        let writes: Vec<bool> = (0..600).map(|block| at(Direction::Write, block, block as u32 % 4)).collect();
        assert_eq!(writes.iter().position(|interleaved| *interleaved), Some(255), "after two granules");
        assert!(writes[255..].iter().all(|interleaved| *interleaved));
        assert!((0..600).all(|block| !at(Direction::Read, 2 * block, block as u32 % 4)), "reads, with gaps");
        let after: Vec<bool> = (0..40_000).map(|block| at(Direction::Write, 1000 + 3 * block, 1)).collect();
        assert!(after[0] && !after[39_999]);
    }

    #[test]
    fn requests_of_any_size_and_place_touch_the_blocks_whose_begin_they_hold() {
        let granule = Granule::default();
        assert!(!granule.touch(0..63, 1) && !granule.touch(64..128, 1), "one is missing");
        assert!(granule.touch(62..65, 2) && !granule.touch(0..128, 3), "whole once");
        // Pieces that end anywhere, none left out.
        let file = Interleaving::default();
        let count =
            (0..6000).filter(|piece| file.add(Direction::Read, Range::new(piece * 5000, 5000), *piece as u32 % 16));
        assert!(count.count() > 5000);
        assert!(file.add(Direction::Read, Range::new(0, 64 << 20), 0), "longer ones are as those before");
        assert!(
            !file.add(Direction::Read, Range::new(u64::MAX - 10, 10), 0) || file.scores[0].load(Ordering::Relaxed) > 1
        );
    }
}
