//! Starting, asking, ending, and clearing away what a killed server left.

#[path = "support/testbed.rs"]
mod testbed;

use std::fs;
use std::path::Path;
use std::process::Command;

use headstart_testbed::lifecycle::{RunningInfo, up_with};
use headstart_testbed::{Error, TestbedConfig, down, serve, stats};
use testbed::{can_mount, prepare};

const CONFIG: &str = "HEADSTART_TEST_SERVE";

/// What `up` runs here instead of `headstart-lab testbed serve`: this test program, this one test.
#[test]
fn serve_child() {
    if let Some(file) = std::env::var_os(CONFIG) {
        let config = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        if let Err(error) = serve(config) {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    }
}

/// Registers testbeds where nobody else looks for theirs.
fn runtime_directory() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let directory = std::env::temp_dir().join("headstart-lifecycle-tests");
        // SAFETY: the standard library serialises its own accesses, and no C code of this process reads the
        // environment.
        unsafe { std::env::set_var("HEADSTART_RUNTIME_DIR", directory) };
    });
}

fn up(config: &TestbedConfig) -> Result<RunningInfo, Error> {
    up_with(config, |file| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["serve_child", "--exact", "--nocapture"]).env(CONFIG, file);
        command
    })
}

fn kill(info: &RunningInfo) {
    // SAFETY: the process is our child's and still running.
    assert_eq!(unsafe { libc::kill(info.process as i32, libc::SIGKILL) }, 0);
    while fs::metadata(&info.slow).is_ok() {
        std::thread::yield_now();
    }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

#[test]
fn a_testbed_goes_up_answers_and_comes_down_without_a_trace() {
    if !can_mount() {
        return;
    }
    runtime_directory();
    let (_root, config) = prepare();
    let info = up(&config).unwrap();
    fs::write(info.slow.join("a"), "text").unwrap();
    let by_directory = stats(info.slow.to_str()).unwrap();
    assert_eq!((by_directory.process, by_directory.mounts[0].write_count), (info.process, 1));
    assert!(by_directory.to_string().contains("slow: 0 reads 0.0 MiB, 1 writes"));
    assert!(matches!(up(&config), Err(Error::AlreadyRunning { process, .. }) if process == info.process));
    let ended = down(Some(&config.name), false).unwrap();
    assert!(ended.was_running && ended.messages.is_empty(), "{ended:?}");
    assert!(is_empty(&config.slow) && is_empty(&config.fast) && !config.backing_directory().exists());
    assert!(matches!(stats(Some(&config.name)), Err(Error::NotRunning { .. })));
}

#[test]
fn backing_files_kept_are_there_the_next_time() {
    if !can_mount() {
        return;
    }
    runtime_directory();
    let (_root, config) = prepare();
    let info = up(&config).unwrap();
    fs::write(info.fast.join("a"), "text").unwrap();
    down(Some(&config.name), true).unwrap();
    assert!(is_empty(&config.fast));
    up(&config).unwrap();
    assert_eq!(fs::read_to_string(config.fast.join("a")).unwrap(), "text");
    down(Some(&config.name), false).unwrap();
}

#[test]
fn a_busy_directory_is_detached_and_said_so() {
    if !can_mount() {
        return;
    }
    runtime_directory();
    let (_root, config) = prepare();
    let info = up(&config).unwrap();
    let held = fs::File::create(info.slow.join("a")).unwrap();
    let ended = down(Some(&config.name), false).unwrap();
    assert!(ended.messages.len() == 1 && ended.messages[0].contains("was busy"), "{ended:?}");
    assert!(is_empty(&config.slow));
    drop(held);
}

#[test]
fn down_clears_away_what_a_killed_server_left() {
    if !can_mount() {
        return;
    }
    runtime_directory();
    let (_root, config) = prepare();
    let info = up(&config).unwrap();
    kill(&info);
    let ended = down(config.slow.to_str(), false).unwrap();
    assert!(!ended.was_running);
    assert!(is_empty(&config.slow) && is_empty(&config.fast) && !config.backing_directory().exists());
}

#[test]
fn a_stale_mount_that_no_registration_knows_is_cleared_away_by_its_directory() {
    if !can_mount() {
        return;
    }
    runtime_directory();
    let (_root, config) = prepare();
    let info = up(&config).unwrap();
    kill(&info);
    fs::remove_dir_all(info.log.parent().unwrap()).unwrap();
    assert!(down(config.slow.to_str(), false).is_ok());
    assert!(is_empty(&config.slow) && !is_empty(&config.fast));
    up(&config).unwrap();
    down(Some(&config.name), false).unwrap();
    assert!(is_empty(&config.slow) && is_empty(&config.fast));
}

#[test]
fn up_clears_away_what_a_killed_server_left() {
    if !can_mount() {
        return;
    }
    runtime_directory();
    let (_root, config) = prepare();
    let killed = up(&config).unwrap();
    fs::write(killed.slow.join("a"), "text").unwrap();
    kill(&killed);
    let info = up(&config).unwrap();
    assert_ne!(info.process, killed.process);
    assert_eq!(fs::read_to_string(info.slow.join("a")).unwrap(), "text", "the bytes were on the servers");
    down(Some(&config.name), false).unwrap();
}

#[test]
fn wrong_arguments_are_named() {
    if !can_mount() {
        return;
    }
    runtime_directory();
    let (root, config) = prepare();
    let wrong = |change: &dyn Fn(&mut TestbedConfig)| {
        let mut config = config.clone();
        change(&mut config);
        up(&config).expect_err("it cannot start").to_string()
    };
    assert!(wrong(&|c| c.hdd_profile = "floppy".into()).contains("'floppy' is not a device profile; known are"));
    assert!(wrong(&|c| c.slow = "/no/such".into()).contains("mkdir -p /no/such"));
    assert!(wrong(&|c| c.fast = c.slow.clone()).contains("must differ"));
    assert!(wrong(&|c| c.hdd_servers = 0).contains("--hdd-servers: 0 is out of range"));
    assert!(wrong(&|c| c.stripe_bytes = 1000).contains("--stripe"));
    assert!(wrong(&|c| c.time_scale = f64::NAN).contains("--time-scale"));
    assert!(wrong(&|c| c.name = "../up".into()).contains("is no name"));
    fs::create_dir(root.path().join("full")).unwrap();
    fs::write(root.path().join("full/file"), "").unwrap();
    assert!(wrong(&|c| c.slow = root.path().join("full")).contains("is not empty"));
    fs::write(root.path().join("file"), "").unwrap();
    let message = wrong(&|c| c.backing = Some(root.path().join("file")));
    assert!(message.contains("last lines of") && message.contains("cannot create the backing directory"), "{message}");
    let missing = down(Some("no-such-testbed"), false).expect_err("there is none").to_string();
    assert!(missing.contains("no testbed 'no-such-testbed' runs"), "{missing}");
    let stay = stats(Some(&config.name)).expect_err("none of them started").to_string();
    assert!(stay.contains("no testbed"), "{stay}");
}
