//! The flash goes away in the middle of writes, and comes back.
//!
//! It is a file on an XFS that is shut down, after which every request fails and what the XFS had not made
//! durable is gone: as with a device that is pulled. Not checked here: what a flash that never comes back
//! means (`detach --force`), and what a FLUSH said that was under way at that moment: XFS itself answers some
//! of them well whose bytes are gone.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aligned_vec::{AVec, ConstAlign};

use crate::volume::{LoopDevice, TestVolume, has, succeed, wait_for};

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;

/// Blocks that the writers of this test overwrite again and again; fio writes as many behind them, each with
/// its offset.
const BLOCKS: usize = 2048;
const WRITERS: usize = 4;

/// The flash goes when the writers have written so often and fio so many of its blocks, however fast the machine is.
const WRITES_MIN: usize = 3000;
const FIO_BLOCKS_MIN: usize = 100;

/// Then a writer slows down: a large log stays less than half full, below which this policy writes nothing back.
const WRITES_AT_ONCE: u32 = 1500;
const SLOW: Duration = Duration::from_millis(4);

type Buffer = AVec<u8, ConstAlign<4096>>;

/// What is known of a block: the versions of it that were given to write, acknowledged, and acknowledged as durable.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    given: u64,
    written: u64,
    durable: u64,
}

/// A block tells its number and version in all its words.
fn filled(block: usize, version: u64) -> Buffer {
    let words = [block as u64 + 1, version].map(u64::to_le_bytes).concat();
    Buffer::from_iter(4096, words.into_iter().cycle().take(BLOCK as usize))
}

/// The version that a block has; zero is nothing.
fn version(block: usize, bytes: &[u8]) -> u64 {
    let version = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
    let expected = if version == 0 { Buffer::from_iter(4096, [0; 4096]) } else { filled(block, version) };
    assert!(bytes == &expected[..], "block {block} is mixed or another's: {:?}", &bytes[..32]);
    version
}

fn open(path: &Path, flags: i32) -> File {
    File::options().read(true).write(true).custom_flags(libc::O_DIRECT | flags).open(path).unwrap()
}

fn read(file: &File, block: usize) -> io::Result<Buffer> {
    let mut buffer = filled(0, 0);
    file.read_exact_at(&mut buffer, block as u64 * BLOCK).map(|()| buffer)
}

/// Overwrites its share of the blocks until something fails: writers with an odd number durably each time,
/// the others with a FLUSH now and then.
fn write(path: &Path, writer: usize, seed: u64, known: &[Mutex<Known>], count: &AtomicUsize) -> io::Error {
    let is_durable = writer % 2 == 1;
    let file = open(path, if is_durable { libc::O_DSYNC } else { 0 });
    let mut state = seed ^ (writer as u64) << 32;
    for turn in 1.. {
        if turn > WRITES_AT_ONCE {
            std::thread::sleep(SLOW);
        }
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = (state >> 33) as usize % (BLOCKS / WRITERS) * WRITERS + writer;
        known[block].lock().unwrap().given += 1;
        let version = known[block].lock().unwrap().given;
        if let Err(error) = file.write_all_at(&filled(block, version), block as u64 * BLOCK) {
            return error;
        }
        let mut known_of = known[block].lock().unwrap();
        known_of.written = version;
        if is_durable {
            known_of.durable = version;
        }
        drop(known_of);
        count.fetch_add(1, Ordering::Relaxed);
        if !is_durable && turn % 32 == 0 {
            if let Err(error) = file.sync_all() {
                return error;
            }
            known.iter().skip(writer).step_by(WRITERS).for_each(|known| {
                let mut known = known.lock().unwrap();
                known.durable = known.written;
            });
        }
    }
    unreachable!("it writes until something fails")
}

/// Whether fio has written a block: it holds its offset, or nothing.
fn is_fios(file: &File, block: usize) -> bool {
    let bytes = read(file, block).unwrap();
    let is_there = bytes[..] == (block as u64 * BLOCK).to_le_bytes().repeat(BLOCK as usize / 8)[..];
    assert!(is_there || bytes.iter().all(|byte| *byte == 0), "block {block} is mixed: {:?}", &bytes[..32]);
    is_there
}

/// What fio's log names is there, if it is from before a time.
fn check_fio(file: &File, log: &Path, before_ms: u128) {
    let log = fs::read_to_string(log).unwrap();
    let field = |line: &str, number| line.split(", ").nth(number).unwrap().trim().parse::<u128>().unwrap();
    let durable = log.lines().filter(|line| field(line, 0) < before_ms);
    let offsets: Vec<u64> = durable.map(|line| field(line, 4) as u64).collect();
    assert!(offsets.len() >= FIO_BLOCKS_MIN / 2, "fio was stopped too early:\n{log}");
    for block in BLOCKS..2 * BLOCKS {
        let is_durable = offsets.contains(&(block as u64 * BLOCK));
        assert!(is_fios(file, block) || !is_durable, "fio was told that block {block} is durable");
    }
}

fn check(file: &File, known: &[Mutex<Known>]) {
    for (block, known) in known.iter().enumerate() {
        let (known, found) = (*known.lock().unwrap(), version(block, &read(file, block).unwrap()));
        assert!((known.durable..=known.given).contains(&found), "block {block} is at version {found}, but {known:?}");
    }
}

