//! A site of a test's own: two directories, a site file, an agent that ends with the test.

#![allow(dead_code)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use headstart_agent::site::{AgentSettings, CostModels, Site};
use headstart_policy::cost::benefit::Parameters;
use serde_json::Value;
use tempfile::TempDir;

/// The program under test. Where that is `headstart-lab`, the one beside it.
pub const HEADSTART: &str = match (option_env!("CARGO_BIN_EXE_headstart"), option_env!("CARGO_BIN_EXE_headstart-lab")) {
    (Some(path), _) => path,
    (None, Some(lab)) => lab.split_at(lab.len() - "-lab".len()).0,
    (None, None) => panic!("these are tests of programs"),
};

/// `headstart-lab`, which lies beside `headstart`.
pub fn lab() -> PathBuf {
    beside("headstart-lab")
}

/// What the workspace builds beside the program under test.
fn beside(name: &str) -> PathBuf {
    let path = Path::new(HEADSTART).with_file_name(name);
    assert!(path.exists(), "{} is missing: run 'cargo build --workspace' before the tests", path.display());
    path
}

/// What `lab/bench/patterns` is linked with: the generator of its requests, which lies beside the program under test.
pub fn generator() -> [String; 3] {
    let archive = beside("libheadstart_workload.a");
    [archive.to_str().unwrap().into(), "-Wl,--gc-sections".into(), "-lm".into()]
}

/// Environment that says which part of a test the test program itself is to play under Headstart.
pub const ROLE: &str = "HEADSTART_TEST_ROLE";

/// See the module.
pub struct TestSite {
    /// Everything of the test; on a tmpfs, as the runtime directory must be.
    pub directory: TempDir,
    /// The managed directory.
    pub slow: PathBuf,
    /// The directory on flash.
    pub fast: PathBuf,
    /// The site file.
    pub file: PathBuf,
}

impl TestSite {
    /// A site with cost parameters that want every request on flash.
    pub fn with_capacity(capacity: &str) -> TestSite {
        beside("libheadstart.so");
        let directory = tempfile::Builder::new().prefix("headstart-test-").tempdir_in("/dev/shm").unwrap();
        let path = |name: &str| directory.path().join(name);
        let (slow, fast, file) = (path("slow"), path("fast"), path("site.toml"));
        for made in [&slow, &fast, &path("plain")] {
            fs::create_dir(made).unwrap();
        }
        let site = TestSite { directory, slow, fast, file };
        site.write_site(capacity);
        site
    }

    /// The same with directories that are there already.
    pub fn on(slow: PathBuf, fast: PathBuf, capacity: &str) -> TestSite {
        let mut site = TestSite::with_capacity(capacity);
        (site.slow, site.fast) = (slow, fast);
        site.write_site(capacity);
        site
    }

    /// Writes the site file anew.
    pub fn write_site(&self, capacity: &str) {
        let parameters = Parameters::default();
        let site = Site {
            slow: self.slow.clone(),
            fast: self.fast.clone(),
            capacity: Some(capacity.into()),
            include: Vec::new(),
            exclude: Vec::new(),
            strangers: None,
            s4d: CostModels { read: parameters.clone(), write: parameters },
            carl: None,
            software: None,
            // So short that journals are replaced all the time.
            agent: Some(AgentSettings { journal_bytes_max: Some(8192), ..AgentSettings::default() }),
            cluster: None,
        };
        fs::write(&self.file, site.to_toml()).unwrap();
    }

    /// A path of the test that is neither slow nor fast.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The base of runtime directories.
    pub fn runtime_base(&self) -> PathBuf {
        self.path("runtime")
    }

    /// The agent's runtime directory, once there was an agent.
    pub fn runtime(&self) -> PathBuf {
        let mut found = fs::read_dir(self.runtime_base()).unwrap();
        found.next().expect("an agent ran").unwrap().path()
    }

