//! What gives no plan, or less of one: each says why and what to do.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use headstart_agent::plan::load;

use crate::site::TestSite;
use crate::{MIB, iolog, make, plan, reads};

#[test]
fn a_trace_that_was_cut_short_is_planned_from_as_far_as_it_goes() {
    let site = TestSite::with_capacity("1MiB");
    let a = make(&site, "a", 4 * MIB);
    let program = format!(
        "import os\nfd = os.open({:?}, os.O_RDONLY)\nfor k in range(30000): os.pread(fd, 512, (3 << 20) + k)",
        a.to_str().unwrap()
    );
    let trace = site.path("trace");
    site.succeed(&["trace", "-o", trace.to_str().unwrap(), "--", "/usr/bin/python3", "-c", &program]);
    let whole = plan(&site, &trace, &["--region", "1MiB"]);
    assert_eq!(whole.figures["requests"], 30000);
    let file = fs::read_dir(&trace).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let cut = plan(&site, &trace, &["--region", "1MiB"]);
    let count = cut.figures["requests"].as_u64().unwrap();
    assert!(count > 0 && count < 30000, "{count}");
    assert_eq!(cut.placed("/a"), [3 * MIB]);
    cut.says("blocks are missing at the end of a process's file");
    // A text whose last line the end cuts.
    let log = iolog(&site, &reads(&a, 0, 10));
    let text = fs::read(&log).unwrap();
    fs::write(&log, &text[..text.len() - 4]).unwrap();
    let cut = plan(&site, &log, &["--region", "1MiB"]);
    assert_eq!(cut.figures["requests"], 9);
    cut.says("1 lines are cut or malformed");
}

#[test]
fn a_plan_goes_to_what_is_no_file_and_through_links() {
    let site = TestSite::with_capacity("1GiB");
    let path = make(&site, "a", MIB);
    let log = iolog(&site, &reads(&path, 0, 3));
    let (kept, link) = (site.path("kept.toml"), site.path("link.toml"));
    fs::write(&kept, "old").unwrap();
    std::os::unix::fs::symlink(&kept, &link).unwrap();
    let planned = |output: &Path| site.succeed(&["plan", log.to_str().unwrap(), "-o", output.to_str().unwrap()]);
    planned(&link);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(load(&kept).unwrap().files.len(), 1);
    let null = site.path("null");
    let device = fs::metadata("/dev/null").unwrap().rdev();
    let mode = nix::sys::stat::Mode::from_bits_truncate(0o666);
    if let Err(error) = nix::sys::stat::mknod(&null, nix::sys::stat::SFlag::S_IFCHR, mode, device) {
        return println!("SKIPPED in part: making a device needs root ({error})");
    }
    planned(&null);
    assert_eq!(fs::metadata(&null).unwrap().rdev(), device, "a device is no file to be replaced");
}

#[test]
fn a_trace_of_another_version_or_none_is_refused_by_name() {
    let site = TestSite::with_capacity("1MiB");
    let a = make(&site, "a", 4 * MIB);
    let trace = site.path("trace");
    let program = format!("import os\nos.pread(os.open({:?}, os.O_RDONLY), 512, 0)", a.to_str().unwrap());
    site.succeed(&["trace", "-o", trace.to_str().unwrap(), "--", "/usr/bin/python3", "-c", &program]);
    let file = fs::read_dir(&trace).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&file).unwrap();
    bytes[6..8].copy_from_slice(b"99");
    fs::write(&file, &bytes).unwrap();
    let trace = trace.to_str().unwrap();
    site.fail(125, &["plan", trace], &["another version of Headstart", "format 99", trace]);
    site.fail(125, &["plan", site.path("none").to_str().unwrap()], &["cannot open the trace", "none"]);
    site.fail(125, &["plan", site.slow.to_str().unwrap()], &["holds no trace", site.slow.to_str().unwrap()]);
    let log = site.path("log");
    fs::write(&log, "fio version 1 iolog\n").unwrap();
    site.fail(125, &["plan", log.to_str().unwrap()], &["another version than 2 and 3", "log"]);
    fs::write(&log, "").unwrap();
    site.fail(125, &["plan", log.to_str().unwrap()], &["is empty"]);
    assert!(!site.path("plan.toml").exists());
}

