//! How long a start takes on a slice that is full, and its memory.
//!
//! `recovery make DIRECTORY [GB [PER_RECORD]]` writes the files of a volume whose log is full of isolated
//! blocks of 4 KiB, so many to a record: nearly all of them in the checkpoint, as many behind it as the
//! engine lets gather before it makes another. Both files are sparse. `recovery attach DIRECTORY` starts the
//! volume once and prints one JSON object. Apart, so that memory is that of the start alone.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use headstart_block::checkpoint::{Encoder, Extent, Stored};
use headstart_block::devices::{Device, Devices};
use headstart_block::engine::Settings;
use headstart_block::guard::write_superblock;
use headstart_block::record::{Entry, Header, Kind};
use headstart_block::recovery;
use headstart_block::recovery::Recovered;
use headstart_block::superblock::{Serving, Superblock};
use headstart_units::BLOCK_BYTES;
use headstart_units::ranges::Ranges;
use headstart_units::request::Range;
use headstart_volume::device::DeviceName;
use headstart_volume::pair::Pair;

/// Bytes written at once.
const CHUNK_BYTES: usize = 1 << 20;
/// The first block that a record takes: a ring is never quite full.
const FIRST_BLOCK: u64 = 2;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |index: usize, default: u64| arguments.get(index).map_or(default, |text| text.parse().expect("a number"));
    let directory = Path::new(arguments.get(1).expect("make or attach, and a directory"));
    match arguments[0].as_str() {
        "make" => make(directory, number(2, 64) * 1_000_000_000, number(3, 1)),
        "attach" => println!("{}", attach(directory)),
        other => panic!("'{other}' is neither make nor attach"),
    }
}

fn open(directory: &Path) -> Pair {
    let name = |file: &str| DeviceName::Path(directory.join(file));
    Pair::open(&name("disk"), &name("flash")).expect("the files can be opened")
}

/// What a log is full of.
struct Fill {
    superblock: Superblock,
    per_record: u64,
    /// Records of the checkpoint, and behind it.
    below: u64,
    above: u64,
    crc: u32,
}

impl Fill {
    fn new(superblock: &Superblock, per_record: u64) -> Fill {
        let blocks = 1 + per_record;
        let replayed = u64::from(Settings::default().checkpoint_every_blocks);
        let ring = superblock.layout().ring_blocks;
        let replayed = replayed.min(ring / 4);
        let below = (ring - replayed - FIRST_BLOCK) / blocks;
        let above = (ring - FIRST_BLOCK) / blocks - below;
        let superblock = superblock.clone();
        Fill { superblock, per_record, below, above, crc: crc32c::crc32c(&[0; BLOCK_BYTES as usize]) }
    }

    fn extents(&self) -> u64 {
        (self.below + self.above) * self.per_record
    }

    /// Addresses follow places in strides, so that neighbours on the disk are nowhere near each other on flash.
    fn stride(&self) -> u64 {
        let common = |mut a: u64, mut b: u64| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let near = self.extents() * 618 / 1000;
        (near..).find(|stride| common(*stride, self.extents()) == 1).expect("some number is prime to another")
    }

    /// Every other block of the disk behind its guarded begin.
    fn range(&self, index: u64) -> Range {
        let at = u128::from(index) * u128::from(self.stride()) % u128::from(self.extents());
        Range::new((1 << 21) + at as u64 * 2 * BLOCK_BYTES, BLOCK_BYTES)
    }

    fn block(&self, seq: u64) -> u64 {
        FIRST_BLOCK + (seq - 1) * (1 + self.per_record)
    }

