//! What `check` and `inspect` say, as people and programs read it.

use headstart_block::log_map::{Content, Piece};
use headstart_block::record::{Header, Kind};
use headstart_block::superblock::{Found, Guard, GuardState, Serving, Superblock};
use headstart_policy::server::chain::Names;
use headstart_policy::server::liu::Basis;
use headstart_units::BLOCK_BYTES;
use serde::Serialize;

use crate::control::directory;
use crate::pair::{OpenDevice, Pair, identity_text};
use crate::settings::Mode;

/// How a volume stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The disk alone has everything, and is plain.
    #[default]
    Clean,
    /// Flash is needed, and has all that it should.
    Dirty,
    /// Bytes are lost, or a start would refuse.
    Damaged,
    /// No volume of this disk.
    Foreign,
}

/// Both devices.
#[derive(Clone, Debug, Serialize)]
pub struct Survey {
    /// The slow one.
    pub disk: DeviceReport,
    /// The fast one.
    pub flash: DeviceReport,
    /// What lies in their two places.
    pub superblocks: Vec<SuperblockReport>,
    /// The volume in force.
    pub volume: Option<VolumeReport>,
    /// The guard as a start would find it.
    pub guard: Option<GuardReport>,
    /// How it stands.
    pub verdict: Verdict,
    /// Why a start would refuse.
    pub refusal: Option<String>,
    /// Bytes that flash alone holds.
    pub dirty_bytes: u64,
    /// Those of them that are lost.
    pub lost_bytes: u64,
    /// Extents of the map.
    pub extents_total: u64,
    /// Records from S on.
    pub records_total: u64,
    /// What flash alone holds: offset and length on the disk.
    pub dirty: Vec<(u64, u64)>,
    /// What of that is lost.
    pub lost: Vec<(u64, u64)>,
    /// What records say that cannot be relied upon.
    pub doubted: Vec<(u64, u64)>,
    /// Every extent of the map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extents: Option<Vec<ExtentReport>>,
    /// Every record from S on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<Vec<RecordReport>>,
}

impl Survey {
    /// What is known of the devices before anything is read.
    pub(super) fn of_devices(pair: &Pair) -> Survey {
        Survey {
            disk: DeviceReport::of(&pair.disk),
            flash: DeviceReport::of(&pair.flash),
            superblocks: Vec::new(),
            volume: None,
            guard: None,
            verdict: Verdict::Clean,
            refusal: None,
            dirty_bytes: 0,
            lost_bytes: 0,
            extents_total: 0,
            records_total: 0,
            dirty: Vec::new(),
            lost: Vec::new(),
            doubted: Vec::new(),
            extents: None,
            records: None,
        }
    }

    /// The verdict, where nothing was refused.
    pub(super) fn conclude(&mut self) {
        if self.verdict != Verdict::Clean {
            return;
        }
        let guarded = self.guard.as_ref().is_some_and(|guard| guard.state != "off");
        if self.lost_bytes > 0 {
            self.verdict = Verdict::Damaged;
        } else if self.dirty_bytes > 0 || guarded {
            self.verdict = Verdict::Dirty;
        }
    }
}

/// A device.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceReport {
    /// As the user named it.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// What tells it from others.
    pub identity: String,
}

impl DeviceReport {
    fn of(device: &OpenDevice) -> DeviceReport {
        DeviceReport { name: device.name.to_string(), bytes: device.bytes, identity: device.identity_text() }
    }
}

/// A place for a superblock.
#[derive(Clone, Debug, Serialize)]
pub struct SuperblockReport {
    /// "valid", "damaged", "unreadable", "nothing" or "format NN".
    pub state: String,
    /// What it says.
    pub volume: Option<VolumeReport>,
}

impl SuperblockReport {
    pub(super) fn of(found: &Found) -> SuperblockReport {
        let state = match found {
            Found::Valid(_) => "valid".into(),
            Found::OtherFormat(digits) => format!("format {}", digits.escape_ascii()),
            Found::Damaged => "damaged".into(),
            Found::Unreadable => "unreadable".into(),
            Found::Nothing => "nothing".into(),
        };
        let volume = match found {
            Found::Valid(superblock) => Some(VolumeReport::of(superblock)),
            Found::OtherFormat(_) | Found::Damaged | Found::Unreadable | Found::Nothing => None,
        };
        SuperblockReport { state, volume }
    }
}

/// What a superblock says.
#[derive(Clone, Debug, Serialize)]
pub struct VolumeReport {
    /// Name of the volume.
    pub uuid: String,
    /// Of the superblock.
    pub number: u64,
    /// Size of the disk.
    pub disk_bytes: u64,
    /// Size of the slice.
    pub flash_bytes: u64,
    /// Which disk.
    pub disk_identity: String,
    /// When writes are acknowledged, unless the server is told otherwise.
    pub mode: Mode,
    /// What says what goes to flash, unless the server is told otherwise.
    pub policy: String,
    /// Segments and room for their heads, if there is any.
    pub segments: Option<SegmentReport>,
    /// Nothing on flash counts.
    pub detached: bool,
    /// Starts.
    pub epoch: u64,
    /// S.
    pub start_seq: u64,
    /// Block of the log where it lies.
    pub start_block: u32,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Where the checkpoint lies on flash.
    pub checkpoint_offset: u64,
    /// Its length.
    pub checkpoint_bytes: u64,
    /// The guard.
    pub guard: GuardReport,
}