    /// A command that sees this site and nothing of the user's own.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for variable in ["LD_PRELOAD", "HEADSTART", "HEADSTART_LIBRARY", "HEADSTART_LOG", "HEADSTART_POLICY"] {
            command.env_remove(variable);
        }
        command
            .env("HEADSTART_SITE", &self.file)
            .env("HEADSTART_RUNTIME_BASE", self.runtime_base())
            .env("HEADSTART_RUNTIME_DIR", self.path("testbeds"))
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    }

    /// `headstart ARGUMENTS`, run to its end.
    pub fn headstart(&self, arguments: &[&str]) -> Output {
        self.command(HEADSTART).args(arguments).output().unwrap()
    }

    /// `headstart ARGUMENTS`, which must succeed; what it printed.
    pub fn succeed(&self, arguments: &[&str]) -> String {
        self.succeeded(arguments, &self.headstart(arguments))
    }

    /// `headstart ARGUMENTS`, which must fail with `status` and name every word.
    pub fn fail(&self, status: i32, arguments: &[&str], words: &[&str]) {
        self.failed(status, arguments, &self.headstart(arguments), words);
    }

    /// `headstart-lab ARGUMENTS`, run to its end.
    pub fn lab(&self, arguments: &[&str]) -> Output {
        self.command(lab()).args(arguments).output().unwrap()
    }

    /// `headstart-lab ARGUMENTS`, which must succeed; what it printed.
    pub fn lab_succeeds(&self, arguments: &[&str]) -> String {
        self.succeeded(arguments, &self.lab(arguments))
    }

    /// `headstart-lab ARGUMENTS`, which must fail with `status` and name every word.
    pub fn lab_fails(&self, status: i32, arguments: &[&str], words: &[&str]) {
        self.failed(status, arguments, &self.lab(arguments), words);
    }

    fn succeeded(&self, arguments: &[&str], output: &Output) -> String {
        assert!(output.status.success(), "{arguments:?}: {}\n{}", output.status, self.say(output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn failed(&self, status: i32, arguments: &[&str], output: &Output, words: &[&str]) {
        assert_eq!(output.status.code(), Some(status), "{arguments:?}\n{}", self.say(output));
        let text = String::from_utf8_lossy(&output.stderr);
        for word in words {
            assert!(text.contains(word), "{arguments:?} does not say '{word}':\n{text}");
        }
    }

    /// What a command printed, and the agent's log.
    pub fn say(&self, output: &Output) -> String {
        let log = fs::read_dir(self.runtime_base()).ok().and_then(|mut entries| entries.next());
        let log = log.and_then(|entry| fs::read_to_string(entry.ok()?.path().join("log")).ok());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("{}{}agent's log:\n{}", text(&output.stdout), text(&output.stderr), log.unwrap_or_default())
    }

    /// `headstart status --json`.
    pub fn status(&self) -> Value {
        serde_json::from_str(&self.succeed(&["status", "--json"])).unwrap()
    }

    /// A figure of the status.
    pub fn figure(&self, pointer: &str) -> u64 {
        let status = self.status();
        let found = status.pointer(pointer).and_then(Value::as_u64);
        found.unwrap_or_else(|| panic!("no figure {pointer} in {status:#}"))
    }

    /// The agent's process, if one runs.
    pub fn agent(&self) -> Option<i32> {
        let output = self.headstart(&["status", "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        status.get("pid")?.as_i64().map(|pid| pid as i32)
    }

    /// Kills the agent as a crash would and waits until it is gone.
    pub fn kill_agent(&self) {
        let pid = self.agent().expect("an agent runs");
        kill(pid, nix::sys::signal::Signal::SIGKILL);
        wait_for("the agent is gone", || has_ended(pid));
    }

    /// This test program, playing `role` of `test` under `headstart run OPTIONS`.
    pub fn play(&self, options: &[&str], test: &str, role: &str) -> Command {
        let mut command = self.command(HEADSTART);
        command.arg("run").args(options).arg("--").arg(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, role);
        command
    }

    /// Plays a role, which must succeed.
    pub fn played(&self, options: &[&str], test: &str, role: &str) {
        let output = self.play(options, test, role).output().unwrap();
        assert!(output.status.success(), "{test}, {role}: {}\n{}", output.status, self.say(&output));
    }

    /// Bytes of storage below the fast directory.
    pub fn flash_bytes(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        data_files(&self.fast).iter().map(|path| fs::metadata(path).map_or(0, |found| found.blocks() * 512)).sum()
    }
}

impl Drop for TestSite {
    fn drop(&mut self) {
        if self.agent().is_none() {
            return;
        }
        let _ = self.headstart(&["stop", "--keep-dirty"]);
        if let Some(pid) = self.agent() {
            kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
    }
}

/// The data files on flash.
pub fn data_files(fast: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(fast.join(".headstart")) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("data.")).collect()
}

/// Sends a signal to a process this test started.
pub fn kill(pid: i32, signal: nix::sys::signal::Signal) {
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
}

/// Whether nothing is left of a process but, at most, its exit status.
pub fn has_ended(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").trim();
    status.is_empty() || (line("State:").starts_with('Z') && line("Threads:") == "1")
}

/// Waits for something that is bound to happen; gives up after a minute.
pub fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !happened() {
        assert!(start.elapsed().as_secs() < 180, "in vain: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// The role this process is to play, if it is one that a test started.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// In a played role: the managed directory.
pub fn managed() -> PathBuf {
    PathBuf::from(std::env::var_os("HEADSTART_SLOW").expect("a role is played under 'headstart run'"))
}

/// Bytes that tell their place and their generation.
pub fn content(generation: u64, offset: u64, length: usize) -> Vec<u8> {
    let mut state = (generation << 40) ^ offset ^ 0x9e37_79b9_7f4a_7c15;
    let byte = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8 | 1
    };
    std::iter::repeat_with(byte).take(length).collect()
}

/// Of the file that [`write_whole`] writes.
const WHOLE_BYTES: usize = 60_000;
const PIECE_BYTES: usize = 3000;

/// A whole file of one generation.
pub fn whole(generation: u64) -> Vec<u8> {
    (0..WHOLE_BYTES).step_by(PIECE_BYTES).flat_map(|at| content(generation, at as u64, PIECE_BYTES)).collect()
}

/// Makes the file [`whole`], piece by piece.
pub fn write_whole(file: &fs::File, generation: u64) {
    for offset in (0..WHOLE_BYTES as u64).step_by(PIECE_BYTES) {
        file.write_all_at(&content(generation, offset, PIECE_BYTES), offset).unwrap();
    }
}

/// In a role `VERB N`: the verb, and N as a generation.
pub fn verb_and_generation() -> (String, u64) {
    let role = role().unwrap();
    let (verb, generation) = role.split_once(' ').unwrap();
    (verb.into(), generation.parse().unwrap())
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What a command printed.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
