//! What can go wrong, with the file it went wrong on and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An operating error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call on a file or directory failed.
    #[error("cannot {action} {}: {source}{hint}", path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
        /// What to do, with a leading separator; may be empty.
        hint: &'static str,
    },
    /// A call that concerns no file failed.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried, as a verb.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// There is no site file.
    #[error(
        "no site file at {}: it names the slow and the fast directory and what each costs. 'headstart testbed up' writes one for \
         the testbed; to write one by hand, see 'headstart site example'", path.display()
    )]
    NoSiteFile {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The site file says something senseless.
    #[error("site file {}: {problem}", path.display())]
    Site {
        /// The file.
        path: PathBuf,
        /// What is wrong and what it should be.
        problem: String,
    },
    /// Another agent owns the runtime directory.
    #[error("an agent already serves {}", path.display())]
    AlreadyServed {
        /// The runtime directory.
        path: PathBuf,
    },
    /// An agent with another runtime directory uses the flash.
    #[error("another agent uses {}; stop that one, or give this site a fast directory of its own", path.display())]
    FlashInUse {
        /// Its directory on flash.
        path: PathBuf,
    },
    /// Processes of an earlier agent still run.
    #[error("process {pid} still runs with an earlier agent of {}; wait for it or end it, then start again", path.display())]
    LivingRank {
        /// The process.
        pid: u32,
        /// The runtime directory.
        path: PathBuf,
    },
    /// The agent does not answer.
    #[error("no agent answers at {}: {source}", path.display())]
    NoAgent {
        /// The runtime directory.
        path: PathBuf,
        /// Why connecting failed.
        source: io::Error,
    },
    /// The agent ended before it was ready.
    #[error("the agent did not start; the end of its log {}:\n{log}", path.display())]
    NotStarted {
        /// The log.
        path: PathBuf,
        /// Its last lines.
        log: String,
    },
    /// The journal in the fast directory cannot be used.
    #[error("journal {}: {problem}; its bytes are kept, move it away to start without them", path.display())]
    Journal {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The fast or the slow directory failed, so that what lies on flash would not survive power loss.
    #[error("{}: bytes there could not be made durable; see {}", fast.display(), log.display())]
    NotDurable {
        /// The fast directory.
        fast: PathBuf,
        /// The agent's log.
        log: PathBuf,
    },
    /// The agent refused a command.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// A failed call on `path`.
    pub fn file(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Error {
        Error::File { action, path: path.to_path_buf(), source: source.into(), hint: "" }
    }

    /// A failed call that concerns no file.
    pub fn system(action: &'static str, source: impl Into<io::Error>) -> Error {
        Error::System { action, source: source.into() }
    }
}

/// The `errno` of an I/O error; `EIO` where it has none.
pub fn errno_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
