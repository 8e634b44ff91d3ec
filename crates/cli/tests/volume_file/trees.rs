//! Trees on XFS and ext4 while the server is killed, and after a stop.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use crate::volume::{LAZY, LoopDevice, Mounted, POLICIES, TestVolume, has, succeed, wait_for};

const MIB: u64 = 1 << 20;

/// Files that are fsynced before the server dies.
const SYNCED_FILES: usize = 40;

/// A file's bytes follow from its number; most are no multiple of anything.
fn content(number: usize) -> Vec<u8> {
    (0..number * 7919 % 300_000 + 1).map(|at| (at * 31 + number * 17 + at / 4096) as u8).collect()
}

/// Writes files and fsyncs every second one together with its directory, until something fails; says which are safe.
fn write_tree(root: &Path, synced: &Mutex<Vec<usize>>) -> io::Result<()> {
    for number in 0.. {
        let directory = root.join(format!("directory{}", number % 7));
        fs::create_dir_all(&directory)?;
        let mut file = File::create(directory.join(format!("file{number}")))?;
        file.write_all(&content(number))?;
        if number % 2 == 0 {
            file.sync_all()?;
            File::open(&directory)?.sync_all()?;
            File::open(root)?.sync_all()?;
            synced.lock().unwrap().push(number);
        }
    }
    unreachable!("it writes until the server is gone")
}

fn check_tree(root: &Path, synced: &[usize]) {
    for number in synced {
        let path = root.join(format!("directory{}/file{number}", number % 7));
        let found = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(found == content(*number), "{} is not what was fsynced", path.display());
    }
}

/// A disk of the volume's file.
fn disk(volume: &TestVolume) -> Option<LoopDevice> {
    LoopDevice::of(&volume.path("disk"))
}

/// Under each policy.
fn survives(mkfs: &str, check: &str) {
    POLICIES.iter().for_each(|options| survives_under(options, mkfs, check));
}

/// Writes a tree, kills the server in the middle of it, serves the volume again, and looks.
fn survives_under(options: &[&str], mkfs: &str, check: &str) {
    let (maker, checker) = (mkfs.split(' ').next().unwrap(), check.split(' ').next().unwrap());
    if !has(&[(maker, maker), (checker, checker)]) {
        return;
    }
    let volume = TestVolume::create_with(320 * MIB, 64 * MIB, options);
    let Some(served) = volume.serve_file(&[]) else { return };
    let Some(device) = disk(&volume) else { return };
    device.run(mkfs);
    let mounted = device.mount(&volume.path("mounted"));
    let synced = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_tree(&mounted.0, &synced));
        wait_for("a good part of the tree", || synced.lock().unwrap().len() >= SYNCED_FILES || writer.is_finished());
        served.kill();
        let error = writer.join().unwrap().unwrap_err();
        assert_ne!(error.kind(), io::ErrorKind::StorageFull, "the server died too late");
    });
    let synced = synced.into_inner().unwrap();
    assert!(synced.len() >= SYNCED_FILES);

    // Restarted under the mounted file system, which fails until it is mounted anew.
    let Some(served) = volume.serve_file(&[]) else { return };
    let said = served.said();
    assert!(said.contains("a killed server's mount was there"), "{said}");
    assert!(said.contains(&format!("losetup -d {}", device.0.display())), "{said}");
    drop((mounted, device));
    let Some(device) = disk(&volume) else { return };
    let mounted = device.mount(&volume.path("mounted"));
    check_tree(&mounted.0, &synced);
    mounted.unmount();
    device.run(check);
    drop(device);
    served.stop();

    // All is on the disk now, which needs no flash any more.
    let Some(raw) = LoopDevice::of(&volume.hdd) else { return };
    raw.run(check);
    let mounted = raw.mount(&volume.path("mounted"));
    check_tree(&mounted.0, &synced);
    mounted.unmount();
}

#[test]
fn what_xfs_fsynced_outlives_a_killed_server_and_xfs_repair_finds_nothing() {
    survives("mkfs.xfs -q", "xfs_repair -n");
}

#[test]
fn what_ext4_fsynced_outlives_a_killed_server_and_fsck_finds_nothing() {
    survives("mkfs.ext4 -q", "fsck.ext4 -fn");
}

