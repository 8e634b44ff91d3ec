//! MPI-IO access patterns under Headstart with so little flash that write-back, fetch and eviction run all
//! the time: every byte read is verified by the program, and the slow file is the same as after a run without
//! Headstart.

#[path = "support/mounts.rs"]
mod mounts;
#[path = "support/site.rs"]
mod site;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use mounts::{Testbed, mount};
use site::{HEADSTART, TestSite, generator};

const RANKS: &str = "4";

/// The workload program, compiled once; nothing where Open MPI is missing.
fn patterns() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        for needed in ["mpicc.openmpi", "mpirun.openmpi"] {
            if Command::new(needed).arg("--version").output().is_err() {
                println!("SKIPPED: no {needed}: apt-get install openmpi-bin libopenmpi-dev");
                return None;
            }
        }
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/bench/patterns");
        let sources = fs::read_dir(sources).unwrap().map(|entry| entry.unwrap().path());
        let sources = sources.filter(|path| path.extension().is_some_and(|extension| extension == "c"));
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("patterns-{}", std::process::id()));
        let output = Command::new("mpicc.openmpi")
            .arg("-O2")
            .arg("-o")
            .arg(&program)
            .args(sources)
            .args(generator())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(program)
    });
    program.as_deref()
}

/// The launcher's arguments and the program's. OMPIO of Open MPI 4.1.4 reads and writes wrong bytes of its
/// own when it sieves data, so that is switched off.
fn launch(program: &Path, pattern: &[&str], file: &Path) -> Vec<String> {
    let launcher = ["mpirun.openmpi", "--oversubscribe", "-n", RANKS, "--mca", "fbtl_posix_write_datasieving", "0"];
    let mut arguments: Vec<String> = launcher.iter().map(|word| word.to_string()).collect();
    arguments.push(program.to_str().unwrap().into());
    arguments.extend(pattern.iter().map(|word| word.to_string()));
    arguments.extend(["--verify".into(), file.to_str().unwrap().into()]);
    arguments
}

/// Runs a pattern with and without Headstart and compares.
fn same_bytes(site: &TestSite, program: &Path, pattern: &[&str]) {
    let (plain, slow) = (site.path("plain/file"), site.slow.join("file"));
    let alone = launch(program, pattern, &plain);
    let output = site.command(&alone[0]).args(&alone[1..]).output().unwrap();
    assert!(output.status.success(), "without Headstart: {pattern:?}\n{}", site.say(&output));
    let output = site.command(HEADSTART).args(["run", "--"]).args(launch(program, pattern, &slow)).output().unwrap();
    assert!(output.status.success(), "{pattern:?}: {}\n{}\n{:#}", output.status, site.say(&output), site.status());
    assert_eq!(site.figure("/dirty_bytes"), 0);
    assert!(site.figure("/capacity_bytes") >= site.figure("/mapped_bytes"), "{:#}", site.status());
    for entry in fs::read_dir(site.path("plain")).unwrap() {
        let plain = entry.unwrap().path();
        let slow = site.slow.join(plain.file_name().unwrap());
        let (plain, slow) = (fs::read(plain).unwrap(), fs::read(slow).unwrap());
        assert_eq!(slow.len(), plain.len(), "{pattern:?}");
        let differs = slow.iter().zip(&plain).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{pattern:?}: the first wrong byte on disk");
    }
}

/// Runs a pattern until its writes have been absorbed, written back and, where flash is too small for them,
/// evicted. How much of each fits into one run is a matter of time; that the bytes are right is not.
fn takes_part(capacity: &str, pattern: &[&str], figures: &[&str]) {
    let Some(program) = patterns() else { return };
    let site = TestSite::with_capacity(capacity);
    for run in 0..20 {
        let generation = (10 * run).to_string();
        same_bytes(&site, program, &[pattern, &["--generation", &generation]].concat());
        if figures.iter().all(|figure| site.figure(&format!("/agent/{figure}")) > 0) {
            return;
        }
    }
    panic!("{pattern:?}: not all of {figures:?} in twenty runs: {:#}", site.status());
}

fn churns(capacity: &str, pattern: &[&str]) {
    let figures = ["absorbed_requests_total", "written_back_extents_total", "evicted_extents_total"];
    takes_part(capacity, pattern, &figures);
}

#[test]
fn ior_in_all_orders() {
    for order in ["seq", "perm_own_block", "uniform_own_block", "zipf_own_block"] {
        churns("512KiB", &["ior", "--transfer", "16KiB", "--block", "704KiB", "--order", order, "--repetitions", "2"]);
    }
}

#[test]
fn ior_draws_more_requests_than_a_block_has() {
    let drawn = ["ior", "--transfer", "16KiB", "--block", "700KiB", "--order", "zipf_own_block", "--requests", "300"];
    churns("256KiB", &[&drawn[..], &["--repetitions", "2"]].concat());
}

#[test]
fn ior_with_odd_requests_and_a_file_per_process() {
    churns(
        "256KiB",
        &["ior", "--transfer", "12345", "--block", "617250", "--order", "deal_global", "--repetitions", "2"],
    );
    churns("256KiB", &["ior", "--transfer", "8KiB", "--block", "512KiB", "--file-per-process", "--reorder-tasks", "1"]);
    churns(
        "256KiB",
        &["ior", "--transfer", "8KiB", "--block", "512KiB", "--reorder-random", "--order", "perm_own_block"],
    );
}

