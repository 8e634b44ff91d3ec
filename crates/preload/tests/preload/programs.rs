//! Runs real programs with the library preloaded.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::fake_agent::Agent;

/// The library this test run built.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    let path = deps.join("libheadstart.so");
    assert!(path.exists(), "cargo builds the library before its tests");
    path
}

/// A C program of `tests/preload/c`, compiled.
pub fn compiled(agent: &Agent, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/c").join(format!("{name}.c"));
    let binary = agent.root.join(name);
    let status =
        Command::new("cc").args(["-O1", "-Wall", "-D_GNU_SOURCE", "-pthread", "-o"]).arg(&binary).arg(source).status();
    assert!(status.unwrap().success(), "{name}.c compiles");
    binary
}

/// A command that runs under the library, in the slow directory.
pub fn command(agent: &Agent, program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command
        .current_dir(&agent.slow)
        .env("LD_PRELOAD", library())
        .env("HEADSTART_RUNTIME", &agent.runtime)
        .env("HEADSTART_SLOW", &agent.slow)
        .env("SLOW", &agent.slow)
        .env("OUTSIDE", agent.root.join("outside"));
    command
}

/// Runs it to the end and expects success.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs a shell script under the library.
pub fn shell(agent: &Agent, script: &str) -> Output {
    succeed(command(agent, "/bin/bash").arg("-euc").arg(script))
}

/// Runs a Python script under the library.
pub fn python(agent: &Agent, script: &str) -> Output {
    succeed(command(agent, "/usr/bin/python3").arg("-c").arg(script))
}