#[test]
fn a_stop_waits_for_whoever_has_the_file_and_says_who() {
    let volume = TestVolume::create(64 * MIB, 32 * MIB);
    let Some(served) = volume.serve_file(&[]) else { return };
    let Some(device) = disk(&volume) else { return };
    device.run("mkfs.ext4 -q");
    let mounted = device.mount(&volume.path("mounted"));
    served.interrupt();
    wait_for("it says who uses it", || served.said().contains("is in use and served on"));
    assert!(served.said().contains(device.0.to_str().unwrap()), "{}", served.said());
    fs::write(mounted.0.join("file"), content(5)).unwrap();
    mounted.unmount();
    drop(device);
    assert!(served.wait().success());
    assert_eq!(fs::metadata(volume.path("disk")).unwrap().len(), 0, "only the empty file is left");
    let Some(raw) = LoopDevice::of(&volume.hdd) else { return };
    let mounted = raw.mount(&volume.path("mounted"));
    assert!(fs::read(mounted.0.join("file")).unwrap() == content(5));
    mounted.unmount();
}

#[test]
fn a_second_interrupt_ends_a_server_in_use_and_keeps_what_is_dirty() {
    let volume = TestVolume::create_with(64 * MIB, 32 * MIB, LAZY);
    let Some(served) = volume.serve_file(&[]) else { return };
    let file = File::options().write(true).open(volume.path("disk")).unwrap();
    file.write_all_at(&content(9)[..4096], 8192).unwrap();
    file.sync_all().unwrap();
    served.interrupt();
    wait_for("it says that it waits", || served.said().contains("is in use and served on"));
    served.interrupt();
    assert_eq!(served.wait().code(), Some(75), "dirty bytes stay that nobody asked to keep");
    assert!(file.write_all_at(&[0; 4096], 0).is_err(), "nobody serves it");
    drop(file);
    let Some(served) = volume.serve_file(&["--keep-dirty"]) else { return };
    let file = fs::File::open(volume.path("disk")).unwrap();
    let mut read = [0; 4096];
    file.read_exact_at(&mut read, 8192).unwrap();
    assert!(read == content(9)[..4096]);
    drop(file);
    served.stop();
    let Some(served) = volume.serve_file(&[]) else { return };
    served.stop();
    let mut read = [0; 4096];
    fs::File::open(&volume.hdd).unwrap().read_exact_at(&mut read, 8192).unwrap();
    assert!(read == content(9)[..4096], "it is on the disk in the end");
}

#[test]
fn discards_of_a_file_system_read_as_zeros() {
    if !has(&[("fstrim", "util-linux"), ("blkdiscard", "util-linux")]) {
        return;
    }
    let volume = TestVolume::create(64 * MIB, 32 * MIB);
    let Some(served) = volume.serve_file(&[]) else { return };
    let Some(device) = disk(&volume) else { return };
    fs::write(&device.0, vec![0xab; 8 << 20]).unwrap();
    succeed(std::process::Command::new("blkdiscard").args(["--offset", "4096", "--length", "1052672"]).arg(&device.0));
    let mut read = vec![0; 8 << 20];
    File::open(volume.path("disk")).unwrap().read_exact_at(&mut read, 0).unwrap();
    assert!(read[4096..4096 + 1_052_672].iter().all(|byte| *byte == 0));
    assert!(read[..4096].iter().chain(&read[4096 + 1_052_672..]).all(|byte| *byte == 0xab));
    device.run("mkfs.ext4 -q");
    let mounted: Mounted = device.mount(&volume.path("mounted"));
    fs::write(mounted.0.join("file"), vec![0xcd; 4 << 20]).unwrap();
    succeed(std::process::Command::new("sync").arg("--file-system").arg(&mounted.0));
    fs::remove_file(mounted.0.join("file")).unwrap();
    succeed(std::process::Command::new("fstrim").arg(&mounted.0));
    assert!(volume.status()["requests"]["zero"]["bytes_total"].as_u64().unwrap() > 4 << 20, "{}", volume.status());
    mounted.unmount();
    device.run("fsck.ext4 -fn");
    drop(device);
    served.stop();
}
