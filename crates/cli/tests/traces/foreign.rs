//! Traces of other tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::site::{HEADSTART, TestSite, lab};
use crate::{lines, requests, succeed};

/// The Python of `build/python` that has Darshan's package, and the logs that the package ships; none where
/// it is missing.
fn darshan() -> Option<(PathBuf, PathBuf)> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/python/bin");
    let script = "import darshan, os; print(os.path.dirname(darshan.__file__))";
    let output = Command::new(python.join("python3")).args(["-c", script]).output().ok();
    match output.filter(|output| output.status.success()) {
        Some(output) => Some((python, PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end()))),
        None => {
            println!("SKIPPED: build/python has no package darshan; 'make setup' installs it where PyPI is in reach");
            None
        }
    }
}

/// `headstart convert LOG` with a Python.
fn convert(site: &TestSite, python: &Path, log: &Path, options: &[&str]) -> Command {
    let mut command = site.command(HEADSTART);
    let path = format!("{}:{}", python.display(), std::env::var("PATH").unwrap());
    command.arg("convert").arg(log).args(options).env("PATH", path);
    command
}

#[test]
fn the_logs_that_darshans_package_ships_are_read() {
    let Some((python, package)) = darshan() else { return };
    let site = TestSite::with_capacity("64MiB");
    for (log, layer, count, files, other) in [
        ("examples/example_logs/dxt.darshan", "posix", 7623, 169, 0),
        ("examples/example_logs/ior_hdf5_example.darshan", "posix", 59, 1, 59),
        ("examples/example_logs/ior_hdf5_example.darshan", "mpiio", 59, 1, 59),
        ("tests/input/sample-dxt-simple.darshan", "posix", 2, 2, 1),
    ] {
        let output = succeed(&site, &mut convert(&site, &python, &package.join(log), &["--layer", layer]));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("{count} requests on {files} files")), "{log}: {said}");
        assert_eq!(said.contains(&format!("{other} requests of the other layer")), other > 0, "{log}: {said}");
        assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), count, "{log}");
    }
    let log = package.join("examples/example_logs/example.darshan");
    let output = convert(&site, &python, &log, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("without an extended trace"));
}

/// The simulator makes the requests of a binary log, of its text, of an iolog of either version and of our
/// own trace; none is lost.
#[test]
fn every_kind_of_trace_is_replayed_in_the_simulator() {
    let site = TestSite::with_capacity("64MiB");
    let sim = |path: &Path, bin: Option<&Path>| {
        let mut command = site.command(lab());
        if let Some(bin) = bin {
            command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
        }
        let output = succeed(&site, command.arg("sim").arg(path).args(["--json", "--check"]));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let phases = report["jobs"][0]["phases"].as_array().unwrap().clone();
        let sum = |key: &str| phases.iter().map(|phase| phase[key].as_u64().unwrap()).sum::<u64>();
        (sum("reads"), sum("writes"))
    };
    let log = site.path("iolog");
    fs::write(
        &log,
        "fio version 2 iolog\n/a add\n/a open\n/a write 0 4096\n/a read 0 4096\n/a read 8192 512\n/a close\n",
    )
    .unwrap();
    assert_eq!(sim(&log, None), (2, 1));
    fs::write(&log, "fio version 3 iolog\n1 /a add\n1 /a open\n2 /a write 0 4096\n3 /a read 0 512\n4 /a close\n")
        .unwrap();
    assert_eq!(sim(&log, None), (1, 1));
    fs::write(site.slow.join("own"), [1; 9000]).unwrap();
    let own = site.slow.join("own");
    succeed(&site, &mut crate::trace(&site, &["dd", &format!("if={}", own.display()), "of=/dev/null", "bs=3000"]));
    let (reads, writes) = sim(&crate::trace_of(&site), None);
    assert!(reads >= 3 && writes == 0, "{reads} reads, the one at the end may move nothing");
    let Some((python, package)) = darshan() else { return };
    let (log, text) = (package.join("examples/example_logs/dxt.darshan"), site.path("text"));
    let (reads, writes) = sim(&log, Some(&python));
    assert_eq!(reads + writes, 7613, "ten of its 7623 move nothing");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/trace/dxt_text.py");
    fs::write(&text, Command::new(python.join("python3")).arg(script).arg(&log).output().unwrap().stdout).unwrap();
    assert_eq!(sim(&text, None), (reads, writes));
}

