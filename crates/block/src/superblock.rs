//! The superblock: who the volume is, which checkpoint counts, where replay begins, and the state of the guard.
//!
//! It lies in two places, and numbers take turns in which is written first. The other is written when the
//! first is durable, so that a crash finds the one before or this one; and nothing rests on it until it is
//! durable in both, so that either alone will do.

use super::fields::{Block, EMPTY, crc_of, put, u32_at, u64_at};
use super::layout::{GUARD_BLOCKS_MAX, Layout};
use headstart_policy::server::liu::{Basis, Origin};
use headstart_policy::server::segments::Segments;
use headstart_units::BLOCK_BYTES;

/// What a superblock begins with: the format of a volume in the last two digits.
pub const MAGIC: &[u8; 8] = b"HSVSUP01";
/// What the magic begins with in every format; two digits follow.
const MAGIC_OF_ALL: &[u8] = b"HSVSUP";
const CRC_AT: usize = 136;
const CHANGED_AT: usize = 192;
const GUARD_CRCS_AT: usize = 256;
const BASIS_AT: usize = GUARD_CRCS_AT + 4 * 2 * GUARD_BLOCKS_MAX as usize;

/// Random name of a volume.
pub type Uuid = [u8; 16];

/// What a disk says of itself: serial number or the like, cut or filled with zeros.
pub type DiskIdentity = [u8; 32];

/// Where the guard is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardState {
    /// The disk's ends are as its users wrote them.
    Off,
    /// They are being XORed, from the copy.
    Applying,
    /// They are XORed.
    On,
    /// They are being written plain, from the copy.
    Removing,
}

/// The guard, as the superblock knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Its state.
    pub state: GuardState,
    /// Which keystream.
    pub session: u32,
    /// Blocks whose plain text may have changed on the disk since: their checksums say nothing.
    pub changed: [u64; 8],
    /// CRC32C of the plain text of each block, those of the start of the disk first.
    pub crcs: Vec<u32>,
}

impl Guard {
    /// Whether the checksum of a block, by number, says nothing.
    pub fn is_changed(&self, bit: usize) -> bool {
        self.changed[bit / 64] >> (bit % 64) & 1 == 1
    }
}

/// How a volume is served unless its server is told otherwise, and what it has heads of. Recovery depends on
/// the latter alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Serving {
    /// Writes go to the disk alone.
    pub write_through: bool,
    /// Which policy: 0 none, 1 iTransformer, 2 LiU, 3 both, 4 auto; others are later versions'.
    pub policy: u32,
    /// Segments of the disk and slots for their heads.
    pub segments: Segments,
    /// Where their lengths come from.
    pub basis: Basis,
}

/// A superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Name of the volume.
    pub uuid: Uuid,
    /// One more with each that is written.
    pub number: u64,
    /// Size of the disk, a multiple of the sector.
    pub disk_bytes: u64,
    /// Size of the slice.
    pub flash_bytes: u64,
    /// Which disk.
    pub disk: DiskIdentity,
    /// One more with each start.
    pub epoch: u64,
    /// S: seq of the first record that is replayed.
    pub start_seq: u64,
    /// Its place, a block of the ring.
    pub start_block: u32,
    /// The checkpoint's area.
    pub area: u8,
    /// CRC32C of its bytes.
    pub checkpoint_crc: u32,
    /// Their number.
    pub checkpoint_bytes: u64,
    /// Nothing on flash counts until it is attached again.
    pub detached: bool,
    /// How it is served.
    pub serving: Serving,
    /// The guard.
    pub guard: Guard,
}

/// What a superblock's place holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A superblock.
    Valid(Box<Superblock>),
    /// One of a format that this version does not know; its two digits.
    OtherFormat([u8; 2]),
    /// One of ours that is torn or damaged.
    Damaged,
    /// Nobody knows.
    Unreadable,
    /// Something else.
    Nothing,
}

impl Superblock {
    /// Where things lie.
    pub fn layout(&self) -> Layout {
        let guard_blocks = self.guard.crcs.len() as u64 / 2;
        let head_blocks = self.serving.segments.area_blocks();
        Layout::with_heads(self.flash_bytes, guard_blocks, head_blocks).expect("a superblock has a layout")
    }

    /// First bytes of the places it is written to, in this order.
    pub fn places(&self) -> [u64; 2] {
        [self.number, self.number + 1].map(|number| self.layout().superblock_offset(number))
    }

