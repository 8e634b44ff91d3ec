//! A start after anything: what is observed on flash and disk, and what follows from it.
//!
//! | observation | decision |
//! |---|---|
//! | no superblock of ours, another format, another volume, disk or size | refuse; neither device is written |
//! | both superblocks damaged | refuse |
//! | both valid | the newer, or either: each is written to both places before anything rests on it |
//! | one valid, no record was written under a later one | it: the other was being written at the crash, or is damaged |
//! | one valid, such a record found | refuse: a version that wrote each to one place wrote them, and replay would be silently short |
//! | the checkpoint's checksum is wrong, or it says what cannot be | refuse |
//! | guard off or detached, dirty records found | refuse: impossible |
//! | guard on, the disk's ends are not what they were | refuse: old snapshot of flash, or somebody wrote the disk |
//! | applying or removing, dirty records found | refuse: impossible |
//! | applying or removing | write the ends plain from the copy, disk FLUSH, off |
//! | record bad or unexpected, no later record of the epoch says that it was durable | end of the log; nothing behind it is used |
//! | the same, a later one says so, header bad | refuse |
//! | the same, payload bad | what is bad is kept as damaged: reads fail; replay goes on |
//! | the same, payload cannot be read | it stays in its place, and is found by the read |
//! | payload that cannot be read in the last record | refuse: nobody can tell whether it is the log's end |
//! | payload of the checkpoint's map bad | found by the read, which fails |
//! | HEAD of a slot that the superblock does not have | passed over |
//! | guard not on, heads found | dropped: the disk may have been written elsewhere |
//! | a head whose range the log names | dropped: a write-back would make it stale |
//! | a head's slot is bad | found by the read, which goes to the disk and ends the head |
//!
//! A record says under which superblock it was written. So "a record with seq >= S + ring length" is asked of
//! the records themselves: one that was written under a later superblock proves that it was durable, however
//! long records are.
//!
//! Both devices are flushed first: after the death of a server, media may lag behind what reads return. At
//! the end a checkpoint of a new epoch is durable before anything is served; a crash before that leaves the
//! old one, with the same result (V3). The new one is made of the replay alone. It takes the area of the
//! checkpoint before the one in force: both places hold the superblock in force by then.

mod replay;

use std::cmp::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::checkpoint::Encoder;
use super::devices::{Device, Devices, Failed};
use super::fields::EMPTY;
use super::guard::{self, Contents};
use super::heads::Heads;
use super::layout::Layout;
use super::log_map::LogMap;
use super::record::Header;
use super::superblock::{DiskIdentity, Found, Guard, GuardState, Serving, Superblock, Uuid};
use headstart_units::BLOCK_BYTES;
use headstart_units::ranges::Ranges;
use headstart_units::request::Range;
use replay::Replay;

/// Bytes that are read at once.
const CHUNK_BYTES: u64 = 1 << 20;
/// Extents of a checkpoint that a thread encodes in one go: about half a MiB.
const PART_EXTENTS: usize = 1 << 14;
/// Threads that encode (two cores are taken with as many).
const ENCODERS: usize = 2;

/// The devices a start is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// The disk.
    pub disk: DiskIdentity,
    /// Its size.
    pub disk_bytes: u64,
    /// Size of the flash slice.
    pub flash_bytes: u64,
    /// The volume that is meant, if the caller knows.
    pub uuid: Option<Uuid>,
    /// Writes will be absorbed, so the guard goes on.
    pub absorbs: bool,
}

