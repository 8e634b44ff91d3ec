//! Several testbeds, and what a testbed owes when it goes down.

#[path = "support/mounts.rs"]
mod mounts;
#[path = "support/site.rs"]
mod site;

use std::fs;

use mounts::{Testbed, mount};
use site::{TestSite, managed, role, text};

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
    let up = ["testbed", "up", "--name", "second", "--slow", slow, "--fast", fast, "--backing", backing];
    site.fail(125, &up, &[text(&site.file), "'default'", "--site"]);

    site.played(&["--keep-dirty", "--capacity", "1MiB"], TEST, "program");
    site.fail(125, &["--site", file, "testbed", "down", "default"], &["8.8KiB", "headstart drain", "--force"]);
    site.kill_agent();
    site.fail(125, &["testbed", "down", "default"], &[text(&site.slow), "--force"]);
    site.succeed(&["drain"]);
    assert_eq!(fs::read(site.slow.join("a")).unwrap(), [1; 9000]);
    site.succeed(&["testbed", "down", "default"]);
}
