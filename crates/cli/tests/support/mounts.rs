//! The mounts of emulated servers as the directories of a site.

use std::fs;

use crate::site::TestSite;

/// A testbed that goes down with the test.
pub struct Testbed<'a>(pub &'a TestSite);

impl Drop for Testbed<'_> {
    fn drop(&mut self) {
        let _ = self.0.headstart(&["stop", "--keep-dirty"]);
        let output = self.0.lab(&["testbed", "down", "--force"]);
        if !output.status.success() {
            eprintln!("{}", self.0.say(&output));
        }
    }
}

/// Brings a testbed up whose site file and mounts become the site's. False, and says so, where FUSE does not mount.
pub fn mount(site: &mut TestSite, options: &[&str]) -> bool {
    fs::remove_file(&site.file).unwrap();
    (site.slow, site.fast) = (site.path("mounted-slow"), site.path("mounted-fast"));
    let backing = site.path("backing");
    fs::create_dir(&backing).unwrap();
    let [slow, fast, backing] = [&site.slow, &site.fast, &backing].map(|path| path.to_str().unwrap());
    let up = ["testbed", "up", "--slow", slow, "--fast", fast, "--backing", backing];
    let output = site.lab(&[&up[..], options].concat());
    if output.status.success() {
        return true;
    }
    let said = site.say(&output);
    assert!(said.contains("FUSE") || said.contains("cannot mount"), "{said}");
    println!("SKIPPED: the testbed does not come up here: {said}");
    false
}
