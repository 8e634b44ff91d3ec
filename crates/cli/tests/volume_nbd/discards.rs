//! Discards reach a thin disk, and take no more of it than they free.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::volume::{LoopDevice, TestVolume, has};
use crate::{MIB, qemu_io};

const GIB: u64 = 1 << 30;

/// Bytes that a file takes of its file system.
fn allocated(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// Writes, discards all of 2 GiB, and writes again: what is left of each, and what the disk was told to do.
fn discards_all(volume: &TestVolume, backing: &Path, more: &[&str]) {
    let served = volume.serve_nbd(more);
    qemu_io(volume, &["write -P 0xaa 0 32M", "write -P 0xbb 1G 32M", "flush"]);
    assert!(volume.ask(&["flush", &volume.names[0]]).status.success());
    let before = allocated(backing);
    assert!(before >= 64 * MIB, "{before}");
    qemu_io(
        volume,
        &["discard 0 2147479552", "discard 2147479552 4k", "write -P 0xcc 1100M 64k", "write -P 0xdd 0 4k"],
    );
    qemu_io(
        volume,
        &["read -P 0 4k 32764k", "read -P 0 1G 32M", "read -P 0xcc 1100M 64k", "read -P 0xdd 0 4k", "flush"],
    );
    assert!(volume.ask(&["flush", &volume.names[0]]).status.success());
    let disk = &volume.status()["disk"];
    let figure = |name: &str| disk[name].as_u64().unwrap();
    assert!(figure("zeroed_bytes_total") > 2 * GIB - 8 * MIB, "{disk}");
    assert!(figure("zeros_total") <= 128, "{disk}");
    // Both writes, and of the zeros what the guard hides.
    assert!(figure("written_bytes_total") < 64 * MIB + 8 * MIB, "{disk}");
    assert_eq!(figure("errors_total"), 0);
    served.stop();
    let after = allocated(backing);
    assert!(after < 8 * MIB, "{after} of {before} bytes are left");
    let disk = File::open(&volume.hdd).unwrap();
    let mut read = vec![0; 64 << 10];
    for (offset, expected) in [(8192, 0), (GIB, 0), (1100 * MIB, 0xcc), (2 * GIB - 65536, 0)] {
        disk.read_exact_at(&mut read, offset).unwrap();
        assert!(read.iter().all(|byte| *byte == expected), "at {offset}");
    }
}

#[test]
fn a_discard_of_all_frees_a_thin_file_in_few_orders_and_what_comes_later_stays() {
    if !has(&[("qemu-io", "qemu-utils")]) {
        return;
    }
    for more in [&[][..], &["--mode", "write-through"], &["--policy", "none"]] {
        let volume = TestVolume::create(2 * GIB, 64 * MIB);
        discards_all(&volume, &volume.hdd, more);
    }
}

#[test]
fn a_discard_goes_through_a_block_device_to_what_is_beneath() {
    if !has(&[("qemu-io", "qemu-utils")]) {
        return;
    }
    let mut volume = TestVolume::create(2 * GIB, 64 * MIB);
    let backing = volume.path("backing");
    File::create(&backing).unwrap().set_len(2 * GIB).unwrap();
    let Some(device) = LoopDevice::of(&backing) else { return };
    volume.hdd.clone_from(&device.0);
    volume.names[0] = device.0.to_str().unwrap().to_owned();
    volume.succeed("create", &["--force"]);
    discards_all(&volume, &backing, &[]);
}

#[test]
fn what_is_discarded_and_still_on_flash_is_freed_by_a_detachment_too() {
    if !has(&[("qemu-io", "qemu-utils")]) {
        return;
    }
    let volume = TestVolume::create(2 * GIB, 64 * MIB);
    let served = volume.serve_nbd(&["--policy", "none", "--keep-dirty"]);
    qemu_io(&volume, &["write -P 0xaa 64M 32M", "flush"]);
    assert!(volume.ask(&["flush", &volume.names[0]]).status.success());
    qemu_io(&volume, &["discard 0 1G", "flush"]);
    served.kill();
    volume.succeed("detach", &[]);
    assert!(allocated(&volume.hdd) < 8 * MIB, "{}", allocated(&volume.hdd));
}

#[test]
fn a_disk_that_cannot_discard_is_one_that_clients_do_not_discard() {
    if !has(&[("nbdinfo", "libnbd-bin"), ("qemu-io", "qemu-utils")]) {
        return;
    }
    let mut volume = TestVolume::create(64 * MIB, 32 * MIB);
    volume.emulate_disk("null");
    let served = volume.serve_nbd(&[]);
    let said = crate::volume::succeed(std::process::Command::new("nbdinfo").arg("--json").arg(volume.uri()));
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let export = &said["exports"][0];
    assert_eq!([&export["can_trim"], &export["can_zero"]], [false, true], "{said}");
    qemu_io(&volume, &["write -P 0xaa 0 4M", "write -z 1M 1M", "read -P 0 1M 1M", "read -P 0xaa 2M 2M"]);
    served.stop();
    let mut read = vec![0xaa; MIB as usize];
    File::open(&volume.hdd).unwrap().read_exact_at(&mut read, MIB).unwrap();
    assert!(read.iter().all(|byte| *byte == 0), "zeros are written");
}
