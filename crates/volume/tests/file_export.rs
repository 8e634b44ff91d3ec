//! The file that a volume appears as, through the kernel, over a disk in memory.

#[path = "file_export/memory.rs"]
mod memory;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headstart_units::request::Range;
use headstart_volume::block::Buffer;
use headstart_volume::export::file::{FileExport, MountError, Unmounted};
use memory::{Asked, Memory};

const SIZE: usize = 8 << 20;

struct Stage {
    disk: Arc<Memory>,
    export: FileExport,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Stage {
    /// Nothing where files cannot be mounted.
    fn over(disk: Memory) -> Option<Stage> {
        if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/fuse") {
            println!("SKIPPED: /dev/fuse: {error}");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("disk");
        let disk = Arc::new(disk);
        match FileExport::mount(disk.clone(), &path) {
            Ok(export) => Some(Stage { disk, export, path, _directory: directory }),
            Err(MountError::Refused { source, .. }) => {
                println!("SKIPPED: FUSE mounts are refused here: {source}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn start() -> Option<Stage> {
        Stage::over(Memory::new(SIZE))
    }

    fn open(&self, flags: i32) -> File {
        OpenOptions::new().read(true).write(true).custom_flags(flags).open(&self.path).unwrap()
    }
}

fn buffer(bytes: usize, seed: usize) -> Buffer {
    Buffer::from_iter(4096, (0..bytes).map(|at| (at / 512 * 31 + seed) as u8))
}

fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}

fn fallocate(file: &File, mode: i32, offset: i64, length: i64) -> io::Result<()> {
    // SAFETY: the file is open across the call.
    match unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[test]
fn the_volume_is_a_regular_file_of_its_size_at_the_path_that_was_named() {
    let Some(stage) = Stage::start() else { return };
    let status = fs::metadata(&stage.path).unwrap();
    assert!(status.is_file());
    assert_eq!((status.len(), status.mode() & 0o7777), (SIZE as u64, 0o600));
    let twice = FileExport::mount(stage.disk.clone(), &stage.path).unwrap_err();
    assert!(matches!(twice, MountError::Mounted(_)), "{twice}");
}

#[test]
fn what_is_written_past_the_page_cache_is_read_with_it_and_the_other_way_round() {
    let Some(stage) = Stage::start() else { return };
    let (direct, cached) = (stage.open(libc::O_DIRECT), stage.open(0));
    direct.write_all_at(&buffer(65536, 1), 4096).unwrap();
    let mut read = vec![0; 65536];
    cached.read_exact_at(&mut read, 4096).unwrap();
    assert!(read == buffer(65536, 1)[..]);
    cached.write_all_at(&buffer(65536, 2), 4096).unwrap();
    let mut read = buffer(65536, 0);
    direct.read_exact_at(&mut read, 4096).unwrap();
    assert!(read == buffer(65536, 2));
    // Without O_DIRECT the kernel reads whole pages, whatever is asked.
    let mut odd = [0; 100];
    cached.read_exact_at(&mut odd, 4096 + 1000).unwrap();
    assert_eq!(odd[..], buffer(65536, 2)[1000..1100]);
}

#[test]
fn fsync_is_a_flush_and_a_synchronous_write_is_fua() {
    let Some(stage) = Stage::start() else { return };
    let file = stage.open(libc::O_DIRECT);
    file.write_all_at(&buffer(4096, 1), 0).unwrap();
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    let first = Range::new(0, 4096);
    assert_eq!(stage.disk.asked(), [Asked::Write(first, false), Asked::Flush, Asked::Flush]);
    let file = stage.open(libc::O_DIRECT | libc::O_DSYNC);
    file.write_all_at(&buffer(4096, 1), 0).unwrap();
    assert_eq!(stage.disk.asked().first(), Some(&Asked::Write(first, true)));
}

#[test]
fn punched_and_zeroed_ranges_read_as_zeros_and_other_modes_are_refused() {
    let Some(stage) = Stage::start() else { return };
    let file = stage.open(libc::O_DIRECT);
    file.write_all_at(&buffer(1 << 20, 3), 0).unwrap();
    stage.disk.asked();
    let keep = libc::FALLOC_FL_KEEP_SIZE;
    fallocate(&file, libc::FALLOC_FL_PUNCH_HOLE | keep, 4096, 8192).unwrap();
    fallocate(&file, libc::FALLOC_FL_ZERO_RANGE, 65536, 512).unwrap();
    let (hole, zeros) = (Range::new(4096, 8192), Range::new(65536, 512));
    assert_eq!(stage.disk.asked(), [Asked::Zero(hole, false), Asked::Zero(zeros, false)]);
    let mut expected = buffer(1 << 20, 3);
    expected[4096..12288].fill(0);
    expected[65536..66048].fill(0);
    let mut read = Vec::new();
    stage.open(0).take(1 << 20).read_to_end(&mut read).unwrap();
    assert!(read == expected[..]);
    // Nothing lies beyond the end, so there is nothing to punch there.
    fallocate(&file, libc::FALLOC_FL_PUNCH_HOLE | keep, SIZE as i64, 4096).unwrap();
    for (mode, offset, expected) in [
        (0, 0, libc::EOPNOTSUPP),
        (keep, 0, libc::EOPNOTSUPP),
        (libc::FALLOC_FL_COLLAPSE_RANGE, 0, libc::EOPNOTSUPP),
        (libc::FALLOC_FL_ZERO_RANGE, 100, libc::EINVAL),
        (libc::FALLOC_FL_ZERO_RANGE | keep, SIZE as i64, libc::ENOSPC),
        (libc::FALLOC_FL_PUNCH_HOLE | keep, 100, libc::EINVAL),
    ] {
        assert_eq!(errno(fallocate(&file, mode, offset, 4096)), expected, "mode {mode} at {offset}");
    }
}

#[test]
fn a_hole_is_refused_where_the_disk_discards_nothing_and_zeros_are_made() {
    let mut disk = Memory::new(SIZE);
    disk.discards = false;
    let Some(stage) = Stage::over(disk) else { return };
    let file = stage.open(0);
    let keep = libc::FALLOC_FL_KEEP_SIZE;
    assert_eq!(errno(fallocate(&file, libc::FALLOC_FL_PUNCH_HOLE | keep, 0, 4096)), libc::EOPNOTSUPP);
    fallocate(&file, libc::FALLOC_FL_ZERO_RANGE, 4096, 4096).unwrap();
    assert_eq!(stage.disk.asked(), [Asked::Zero(Range::new(4096, 4096), false)]);
}

#[test]
fn what_a_disk_cannot_do_is_refused_and_changes_nothing() {
    let Some(stage) = Stage::start() else { return };
    for flags in [0, libc::O_DIRECT] {
        let file = stage.open(flags);
        assert_eq!(errno(file.write_at(&buffer(4096, 1)[..100], 0)), libc::EINVAL, "unaligned, flags {flags}");
        assert_eq!(errno(file.write_at(&buffer(4096, 1), SIZE as u64)), libc::ENOSPC, "past the end, flags {flags}");
        assert_eq!(errno(file.set_len(4096)), libc::EINVAL);
        assert_eq!(file.read_at(&mut buffer(4096, 1), SIZE as u64).unwrap(), 0);
    }
    let direct = stage.open(libc::O_DIRECT);
    assert_eq!(errno(direct.read_at(&mut buffer(4096, 1)[..100], 0)), libc::EINVAL);
    assert_eq!(
        errno(fs::set_permissions(&stage.path, std::os::unix::fs::PermissionsExt::from_mode(0o666))),
        libc::EPERM
    );
    direct.set_len(SIZE as u64).unwrap();
    let mut read = buffer(4096, 1);
    direct.read_exact_at(&mut read, 0).unwrap();
    assert!(read.iter().all(|&byte| byte == 0));
    assert!(!stage.disk.asked().iter().any(|asked| matches!(asked, Asked::Write(..) | Asked::Zero(..))));
}

#[test]
fn many_writes_to_one_file_are_in_flight_at_once() {
    // It answers none of them until all are there.
    let Some(stage) = Stage::over(Memory::answering_in_batches(SIZE, 32)) else { return };
    let file = stage.open(libc::O_DIRECT);
    std::thread::scope(|scope| {
        for writer in 0..32 {
            let file = &file;
            scope.spawn(move || file.write_all_at(&buffer(4096, writer), writer as u64 * 4096).unwrap());
        }
    });
    for writer in 0..32 {
        let mut read = buffer(4096, 0);
        file.read_exact_at(&mut read, writer as u64 * 4096).unwrap();
        assert!(read == buffer(4096, writer));
    }
}

#[test]
fn a_file_in_use_stays_until_it_is_closed() {
    let Some(stage) = Stage::start() else { return };
    let file = stage.open(0);
    assert_eq!(stage.export.unmount().unwrap(), Unmounted::InUse);
    file.write_all_at(&buffer(4096, 5), 0).unwrap();
    drop(file);
    // The kernel releases the file after close has returned.
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while stage.export.unmount().unwrap() == Unmounted::InUse {
        assert!(std::time::Instant::now() < limit, "the file stays busy");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    stage.export.join().unwrap();
    assert_eq!(fs::metadata(&stage.path).unwrap().len(), 0, "the empty file beneath is back");
}

#[test]
fn only_an_empty_or_absent_file_makes_room_for_a_volume() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |path: &Path| FileExport::mount(Arc::new(Memory::new(SIZE)), path).unwrap_err();
    assert!(matches!(refused(directory.path()), MountError::NoFile(_)));
    assert!(matches!(refused(&directory.path().join("none/disk")), MountError::NoPlace { .. }));
    let full = directory.path().join("full");
    fs::write(&full, "precious").unwrap();
    assert!(matches!(refused(&full), MountError::NotEmpty(_)));
    assert_eq!(fs::read(&full).unwrap(), b"precious");
}
