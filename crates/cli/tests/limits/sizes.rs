//! Long files, long requests, and requests of nothing.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use headstart_protocol::shared::BITS_PER_FILE;
use headstart_units::GRANULE_BYTES;

use super::opened;
use super::site::{TestSite, content, managed, role};

/// The file's length: on a tmpfs all of it, on ext4 a block less.
const LONG: u64 = 16 << 40;
const WRAP: u64 = BITS_PER_FILE * GRANULE_BYTES;

/// Offsets of which several share a bit, at both ends and across the wrap.
fn offsets() -> Vec<u64> {
    let shared = (0..6).map(|turn| turn * WRAP + 5000);
    let across = (1..4).map(|turn| turn * WRAP - 1500);
    shared.chain(across).chain([0, LONG / 2, LONG - 3000]).collect()
}

fn long_file(write: bool) {
    let file = opened(&managed().join("long"));
    if write {
        file.set_len(LONG).unwrap();
        for (generation, offset) in offsets().into_iter().enumerate() {
            file.write_all_at(&content(generation as u64, offset, 3000), offset).unwrap();
        }
    }
    assert_eq!(file.metadata().unwrap().len(), LONG);
    for (generation, offset) in offsets().into_iter().enumerate() {
        let mut found = vec![1; 3000];
        file.read_exact_at(&mut found, offset).unwrap();
        assert!(found == content(generation as u64, offset, 3000), "at {offset}");
        // Its neighbour under the same bit is a hole.
        let hole = (offset + WRAP / 2) % (LONG - 9000);
        file.read_exact_at(&mut found, hole / 4096 * 4096).unwrap();
        assert!(found.iter().all(|byte| *byte == 0), "a hole at {hole}");
    }
    if write {
        // One of those that share a bit is written over directly, by an append that ends where the file does.
        (&file).seek(SeekFrom::End(0)).unwrap();
        assert_eq!((&file).stream_position().unwrap(), LONG);
    }
}

#[test]
fn a_sparse_file_of_sixteen_tib_is_written_at_both_ends_and_where_its_bits_wrap_round() {
    let test = "sizes::a_sparse_file_of_sixteen_tib_is_written_at_both_ends_and_where_its_bits_wrap_round";
    if let Some(role) = role() {
        return long_file(role == "write");
    }
    let site = TestSite::with_capacity("64MiB");
    site.played(&["--keep-dirty"], test, "write");
    assert_eq!(site.figure("/dirty_bytes"), 3000 * offsets().len() as u64);
    site.kill_agent();
    site.played(&["--keep-dirty"], test, "read");
    site.played(&[], test, "read");
    site.succeed(&["drain"]);
    site.played(&["--policy", "off"], test, "read");
    let file = fs::File::open(site.slow.join("long")).unwrap();
    for (generation, offset) in offsets().into_iter().enumerate() {
        let mut found = vec![0; 3000];
        file.read_exact_at(&mut found, offset).unwrap();
        assert!(found == content(generation as u64, offset, 3000), "at {offset}");
    }
    let found = file.metadata().unwrap();
    assert_eq!(found.len(), LONG);
    assert!(found.blocks() * 512 < 1 << 20, "it stays sparse: {} blocks", found.blocks());
}

/// The most bytes that Linux moves in one call (MAX_RW_COUNT).
const MOVED_MAX: usize = 0x7fff_f000;

/// A request of 2 GiB: many times the same MiB of memory.
fn vector(piece: &mut [u8]) -> Vec<libc::iovec> {
    let element = libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() };
    vec![element; (2 << 30) / piece.len()]
}

fn two_gib() {
    let mut piece = content(7, 0, 2 << 20);
    let expected = piece.clone();
    let file = opened(&managed().join("big"));
    let vector = vector(&mut piece);
    // SAFETY: every element is the piece, which lives; nothing else uses it meanwhile.
    let written = unsafe { libc::pwritev(file.as_raw_fd(), vector.as_ptr(), vector.len() as i32, 4096) };
    assert_eq!(written, MOVED_MAX as isize, "{}", std::io::Error::last_os_error());
    for offset in [0, 777 << 20, (MOVED_MAX - 10_000) as u64] {
        let mut found = vec![0; 10_000];
        file.read_exact_at(&mut found, 4096 + offset).unwrap();
        let wanted = expected.iter().cycle().skip(offset as usize % expected.len()).take(10_000);
        assert!(found.iter().eq(wanted), "at {offset}");
    }
    // SAFETY: as above.
    let read = unsafe { libc::preadv(file.as_raw_fd(), vector.as_ptr(), vector.len() as i32, 4096) };
    assert_eq!(read, MOVED_MAX as isize, "{}", std::io::Error::last_os_error());
    // The last whole piece lies over the others, and what came after it over its beginning.
    assert!(piece == expected);
    file.set_len(0).unwrap();
}

