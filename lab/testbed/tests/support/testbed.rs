//! A testbed of its own for each test, served by the test process; gone when dropped.
#![allow(dead_code)]

use std::fs::OpenOptions;
use std::path::PathBuf;

use headstart_testbed::TestbedConfig;
use headstart_testbed::config::Network;
use headstart_testbed::serve::Server;
use headstart_testbed::stats::MountStats;

/// Two mounted directories.
pub struct Testbed {
    pub server: Server,
    pub slow: PathBuf,
    pub fast: PathBuf,
    pub backing: PathBuf,
    // Removed last.
    _root: tempfile::TempDir,
}

/// Whether this machine can mount; says so if not.
pub fn can_mount() -> bool {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    if let Err(error) = &device {
        println!("SKIPPED: /dev/fuse cannot be used here ({error})");
    }
    device.is_ok()
}

/// Directories for a testbed, and its configuration: no time passes, and no privileges are asked for.
pub fn prepare() -> (tempfile::TempDir, TestbedConfig) {
    let root = tempfile::Builder::new().prefix("headstart-test").tempdir_in("/dev/shm").unwrap();
    for name in ["slow", "fast", "backing"] {
        std::fs::create_dir(root.path().join(name)).unwrap();
    }
    let config = TestbedConfig {
        name: root.path().file_name().unwrap().to_str().unwrap().trim_start_matches('.').to_string(),
        slow: root.path().join("slow"),
        fast: root.path().join("fast"),
        backing: Some(root.path().join("backing")),
        hdd_profile: "null".to_string(),
        ssd_profile: "null".to_string(),
        network: Network::None,
        time_scale: 0.0,
        real_time: false,
        ..TestbedConfig::default()
    };
    (root, config)
}

impl Testbed {
    /// A testbed in which no time passes; `None`, after saying so, where FUSE is missing.
    pub fn start() -> Option<Testbed> {
        Testbed::start_with(|_| ())
    }

    pub fn start_with(adjust: impl FnOnce(&mut TestbedConfig)) -> Option<Testbed> {
        if !can_mount() {
            return None;
        }
        let (root, mut config) = prepare();
        adjust(&mut config);
        let (slow, fast, backing) = (config.slow.clone(), config.fast.clone(), config.backing_directory());
        let server = Server::start(config).expect("the testbed starts");
        Some(Testbed { server, slow, fast, backing, _root: root })
    }

    pub fn slow_stats(&self) -> MountStats {
        self.server.stats().mounts.remove(0)
    }
}

/// Runs `body` in a forked process and returns its exit status. `body` may only make system calls.
pub fn in_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child makes system calls only and ends with _exit, so that no lock of another thread is ever taken.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let code = body();
        // SAFETY: _exit has no preconditions.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid for writing and the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -libc::WTERMSIG(status) }
}

/// Whether a program is installed; says so if not.
pub fn is_installed(program: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join(program).exists()));
    if !found {
        println!("SKIPPED: {program} is not installed");
    }
    found
}
