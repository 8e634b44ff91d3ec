//! Several testbeds, and what a testbed owes when it goes down.

#[path = "../../../crates/cli/tests/support/mounts.rs"]
mod mounts;
#[path = "../../../crates/cli/tests/support/site.rs"]
mod site;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use mounts::{Testbed, mount};
use site::{TestSite, content, lab, managed, role, text};

/// What one request of a program moves, and how many places there are.
const PIECE: u64 = 16 << 10;
const PIECES: u64 = 200;

const TEST: &str = "a_testbed_with_dirty_bytes_stays_up_whoever_has_its_site_file";

#[test]
fn a_testbed_with_dirty_bytes_stays_up_whoever_has_its_site_file() {
    if role().is_some() {
        return fs::write(managed().join("a"), [1; 9000]).unwrap();
    }
    let mut site = TestSite::with_capacity("1MiB");
    if !mount(&mut site, &["--time-scale", "0"]) {
        return;
    }
    let _testbed = Testbed(&site);
    let second = [site.path("slow-2"), site.path("fast-2"), site.path("backing-2"), site.path("second.toml")];
    let [slow, fast, backing, file] = second.each_ref().map(|path| text(path));
    for name in [&["--name", "second"][..], &["second"]] {
        let up = [&["testbed", "up"], name, &["--slow", slow, "--fast", fast, "--backing", backing]].concat();
        site.lab_fails(125, &up, &[text(&site.file), "'default'", "--site"]);
    }

    site.played(&["--keep-dirty", "--capacity", "1MiB"], TEST, "program");
    site.lab_fails(125, &["--site", file, "testbed", "down", "default"], &["8.8KiB", "headstart drain", "--force"]);
    site.kill_agent();
    site.lab_fails(125, &["testbed", "down", "--name", "default"], &[text(&site.slow), "--force"]);
    for name in [&["--name", "default"][..], &["default"], &[]] {
        site.lab_succeeds(&[&["testbed", "cool"], name].concat());
        site.lab_succeeds(&[&["testbed", "stats"], name].concat());
    }
    site.succeed(&["drain"]);
    assert_eq!(fs::read(site.slow.join("a")).unwrap(), [1; 9000]);
    site.lab_succeeds(&["testbed", "down", "--name", "default"]);
}

/// Pieces of a file here and there, twice over, the second time other bytes; each process that reads them finds those.
fn scattered() {
    let path = managed().join("scattered");
    let file = fs::File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    for generation in [1, 2] {
        for piece in 0..PIECES {
            let offset = piece * 389 % PIECES * PIECE;
            file.write_all_at(&content(generation, offset, PIECE as usize), offset).unwrap();
        }
    }
    for piece in 0..PIECES {
        let (offset, mut found) = (piece * 271 % PIECES * PIECE, vec![0; PIECE as usize]);
        file.read_exact_at(&mut found, offset).unwrap();
        assert!(found == content(2, offset, PIECE as usize), "wrong bytes at {offset}");
    }
}

#[test]
fn policies_of_the_client_serve_the_right_bytes_above_volumes_of_the_servers() {
    let test = "policies_of_the_client_serve_the_right_bytes_above_volumes_of_the_servers";
    if role().is_some() {
        return scattered();
    }
    for servers in ["itransformer", "liu", "liu,itransformer", "auto"] {
        let mut site = TestSite::with_capacity("1MiB");
        if !mount(&mut site, &["--time-scale", "0", "--server-policy", servers]) {
            return;
        }
        let testbed = Testbed(&site);
        for client in ["s4d", "auto", "off"] {
            site.played(&["--capacity", "1MiB", "--policy", client], test, "program");
            let whole: Vec<u8> = (0..PIECES).flat_map(|piece| content(2, piece * PIECE, PIECE as usize)).collect();
            assert!(fs::read(site.slow.join("scattered")).unwrap() == whole, "{client} above {servers}");
        }
        let stats: serde_json::Value =
            serde_json::from_str(&site.lab_succeeds(&["testbed", "stats", "--json"])).unwrap();
        let writes = |server: &serde_json::Value| {
            let figure = |name: &str| server["volume"][name].as_u64().unwrap_or(0);
            figure("absorbed_bytes_total") + figure("bypassed_writes_total")
        };
        let taken: u64 = stats["mounts"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|mount| mount["servers"].as_array().unwrap())
            .map(writes)
            .sum();
        assert!(taken > 0, "{servers}: volumes were written to: {stats:#}");
        drop(testbed);
    }
}

#[test]
fn testbed_options_that_make_no_sense_are_named() {
    let site = TestSite::with_capacity("1MiB");
    fs::remove_file(&site.file).unwrap();
    let (slow, fast) = (site.path("mount-slow"), site.path("mount-fast"));
    let up = |more: &[&str], words: &[&str]| {
        let directories = ["testbed", "up", "--slow", text(&slow), "--fast", text(&fast)];
        site.lab_fails(125, &[&directories[..], more].concat(), words);
    };
    up(&["--hdd-profile", "floppy"], &["floppy", "seagate-250"]);
    up(&["--network", "pigeon"], &["pigeon", "gbe"]);
    up(&["--drive-write-cache", "maybe"], &["--drive-write-cache", "maybe", "on", "off"]);
    up(&["--hdd-servers", "0"], &["servers"]);
    up(&["--server-cache", "3"], &["--server-cache", "4 KiB"]);
    for (option, value) in [("--hdd-servers", "0"), ("--ssd-servers", "0"), ("--stripe", "0"), ("--server-cache", "3")]
    {
        site.lab_fails(125, &["testbed", "profile", option, value], &[option, value]);
    }
    fs::create_dir_all(&slow).unwrap();
    fs::write(slow.join("file"), b"x").unwrap();
    if Path::new("/dev/fuse").exists() {
        up(&[], &[text(&slow), "not empty"]);
    } else {
        up(&[], &["/dev/fuse", "modprobe fuse"]);
    }
    site.lab_fails(125, &["testbed", "down", "nobody"], &["nobody", "testbed up"]);
    site.lab_fails(125, &["testbed", "stats", "nobody"], &["nobody", "testbed up"]);
}

#[test]
fn a_site_file_of_somebody_else_is_not_overwritten_by_a_testbed() {
    let site = TestSite::with_capacity("1MiB");
    let before = fs::read(&site.file).unwrap();
    let (slow, fast) = (site.path("mount-slow"), site.path("mount-fast"));
    site.lab_fails(
        125,
        &["testbed", "up", "--slow", text(&slow), "--fast", text(&fast)],
        &[text(&site.file), "--site"],
    );
    assert_eq!(fs::read(&site.file).unwrap(), before);
}

#[test]
fn without_fuse_the_testbed_says_how_to_get_it() {
    let site = TestSite::with_capacity("1MiB");
    fs::remove_file(&site.file).unwrap();
    let (slow, fast) = (site.path("mount-slow"), site.path("mount-fast"));
    // A mount namespace of its own, in which the device is something else.
    let script = "mount --bind /dev/null /dev/fuse && exec \"$@\"";
    let mut command = site.command("unshare");
    command.args(["--mount", "sh", "-c", script, "sh", text(&lab()), "testbed", "up", "--slow", text(&slow), "--fast"]);
    let may = Command::new("unshare").args(["--mount", "sh", "-c", "mount --bind /dev/null /dev/fuse"]).status();
    if !may.is_ok_and(|status| status.success()) {
        println!("SKIPPED: hiding /dev/fuse needs root, unshare and the device");
        return;
    }
    let output = command.arg(&fast).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.to_lowercase().contains("fuse"), "{said}");
}
