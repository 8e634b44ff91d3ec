//! Where the next request of a load goes.

use headstart_units::chance::splitmix64;

use super::load::{BLOCK_BYTES, Load, Pattern};

/// Pauses before the second read of a seek: multiples of the golden ratio modulo two turns of a 7200 rpm
/// spindle, so that the phases at which the arm arrives spread evenly, whatever the spindle's speed.
const PAUSE_SPAN_NS: u64 = 16_666_667;
const PAUSE_STEP_NS: u64 = 10_300_566;

/// One request to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// First byte.
    pub offset: u64,
    /// To wait before it is issued.
    pub pause_ns: u64,
    /// Whether its latency counts.
    pub counts: bool,
}

/// The requests of one load, for all its lanes.
#[derive(Clone, Debug)]
pub struct Offsets {
    load: Load,
    random: u64,
    position: u64,
    lanes: Vec<u64>,
    /// Of the patterns of two steps: where the first went, and how many pairs there were.
    first: Option<u64>,
    pairs: u64,
}

impl Offsets {
    /// The same seed gives the same requests.
    pub fn of(load: Load, seed: u64) -> Offsets {
        assert!(load.size_bytes > 0 && load.span_bytes >= load.size_bytes, "a load's span holds its requests");
        let mut offsets = Offsets {
            load,
            random: seed ^ load.size_bytes ^ u64::from(load.depth) << 40,
            position: 0,
            lanes: vec![0; load.depth as usize],
            first: None,
            pairs: 0,
        };
        // A stream begins somewhere in the first half, so that no cache knows it from the one before.
        offsets.position = offsets.below(load.span_bytes / 2 / load.size_bytes + 1) * load.size_bytes;
        offsets
    }

    /// splitmix64, scaled to `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        let drawn = splitmix64(&mut self.random);
        ((u128::from(drawn) * u128::from(bound)) >> 64) as u64
    }

    /// The next request of a lane.
    pub fn next(&mut self, lane: usize) -> Step {
        let Load { pattern, size_bytes, span_bytes, .. } = self.load;
        let step = |offset| Step { offset, pause_ns: 0, counts: true };
        match pattern {
            Pattern::Random => step(self.below(span_bytes / size_bytes) * size_bytes),
            Pattern::Sequential => step(self.stream(size_bytes)),
            Pattern::Pieces { stride_bytes } => step(self.stream(stride_bytes)),
            Pattern::Parts => step(self.part(lane, size_bytes)),
            Pattern::Gapped => step(self.part(lane, size_bytes + BLOCK_BYTES)),
            Pattern::Seek { distance_bytes } => self.pair(distance_bytes, PAUSE_STEP_NS),
            Pattern::Again => self.pair(0, 0),
        }
    }

    /// The next place of the one stream.
    fn stream(&mut self, stride: u64) -> u64 {
        if self.position + self.load.size_bytes > self.load.span_bytes {
            self.position = 0;
        }
        let offset = self.position;
        self.position += stride;
        offset
    }

    /// The next place of a lane's own stream.
    fn part(&mut self, lane: usize, stride: u64) -> u64 {
        let Load { size_bytes, span_bytes, depth, .. } = self.load;
        // An odd number of requests each: over a power of two of servers, ranks that keep step do not convoy.
        let requests = ((span_bytes / u64::from(depth) / stride).max(2) - 1) | 1;
        let index = self.lanes[lane];
        self.lanes[lane] = (index + 1) % requests;
        (lane as u64 * requests + index) * stride % (span_bytes - size_bytes + 1) / stride * stride
    }

    fn pair(&mut self, distance: u64, pause_step_ns: u64) -> Step {
        match self.first.take() {
            None => {
                let room = self.load.span_bytes - self.load.size_bytes - distance;
                let offset = self.below(room / BLOCK_BYTES + 1) * BLOCK_BYTES;
                self.first = Some(offset);
                Step { offset, pause_ns: 0, counts: false }
            }
            Some(first) => {
                self.pairs += 1;
                let pause_ns = self.pairs * pause_step_ns % PAUSE_SPAN_NS;
                Step { offset: first + distance, pause_ns, counts: true }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_units::MIB;
    use headstart_units::request::Direction;

    fn load(pattern: Pattern, size_bytes: u64, depth: u32) -> Load {
        Load { pattern, direction: Direction::Read, size_bytes, depth, span_bytes: 64 * MIB }
    }

    #[test]
    fn every_request_lies_within_the_span_and_at_a_block() {
        let seek = Pattern::Seek { distance_bytes: 63 * MIB };
        let pieces = Pattern::Pieces { stride_bytes: 3 * BLOCK_BYTES };
        use Pattern::{Again, Gapped, Parts, Random, Sequential};
        for pattern in [Random, Sequential, Parts, Gapped, pieces, seek, Again] {
            for size_bytes in [BLOCK_BYTES, MIB] {
                for depth in [1, 7, 33] {
                    let load = load(pattern, size_bytes, depth);
                    let mut offsets = Offsets::of(load, 3);
                    for index in 0..2000 {
                        let step = offsets.next(index % depth as usize);
                        assert!(step.offset + size_bytes <= 64 * MIB, "{load:?}: {step:?}");
                        assert!(step.offset.is_multiple_of(BLOCK_BYTES), "{load:?}: {step:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn of_a_pair_only_the_second_counts_and_lies_the_distance_away() {
        let mut offsets = Offsets::of(load(Pattern::Seek { distance_bytes: MIB }, BLOCK_BYTES, 1), 1);
        for _ in 0..10 {
            let (first, second) = (offsets.next(0), offsets.next(0));
            assert!(!first.counts && second.counts);
            assert_eq!(second.offset - first.offset, MIB);
        }
    }

    #[test]
    fn a_stream_goes_on_where_it_was_and_the_parts_of_lanes_are_their_own() {
        let mut offsets = Offsets::of(load(Pattern::Sequential, MIB, 4), 1);
        let (first, second) = (offsets.next(0), offsets.next(3));
        assert_eq!(second.offset - first.offset, MIB);
        let mut offsets = Offsets::of(load(Pattern::Pieces { stride_bytes: 3 * BLOCK_BYTES }, BLOCK_BYTES, 4), 1);
        let (first, second) = (offsets.next(2), offsets.next(1));
        assert_eq!(second.offset - first.offset, 3 * BLOCK_BYTES);
        let mut offsets = Offsets::of(load(Pattern::Parts, MIB, 4), 1);
        let starts: Vec<u64> = (0..4).map(|lane| offsets.next(lane).offset).collect();
        assert_eq!(starts, [0, 15 * MIB, 30 * MIB, 45 * MIB]);
        assert_eq!(offsets.next(1).offset, 16 * MIB);
        let mut offsets = Offsets::of(load(Pattern::Gapped, BLOCK_BYTES, 4), 1);
        let blocks: Vec<u64> = (0..4).map(|index| offsets.next(index % 2).offset / BLOCK_BYTES).collect();
        assert_eq!(blocks, [0, 4094, 2, 4096], "every other block of 16 MiB, less one");
    }
}
