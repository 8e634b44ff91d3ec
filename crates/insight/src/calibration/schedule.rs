//! Which loads are measured of a tier, and how long each.
//!
//! The seconds are what a disk needs for figures good to a few percent; a caller with less or more time
//! stretches all alike.

use super::load::{BLOCK_BYTES, Load, Pattern};
use headstart_units::MIB;
use headstart_units::request::Direction;

/// Request sizes: from a block to where a disk's rate is nearly its peak.
pub const SIZES: [u64; 7] = [BLOCK_BYTES, 16 << 10, 64 << 10, 256 << 10, MIB, 4 * MIB, 16 * MIB];

/// Sizes that all ranks use at once, for effective rates.
const RANK_SIZES: [u64; 6] = [BLOCK_BYTES, 16 << 10, 64 << 10, 256 << 10, MIB, 4 * MIB];

/// Sizes to which a seek is much: of requests with gaps between them, which tell what joins neighbours from
/// what serves all that is nearby, and of those of all ranks together.
const SHORT_SIZES: [u64; 3] = [BLOCK_BYTES, 16 << 10, 64 << 10];

/// Bytes of short pieces that are written back one behind the other; assumed: two blocks, as HPIO's regions of 8 KiB.
pub const PIECE_BYTES: u64 = 2 * BLOCK_BYTES;

/// From one to the next with a block left out between them.
pub(crate) const PIECE_STRIDE_BYTES: u64 = 3 * BLOCK_BYTES;

/// What a leap leaves out instead: more than passes below a disk's head during a command (assumed: 0.3 ms at 200 MB/s).
pub(crate) const LEAP_BYTES: u32 = 64 << 10;

/// From one to the next then.
pub(crate) const LEAP_STRIDE_BYTES: u64 = PIECE_BYTES + LEAP_BYTES as u64;

/// Requests under way.
pub const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// Of write-back (`copies_max`).
const COPIES: u32 = 256;

/// Bytes under way at most, or so the memory.
const UNDER_WAY_BYTES_MAX: u64 = 64 * MIB;

/// Bytes of a request of a stream.
const STREAM_BYTES: u64 = MIB;

/// The smaller span of LiU's Fig. 2; the larger is all that is measured.
pub const NEAR_SPAN_BYTES: u64 = 1_000_000_000;

/// The shortest span with which distances and sizes make sense.
pub const SPAN_BYTES_MIN: u64 = 64 * MIB;

/// One of the two tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Disks.
    Slow,
    /// Flash.
    Fast,
}

/// A load and for how many seconds it is measured when time is not short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planned {
    /// The load.
    pub load: Load,
    /// Seconds.
    pub seconds: f64,
}

/// Every load of a tier of `span_bytes`, in the order in which they are measured.
pub fn loads(tier: Tier, span_bytes: u64, ranks: u32, writes: bool) -> Vec<Planned> {
    assert!(span_bytes >= SPAN_BYTES_MIN && ranks > 0, "there is room to measure, and someone at work");
    let mut planned = Vec::new();
    let mut add = |pattern, direction, size_bytes: u64, depth: u32, span_bytes: u64, seconds| {
        let under_way = size_bytes * u64::from(depth);
        if under_way <= UNDER_WAY_BYTES_MAX.min(span_bytes / 2) || (depth == 1 && size_bytes <= span_bytes / 4) {
            planned.push(Planned { load: Load { pattern, direction, size_bytes, depth, span_bytes }, seconds });
        }
    };
    let is_slow = tier == Tier::Slow;
    if is_slow {
        add(Pattern::Again, Direction::Read, BLOCK_BYTES, 1, span_bytes, 1.0);
        if span_bytes > 2 * NEAR_SPAN_BYTES {
            add(Pattern::Random, Direction::Read, BLOCK_BYTES, 1, NEAR_SPAN_BYTES, 8.0);
        }
        for distance_bytes in distances(span_bytes) {
            add(Pattern::Seek { distance_bytes }, Direction::Read, BLOCK_BYTES, 1, span_bytes, 2.0);
        }
    }
    let factor = if is_slow { 1.0 } else { 0.4 };
    let depths = depths(ranks);
    for direction in [Direction::Read, Direction::Write] {
        if direction == Direction::Write && !writes {
            continue;
        }
        let random = |size_bytes, depth| match (direction, depth) {
            // The distribution of Fig. 2, and what most figures rest on.
            (Direction::Read, 1) if size_bytes == BLOCK_BYTES => 28.0,
            (Direction::Write, 1) if size_bytes == BLOCK_BYTES => 4.0,
            (_, 1) => 2.0 + (size_bytes / MIB) as f64 * 0.25,
            (_, depth) if depth == ranks => 1.6,
            _ => 0.7,
        };
        for size_bytes in SIZES {
            for &depth in &depths {
                // Writes wear flash and take the longest: their depths are those that a model asks for.
                if direction == Direction::Read || depth == 1 || depth == ranks || size_bytes == BLOCK_BYTES {
                    add(Pattern::Random, direction, size_bytes, depth, span_bytes, random(size_bytes, depth) * factor);
                }
            }
        }
        for &depth in &depths {
            let seconds = if depth == 1 { 3.0 } else { 0.8 };
            add(Pattern::Sequential, direction, STREAM_BYTES, depth, span_bytes, seconds * factor);
        }
        for size_bytes in RANK_SIZES {
            add(Pattern::Parts, direction, size_bytes, ranks, span_bytes, 1.2 * factor);
        }
    }
    for direction in [Direction::Read, Direction::Write].into_iter().take(1 + usize::from(writes)) {
        // Pieces with gaps keep caches busy for long afterwards.
        for pattern in [Pattern::Sequential, Pattern::Gapped] {
            for size_bytes in SHORT_SIZES {
                add(pattern, direction, size_bytes, ranks, span_bytes, 1.2 * factor);
            }
        }
    }
    if is_slow && writes {
        for stride_bytes in [PIECE_STRIDE_BYTES, LEAP_STRIDE_BYTES] {
            // Long enough for what servers hold in memory to be no more than a part of it.
            add(Pattern::Pieces { stride_bytes }, Direction::Write, PIECE_BYTES, COPIES, span_bytes, 20.0);
        }
    }
    planned
}

