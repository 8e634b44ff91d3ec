//! Plans from what `headstart trace` recorded.

use std::fs;
use std::path::PathBuf;

use headstart_insight::plan::Choice;

use crate::site::{HEADSTART, TestSite};
use crate::{MIB, make, plan};

/// Two files of 8 MiB: much is asked of 2 MiB of one and 5 MiB of the other, a little of all else.
const PROGRAM: &str = "
import os
for name, hot in (('a', 2), ('b', 5)):
    fd = os.open(name, os.O_RDWR)
    for k in range(800):
        os.pread(fd, 4096, (hot << 20) + k % 256 * 4096)
        os.pread(fd, 4096, k // 10 % 8 << 20) if k % 10 == 0 else os.pwrite(fd, b'x', (hot << 20) + k)
";

/// Records a program in the slow directory.
fn record(site: &TestSite, program: &str) -> PathBuf {
    let trace = site.path("trace");
    let mut command = site.command(HEADSTART);
    command.arg("trace").arg("-o").arg(&trace).args(["--", "/usr/bin/python3", "-c", program]).current_dir(&site.slow);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    trace
}

fn recorded(site: &TestSite) -> PathBuf {
    make(site, "a", 8 * MIB);
    make(site, "b", 8 * MIB);
    record(site, PROGRAM)
}

#[test]
fn the_regions_that_a_program_asked_for_most_go_to_flash_and_files_share_it() {
    let site = TestSite::with_capacity("64MiB");
    let trace = recorded(&site);
    let made = plan(&site, &trace, &["--capacity", "2MiB", "--region", "1MiB"]);
    assert_eq!((made.placed("/a"), made.placed("/b")), (vec![2 * MIB], vec![5 * MIB]));
    assert_eq!(made.file("/a").size_bytes, 8 * MIB);
    assert_eq!(made.file("/a").regions.len(), 8);
    assert!(made.file("/a").inode.is_some());
    assert_eq!(made.plan.capacity_bytes, 2 * MIB);
    let figure = |name: &str| made.figures[name].as_f64().unwrap();
    assert_eq!((figure("files"), figure("regions"), figure("flash_regions")), (2.0, 16.0, 2.0));
    assert_eq!((figure("requests"), figure("ranks"), figure("flash_bytes")), (3200.0, 1.0, (2 * MIB) as f64));
    // Of 100 there are 5 elsewhere, some of which meet the hot region.
    assert!(figure("flash_share") > 0.94 && figure("flash_share") < 0.97, "{}", made.figures);
    assert!(figure("measured_s") > 0.0 && figure("before_s") == figure("measured_s"), "{}", made.figures);
    // One of the two fits, and the site's own capacity has room for all.
    let one = plan(&site, &trace, &["--capacity", "1MiB", "--region", "1MiB"]);
    assert_eq!(one.placed("/a").len() + one.placed("/b").len(), 1);
    let all = plan(&site, &trace, &["--region", "1MiB"]);
    assert_eq!((all.plan.capacity_bytes, all.placed("/a").len()), (64 * MIB, 8));
    let share = plan(&site, &trace, &["--capacity", "25%", "--region", "1MiB"]);
    assert_eq!(share.plan.placed_bytes(), 4 * MIB, "a share is one of the sizes of both files");
}

#[test]
fn the_same_trace_gives_the_same_plan_and_a_seed_draws_regions() {
    let site = TestSite::with_capacity("4MiB");
    let trace = recorded(&site);
    let options = ["--region", "256KiB"];
    assert_eq!(plan(&site, &trace, &options).plan, plan(&site, &trace, &options).plan);
    let drawn = |seed: &'static str| plan(&site, &trace, &["--region", "256KiB", "--choice", "random", "--seed", seed]);
    assert_eq!(drawn("1").plan, drawn("1").plan);
    assert_ne!(drawn("1").placed("/a"), drawn("2").placed("/a"));
    assert_eq!((drawn("7").plan.choice, drawn("7").plan.placed_bytes()), (Choice::Random(7), 4 * MIB));
}

#[test]
fn processes_of_a_job_one_after_another_are_one_and_those_at_the_same_time_are_several() {
    let site = TestSite::with_capacity("4MiB");
    make(&site, "a", 8 * MIB);
    let spawning = "
import os, sys, subprocess, time
one = '''
import os
fd = os.open('a', os.O_RDONLY)
for k in range(200):
    os.pread(fd, 4096, k << 12)
    {}
'''
run = lambda more: subprocess.Popen([sys.executable, '-c', one.format(more)])
STEPS
";
    let ranks = |steps: &str| {
        let trace = record(&site, &spawning.replace("STEPS", steps));
        let made = plan(&site, &trace, &["--region", "1MiB"]);
        fs::remove_dir_all(trace).unwrap();
        assert_eq!(made.figures["requests"], 600);
        made.figures["ranks"].as_u64().unwrap()
    };
    assert_eq!(ranks("for step in range(3): run('').wait()"), 1);
    // Each waits for the others to have begun.
    let meet = "import time; open(f'../met.{os.getpid()}', 'w').close() if k == 9 else None\n    \
                while k == 9 and sum(n.startswith('met.') for n in os.listdir('..')) < 3: time.sleep(0.001)";
    let ranks = ranks(&format!("for p in [run({meet:?}) for _ in range(3)]: p.wait()"));
    // A process that comes back to a lane that another has taken gets one of its own.
    assert!((3..=5).contains(&ranks), "{ranks}");
}

#[test]
fn a_file_by_several_names_is_one_and_what_is_not_there_is_as_long_as_its_requests() {
    let site = TestSite::with_capacity("1MiB");
    make(&site, "a", 4 * MIB);
    make(&site, "gone", 4 * MIB);
    fs::hard_link(site.slow.join("a"), site.slow.join("b")).unwrap();
    std::os::unix::fs::symlink("a", site.slow.join("c")).unwrap();
    let program = "
import os
for first, name in enumerate('abc'):
    fd = os.open(name, os.O_RDONLY)
    # Each byte once: what memory serves again is no gain.
    for k in range(100): os.pread(fd, 2048, (1 << 20) + (100 * first + k) * 3000)
fd = os.open('gone', os.O_RDONLY)
os.pread(fd, 4096, 8192)
os.unlink('gone')
";
    let trace = record(&site, program);
    let made = plan(&site, &trace, &["--region", "1MiB"]);
    assert_eq!(made.plan.files.len(), 2, "{:?}", made.plan);
    assert_eq!((made.file("/a").regions[0].reads, made.placed("/a")), (300, vec![MIB]));
    assert_eq!((made.file("/gone").size_bytes, made.file("/gone").inode), (12288, None));
    made.says("1 files are not there any more");
}

#[test]
fn a_file_that_shrank_or_grew_is_planned_for_as_it_is() {
    let site = TestSite::with_capacity("16MiB");
    let trace = recorded(&site);
    make(&site, "a", 2 * MIB + 5000);
    make(&site, "b", 32 * MIB);
    let made = plan(&site, &trace, &["--region", "1MiB"]);
    assert_eq!(made.placed("/a"), [0, MIB, 2 * MIB]);
    assert_eq!(made.file("/a").regions[2].range.length, 5000);
    assert_eq!(made.file("/b").size_bytes, 32 * MIB);
    assert_eq!(made.figures["regions"], 3 + 32);
    made.says("/a has 2102152 bytes now, and the trace has requests up to 7344128");
    assert!(!made.said.contains("/b has"), "{}", made.said);
}
