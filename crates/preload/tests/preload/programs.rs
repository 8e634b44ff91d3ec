//! Runs real programs with the library preloaded.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::fake_agent::Agent;

/// The beginning of a Python program that can take every descriptor that is left, and give them back.
pub const EXHAUSTED: &str = "import os, resource, errno
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
taken = []
def exhaust():
    while True:
        try: taken.append(os.dup(2))
        except OSError as e: assert e.errno == errno.EMFILE; return
def give_back():
    while taken: os.close(taken.pop())
";

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
    compile(agent, "cc", &["-O1", "-Wall", "-D_GNU_SOURCE", "-pthread"], name).expect("there is a C compiler")
}

/// The same with libc's checks of lengths.
pub fn compiled_fortified(agent: &Agent, name: &str) -> PathBuf {
    let options = ["-O2", "-Wall", "-D_GNU_SOURCE", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"];
    compile(agent, "cc", &options, name).expect("there is a C compiler")
}

/// [`compiled`] without shared libraries; nothing where libc is only a shared one.
pub fn compiled_static(agent: &Agent, name: &str) -> Option<PathBuf> {
    if !Path::new("/usr/lib/x86_64-linux-gnu/libc.a").exists() {
        println!("SKIPPED: no static libc");
        return None;
    }
    compile(agent, "cc", &["-O1", "-Wall", "-D_GNU_SOURCE", "-pthread", "-static"], name)
}

/// A C library of `tests/preload/c`, compiled.
pub fn compiled_library(agent: &Agent, name: &str) -> PathBuf {
    let options = ["-O1", "-Wall", "-D_GNU_SOURCE", "-fPIC", "-shared", "-fno-builtin"];
    compile(agent, "cc", &options, name).expect("there is a C compiler")
}

/// The null interposer of the benchmarks, compiled.
pub fn null_interposer(agent: &Agent) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/bench/null/null.c");
    let library = agent.root.join("null.so");
    let options = ["-O2", "-std=gnu11", "-Wall", "-fPIC", "-shared", "-o"];
    let status = Command::new("cc").args(options).arg(&library).arg(source).status().unwrap();
    assert!(status.success(), "null.c compiles");
    library
}

/// An MPI program of `tests/preload/c`, compiled; nothing where Open MPI is missing.
pub fn compiled_with_mpi(agent: &Agent, name: &str) -> Option<PathBuf> {
    let program = compile(agent, "mpicc.openmpi", &["-O1"], name);
    if program.is_none() {
        eprintln!("SKIPPED: no Open MPI");
    }
    program
}

fn compile(agent: &Agent, compiler: &str, options: &[&str], name: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/c").join(format!("{name}.c"));
    let binary = agent.root.join(name);
    let status = Command::new(compiler).args(options).arg("-o").arg(&binary).arg(source).status().ok()?;
    assert!(status.success(), "{name}.c compiles");
    Some(binary)
}

/// Runs an Open MPI program on a file named after the I/O component, and expects success.
pub fn open_mpi(agent: &Agent, program: &Path, ranks: u32, io: &str) {
    let mut run = command(agent, "/usr/bin/mpirun.openmpi");
    run.env_remove("LD_PRELOAD").env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    run.args(["--oversubscribe", "-n", &ranks.to_string(), "--mca", "io", io]);
    run.arg("-x").arg(format!("LD_PRELOAD={}", library().display()));
    run.args(["-x", "HEADSTART_RUNTIME", "-x", "HEADSTART_SLOW"]).arg(program).arg(agent.slow.join(io));
    succeed(&mut run);
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