/// The depths, that of the ranks among them.
fn depths(ranks: u32) -> Vec<u32> {
    let mut depths = DEPTHS.to_vec();
    depths.push(ranks);
    depths.sort_unstable();
    depths.dedup();
    depths
}

/// Powers of two from 1 MiB on, and nearly the whole span.
fn distances(span_bytes: u64) -> Vec<u64> {
    let longest = span_bytes / 100 * 97 / BLOCK_BYTES * BLOCK_BYTES;
    let mut distances: Vec<u64> = std::iter::successors(Some(MIB), |distance| Some(distance * 2))
        .take_while(|distance| *distance < longest / 4 * 3)
        .collect();
    distances.push(longest);
    distances
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_distributions_all_depths_and_the_ranks_are_measured_and_nothing_twice() {
        for span_bytes in [SPAN_BYTES_MIN, 10_000_000_000] {
            for tier in [Tier::Slow, Tier::Fast] {
                let planned = loads(tier, span_bytes, 14, true);
                let has = |pattern, direction, size_bytes, depth| {
                    planned.iter().any(|planned| {
                        let Load { pattern: its, direction: way, size_bytes: size, depth: lanes, .. } = planned.load;
                        (its, way, size, lanes) == (pattern, direction, size_bytes, depth)
                    })
                };
                for depth in [1, 2, 4, 8, 14, 16, 32] {
                    assert!(has(Pattern::Random, Direction::Read, BLOCK_BYTES, depth));
                    assert!(has(Pattern::Random, Direction::Write, BLOCK_BYTES, depth));
                    assert!(has(Pattern::Sequential, Direction::Read, MIB, depth));
                }
                for (index, one) in planned.iter().enumerate() {
                    assert!(planned[index + 1..].iter().all(|other| other.load != one.load), "{one:?} twice");
                    let Load { size_bytes, depth, span_bytes: span, .. } = one.load;
                    assert!(size_bytes * u64::from(depth) <= 64 * MIB && size_bytes <= span && span <= span_bytes);
                }
                let near = planned.iter().any(|planned| planned.load.span_bytes == NEAR_SPAN_BYTES);
                assert_eq!(near, tier == Tier::Slow && span_bytes > 2 * NEAR_SPAN_BYTES);
            }
        }
    }

    #[test]
    fn without_writes_there_are_none_and_distances_rise_to_the_end_of_the_span() {
        let planned = loads(Tier::Slow, 10_000_000_000, 16, false);
        assert!(planned.iter().all(|planned| planned.load.direction == Direction::Read));
        let distances = distances(10_000_000_000);
        assert!(distances.windows(2).all(|pair| pair[0] < pair[1]) && distances[0] == MIB);
        assert!(*distances.last().unwrap() > 9_600_000_000 && distances.len() < 20);
    }
}
