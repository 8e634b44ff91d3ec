//! The replay of a log: the checkpoint, then records while each is what follows the one before.

use super::{CHUNK_BYTES, Refusal};
use crate::checkpoint::{Crcs, Extent, PIECES_AT_ONCE, Stored};
use crate::devices::{Device, Devices, Failed};
use crate::guard;
use crate::guard::Regions;
use crate::layout::Layout;
use crate::log_map::{Content, LogMap};
use crate::record::{Entry, Header, Kind, PAYLOAD_BLOCKS_MAX, blocks_of};
use crate::ring::Ring;
use crate::superblock::Superblock;
use headstart_units::BLOCK_BYTES;
use headstart_units::request::Range;

/// Blocks behind a bad record in which its successor is looked for: four records of the greatest size.
const SEARCH_BLOCKS: u64 = 4 * (PAYLOAD_BLOCKS_MAX + 1);

/// The replay of a log.
pub(super) struct Replay {
    /// What it says.
    pub map: LogMap,
    layout: Layout,
    regions: Regions,
    /// Of the next record.
    pub seq: u64,
    ahead: Ahead,
}

/// Blocks of the ring that were read together: records lie back to back, and a device takes as long for a
/// block as for a hundred.
#[derive(Default)]
struct Ahead {
    first: u32,
    bytes: Vec<u8>,
}

impl Ahead {
    /// So many blocks of the ring, which do not reach beyond its end.
    fn blocks(&mut self, devices: &mut impl Devices, layout: &Layout, block: u32, count: u64) -> Result<&[u8], Failed> {
        let length = (count * BLOCK_BYTES) as usize;
        let at = block.checked_sub(self.first).map(|blocks| u64::from(blocks) * BLOCK_BYTES);
        let mut at = match at.filter(|at| *at <= self.bytes.len() as u64 && !self.bytes.is_empty()) {
            Some(at) => at as usize,
            None => {
                let to_end = (layout.ring_blocks - u64::from(block)) * BLOCK_BYTES;
                devices.read_ahead(Device::Flash, Range::new(layout.ring_offset(block), to_end));
                self.bytes.clear();
                self.first = block;
                0
            }
        };
        if at + length > self.bytes.len() {
            self.bytes.drain(..at);
            (self.first, at) = (block, 0);
            self.extend(devices, layout, length)?;
        }
        Ok(&self.bytes[at..at + length])
    }

    /// Reads what follows: as many bytes in all as are needed, and more if there are more.
    fn extend(&mut self, devices: &mut impl Devices, layout: &Layout, needed: usize) -> Result<(), Failed> {
        let held = self.bytes.len();
        let offset = layout.ring_offset(self.first) + held as u64;
        let to_end = (layout.ring_blocks - u64::from(self.first)) * BLOCK_BYTES - held as u64;
        self.bytes.resize(held + to_end.min(CHUNK_BYTES).max((needed - held) as u64) as usize, 0);
        if devices.read(Device::Flash, offset, &mut self.bytes[held..]).is_err() {
            // Behind what is needed something may be unreadable.
            self.bytes.resize(needed, 0);
            let read = devices.read(Device::Flash, offset, &mut self.bytes[held..]);
            read.inspect_err(|_| self.bytes.clear())?;
        }
        Ok(())
    }
}

impl Replay {
    /// Reads the checkpoint.
    pub(super) fn begin(devices: &mut impl Devices, superblock: &mut Superblock) -> Result<Replay, Refusal> {
        let layout = superblock.layout();
        let ring = Ring::of_checkpoint(layout.ring_blocks, superblock.start_block, superblock.start_seq);
        let mut map = LogMap::new(ring);
        let (mut at, mut crc, mut end) = (0, 0, 0);
        let mut among_heads = false;
        let mut bytes: Vec<u8> = Vec::new();
        let offset = layout.checkpoint_offset(superblock.area);
        devices.read_ahead(Device::Flash, Range::new(offset, superblock.checkpoint_bytes));
        while at < superblock.checkpoint_bytes {
            let rest = bytes.len();
            bytes.resize(rest + CHUNK_BYTES.min(superblock.checkpoint_bytes - at) as usize, 0);
            let chunk = &mut bytes[rest..];
            devices.read(Device::Flash, offset + at, chunk)?;
            crc = crc32c::crc32c_append(crc, chunk);
            at += chunk.len() as u64;
            let (mut used, mut near) = (0, 0);
            while let Some((extent, crcs)) = Extent::decode(&bytes[used..]).map_err(|_| Refusal::CheckpointDamaged)? {
                if used >= near {
                    near = fetch_near(&map, &bytes, used);
                }
                // Heads follow the extents, in address order again.
                let is_head = matches!(extent.content, Stored::Head { .. });
                if is_head && !std::mem::replace(&mut among_heads, true) {
                    end = 0;
                }
                let ordered = extent.range.offset >= end && is_head == among_heads;
                if !ordered || !load(&mut map, &extent, crcs, superblock) {
                    return Err(Refusal::CheckpointDamaged);
                }
                end = extent.range.end();
                used += extent.encoded_bytes();
            }
            bytes.drain(..used);
        }
        if crc != superblock.checkpoint_crc || !bytes.is_empty() || !map.ring.settle() {
            return Err(Refusal::CheckpointDamaged);
        }
        Ok(Replay {
            map,
            layout,
            regions: guard::regions(superblock),
            seq: superblock.start_seq,
            ahead: Ahead::default(),
        })
    }