#[test]
fn flash_with_the_only_copies_is_pulled_under_writers_and_fio_and_comes_back_with_all_that_was_durable() {
    // So large that nothing is written back.
    let lost = pull(600 * MIB);
    assert!(lost.is_none_or(|lost| lost > 0), "the flash held something");
}

#[test]
fn flash_is_pulled_under_writers_and_fio_while_it_is_written_back_and_comes_back_with_all_that_was_durable() {
    pull(32 * MIB);
}

/// Writes to the second half of the disk; begins again when it has written all of its blocks, and ends with the flash.
fn fio(volume: &TestVolume) -> Command {
    let mut fio = Command::new("fio");
    fio.current_dir(volume.directory.path()).args([
        "--name=volume",
        "--filename=disk",
        "--ioengine=libaio",
        "--iodepth=4",
    ]);
    fio.args(["--rw=randwrite", "--bs=4k", "--direct=1", "--sync=dsync", "--verify=pattern", "--verify_pattern=%o"]);
    fio.args(["--do_verify=0", "--write_lat_log=log", "--log_offset=1", "--log_unix_epoch=1"]);
    fio.args(["--allow_file_create=0", "--randseed=7"]);
    fio.args([format!("--offset={}", BLOCKS as u64 * BLOCK), format!("--size={}", BLOCKS as u64 * BLOCK)]);
    fio.args(["--rate_iops=300", "--time_based", "--runtime=1h", "--output=fio.said"]);
    fio
}

/// Without its flash the volume serves what the disk has, and never an older version of what it has not. How many blocks it has not.
fn check_without_flash(file: &File, known: &[Mutex<Known>]) -> usize {
    let mut lost = 0;
    for (block, known) in known.iter().enumerate() {
        let known = *known.lock().unwrap();
        match read(file, block) {
            Ok(bytes) => {
                let found = version(block, &bytes);
                assert!(
                    (known.written..=known.given).contains(&found),
                    "block {block}: version {found}, but {known:?}"
                );
            }
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EIO));
                lost += 1;
            }
        }
    }
    lost
}

/// How many blocks were only on flash when it went; none where the test is skipped.
fn pull(flash_bytes: u64) -> Option<usize> {
    if !has(&[("mkfs.xfs", "xfsprogs"), ("xfs_io", "xfsprogs"), ("fio", "fio")]) {
        return None;
    }
    let seed = std::env::var("SEED").map_or(20_260_101, |seed| seed.parse().unwrap());
    println!("SEED={seed}");
    let directory = tempfile::Builder::new().prefix("headstart-volume-").tempdir().unwrap();
    let (image, below) = (directory.path().join("image"), directory.path().join("flash"));
    File::create(&image).unwrap().set_len(800 * MIB).unwrap();
    let device = LoopDevice::of(&image)?;
    device.run("mkfs.xfs -q");
    let flash = device.mount(&below);
    let volume = TestVolume::create_in(directory, 64 * MIB, &below.join("ssd"), flash_bytes);
    let served = volume.serve_file(&["--policy", "none"])?;
    let path = volume.path("disk");

    let known: Vec<Mutex<Known>> = (0..BLOCKS).map(|_| Mutex::default()).collect();
    let count = AtomicUsize::new(0);
    let mut fio = fio(&volume).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let pulled_ms = std::thread::scope(|scope| {
        let (path, known, count) = (&path, &known, &count);
        let writers = [0, 1, 2, 3].map(|writer| scope.spawn(move || write(path, writer, seed, known, count)));
        let file = open(path, 0);
        wait_for("many writes", || {
            let fios = || (BLOCKS..2 * BLOCKS).filter(|block| is_fios(&file, *block)).count();
            let are_many = count.load(Ordering::Relaxed) > WRITES_MIN && fios() > FIO_BLOCKS_MIN;
            are_many || writers.iter().any(|writer| writer.is_finished())
        });
        drop(file);
        let durable: Vec<u64> = known.iter().map(|known| known.lock().unwrap().durable).collect();
        let pulled_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        succeed(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(&below));
        for writer in writers {
            let error = writer.join().unwrap();
            assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
        }
        known.iter().zip(durable).for_each(|(known, durable)| known.lock().unwrap().durable = durable);
        pulled_ms
    });
    assert!(!fio.wait().unwrap().success(), "{}", fs::read_to_string(volume.path("fio.said")).unwrap());

    let file = open(&path, 0);
    let lost = check_without_flash(&file, &known);
    read(&file, 3 * BLOCKS).expect("what was never written is on the disk");
    assert!(volume.status()["flash"]["errors_total"].as_u64().unwrap() > 0, "{}", volume.status());
    drop(file);
    served.kill();

    // It is plugged in again.
    flash.unmount();
    let flash = device.mount(&below);
    let served = volume.serve_file(&["--policy", "none"])?;
    let file = open(&path, 0);
    check(&file, &known);
    check_fio(&file, &volume.path("log_clat.1.log"), pulled_ms);
    drop(file);
    served.stop();
    let disk = open(&volume.hdd, 0);
    check(&disk, &known);
    check_fio(&disk, &volume.path("log_clat.1.log"), pulled_ms);
    drop(flash);
    Some(lost)
}
