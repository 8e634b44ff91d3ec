//! `headstart calibrate`: what it refuses, what it leaves behind, and that its site file is used. How good
//! its figures are is seen in virtual time (`lab/testbed/tests/calibration.rs`) and in `lab/bench/`.

#[path = "support/site.rs"]
mod site;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use headstart_agent::site::Site;
use headstart_policy::cost::benefit::Parameters;
use nix::sys::signal::Signal;
use serde_json::Value;
use site::{HEADSTART, TestSite, kill, lab, wait_for};

/// Where files that are no scratch files lie.
const DATA: [&str; 2] = ["slow/results", "slow/.headstart-calibrated"];

fn test_site() -> TestSite {
    let site = TestSite::with_capacity("20%");
    DATA.iter().for_each(|name| fs::write(site.path(name), name).unwrap());
    site
}

/// Nothing but what was there before lies in the two directories.
#[track_caller]
fn assert_untouched(site: &TestSite) {
    let names = |path: &Path| {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        entries.filter(|name| name != ".headstart").collect::<Vec<_>>()
    };
    let mut slow = names(&site.slow);
    slow.sort();
    assert_eq!(slow, [".headstart-calibrated", "results"]);
    assert_eq!(names(&site.fast), [""; 0]);
    DATA.iter().for_each(|name| assert_eq!(fs::read_to_string(site.path(name)).unwrap(), *name));
}

/// Arguments for both directories of the site and a site file of the test's own, then others.
fn arguments<'a>(site: &'a TestSite, output: &'a Path, others: &[&'a str]) -> Vec<&'a str> {
    let text = |path: &'a Path| path.to_str().unwrap();
    let mut all = vec!["calibrate", "--slow", text(&site.slow), "--fast", text(&site.fast), "-o", text(output)];
    all.extend(["--size", "64MiB"]);
    all.extend(others);
    all
}

fn scratch_files(directory: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(".headstart-calibrate.")).collect()
}

#[test]
fn memory_is_refused_for_a_disk_and_nothing_stays_behind() {
    let site = test_site();
    let output = site.path("calibrated.toml");
    let words = ["--slow", "sooner than any disk", "page cache", "block device", "--size", "--accept-cached"];
    site.fail(125, &arguments(&site, &output, &["--minutes", "0.1"]), &words);
    assert_untouched(&site);
    assert!(!output.exists());
}