/// Why a volume is not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Neither superblock is one.
    #[error("the flash device holds no Headstart volume; create one, or name the right device")]
    NoVolume,
    /// A later version's.
    #[error("the volume has format {0}, which this version does not know; use the version that wrote it")]
    OtherFormat(String),
    /// Two volumes, or not the one that was meant.
    #[error("the flash device belongs to another volume")]
    OtherVolume,
    /// Not the disk it was created with.
    #[error("the flash device belongs to another disk")]
    OtherDisk,
    /// The disk's size changed.
    #[error("the disk has {found} bytes, the volume was created with {expected}")]
    DiskSize {
        /// At creation.
        expected: u64,
        /// Now.
        found: u64,
    },
    /// The slice is smaller than it was.
    #[error("the flash slice has {found} bytes, the volume needs {expected}")]
    FlashSize {
        /// At creation.
        expected: u64,
        /// Now.
        found: u64,
    },
    /// Both are torn or damaged.
    #[error(
        "both superblocks are damaged; `check` tells what is left, `detach --force` gives the disk back \
         without the flash"
    )]
    SuperblocksDamaged,
    /// The newer one was durable and is damaged.
    #[error("the newer superblock is damaged: records were written under it; what they say would be lost")]
    NewerSuperblockDamaged,
    /// Its checksum or its contents.
    #[error("the checkpoint is damaged")]
    CheckpointDamaged,
    /// A header that was durable.
    #[error("log record {seq} is damaged although it was durable; what it and later ones say is unknown")]
    RecordDamaged {
        /// Which.
        seq: u64,
    },
    /// The guard says that nothing is dirty.
    #[error("the guard is {0:?}, but the log holds unwritten bytes")]
    DirtyWithoutGuard(GuardState),
    /// The disk's ends.
    #[error(
        "the disk was written by somebody else, or the flash is an old copy: the ends of the disk are not \
         what they were"
    )]
    GuardDiffers,
    /// The guard's copy.
    #[error("the guard's copy on flash is damaged; `detach --force` undoes the guard without it")]
    GuardCopyDamaged,
    /// No volume admits so many; the log was written by something else.
    #[error("the log says more than a checkpoint has room for")]
    TooManyExtents,
    /// A device.
    #[error("{0}")]
    Device(#[from] Failed),
}

/// A volume that may be served.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The superblock in force.
    pub superblock: Superblock,
    /// What the log says.
    pub map: LogMap,
}

/// What the two places of superblocks hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Superblocks {
    /// Nothing of ours.
    None,
    /// A format that is not known.
    OtherFormat([u8; 2]),
    /// Of two volumes.
    TwoVolumes,
    /// Both damaged or unreadable, or one of them empty.
    Damaged,
    /// One, in both places.
    Same(Box<Superblock>),
    /// The newer, and the first byte of the place where the older is.
    Newer(Box<Superblock>, u64),
    /// One alone, and the first byte of the other place.
    One(Box<Superblock>, u64),
}

impl Superblocks {
    /// What two blocks are together.
    pub fn observe(first: Found, second: Found) -> Superblocks {
        match (first, second) {
            (Found::OtherFormat(digits), _) | (_, Found::OtherFormat(digits)) => Superblocks::OtherFormat(digits),
            (Found::Valid(one), Found::Valid(other)) if one.uuid != other.uuid => Superblocks::TwoVolumes,
            (Found::Valid(one), Found::Valid(other)) => match one.number.cmp(&other.number) {
                Ordering::Greater => Superblocks::Newer(one, BLOCK_BYTES),
                Ordering::Less => Superblocks::Newer(other, 0),
                Ordering::Equal => Superblocks::Same(one),
            },
            (Found::Valid(one), _) => Superblocks::One(one, BLOCK_BYTES),
            (_, Found::Valid(one)) => Superblocks::One(one, 0),
            (Found::Damaged | Found::Unreadable, _) | (_, Found::Damaged | Found::Unreadable) => Superblocks::Damaged,
            (Found::Nothing, Found::Nothing) => Superblocks::None,
        }
    }

    /// The newest.
    pub fn newest(self) -> Option<Superblock> {
        match self {
            Superblocks::Same(newest) | Superblocks::Newer(newest, _) | Superblocks::One(newest, _) => Some(*newest),
            Superblocks::None | Superblocks::OtherFormat(_) | Superblocks::TwoVolumes | Superblocks::Damaged => None,
        }
    }
}

