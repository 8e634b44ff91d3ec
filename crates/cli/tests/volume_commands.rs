//! What `volume status` and `volume flush` say and do while volumes are served, and what a start and an end say.

#[path = "support/volume.rs"]
mod volume;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use serde_json::Value;
use volume::{LAZY, POLICIES, TestVolume, wait_for};

const MIB: u64 = 1 << 20;

/// Writes 64 blocks in a scattered order, durably.
fn write(volume: &TestVolume) {
    let file = File::options().write(true).open(volume.path("disk")).unwrap();
    for block in 0..64 {
        file.write_all_at(&[block as u8 + 1; 4096], block * 37 % 64 * 65536).unwrap();
    }
    file.sync_all().unwrap();
}

fn is_written(file: &File) -> bool {
    let mut read = [0; 4096];
    (0..64).all(|block| {
        file.read_exact_at(&mut read, block * 37 % 64 * 65536).unwrap();
        read == [block as u8 + 1; 4096]
    })
}

#[test]
fn status_names_every_served_volume_and_finds_one_by_uuid_disk_or_flash() {
    let volume = TestVolume::create_with(64 * MIB, 32 * MIB, LAZY);
    let list = |arguments: &[&str]| volume.ask(&[&["status"], arguments].concat());
    assert_eq!(serde_json::from_slice::<Value>(&list(&["--json"]).stdout).unwrap(), serde_json::json!([]));
    assert!(String::from_utf8_lossy(&list(&[]).stdout).contains("no volume is served"));
    let absent = list(&[volume.hdd.to_str().unwrap()]);
    assert_eq!(absent.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&absent.stderr).contains(volume.hdd.to_str().unwrap()));

    let Some(served) = volume.serve_file(&[]) else { return };
    write(&volume);
    let all: Value = serde_json::from_slice(&list(&["--json"]).stdout).unwrap();
    let uuid = all[0]["uuid"].as_str().unwrap();
    assert_eq!(all.as_array().unwrap().len(), 1);
    assert_eq!(all[0]["requests"]["write"]["requests_total"], 64);
    assert_eq!(all[0]["dirty_bytes"], 64 * 4096);
    for name in [uuid, volume.hdd.to_str().unwrap(), volume.ssd.to_str().unwrap()] {
        let one: Value = serde_json::from_slice(&list(&["--json", name]).stdout).unwrap();
        assert_eq!(one["uuid"], uuid, "{name}");
    }
    let text = String::from_utf8_lossy(&list(&[]).stdout).into_owned();
    for word in [uuid, volume.hdd.to_str().unwrap(), volume.ssd.to_str().unwrap(), "write-back", "256KiB", "guarded"] {
        assert!(text.contains(word), "no '{word}' in:\n{text}");
    }
    served.stop();
    assert_eq!(serde_json::from_slice::<Value>(&list(&["--json"]).stdout).unwrap(), serde_json::json!([]));
}

#[test]
fn status_shows_lius_segments_and_where_their_lengths_come_from() {
    let volume =
        TestVolume::create_with(64 * MIB, 32 * MIB, &["--policy", "auto", "--segment", "2MiB", "--head", "512KiB"]);
    let Some(served) = volume.serve_file(&[]) else { return };
    let segments = &volume.status()["segments"];
    assert_eq!((&segments["segment_bytes"], &segments["head_bytes"]), (&(2 * MIB).into(), &(MIB / 2).into()));
    assert_eq!(segments["basis"]["origin"], "given");
    let text = String::from_utf8_lossy(&volume.ask(&["status"]).stdout).into_owned();
    assert!(text.contains("of 2MiB with heads of 512KiB") && text.contains("sizes      as given"), "{text}");
    served.stop();
}

#[test]
fn addresses_are_traced_from_when_it_is_asked_for_until_no_more() {
    let volume = TestVolume::create(64 * MIB, 32 * MIB);
    let Some(served) = volume.serve_file(&[]) else { return };
    let hdd = volume.hdd.to_str().unwrap();
    let lines = |count: &str| {
        let output = volume.ask(&["status", hdd, "--trace-addresses", count]);
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("seconds,device,operation,offset,bytes\n"), "{text}");
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines("1000"), Vec::<String>::new());
    write(&volume);
    let seen = lines("0");
    assert!(seen.iter().any(|line| line.contains(",flash,write,")), "{seen:?}");
    assert!(seen.iter().any(|line| line.contains(",flash,flush,")), "{seen:?}");
    write(&volume);
    assert_eq!(lines("0"), Vec::<String>::new());
    served.stop();
}

