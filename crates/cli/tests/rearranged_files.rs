//! Calls by which the slow file system allocates, removes, moves and shares bytes of files come to what they
//! come to without Headstart.
//!
//! A test plays its own program, in the managed directory and beside it on the same file system.

#[path = "support/files.rs"]
mod files;
#[path = "support/loop_device.rs"]
mod loop_device;
#[path = "support/site.rs"]
mod site;

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use files::{open, read_at};
use loop_device::{Loop, Mounted};
use site::{TestSite, content, managed, role};

/// Clones a range of `from`, or of the file itself.
fn clone(file: &File, from: Option<&File>, at: u64, length: u64, to: u64) -> std::io::Result<()> {
    let number = from.unwrap_or(file).as_raw_fd();
    let range = libc::file_clone_range { src_fd: number.into(), src_offset: at, src_length: length, dest_offset: to };
    // SAFETY: the range is readable.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::FICLONERANGE, &raw const range) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Random calls that change where the bytes of a file lie and how long it is, as databases make them; what
/// each came to.
fn rearranged(path: &Path, seed: u64) -> Vec<String> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % limit
    };
    let (file, source) = (open(path), open(&path.with_extension("source")));
    (0..150)
        .map(|step| {
            let end = file.metadata().unwrap().len();
            let (at, length, which) = (below(end + 8192), 1 + below(40_000), below(15));
            let fallocate = |mode, at: u64, length: u64| {
                // SAFETY: no memory is involved.
                let result = unsafe { libc::fallocate(file.as_raw_fd(), mode, at as i64, length as i64) };
                if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            };
            let keep = libc::FALLOC_FL_KEEP_SIZE;
            let result = match which {
                0..3 => file.write_all_at(&content(step, at, length as usize), end),
                3 => fallocate(keep, end, 1 << 20),
                4 => fallocate(keep | libc::FALLOC_FL_PUNCH_HOLE, end, 1 << 40),
                5 => fallocate(keep | libc::FALLOC_FL_PUNCH_HOLE, at, length),
                6 => file.set_len(end),
                7 => file.set_len(end - below(end / 4 + 1)),
                8 => fallocate(0, end, length),
                9 => fallocate(libc::FALLOC_FL_ZERO_RANGE | if length % 2 == 0 { keep } else { 0 }, at, length),
                10 => fallocate(libc::FALLOC_FL_COLLAPSE_RANGE, at / 4096 * 4096, 8192),
                11 => fallocate(libc::FALLOC_FL_INSERT_RANGE, at / 4096 * 4096, 8192),
                12 => {
                    source.write_all_at(&content(step, at, 70_000), 0).unwrap();
                    clone(&file, Some(&source), below(16) * 4096, (1 + below(16)) * 4096, at / 4096 * 4096)
                }
                13 => clone(&file, None, below(16) * 4096, 8192, at / 4096 * 4096),
                _ => file.write_all_at(&content(step, at, length as usize), at),
            };
            let (size, bytes) = (file.metadata().unwrap().len(), read_at(&file, 0, 1 << 24));
            let sum =
                bytes.iter().fold(0xcbf2_9ce4u64, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
            format!("{step}: {which} at {at} length {length} of {end}: {result:?}, size {size}, sum {sum:x}")
        })
        .collect()
}

/// One seed, or a few.
fn seeds() -> std::ops::Range<u64> {
    let one = std::env::var("SEED").ok().map(|seed| seed.parse().unwrap());
    one.map_or(1..4, |seed| seed..seed + 1)
}

fn play() {
    for seed in seeds() {
        println!("SEED={seed}");
        let plain = managed().parent().unwrap().join(format!("plain{seed}"));
        let (with, without) = (rearranged(&managed().join(format!("f{seed}")), seed), rearranged(&plain, seed));
        for (with, without) in with.iter().zip(&without) {
            assert_eq!(with, without, "SEED={seed}");
        }
    }
}

/// Plays `test` with its files in a directory of its own in `place`.
fn compare(test: &str, place: &Path) {
    let (slow, fast) = (place.join("slow"), place.join("fast"));
    fs::create_dir(&slow).unwrap();
    fs::create_dir(&fast).unwrap();
    let site = TestSite::on(slow, fast, "8MiB");
    site.played(&[], test, "program");
    assert!(site.figure("/agent/absorbed_requests_total") > 0, "nothing was absorbed: {:#}", site.status());
    for seed in seeds() {
        let plain = fs::read(place.join(format!("plain{seed}"))).unwrap();
        assert!(fs::read(site.slow.join(format!("f{seed}"))).unwrap() == plain, "SEED={seed}");
    }
    site.succeed(&["stop"]);
}

#[test]
fn calls_that_allocate_remove_and_move_bytes_come_to_what_they_come_to_without_headstart() {
    const NAME: &str = "calls_that_allocate_remove_and_move_bytes_come_to_what_they_come_to_without_headstart";
    if role().is_some() {
        return play();
    }
    // On disks: file systems in memory move nothing within files.
    let directory = tempfile::Builder::new().prefix("headstart-test-").tempdir_in("/var/tmp").unwrap();
    compare(NAME, directory.path());
}

#[test]
fn clones_into_managed_files_come_to_what_they_come_to_without_headstart() {
    const NAME: &str = "clones_into_managed_files_come_to_what_they_come_to_without_headstart";
    if role().is_some() {
        return play();
    }
    let directory = tempfile::Builder::new().prefix("headstart-test-").tempdir_in("/var/tmp").unwrap();
    let (image, place) = (directory.path().join("image"), directory.path().join("mounted"));
    File::create(&image).unwrap().set_len(512 << 20).unwrap();
    let device = Loop::of(&image);
    let made = device.as_ref().is_ok_and(|device| {
        let status = Command::new("mkfs.xfs").args(["-q", "-m", "reflink=1"]).arg(device.path()).status();
        status.is_ok_and(|status| status.success())
    });
    let mounted = device.as_ref().ok().filter(|_| made).map(|device| Mounted::at(device, &place, &[]));
    let Some(Ok(_mounted)) = &mounted else {
        return println!("SKIPPED: a file system with clones needs root, mkfs.xfs and a loop device");
    };
    compare(NAME, &place);
}
