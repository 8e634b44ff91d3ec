//! The whole way on emulated servers: their costs in the site file, a traced program, its plan.

use headstart_agent::site::Site;

use crate::mounts::{Testbed, mount};
use crate::site::{HEADSTART, TestSite};
use crate::{MIB, make, plan};

#[test]
fn the_testbed_writes_the_costs_of_idle_servers_which_plans_go_by() {
    let mut site = TestSite::with_capacity("4MiB");
    if !mount(&mut site, &[]) {
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
    site.fail(125, &refused, &["more than the file system", site.fast.to_str().unwrap()]);
}
