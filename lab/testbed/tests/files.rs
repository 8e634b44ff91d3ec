//! Data in files: what POSIX promises to programs that read, write, append, truncate and map.

#[path = "support/testbed.rs"]
mod testbed;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::process::Command;

use testbed::{Testbed, in_child};

fn open(path: &std::path::Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn seek(file: &File, offset: i64, whence: i32) -> i64 {
    // SAFETY: the file is open.
    unsafe { libc::lseek(file.as_raw_fd(), offset, whence) }
}

#[test]
fn bytes_written_are_read_back_from_both_directories_and_live_in_the_backing_one() {
    let Some(testbed) = Testbed::start() else { return };
    for (directory, name) in [(&testbed.slow, "slow"), (&testbed.fast, "fast")] {
        let bytes: Vec<u8> = (0..3_000_001u32).map(|i| ((i * 31) >> 3) as u8).collect();
        fs::write(directory.join("a"), &bytes).unwrap();
        assert_eq!(fs::read(directory.join("a")).unwrap(), bytes);
        assert_eq!(fs::read(testbed.backing.join(name).join("a")).unwrap(), bytes);
    }
}

#[test]
fn a_read_at_the_end_is_short_and_beyond_it_empty() {
    let Some(testbed) = Testbed::start() else { return };
    let file = open(&testbed.slow.join("a"));
    file.write_all_at(b"0123456789", 0).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(file.read_at(&mut buffer, 6).unwrap(), 4);
    assert_eq!(file.read_at(&mut buffer, 10).unwrap(), 0);
    assert_eq!(file.read_at(&mut buffer, 1 << 40).unwrap(), 0);
}

#[test]
fn a_write_larger_than_any_request_arrives_whole() {
    let Some(testbed) = Testbed::start() else { return };
    let bytes: Vec<u8> = (0..20_000_003u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let file = open(&testbed.slow.join("a"));
    file.write_all_at(&bytes, 5).unwrap();
    let mut read = vec![0; bytes.len()];
    file.read_exact_at(&mut read, 5).unwrap();
    assert!(read == bytes);
}

#[test]
fn o_direct_works() {
    let Some(testbed) = Testbed::start() else { return };
    let path = testbed.slow.join("a");
    let file =
        OpenOptions::new().write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
    file.write_all_at(&[7; 8192], 4096).unwrap();
    assert_eq!(fs::read(&path).unwrap()[4096..], [7; 8192]);
}

#[test]
fn appends_of_several_processes_do_not_overwrite_each_other() {
    let Some(testbed) = Testbed::start() else { return };
    let path = testbed.slow.join("log");
    File::create(&path).unwrap();
    let script = "i=0; while [ $i -lt 50 ]; do printf 'line %s %02d\\n' $0 $i >> \"$1\"; i=$((i+1)); done";
    let writers: Vec<_> =
        (0..4).map(|n| Command::new("sh").args(["-c", script, &n.to_string()]).arg(&path).spawn().unwrap()).collect();
    writers.into_iter().for_each(|mut writer| assert!(writer.wait().unwrap().success()));
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 200);
    assert!(lines.iter().all(|line| line.len() == "line 0 00".len()));
}

#[test]
fn truncation_cuts_and_extends_with_zeros() {
    let Some(testbed) = Testbed::start() else { return };
    let path = testbed.slow.join("a");
    fs::write(&path, [9; 10_000]).unwrap();
    let file = open(&path);
    file.set_len(5_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 5_000);
    file.set_len(6_000).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert!(bytes.len() == 6_000 && bytes[..5_000] == [9; 5_000] && bytes[5_000..] == [0; 1_000]);
    File::create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 0, "O_TRUNC");
}

#[test]
fn holes_are_kept_found_and_punched() {
    let Some(testbed) = Testbed::start() else { return };
    let file = open(&testbed.slow.join("sparse"));
    file.set_len(1 << 30).unwrap();
    file.write_all_at(&[1; 65536], 512 << 20).unwrap();
    assert!(file.metadata().unwrap().blocks() * 512 < 1 << 20);
    assert_eq!(seek(&file, 0, libc::SEEK_DATA), 512 << 20);
    assert_eq!(seek(&file, 512 << 20, libc::SEEK_HOLE), (512 << 20) + 65536);
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: the file is open.
    assert_eq!(unsafe { libc::fallocate(file.as_raw_fd(), mode, 512 << 20, 4096) }, 0);
    let mut buffer = [9; 8192];
    file.read_exact_at(&mut buffer, 512 << 20).unwrap();
    assert!(buffer[..4096] == [0; 4096] && buffer[4096..] == [1; 4096]);
}

