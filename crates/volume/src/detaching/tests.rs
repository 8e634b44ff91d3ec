//! Detaching, with the flash and without it, on files.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use headstart_block::engine::{Engine, Settings};
use headstart_block::layout::GUARD_BLOCKS_MAX;
use headstart_block::order::Request;
use headstart_block::recovery;
use headstart_block::superblock::Serving;
use headstart_policy::server::AddressOrder;
use headstart_units::request::Range;
use tempfile::TempDir;

use super::*;
use crate::device::DeviceName;
use crate::ends::{Ends, Reading};
use crate::pair::{Access, OpenDevice, Pair};
use crate::survey::{self, Verdict};
use crate::synchronous::Synchronous;

const DISK_BYTES: u64 = (8 << 20) + 512;

/// A disk with an XFS superblock and bytes that tell their place, and flash with a volume.
struct Bench {
    directory: TempDir,
    expected: Vec<u8>,
}

impl Bench {
    fn new() -> Bench {
        let directory = tempfile::tempdir().unwrap();
        let mut expected: Vec<u8> =
            (0..DISK_BYTES).map(|at| if at % 8192 < 4096 { 0 } else { (at / 4096) as u8 }).collect();
        expected[..8].copy_from_slice(b"XFSB\0\0\x10\0");
        expected[102..104].copy_from_slice(&[2, 0]);
        fs::write(directory.path().join("disk"), &expected).unwrap();
        File::create(directory.path().join("flash")).unwrap().set_len(16 << 20).unwrap();
        let bench = Bench { directory, expected };
        let mut pair = bench.pair();
        let given = pair.given(true, None);
        assert_eq!(recovery::create(&mut pair, &given, [1; 16], GUARD_BLOCKS_MAX, Serving::default()), Ok(true));
        bench
    }

    fn name(&self, of: &str) -> DeviceName {
        DeviceName::Path(self.directory.path().join(of))
    }

    fn pair(&self) -> Pair {
        Pair::open(&self.name("disk"), &self.name("flash")).unwrap()
    }

    /// Serves, writes the same bytes at each place, and dies.
    fn write_and_die(&mut self, places: &[(u64, u64)], zeros: &[(u64, u64)]) {
        let mut pair = self.pair();
        let given = pair.given(true, None);
        let recovered = recovery::attach(&mut pair, &given).unwrap();
        let engine = Engine::new(recovered, AddressOrder::default(), Settings::default());
        let mut volume = Synchronous::new(&mut pair, engine);
        for (index, (offset, length)) in places.iter().enumerate() {
            let data = vec![0xa0 + index as u8; *length as usize];
            volume.request(Request::Write { offset: *offset, data: &data, fua: false }).unwrap();
            self.expected[*offset as usize..(offset + length) as usize].copy_from_slice(&data);
        }
        for (offset, length) in zeros {
            volume.request(Request::Zero { range: Range::new(*offset, *length), fua: false }).unwrap();
            self.expected[*offset as usize..(offset + length) as usize].fill(0);
        }
        volume.request(Request::Flush).unwrap();
        let whole = volume.request(Request::Read(Range::new(0, DISK_BYTES))).unwrap();
        assert!(whole == self.expected, "the volume reads as it was written");
    }

    fn look(&self) -> survey::Survey {
        let mut pair = Pair::open_for(Access::Look, &self.name("disk"), &self.name("flash")).unwrap();
        survey::look(&mut pair, true).unwrap()
    }

    fn disk(&self) -> OpenDevice {
        OpenDevice::open(&self.name("disk"), headstart_block::devices::Device::Disk, Access::Serve).unwrap()
    }

