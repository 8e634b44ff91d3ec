//! What can go wrong, in words that name the file or device and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// A failure of the testbed's own operations; failures of file operations on a mount are errno values instead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The FUSE device cannot be opened.
    #[error(
        "no FUSE: cannot open {device} ({source}); load the fuse module (modprobe fuse) or run with --device /dev/fuse"
    )]
    NoFuse {
        /// The device's path.
        device: PathBuf,
        /// Why it cannot be opened.
        source: io::Error,
    },
    /// A directory does not exist or is none.
    #[error("{what} {path} is not a directory that can be used ({source}); create it with: mkdir -p {path}", path = path.display())]
    MissingDirectory {
        /// Which directory: slow, fast, backing.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// Why it cannot be used.
        source: io::Error,
    },
    /// A mount point holds files that the mount would hide.
    #[error("the {what} directory {path} is not empty; mounting there would hide its files: give an empty directory", path = path.display())]
    NotEmpty {
        /// Which directory.
        what: &'static str,
        /// Its path.
        path: PathBuf,
    },
    /// A value of the configuration is out of range or unknown.
    #[error("{option}: {reason}")]
    Invalid {
        /// The command line option.
        option: &'static str,
        /// What is wrong with the value, and what is allowed.
        reason: String,
    },
    /// A testbed with this name, or on this directory, serves already.
    #[error("a testbed '{name}' runs already (process {process}); stop it with: headstart-lab testbed down {name}")]
    AlreadyRunning {
        /// The running testbed's name.
        name: String,
        /// Its process id.
        process: u32,
    },
    /// Nothing serves under the given name or directory.
    #[error("no testbed{named} runs here (looked in {runtime}); start one with: headstart-lab testbed up",
        named = if selector.is_empty() { String::new() } else { format!(" '{selector}'") }, runtime = runtime.display())]
    NotRunning {
        /// What was asked for; empty: any.
        selector: String,
        /// Where running testbeds are registered.
        runtime: PathBuf,
    },
    /// The server process ended or did not answer while starting.
    #[error("the testbed's server did not start: {reason}; last lines of {log}:\n{tail}", log = log.display())]
    StartFailed {
        /// What was seen.
        reason: String,
        /// The log file.
        log: PathBuf,
        /// The end of the log.
        tail: String,
    },
    /// The mount itself was refused.
    #[error("cannot mount on {path} ({source}); mounting needs root, or fusermount3 (package fuse3) and write permission on the directory", path = path.display())]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// The kernel's or fusermount's answer.
        source: io::Error,
    },
    /// An operation on a file or socket failed.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The running server refused a command or answered nonsense.
    #[error("the testbed's server answered: {0}")]
    Control(String),
}

/// Result of the testbed's own operations.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Adds the action and the path to an I/O error.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io { action, path, source }
    }
}
