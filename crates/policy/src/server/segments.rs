//! The disk in segments, and how many heads of them a slice of flash has room for (LiU).

use headstart_units::BLOCK_BYTES;
use headstart_units::request::Range;

/// A head has no more blocks than a record of the log has room for checksums.
pub const HEAD_BLOCKS_MAX: u32 = 1000;

/// The disk in segments, and slots for heads of them. All zero: there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Blocks of a segment; segment n begins at block n times this.
    pub segment_blocks: u32,
    /// Blocks of a head, the first of its segment, and of a slot.
    pub head_blocks: u32,
    /// Slots.
    pub slots: u32,
}

impl Segments {
    /// As many slots as have room in a share of a slice; none if the sizes make no sense or there is no room for one.
    pub fn new(flash_bytes: u64, guard_blocks: u64, bytes: (u64, u64), share_percent: u64) -> Option<Segments> {
        let blocks = |bytes: u64| u32::try_from(bytes / BLOCK_BYTES).ok();
        let (segment_blocks, head_blocks) = (blocks(bytes.0)?, blocks(bytes.1)?);
        let left = (flash_bytes / BLOCK_BYTES).checked_sub(2 + 2 * guard_blocks)?;
        let slots = u32::try_from(left * share_percent / 100 / u64::from(head_blocks.max(1))).ok()?;
        let segments = Segments { segment_blocks, head_blocks, slots };
        (slots > 0 && segments.are_sound()).then_some(segments)
    }

    /// Whether there are any.
    pub fn is_none(&self) -> bool {
        self.slots == 0
    }

    /// Whether they are none, or heads that fit into their segments and into records.
    pub fn are_sound(&self) -> bool {
        let fits = self.head_blocks > 0 && self.head_blocks < self.segment_blocks;
        *self == Segments::default() || (self.slots > 0 && fits && self.head_blocks <= HEAD_BLOCKS_MAX)
    }

    /// Blocks of all slots.
    pub fn area_blocks(&self) -> u64 {
        u64::from(self.slots) * u64::from(self.head_blocks)
    }

    /// Bytes of a segment.
    pub fn segment_bytes(&self) -> u64 {
        u64::from(self.segment_blocks) * BLOCK_BYTES
    }

    /// Bytes of a head.
    pub fn head_bytes(&self) -> u64 {
        u64::from(self.head_blocks) * BLOCK_BYTES
    }

    /// Each segment that a range of the disk touches, and which bytes of it, from its begin on.
    pub fn parts(&self, range: Range) -> impl Iterator<Item = (u64, Range)> + use<> {
        let bytes = self.segment_bytes();
        (range.offset / bytes..range.end().div_ceil(bytes)).map(move |segment| {
            let part = range.intersection(Range::new(segment * bytes, bytes));
            (segment, Range::new(part.offset - segment * bytes, part.length))
        })
    }
}
