//! Starting, finding and ending testbeds.
//!
//! Every running testbed is registered in the runtime directory (`$HEADSTART_RUNTIME_DIR`, else
//! `$XDG_RUNTIME_DIR/headstart`, else `/tmp/headstart-UID`) as `testbed/NAME/` with its configuration,
//! control socket and log. One whose socket nobody answers was killed: its mounts are stale, and `down` or
//! the next `up` clears them away.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::config::TestbedConfig;
use crate::control::{self, Answer, Request};
use crate::error::{Error, Result};
use crate::mounts;
use crate::serve::{remove_backing, unmount_with_message};
use crate::stats::TestbedStats;
use crate::system::{RealTime, user_id};

/// How long a server may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often to look.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How many lines of the log an error quotes.
const LOG_TAIL_LINES: usize = 10;

/// A testbed that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunningInfo {
    /// Its name.
    pub name: String,
    /// Process id of its server.
    pub process: u32,
    /// Mount point of the disk servers.
    pub slow: PathBuf,
    /// Mount point of the flash servers.
    pub fast: PathBuf,
    /// Where the bytes live.
    pub backing: PathBuf,
    /// The server's log.
    pub log: PathBuf,
    /// What the server was permitted.
    pub real_time: RealTime,
    /// Largest request the kernel sends, in bytes.
    pub request_bytes_max: u64,
}

/// How a testbed ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Down {
    /// Its name.
    pub name: String,
    /// False if its server had been killed and only its remains were cleared away.
    pub was_running: bool,
    /// What the user should know.
    pub messages: Vec<String>,
}

/// A testbed's entry in the runtime directory.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    directory: PathBuf,
}

fn runtime_directory() -> PathBuf {
    if let Some(path) = std::env::var_os("HEADSTART_RUNTIME_DIR") {
        return PathBuf::from(path).join("testbed");
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(path) if Path::new(&path).is_dir() => PathBuf::from(path).join("headstart/testbed"),
        _ => PathBuf::from(format!("/tmp/headstart-{}/testbed", user_id())),
    }
}

impl Registration {
    fn named(name: &str) -> Registration {
        Registration { directory: runtime_directory().join(name) }
    }

    /// Registers a server that is about to start.
    pub(crate) fn claim(config: &TestbedConfig) -> Result<Registration> {
        config.validate()?;
        let registration = Registration::named(&config.name);
        if let Some(process) = registration.process() {
            return Err(Error::AlreadyRunning { name: config.name.clone(), process });
        }
        registration.create()?;
        registration.write_config(config)?;
        Ok(registration)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join("control.sock")
    }

    fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    fn config_file(&self) -> PathBuf {
        self.directory.join("config.json")
    }

