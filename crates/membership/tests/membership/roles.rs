//! Parts that the test program itself plays in processes of their own.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const ROLE: &str = "HEADSTART_TEST_ROLE";

/// Which part this process is to play; none in the test proper.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// What the test proper told this process.
pub fn told(name: &str) -> PathBuf {
    PathBuf::from(std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not told")))
}

/// This program in that role of the test.
pub fn command(test: &str, role: &str, telling: &[(&str, &OsStr)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--quiet"]).env(ROLE, role).envs(telling.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// A process that ends with the test.
pub struct Process(pub Child);

impl Process {
    pub fn start(mut command: Command) -> Process {
        Process(command.spawn().unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }

    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until it is so, for as long as a test may take.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what} does not come to be");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The seed of a random test, which it prints.
pub fn seed() -> u64 {
    let seed = std::env::var("SEED").ok().map_or_else(
        || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64,
        |text| text.parse().expect("SEED is a number"),
    );
    println!("SEED={seed}");
    seed
}
