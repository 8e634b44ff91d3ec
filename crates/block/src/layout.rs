//! Where everything lies on a slice of flash, in blocks of 4 KiB.
//!
//! ```text
//! 0  superblock A | 1  superblock B | guard copy, 2 x guard_blocks | checkpoint area A | area B | log ring ... | head slots | staging
//! ```
//!
//! The places are functions of the slice's size and of the guard's; the superblock repeats them, and one that
//! says otherwise is not valid. Head slots follow the log; a volume without LiU has none ([`Segments`]).
//! Staging takes the end of the slice: what was read from the disk ahead of its readers. No record names it,
//! and it is empty after a start. It is an area of its own, not free room of the ring, because what users
//! wrote would then lie where a start looks for headers.

use headstart_units::BLOCK_BYTES;

/// Blocks of the guard at each end of the disk: 1 MiB.
pub const GUARD_BLOCKS_MAX: u64 = 256;
/// Least ring: eight records of the least size.
pub const RING_BLOCKS_MIN: u64 = 16;
/// Block numbers of the ring are 32 bits wide (16 TiB).
const RING_BLOCKS_MAX: u64 = u32::MAX as u64;
/// Ring blocks for each block of a checkpoint area: 32 bytes a block, where an extent of one block takes 32.
const RING_BLOCKS_PER_CHECKPOINT_BLOCK: u64 = 128;
/// Staging is a third of a small slice: 48 streams of a slice of 200 MB have room for more than a MiB each.
/// Head slots take their room from it, so that the log is as long as without them,
const SLICES_PER_STAGING: u64 = 3;
/// and leave it this much: with LiU streams are loaded into memory, and staged only if there are too many for that.
const SLICES_PER_LEAST_STAGING: u64 = 24;
/// Head blocks for each block of a checkpoint area: 16 bytes a block, where a head of four blocks takes 10 each.
const HEAD_BLOCKS_PER_CHECKPOINT_BLOCK: u64 = 256;
/// Staging of large slices: 1 GiB, a MiB for each of a thousand streams.
const STAGING_BLOCKS_MAX: u64 = 1 << 18;

/// Places on one slice, in blocks from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Guarded blocks at each end of the disk.
    pub guard_blocks: u64,
    /// Length of one checkpoint area.
    pub checkpoint_blocks: u64,
    /// First block of the log.
    pub ring_block: u64,
    /// Length of the log.
    pub ring_blocks: u64,
    /// Blocks of head slots behind the log.
    pub head_blocks: u64,
    /// Blocks of staging behind those.
    pub staging_blocks: u64,
}

impl Layout {
    /// The layout of a slice of `flash_bytes`; none if it is too small, too large or the guard is longer than 1 MiB.
    pub fn new(flash_bytes: u64, guard_blocks: u64) -> Option<Layout> {
        Layout::with_heads(flash_bytes, guard_blocks, 0)
    }

    /// The same with so many blocks of head slots.
    pub fn with_heads(flash_bytes: u64, guard_blocks: u64, head_blocks: u64) -> Option<Layout> {
        if guard_blocks == 0 || guard_blocks > GUARD_BLOCKS_MAX {
            return None;
        }
        let all = (flash_bytes / BLOCK_BYTES).checked_sub(2 + 2 * guard_blocks)?;
        let left = all.checked_sub(head_blocks)?;
        let for_heads = head_blocks.div_ceil(HEAD_BLOCKS_PER_CHECKPOINT_BLOCK);
        let checkpoint_blocks = left / RING_BLOCKS_PER_CHECKPOINT_BLOCK + 1 + for_heads;
        let staging_blocks = (all / SLICES_PER_STAGING).saturating_sub(head_blocks).max(all / SLICES_PER_LEAST_STAGING);
        let staging_blocks = staging_blocks.min(STAGING_BLOCKS_MAX);
        let ring_blocks = left.checked_sub(2 * checkpoint_blocks + staging_blocks)?.min(RING_BLOCKS_MAX);
        let ring_block = 2 + 2 * guard_blocks + 2 * checkpoint_blocks;
        (ring_blocks >= RING_BLOCKS_MIN).then_some(Layout {
            guard_blocks,
            checkpoint_blocks,
            ring_block,
            ring_blocks,
            head_blocks,
            staging_blocks,
        })
    }

