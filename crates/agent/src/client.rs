//! The command line's side: finding, starting and asking the agent.

use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use headstart_protocol::message::{Envelope, Reply, Request};
use headstart_protocol::{ENVIRONMENT_SWITCH, SOCKET_FILE};

use crate::error::{Error, Result};
use crate::runtime_directory;
use crate::site::Site;
use crate::socket::{self, PACKET_MAX};
use crate::status::{Answer, Command, Status};

/// How long an agent may take to start: replaying a long journal takes a while.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How long another agent may take to follow one that died, for whoever only asks.
const SUCCESSION: Duration = Duration::from_secs(3);

/// Status with which an agent ends that finds another one serving the directory.
pub const EXIT_ALREADY_SERVED: i32 = 69;
/// Status with which an agent ends that finds the directory or its flash in use, or bytes missing.
pub const EXIT_IN_USE: i32 = 70;

/// A connection to an agent, for commands.
pub struct Client {
    socket: OwnedFd,
    runtime: PathBuf,
    /// How long an answer is waited for; for ever if absent.
    patience: Option<Duration>,
}

/// What an agent is told that is started, instead of what the site file says.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Flash to use.
    pub capacity: Option<String>,
    /// Files to put on flash; all if none is named.
    pub include: Vec<String>,
    /// Files to leave on the disks.
    pub exclude: Vec<String>,
}

impl Client {
    /// Connects to the site's agent.
    pub fn connect(site: &Site) -> Result<Client> {
        Client::of_directory(&site.slow)
    }

    /// The answer of the site's agent; none if none runs. One that dies before it has answered is followed by another
    /// where a run starts it: that one is asked.
    pub fn ask_living(site: &Site, command: &Command) -> Result<Option<Status>> {
        let mut died: Option<Instant> = None;
        loop {
            let answer = match Client::connect(site) {
                Err(_) if died.is_none() => return Ok(None),
                Err(error) => Err(error),
                Ok(client) => {
                    died.get_or_insert_with(Instant::now);
                    client.ask(command)
                }
            };
            match answer {
                Err(Error::NoAgent { .. }) if died.is_some_and(|first| first.elapsed() < SUCCESSION) => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(Error::NoAgent { .. }) => return Ok(None),
                answer => return answer.map(Some),
            }
        }
    }

    /// Whether an agent of the site did not end in order, and none has followed.
    pub fn is_orphaned(site: &Site) -> bool {
        runtime_directory::path(&site.slow).join(SOCKET_FILE).exists() && Client::connect(site).is_err()
    }

    /// Connects to the agent of a managed directory, given without symbolic links.
    pub fn of_directory(slow: &Path) -> Result<Client> {
        Client::at(runtime_directory::path(slow))
    }