#[test]
fn flush_writes_everything_back_while_the_volume_is_served() {
    let volume = TestVolume::create_with(64 * MIB, 32 * MIB, LAZY);
    let Some(served) = volume.serve_file(&[]) else { return };
    for arguments in [&["flush"][..], &["flush", volume.ssd.to_str().unwrap()]] {
        write(&volume);
        assert!(volume.status()["dirty_bytes"].as_u64().unwrap() > 0);
        let output = volume.ask(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(volume.status()["dirty_bytes"], 0);
        assert_eq!(volume.status()["state"], "serving");
        assert!(is_written(&File::open(volume.path("disk")).unwrap()));
    }
    served.stop();
    assert!(is_written(&File::open(&volume.hdd).unwrap()));
    assert_eq!(volume.ask(&["flush", volume.ssd.to_str().unwrap()]).status.code(), Some(125), "nobody serves it");
}

#[test]
fn a_stop_writes_back_unless_told_to_keep_and_the_next_start_goes_on_from_there() {
    let volume = TestVolume::create_with(64 * MIB, 32 * MIB, LAZY);
    let Some(served) = volume.serve_file(&["--keep-dirty"]) else { return };
    write(&volume);
    served.interrupt();
    assert!(served.wait().success());
    let said = std::fs::read_to_string(volume.path("serve.log")).unwrap();
    assert!(said.contains("256KiB stay on flash and are not lost"), "{said}");
    assert!(!is_written(&File::open(&volume.hdd).unwrap()));
    let Some(served) = volume.serve_file(&[]) else { return };
    assert!(is_written(&File::open(volume.path("disk")).unwrap()));
    served.stop();
    assert!(is_written(&File::open(&volume.hdd).unwrap()));
}

#[test]
fn a_volume_that_writes_through_leaves_nothing_on_flash_as_it_was_created_or_as_serve_is_told() {
    let volume = TestVolume::create_with(64 * MIB, 32 * MIB, &["--mode", "write-through", "--policy", "none"]);
    let Some(served) = volume.serve_file(&[]) else { return };
    write(&volume);
    let status = volume.status();
    assert_eq!((&status["mode"], &status["dirty_bytes"]), (&"write-through".into(), &0.into()), "{status}");
    assert!(is_written(&File::open(&volume.hdd).unwrap()));
    served.stop();
    let Some(served) = volume.serve_file(&["--mode", "write-back"]) else { return };
    write(&volume);
    assert_eq!(volume.status()["dirty_bytes"], 64 * 4096);
    served.stop();
}

#[test]
fn what_is_served_already_or_cannot_be_is_refused_with_its_reason() {
    let volume = TestVolume::create(64 * MIB, 32 * MIB);
    let refused = |words: &[&str], more: &[&str]| {
        let output = volume.run("serve", more);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{words:?} are not all in: {said}");
    };
    refused(&["--nbd", "--mount-file"], &[]);
    let directory = volume.directory.path().to_str().unwrap();
    refused(&["is no regular file"], &["--mount-file", directory]);
    refused(&["is not empty"], &["--mount-file", volume.hdd.to_str().unwrap()]);
    refused(&["no/socket", "create it"], &["--nbd", volume.path("no/socket").to_str().unwrap()]);
    refused(&["at most 107 bytes"], &["--nbd", volume.path(&"s".repeat(200)).to_str().unwrap()]);
    let bytes = std::fs::read(&volume.hdd).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0), "a volume that could not be served leaves its disk as it was");
    let Some(served) = volume.serve_file(&[]) else { return };
    let disk = volume.path("disk");
    refused(&["two servers on one volume"], &["--mount-file", volume.path("other").to_str().unwrap()]);
    assert!(!volume.path("other").exists(), "an empty file is left");
    let other = TestVolume::create(64 * MIB, 32 * MIB);
    let output = other.run("serve", &["--mount-file", disk.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("is mounted already"), "{said}");
    served.stop();
}