/// Writes an empty volume on a slice: superblocks that say detached. The disk is not touched. False if slice
/// or disk is too small.
pub fn create(
    devices: &mut impl Devices,
    given: &Given,
    uuid: Uuid,
    guard_blocks: u64,
    serving: Serving,
) -> Result<bool, Failed> {
    let sound = given.disk_bytes.is_multiple_of(512) && given.disk_bytes >= 2 * guard_blocks * BLOCK_BYTES;
    let layout = Layout::with_heads(given.flash_bytes, guard_blocks, serving.segments.area_blocks());
    if layout.is_none() || !serving.segments.are_sound() || !sound {
        return Ok(false);
    }
    let crcs = vec![0; 2 * guard_blocks as usize];
    let mut superblock = Superblock {
        uuid,
        number: 0,
        disk_bytes: given.disk_bytes,
        flash_bytes: given.flash_bytes,
        disk: given.disk,
        epoch: 1,
        start_seq: 1,
        start_block: 0,
        area: 0,
        checkpoint_crc: 0,
        checkpoint_bytes: 0,
        detached: true,
        serving,
        guard: Guard { state: GuardState::Off, session: 0, changed: [0; 8], crcs },
    };
    guard::write_superblock(devices, &mut superblock)?;
    Ok(true)
}

/// The end of a volume that has stopped: the guard goes off unless something is left on flash alone.
/// `detached`: the disk goes its own way, and the flash says so. False if something is left: then nothing is
/// changed.
pub fn release(
    devices: &mut impl Devices,
    superblock: &mut Superblock,
    is_empty: bool,
    detached: bool,
) -> Result<bool, Failed> {
    if !is_empty {
        return Ok(false);
    }
    devices.flush(Device::Disk)?;
    if superblock.guard.state == GuardState::On {
        guard::remove(devices, superblock)?;
    }
    if detached {
        superblock.detached = true;
        guard::write_superblock(devices, superblock)?;
    }
    Ok(true)
}

/// Everything from the first look at the devices to a volume that may be served.
pub fn attach(devices: &mut impl Devices, given: &Given) -> Result<Recovered, Refusal> {
    devices.flush(Device::Disk)?;
    devices.flush(Device::Flash)?;
    let (chosen, other) = choose(devices, given)?;
    let (Recovered { mut superblock, mut map }, seq) = replay(devices, chosen.clone())?;
    check_heads(&superblock, &mut map);
    let interrupted = check_guard(devices, &mut superblock, &map)?;
    if let Some(other) = other {
        // From here on the only one, or what an older one rests on, is written over.
        devices.write(Device::Flash, other, &chosen.encode())?;
        devices.flush(Device::Flash)?;
    }
    if let Some(plain) = interrupted {
        guard::redo(devices, &mut superblock, &plain)?;
    }
    write_checkpoint(devices, &mut superblock, &map, seq)?;
    if given.absorbs && superblock.guard.state == GuardState::Off {
        guard::apply(devices, &mut superblock)?;
    }
    map.ring.release(superblock.start_seq, u64::MAX);
    Ok(Recovered { superblock, map })
}

/// What the flash says: the superblock in force, the replay of the log, and the seq behind its end. Nothing
/// is written, and the disk is not looked at.
pub fn read(devices: &mut impl Devices, given: &Given) -> Result<(Recovered, u64), Refusal> {
    let (superblock, _) = choose(devices, given)?;
    replay(devices, superblock)
}

fn replay(devices: &mut impl Devices, mut superblock: Superblock) -> Result<(Recovered, u64), Refusal> {
    let mut replay = Replay::begin(devices, &mut superblock)?;
    replay.run(devices, &mut superblock)?;
    let Replay { map, seq, .. } = replay;
    Ok((Recovered { superblock, map }, seq))
}