    /// The bytes.
    pub fn encode(&self) -> Block {
        let mut block = EMPTY;
        let layout = self.layout();
        put(&mut block, 0, MAGIC);
        put(&mut block, 8, &self.uuid);
        put(&mut block, 24, &self.number.to_le_bytes());
        put(&mut block, 32, &self.disk_bytes.to_le_bytes());
        put(&mut block, 40, &self.flash_bytes.to_le_bytes());
        put(&mut block, 48, &self.disk);
        put(&mut block, 80, &self.epoch.to_le_bytes());
        put(&mut block, 88, &self.start_seq.to_le_bytes());
        put(&mut block, 96, &self.start_block.to_le_bytes());
        put(&mut block, 100, &[self.area, u8::from(self.detached), self.guard.state as u8]);
        put(&mut block, 103, &[u8::from(self.serving.write_through)]);
        put(&mut block, 104, &self.checkpoint_bytes.to_le_bytes());
        put(&mut block, 112, &self.checkpoint_crc.to_le_bytes());
        put(&mut block, 116, &self.guard.session.to_le_bytes());
        put(&mut block, 120, &layout.guard_blocks.to_le_bytes());
        put(&mut block, 128, &layout.checkpoint_blocks.to_le_bytes());
        put(&mut block, 144, &layout.ring_block.to_le_bytes());
        put(&mut block, 152, &layout.ring_blocks.to_le_bytes());
        put(&mut block, 160, &layout.head_blocks.to_le_bytes());
        put(&mut block, 140, &self.serving.policy.to_le_bytes());
        put(&mut block, 168, &layout.staging_blocks.to_le_bytes());
        put(&mut block, 176, &self.serving.segments.segment_blocks.to_le_bytes());
        put(&mut block, 180, &self.serving.segments.head_blocks.to_le_bytes());
        put(&mut block, 184, &self.serving.segments.slots.to_le_bytes());
        for (index, word) in self.guard.changed.iter().enumerate() {
            put(&mut block, CHANGED_AT + 8 * index, &word.to_le_bytes());
        }
        for (index, crc) in self.guard.crcs.iter().enumerate() {
            put(&mut block, GUARD_CRCS_AT + 4 * index, &crc.to_le_bytes());
        }
        let Basis { origin, positioning_p80_us, positioning_mean_us, disk_bytes_per_s, flash_bytes_per_s } =
            self.serving.basis;
        for (index, figure) in [origin.number(), positioning_p80_us, positioning_mean_us].into_iter().enumerate() {
            put(&mut block, BASIS_AT + 4 * index, &figure.to_le_bytes());
        }
        put(&mut block, BASIS_AT + 16, &disk_bytes_per_s.to_le_bytes());
        put(&mut block, BASIS_AT + 24, &flash_bytes_per_s.to_le_bytes());
        let crc = crc_of(&block, CRC_AT);
        put(&mut block, CRC_AT, &crc.to_le_bytes());
        block
    }

    /// What a block says, whatever its bytes.
    pub fn decode(block: &[u8]) -> Found {
        if block.len() != BLOCK_BYTES as usize || !block.starts_with(MAGIC_OF_ALL) {
            return Found::Nothing;
        }
        if u32_at(block, CRC_AT) != crc_of(block, CRC_AT) {
            return Found::Damaged;
        }
        if !block.starts_with(MAGIC) {
            return Found::OtherFormat([block[6], block[7]]);
        }
        Superblock::parse(block).map_or(Found::Damaged, |superblock| Found::Valid(Box::new(superblock)))
    }

    fn parse(block: &[u8]) -> Option<Superblock> {
        let guard_blocks = u64_at(block, 120);
        let flash_bytes = u64_at(block, 40);
        let [segment_blocks, head_blocks, slots] = [176, 180, 184].map(|at| u32_at(block, at));
        let segments = Segments { segment_blocks, head_blocks, slots };
        let layout = Layout::with_heads(flash_bytes, guard_blocks, segments.area_blocks())?;
        let said = [128, 144, 152, 160, 168].map(|at| u64_at(block, at));
        let Layout { checkpoint_blocks, ring_block, ring_blocks, head_blocks, staging_blocks, .. } = layout;
        if said != [checkpoint_blocks, ring_block, ring_blocks, head_blocks, staging_blocks] {
            return None;
        }
        let state = match block[102] {
            0 => GuardState::Off,
            1 => GuardState::Applying,
            2 => GuardState::On,
            3 => GuardState::Removing,
            _ => return None,
        };
        let crcs = (0..2 * guard_blocks.min(GUARD_BLOCKS_MAX)).map(|i| u32_at(block, GUARD_CRCS_AT + 4 * i as usize));
        let changed = std::array::from_fn(|index| u64_at(block, CHANGED_AT + 8 * index));
        let basis = Basis {
            origin: Origin::of_number(u32_at(block, BASIS_AT)),
            positioning_p80_us: u32_at(block, BASIS_AT + 4),
            positioning_mean_us: u32_at(block, BASIS_AT + 8),
            disk_bytes_per_s: u64_at(block, BASIS_AT + 16),
            flash_bytes_per_s: u64_at(block, BASIS_AT + 24),
        };
        let superblock = Superblock {
            uuid: block[8..24].try_into().expect("sixteen bytes"),
            number: u64_at(block, 24),
            disk_bytes: u64_at(block, 32),
            flash_bytes,
            disk: block[48..80].try_into().expect("32 bytes"),
            epoch: u64_at(block, 80),
            start_seq: u64_at(block, 88),
            start_block: u32_at(block, 96),
            area: block[100],
            checkpoint_crc: u32_at(block, 112),
            checkpoint_bytes: u64_at(block, 104),
            detached: block[101] == 1,
            serving: Serving { write_through: block[103] == 1, policy: u32_at(block, 140), segments, basis },
            guard: Guard { state, session: u32_at(block, 116), changed, crcs: crcs.collect() },
        };
        let counts = [superblock.number, superblock.epoch, superblock.start_seq];
        let sound = superblock.area < 2
            && segments.are_sound()
            && block[101] < 2
            && block[103] < 2
            && u64::from(superblock.start_block) < layout.ring_blocks
            && superblock.checkpoint_bytes <= layout.checkpoint_bytes()
            // Counters that have room to grow, and a disk whose guard regions do not overlap.
            && counts.iter().all(|count| (1..1 << 55).contains(count))
            && superblock.disk_bytes.is_multiple_of(512)
            && superblock.disk_bytes < 1 << 62
            && superblock.disk_bytes >= 2 * guard_blocks * BLOCK_BYTES;
        sound.then_some(superblock)
    }
}
