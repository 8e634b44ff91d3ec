//! Which blocks of a disk are guarded: a function of its size.
//!
//! Partition tables, labels and superblocks lie at the ends. But `e2fsck -y` and `xfs_repair` that find none
//! there look for the copies that file systems keep elsewhere, and rebuild everything from those. So the
//! blocks where copies lie by default are guarded as well:
//!
//! | copies | looked for at |
//! |---|---|
//! | btrfs | 64 MiB and 256 GiB |
//! | ext, blocks of 1 to 64 KiB | the start of block group 1, the only place where `e2fsck` looks |
//! | XFS, blocks of 4 KiB | the start of each allocation group, of which mkfs makes 4, 8, 16 or 32, or as many as have 1 TiB |
//!
//! What a file system is really like is not asked: without flash the guarded blocks must be known all the
//! same, and a mkfs through the volume changes them for nobody. An XFS whose groups lie elsewhere
//! (`-d agcount`, stripes) is not hidden from `xfs_repair`.
//!
//! Guarded blocks are numbered: those of the start, those of the end, copies. Their number is that of both
//! ends of G blocks: copies take from the length of the last one.

use headstart_units::BLOCK_BYTES;
use headstart_units::request::Range;

/// A guarded range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Bytes of the disk.
    pub range: Range,
    /// Number of its first block.
    pub first: u64,
}

/// The guarded ranges of a disk, in address order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regions(Vec<Region>);

impl Regions {
    /// Those of a disk with a guard of so many blocks at each end.
    pub fn new(disk_bytes: u64, guard_blocks: u64) -> Regions {
        let mut copies = copies(disk_bytes / BLOCK_BYTES);
        copies.retain(|block| *block >= guard_blocks);
        copies.truncate(guard_blocks as usize / 2);
        copies.sort_unstable();
        // The last region begins at a block, so that a block of the disk lies in it or does not.
        let end_of = |copies: usize| {
            let bytes = (guard_blocks - copies as u64) * BLOCK_BYTES;
            (disk_bytes - bytes).next_multiple_of(BLOCK_BYTES).min(disk_bytes)
        };
        // Fewer copies leave a longer end, which may reach further ones.
        let mut end = end_of(copies.len());
        while copies.last().is_some_and(|block| (block + 1) * BLOCK_BYTES > end) {
            copies.pop();
            end = end_of(copies.len());
        }
        let first_copy = 2 * guard_blocks - copies.len() as u64;
        let copies = copies.iter().zip(first_copy..);
        let mut regions = vec![Region { range: Range::new(0, guard_blocks * BLOCK_BYTES), first: 0 }];
        regions
            .extend(copies.map(|(block, first)| Region { range: Range::new(block * BLOCK_BYTES, BLOCK_BYTES), first }));
        regions.push(Region { range: Range::between(end, disk_bytes), first: guard_blocks });
        Regions(regions)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Region> {
        self.0.iter()
    }

    /// Those that share a byte with a range.
    pub fn overlapping(&self, range: Range) -> impl Iterator<Item = &Region> {
        let from = self.0.partition_point(|region| region.range.end() <= range.offset);
        self.0[from..].iter().take_while(move |region| region.range.overlaps(range))
    }

    /// Whether any byte of a range is guarded.
    pub fn touches(&self, range: Range) -> bool {
        self.overlapping(range).next().is_some()
    }

    /// Where a range first enters or leaves what is guarded, as a cut of it: the part up to there.
    pub fn cut(&self, range: Range) -> Range {
        match self.overlapping(range).next() {
            Some(region) if region.range.offset <= range.offset => range.intersection(region.range),
            Some(region) => Range::between(range.offset, region.range.offset),
            None => range,
        }
    }
}

/// Blocks of 4 KiB where copies of superblocks lie by default, those that matter most first; each once.
fn copies(disk_blocks: u64) -> Vec<u64> {
    let mut blocks = vec![(64 << 20) / BLOCK_BYTES, (256 << 30) / BLOCK_BYTES];
    for block_bytes in (0..7).map(|log| 1024u64 << log) {
        // Group 1 begins behind a bitmap of one block for group 0, and with blocks of 1 KiB one later.
        let block = 8 * block_bytes + u64::from(block_bytes == 1024);
        blocks.push(block * block_bytes / BLOCK_BYTES);
    }
    for log in 2..=5 {
        let group = disk_blocks.div_ceil(1 << log);
        blocks.extend((1..1 << log).map(|index| index * group));
    }
    // XFS's largest group is a block short of 1 TiB.
    let largest = (1 << 28) - 1;
    blocks.extend((1..).map(|index| index * largest).take_while(|block| *block < disk_blocks).take(64));
    let mut seen = std::collections::BTreeSet::new();
    blocks.retain(|block| *block < disk_blocks && seen.insert(*block));
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guarded_blocks_of_disks_of_any_size_follow_each_other_and_have_a_number_each() {
        for (disk_bytes, guard_blocks) in [
            (2 << 20, 256),
            ((2 << 20) + 512, 256),
            (400 << 20, 256),
            ((1500 << 20) + 3584, 256),
            (6 << 40, 256),
            (200 << 40, 256),
            (24576, 2),
            (57856, 2),
            (24576, 1),
        ] {
            let regions = Regions::new(disk_bytes, guard_blocks);
            let mut end = 0;
            let mut numbers = Vec::new();
            for region in regions.iter() {
                assert!(region.range.offset >= end && region.range.offset % BLOCK_BYTES == 0, "{disk_bytes}");
                end = region.range.end();
                numbers.extend(region.first..region.first + region.range.length.div_ceil(BLOCK_BYTES));
            }
            assert_eq!(end, disk_bytes);
            numbers.sort_unstable();
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{disk_bytes}");
            assert!(numbers.last().is_some_and(|last| *last < 2 * guard_blocks), "{disk_bytes}");
        }
    }

    #[test]
    fn copies_lie_where_mkfs_puts_them() {
        let holds = |disk_bytes, block: u64| Regions::new(disk_bytes, 256).touches(Range::new(block * BLOCK_BYTES, 1));
        // mkfs.ext4 with blocks of 4 KiB; mkfs.xfs of 1500 MiB and of 6 TiB.
        assert!(holds(1500 << 20, 32768));
        assert!([1, 2, 3].into_iter().all(|group| holds(1500 << 20, group * 96_000)));
        assert!((1..6).all(|group| holds(6 << 40, group * 268_435_455)));
        assert!(!holds(1500 << 20, 96_001));
    }

    #[test]
    fn a_range_is_cut_where_the_guard_begins_and_ends() {
        let regions = Regions::new(400 << 20, 256);
        let copy = 25_600 * BLOCK_BYTES;
        let range = |offset, length| Range::new(offset, length);
        assert_eq!(regions.cut(range(512, 4 << 20)), range(512, (1 << 20) - 512));
        assert_eq!(regions.cut(range(copy - 512, 8192)), range(copy - 512, 512));
        assert_eq!(regions.cut(range(copy, 8192)), range(copy, 4096));
        assert_eq!(regions.cut(range(copy + 4096, 8192)), range(copy + 4096, 8192));
        assert_eq!(regions.cut(range(3 << 20, 512)), range(3 << 20, 512));
    }
}