impl VolumeReport {
    pub(super) fn of(superblock: &Superblock) -> VolumeReport {
        let layout = superblock.layout();
        VolumeReport {
            uuid: directory::name(&superblock.uuid),
            number: superblock.number,
            disk_bytes: superblock.disk_bytes,
            flash_bytes: superblock.flash_bytes,
            disk_identity: identity_text(&superblock.disk),
            mode: if superblock.serving.write_through { Mode::WriteThrough } else { Mode::WriteBack },
            policy: policy_text(superblock.serving.policy),
            segments: SegmentReport::of(&superblock.serving),
            detached: superblock.detached,
            epoch: superblock.epoch,
            start_seq: superblock.start_seq,
            start_block: superblock.start_block,
            log_bytes: layout.ring_blocks * BLOCK_BYTES,
            checkpoint_offset: layout.checkpoint_offset(superblock.area),
            checkpoint_bytes: superblock.checkpoint_bytes,
            guard: GuardReport::of(&superblock.guard),
        }
    }
}

/// LiU's segments.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SegmentReport {
    /// Length of a segment.
    pub segment_bytes: u64,
    /// Length of its head.
    pub head_bytes: u64,
    /// Slots for heads.
    pub slots: u32,
    /// Where these lengths come from.
    pub basis: Basis,
}

impl SegmentReport {
    fn of(serving: &Serving) -> Option<SegmentReport> {
        let Serving { segments, basis, .. } = serving;
        (!segments.is_none()).then(|| SegmentReport {
            segment_bytes: segments.segment_bytes(),
            head_bytes: segments.head_bytes(),
            slots: segments.slots,
            basis: *basis,
        })
    }
}

/// The word for the number of a policy in a superblock.
pub(super) fn policy_text(number: u32) -> String {
    match Names::ALL.into_iter().find(|names| names.number() == number) {
        Some(names) => names.to_string(),
        None => format!("number {number}, of a later version"),
    }
}

/// The guard.
#[derive(Clone, Debug, Serialize)]
pub struct GuardReport {
    /// "off", "applying", "on" or "removing".
    pub state: &'static str,
    /// Which keystream.
    pub session: u32,
    /// Blocks whose plain text has changed since it was applied.
    pub changed_blocks: u32,
}

impl GuardReport {
    pub(super) fn of(guard: &Guard) -> GuardReport {
        let state = match guard.state {
            GuardState::Off => "off",
            GuardState::Applying => "applying",
            GuardState::On => "on",
            GuardState::Removing => "removing",
        };
        let changed_blocks = guard.changed.iter().map(|word| word.count_ones()).sum();
        GuardReport { state, session: guard.session, changed_blocks }
    }
}

/// An extent of the map.
#[derive(Clone, Debug, Serialize)]
pub struct ExtentReport {
    /// First byte on the disk.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The record that says so.
    pub seq: u64,
    /// "payload", "zeros" or "damaged".
    pub kind: &'static str,
    /// Of payload: its first byte on flash.
    pub flash_offset: Option<u64>,
    /// Flash holds it as it was written.
    pub sound: bool,
}

impl ExtentReport {
    pub(super) fn of(superblock: &Superblock, piece: Piece, is_bad: bool) -> ExtentReport {
        let ring = superblock.layout().ring_offset(0);
        let (kind, flash_offset) = match piece.content {
            Content::Payload { place } => ("payload", Some(ring + place)),
            Content::Zeros => ("zeros", None),
            Content::Damaged => ("damaged", None),
        };
        let (offset, length) = (piece.range.offset, piece.range.length);
        ExtentReport { offset, length, seq: piece.seq, kind, flash_offset, sound: !is_bad }
    }
}

/// A record of the log.
#[derive(Clone, Debug, Serialize)]
pub struct RecordReport {
    /// Its number.
    pub seq: u64,
    /// Block of the log.
    pub block: u32,
    /// Records up to this one were durable when it was written.
    pub durable_to: u64,
    /// The superblock in force then.
    pub superblock: u64,
    /// Blocks of payload.
    pub payload_blocks: u64,
    /// Those that do not match their checksum.
    pub bad_blocks: u64,
    /// What it says.
    pub entries: Vec<EntryReport>,
}

/// An entry of a record.
#[derive(Clone, Debug, Serialize)]
pub struct EntryReport {
    /// As docs/reference/format.md has it, in small letters.
    pub kind: &'static str,
    /// First byte on the disk.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Of "clean": up to which record; of "head": the slot.
    pub value: Option<u64>,
}

impl RecordReport {
    pub(super) fn of(block: u32, header: &Header, bad_blocks: u64) -> RecordReport {
        let entries = header.entries.iter().map(|entry| {
            let (kind, value) = match entry.kind {
                Kind::Data => ("data", None),
                Kind::Zero => ("zero", None),
                Kind::Clean { upto } => ("clean", Some(upto)),
                Kind::Head { slot } => ("head", Some(slot)),
                Kind::NoHead => ("nohead", None),
                Kind::Pad => ("pad", None),
            };
            EntryReport { kind, offset: entry.range.offset, length: entry.range.length, value }
        });
        RecordReport {
            seq: header.seq,
            block,
            durable_to: header.durable_to,
            superblock: header.superblock,
            payload_blocks: header.payload_blocks(),
            bad_blocks,
            entries: entries.collect(),
        }
    }
}
