//! What a volume has on flash: blocks of any bytes, and whole slices whose superblocks, checkpoints and
//! records say anything.

use headstart_block::checkpoint::Extent;
use headstart_block::devices::{Device, Devices, Failed};
use headstart_block::engine::{Engine, Settings};
use headstart_block::order::Request;
use headstart_block::record::{Entry, Header, Kind};
use headstart_block::recovery;
use headstart_block::recovery::Given;
use headstart_block::superblock::{Found, GuardState, Serving, Superblock};
use headstart_policy::server::AddressOrder;
use headstart_units::Nanos;
use headstart_units::request::Range;

use super::source::Source;

const BLOCK: usize = 4096;
const DISK_BYTES: u64 = 1 << 16;
const FLASH_BYTES: u64 = 48 * BLOCK as u64;
const UUID: [u8; 16] = [5; 16];

/// One block, and a stream of extents; their checksums are made right, so that what lies behind them is reached.
pub fn blocks(bytes: &[u8]) {
    let mut block = [0; BLOCK];
    let length = bytes.len().min(BLOCK);
    block[..length].copy_from_slice(&bytes[..length]);
    for (magic, crc_at) in [(*b"HSVSUP01", 136), (*b"HSVLOG01", 60)] {
        block[..8].copy_from_slice(&magic);
        block[crc_at..crc_at + 4].fill(0);
        let crc = crc_of(&block).to_le_bytes();
        block[crc_at..crc_at + 4].copy_from_slice(&crc);
        if let Found::Valid(superblock) = Superblock::decode(&block) {
            assert_eq!(Superblock::decode(&superblock.encode()), Found::Valid(superblock));
        }
        if let Some(header) = Header::decode(&block) {
            assert_eq!(Header::decode(&header.encode()), Some(header));
        }
    }
    let mut rest = bytes;
    while let Ok(Some((extent, crcs))) = Extent::decode(rest) {
        let mut again = Vec::new();
        extent.encode(&crcs.iter().collect::<Vec<_>>(), &mut again);
        let used = extent.encoded_bytes();
        assert_eq!(again[..], rest[..used]);
        rest = &rest[used..];
    }
}

/// CRC32C by the polynomial: the tests have no other of their own.
fn crc_of(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 })
    })
}

struct Memory {
    disk: Vec<u8>,
    flash: Vec<u8>,
}

impl Memory {
    fn of(&mut self, device: Device) -> &mut Vec<u8> {
        match device {
            Device::Disk => &mut self.disk,
            Device::Flash => &mut self.flash,
        }
    }
}

impl Devices for Memory {
    fn read(&mut self, device: Device, offset: u64, bytes: &mut [u8]) -> Result<(), Failed> {
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        bytes.copy_from_slice(&self.of(device)[from..to]);
        Ok(())
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), Failed> {
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        self.of(device)[from..to].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self, _device: Device) -> Result<(), Failed> {
        Ok(())
    }
}

