//! The guard on real file systems, partition tables and labels: while it is on, no tool recognises the raw
//! disk or changes a byte of it, told to repair or not; after `detach` the disk has everything, after
//! `detach --force` everything that was on it.

#[path = "support/loop_device.rs"]
mod loop_device;
#[path = "support/offline_volume.rs"]
mod volume;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use loop_device::{Loop, Mounted, run};
use volume::{TestVolume, said};

/// Large enough for XFS, and for ext4's first copy of its superblock.
const DISK_BYTES: u64 = 400 << 20;
const FLASH_BYTES: u64 = 128 << 20;

/// What lies on the disk.
struct Kind {
    /// Makes it on a loop device.
    make: &'static [&'static str],
    /// Tools that find it, and find nothing once it is hidden; `DEVICE` is the loop device.
    finders: &'static [&'static [&'static str]],
    /// Tools that would mend it. What they say is theirs; they write nothing to a hidden disk.
    repairers: &'static [&'static [&'static str]],
    /// Says that it is whole.
    checker: Option<&'static [&'static str]>,
    /// As `detach --force` calls it.
    name: &'static str,
}

const BLKID: &[&str] = &["blkid", "-p", "DEVICE"];

#[test]
fn xfs_is_hidden_from_mount_and_xfs_repair_and_comes_back_whole() {
    files_come_back(&Kind {
        make: &["mkfs.xfs", "-q", "DEVICE"],
        finders: &[BLKID],
        repairers: &[&["xfs_repair", "DEVICE"], &["xfs_repair", "-L", "DEVICE"], &["fsck", "-y", "DEVICE"]],
        checker: Some(&["xfs_repair", "-n", "DEVICE"]),
        name: "XFS",
    });
}

#[test]
fn ext4_is_hidden_from_mount_and_e2fsck_and_comes_back_whole() {
    files_come_back(&Kind {
        make: &["mkfs.ext4", "-q", "DEVICE"],
        finders: &[BLKID, &["dumpe2fs", "-h", "DEVICE"]],
        repairers: &[&["e2fsck", "-y", "DEVICE"], &["e2fsck", "-p", "DEVICE"], &["fsck", "-y", "DEVICE"]],
        checker: Some(&["e2fsck", "-fn", "DEVICE"]),
        name: "ext4",
    });
}

#[test]
fn btrfs_is_hidden_from_mount_and_btrfs_check_and_comes_back_whole() {
    files_come_back(&Kind {
        make: &["mkfs.btrfs", "-q", "DEVICE"],
        finders: &[BLKID, &["btrfs", "inspect-internal", "dump-super", "DEVICE"]],
        repairers: &[
            &["btrfs", "check", "--repair", "--force", "DEVICE"],
            &["btrfs", "rescue", "super-recover", "-y", "DEVICE"],
            &["fsck", "-y", "DEVICE"],
        ],
        checker: Some(&["btrfs", "check", "DEVICE"]),
        name: "btrfs",
    });
}

#[test]
fn an_lvm_physical_volume_is_hidden_and_comes_back() {
    label_comes_back(&Kind {
        make: &["pvcreate", "-q", "DEVICE"],
        finders: &[BLKID, &["pvs", "--noheadings", "DEVICE"]],
        repairers: &[&["pvck", "DEVICE"]],
        checker: Some(&["pvck", "DEVICE"]),
        name: "LVM",
    });
}

#[test]
fn a_gpt_is_hidden_with_its_copy_and_comes_back() {
    label_comes_back(&Kind {
        make: &["sgdisk", "-n", "1:2048:+50M", "-c", "1:data", "DEVICE"],
        finders: &[BLKID, &["sfdisk", "-d", "DEVICE"]],
        // Lists an empty table where it finds none.
        repairers: &[&["sgdisk", "-p", "DEVICE"], &["sgdisk", "-v", "DEVICE"]],
        checker: Some(&["sfdisk", "-V", "DEVICE"]),
        name: "GPT",
    });
}

/// The tools and loop devices are there; says what is not.
fn is_possible(kind: &Kind) -> bool {
    let all = kind.finders.iter().chain(kind.repairers).chain(&kind.checker).chain([&kind.make]);
    for tool in all.map(|command| command[0]).chain(["losetup", "mount", "cmp"]) {
        let found = Command::new(tool)
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if found.is_err() {
            println!("SKIPPED: {tool} is not installed");
            return false;
        }
    }
    let trial = tempfile::NamedTempFile::new().unwrap();
    trial.as_file().set_len(1 << 20).unwrap();
    if let Err(why) = Loop::of(trial.path()) {
        println!("SKIPPED: no loop device: {why}");
        return false;
    }
    true
}

fn same(one: &Path, other: &Path) -> bool {
    Command::new("cmp").arg("-s").arg(one).arg(other).status().unwrap().success()
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("--sparse=always").arg(from).arg(to).status().unwrap().success());
}

/// Writes what differs through a volume whose server dies then: 64 KiB at once, so that much of it is gathered.
fn write_difference(volume: &TestVolume, newer: &Path) {
    let (disk, newer) = (File::open(&volume.disk).unwrap(), File::open(newer).unwrap());
    let (mut old, mut new) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut writes = Vec::new();
    for offset in (0..DISK_BYTES).step_by(old.len()) {
        disk.read_exact_at(&mut old, offset).unwrap();
        newer.read_exact_at(&mut new, offset).unwrap();
        if old != new {
            writes.push((offset, new.clone()));
        }
    }
    assert!(!writes.is_empty());
    volume.write_and_die(&writes, &[]);
}