#[test]
fn ior_collective_with_syncs() {
    let pattern = ["ior", "--transfer", "16KiB", "--block", "256KiB", "--segments", "4", "--collective", "--sync"];
    churns("512KiB", &pattern);
}

#[test]
fn mpi_io_test() {
    churns("512KiB", &["mpi-io-test", "--block", "48KiB", "--iterations", "16", "--repetitions", "2"]);
    churns("512KiB", &["mpi-io-test", "--block", "64KiB", "--iterations", "16", "--collective"]);
    churns("512KiB", &["mpi-io-test", "--block", "48KiB", "--iterations", "16", "--file-per-process"]);
    // All ranks write the same bytes to one place.
    let figures = ["absorbed_requests_total", "written_back_extents_total"];
    takes_part("512KiB", &["mpi-io-test", "--block", "48KiB", "--iterations", "16", "--single-region"], &figures);
}

#[test]
fn tiles() {
    let shape = ["--nx", "2", "--ny", "2", "--sx", "128", "--sy", "64", "--element", "48"];
    churns("256KiB", &[&["tile", "--individual", "--header", "100"][..], &shape].concat());
    churns("256KiB", &[&["tile", "--repetitions", "2"][..], &shape].concat());
    // One rank writes for all, in one request.
    let collective = [&["tile", "--collective", "--repetitions", "2"][..], &shape].concat();
    takes_part("4MiB", &collective, &["absorbed_requests_total", "written_back_extents_total"]);
}

#[test]
fn hpio_with_gaps_between_regions() {
    let shape = ["--region-count", "128", "--region-size", "1536", "--region-spacing", "700", "--pattern", "c-nc"];
    churns("256KiB", &[&["hpio", "--individual"][..], &shape].concat());
    churns("256KiB", &[&["hpio", "--repetitions", "2"][..], &shape].concat());
    churns("256KiB", &[&["hpio", "--collective", "--repetitions", "2"][..], &shape].concat());
}

#[test]
fn btio() {
    churns("256KiB", &["btio", "--class", "S"]);
}

#[test]
fn iozone() {
    churns("512KiB", &["iozone", "--tests", "0,1,2,3", "--record", "4KiB", "--file-size", "512KiB"]);
}

#[test]
fn reads_are_fetched_to_flash_and_the_next_run_finds_them_there() {
    let Some(program) = patterns() else { return };
    let site = TestSite::with_capacity("1MiB");
    let slow = site.slow.join("file");
    let shape = ["ior", "--transfer", "16KiB", "--block", "512KiB", "--order", "perm_own_block"];
    let write = launch(program, &[&shape[..], &["--op", "write"]].concat(), &slow);
    assert!(site.command(&write[0]).args(&write[1..]).status().unwrap().success());
    let read = launch(program, &[&shape[..], &["--op", "read", "--think-us", "2000"]].concat(), &slow);
    // Fetches take the disk while programs do not; how many fit into one run is a matter of time, not of
    // right or wrong.
    for _ in 0..20 {
        let output = site.command(HEADSTART).args(["run", "--"]).args(&read).output().unwrap();
        assert!(output.status.success(), "{}", site.say(&output));
        if site.figure("/agent/fetches_total") > 0 && site.figure("/requests/flash_read_requests_total") > 0 {
            // Writes push out what was fetched, and the reads after them find the right bytes all the same.
            let write = launch(program, &[&shape[..], &["--generation", "5"]].concat(), &site.slow.join("other"));
            for command in [&write, &read] {
                let output = site.command(HEADSTART).args(["run", "--"]).args(command).output().unwrap();
                assert!(output.status.success(), "{}", site.say(&output));
            }
            assert!(site.figure("/agent/evicted_extents_total") > 0, "{:#}", site.status());
            return;
        }
    }
    panic!("nothing was fetched and read from flash in twenty runs: {:#}", site.status());
}

#[test]
fn patterns_on_the_testbeds_mounts() {
    let Some(program) = patterns() else { return };
    let mut site = TestSite::with_capacity("1MiB");
    if !mount(&mut site, &["--time-scale", "0.05"]) {
        return;
    }
    let testbed = Testbed(&site);
    let shapes: [&[&str]; 2] = [
        &["ior", "--transfer", "16KiB", "--block", "1472KiB", "--order", "perm_own_block", "--repetitions", "2"],
        &["hpio", "--region-count", "64", "--region-size", "1536", "--region-spacing", "700", "--individual"],
    ];
    for (number, pattern) in shapes.into_iter().enumerate() {
        let (plain, slow) = (site.path(&format!("plain/{number}")), site.slow.join(number.to_string()));
        let alone = launch(program, pattern, &plain);
        assert!(site.command(&alone[0]).args(&alone[1..]).status().unwrap().success());
        let run = site
            .command(HEADSTART)
            .args(["run", "--capacity", "1MiB", "--"])
            .args(launch(program, pattern, &slow))
            .output();
        let output = run.unwrap();
        assert!(output.status.success(), "{pattern:?}: {}\n{}", output.status, site.say(&output));
        assert!(fs::read(slow).unwrap() == fs::read(plain).unwrap(), "{pattern:?}: wrong bytes on disk");
    }
    for figure in ["absorbed_requests_total", "written_back_extents_total", "evicted_extents_total"] {
        assert!(site.figure(&format!("/agent/{figure}")) > 0, "{figure} is zero: {:#}", site.status());
    }
    site.succeed(&["stop"]);
    drop(testbed);
    assert!(fs::read_dir(&site.slow).unwrap().next().is_none(), "it is unmounted");
}