    fn bytes(&self, of: &str) -> Vec<u8> {
        fs::read(self.directory.path().join(of)).unwrap()
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

#[test]
fn a_detached_disk_has_every_byte_and_looking_changes_none() {
    let mut bench = Bench::new();
    bench.write_and_die(&[(0, 4096), (512, 512), (3 << 20, 1 << 20), (DISK_BYTES - 1024, 1024)], &[(4 << 20, 8192)]);
    let (disk, flash) = (bench.bytes("disk"), bench.bytes("flash"));
    let found = bench.look();
    assert_eq!((found.verdict, found.lost_bytes), (Verdict::Dirty, 0));
    assert_eq!(found.dirty, [(0, 4096), (3 << 20, (1 << 20) + 8192), (DISK_BYTES - 1024, 1024)]);
    assert_eq!(found.guard.unwrap().state, "on");
    assert!(bench.bytes("disk") == disk && bench.bytes("flash") == flash, "looking writes nothing");

    let written_back_bytes = 4096 + (1 << 20) + 8192 + 1024;
    assert_eq!(detach(&mut bench.pair()), Ok(Detached::Plain { written_back_bytes }));
    assert!(bench.bytes("disk") == bench.expected);
    let found = bench.look();
    assert_eq!((found.verdict, found.volume.unwrap().detached), (Verdict::Clean, true));
}

#[test]
fn a_damaged_record_is_named_with_what_later_ones_say() {
    let mut bench = Bench::new();
    bench.write_and_die(&[(2 << 20, 8192), (5 << 20, 4096)], &[]);
    let found = bench.look();
    let log = found.extents.unwrap()[0].flash_offset.unwrap() / 4096 - 1;
    let records = found.records.unwrap();
    assert_eq!(records.iter().map(|record| record.bad_blocks).sum::<u64>(), 0);
    // A second FLUSH, so that a later record says that the first was durable.
    let mut pair = bench.pair();
    let given = pair.given(true, None);
    let recovered = recovery::attach(&mut pair, &given).unwrap();
    let engine = Engine::new(recovered, AddressOrder::default(), Settings::default());
    let mut volume = Synchronous::new(&mut pair, engine);
    for offset in [3 << 20, 6 << 20, 7 << 20] {
        volume.request(Request::Write { offset, data: &[7; 4096], fua: true }).unwrap();
    }
    drop(pair);
    let first = &bench.look().records.unwrap()[0];
    let header = (log + u64::from(first.block - records[0].block)) * 4096;
    File::options().write(true).open(bench.path().join("flash")).unwrap().write_all_at(b"rot", header + 100).unwrap();
    let found = bench.look();
    assert_eq!(found.verdict, Verdict::Damaged);
    assert!(found.refusal.as_ref().unwrap().contains(&format!("record {}", first.seq)), "{found:?}");
    assert_eq!(found.doubted, [(6 << 20, 4096), (7 << 20, 4096)]);
}

#[test]
fn a_damaged_block_below_the_checkpoint_is_lost_by_name_and_keeps_the_volume() {
    let mut bench = Bench::new();
    bench.write_and_die(&[(2 << 20, 8192), (5 << 20, 4096)], &[]);
    // The next start puts both below its checkpoint.
    bench.write_and_die(&[], &[]);
    let extents = bench.look().extents.unwrap();
    let flash = File::options().write(true).open(bench.path().join("flash")).unwrap();
    flash.write_all_at(b"rot", extents[0].flash_offset.unwrap() + 4096 + 17).unwrap();
    let found = bench.look();
    let lost = ((2 << 20) + 4096, 4096);
    assert_eq!((found.verdict, &found.lost[..], found.lost_bytes), (Verdict::Damaged, &[lost][..], 4096));
    assert_eq!(found.dirty_bytes, 12288);
    let Ok(Detached::Kept { left }) = detach(&mut bench.pair()) else { panic!("it holds lost bytes") };
    assert!(left.iter().any(|(offset, length)| *offset <= lost.0 && lost.0 < offset + length), "{left:?}");
    assert!(!left.iter().any(|(offset, _)| *offset == 5 << 20), "{left:?}");
}

#[test]
fn without_flash_the_guard_comes_off_and_an_interrupted_try_is_ended() {
    let mut bench = Bench::new();
    bench.write_and_die(&[], &[]);
    let guarded = bench.bytes("disk");
    assert!(guarded != bench.expected);
    fs::remove_file(bench.path().join("flash")).unwrap();
    let disk = bench.disk();
    let ends = Ends::read(&disk).unwrap();
    let Reading::Guarded(session, found) = ends.judge() else { panic!("{:?}", ends.judge()) };
    assert_eq!(found, ["XFS"]);
    assert!(!resume(&disk, &ends, bench.path()).unwrap());

    // Interrupted: the copy is there, and some sectors are plain.
    let copies = || fs::read_dir(bench.path()).unwrap().count();
    let before = copies();
    undo_guard(&disk, &ends, session, bench.path()).unwrap();
    assert!(bench.bytes("disk") == bench.expected);
    assert_eq!(copies(), before);
    let kept = bench.path().join("kept");
    fs::write(&kept, forced::encode(&disk, &ends, session)).unwrap();
    let copy = forced::copy_path(&disk, bench.path());
    fs::rename(&kept, &copy).unwrap();
    let mut half = guarded.clone();
    for at in (0..half.len()).step_by(1536) {
        let sector = at..(at + 512).min(half.len());
        half[sector.clone()].copy_from_slice(&bench.expected[sector]);
    }
    let file = File::options().write(true).open(bench.path().join("disk")).unwrap();
    file.write_all_at(&half, 0).unwrap();
    let torn = Ends::read(&disk).unwrap();
    assert_eq!(torn.judge(), Reading::Mixed(session));
    assert!(resume(&disk, &torn, bench.path()).unwrap());
    assert!(bench.bytes("disk") == bench.expected);
    assert!(!copy.exists());

    // A copy of another time is not used.
    fs::write(&copy, forced::encode(&disk, &ends, session)).unwrap();
    file.write_all_at(&[9; 512], 8192).unwrap();
    let changed = Ends::read(&disk).unwrap();
    assert!(matches!(resume(&disk, &changed, bench.path()), Err(ForcedError::Stale(_))));
    assert_eq!(bench.bytes("disk")[8192..8704], [9; 512]);
}