    /// Replays the records from S on, up to the end of the log.
    pub(super) fn run(&mut self, devices: &mut impl Devices, superblock: &mut Superblock) -> Result<(), Refusal> {
        loop {
            // What is replayed here is durable, so what was dead when a record was put in its place is dead by now.
            self.map.ring.release(superblock.start_seq, u64::MAX);
            let block = self.map.ring.head();
            let Some(header) = self.header(devices, superblock, block)? else {
                if self.was_durable(devices, superblock, block + 1) {
                    return Err(Refusal::RecordDamaged { seq: self.seq });
                }
                return Ok(());
            };
            let payload = self.bad_payload(devices, block, &header);
            if !payload.as_ref().is_ok_and(|bad| !bad.contains(&true)) {
                let next = block + header.blocks() as u32;
                if !self.was_durable(devices, superblock, next) {
                    // What cannot be read may be the last of what was flushed; nobody can tell until it can be read.
                    return payload.map(drop).map_err(Refusal::Device);
                }
            }
            // Payload that cannot be read stays in its place: a read of it fails, or does not if the device
            // is mended by then.
            let mut bad = payload.unwrap_or_else(|_| vec![false; header.payload_blocks() as usize]);
            self.map.ring.append(self.seq, header.blocks() as u32);
            for entry in &header.entries {
                if matches!(entry.kind, Kind::Data | Kind::Zero) {
                    guard::mark_changed(&mut superblock.guard, &self.regions, entry.range);
                }
            }
            apply(&mut self.map, &header, block, &mut bad, superblock);
            self.seq += 1;
        }
    }

    /// The header that belongs at the head of the ring, if it is there.
    fn header(
        &mut self,
        devices: &mut impl Devices,
        superblock: &Superblock,
        block: u32,
    ) -> Result<Option<Header>, Failed> {
        let found = Header::decode(self.ahead.blocks(devices, &self.layout, block, 1)?);
        Ok(found.filter(|header| {
            let room = u64::from(self.map.ring.free_blocks().min(self.map.ring.blocks_to_end()));
            let within = |entry: &Entry| entry.kind == Kind::Pad || entry.range.end() <= superblock.disk_bytes;
            header.uuid == superblock.uuid
                && header.epoch == superblock.epoch
                && header.seq == self.seq
                && header.blocks() <= room
                && header.entries.iter().all(within)
        }))
    }

    /// Which blocks of a record's payload are not what its header says.
    fn bad_payload(&mut self, devices: &mut impl Devices, block: u32, header: &Header) -> Result<Vec<bool>, Failed> {
        if header.payload_blocks() == 0 {
            return Ok(Vec::new());
        }
        let payload = self.ahead.blocks(devices, &self.layout, block + 1, header.payload_blocks())?;
        let blocks = payload.chunks(BLOCK_BYTES as usize);
        Ok(blocks.zip(&header.crcs).map(|(bytes, crc)| crc32c::crc32c(bytes) != *crc).collect())
    }

