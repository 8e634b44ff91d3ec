//! What a volume's devices hold, looked at without writing a byte: `check` and `inspect`.
//!
//! The start that a server would make is made on the devices with every write left out ([`Untouched`]), so
//! that what is said here is what it would find. Then every dirty block is read, and what does not match its
//! checksum is lost. Where a start would refuse, the records that it would not rely upon are looked for in
//! all of the log, and name what may be lost.

mod log_scan;
mod report;

use headstart_block::devices::{Device, Devices, Failed};
use headstart_block::log_map::{Content, LogMap, Piece};
use headstart_block::record::blocks_of;
use headstart_block::recovery;
use headstart_block::recovery::{Recovered, Refusal, Superblocks};
use headstart_block::superblock::Superblock;
use headstart_units::BLOCK_BYTES;
use headstart_units::ranges::Ranges;
use headstart_units::request::Range;

use crate::pair::Pair;
pub use report::{
    DeviceReport, EntryReport, ExtentReport, GuardReport, RecordReport, SegmentReport, SuperblockReport, Survey,
    Verdict, VolumeReport,
};

/// Devices whose writes go nowhere.
struct Untouched<'a>(&'a mut Pair);

impl Devices for Untouched<'_> {
    fn read(&mut self, device: Device, offset: u64, bytes: &mut [u8]) -> Result<(), Failed> {
        self.0.read(device, offset, bytes)
    }

    fn write(&mut self, _device: Device, _offset: u64, _bytes: &[u8]) -> Result<(), Failed> {
        Ok(())
    }

    fn flush(&mut self, _device: Device) -> Result<(), Failed> {
        Ok(())
    }
}

/// Looks at both devices. `details`: with every record and extent.
pub fn look(pair: &mut Pair, details: bool) -> Result<Survey, Failed> {
    let places = recovery::superblocks(pair)?;
    let mut survey = Survey::of_devices(pair);
    survey.superblocks = places.iter().map(SuperblockReport::of).collect();
    let [first, second] = places;
    let in_force = Superblocks::observe(first, second).newest();
    survey.volume = in_force.as_ref().map(VolumeReport::of);
    let given = pair.given(false, None);
    let devices = &mut Untouched(pair);
    match recovery::read(devices, &given) {
        Ok((Recovered { superblock, map }, _)) => {
            survey.take_map(devices.0, &superblock, &map, details)?;
            if let Err(refusal) = recovery::attach(devices, &given) {
                refused(devices.0, &mut survey, in_force.as_ref(), refusal)?;
            }
        }
        Err(refusal) => refused(devices.0, &mut survey, in_force.as_ref(), refusal)?,
    }
    if let Some(superblock) = &in_force
        && survey.verdict != Verdict::Foreign
        && pair.flash.bytes >= superblock.flash_bytes
    {
        let records = log_scan::chain(pair, superblock);
        survey.records_total = records.len() as u64;
        survey.records = details.then_some(records);
    }
    survey.conclude();
    Ok(survey)
}

fn refused(
    pair: &mut Pair,
    survey: &mut Survey,
    superblock: Option<&Superblock>,
    refusal: Refusal,
) -> Result<(), Failed> {
    survey.verdict = match &refusal {
        Refusal::Device(failed) => return Err(*failed),
        Refusal::NoVolume
        | Refusal::OtherFormat(_)
        | Refusal::OtherVolume
        | Refusal::OtherDisk
        | Refusal::DiskSize { .. }
        | Refusal::FlashSize { .. } => Verdict::Foreign,
        Refusal::SuperblocksDamaged
        | Refusal::NewerSuperblockDamaged
        | Refusal::CheckpointDamaged
        | Refusal::RecordDamaged { .. }
        | Refusal::DirtyWithoutGuard(_)
        | Refusal::GuardDiffers
        | Refusal::GuardCopyDamaged
        | Refusal::TooManyExtents => Verdict::Damaged,
    };
    let Some(superblock) = superblock else {
        survey.refusal = Some(refusal.to_string());
        return Ok(());
    };
    let doubted = match &refusal {
        Refusal::RecordDamaged { seq } => log_scan::named(pair, superblock, |header| header.seq >= *seq),
        Refusal::NewerSuperblockDamaged => {
            log_scan::named(pair, superblock, |header| header.superblock > superblock.number)
        }
        Refusal::CheckpointDamaged | Refusal::TooManyExtents => log_scan::named(pair, superblock, |_| true),
        _ => Ranges::default(),
    };
    survey.doubted = doubted.iter().map(|(range, ())| (range.offset, range.length)).collect();
    survey.refusal = Some(refusal.to_string());
    Ok(())
}

impl Survey {
    /// Takes in what the log says, and reads every block of it.
    fn take_map(
        &mut self,
        pair: &mut Pair,
        superblock: &Superblock,
        map: &LogMap,
        details: bool,
    ) -> Result<(), Failed> {
        let (mut dirty, mut lost) = (Joined::default(), Joined::default());
        let mut extents = Vec::new();
        for piece in map.from(0) {
            let bad = bad_ranges(pair, superblock, map, piece)?;
            dirty.push(piece.range);
            bad.iter().for_each(|range| lost.push(*range));
            self.extents_total += 1;
            if details {
                extents.push(ExtentReport::of(superblock, piece, !bad.is_empty()));
            }
        }
        self.extents = details.then_some(extents);
        (self.dirty_bytes, self.dirty) = dirty.end();
        (self.lost_bytes, self.lost) = lost.end();
        self.guard = Some(GuardReport::of(&superblock.guard));
        Ok(())
    }
}

/// The parts of a piece that flash does not hold as they were written.
fn bad_ranges(pair: &mut Pair, superblock: &Superblock, map: &LogMap, piece: Piece) -> Result<Vec<Range>, Failed> {
    let place = match piece.content {
        Content::Payload { place } => place,
        Content::Zeros => return Ok(Vec::new()),
        Content::Damaged => return Ok(vec![piece.range]),
    };
    let mut payload = vec![0; (blocks_of(piece.range) * BLOCK_BYTES) as usize];
    let offset = superblock.layout().ring_offset((place / BLOCK_BYTES) as u32);
    let read = pair.read(Device::Flash, offset, &mut payload);
    let first = piece.range.offset / BLOCK_BYTES;
    let mut bad = Vec::new();
    for (index, crc) in map.crcs(piece.range, place).iter().enumerate() {
        let bytes = &mut payload[index * BLOCK_BYTES as usize..(index + 1) * BLOCK_BYTES as usize];
        // A piece that cannot be read at once may be readable but for a block.
        let is_read = read.is_ok() || pair.read(Device::Flash, offset + index as u64 * BLOCK_BYTES, bytes).is_ok();
        if !is_read || crc32c::crc32c(bytes) != *crc {
            let block = Range::new((first + index as u64) * BLOCK_BYTES, BLOCK_BYTES);
            bad.push(block.intersection(piece.range));
        }
    }
    Ok(bad)
}

/// Ranges in address order, neighbours joined.
#[derive(Default)]
struct Joined {
    ranges: Vec<(u64, u64)>,
    bytes: u64,
}

impl Joined {
    fn push(&mut self, range: Range) {
        self.bytes += range.length;
        match self.ranges.last_mut() {
            Some((offset, length)) if *offset + *length == range.offset => *length += range.length,
            _ => self.ranges.push((range.offset, range.length)),
        }
    }

    fn end(self) -> (u64, Vec<(u64, u64)>) {
        (self.bytes, self.ranges)
    }
}