    /// Forgets it; errors are harmless, because a registration nobody answers for counts as dead.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.directory);
    }

    /// Makes it unknown after a start that failed; the log stays for the user.
    pub(crate) fn withdraw(&self) {
        let _ = fs::remove_file(self.config_file());
        let _ = fs::remove_file(self.socket());
    }

    /// Makes the directory, private, and refuses one that somebody else made first.
    fn create(&self) -> Result<()> {
        let io = |action| Error::io(action, &self.directory);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory).map_err(io("create"))?;
        // Whoever owns the directory or those around it could put another socket there.
        for directory in self.directory.ancestors().take(3) {
            let owner = fs::metadata(directory).map_err(io("inspect"))?.uid();
            if owner != user_id() && owner != 0 {
                let reason = format!("{} belongs to user {owner}; set HEADSTART_RUNTIME_DIR", directory.display());
                return Err(io("use the runtime directory")(io::Error::new(io::ErrorKind::PermissionDenied, reason)));
            }
        }
        Ok(())
    }

    fn write_config(&self, config: &TestbedConfig) -> Result<()> {
        let text = serde_json::to_string_pretty(config).expect("configurations are plain data");
        fs::write(self.config_file(), text).map_err(Error::io("write", &self.config_file()))
    }

    fn config(&self) -> Option<TestbedConfig> {
        serde_json::from_str(&fs::read_to_string(self.config_file()).ok()?).ok()
    }

    fn ask_stats(&self) -> Result<TestbedStats> {
        match control::ask(&self.socket(), &Request::Stats)? {
            Answer::Stats(stats) => Ok(*stats),
            other => Err(Error::Control(format!("{other:?}"))),
        }
    }

    /// The process that answers, if one does.
    fn process(&self) -> Option<u32> {
        self.ask_stats().ok().map(|stats| stats.process)
    }

    fn all() -> Vec<Registration> {
        let entries = fs::read_dir(runtime_directory()).into_iter().flatten().flatten();
        let mut all: Vec<_> = entries.map(|entry| Registration { directory: entry.path() }).collect();
        all.sort_by(|a, b| a.directory.cmp(&b.directory));
        all
    }

    /// The testbed of that name or directory; without a selector the only one, or the only one that answers.
    fn find(selector: Option<&str>) -> Result<(Registration, TestbedConfig)> {
        let all = Registration::all().into_iter().filter_map(|entry| entry.config().map(|config| (entry, config)));
        let mut candidates: Vec<_> =
            all.filter(|(_, config)| selector.is_none_or(|text| matches(config, text))).collect();
        if candidates.len() > 1 {
            candidates.retain(|(entry, _)| entry.process().is_some());
        }
        match candidates.len() {
            1 => Ok(candidates.remove(0)),
            0 => Err(Error::NotRunning {
                selector: selector.unwrap_or_default().to_string(),
                runtime: runtime_directory(),
            }),
            _ => {
                let names: Vec<_> = candidates.iter().map(|(_, config)| config.name.as_str()).collect();
                Err(Error::Invalid { option: "testbed", reason: format!("say which one: {}", names.join(", ")) })
            }
        }
    }

    /// Clears away what a killed server left; the backing files stay.
    fn clear_remains(&self) -> Vec<String> {
        let config = self.config();
        let points = config.iter().flat_map(|config| [&config.slow, &config.fast]);
        let messages = points.filter_map(|point| unmount_with_message(point)).collect();
        self.remove();
        messages
    }
}

fn matches(config: &TestbedConfig, selector: &str) -> bool {
    let path = mount_path(selector);
    config.name == selector || [&config.slow, &config.fast].iter().any(|point| Some(*point) == path.as_ref())
}

/// The absolute path of a directory that may be a stale mount, which cannot be resolved itself: its parent is.
fn mount_path(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let (parent, name) = (path.parent()?, path.file_name()?);
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    fs::canonicalize(parent).map(|parent| parent.join(name)).ok()
}

/// Ends a mount of ours that no registration knows: its server was killed and its registration lost.
fn down_unregistered(selector: &str) -> Option<Down> {
    let point = mount_path(selector).filter(|point| mounts::is_mounted(point))?;
    let messages = unmount_with_message(&point).into_iter().collect();
    Some(Down { name: selector.to_string(), was_running: false, messages })
}

/// Starts a testbed in the background: runs `testbed serve --config FILE` of the current executable and waits
/// until both directories answer.
///
/// # Errors
/// What is wrong with the configuration or the machine; [`Error::StartFailed`] quotes the end of the server's log.
pub fn up(config: &TestbedConfig) -> Result<RunningInfo> {
    let executable = std::env::current_exe().map_err(Error::io("find", Path::new("/proc/self/exe")))?;
    up_with(config, |config_file| {
        let mut command = Command::new(executable);
        command.args(["testbed", "serve", "--config"]).arg(config_file);
        command
    })
}

/// Like [`up`] with another command that calls [`crate::serve()`] with the configuration in the given file.
///
/// # Errors
/// See [`up`].
pub fn up_with(config: &TestbedConfig, command: impl FnOnce(&Path) -> Command) -> Result<RunningInfo> {
    let mut config = config.clone();
    config.validate()?;
    mounts::check_fuse()?;
    let registration = Registration::named(&config.name);
    if let Some(process) = registration.process() {
        return Err(Error::AlreadyRunning { name: config.name, process });
    }
    registration.clear_remains();
    config.slow = mounts::prepare("slow", &config.slow)?;
    config.fast = mounts::prepare("fast", &config.fast)?;
    registration.create()?;
    registration.write_config(&config)?;
    let log = fs::File::create(registration.log()).map_err(Error::io("create", &registration.log()))?;
    let mut command = command(&registration.config_file());
    let child = spawn_detached(&mut command, log).map_err(Error::io("run", Path::new(command.get_program())))?;
    wait_until_up(&registration, child)
}

