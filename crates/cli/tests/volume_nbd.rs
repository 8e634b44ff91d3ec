//! A volume over NBD, seen by the clients that people use.

#[path = "volume_nbd/discards.rs"]
mod discards;
#[path = "volume_nbd/killed.rs"]
mod killed;
#[path = "support/volume.rs"]
mod volume;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use volume::{LAZY, POLICIES, TestVolume, has, succeed, wait_for};

const MIB: u64 = 1 << 20;

/// Bytes that never repeat, in pieces with holes between them.
fn write_image(path: &Path, bytes: u64, seed: u64) {
    let file = fs::File::create(path).unwrap();
    file.set_len(bytes).unwrap();
    let mut state = seed;
    for piece in (0..bytes / MIB).filter(|piece| piece % 3 != 1) {
        let word = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 16).to_le_bytes()
        };
        let data: Vec<u8> = std::iter::repeat_with(word).take(MIB as usize / 8).flatten().collect();
        file.write_all_at(&data, piece * MIB).unwrap();
    }
}

/// `qemu-io` with commands, one after the other; every pattern must be there.
fn qemu_io(volume: &TestVolume, commands: &[&str]) {
    let mut command = Command::new("qemu-io");
    command.args(["-f", "raw", "-t", "none", "-d", "unmap"]);
    for one in commands {
        command.args(["-c", one]);
    }
    let said = succeed(command.arg(volume.uri()));
    assert!(!said.contains("failed"), "{said}");
}

#[test]
fn clients_are_told_the_size_and_all_that_a_disk_can_do() {
    if !has(&[("nbdinfo", "libnbd-bin")]) {
        return;
    }
    let volume = TestVolume::create(64 * MIB, 32 * MIB);
    let served = volume.serve_nbd(&[]);
    let said: Value = serde_json::from_str(&succeed(Command::new("nbdinfo").arg("--json").arg(volume.uri()))).unwrap();
    let export = &said["exports"][0];
    assert_eq!(export["export-size"], 64 * MIB, "{said}");
    assert_eq!(export["is_read_only"], false);
    for can in ["can_flush", "can_fua", "can_trim", "can_zero", "can_fast_zero", "can_multi_conn"] {
        assert_eq!(export[can], true, "{can}: {said}");
    }
    for (limit, bytes) in [("minimum", 512), ("preferred", 4096), ("maximum", 32 * MIB)] {
        assert_eq!(export[format!("block_size_{limit}")], bytes, "{said}");
    }
    served.stop();
}

#[test]
fn an_image_copied_in_over_several_connections_comes_out_and_ends_on_the_disk() {
    if !has(&[("nbdcopy", "libnbd-bin"), ("qemu-img", "qemu-utils")]) {
        return;
    }
    for options in POLICIES {
        let volume = TestVolume::create_with(64 * MIB, 32 * MIB, options);
        let served = volume.serve_nbd(&[]);
        let (image, copy) = (volume.path("image"), volume.path("copy"));
        for seed in [1, 2] {
            write_image(&image, 64 * MIB, seed);
            succeed(Command::new("nbdcopy").args(["--connections=4", "--flush"]).arg(&image).arg(volume.uri()));
            succeed(Command::new("nbdcopy").arg(volume.uri()).arg(&copy));
            succeed(Command::new("cmp").arg(&image).arg(&copy));
            succeed(Command::new("qemu-img").args(["compare", "-f", "raw", "-F", "raw"]).arg(&image).arg(volume.uri()));
        }
        served.stop();
        succeed(Command::new("cmp").arg(&image).arg(&volume.hdd));
    }
}

#[test]
fn qemu_reads_back_what_it_wrote_zeroed_and_discarded_in_sectors() {
    if !has(&[("qemu-io", "qemu-utils")]) {
        return;
    }
    let volume = TestVolume::create(64 * MIB, 32 * MIB);
    let served = volume.serve_nbd(&[]);
    let written =
        ["write -P 0xaa 0 1M", "write -f -P 0xbb 4096 512", "write -f -P 0xcc 5632 4096", "write -z -u 64k 64k"];
    let zeroed = ["write -z -f 131072 512", "discard 256k 4k", "discard 300k 512", "write -P 0xdd 300k 512", "flush"];
    let read = [
        "read -P 0xaa 0 4096",
        "read -P 0xbb 4096 512",
        "read -P 0xaa 4608 1024",
        "read -P 0xcc 5632 4096",
        "read -P 0xaa 9728 55808",
        "read -P 0 64k 66048",
        "read -P 0xaa 131584 130560",
        "read -P 0 256k 4k",
        "read -P 0xaa 260k 40k",
        "read -P 0xdd 300k 512",
        "read -P 0xaa 307712 740864",
        "read -P 0 1M 1M",
    ];
    qemu_io(&volume, &[&written[..], &zeroed, &read].concat());
    // The very last sectors, which the guard keeps XORed on the disk, and requests as large as they get.
    qemu_io(&volume, &["write -f -P 0xee 67108352 512", "read -P 0xee 67108352 512", "read -P 0 67104256 4096"]);
    qemu_io(&volume, &["write -P 0x11 16M 32M", "read -P 0x11 16M 32M", "write -z 16M 32M", "read -P 0 16M 32M"]);
    served.kill();
    let served = volume.serve_nbd(&[]);
    qemu_io(&volume, &[&read[..], &["read -P 0 16M 32M", "read -P 0xee 67108352 512"]].concat());
    served.stop();
}

