//! Opening devices: who they are, who has them, and what is refused.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use headstart_block::devices::{Device, Devices};
use tempfile::TempDir;

use super::*;

fn name(path: &Path) -> DeviceName {
    DeviceName::Path(path.to_owned())
}

fn file(directory: &TempDir, name: &str, bytes: u64) -> PathBuf {
    let path = directory.path().join(name);
    File::create(&path).unwrap().set_len(bytes).unwrap();
    path
}

fn opened(path: &Path) -> OpenDevice {
    OpenDevice::open(&name(path), Device::Disk, Access::Look).unwrap()
}

#[test]
fn bytes_are_read_and_written_at_any_place_up_to_the_end_and_not_beyond() {
    let directory = tempfile::tempdir().unwrap();
    let (disk, flash) = (file(&directory, "disk", (4 << 20) + 512), file(&directory, "flash", 8 << 20));
    let mut pair = Pair::open(&name(&disk), &name(&flash)).unwrap();
    for (device, end) in [(Device::Disk, (4u64 << 20) + 512), (Device::Flash, 8 << 20)] {
        for (offset, length) in [(0, 4096), (512, 512), (1, 3), (4095, 4098), (end - 513, 513), (end - 1, 1)] {
            let bytes: Vec<u8> = (0..length).map(|index| (index % 251 + 1) as u8).collect();
            pair.write(device, offset, &bytes).unwrap();
            let mut read = vec![0; length];
            pair.read(device, offset, &mut read).unwrap();
            assert_eq!(read, bytes, "{device:?} {offset}+{length}");
        }
        pair.flush(device).unwrap();
        let failed = pair.read(device, end - 100, &mut [0; 512]).unwrap_err();
        assert_eq!((failed.device, failed.action, failed.offset), (device, "read", end - 100));
        assert!(pair.describe(failed).contains(pair.device(device).name.to_string().as_str()));
    }
    assert_eq!(fs::metadata(&disk).unwrap().len(), (4 << 20) + 512);
}

#[test]
fn a_file_keeps_its_identity_and_its_copy_has_another() {
    let directory = tempfile::tempdir().unwrap();
    let one = file(&directory, "one", 4 << 20);
    let identity = opened(&one).identity;
    assert_eq!(opened(&one).identity, identity);
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("one", &link).unwrap();
    assert_eq!(opened(&link).identity, identity);
    let copy = directory.path().join("copy");
    fs::copy(&one, &copy).unwrap();
    assert_ne!(opened(&copy).identity, identity);
    assert!(opened(&one).identity_text().starts_with("file:"));
}

#[test]
fn a_volume_is_opened_once_and_the_refusal_names_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let (disk, flash, other) =
        (file(&directory, "disk", 4 << 20), file(&directory, "flash", 4 << 20), file(&directory, "other", 4 << 20));
    let pair = Pair::open(&name(&disk), &name(&flash)).unwrap();
    for (disk, flash) in [(&disk, &flash), (&other, &flash), (&disk, &other)] {
        for access in [Access::Serve, Access::Look] {
            let refused = Pair::open_for(access, &name(disk), &name(flash)).unwrap_err().to_string();
            assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        }
    }
    drop(pair);
    let looks = [(); 2].map(|()| Pair::open_for(Access::Look, &name(&disk), &name(&flash)).unwrap());
    assert!(Pair::open(&name(&disk), &name(&flash)).is_err(), "others look at it");
    drop(looks);
    Pair::open(&name(&disk), &name(&flash)).unwrap();
}

#[test]
fn what_is_no_device_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let flash = name(&file(&directory, "flash", 4 << 20));
    let refused = |disk: &Path| {
        let error = Pair::open(&name(disk), &flash).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: ", disk.display())), "{error}");
        error
    };
    assert!(refused(&directory.path().join("none")).contains("no such device or file"));
    assert!(refused(directory.path()).contains("directory"));
    assert!(refused(Path::new("/dev/null")).contains("neither a block device nor a file"));
    assert!(refused(&file(&directory, "small", 4096)).contains("4096 bytes, a disk needs at least 2097152"));
    assert!(refused(&file(&directory, "ragged", (4 << 20) + 1)).contains("no multiple of 512"));
    let little = name(&file(&directory, "little", 1 << 20));
    let disk = name(&file(&directory, "disk", 4 << 20));
    assert!(Pair::open(&disk, &little).unwrap_err().to_string().contains("a slice of flash needs at least"));
}

