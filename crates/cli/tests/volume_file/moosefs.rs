//! MooseFS whose disk chunk servers store on an XFS on a volume.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::volume::{LoopDevice, POLICIES, TestVolume, has};

const MIB: u64 = 1 << 20;

/// Set in the test's second run, below the file system: the volume's XFS.
const BRICKS: &str = "HEADSTART_TEST_BRICKS";
const TEST: &str = "moosefs::chunk_servers_on_a_volume_keep_files_over_a_kill_of_the_server";
const FILES: u64 = 24;

fn content(number: u64) -> Vec<u8> {
    let length = number * 104_729 % 3_000_000 + 1;
    (0..length).map(|at| (at * 13 + number * 101 + at / 65536) as u8).collect()
}

fn name(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("file{number}"))
}

fn files_below(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files_below(&path) } else { u64::from(path.extension().is_some()) }).sum()
}

/// What runs below the file system: writes files to the class of disks, reads them back, and finds their
/// chunks on the volume.
fn inside(bricks: &Path) {
    let slow = PathBuf::from(std::env::var_os("SLOW").expect("the script names it"));
    for number in 0..FILES {
        fs::write(name(&slow, number), content(number)).unwrap();
        fs::File::open(name(&slow, number)).unwrap().sync_all().unwrap();
    }
    for number in 0..FILES {
        let mut found = Vec::new();
        fs::File::open(name(&slow, number)).unwrap().read_to_end(&mut found).unwrap();
        assert!(found == content(number), "file {number} differs");
    }
    let chunks = files_below(bricks);
    assert!(chunks >= FILES, "{chunks} chunks lie on the volume");
    println!("{FILES} files, {chunks} chunks on the volume");
}

#[test]
fn chunk_servers_on_a_volume_keep_files_over_a_kill_of_the_server() {
    if let Some(bricks) = std::env::var_os(BRICKS) {
        return inside(Path::new(&bricks));
    }
    if !has(&[("mkfs.xfs", "xfsprogs"), ("mfsmaster", "moosefs-master"), ("mfschunkserver", "moosefs-chunkserver")]) {
        return;
    }
    let volume = TestVolume::create_with(640 * MIB, 64 * MIB, POLICIES[2]);
    let Some(served) = volume.serve_file(&[]) else { return };
    let Some(device) = LoopDevice::of(&volume.path("disk")) else { return };
    device.run("mkfs.xfs -q");
    let bricks = volume.path("bricks");
    let mounted = device.mount(&bricks);
    let work = volume.path("moosefs");
    for number in [1, 2] {
        let (server, brick) = (work.join(format!("chunk{number}")), bricks.join(number.to_string()));
        fs::create_dir_all(&server).unwrap();
        fs::create_dir(&brick).unwrap();
        symlink(brick, server.join("store")).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/bench/file_systems/moosefs.sh");
    let mut command = Command::new(script);
    command.arg(&work).arg(std::env::current_exe().unwrap()).args([TEST, "--exact", "--nocapture"]);
    let output = command.env(BRICKS, &bricks).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(77) {
        return println!("SKIPPED: {}", said.trim());
    }
    assert!(output.status.success(), "{said}");
    println!("{}", said.trim());

    // Its chunks, as checksums know them, are the same after a kill of the volume's server.
    crate::volume::succeed(Command::new("sync").arg("--file-system").arg(&bricks));
    let before = sums(&bricks);
    assert!(before.lines().count() as u64 >= FILES, "{before}");
    served.kill();
    drop((mounted, device));
    let Some(served) = volume.serve_file(&[]) else { return };
    let Some(device) = LoopDevice::of(&volume.path("disk")) else { return };
    let mounted = device.mount(&bricks);
    assert_eq!(sums(&bricks), before);
    mounted.unmount();
    device.run("xfs_repair -n");
    drop(device);
    served.stop();
}

/// Names and checksums of all files.
fn sums(directory: &Path) -> String {
    let script = "cd \"$0\" && find . -name '*.mfs' -type f | sort | xargs -r md5sum";
    crate::volume::succeed(Command::new("sh").args(["-c", script]).arg(directory))
}