    /// The checkpoint's bytes, in the order of addresses.
    fn write_checkpoint(&mut self, pair: &mut Pair) {
        // What times the stride is one more than a multiple of all: the index of the second address.
        let all = i128::from(self.extents());
        let (mut old, mut new) = ((i128::from(self.stride()), 1i128), (all, 0i128));
        while new.0 != 0 {
            let times = old.0 / new.0;
            (old, new) = (new, (old.0 - times * new.0, old.1 - times * new.1));
        }
        let step = old.1.rem_euclid(all) as u64;
        let offset = self.superblock.layout().checkpoint_offset(self.superblock.area);
        let (mut index, mut crc, mut bytes, mut written) = (0, 0, Vec::new(), 0);
        for at in 0..=self.extents() {
            if at < self.extents() && index < self.below * self.per_record {
                let seq = 1 + index / self.per_record;
                let block = self.block(seq) + 1 + index % self.per_record;
                let content = Stored::Payload { block: block as u32 };
                Extent { range: self.range(index), seq, content }.encode(&[self.crc], &mut bytes);
            }
            index = (index + step) % self.extents();
            if bytes.len() >= CHUNK_BYTES || at == self.extents() {
                let whole = if at < self.extents() { CHUNK_BYTES } else { bytes.len() };
                let mut chunk: Vec<u8> = bytes.drain(..whole).collect();
                crc = crc32c::crc32c_append(crc, &chunk);
                self.superblock.checkpoint_bytes = written + chunk.len() as u64;
                chunk.resize(chunk.len().next_multiple_of(BLOCK_BYTES as usize), 0);
                pair.write(Device::Flash, offset + written, &chunk).expect("the flash can be written");
                written += chunk.len() as u64;
            }
        }
        self.superblock.checkpoint_crc = crc;
    }

    fn write_records(&self, pair: &mut Pair) {
        let offset = |seq| self.superblock.layout().ring_offset(self.block(seq) as u32);
        let first = self.below + 1;
        let (mut bytes, mut from) = (Vec::new(), first);
        for seq in first..first + self.above {
            let index = (seq - 1) * self.per_record;
            let entry = |index| Entry { kind: Kind::Data, range: self.range(index) };
            let header = Header {
                uuid: self.superblock.uuid,
                epoch: self.superblock.epoch,
                seq,
                durable_to: seq - 1,
                superblock: self.superblock.number,
                entries: (index..index + self.per_record).map(entry).collect(),
                crcs: vec![self.crc; self.per_record as usize],
            };
            bytes.extend_from_slice(&header.encode());
            bytes.resize(bytes.len() + (self.per_record * BLOCK_BYTES) as usize, 0);
            if bytes.len() >= CHUNK_BYTES || seq + 1 == first + self.above {
                pair.write(Device::Flash, offset(from), &bytes).expect("the flash can be written");
                bytes.clear();
                from = seq + 1;
            }
        }
    }
}

fn make(directory: &Path, flash_bytes: u64, per_record: u64) {
    for (name, bytes) in [("disk", 4 * flash_bytes), ("flash", flash_bytes)] {
        let file = File::create(directory.join(name)).expect("the directory takes files");
        file.set_len(bytes / BLOCK_BYTES * BLOCK_BYTES).expect("the file system knows sparse files");
    }
    let mut pair = open(directory);
    let given = pair.given(true, None);
    recovery::create(&mut pair, &given, [7; 16], 256, Serving::default()).expect("the files can be written");
    let Recovered { superblock, .. } = recovery::attach(&mut pair, &given).expect("a new volume is attached");
    let mut fill = Fill::new(&superblock, per_record);
    fill.superblock.area = 1 - fill.superblock.area;
    fill.superblock.start_seq = fill.below + 1;
    fill.superblock.start_block = fill.block(fill.superblock.start_seq) as u32;
    fill.write_checkpoint(&mut pair);
    fill.write_records(&mut pair);
    write_superblock(&mut pair, &mut fill.superblock).expect("the flash can be written");
}

/// The most memory this process has had, in bytes.
fn memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says how it is");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("with its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("in kB") << 10
}

fn attach(directory: &Path) -> serde_json::Value {
    let mut pair = open(directory);
    let given = pair.given(true, None);
    let before = memory_bytes();
    let begun = Instant::now();
    recovery::read(&mut pair, &given).expect("the volume can be read");
    let read_seconds = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let Recovered { superblock, map } = recovery::attach(&mut pair, &given).expect("the volume is attached");
    let seconds = begun.elapsed().as_secs_f64();
    // What a checkpoint takes of the processor while the volume serves, and nothing is appended.
    let begun = Instant::now();
    let mut encoder = Encoder::new(Ranges::default(), &map.heads);
    while !encoder.has_ended() {
        encoder.chunk(&map, CHUNK_BYTES);
    }
    serde_json::json!({
        "seconds": seconds,
        "encode_seconds": begun.elapsed().as_secs_f64(),
        "read_seconds": read_seconds,
        "memory_bytes": memory_bytes() - before,
        "flash_bytes": superblock.flash_bytes,
        "extents": map.extents(),
        "dirty_bytes": map.dirty_bytes(),
        "free_blocks": map.ring.free_blocks(),
        "checkpoint_bytes": superblock.checkpoint_bytes,
    })
}