#[test]
fn the_same_bytes_under_two_names_are_no_volume() {
    let directory = tempfile::tempdir().unwrap();
    let one = file(&directory, "one", 4 << 20);
    let (hard, soft) = (directory.path().join("hard"), directory.path().join("soft"));
    fs::hard_link(&one, &hard).unwrap();
    std::os::unix::fs::symlink("one", &soft).unwrap();
    for other in [&one, &hard, &soft] {
        let refused = Pair::open(&name(&one), &name(other)).unwrap_err();
        assert!(matches!(refused.problem, Problem::Same { .. }), "{refused}");
    }
}

/// Bytes that tell their places apart.
fn pattern(offset: u64, length: usize) -> Vec<u8> {
    (offset..offset + length as u64).map(|at| (at / 512 * 7 + at % 251) as u8).collect()
}

#[test]
fn what_is_read_ahead_is_what_lies_there_in_any_order_and_after_a_write() {
    let directory = tempfile::tempdir().unwrap();
    let (disk, flash) = (file(&directory, "disk", 4 << 20), file(&directory, "flash", 16 << 20));
    let mut pair = Pair::open(&name(&disk), &name(&flash)).unwrap();
    pair.write(Device::Flash, 0, &pattern(0, 16 << 20)).unwrap();
    let range = Range::between(8192, (15 << 20) - 100);
    let next = |pair: &mut Pair, at: &mut u64, length: usize| {
        let mut read = vec![0; length];
        pair.read(Device::Flash, *at, &mut read).unwrap();
        *at += length as u64;
        read
    };
    // Chunks, parts of them, more than one; jumps; and the rest behind the range.
    let lengths = [1 << 20, 3, 700_000, 2 << 20, 1, 4096, (1 << 20) - 1, 3 << 20, (1 << 20) + 5];
    for jump in [None, Some(3)] {
        pair.read_ahead(Device::Flash, range);
        let mut at = range.offset;
        for (index, length) in lengths.into_iter().enumerate() {
            at += if jump == Some(index) { 4096 } else { 0 };
            let from = at;
            assert!(next(&mut pair, &mut at, length) == pattern(from, length), "{length} bytes at {from}");
        }
        let (from, rest) = (at, ((16 << 20) - at) as usize);
        assert!(next(&mut pair, &mut at, rest) == pattern(from, rest));
    }
    pair.read_ahead(Device::Flash, range);
    let mut at = range.offset;
    next(&mut pair, &mut at, 100);
    pair.write(Device::Flash, at, &[9; 1 << 20]).unwrap();
    assert!(next(&mut pair, &mut at, 1 << 20) == [9; 1 << 20]);
}

#[test]
fn what_is_written_behind_is_there_for_whoever_comes_next() {
    let directory = tempfile::tempdir().unwrap();
    let (disk, flash) = (file(&directory, "disk", 4 << 20), file(&directory, "flash", 16 << 20));
    let mut pair = Pair::open(&name(&disk), &name(&flash)).unwrap();
    for round in 0..3u8 {
        for chunk in 0..12u64 {
            pair.write_behind(Device::Flash, chunk << 20, vec![round + chunk as u8; 1 << 20]).unwrap();
        }
        match round {
            0 => pair.flush(Device::Flash).unwrap(),
            1 => pair.write(Device::Flash, 13 << 20, &[1; 4096]).unwrap(),
            _ => pair.read_ahead(Device::Flash, Range::new(0, 12 << 20)),
        }
        for chunk in 0..12u64 {
            let mut read = vec![0; 1 << 20];
            pair.read(Device::Flash, chunk << 20, &mut read).unwrap();
            assert!(read.iter().all(|byte| *byte == round + chunk as u8), "chunk {chunk} of round {round}");
        }
    }
}

#[test]
fn a_write_that_fails_behind_is_told_by_the_flush() {
    let directory = tempfile::tempdir().unwrap();
    let (disk, flash) = (file(&directory, "disk", 4 << 20), file(&directory, "flash", 8 << 20));
    // Opened for reading alone.
    let mut pair = Pair::open_for(Access::Look, &name(&disk), &name(&flash)).unwrap();
    pair.write_behind(Device::Flash, 8192, vec![1; 4096]).unwrap();
    let failed = pair.flush(Device::Flash).unwrap_err();
    assert_eq!((failed.device, failed.action, failed.offset), (Device::Flash, "write", 8192));
    assert_eq!(pair.flush(Device::Flash), Ok(()), "it is told once");
}

#[test]
fn a_pair_that_was_read_ahead_is_free_when_it_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let (disk, flash) = (file(&directory, "disk", 4 << 20), file(&directory, "flash", 64 << 20));
    for _ in 0..20 {
        let mut pair = Pair::open(&name(&disk), &name(&flash)).unwrap();
        pair.read_ahead(Device::Flash, Range::new(0, 64 << 20));
        pair.write_behind(Device::Disk, 0, vec![1; 1 << 20]).unwrap();
    }
}
