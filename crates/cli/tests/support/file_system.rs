//! Tests below a parallel file system that a script of `lab/bench/file_systems` brings up for them and takes down.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::site::{ROLE, role};

/// Where this process is.
pub enum Inside {
    /// Below the file system: the directories on its disks and on its flash.
    Here(PathBuf, PathBuf),
    /// In another role of the test.
    Elsewhere,
    /// Not yet: the test proper.
    Not,
}

/// See [`Inside`].
pub fn inside() -> Inside {
    let directory = |name: &str| PathBuf::from(std::env::var_os(name).expect("the script names it"));
    match role().as_deref() {
        Some("inside") => Inside::Here(directory("SLOW"), directory("FAST")),
        Some(_) => Inside::Elsewhere,
        None => Inside::Not,
    }
}

/// Runs `test` once more below the file system of `script`; says that it is skipped where something is missing.
pub fn enter(script: &str, test: &str) {
    let work = tempfile::Builder::new().prefix("headstart-file-system-").tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/bench/file_systems").join(script);
    let mut command = Command::new(script);
    command.arg(work.path()).arg(std::env::current_exe().unwrap());
    let output = command.args([test, "--exact", "--nocapture"]).env(ROLE, "inside").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.code() == Some(77) {
        return println!("SKIPPED: {}", text(&output.stderr).trim());
    }
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    println!("{}", text(&output.stdout));
}