/// The superblock in force, and the first byte of the place that does not hold it, if one does not.
fn choose(devices: &mut impl Devices, given: &Given) -> Result<(Superblock, Option<u64>), Refusal> {
    if given.flash_bytes < 2 * BLOCK_BYTES {
        return Err(Refusal::NoVolume);
    }
    let [first, second] = superblocks(devices)?;
    let (superblock, other, alone) = match Superblocks::observe(first, second) {
        Superblocks::None => return Err(Refusal::NoVolume),
        Superblocks::OtherFormat(digits) => {
            return Err(Refusal::OtherFormat(String::from_utf8_lossy(&digits).into_owned()));
        }
        Superblocks::TwoVolumes => return Err(Refusal::OtherVolume),
        Superblocks::Damaged => return Err(Refusal::SuperblocksDamaged),
        Superblocks::Same(superblock) => (*superblock, None, false),
        Superblocks::Newer(superblock, other) => (*superblock, Some(other), false),
        Superblocks::One(superblock, other) => (*superblock, Some(other), true),
    };
    if given.uuid.is_some_and(|uuid| uuid != superblock.uuid) {
        return Err(Refusal::OtherVolume);
    }
    if given.disk != superblock.disk {
        return Err(Refusal::OtherDisk);
    }
    if given.disk_bytes != superblock.disk_bytes {
        return Err(Refusal::DiskSize { expected: superblock.disk_bytes, found: given.disk_bytes });
    }
    if given.flash_bytes < superblock.flash_bytes {
        return Err(Refusal::FlashSize { expected: superblock.flash_bytes, found: given.flash_bytes });
    }
    if alone && was_followed(devices, &superblock) {
        return Err(Refusal::NewerSuperblockDamaged);
    }
    Ok((superblock, other))
}

/// What the places of superblocks hold, where one of them can be read.
pub fn superblocks(devices: &mut impl Devices) -> Result<[Found; 2], Failed> {
    let mut place = |offset| {
        let mut block = EMPTY;
        devices.read(Device::Flash, offset, &mut block).map(|()| Superblock::decode(&block))
    };
    match [place(0), place(BLOCK_BYTES)] {
        [Err(failed), Err(_)] => Err(failed),
        places => Ok(places.map(|place| place.unwrap_or(Found::Unreadable))),
    }
}

/// Whether some record was written under a later superblock.
fn was_followed(devices: &mut impl Devices, superblock: &Superblock) -> bool {
    let layout = superblock.layout();
    let ring_bytes = layout.ring_blocks * BLOCK_BYTES;
    let mut at = 0;
    let mut chunk = Vec::new();
    devices.read_ahead(Device::Flash, Range::new(layout.ring_offset(0), ring_bytes));
    while at < ring_bytes {
        chunk.resize(CHUNK_BYTES.min(ring_bytes - at) as usize, 0);
        devices.read_what_can_be(Device::Flash, layout.ring_offset(0) + at, &mut chunk);
        for block in chunk.chunks(BLOCK_BYTES as usize) {
            let later = |header: Header| header.uuid == superblock.uuid && header.superblock > superblock.number;
            if Header::decode(block).is_some_and(later) {
                return true;
            }
        }
        at += CHUNK_BYTES;
    }
    false
}

/// The rows of the table that speak of heads.
fn check_heads(superblock: &Superblock, map: &mut LogMap) {
    if superblock.guard.state != GuardState::On {
        map.heads = Heads::default();
    }
    let named = map.heads.iter_live().map(|head| head.range).filter(|range| !map.pieces(*range).is_empty());
    for range in named.collect::<Vec<_>>() {
        map.heads.replay_end(range);
    }
}

/// The rows of the table that speak of the guard. What its copy holds if a change of it was interrupted.
/// Changed blocks that the log does not name are known from here on.
fn check_guard(
    devices: &mut impl Devices,
    superblock: &mut Superblock,
    map: &LogMap,
) -> Result<Option<Contents>, Refusal> {
    let dirty = !map.is_empty();
    match superblock.guard.state {
        state @ (GuardState::Off | GuardState::Applying | GuardState::Removing) if dirty => {
            Err(Refusal::DirtyWithoutGuard(state))
        }
        GuardState::Off => Ok(None),
        GuardState::Applying | GuardState::Removing => {
            guard::copy(devices, superblock)?.map(Some).ok_or(Refusal::GuardCopyDamaged)
        }
        GuardState::On => {
            let known = guard::known(devices, superblock)?.ok_or(Refusal::GuardDiffers)?;
            let regions = guard::regions(superblock);
            known.settle(&mut superblock.guard, &regions, |block| !map.pieces(block).is_empty());
            Ok(None)
        }
    }
}