/// No tool finds anything on the raw disk, or changes it.
fn is_hidden(volume: &TestVolume, kind: &Kind) {
    let before = volume.path("before");
    copy(&volume.disk, &before);
    let device = Loop::of(&volume.disk).unwrap();
    for command in kind.finders {
        let output = run(command, &device);
        assert!(!output.status.success(), "{command:?} finds something: {}", said(&output));
    }
    for kinds in [&[][..], &["-t", "xfs"], &["-t", "ext4"], &["-t", "btrfs"]] {
        let mounted = Mounted::at(&device, &volume.path("mount"), kinds);
        assert!(mounted.is_err(), "mount {kinds:?} takes the raw disk");
    }
    for command in kind.repairers {
        let output = run(command, &device);
        drop(File::open(device.path()).unwrap().sync_all());
        assert!(same(&volume.disk, &before), "{command:?} writes to the raw disk: {}", said(&output));
    }
    drop(device);
    assert!(same(&volume.disk, &before));
    fs::remove_file(before).unwrap();
}

/// The disk is what `image` is; its finders find it, its checker is content.
fn is_back(disk: &Path, image: &Path, kind: &Kind) {
    assert!(same(disk, image), "the disk is not as it was");
    let device = Loop::of(disk).unwrap();
    for command in kind.finders.iter().chain(&kind.checker) {
        let output = run(command, &device);
        assert!(output.status.success(), "{command:?}: {}", said(&output));
    }
}

/// Both ways back, from a disk of which `old` is what it holds and `new` what the volume holds.
fn comes_back_both_ways(volume: &TestVolume, kind: &Kind, old: &Path, new: &Path) {
    volume.succeed("create", &[]);
    write_difference(volume, new);
    let (status, found) = volume.look("check");
    assert_eq!((status, found["guard"]["state"].as_str()), (75, Some("on")), "{found:#}");
    is_hidden(volume, kind);

    let alone = volume.path("alone");
    copy(&volume.disk, &alone);
    let output = volume.force(&alone, &[]);
    assert!(!output.status.success() && said(&output).contains("--yes"), "{}", said(&output));
    assert!(same(&alone, &volume.disk), "it asks before it writes");
    let output = volume.force(&alone, &["--yes"]);
    assert!(output.status.success() && said(&output).contains(kind.name), "{}", said(&output));
    is_back(&alone, old, kind);
    let output = volume.force(&alone, &["--yes"]);
    assert!(output.status.success() && said(&output).contains("plain disk already"), "{}", said(&output));
    is_back(&alone, old, kind);

    volume.succeed("detach", &[]);
    is_back(&volume.disk, new, kind);
    assert_eq!(volume.look("check").0, 0);
}

fn label_comes_back(kind: &Kind) {
    if !is_possible(kind) {
        return;
    }
    let volume = TestVolume::new(DISK_BYTES, FLASH_BYTES);
    let device = Loop::of(&volume.disk).unwrap();
    let output = run(kind.make, &device);
    assert!(output.status.success(), "{}", said(&output));
    drop(device);
    let (old, new) = (volume.path("old"), volume.path("new"));
    copy(&volume.disk, &old);
    copy(&volume.disk, &new);
    File::options().write(true).open(&new).unwrap().write_all_at(&[7; 1 << 20], 200 << 20).unwrap();
    comes_back_both_ways(&volume, kind, &old, &new);
}

fn files_come_back(kind: &Kind) {
    if !is_possible(kind) {
        return;
    }
    let volume = TestVolume::new(DISK_BYTES, FLASH_BYTES);
    let mount = volume.path("mount");
    fs::create_dir(&mount).unwrap();
    let files = |generation: u8, numbers: std::ops::Range<u8>| {
        for number in numbers {
            fs::write(mount.join(format!("file-{number}")), vec![generation ^ number; 50_000]).unwrap();
        }
    };
    let device = Loop::of(&volume.disk).unwrap();
    let output = run(kind.make, &device);
    assert!(output.status.success(), "{}", said(&output));
    let mounted = Mounted::at(&device, &mount, &[]).unwrap();
    files(0x40, 0..30);
    drop((mounted, device));
    let (old, new) = (volume.path("old"), volume.path("new"));
    copy(&volume.disk, &old);
    copy(&volume.disk, &new);
    let device = Loop::of(&new).unwrap();
    let mounted = Mounted::at(&device, &mount, &[]).unwrap();
    files(0x80, 20..40);
    drop((mounted, device));
    comes_back_both_ways(&volume, kind, &old, &new);

    let device = Loop::of(&volume.disk).unwrap();
    let mounted = Mounted::at(&device, &mount, &[]).unwrap();
    for number in 0..40u8 {
        let generation = if number < 20 { 0x40 } else { 0x80 };
        let bytes = fs::read(mount.join(format!("file-{number}"))).unwrap();
        assert!(bytes == vec![generation ^ number; 50_000], "file {number}");
    }
    drop((mounted, device));
}
