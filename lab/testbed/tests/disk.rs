//! One emulated disk as a file, and as a block device with a file system on it.

#[path = "support/testbed.rs"]
mod testbed;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::process::Command;

use headstart_testbed::disk::{Disk, DiskConfig};
use testbed::can_mount;

fn start(root: &tempfile::TempDir, profile: &str) -> headstart_testbed::Result<Disk> {
    Disk::start(&DiskConfig {
        size_bytes: Some(64 << 20),
        time_scale: 0.0,
        real_time: false,
        ..DiskConfig::of(profile, &root.path().join("disk"))
    })
}

#[test]
fn what_is_written_to_a_disk_is_there_when_it_is_served_again() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = root.path().join("disk");
    let disk = start(&root, "seagate-250").unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 64 << 20);
    file.write_all_at(&[5; 4096], 10 << 20).unwrap();
    file.sync_all().unwrap();
    assert!(file.write_all_at(&[5; 4096], 64 << 20).is_err(), "a disk has an end");
    assert!(file.set_len(1).is_err(), "a disk has one size");
    let refused = start(&root, "seagate-250").err().expect("it is served already").to_string();
    assert!(refused.contains(path.to_str().unwrap()) && refused.contains("served already"), "{refused}");
    let stats = disk.stats();
    assert_eq!((stats.write_count, stats.flush_count), (1, 1));
    drop((file, disk));
    let disk = start(&root, "seagate-250").unwrap();
    let mut buffer = [0; 4096];
    OpenOptions::new().read(true).open(&path).unwrap().read_exact_at(&mut buffer, 10 << 20).unwrap();
    assert_eq!(buffer, [5; 4096]);
    drop(disk);
}

#[test]
fn a_disk_has_whole_sectors() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = root.path().join("disk");
    let refused = Disk::start(&DiskConfig { size_bytes: Some(3), ..DiskConfig::of("wd1602", &file) });
    let refused = refused.err().expect("it is refused").to_string();
    assert!(refused.contains("--size") && refused.contains("512"), "{refused}");
    assert!(!file.exists(), "nothing was made");
}

#[test]
fn a_disk_carries_a_file_system() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir_in("/dev/shm").unwrap();
    let disk = start(&root, "null").unwrap();
    let script = "set -e; command -v losetup mkfs.ext4 >/dev/null || exit 77; L=$(losetup --direct-io=on -f --show disk) || exit 77; \
        trap 'umount m 2>/dev/null || true; losetup -d $L' EXIT; mkfs.ext4 -q $L; mkdir m; mount $L m || exit 77; \
        seq 100000 > m/file; sync; umount m; mount $L m; seq 100000 | cmp - m/file";
    let output = Command::new("bash").args(["-c", script]).current_dir(root.path()).output().unwrap();
    if output.status.code() == Some(77) {
        println!("SKIPPED: no loop devices, mkfs.ext4 or permission to mount");
        return;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(disk.stats().flush_count > 0, "sync reached the disk as a flush");
}

#[test]
fn an_unknown_profile_is_named() {
    let root = tempfile::tempdir().unwrap();
    let error = start(&root, "floppy").err().expect("there is no such disk").to_string();
    assert!(error.contains("'floppy'"), "{error}");
}