#[test]
fn a_log_that_is_cut_or_damaged_is_refused_with_what_is_missing() {
    let Some((python, package)) = darshan() else { return };
    let site = TestSite::with_capacity("64MiB");
    let damaged = site.path("damaged.darshan");
    for log in ["examples/example_logs/dxt.darshan", "examples/example_logs/ior_hdf5_example.darshan"] {
        let whole = fs::read(package.join(log)).unwrap();
        let refused = |bytes: &[u8], why: &str| {
            fs::write(&damaged, bytes).unwrap();
            let output = convert(&site, &python, &damaged, &[]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!((output.status.code(), output.stdout.len()), (Some(125), 0), "{log}, {why}: {said}");
            assert!(said.contains("damaged.darshan") && said.contains(why), "{log}, {why}: {said}");
        };
        for part in [1, 10, 50, 90, 99] {
            refused(&whole[..whole.len() * part / 100], "");
        }
        refused(&whole[..whole.len() - 1], "is cut");
        // Of both, the extended trace is the second half at least.
        for part in [60, 80, 97] {
            let mut bytes = whole.clone();
            bytes[whole.len() * part / 100] ^= 16;
            refused(&bytes, "is damaged");
        }
    }
}

#[test]
fn the_text_of_a_log_says_what_the_log_does() {
    let Some((python, package)) = darshan() else { return };
    let site = TestSite::with_capacity("64MiB");
    let (log, text) = (package.join("examples/example_logs/dxt.darshan"), site.path("text"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/trace/dxt_text.py");
    let printed = Command::new(python.join("python3")).arg(script).arg(&log).output().unwrap();
    fs::write(&text, &printed.stdout).unwrap();
    let output = succeed(&site, &mut convert(&site, &python, &log, &[]));
    assert!(output.stdout == succeed(&site, &mut convert(&site, &python, &text, &[])).stdout);
    // A text that is cut says what it lost.
    fs::write(&text, &printed.stdout[..printed.stdout.len() - 10]).unwrap();
    let (shorter, said) = lines(&site, &text);
    assert_eq!(shorter.len(), 7622);
    assert!(said.contains("lines are cut") && said.contains("announced and not there"), "{said}");
}

#[test]
fn a_missing_package_is_named_with_what_to_do() {
    let site = TestSite::with_capacity("64MiB");
    let (log, empty) = (site.path("job.darshan"), site.path("empty"));
    fs::write(&log, b"3.41\0\0\0\0").unwrap();
    fs::create_dir(&empty).unwrap();
    let mut command = site.command(HEADSTART);
    let output = command.arg("convert").arg(&log).env("PATH", &empty).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("pip install darshan") && said.contains("darshan-dxt-parser"), "{said}");
    // A Python without the package.
    let output = site
        .command(HEADSTART)
        .arg("convert")
        .arg(&log)
        .env("PYTHONPATH", &empty)
        .env("PATH", "/usr/bin")
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("pip install darshan"), "{}", site.say(&output));
}

#[test]
fn a_long_text_out_of_order_comes_by_start() {
    let site = TestSite::with_capacity("64MiB");
    let text = site.path("text");
    // More than is sorted at a time.
    let count = 300_000u64;
    let mut lines = String::from("fio version 3 iolog\n");
    for k in 0..count {
        lines.push_str(&format!("{} /a/{} write {} 512\n", (k * 7919) % count, k % 3, k * 512));
    }
    fs::write(&text, lines).unwrap();
    let found = requests(&site, &text);
    assert_eq!(found.len() as u64, count);
    let offsets: Vec<u64> = found.iter().map(|request| request.2 / 512 * 7919 % count).collect();
    assert!(offsets.iter().copied().eq(0..count));
}

#[test]
fn a_table_has_a_row_for_each_request_and_paths_of_any_bytes() {
    let site = TestSite::with_capacity("64MiB");
    let (text, table) = (site.path("text"), site.path("table.csv"));
    fs::write(&text, b"fio version 3 iolog\n7 /a,\"b\xff write 0 512\n9 /c read 512 1\n").unwrap();
    site.succeed(&["convert", text.to_str().unwrap(), "-o", table.to_str().unwrap()]);
    let expected = b"rank,pid,file,op,offset,length,start_ns,end_ns\n,,\"/a,\"\"b\xff\",write,0,512,7000,\n,,/c,read,512,1,9000,\n";
    assert_eq!(fs::read(&table).unwrap(), expected);
    let json = site.succeed(&["convert", text.to_str().unwrap(), "--to", "jsonl"]);
    assert!(json.starts_with("{\"rank\":null,\"pid\":null,\"file_hex\":\"2f612c2262ff\",\"op\":\"write\""), "{json}");
}

#[test]
fn a_line_that_the_end_cuts_or_that_is_too_long_is_counted() {
    let site = TestSite::with_capacity("64MiB");
    let text = site.path("text");
    let long = "x".repeat(200_000);
    fs::write(
        &text,
        format!("fio version 3 iolog\n7 /a write 0 512\n8 {long} open\n9 /a write 512 1\n10 /a write 0 51"),
    )
    .unwrap();
    let (found, said) = lines(&site, &text);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(said.contains("warning: 2 lines are cut or malformed"), "{said}");
}
