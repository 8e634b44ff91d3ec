//! Volumes that have a name, as units of systemd start them: `volume list`, and `volume serve --name`.

#[path = "support/volume.rs"]
mod volume;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use serde_json::Value;
use volume::{HEADSTART, LAZY, TestVolume, wait_for};

const MIB: u64 = 1 << 20;

/// The directory of volumes of a test.
fn names(volume: &TestVolume) -> PathBuf {
    volume.path("volumes")
}

fn write_file(volume: &TestVolume, name: &str, text: &str) {
    fs::create_dir_all(names(volume)).unwrap();
    fs::write(names(volume).join(format!("{name}.toml")), text).unwrap();
}

fn name(volume: &TestVolume, name: &str, more: &str) {
    let [hdd, ssd] = &volume.names;
    write_file(volume, name, &format!("hdd = {hdd:?}\nssd = {ssd:?}\n{more}"));
}

fn command(volume: &TestVolume, words: &[&str]) -> Command {
    let mut command = volume.command(HEADSTART);
    command.env("HEADSTART_VOLUMES", names(volume)).arg("volume").args(words);
    command
}

fn run(volume: &TestVolume, words: &[&str]) -> Output {
    command(volume, words).output().unwrap()
}

fn list(volume: &TestVolume) -> Value {
    let output = run(volume, &["list", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_list_has_what_is_named_and_what_is_served_and_says_how_each_stands() {
    let volume = TestVolume::create(64 * MIB, 32 * MIB);
    assert_eq!(list(&volume), serde_json::json!([]));
    assert!(String::from_utf8_lossy(&run(&volume, &["list"]).stdout).contains("no volume has a name"));
    name(&volume, "data", "");
    write_file(&volume, "gone", "hdd = \"/dev/null\"\nssd = \"/nowhere/flash\"\n");
    write_file(&volume, "lost", "hdd = \"/nowhere/disk\"\nssd = \"/dev/null\"\n");
    write_file(&volume, "wrong", "hdd = \"/dev/null\"\nsdd = \"/dev/null\"\n");
    fs::write(names(&volume).join("data.toml.bak"), "").unwrap();
    let states = || {
        let all = list(&volume);
        let pair = |one: &Value| format!("{} {}", one["name"].as_str().unwrap_or("-"), one["state"].as_str().unwrap());
        all.as_array().unwrap().iter().map(pair).collect::<Vec<_>>()
    };
    assert_eq!(states(), ["data stopped", "gone flash-missing", "lost disk-missing", "wrong unreadable"]);
    assert!(list(&volume)[3]["problem"].as_str().unwrap().contains("sdd"));
    let Some(served) = volume.serve_file(&[]) else { return };
    assert_eq!(states()[0], "data served", "whoever serves it");
    assert_eq!(list(&volume)[0]["uuid"], volume.status()["uuid"]);
    fs::remove_file(names(&volume).join("data.toml")).unwrap();
    assert_eq!(states()[3], "- served");
    let text = String::from_utf8(run(&volume, &["list"]).stdout).unwrap();
    assert!(text.contains("no flash") && text.contains("unreadable") && text.contains(&volume.names[0]), "{text}");
    served.stop();
}

/// A server that does not outlive a test that fails.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves it by its name until `work` is done; what it said.
fn serve_named(volume: &TestVolume, place: &Path, work: impl FnOnce()) -> Option<String> {
    let log = volume.path("named.log");
    let mut command = command(volume, &["serve", "--name", "data"]);
    let mut server = Server(command.stderr(File::create(&log).unwrap()).spawn().unwrap());
    let is_there = || fs::metadata(place).is_ok_and(|found| found.len() > 0 || !found.is_file());
    wait_for("the volume", || is_there() || server.0.try_wait().unwrap().is_some());
    let said = || fs::read_to_string(&log).unwrap();
    if !is_there() {
        assert!(said().contains("cannot mount on"), "{}", said());
        println!("SKIPPED: FUSE files cannot be mounted here: {}", said());
        return None;
    }
    work();
    let process = nix::unistd::Pid::from_raw(server.0.id() as i32);
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(server.0.wait().unwrap().success(), "{}", said());
    Some(said())
}

#[test]
fn a_volume_is_served_by_its_name_as_its_file_says_and_requests_are_no_lines_of_its_log() {
    let volume = TestVolume::create_with(64 * MIB, 32 * MIB, LAZY);
    name(&volume, "data", "mode = \"write-through\"\npolicy = \"itransformer\"\n");
    let place = volume.path("runtime/volumes/data/file");
    let work = || {
        let status = volume.status();
        assert_eq!((&status["mode"], &status["policy"]), (&"write-through".into(), &"itransformer".into()));
        let file = File::options().write(true).open(&place).unwrap();
        for block in 0..256 {
            file.write_all_at(&[block as u8; 4096], block * 131_072).unwrap();
        }
        file.sync_all().unwrap();
    };
    let Some(said) = serve_named(&volume, &place, work) else { return };
    assert!(said.lines().count() <= 2, "it writes to its log as often as it is asked: {said}");
    let checked = run(&volume, &["check", "--name", "data"]);
    assert!(checked.status.success(), "{}", said);
    name(&volume, "data", "export = \"nbd\"\nkeep_dirty = true\n");
    let socket = volume.path("runtime/volumes/data/socket");
    serve_named(&volume, &socket, || drop(std::os::unix::net::UnixStream::connect(&socket).unwrap()));
}

#[test]
fn a_disk_is_never_served_without_its_flash_which_may_come_late() {
    let volume = TestVolume::create_with(64 * MIB, 32 * MIB, LAZY);
    name(&volume, "data", "wait_s = 0\n");
    let place = volume.path("runtime/volumes/data/file");
    let Some(served) = volume.serve_file(&["--keep-dirty"]) else { return };
    let file = File::options().write(true).open(volume.path("disk")).unwrap();
    file.write_all_at(&[7; 4096], 32 * MIB).unwrap();
    file.sync_all().unwrap();
    drop(file);
    // The machine stops, and its flash is not there when it starts again.
    served.kill();
    let before = fs::read(&volume.hdd).unwrap();
    let away = volume.path("away");
    fs::rename(&volume.ssd, &away).unwrap();
    let refused = run(&volume, &["serve", "--name", "data"]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(said(&refused).contains(volume.ssd.to_str().unwrap()), "{}", said(&refused));
    assert!(
        !place.exists() && fs::read(&volume.hdd).unwrap() == before,
        "nothing is served, and the disk is as it was"
    );
    // It comes while a start waits for it.
    name(&volume, "data", "wait_s = 120\n");
    let flash = volume.ssd.clone();
    let comes = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        fs::rename(away, flash).unwrap();
    });
    let mut read = [0; 4096];
    let log = serve_named(&volume, &place, || File::open(&place).unwrap().read_exact_at(&mut read, 32 * MIB).unwrap());
    comes.join().unwrap();
    assert_eq!(read, [7; 4096]);
    assert!(log.unwrap().contains("waiting for"));
}

#[test]
fn what_a_file_says_wrongly_is_refused_with_its_reason() {
    let volume = TestVolume::create(64 * MIB, 32 * MIB);
    let refused = |volume_name: &str, words: &[&str]| {
        let output = run(&volume, &["serve", "--name", volume_name]);
        assert_eq!(output.status.code(), Some(125), "{}", said(&output));
        assert!(words.iter().all(|word| said(&output).contains(word)), "{words:?}: {}", said(&output));
    };
    refused("data", &["data.toml"]);
    for unsound in ["", ".", "../data", ".hidden", "a/b", "a b", "ä", "a@b"] {
        refused(unsound, &["letters, digits"]);
    }
    for (more, word) in [
        ("mode = \"fast\"\n", "mode"),
        ("policy = \"fast\"\n", "fast"),
        ("export = \"tape\"\n", "tape"),
        ("delay_max_ms = 0\n", "delay_max_ms is from 1 to 60000"),
        ("liu_threshold = 101\n", "liu_threshold is from 1 to 100"),
        ("wait = 3\n", "wait"),
    ] {
        name(&volume, "data", more);
        refused("data", &["data.toml", word]);
    }
    // Two volumes on one flash.
    name(&volume, "data", "");
    write_file(&volume, "other", &format!("hdd = \"/dev/null\"\nssd = {:?}\n", volume.names[1]));
    refused("data", &["belongs to volume other as well", "partition"]);
    let output = run(&volume, &["serve", "--name", "data", "--hdd", &volume.names[0]]);
    assert!(said(&output).contains("cannot be used with"), "{}", said(&output));
}