#[test]
fn the_site_file_loads_programs_run_with_it_and_what_people_set_in_it_is_kept() {
    let site = test_site();
    let (output, report, plots) = (site.path("calibrated.toml"), site.path("report.json"), site.path("plots"));
    let quickly = ["--accept-cached", "--minutes", "0.1", "--ranks", "3", "--hdd-servers", "5", "--stripe", "1MiB"];
    let mut all = arguments(&site, &output, &quickly);
    all.extend(["--report", report.to_str().unwrap(), "--plots", plots.to_str().unwrap()]);
    let said = site.succeed(&all);
    assert!(said.contains("LiU, a server: head") && said.contains("site file"), "{said}");
    assert_untouched(&site);

    let found = Site::load(&output).unwrap();
    assert_eq!((found.slow, found.fast), (site.slow.clone(), site.fast.clone()));
    assert_eq!((found.s4d.read.hdd_servers, found.s4d.read.ssd_servers, found.s4d.write.stripe_bytes), (5, 1, 1 << 20));
    let carl = found.carl.expect("a calibration knows CARL's parameters");
    assert!(carl.read.hdd_s_per_byte > 0.0 && carl.write.ssd_s_per_byte > 0.0);

    let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["slow"]["span_bytes"], 64 << 20);
    let loads = report["slow"]["loads"].as_array().unwrap();
    assert!(loads.len() > 60 && loads.iter().all(|load| load["bytes_per_s"].as_f64().is_some_and(|rate| rate > 0.0)));

    let drawn: Vec<PathBuf> = fs::read_dir(&plots).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(drawn.len() >= 14, "{drawn:?}");
    for path in drawn {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{path:?}");
        assert!(text.contains("<polyline") && !text.contains("NaN") && !text.contains("inf\""), "{path:?}");
    }

    let output_text = output.to_str().unwrap();
    let file = site.slow.join("written");
    site.succeed(&["--site", output_text, "run", "--", "sh", "-c", &format!("echo yes > {}", file.display())]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "yes\n");
    site.succeed(&["--site", output_text, "stop"]);
    fs::remove_file(&file).unwrap();

    let text = fs::read_to_string(&output).unwrap().replace("\"20%\"", "\"3GiB\"");
    fs::write(&output, text.replace("\n[s4d.read]", "exclude = [\"*.log\"]\n\n[s4d.read]")).unwrap();
    site.succeed(&arguments(&site, &output, &["--accept-cached", "--minutes", "0.05"]));
    let found = Site::load(&output).unwrap();
    assert_eq!((found.capacity.as_deref(), found.exclude), (Some("3GiB"), vec!["*.log".to_string()]));
    assert_eq!(found.s4d.read.hdd_servers, 1);
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_written() {
    let site = test_site();
    let output = site.path("calibrated.toml");
    let refuse = |others: &[&str], words: &[&str]| site.fail(125, &arguments(&site, &output, others), words);
    refuse(&["--minutes", "0"], &["--minutes"]);
    refuse(&["--minutes", "1", "--quick"], &["--quick"]);
    refuse(&["--ranks", "0"], &["--ranks"]);
    site.fail(125, &["calibrate", "--slow", "/tmp"], &["--fast"]);

    let (slow, fast) = (site.slow.to_str().unwrap(), site.fast.to_str().unwrap());
    let output = output.to_str().unwrap();
    let of = |slow: &str, fast: &str, others: &[&str], words: &[&str]| {
        let mut all = vec!["calibrate", "--slow", slow, "--fast", fast, "-o", output];
        all.extend(others);
        site.fail(125, &all, words);
    };
    of("/no/such/directory", fast, &[], &["--slow", "/no/such/directory", "not found"]);
    of(slow, slow, &[], &["the same", slow]);
    of("/dev/null", fast, &[], &["--slow", "/dev/null", "neither a directory nor a block device"]);
    of(slow, fast, &["--size", "1MiB"], &["--slow", "64MiB"]);
    of(slow, fast, &["--size", "nonsense"], &["nonsense"]);
    let inside = site.slow.join("inside");
    fs::create_dir(&inside).unwrap();
    of(slow, inside.to_str().unwrap(), &[], &["inside each other"]);
    fs::remove_dir(&inside).unwrap();

    let (small, large) = (site.path("small"), site.path("large"));
    fs::write(&small, [1; 4096]).unwrap();
    fs::File::create(&large).unwrap().set_len(1 << 30).unwrap();
    of(small.to_str().unwrap(), fast, &[], &["--slow", "small", "4KiB", "64MiB"]);
    of(large.to_str().unwrap(), fast, &[], &["large", "--slow-directory"]);
    of(large.to_str().unwrap(), fast, &["--slow-directory", small.to_str().unwrap()], &["not a directory"]);
    let report = ["--minutes", "0.05", "--accept-cached", "--report", slow];
    let said = site.headstart(&arguments(&site, Path::new(output), &report));
    assert_eq!(said.status.code(), Some(125));
    assert!(said.stdout.is_empty(), "not only when everything was measured: {}", site.say(&said));
    assert!(String::from_utf8_lossy(&said.stderr).contains(&format!("cannot write {slow}")), "{}", site.say(&said));
    assert!(!Path::new(output).exists());
    // The site file of the test was written by hand.
    let slow_and_fast = ["calibrate", "--slow", slow, "--fast", fast];
    site.fail(125, &slow_and_fast, &["site.toml", "was not written by 'headstart calibrate'"]);
    assert_untouched(&site);
}