#[test]
fn fio_verifies_random_writes_and_trims() {
    if !has(&[("fio", "fio")]) {
        return;
    }
    let fio = |volume: &TestVolume, job: &str| {
        let mut fio = Command::new("fio");
        fio.current_dir(volume.directory.path());
        fio.args(["--name=volume", "--ioengine=nbd", "--thread", "--size=64M", "--iodepth=16", "--randseed=7"]);
        fio.args([
            "--allrandrepeat=1",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
            "--serialize_overlap=1",
        ]);
        succeed(fio.arg(format!("--uri={}", volume.uri())).args(job.split(' ')));
    };
    let (in_order, at_random) = ("--rw=write --bs=1M", "--rw=randrw --bs=4k --io_size=24M --fsync=16");
    for options in POLICIES {
        let volume = TestVolume::create_with(64 * MIB, 24 * MIB, options);
        let served = volume.serve_nbd(&[]);
        fio(&volume, "--rw=randtrimwrite --bs=16k --io_size=48M");
        fio(&volume, "--rw=randwrite --bsrange=512-64k --blockalign=512 --io_size=32M");
        fio(&volume, at_random);
        fio(&volume, in_order);
        if options.len() > 2 {
            // What was read again comes to flash, and is written and read there.
            wait_for("heads on flash", || volume.status()["segments"]["lifted"].as_u64() > Some(4));
            fio(&volume, at_random);
            fio(&volume, in_order);
        }
        assert!(volume.status()["requests"]["write"]["requests_total"].as_u64().unwrap() > 1000, "{}", volume.status());
        served.stop();
    }
}

#[test]
fn a_volume_or_socket_that_is_served_is_refused_to_a_second_server() {
    let volume = TestVolume::create(64 * MIB, 32 * MIB);
    let served = volume.serve_nbd(&[]);
    let refused = |socket: &str, words: &[&str]| {
        let output = volume.run("serve", &["--nbd", volume.path(socket).to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success());
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    refused("other.sock", &[volume.hdd.to_str().unwrap()]);
    let other = TestVolume::create(64 * MIB, 32 * MIB);
    let socket = volume.path("nbd.sock");
    let output = other.run("serve", &["--nbd", socket.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("listens there already"), "{said}");
    fs::write(volume.path("file"), "precious").unwrap();
    let output = other.run("serve", &["--nbd", volume.path("file").to_str().unwrap()]);
    assert!(!output.status.success());
    assert_eq!(fs::read(volume.path("file")).unwrap(), b"precious");
    served.stop();
}

#[test]
fn an_idle_client_holds_the_end_up_until_a_second_interrupt_and_loses_nothing() {
    if !has(&[("qemu-io", "qemu-utils")]) {
        return;
    }
    let volume = TestVolume::create_with(64 * MIB, 32 * MIB, LAZY);
    let served = volume.serve_nbd(&["--keep-dirty"]);
    qemu_io(&volume, &["write -f -P 0x5a 1M 1M"]);
    let reads = || volume.status()["requests"]["read"]["requests_total"].as_u64().unwrap();
    let before = reads();
    let mut client = Command::new("qemu-io")
        .args(["-f", "raw"])
        .arg(volume.uri())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the client", || {
        use std::io::Write;
        // Its prompt comes before the connection; a request that is counted comes after it.
        client.stdin.as_mut().unwrap().write_all(b"read 0 512\n").unwrap();
        reads() > before
    });
    served.interrupt();
    // Of two, where the first client's connection has not been seen closed yet.
    wait_for("the server says why it waits", || served.said().contains("connections to close"));
    served.interrupt();
    let log = volume.path("serve.log");
    assert!(served.wait().success(), "{}", fs::read_to_string(&log).unwrap());
    assert!(fs::read_to_string(&log).unwrap().contains("stay on flash and are not lost"));
    client.kill().unwrap();
    client.wait().unwrap();
    let served = volume.serve_nbd(&[]);
    qemu_io(&volume, &["read -P 0x5a 1M 1M"]);
    served.stop();
}

/// nbdkit's, of this build.
fn plugin() -> PathBuf {
    let plugin = Path::new(volume::HEADSTART).with_file_name("libnbdkit_headstart_plugin.so");
    assert!(plugin.exists(), "{} is missing: run 'cargo build --workspace' before the tests", plugin.display());
    plugin
}

#[test]
fn parameters_that_are_wrong_are_named() {
    if !has(&[("nbdkit", "nbdkit")]) {
        return;
    }
    let plugin = plugin();
    for (parameters, word) in [
        (&["hdd=a"][..], "ssd=DEV is missing"),
        (&["ssd=a"], "hdd=DEV is missing"),
        (&["hdd=a", "ssd=b", "colour=red"], "'colour' is no parameter"),
        (&["hdd=emulated:floppy:a"], "floppy"),
        (&["hdd=a", "ssd=b", "mode=fast"], "mode=fast"),
    ] {
        let output =
            Command::new("nbdkit").args(["--foreground", "--unix", "-"]).arg(&plugin).args(parameters).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(word), "{parameters:?}: {said}");
    }
    let help = succeed(Command::new("nbdkit").arg("--help").arg(&plugin));
    assert!(help.contains("hdd=DEV") && help.contains("keep-dirty"), "{help}");
}
