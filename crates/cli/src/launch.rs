//! A run on other nodes than its first.
//!
//! `headstart run` tells launchers of parallel programs ([`launchers`]) to start their daemons on other nodes as
//! `headstart launch WORD DAEMON`, which is `headstart run` there with the options of the run: agent, library,
//! supervision and drain as on the first node. Where a launcher has no daemon that could be started so, its ranks have
//! the library all the same: on another node than the run's it gives this command without a daemon, once it needs an
//! agent and finds none, and then the command only sees to it that one serves.

pub mod job;
mod launchers;
pub mod remote_shell;
mod word;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;
use headstart_agent::node;
use headstart_program::preloading;
use headstart_protocol::{
    ENVIRONMENT_ARRIVAL, ENVIRONMENT_FIRST, ENVIRONMENT_LAUNCH, ENVIRONMENT_POLICY, ENVIRONMENT_RUNTIME,
    ENVIRONMENT_SLOW, ENVIRONMENT_SWITCH, ENVIRONMENT_TRACE,
};
use nix::sys::signal::SigSet;

use word::Word;

/// What `headstart` is called with.
const COMMAND: &str = "launch";
/// How all variables of Headstart's begin.
const PREFIX: &[u8] = b"HEADSTART";
/// Variables that say nothing about the run, or nothing that holds on another node.
const NOT_HANDED_ON: [&str; 9] = [
    ENVIRONMENT_ARRIVAL,
    ENVIRONMENT_FIRST,
    ENVIRONMENT_LAUNCH,
    ENVIRONMENT_POLICY,
    ENVIRONMENT_RUNTIME,
    ENVIRONMENT_SWITCH,
    ENVIRONMENT_TRACE,
    "HEADSTART_REMOTE_SHELL",
    node::ENVIRONMENT_NODE,
];

#[derive(Debug, Args)]
pub struct Launch {
    /// What 'headstart run' told the launcher
    word: OsString,

    /// The launcher's daemon and its arguments; without it, only an agent is started
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "DAEMON")]
    program: Vec<OsString>,
}

impl Launch {
    /// Becomes the run of this node.
    pub fn execute(&self) -> Result<ExitCode> {
        let word = Word::parse(&self.word)?;
        let own = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(&own);
        command.args(&word.arguments).arg("--joins").arg(&word.node);
        if self.program.is_empty() {
            command.arg("--agent-alone");
            // A rank's: an agent that outlives the rank must hold none of its pipes, and hear signals.
            close_inherited();
            SigSet::empty().thread_set_mask().context("cannot let signals through")?;
        } else {
            command.arg("--").args(&self.program);
        }
        for (name, value) in std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(PREFIX)) {
            // A name that was given to the first node is not this one's.
            if name != node::ENVIRONMENT_NODE || value == word.node && !is_this_boot(&word.boot) {
                command.env_remove(name);
            }
        }
        for setting in &word.environment {
            if let Some((name, value)) = assignment(setting) {
                command.env(name, value);
            }
        }
        leave_unserved(&mut command);
        Err(command.exec()).with_context(|| format!("cannot start {}", own.display()))
    }
}

/// The library stays out of it: no agent is there that it could ask.
fn leave_unserved(command: &mut Command) {
    let list = std::env::var_os(preloading::VARIABLE).unwrap_or_default();
    let is_ours = |entry: &&[u8]| preloading::file_name(entry) == b"libheadstart.so";
    let others: Vec<&[u8]> = preloading::entries(list.as_bytes()).filter(|entry| !is_ours(entry)).collect();
    if others.is_empty() {
        command.env_remove(preloading::VARIABLE);
    } else {
        command.env(preloading::VARIABLE, OsString::from_vec(others.join(&b':')));
    }
    command.env(ENVIRONMENT_SWITCH, "off");
}

fn close_inherited() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|fd| *fd > 2).collect();
    for fd in numbers {
        // SAFETY: this process has opened nothing that lasts, so that nobody uses the number.
        unsafe { libc::close(fd) };
    }
}

fn assignment(setting: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let at = setting.as_bytes().iter().position(|byte| *byte == b'=')?;
    let (name, value) = setting.as_bytes().split_at(at);
    Some((OsStr::from_bytes(name), OsStr::from_bytes(&value[1..])))
}

/// Program and word of what a rank has in its environment.
fn split(launch: &OsStr) -> (&OsStr, &OsStr) {
    let bytes = launch.as_bytes();
    let at = bytes.iter().rposition(|byte| *byte == b' ').unwrap_or(0);
    (OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(bytes.get(at + 1..).unwrap_or_default()))
}

/// Makes a program of a run take the run along to other nodes: `arguments` are those of the run. `began_on` is the node
/// where it began, if that is another one. A run without an agent has no runtime directory.
pub fn prepare(
    command: &mut Command,
    arguments: Vec<OsString>,
    began_on: Option<&str>,
    runtime: Option<&Path>,
) -> Result<()> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let node = began_on.map_or_else(|| node::this().name, str::to_string);
    let word = Word { node: node.into(), boot: boot(), environment: settings(), arguments }.to_text();
    launchers::prepare(command, [program.as_os_str(), OsStr::new(COMMAND), &word], runtime)?;
    command.env(ENVIRONMENT_LAUNCH, [program.as_os_str(), &word].join(OsStr::new(" ")));
    Ok(())
}

/// Settings of this process's environment that hold for the run.
fn settings() -> Vec<OsString> {
    // Within another run it is what the library was told.
    let is_inner = std::env::var_os(ENVIRONMENT_RUNTIME).is_some();
    let is_handed_on = |name: &OsStr| {
        name.as_bytes().starts_with(PREFIX)
            && !NOT_HANDED_ON.iter().any(|other| name == *other)
            && !(is_inner && name == ENVIRONMENT_SLOW)
    };
    let found = std::env::vars_os().filter(|(name, _)| is_handed_on(name));
    found.map(|(name, value)| [name, value].join(OsStr::new("="))).collect()
}

/// This boot of this node; empty if it cannot be told.
fn boot() -> OsString {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().into()
}

fn is_this_boot(other: &OsStr) -> bool {
    *other == boot()
}

/// What is said of this node where it cannot take part in a run.
pub fn cannot_take_part(began_on: &str) -> String {
    format!(
        "node {} cannot take part in the run that began on node {began_on}: its programs would read old bytes and are \
         not started. Keep all of the job on node {began_on}, or give 'headstart drain' and 'headstart stop' there and \
         run it without Headstart. The cause",
        node::this().name
    )
}