/// A checkpoint of the replay, of a new epoch, in the area that is not in force.
fn write_checkpoint(
    devices: &mut impl Devices,
    superblock: &mut Superblock,
    map: &LogMap,
    end: u64,
) -> Result<(), Refusal> {
    let mut next = superblock.clone();
    next.area = 1 - superblock.area;
    let offset = superblock.layout().checkpoint_offset(next.area);
    let mut written = 0;
    let encoder = encode(map, PART_EXTENTS, |chunk| {
        let length = chunk.len() as u64;
        if written + length > superblock.layout().checkpoint_bytes() {
            return Err(Refusal::TooManyExtents);
        }
        devices.write_behind(Device::Flash, offset + written, chunk)?;
        written += length;
        Ok(())
    })?;
    (next.checkpoint_bytes, next.checkpoint_crc) = encoder.sum();
    next.epoch += 1;
    next.start_seq = end;
    next.start_block = map.ring.head();
    next.detached = false;
    devices.flush(Device::Flash)?;
    guard::write_superblock(devices, &mut next)?;
    *superblock = next;
    Ok(())
}

/// Gives the blocks of a map's checkpoint, chunk by chunk. A map of more extents than that is encoded in
/// parts of as many, by several threads: most of the time each waits for memory.
fn encode<E>(map: &LogMap, part_extents: usize, mut give: impl FnMut(Vec<u8>) -> Result<(), E>) -> Result<Encoder, E> {
    let mut encoder = Encoder::new(Ranges::default(), &map.heads);
    if map.extents() > part_extents {
        let parts = map.parts(part_extents);
        std::thread::scope(|scope| {
            let encoded: [Receiver<Vec<u8>>; ENCODERS] = std::array::from_fn(|first| {
                let (filled, taken) = sync_channel(1);
                let mut parts = parts.iter().skip(first).step_by(ENCODERS);
                scope.spawn(move || parts.all(|part| encode_part(map, *part, &filled)));
                taken
            });
            for (part, encoded) in parts.iter().zip(encoded.iter().cycle()) {
                // Its end, or that of a thread, which is told when the scope is left.
                while let Some(bytes) = encoded.recv().ok().filter(|bytes| !bytes.is_empty()) {
                    give(encoder.append(&bytes, part.end()))?;
                }
            }
            Ok(())
        })?;
    }
    while !encoder.has_ended() {
        give(encoder.chunk(map, CHUNK_BYTES as usize))?;
    }
    Ok(encoder)
}

/// Whether somebody took all of it, and nothing as its end.
fn encode_part(map: &LogMap, part: Range, filled: &SyncSender<Vec<u8>>) -> bool {
    let mut encoder = Encoder::new(Ranges::default(), &Heads::default());
    loop {
        let bytes = encoder.part(map, part, CHUNK_BYTES as usize);
        let is_end = bytes.is_empty();
        if filled.send(bytes).is_err() {
            return false;
        }
        if is_end {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_map::Content;
    use crate::record::blocks_of;
    use crate::ring::Ring;
    use headstart_units::chance::Random;

    #[test]
    fn a_checkpoint_is_the_same_bytes_in_parts_as_in_one() {
        let seed = std::env::var("SEED").ok().map_or(7, |text| text.parse().expect("SEED is a number"));
        println!("SEED={seed}");
        let mut random = Random(seed);
        let mut map = LogMap::new(Ring::new(40_000, 0));
        // Also across the bounds of windows of 256 MiB.
        for seq in 1..9000 {
            let begin = ((1 + random.below(5)) << 28) - (1 << 20) + random.below(40_000) * 512;
            let range = Range::new(begin, (1 + random.below(24)) * 512);
            let crcs: Vec<u32> = (0..blocks_of(range)).map(|_| random.next() as u32).collect();
            match random.below(20) {
                0 => map.put_placeless(range, Content::Zeros, seq),
                _ => {
                    let block = map.ring.append(seq, 1 + crcs.len() as u32);
                    map.put_payload(range, block + 1, &crcs, seq);
                }
            }
        }
        let bytes = |part_extents| {
            let mut bytes = Vec::new();
            let encoder = encode(&map, part_extents, |chunk| {
                bytes.extend(chunk);
                Ok::<(), ()>(())
            });
            (bytes, encoder.unwrap().sum())
        };
        assert!(map.parts(256).len() > 10, "{}", map.parts(256).len());
        assert_eq!(bytes(256), bytes(usize::MAX));
    }
}
