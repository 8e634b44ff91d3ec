//! A map while a checkpoint of it is made: it says what it said when that began.

use super::LogMap;
use crate::piece::{Content, Piece};
use crate::snapshot::Snapshot;
use headstart_units::request::Range;

impl LogMap {
    /// From now on the map remembers what it says, for a checkpoint of all records below `start_seq`.
    pub fn begin_snapshot(&mut self, start_seq: u64) {
        self.snapshot = Some(Box::new(Snapshot::new(start_seq)));
    }

    /// What lies before `offset` is not asked for again.
    pub fn pass_snapshot(&mut self, offset: u64) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.pass(offset);
        }
    }

    /// Nothing is remembered any more.
    pub fn end_snapshot(&mut self) {
        self.snapshot = None;
    }

    /// What the map said when the snapshot began, or says if there is none: pieces that end behind `offset`,
    /// whole, in address order, with the checksums of their blocks.
    pub fn snapshot_from(&self, offset: u64) -> impl Iterator<Item = (Piece, &[u32])> + '_ {
        let start_seq = self.snapshot.as_ref().map_or(u64::MAX, |snapshot| snapshot.start_seq());
        let held = self.from(offset).filter(move |piece| piece.seq < start_seq);
        let mut held = held.map(|piece| (piece, self.crcs_of(&piece))).peekable();
        let mut ended = self.snapshot.iter().flat_map(move |snapshot| snapshot.ended(offset)).peekable();
        std::iter::from_fn(move || match (held.peek(), ended.peek()) {
            (Some((one, _)), Some((other, _))) if one.range.offset < other.range.offset => held.next(),
            (_, Some(_)) => ended.next(),
            (_, None) => held.next(),
        })
    }

    /// A record takes a range out.
    pub(super) fn keep_for_snapshot(&mut self, range: Range) {
        let Some(snapshot) = &self.snapshot else { return };
        let (start_seq, ahead) = (snapshot.start_seq(), snapshot.ahead(range));
        for piece in self.pieces(ahead).into_iter().filter(|piece| piece.seq < start_seq) {
            let crcs = self.crcs_of(&piece).to_vec();
            self.snapshot.as_mut().expect("there is one").keep(piece, crcs);
        }
    }

    fn crcs_of(&self, piece: &Piece) -> &[u32] {
        match piece.content {
            Content::Payload { place } => self.crcs(piece.range, place),
            Content::Zeros | Content::Damaged => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Encoder;
    use crate::record::blocks_of;
    use crate::ring::Ring;
    use headstart_units::BLOCK_BYTES;
    use headstart_units::chance::Random;
    use headstart_units::ranges::Ranges;

    /// A log that is written at random: the map of its records.
    struct Log {
        random: Random,
        map: LogMap,
        seq: u64,
    }

    impl Log {
        fn range(&mut self) -> Range {
            Range::new(self.random.below(40_000) * 512, (1 + self.random.below(40)) * 512)
        }

        fn step(&mut self) {
            let (range, seq) = (self.range(), self.seq);
            match self.random.below(12) {
                0 => self.map.put_placeless(range, Content::Zeros, seq),
                1 => self.map.put_placeless(range, Content::Damaged, seq),
                2 => self.map.carve_up_to(range, seq - self.random.below(seq.min(4000)), seq),
                3 => drop(self.map.set_clean(range, seq - self.random.below(seq.min(4000)))),
                _ => return self.write(range),
            }
            self.seq += 1;
        }

        /// Everything is durable at once, and a place is used again as soon as nothing of it is live.
        fn write(&mut self, range: Range) {
            let blocks = blocks_of(range) as u32;
            self.map.ring.release(u64::MAX, u64::MAX);
            if self.map.ring.free_blocks() < 1 + blocks + self.map.ring.blocks_to_end().min(blocks) {
                // The oldest are written back.
                let oldest = self.map.ring.oldest().expect("the ring is full").seq;
                self.map.carve_up_to(Range::new(0, 1 << 40), oldest, self.seq);
                return;
            }
            if self.map.ring.blocks_to_end() < 1 + blocks {
                self.map.ring.append(self.seq, self.map.ring.blocks_to_end());
                self.seq += 1;
            }
            let block = self.map.ring.append(self.seq, 1 + blocks);
            let crcs: Vec<u32> = (0..blocks).map(|_| self.random.next() as u32).collect();
            self.map.put_payload(range, block + 1, &crcs, self.seq);
            self.seq += 1;
        }
    }

    fn encode(map: &LogMap, skip: &Ranges<u64>) -> Vec<u8> {
        let mut encoder = Encoder::new(skip.clone(), &map.heads);
        let bytes = encoder.chunk(map, usize::MAX / 2);
        assert!(encoder.has_ended());
        bytes
    }

    #[test]
    fn a_checkpoint_says_what_the_map_said_when_it_began_whatever_comes_meanwhile() {
        let seed = std::env::var("SEED").ok().map_or(6, |text| text.parse().expect("SEED is a number"));
        println!("SEED={seed}");
        let (mut slices, mut kept_most) = (0, 0);
        for case in 0..40 {
            let map = LogMap::new(Ring::new(6000, 0));
            let mut log = Log { random: Random(seed + case), map, seq: 1 };
            (0..2000).for_each(|_| log.step());
            let mut skip = Ranges::default();
            for _ in 0..log.random.below(2) * 20 {
                let range = log.range();
                skip.raise(range, log.seq - log.random.below(log.seq.min(2000)));
            }
            let expected = encode(&log.map, &skip);
            let steps = log.random.below(200);
            log.map.begin_snapshot(log.seq);
            let mut encoder = Encoder::new(skip, &log.map.heads);
            let mut bytes = Vec::new();
            while !encoder.has_ended() {
                bytes.extend(encoder.chunk(&log.map, BLOCK_BYTES as usize));
                log.map.pass_snapshot(encoder.cursor());
                slices += 1;
                (0..steps).for_each(|_| log.step());
                kept_most = kept_most.max(log.map.snapshot.as_ref().unwrap().kept());
            }
            assert!(bytes == expected, "case {case}");
        }
        assert!(slices > 200 && kept_most > 100, "{slices} slices, {kept_most} pieces kept");
    }
}