fn start(site: &TestSite, output: &Path) -> Child {
    let mut command = site.command(HEADSTART);
    command.args(arguments(site, output, &["--accept-cached", "--minutes", "2"]));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn ctrl_c_removes_the_scratch_files_and_writes_no_site_file() {
    let site = test_site();
    let output = site.path("calibrated.toml");
    let mut child = start(&site, &output);
    wait_for("both scratch files are there", || {
        [&site.slow, &site.fast].iter().all(|directory| !scratch_files(directory).is_empty())
    });
    kill(child.id() as i32, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_untouched(&site);
    assert!(!output.exists());
}

#[test]
fn what_a_killed_calibration_left_is_removed_by_the_next_and_what_another_writes_is_not() {
    let site = test_site();
    let output = site.path("calibrated.toml");
    let mut child = start(&site, &output);
    wait_for("a scratch file is there", || !scratch_files(&site.slow).is_empty());
    site.fail(125, &arguments(&site, &output, &[]), &["another calibration", "under way"]);
    assert_eq!(scratch_files(&site.slow).len(), 1);
    kill(child.id() as i32, Signal::SIGKILL);
    child.wait().unwrap();
    assert_eq!(scratch_files(&site.slow).len(), 1, "it had no time to remove it");

    let elsewhere = site.slow.join(".headstart-calibrate.another-node.12");
    fs::write(&elsewhere, "somebody's").unwrap();
    let words = ["removed", "a killed calibration", "another-node", "on another node"];
    site.fail(125, &arguments(&site, &output, &["--minutes", "0.1"]), &words);
    assert_eq!(scratch_files(&site.slow), std::slice::from_ref(&elsewhere));
    fs::remove_file(&elsewhere).unwrap();
    scratch_files(&site.fast).iter().for_each(|path| fs::remove_file(path).unwrap());
    assert_untouched(&site);
}

/// An emulated device, served as a file until dropped.
struct Device {
    file: PathBuf,
    server: Child,
}

impl Device {
    fn start(site: &TestSite, profile: &str) -> Device {
        let file = site.path(profile);
        let mut command = Command::new(lab());
        command.args(["testbed", "disk", "--profile", profile, "--size", "1GiB", "--file"]).arg(&file);
        let server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let outside = site.directory.path().metadata().unwrap().dev();
        wait_for("the device is mounted", || file.metadata().is_ok_and(|found| found.dev() != outside));
        Device { file, server }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        kill(self.server.id() as i32, Signal::SIGTERM);
        let _ = self.server.wait();
    }
}

/// Two emulated devices, if the machine can have them.
fn devices(site: &TestSite, slow: &str, fast: &str) -> Option<(Device, Device)> {
    if !Path::new("/dev/fuse").exists() || !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: no /dev/fuse, or not root");
        return None;
    }
    Some((Device::start(site, slow), Device::start(site, fast)))
}

/// What a short calibration of the two says, and the site file that it writes.
fn calibrate_devices(site: &TestSite, slow: &Device, fast: &Device, others: &[&str]) -> (String, Site) {
    let output = site.path("calibrated.toml");
    let text = |path: &Path| path.to_str().unwrap().to_string();
    let paths = [text(&slow.file), text(&fast.file), text(&site.slow), text(&site.fast), text(&output)];
    let [slow, fast, slow_directory, fast_directory, output_text] = paths.each_ref().map(String::as_str);
    let mut arguments = vec!["calibrate", "--slow", slow, "--fast", fast, "-o", output_text];
    arguments.extend(["--slow-directory", slow_directory, "--fast-directory", fast_directory]);
    arguments.extend(["--minutes", "0.2", "--ranks", "2", "--accept-cached"]);
    arguments.extend(others);
    let done = site.headstart(&arguments);
    let said = site.say(&done);
    assert!(done.status.success(), "{said}");
    (said, Site::load(&output).unwrap())
}

#[test]
fn a_device_is_only_read_and_tiers_that_were_exchanged_are_noticed() {
    let site = test_site();
    let Some((flash, disk)) = devices(&site, "revodrive-x2", "wd1602") else { return };
    let (said, found) = calibrate_devices(&site, &flash, &disk, &[]);
    for words in ["are --slow and --fast exchanged", "writes were not measured", "--overwrite-device would"] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!((&found.slow, &found.fast), (&site.slow, &site.fast));
    let of_reads = Parameters { near_stays: false, interleaved_stays: false, ..found.s4d.read.clone() };
    assert_eq!(
        found.s4d.write, of_reads,
        "writes have the costs of reads, but nobody knows where those that go on belong"
    );
    assert!(!found.region_costs().write.near_stays);
    assert_eq!([&flash.file, &disk.file].map(|file| file.metadata().unwrap().blocks()), [0, 0], "nothing was written");
    assert_untouched(&site);
}

#[test]
fn a_device_that_may_be_overwritten_has_costs_of_writes_of_its_own() {
    let site = test_site();
    let Some((disk, flash)) = devices(&site, "wd1602", "revodrive-x2") else { return };
    let (said, found) = calibrate_devices(&site, &disk, &flash, &["--overwrite-device"]);
    assert!(!said.contains("writes were not measured") && !said.contains("exchanged"), "{said}");
    assert_eq!((&found.slow, &found.fast), (&site.slow, &site.fast));
    assert_ne!(found.s4d.write.hdd_s_per_byte, found.s4d.read.hdd_s_per_byte, "{said}");
    assert!([&disk.file, &flash.file].iter().all(|file| file.metadata().unwrap().blocks() > 0), "both were written");
    assert_untouched(&site);
}
