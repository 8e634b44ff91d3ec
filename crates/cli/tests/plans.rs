//! `headstart plan`: plans from recorded traces and from those of other tools, and what is no trace to plan from.

#[path = "plans/foreign.rs"]
mod foreign;
#[path = "support/mounts.rs"]
mod mounts;
#[path = "plans/recorded.rs"]
mod recorded;
#[path = "plans/refused.rs"]
mod refused;
#[path = "support/site.rs"]
mod site;
#[path = "plans/testbed.rs"]
mod testbed;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use headstart_agent::plan::load;
use headstart_insight::plan::{Plan, PlanFile};
use serde_json::Value;
use site::{HEADSTART, TestSite};

const MIB: u64 = 1 << 20;

/// A file of so many bytes in the slow directory.
fn make(site: &TestSite, name: &str, bytes: u64) -> PathBuf {
    let path = site.slow.join(name);
    File::create(&path).unwrap().set_len(bytes).unwrap();
    path.canonicalize().unwrap()
}

/// What `headstart plan` made and said.
struct Made {
    plan: Plan,
    figures: Value,
    said: String,
}

impl Made {
    /// The plan's file of that name.
    fn file(&self, name: &str) -> &PlanFile {
        let found = self.plan.files.iter().find(|file| file.path.ends_with(name));
        found.unwrap_or_else(|| panic!("no file {name} in {:?}", self.plan))
    }

    /// Offsets of the regions of a file that go to flash.
    fn placed(&self, name: &str) -> Vec<u64> {
        let placed = self.file(name).regions.iter().filter(|region| region.place);
        placed.map(|region| region.range.offset).collect()
    }

    fn says(&self, word: &str) {
        assert!(self.said.contains(word), "it does not say '{word}':\n{}", self.said);
    }
}

/// `headstart plan TRACE OPTIONS -o plan.toml --json`, which must succeed.
fn plan(site: &TestSite, trace: &Path, options: &[&str]) -> Made {
    let path = site.path("plan.toml");
    let mut command = site.command(HEADSTART);
    command.arg("plan").arg(trace).args(options).args(["--json", "-o"]).arg(&path);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, site.say(&output));
    Made {
        plan: load(&path).unwrap(),
        figures: serde_json::from_slice(&output.stdout).unwrap(),
        said: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A log of fio with these lines.
fn iolog(site: &TestSite, lines: &[String]) -> PathBuf {
    let path = site.path("iolog");
    fs::write(&path, format!("fio version 3 iolog\n{}\n", lines.join("\n"))).unwrap();
    path
}

/// `count` reads of 4 KiB at an offset.
fn reads(path: &Path, offset: u64, count: u64) -> Vec<String> {
    (0..count).map(|k| format!("{k} {} read {offset} 4096", path.display())).collect()
}