    /// First byte of the place where the superblock with this number is written first: odd ones begin with B.
    pub fn superblock_offset(&self, number: u64) -> u64 {
        number % 2 * BLOCK_BYTES
    }

    /// First byte of the guard copy.
    pub fn guard_offset(&self) -> u64 {
        2 * BLOCK_BYTES
    }

    /// First byte of a checkpoint area, 0 or 1.
    pub fn checkpoint_offset(&self, area: u8) -> u64 {
        (2 + 2 * self.guard_blocks + u64::from(area & 1) * self.checkpoint_blocks) * BLOCK_BYTES
    }

    /// Bytes of a checkpoint area.
    pub fn checkpoint_bytes(&self) -> u64 {
        self.checkpoint_blocks * BLOCK_BYTES
    }

    /// First byte of a block of the ring.
    pub fn ring_offset(&self, block: u32) -> u64 {
        (self.ring_block + u64::from(block)) * BLOCK_BYTES
    }

    /// First byte of a block of the head slots.
    pub fn head_offset(&self, block: u64) -> u64 {
        (self.ring_block + self.ring_blocks + block) * BLOCK_BYTES
    }

    /// First byte of a block of staging.
    pub fn staging_offset(&self, block: u32) -> u64 {
        (self.ring_block + self.ring_blocks + self.head_blocks + u64::from(block)) * BLOCK_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_policy::server::segments::Segments;

    #[test]
    fn head_slots_lie_between_the_log_and_staging() {
        let segments = Segments::new(1 << 28, 256, (5 << 20, 1 << 20), 75).unwrap();
        assert_eq!((segments.slots, segments.segment_bytes(), segments.head_bytes()), (190, 5 << 20, 1 << 20));
        let layout = Layout::with_heads(1 << 28, 256, segments.area_blocks()).unwrap();
        assert_eq!(layout.head_offset(0), layout.ring_offset(0) + layout.ring_blocks * BLOCK_BYTES);
        assert_eq!(layout.staging_offset(0), layout.head_offset(segments.area_blocks()));
        assert!(layout.staging_offset(0) + layout.staging_blocks * BLOCK_BYTES <= 1 << 28);
        let (heads, without) =
            (Segments::new(1 << 28, 256, (5 << 20, 1 << 20), 29).unwrap(), Layout::new(1 << 28, 256).unwrap());
        let with = Layout::with_heads(1 << 28, 256, heads.area_blocks()).unwrap();
        assert!(with.ring_blocks + 256 >= without.ring_blocks, "heads take their room from staging: {with:?}");
        assert!(with.staging_blocks * 24 >= without.staging_blocks, "{with:?}");
        assert_eq!(Segments::new(1 << 28, 256, (5 << 20, 5 << 20), 75), None, "a head is less than its segment");
        assert_eq!(Segments::new(1 << 28, 256, (64 << 20, 8 << 20), 75), None, "and no longer than a record can name");
        assert_eq!(Layout::with_heads(1 << 28, 256, 1 << 16), None, "a log needs room too");
    }

    #[test]
    fn areas_of_slices_of_any_size_follow_each_other_and_end_within_the_slice() {
        for (blocks, guard) in [(24, 2), (25, 2), (1000, 2), (600, 256), (1 << 18, 256), ((1 << 33) + 5, 256)] {
            let flash = blocks * BLOCK_BYTES + 100;
            let Some(layout) = Layout::new(flash, guard) else {
                assert!(blocks < 30, "{blocks} blocks are enough");
                continue;
            };
            assert_eq!(layout.checkpoint_offset(0), layout.guard_offset() + 2 * guard * BLOCK_BYTES);
            assert_eq!(layout.checkpoint_offset(1), layout.checkpoint_offset(0) + layout.checkpoint_bytes());
            assert_eq!(layout.ring_offset(0), layout.checkpoint_offset(1) + layout.checkpoint_bytes());
            assert_eq!(layout.staging_offset(0), layout.ring_offset(0) + layout.ring_blocks * BLOCK_BYTES);
            assert!(layout.staging_offset(0) + layout.staging_blocks * BLOCK_BYTES <= flash);
        }
        assert_eq!(Layout::new(8 << 20, 0), None);
        assert_eq!(Layout::new(8 << 20, 257), None);
        assert_eq!(Layout::new(2 << 20, 256), None);
    }
}
