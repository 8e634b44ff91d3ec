//! `headstart trace`, `run --trace` and `convert`: what programs do against what is recorded of it, and
//! traces that are damaged or of other tools.

#[path = "traces/damage.rs"]
mod damage;
#[path = "traces/foreign.rs"]
mod foreign;
#[path = "traces/recording.rs"]
mod recording;
#[path = "support/site.rs"]
mod site;
#[path = "traces/size.rs"]
mod size;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use site::{HEADSTART, ROLE, TestSite};

/// A request as `convert` shows it: name of the file, operation, offset, length.
type Request = (String, String, u64, u64);

/// Where the tests' traces go.
fn trace_of(site: &TestSite) -> PathBuf {
    site.path("trace")
}

/// `headstart trace OPTIONS -- PROGRAM`.
fn trace(site: &TestSite, program: &[&str]) -> Command {
    let mut command = site.command(HEADSTART);
    command.arg("trace").arg("-o").arg(trace_of(site)).arg("--").args(program).current_dir(&site.slow);
    command
}

/// The same with this test program, playing `role` of `test`.
fn trace_role(site: &TestSite, test: &str, role: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = trace(site, &[program.to_str().unwrap(), test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role);
    command
}

/// Runs a command that must succeed.
fn succeed(site: &TestSite, command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, site.say(&output));
    output
}

/// The lines of a trace, and what was said on stderr.
fn lines(site: &TestSite, trace: &Path) -> (Vec<Value>, String) {
    let output = succeed(site, site.command(HEADSTART).arg("convert").arg(trace));
    let lines: Vec<Value> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let starts: Vec<u64> = lines.iter().map(|line| line["start_ns"].as_u64().unwrap()).collect();
    assert!(starts.is_sorted(), "requests come by start");
    (lines, String::from_utf8(output.stderr).unwrap())
}

/// The requests of a trace of which nothing is lost.
fn requests(site: &TestSite, trace: &Path) -> Vec<Request> {
    let (lines, said) = lines(site, trace);
    assert!(!said.contains("warning"), "{said}");
    lines.iter().map(request).collect()
}

fn request(line: &Value) -> Request {
    let text = |name: &str| line[name].as_str().unwrap().to_string();
    let file = text("file");
    let name = file.rsplit('/').next().unwrap().to_string();
    (name, text("op"), line["offset"].as_u64().unwrap(), line["length"].as_u64().unwrap())
}

fn expected(name: &str, operation: &str, offset: u64, length: u64) -> Request {
    (name.into(), operation.into(), offset, length)
}

#[test]
fn a_trace_is_not_written_over_by_what_is_made_of_it() {
    let site = TestSite::with_capacity("64MiB");
    let trace = site.path("trace");
    let (program, file) = (["dd", "if=/dev/zero", "bs=4k", "count=9", "status=none"], site.slow.join("a"));
    let of = format!("of={}", file.display());
    site.succeed(&[&["trace", "-o", trace.to_str().unwrap(), "--"], &program[..], &[&of]].concat());
    let part = fs::read_dir(&trace).unwrap().next().unwrap().unwrap().path();
    for (read, written) in [(&trace, &part), (&part, &part)] {
        let (read, written) = (read.to_str().unwrap(), written.to_str().unwrap());
        site.fail(125, &["convert", read, "-o", written], &[written, "part of the trace"]);
    }
    assert_eq!(site.succeed(&["convert", trace.to_str().unwrap()]).lines().count(), 9);
}