#[test]
fn allocation_extends_a_file_unless_told_to_keep_its_size() {
    let Some(testbed) = Testbed::start() else { return };
    let file = open(&testbed.slow.join("a"));
    // SAFETY: the file is open.
    let allocate = |mode| unsafe { libc::fallocate(file.as_raw_fd(), mode, 0, 1 << 20) };
    assert_eq!(allocate(libc::FALLOC_FL_KEEP_SIZE), 0);
    assert_eq!(file.metadata().unwrap().len(), 0);
    assert_eq!(allocate(0), 0);
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    let mut buffer = [1; 4096];
    assert_eq!(file.read_at(&mut buffer, (1 << 20) - 4096).unwrap(), 4096, "the new size is known to reads");
}

#[test]
fn an_unlinked_file_lives_while_it_is_open() {
    let Some(testbed) = Testbed::start() else { return };
    let path = testbed.slow.join("a");
    let mut file = open(&path);
    file.write_all(b"before").unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!path.exists());
    file.write_all(b" after").unwrap();
    file.set_len(11).unwrap();
    let mut buffer = vec![0; 64];
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 11);
    assert_eq!(&buffer[..11], b"before afte");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
}

#[test]
fn a_file_renamed_over_another_replaces_it_and_the_old_one_lives_while_open() {
    let Some(testbed) = Testbed::start() else { return };
    let (old, new) = (testbed.slow.join("old"), testbed.slow.join("new"));
    fs::write(&old, "old").unwrap();
    fs::write(&new, "new").unwrap();
    let mut held = File::open(&old).unwrap();
    fs::rename(&new, &old).unwrap();
    assert_eq!(fs::read_to_string(&old).unwrap(), "new");
    assert!(!new.exists());
    let mut text = String::new();
    held.read_to_string(&mut text).unwrap();
    assert_eq!(text, "old");
}

fn try_lock(file: &File, start: i64, length: i64) -> i32 {
    // SAFETY: all-zero bytes are a valid flock.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_whence) = (libc::F_WRLCK as i16, libc::SEEK_SET as i16);
    (lock.l_start, lock.l_len) = (start, length);
    // SAFETY: the file is open and the lock valid.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &lock) }
}

#[test]
fn record_locks_exclude_other_processes_where_they_overlap() {
    let Some(testbed) = Testbed::start() else { return };
    let file = open(&testbed.slow.join("a"));
    assert_eq!(try_lock(&file, 0, 100), 0);
    assert_eq!(in_child(|| i32::from(try_lock(&file, 50, 10) == 0)), 0, "overlapping");
    assert_eq!(in_child(|| i32::from(try_lock(&file, 100, 10) == 0)), 1, "beside");
    drop(file);
    let file = open(&testbed.slow.join("a"));
    assert_eq!(in_child(|| i32::from(try_lock(&file, 50, 10) == 0)), 1, "released by close");
}

#[test]
fn shared_mappings_and_reads_see_each_other() {
    let Some(testbed) = Testbed::start() else { return };
    let file = open(&testbed.slow.join("a"));
    file.write_all_at(&[1; 8192], 0).unwrap();
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping of an open file that is never cut while mapped.
    let map = unsafe { libc::mmap(std::ptr::null_mut(), 8192, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if map == libc::MAP_FAILED {
        println!("SKIPPED: this kernel does not map direct I/O files");
        return;
    }
    // SAFETY: the mapping is 8192 bytes long and nobody else in this process uses it.
    let bytes = unsafe { std::slice::from_raw_parts_mut(map.cast::<u8>(), 8192) };
    assert!(bytes.iter().all(|byte| *byte == 1));
    bytes[5000] = 2;
    // SAFETY: the range is mapped.
    assert_eq!(unsafe { libc::msync(map, 8192, libc::MS_SYNC) }, 0);
    let mut byte = [0];
    file.read_exact_at(&mut byte, 5000).unwrap();
    assert_eq!(byte, [2]);
    // SAFETY: mapped above; the slice is not used any more.
    unsafe { libc::munmap(map, 8192) };
}

#[test]
fn a_killed_process_does_not_wait_for_ever_and_the_mount_survives() {
    // A read takes some 2 s of real time here.
    let Some(testbed) = Testbed::start_with(|config| {
        config.hdd_profile = "seagate-250".to_string();
        config.time_scale = 200.0;
    }) else {
        return;
    };
    let path = testbed.slow.join("a");
    let file = open(&path);
    file.set_len(1 << 20).unwrap();
    let mut reader =
        Command::new("dd").arg(format!("if={}", path.display())).args(["of=/dev/null", "bs=64k"]).spawn().unwrap();
    while testbed.slow_stats().in_flight == 0 {
        assert!(reader.try_wait().unwrap().is_none(), "the reader waits for the disk");
        std::thread::yield_now();
    }
    reader.kill().unwrap();
    assert!(!reader.wait().unwrap().success());
    assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20);
}
