//! The whole way on emulated servers: their costs in the site file, a traced program, its plan.

use std::fs;

use headstart_agent::site::Site;

use crate::site::{HEADSTART, TestSite};
use crate::{MIB, make, plan};

/// A testbed that goes down with the test.
struct Testbed<'a>(&'a TestSite);

impl Drop for Testbed<'_> {
    fn drop(&mut self) {
        let output = self.0.headstart(&["testbed", "down", "--force"]);
        if !output.status.success() {
            eprintln!("{}", self.0.say(&output));
        }
    }
}

#[test]
fn the_testbed_writes_the_costs_of_idle_servers_which_plans_go_by() {
    let mut site = TestSite::with_capacity("4MiB");
    fs::remove_file(&site.file).unwrap();
    (site.slow, site.fast) = (site.path("mounted-slow"), site.path("mounted-fast"));
    let backing = site.path("backing");
    fs::create_dir(&backing).unwrap();
    let [slow, fast, backing] = [&site.slow, &site.fast, &backing].map(|path| path.to_str().unwrap());
    let output = site.headstart(&["testbed", "up", "--slow", slow, "--fast", fast, "--backing", backing]);
    if !output.status.success() {
        let said = site.say(&output);
        assert!(said.contains("FUSE") || said.contains("cannot mount"), "{said}");
        println!("SKIPPED: the testbed does not come up here: {said}");
        return;
    }
    let _testbed = Testbed(&site);
    let carl = Site::load(&site.file).unwrap().carl.expect("the site file has CARL's costs");
    assert!(carl.read.ssd_startup_s > 0.0 && carl.read.ssd_busy_s_per_byte.is_some(), "{carl:?}");
    make(&site, "data", 64 * MIB);
    // Nine of ten requests are for one MiB.
    let program = "
import os
fd = os.open('data', os.O_RDONLY)
for k in range(300):
    os.pread(fd, 8192, (k * 37 % 64 << 20) if k % 10 == 0 else (9 << 20) + k * 29 % 128 * 8192)
";
    let trace = site.path("trace");
    let mut command = site.command(HEADSTART);
    command.arg("trace").arg("-o").arg(&trace).args(["--", "/usr/bin/python3", "-c", program]).current_dir(&site.slow);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    let made = plan(&site, &trace, &["--capacity", "1MiB", "--region", "1MiB"]);
    assert_eq!(made.placed("/data"), [9 * MIB]);
    // However late this machine is, most of the time on the disks is gone.
    let figure = |name: &str| made.figures[name].as_f64().unwrap();
    assert!(figure("after_s") < 0.7 * figure("before_s"), "{}", made.figures);
    let refused = ["plan", trace.to_str().unwrap(), "--capacity", "1000TiB"];
    site.fail(125, &refused, &["more than the file system", fast]);
}