#[test]
fn a_service_manager_hears_when_clients_may_come_and_when_the_end_begins() {
    let volume = TestVolume::create(64 * MIB, 32 * MIB);
    let Some(served) = volume.serve_file(&[]) else { return };
    served.stop();
    let (manager, disk, socket) = (volume.path("manager"), volume.path("disk"), volume.path("nbd.sock"));
    let listener = UnixDatagram::bind(&manager).unwrap();
    listener.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let hears = |word: &str| {
        let mut message = [0; 256];
        let length = listener.recv(&mut message).unwrap();
        assert_eq!(String::from_utf8_lossy(&message[..length]).trim(), word);
    };
    let exports = [("--mount-file", &disk), ("--nbd", &socket)];
    for (option, path) in exports {
        let mut server = volume.verb("serve", &[option, path.to_str().unwrap()]);
        let mut server = server.env("NOTIFY_SOCKET", &manager).spawn().unwrap();
        hears("READY=1");
        match option {
            "--nbd" => drop(UnixStream::connect(path).unwrap()),
            _ => assert_eq!(std::fs::metadata(path).unwrap().len(), 64 * MIB),
        }
        let process = nix::unistd::Pid::from_raw(server.id() as i32);
        nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM).unwrap();
        hears("STOPPING=1");
        assert!(server.wait().unwrap().success(), "{option}");
    }
}

#[test]
fn a_second_interrupt_ends_writing_back_and_the_rest_stays_on_flash() {
    let mut volume = TestVolume::create(1024 * MIB, 96 * MIB);
    volume.emulate_disk("wd1602");
    let Some(served) = volume.serve_file(&["--policy", "none"]) else { return };
    let file = File::options().write(true).open(volume.path("disk")).unwrap();
    // A seek each on this disk: so many that a busy machine has time for a second interrupt.
    const BLOCKS: u64 = 6144;
    for block in 0..BLOCKS {
        file.write_all_at(&[block as u8; 4096], block * 797 % BLOCKS * 131_072).unwrap();
    }
    file.sync_all().unwrap();
    drop(file);
    let dirty = |volume: &TestVolume| volume.status()["dirty_bytes"].as_u64().unwrap();
    let before = dirty(&volume);
    served.interrupt();
    volume::wait_for("some writing back", || dirty(&volume) < before);
    served.interrupt();
    assert_eq!(served.wait().code(), Some(75), "dirty bytes stay that nobody asked to keep");
    let said = std::fs::read_to_string(volume.path("serve.log")).unwrap();
    assert!(said.contains("stay on flash and are not lost"), "{said}");
    // A faster disk of the same bytes finishes it.
    volume.names[0] = volume.hdd.to_str().unwrap().to_owned();
    let Some(served) = volume.serve_file(&[]) else { return };
    let mut read = [0; 4096];
    let mut is_there = |file: File| {
        (0..BLOCKS).all(|block| {
            file.read_exact_at(&mut read, block * 797 % BLOCKS * 131_072).unwrap();
            read == [block as u8; 4096]
        })
    };
    assert!(is_there(File::open(volume.path("disk")).unwrap()));
    served.stop();
    assert!(is_there(File::open(&volume.hdd).unwrap()));
}

#[test]
fn a_disk_whose_heads_are_on_flash_is_given_back_whole_with_the_flash_and_without() {
    for is_forced in [false, true] {
        let volume = TestVolume::create_with(64 * MIB, 24 * MIB, POLICIES[1]);
        let Some(served) = volume.serve_file(&[]) else { return };
        let file = File::options().read(true).write(true).open(volume.path("disk")).unwrap();
        let mut expected: Vec<u8> = (0..64 * MIB).map(|at| (at / 4096 * 37 + at % 251) as u8).collect();
        file.write_all_at(&expected, 0).unwrap();
        file.sync_all().unwrap();
        // None of the ends of the disk, which the guard hides.
        wait_for("heads on flash", || volume.status()["segments"]["lifted"].as_u64() > Some(4));
        // Some of them are newer in the log.
        for segment in 0..16 {
            let at = (segment * 4 * MIB + 8192) as usize;
            expected[at..at + 4096].fill(segment as u8);
            file.write_all_at(&expected[at..at + 4096], at as u64).unwrap();
        }
        file.sync_all().unwrap();
        drop(file);
        if is_forced {
            // So that nothing is on flash alone.
            assert!(volume.ask(&["flush", volume.hdd.to_str().unwrap()]).status.success());
        }
        served.kill();
        let mut command = volume.command(volume::HEADSTART);
        command.args(["volume", "detach", "--hdd", &volume.names[0]]);
        if is_forced {
            command.args(["--force", "--guard", "on", "--yes"]);
        } else {
            command.args(["--ssd", &volume.names[1]]);
        }
        volume::succeed(&mut command);
        assert!(std::fs::read(&volume.hdd).unwrap() == expected, "forced: {is_forced}");
    }
}