    /// Whether a record behind the one at the head of the ring says that that one was durable. `from` is the
    /// first block that may hold it.
    fn was_durable(&mut self, devices: &mut impl Devices, superblock: &Superblock, from: u32) -> bool {
        let ring_blocks = self.layout.ring_blocks;
        let mut at = u64::from(from) % ring_blocks;
        let mut left = SEARCH_BLOCKS;
        // From S on none was written over another.
        let start = u64::from(superblock.start_block);
        let mut room = (start + ring_blocks - at) % ring_blocks;
        let mut newest = self.seq;
        while left > 0 && room > 0 {
            // One that cannot be read proves nothing; it may be of a lap before.
            let found = self.ahead.blocks(devices, &self.layout, at as u32, 1).ok().and_then(Header::decode);
            let later = found.filter(|header| {
                header.uuid == superblock.uuid && header.epoch == superblock.epoch && header.seq > newest
            });
            let step = match &later {
                Some(header) if header.durable_to >= self.seq => return true,
                Some(header) => header.blocks(),
                None => 1,
            };
            left -= 1;
            room = room.saturating_sub(step);
            if let Some(header) = later {
                // Seqs only rise, so that this ends; a record found starts the search anew.
                newest = header.seq;
                left = SEARCH_BLOCKS;
            }
            at = (at + step) % ring_blocks;
        }
        false
    }
}

/// The next extents from byte `at` on are about to be loaded; where those behind them begin.
fn fetch_near(map: &LogMap, bytes: &[u8], mut at: usize) -> usize {
    let next = std::iter::from_fn(|| {
        let (extent, _) = Extent::decode(&bytes[at..]).ok().flatten()?;
        at += extent.encoded_bytes();
        Some(extent)
    });
    map.fetch_crcs_near(next.take(PIECES_AT_ONCE).filter_map(|extent| match extent.content {
        Stored::Payload { block } => Some(block),
        Stored::Zeros | Stored::Damaged | Stored::Head { .. } => None,
    }));
    at
}

/// Puts an extent of a checkpoint into the map; false if there can be none like it.
fn load(map: &mut LogMap, extent: &Extent, crcs: Crcs<'_>, superblock: &Superblock) -> bool {
    let is_head = matches!(extent.content, Stored::Head { .. });
    if !is_head && (extent.range.end() > superblock.disk_bytes || extent.seq >= superblock.start_seq) {
        return false;
    }
    match extent.content {
        Stored::Payload { block } => {
            if u64::from(block) + blocks_of(extent.range) > u64::from(map.ring.blocks()) {
                return false;
            }
            map.ring.found(extent.seq, block);
            map.load_payload(extent.range, block, crcs.iter());
        }
        Stored::Zeros => map.put_placeless(extent.range, Content::Zeros, extent.seq),
        Stored::Damaged => map.put_placeless(extent.range, Content::Damaged, extent.seq),
        Stored::Head { slot } => {
            put_head(map, extent.range, u64::from(slot), &crcs.iter().collect::<Vec<_>>(), superblock);
        }
    }
    true
}

/// Heads are clean copies: one that the superblock has no slot for is passed over.
fn put_head(map: &mut LogMap, range: Range, slot: u64, crcs: &[u32], superblock: &Superblock) {
    let segments = superblock.serving.segments;
    let fits = range.offset.is_multiple_of(BLOCK_BYTES)
        && range.length == segments.head_bytes()
        && range.offset.is_multiple_of(segments.segment_bytes())
        && range.end() <= superblock.disk_bytes
        && slot < u64::from(segments.slots);
    if fits {
        map.heads.replay(range, slot as u32, crcs);
    } else {
        map.heads.replay_end(range);
    }
}

/// Applies a record to the map; `bad` says which blocks of its payload are lost.
fn apply(map: &mut LogMap, header: &Header, block: u32, bad: &mut [bool], superblock: &Superblock) {
    let mut index = 0;
    for entry in &header.entries {
        match entry.kind {
            Kind::Data => {
                map.heads.replay_end(entry.range);
                let blocks = blocks_of(entry.range) as usize;
                let payload = block + 1 + index as u32;
                map.put_payload(entry.range, payload, &header.crcs[index..index + blocks], header.seq);
                let first = entry.range.offset / BLOCK_BYTES;
                for (number, bad) in bad.iter().skip(index).take(blocks).enumerate() {
                    if *bad {
                        let whole = Range::new((first + number as u64) * BLOCK_BYTES, BLOCK_BYTES);
                        map.put_placeless(whole.intersection(entry.range), Content::Damaged, header.seq);
                    }
                }
                index += blocks;
            }
            Kind::Zero => {
                map.heads.replay_end(entry.range);
                map.put_placeless(entry.range, Content::Zeros, header.seq);
            }
            Kind::Clean { upto } => map.carve_up_to(entry.range, upto, header.seq),
            Kind::Head { slot } => {
                let blocks = blocks_of(entry.range) as usize;
                put_head(map, entry.range, slot, &header.crcs[index..index + blocks], superblock);
                index += blocks;
            }
            Kind::NoHead => map.heads.replay_end(entry.range),
            Kind::Pad => {}
        }
    }
}
