//! A volume of a test's own, on files: a server that dies in the middle of things, and the commands.

#![allow(dead_code)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use headstart_block::engine::{Engine, Settings};
use headstart_block::order::Request;
use headstart_block::recovery;
use headstart_policy::server::AddressOrder;
use headstart_units::request::Range;
use headstart_volume::device::DeviceName;
use headstart_volume::pair::Pair;
use headstart_volume::synchronous::Synchronous;
use serde_json::Value;
use tempfile::TempDir;

/// The program under test.
pub const HEADSTART: &str = env!("CARGO_BIN_EXE_headstart");

/// See the module.
pub struct TestVolume {
    pub directory: TempDir,
    pub disk: PathBuf,
    pub flash: PathBuf,
}

impl TestVolume {
    /// Empty files of these sizes; no volume yet.
    pub fn new(disk_bytes: u64, flash_bytes: u64) -> TestVolume {
        let directory = tempfile::Builder::new().prefix("headstart-volume-").tempdir().unwrap();
        let (disk, flash) = (directory.path().join("disk"), directory.path().join("flash"));
        let volume = TestVolume { directory, disk, flash };
        volume.file("disk", disk_bytes);
        volume.file("flash", flash_bytes);
        volume
    }

    /// Another file.
    pub fn file(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.path(name);
        File::create(&path).unwrap().set_len(bytes).unwrap();
        path
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `headstart volume VERB --hdd DISK --ssd FLASH MORE`.
    pub fn run(&self, verb: &str, more: &[&str]) -> Output {
        self.run_on(verb, &self.disk, &self.flash, more)
    }

    /// The same with other devices.
    pub fn run_on(&self, verb: &str, disk: &Path, flash: &Path, more: &[&str]) -> Output {
        let mut command = self.command();
        command.arg(verb).arg("--hdd").arg(disk).arg("--ssd").arg(flash).args(more);
        command.output().unwrap()
    }

    /// `headstart volume detach --force --hdd DISK MORE`.
    pub fn force(&self, disk: &Path, more: &[&str]) -> Output {
        let mut command = self.command();
        command.args(["detach", "--force", "--keep-ends"]).arg(self.directory.path()).arg("--hdd").arg(disk).args(more);
        command.output().unwrap()
    }

    /// `headstart volume`, with nothing of the user's own.
    pub fn command(&self) -> Command {
        let mut command = Command::new(HEADSTART);
        command.env("HEADSTART_RUNTIME_BASE", self.path("runtime")).arg("volume");
        command.stdin(std::process::Stdio::null());
        command
    }

    pub fn succeed(&self, verb: &str, more: &[&str]) -> String {
        let output = self.run(verb, more);
        assert!(output.status.success(), "volume {verb} {more:?}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// `check --json`, or `inspect --json`: its status and what it says.
    pub fn look(&self, verb: &str) -> (i32, Value) {
        let output = self.run(verb, &["--json"]);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
        assert_eq!(found["exit_status"], output.status.code().unwrap());
        (output.status.code().unwrap(), found)
    }

    /// Opens the devices, as a server does.
    pub fn pair(&self) -> Pair {
        let name = |path: &Path| DeviceName::Path(path.to_owned());
        Pair::open(&name(&self.disk), &name(&self.flash)).unwrap()
    }

    /// A server that writes these, flushes, and is killed.
    pub fn write_and_die(&self, writes: &[(u64, Vec<u8>)], zeros: &[Range]) {
        let mut pair = self.pair();
        let given = pair.given(true, None);
        let recovered = recovery::attach(&mut pair, &given).unwrap();
        let engine = Engine::new(recovered, AddressOrder::default(), Settings::default());
        let mut volume = Synchronous::new(&mut pair, engine);
        for (offset, data) in writes {
            volume.request(Request::Write { offset: *offset, data, fua: false }).unwrap();
        }
        for range in zeros {
            volume.request(Request::Zero { range: *range, fua: false }).unwrap();
        }
        volume.request(Request::Flush).unwrap();
    }

    /// Overwrites bytes of a file behind everybody's back.
    pub fn damage(&self, path: &Path, offset: u64) {
        File::options().write(true).open(path).unwrap().write_all_at(b"rotten bits", offset).unwrap();
    }
}

/// What a command printed.
pub fn said(output: &Output) -> String {
    format!("{}: {}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// It failed with this status and says every word.
pub fn failed(output: &Output, status: i32, words: &[&str]) {
    let text = said(output);
    assert_eq!(output.status.code(), Some(status), "{text}");
    words.iter().for_each(|word| assert!(text.contains(word), "'{word}' is not said: {text}"));
}