    /// Connects to the site's agent; starts one with `program agent --site FILE` if none runs. Two that try
    /// at once end up with the same agent: the second one started finds the lock taken and ends, and the
    /// first one is waited for.
    pub fn connect_or_start(site: &Site, site_path: &Path, program: &Path, overrides: &Overrides) -> Result<Client> {
        let runtime = runtime_directory::path(&site.slow);
        let log_path = runtime_directory::log(&runtime);
        let deadline = Instant::now() + START_TIMEOUT + silence(site);
        let mut started: Option<(Child, u64)> = None;
        loop {
            if let Some(client) = Client::connect_to_living(site) {
                return Ok(client);
            }
            let log_start = match &mut started {
                None => 0,
                Some((child, log_start)) => match child.try_wait().ok().flatten() {
                    // Another agent has the lock: it is starting, or ending.
                    Some(status) if status.code() == Some(EXIT_ALREADY_SERVED) => {
                        started = None;
                        0
                    }
                    Some(status) => {
                        let in_use = status.code() == Some(EXIT_IN_USE);
                        return Err(Error::NotStarted { log: tail(&log_path, *log_start), path: log_path, in_use });
                    }
                    None => *log_start,
                },
            };
            if Instant::now() > deadline {
                return Err(Error::NotStarted { log: tail(&log_path, log_start), path: log_path, in_use: true });
            }
            if started.is_none() {
                runtime_directory::create(&runtime)?;
                started = Some(start(site_path, program, overrides, &log_path)?);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Another connection to the same agent.
    pub fn again(&self) -> Result<Client> {
        Client::at(self.runtime.clone())
    }

    fn at(runtime: PathBuf) -> Result<Client> {
        let socket = socket::connect_to(&runtime.join(SOCKET_FILE))
            .map_err(|source| Error::NoAgent { path: runtime.clone(), source })?;
        Ok(Client { socket, runtime, patience: None })
    }

    /// The same; an agent that does not answer for so long is none.
    pub(crate) fn with_patience(self, patience: Duration) -> Client {
        // It is only how often the time is looked at.
        let _ = socket::receive_within(&self.socket, patience.min(Duration::from_secs(1)));
        Client { patience: Some(patience), ..self }
    }

    /// A connection that was answered: an agent on its way out still has a socket.
    fn connect_to_living(site: &Site) -> Option<Client> {
        Client::connect(site).ok().filter(|client| client.ask(&Command::Status).is_ok())
    }

    /// The agent's runtime directory.
    pub fn runtime(&self) -> &Path {
        &self.runtime
    }

    /// Asks and waits for the answer.
    pub fn ask(&self, command: &Command) -> Result<Status> {
        let gone = |source| Error::NoAgent { path: self.runtime.clone(), source };
        let text = serde_json::to_vec(command).expect("a command has a JSON form");
        let mut packet = Vec::new();
        Request::Control { text: &text }.encode(Envelope { slot: 0, seq: 0 }, &mut packet);
        socket::send_packet(&self.socket, &packet).map_err(gone)?;
        let mut buffer = vec![0; PACKET_MAX];
        let asked = Instant::now();
        let length = loop {
            if let Some(length) = socket::receive(&self.socket, &mut buffer).map_err(gone)? {
                break length;
            }
            if self.patience.is_some_and(|patience| asked.elapsed() >= patience) {
                return Err(gone(std::io::Error::other("it does not answer")));
            }
        };
        match Reply::decode(&buffer[..length]) {
            Ok((_, Reply::Control { text })) => match serde_json::from_slice(text) {
                Ok(Answer::Status(status)) => Ok(*status),
                Ok(Answer::Error { error }) => Err(Error::Refused(error)),
                Err(error) => Err(Error::Refused(format!("the agent's answer is not understood: {error}"))),
            },
            _ => Err(gone(std::io::Error::other("it closed the connection"))),
        }
    }
}

/// How long other nodes of the directory may be silent before one that starts goes on without them.
fn silence(site: &Site) -> Duration {
    let timing = site.cluster().map(|cluster| cluster.timing.hold.0 + cluster.timing.margin.0);
    Duration::from_nanos(timing.unwrap_or(0))
}

/// Starts an agent; where its part of the log begins.
fn start(site_path: &Path, program: &Path, overrides: &Overrides, log_path: &Path) -> Result<(Child, u64)> {
    let log = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(log_path);
    let log = log.map_err(|error| Error::file("open", log_path, error))?;
    let log_start = log.metadata().map(|found| found.len()).unwrap_or(0);
    let errors = log.try_clone().map_err(|error| Error::file("open", log_path, error))?;
    let site_path = std::path::absolute(site_path).map_err(|error| Error::file("find", site_path, error))?;
    let mut process = Process::new(program);
    process.arg("agent").arg("--site").arg(site_path);
    let Overrides { capacity, include, exclude } = overrides;
    for (option, values) in [("--capacity", capacity.as_slice()), ("--include", include), ("--exclude", exclude)] {
        process.args(values.iter().map(|value| format!("{option}={value}")));
    }
    process.stdin(Stdio::null()).stdout(log).stderr(errors);
    // Within another run it must not be served itself: what is missing of the library would be put back.
    process.env_remove("LD_PRELOAD").env(ENVIRONMENT_SWITCH, "off");
    // It must not keep a file system busy that somebody wants to unmount.
    process.env(runtime_directory::ENVIRONMENT_BASE, runtime_directory::base()).current_dir("/");
    detach(&mut process);
    let child = process.spawn().map_err(|error| Error::file("start the agent", program, error))?;
    Ok((child, log_start))
}

/// Lets the agent outlive this process and its terminal.
fn detach(process: &mut Process) {
    use std::os::unix::process::CommandExt;
    process.process_group(0);
    // SAFETY: `setsid` is async-signal-safe and touches no memory.
    unsafe {
        process.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
}

fn tail(path: &Path, from: u64) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let new = bytes.get(from as usize..).unwrap_or_default();
    let text = String::from_utf8_lossy(new);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