#[test]
fn requests_at_impossible_places_are_left_out_and_counted() {
    let site = TestSite::with_capacity("1MiB");
    let a = make(&site, "a", 4 * MIB);
    let strange = [u64::MAX, i64::MAX as u64, i64::MAX as u64 - 4095].map(|at| reads(&a, at, 1)).concat();
    let made = plan(&site, &iolog(&site, &[reads(&a, MIB, 10), strange].concat()), &["--region", "1MiB"]);
    assert_eq!((made.placed("/a"), &made.figures["requests"]), (vec![MIB], &10.into()));
    made.says("3 requests at places that no file has are left out");
    // The last possible place is far beyond the file's end.
    let last = reads(&a, i64::MAX as u64 - 4096, 1);
    let made = plan(&site, &iolog(&site, &[reads(&a, MIB, 10), last].concat()), &["--region", "1MiB"]);
    assert_eq!(made.placed("/a"), [MIB]);
    made.says("what lies beyond is left out");
}

#[test]
fn a_trace_without_requests_of_the_site_is_refused() {
    let site = TestSite::with_capacity("1MiB");
    let plan = |lines: &[String], words: &[&str]| {
        let log = iolog(&site, lines);
        site.fail(125, &["plan", log.to_str().unwrap(), "-o", site.path("plan.toml").to_str().unwrap()], words);
        assert!(!site.path("plan.toml").exists());
    };
    plan(&[], &["has no request", "nothing to plan"]);
    let elsewhere = reads(&site.path("plain").join("c"), 0, 7);
    plan(
        &elsewhere,
        &["has 7 requests", "none on a file below", site.slow.to_str().unwrap(), "1 files do not lie below"],
    );
}

#[test]
fn a_capacity_or_region_that_makes_no_sense_is_refused_with_what_to_do() {
    let site = TestSite::with_capacity("1MiB");
    let log = iolog(&site, &reads(&make(&site, "a", 4 * MIB), 0, 10));
    let fails = |options: &[&str], words: &[&str]| {
        site.fail(125, &[&["plan", log.to_str().unwrap()][..], options].concat(), words);
    };
    fails(&["--capacity", "0"], &["room for nothing", "--capacity"]);
    fails(&["--capacity", "0%"], &["room for nothing", "--capacity"]);
    fails(&["--capacity", "120%"], &["--capacity", "120%"]);
    fails(&["--capacity", "1000TiB"], &["more than the file system", site.fast.to_str().unwrap(), "--capacity"]);
    fails(&["--region", "4095"], &["--region", "at least 4KiB"]);
    fails(&["--region", "0"], &["--region", "at least 4KiB"]);
    fails(&["--region", "much"], &["--region", "much"]);
    fails(&["--seed", "3"], &["--choice random"]);
    fails(&["-o", "/no/such/directory/plan.toml"], &["cannot write the plan /no/such/directory/plan.toml"]);
    // A region larger than the capacity is no error: the plan says what would help.
    let nothing = plan(&site, &log, &["--capacity", "1MiB", "--region", "4MiB"]);
    assert_eq!(nothing.plan.placed_bytes(), 0);
    nothing.says("the smallest region that gains has 4MiB, the capacity is 1MiB; choose smaller ones with --region");
    // Thousands of regions that were touched are one thing, millions of a long file that may be drawn are another.
    let long = make(&site, "long", 1 << 40);
    let log = iolog(&site, &reads(&long, 1 << 39, 1));
    let draw = ["plan", log.to_str().unwrap(), "--capacity", "1MiB", "--region", "4KiB", "--choice", "random"];
    site.fail(125, &draw, &["more than 1048576 regions", "long", "choose larger ones"]);
}