#[test]
fn a_request_of_two_gib_moves_what_the_kernel_would() {
    let test = "sizes::a_request_of_two_gib_moves_what_the_kernel_would";
    if role().is_some() {
        return two_gib();
    }
    let free = fs::read_to_string("/proc/meminfo").unwrap();
    let free = free.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap().trim().trim_end_matches(" kB");
    if free.parse::<u64>().unwrap() < 6 << 20 {
        println!("SKIPPED: 6 GiB of memory are needed, {free} kB are available");
        return;
    }
    // To the disk, as flash has no room; partly absorbed; and wholly.
    for capacity in ["4KiB", "64MiB", "3GiB"] {
        let site = TestSite::with_capacity(capacity);
        site.played(&[], test, "all");
        assert_eq!(fs::metadata(site.slow.join("big")).unwrap().len(), 0);
    }
}

#[test]
fn requests_of_nothing_and_empty_files_are_as_without_headstart() {
    let test = "sizes::requests_of_nothing_and_empty_files_are_as_without_headstart";
    if role().is_some() {
        let mut file = opened(&managed().join("empty"));
        assert_eq!(file.write_at(&[], 12345).unwrap(), 0);
        assert_eq!(file.read_at(&mut [], 12345).unwrap(), 0);
        assert_eq!(file.write(&[]).unwrap(), 0);
        let none: [libc::iovec; 0] = [];
        // SAFETY: no element is named.
        let (written, read) = unsafe {
            (libc::pwritev(file.as_raw_fd(), none.as_ptr(), 0, 5), libc::preadv(file.as_raw_fd(), none.as_ptr(), 0, 5))
        };
        assert_eq!((written, read), (0, 0));
        file.set_len(0).unwrap();
        file.sync_all().unwrap();
        assert_eq!(file.metadata().unwrap().len(), 0);
        assert_eq!(file.read_at(&mut [0; 10], 0).unwrap(), 0, "it is empty");
        // Bytes that come and go.
        file.write_all_at(b"some", 0).unwrap();
        file.set_len(0).unwrap();
        assert_eq!(file.read_at(&mut [0; 10], 0).unwrap(), 0, "it is empty again");
        return;
    }
    let site = TestSite::with_capacity("1MiB");
    site.played(&[], test, "all");
    assert_eq!(fs::metadata(site.slow.join("empty")).unwrap().len(), 0);
    assert_eq!(site.figure("/dirty_bytes"), 0);
    site.played(&[], test, "again");
}

/// Handlers that began, and that ended.
static HANDLED: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);
static HANDLERS_FILE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn handler(_: libc::c_int) {
    // SAFETY: pwrite is async-signal-safe, and the byte is readable.
    let errno = unsafe { *libc::__errno_location() };
    let count = HANDLED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe { libc::pwrite(HANDLERS_FILE.load(Ordering::Relaxed), c"h".as_ptr().cast(), 1, (count % 5000) as i64) };
    // SAFETY: the location is the thread's own.
    unsafe { *libc::__errno_location() = errno };
    ENDED.fetch_add(1, Ordering::Release);
}

fn interrupted() {
    let (file, other) = (opened(&managed().join("main")), opened(&managed().join("handler")));
    HANDLERS_FILE.store(other.as_raw_fd(), Ordering::Relaxed);
    // SAFETY: an action of zeroes is valid: no SA_RESTART.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as extern "C" fn(libc::c_int) as usize;
    let every = libc::timeval { tv_sec: 0, tv_usec: 500 };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: both structures live across the calls, and the handler calls nothing that is not async-signal-safe.
    unsafe {
        assert_eq!(libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()), 0);
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()), 0);
    }
    for round in 0.. {
        for offset in (0..400_000).step_by(4000) {
            let expected = content(round, offset, 4000);
            assert_eq!(file.write_at(&expected, offset).unwrap(), 4000, "no call is cut short");
            let mut found = vec![0; 4000];
            assert_eq!(file.read_at(&mut found, offset).unwrap(), 4000);
            assert!(found == expected, "at {offset}");
        }
        file.sync_data().unwrap();
        if HANDLED.load(Ordering::Relaxed) > 200 {
            break;
        }
    }
    let stop = libc::itimerval { it_value: libc::timeval { tv_sec: 0, tv_usec: 0 }, ..timer };
    // SAFETY: the structure lives across the call.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &stop, std::ptr::null_mut()) };
    // The signal is the process's: another thread may be in the handler still.
    while ENDED.load(Ordering::Acquire) < HANDLED.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
    let mut found = vec![0; 200];
    other.read_exact_at(&mut found, 0).unwrap();
    assert!(found.iter().all(|byte| *byte == b'h'));
}

#[test]
fn signals_interrupt_no_request() {
    let test = "sizes::signals_interrupt_no_request";
    if role().is_some() {
        return interrupted();
    }
    for capacity in ["64MiB", "64KiB"] {
        let site = TestSite::with_capacity(capacity);
        site.played(&[], test, "all");
        assert!(fs::read(site.slow.join("handler")).unwrap()[..200].iter().all(|byte| *byte == b'h'));
        assert_eq!(site.figure("/dirty_bytes"), 0);
    }
}