fn spawn_detached(command: &mut Command, log: fs::File) -> io::Result<Child> {
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).current_dir("/");
    // SAFETY: setsid is async-signal-safe and touches nothing of ours.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
    command.spawn()
}

fn wait_until_up(registration: &Registration, mut child: Child) -> Result<RunningInfo> {
    let start = Instant::now();
    let failed = |reason: String| {
        registration.withdraw();
        let tail = log_tail(&registration.log());
        Error::StartFailed { reason, log: registration.log(), tail }
    };
    while start.elapsed() < PATIENCE {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(failed(format!("it ended with {status}")));
        }
        if let Ok(stats) = registration.ask_stats() {
            let config = stats.config;
            for point in [&config.slow, &config.fast] {
                fs::read_dir(point).map_err(|error| failed(format!("{} does not answer: {error}", point.display())))?;
            }
            return Ok(RunningInfo {
                backing: config.backing_directory(),
                name: config.name,
                process: stats.process,
                slow: config.slow,
                fast: config.fast,
                log: registration.log(),
                real_time: stats.real_time,
                request_bytes_max: stats.request_bytes_max,
            });
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    // It may still come up and then would serve nobody.
    let _ = child.kill();
    Err(failed(format!("it did not answer for {} s", PATIENCE.as_secs())))
}

fn log_tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

/// Ends a testbed, given its name or one of its directories, or the only one; removes its backing files
/// unless told to keep them.
///
/// # Errors
/// [`Error::NotRunning`] if there is none.
pub fn down(selector: Option<&str>, keep_backing: bool) -> Result<Down> {
    let (registration, config) = match Registration::find(selector) {
        Ok(found) => found,
        Err(error) => return selector.and_then(down_unregistered).ok_or(error),
    };
    let name = config.name.clone();
    match control::ask(&registration.socket(), &Request::Down { keep_backing }) {
        Ok(Answer::Done(messages)) => {
            let start = Instant::now();
            while registration.directory.exists() && start.elapsed() < PATIENCE {
                std::thread::sleep(POLL_INTERVAL);
            }
            Ok(Down { name, was_running: true, messages })
        }
        Ok(other) => Err(Error::Control(format!("{other:?}"))),
        Err(_) => {
            let messages = registration.clear_remains();
            if !keep_backing {
                remove_backing(&config.backing_directory())?;
            }
            Ok(Down { name, was_running: false, messages })
        }
    }
}

/// What a testbed did since its start or the last reset.
///
/// # Errors
/// [`Error::NotRunning`] if there is none that answers.
pub fn stats(selector: Option<&str>) -> Result<TestbedStats> {
    find_running(selector)?.ask_stats()
}

/// Lets a testbed count anew.
///
/// # Errors
/// [`Error::NotRunning`] if there is none that answers.
pub fn reset_stats(selector: Option<&str>) -> Result<()> {
    control::ask(&find_running(selector)?.socket(), &Request::Reset).map(|_| ())
}

/// Lets a testbed's servers forget what they have read: the next run finds nothing in their memory.
///
/// # Errors
/// [`Error::NotRunning`] if there is none that answers.
pub fn cool(selector: Option<&str>) -> Result<()> {
    control::ask(&find_running(selector)?.socket(), &Request::Cool).map(|_| ())
}

fn find_running(selector: Option<&str>) -> Result<Registration> {
    let (registration, config) = Registration::find(selector)?;
    match registration.process() {
        Some(_) => Ok(registration),
        None => Err(Error::NotRunning { selector: config.name, runtime: runtime_directory() }),
    }
}