/// A slice whose checksums are right and that says anything: it is refused, or served and read without a panic.
pub fn slices(bytes: &[u8]) {
    let mut source = Source(bytes);
    let mut memory = Memory { disk: vec![0; DISK_BYTES as usize], flash: vec![0; FLASH_BYTES as usize] };
    let given = Given { disk: [0; 32], disk_bytes: DISK_BYTES, flash_bytes: FLASH_BYTES, uuid: None, absorbs: true };
    assert_eq!(recovery::create(&mut memory, &given, UUID, 1, Serving::default()), Ok(true));
    let Ok(recovered) = recovery::attach(&mut memory, &given) else { panic!("a new volume is attached") };
    let mut superblock = recovered.superblock;
    let layout = superblock.layout();
    if source.flag() {
        superblock.start_block = source.below(layout.ring_blocks as u32);
        superblock.start_seq = 1 + source.number() % 1000;
    }
    let checkpoint = checkpoint(&mut source, superblock.start_seq);
    if checkpoint.len() as u64 <= layout.checkpoint_bytes() {
        memory.write(Device::Flash, layout.checkpoint_offset(superblock.area), &checkpoint).expect("it has room");
        superblock.checkpoint_bytes = checkpoint.len() as u64;
        superblock.checkpoint_crc = crc_of(&checkpoint);
    }
    if source.below(8) == 0 {
        superblock.guard.state = GuardState::Applying;
    }
    superblock.number += 1;
    let offset = layout.superblock_offset(superblock.number);
    memory.write(Device::Flash, offset, &superblock.encode()).expect("it has room");
    let (mut at, mut seq) = (superblock.start_block, superblock.start_seq);
    while !source.is_empty() {
        let header = record(&mut source, &superblock, seq);
        let block = if source.below(12) == 0 { source.below(layout.ring_blocks as u32) } else { at };
        memory.write(Device::Flash, layout.ring_offset(block), &header.encode()).expect("it is one block");
        at = (u64::from(at).saturating_add(header.blocks()) % layout.ring_blocks) as u32;
        seq += 1;
    }
    let Ok(recovered) = recovery::attach(&mut memory, &given) else { return };
    // The same again, now that nothing is left to be decided.
    let again = recovery::attach(&mut memory, &given).expect("what was attached once is attached again");
    for sector in 0..DISK_BYTES / 512 {
        let range = Range::new(sector * 512, 512);
        assert_eq!(again.map.pieces(range), recovered.map.pieces(range), "sector {sector}");
    }
    let mut engine = Engine::new(again, AddressOrder::default(), Settings::default());
    engine.on_request(Nanos::ZERO, 1, Request::Read(Range::new(0, DISK_BYTES)));
    engine.on_request(Nanos::ZERO, 2, Request::Write { offset: 0, data: &[1; 2 * BLOCK], fua: true });
    engine.on_request(Nanos::ZERO, 3, Request::Zero { range: Range::new(0, DISK_BYTES), fua: false });
    engine.stop(Nanos::ZERO, false);
    engine.take_outputs();
}

fn range(source: &mut Source<'_>) -> Range {
    if source.below(10) == 0 {
        return Range::new(source.number() & !511, source.number() & !511);
    }
    Range::new(u64::from(source.below(128)) * 512, (1 + u64::from(source.below(20))) * 512)
}

fn checkpoint(source: &mut Source<'_>, start_seq: u64) -> Vec<u8> {
    use headstart_block::checkpoint::Stored;
    let mut bytes = Vec::new();
    let mut at = 0u64;
    for _ in 0..source.below(5) {
        let found = range(source);
        let found = if source.below(10) == 0 {
            found
        } else {
            Range::new(at.saturating_add(found.offset % 8192), found.length)
        };
        at = found.end();
        let blocks = found.end().div_ceil(4096).saturating_sub(found.offset / 4096).min(600);
        let (content, crcs) = match source.below(4) {
            0 => (Stored::Zeros, vec![]),
            1 => (Stored::Damaged, vec![]),
            _ => (Stored::Payload { block: source.below(44) }, vec![0; blocks as usize]),
        };
        let seq = start_seq.saturating_sub(u64::from(source.below(20)));
        Extent { range: found, seq, content }.encode(&crcs, &mut bytes);
    }
    bytes
}

fn record(source: &mut Source<'_>, superblock: &Superblock, seq: u64) -> Header {
    let (mut entries, mut crcs) = (Vec::new(), Vec::new());
    for _ in 0..1 + source.below(3) {
        let range = range(source);
        let kind = match source.below(9) {
            0..=3 if range.length < 1 << 16 => {
                let blocks = range.end().div_ceil(4096) - range.offset / 4096;
                // The checksum of a block of zeros, or another one.
                let crc = if source.below(20) == 0 { 1 } else { crc_of(&[0; BLOCK]) };
                crcs.resize(crcs.len() + blocks as usize, crc);
                Kind::Data
            }
            4 => Kind::Zero,
            5 => Kind::Clean { upto: seq.saturating_sub(u64::from(source.below(4))) },
            6 => Kind::Head { slot: source.number() >> 8 },
            7 => Kind::Pad,
            _ => Kind::NoHead,
        };
        entries.push(Entry { kind, range });
    }
    if source.below(6) == 0 {
        entries = vec![Entry { kind: Kind::Pad, range: Range::new(0, u64::from(source.below(44)) * 4096) }];
        crcs.clear();
    }
    let durable_to = if source.below(6) == 0 { source.number() } else { seq.saturating_sub(2) };
    let epoch = if source.below(30) == 0 { superblock.epoch - 1 } else { superblock.epoch };
    Header { uuid: UUID, epoch, seq, durable_to, superblock: superblock.number, entries, crcs }
}
