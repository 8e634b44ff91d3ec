//! Several testbeds, and what a testbed owes when it goes down.

#[path = "support/mounts.rs"]
mod mounts;
#[path = "support/site.rs"]
mod site;

use std::fs;
use std::os::unix::fs::FileExt;

use mounts::{Testbed, mount};
use site::{TestSite, content, managed, role, text};

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
        site.fail(125, &up, &[text(&site.file), "'default'", "--site"]);
    }

    site.played(&["--keep-dirty", "--capacity", "1MiB"], TEST, "program");
    site.fail(125, &["--site", file, "testbed", "down", "default"], &["8.8KiB", "headstart drain", "--force"]);
    site.kill_agent();
    site.fail(125, &["testbed", "down", "--name", "default"], &[text(&site.slow), "--force"]);
    for name in [&["--name", "default"][..], &["default"], &[]] {
        site.succeed(&[&["testbed", "cool"], name].concat());
        site.succeed(&[&["testbed", "stats"], name].concat());
    }
    site.succeed(&["drain"]);
    assert_eq!(fs::read(site.slow.join("a")).unwrap(), [1; 9000]);
    site.succeed(&["testbed", "down", "--name", "default"]);
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
        let stats: serde_json::Value = serde_json::from_str(&site.succeed(&["testbed", "stats", "--json"])).unwrap();
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
