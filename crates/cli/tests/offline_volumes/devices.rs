//! Devices that are none, the same, or somebody else's.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::loop_device::{Loop, Mounted};
use crate::volume::{TestVolume, failed, said};
use crate::{DISK_BYTES, FLASH_BYTES, created};

#[test]
fn names_of_no_device_are_refused_with_what_to_do() {
    let volume = created();
    let cases: [(&Path, i32, &str); 4] = [
        (Path::new("/no/such/disk"), 125, "truncate -s SIZE"),
        (volume.directory.path(), 125, "it is a directory"),
        (&volume.file("small", 4096), 125, "4096 bytes, a disk needs at least 2097152"),
        (&volume.file("ragged", DISK_BYTES + 1), 125, "no multiple of 512"),
    ];
    for (disk, status, words) in cases {
        for verb in ["create", "check", "inspect", "detach"] {
            let name = disk.display().to_string();
            failed(&volume.run_on(verb, disk, &volume.flash, &[]), status, &[&name, words]);
        }
    }
    let mut command = volume.command();
    failed(&command.args(["create", "--hdd", "a", "--ssd", "emulated:floppy:b"]).output().unwrap(), 125, &["floppy"]);
    failed(&volume.run("create", &["--ssd-size", "1GiB"]), 125, &["8MiB, less than the slice of 1GiB"]);
    failed(&volume.run("create", &["--ssd-size", "1MiB"]), 125, &["at least 2.1MiB"]);
    failed(&volume.run("create", &["--mode", "fast"]), 125, &["write-back, write-through"]);
    failed(&volume.run("create", &["--policy", "best"]), 125, &["itransformer", "none"]);
    failed(&volume.run("detach", &["--force"]), 125, &["--force"]);
    failed(&volume.run("detach", &["--yes"]), 125, &["--yes"]);
    failed(&volume.command().args(["detach", "--hdd", "a"]).output().unwrap(), 125, &["--ssd"]);
}

#[test]
fn the_same_bytes_twice_are_refused_also_as_a_loop_device() {
    let volume = created();
    let link = volume.path("link");
    fs::hard_link(&volume.disk, &link).unwrap();
    for flash in [&volume.disk, &link] {
        failed(&volume.run_on("create", &volume.disk, flash, &["--force"]), 125, &["must be two devices"]);
    }
    match Loop::of(&volume.disk) {
        Ok(device) => {
            for (disk, flash) in [(&*volume.disk, device.path()), (device.path(), &*volume.disk)] {
                failed(&volume.run_on("create", disk, flash, &["--force"]), 125, &["must be two devices"]);
            }
            // A loop device over the file is the file's disk; the file itself is in use meanwhile.
            let output = volume.run_on("check", device.path(), &volume.flash, &[]);
            assert!(output.status.success(), "{}", said(&output));
            failed(&volume.run("detach", &[]), 125, &["loop device", "losetup -d"]);
        }
        Err(why) => println!("SKIPPED: no loop device: {why}"),
    }
}

#[test]
fn a_loop_device_that_was_told_to_go_may_take_its_time() {
    let volume = created();
    let device = match Loop::of(&volume.disk) {
        Ok(device) => device,
        Err(why) => return println!("SKIPPED: no loop device: {why}"),
    };
    // As udev looks at it.
    let looked_at = File::open(device.path()).unwrap();
    drop(device);
    let mut command = volume.command();
    command.args(["detach", "--hdd"]).arg(&volume.disk).arg("--ssd").arg(&volume.flash);
    let detach = command.stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    drop(looked_at);
    let output = detach.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_mounted_device_is_refused_with_its_place() {
    let volume = TestVolume::new(DISK_BYTES, FLASH_BYTES);
    if !Command::new("mkfs.ext4").arg("-q").arg(&volume.disk).status().is_ok_and(|status| status.success()) {
        return println!("SKIPPED: mkfs.ext4 is not installed");
    }
    let mounted = Loop::of(&volume.disk).and_then(|device| {
        let mounted = Mounted::at(&device, &volume.path("mount"), &[])?;
        Ok((mounted, device))
    });
    let Ok((mounted, device)) = mounted else { return println!("SKIPPED: loop devices cannot be mounted here") };
    let place = volume.path("mount").display().to_string();
    failed(&volume.run_on("create", device.path(), &volume.flash, &[]), 125, &["mounted at", &place, "umount"]);
    failed(&volume.run("create", &[]), 125, &["mounted at", &place, "umount"]);
    drop((mounted, device));
    volume.succeed("create", &[]);
}

#[test]
fn a_volume_is_one_process_s_and_the_refusal_names_it() {
    let volume = created();
    let pair = volume.pair();
    let pid = format!("process {}", std::process::id());
    for verb in ["create", "check", "inspect", "detach"] {
        failed(&volume.run(verb, &[]), 125, &[&pid, "Stop that one first"]);
    }
    // Each device by itself, too.
    let (disk, flash) = (volume.file("other-disk", DISK_BYTES), volume.file("other-flash", FLASH_BYTES));
    failed(&volume.run_on("create", &disk, &volume.flash, &[]), 125, &[&pid]);
    failed(&volume.run_on("create", &volume.disk, &flash, &[]), 125, &[&pid]);
    failed(&volume.force(&volume.disk, &["--yes"]), 125, &[&pid]);
    drop(pair);
    volume.succeed("detach", &[]);
}
