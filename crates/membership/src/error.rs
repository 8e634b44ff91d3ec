//! What can go wrong, with the file or server it went wrong on and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An operating error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call on a file or directory failed; nothing was changed.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A call that concerns no file failed.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried, as a verb.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// A swap may have happened or not: only a later read tells.
    #[error("nobody knows whether the view was changed: {problem}")]
    Unsure {
        /// Where, and what failed.
        problem: String,
    },
    /// The register holds what no version of this program wrote.
    #[error("{place}: {problem}; no member may go on with it. 'headstart check' says how the directory stands")]
    Damaged {
        /// The file, or the key and the server.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The register was written by a newer program.
    #[error(
        "{place} was written by a newer Headstart (format {format}, this one knows {}): use the same version on all \
         nodes",
        crate::limits::FORMAT
    )]
    Newer {
        /// The file, or the key and the server.
        place: String,
        /// The format.
        format: u32,
    },
    /// The register shows less than it did: it was restored, removed, or its file system is not mounted any more.
    #[error(
        "{place} no longer has version {known} of the view or a later one: is its file system mounted, or was it \
         restored from an older copy? Members of before must not go on with it"
    )]
    WentBack {
        /// The directory, or the key and the server.
        place: String,
        /// What this process knows that it had.
        known: u64,
    },
    /// A value too long for a register.
    #[error("a view of {bytes} bytes is longer than a register takes, which is {}", crate::limits::VALUE_BYTES_MAX)]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// A server must not be used: its version is refused, or it is of another cluster.
    #[error("etcd cannot be used: {problem}")]
    RefusedServer {
        /// The endpoint with what is wrong.
        problem: String,
    },
    /// No server answered as it should.
    #[error("etcd cannot be used: {}", problems.join("; "))]
    Unreachable {
        /// Each endpoint with what was wrong.
        problems: Vec<String>,
    },
    /// A setting makes no sense.
    #[error("{setting}: {problem}")]
    Setting {
        /// Its name.
        setting: String,
        /// What is wrong and what it should be.
        problem: String,
    },
}

impl Error {
    pub(crate) fn file(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Error {
        Error::File { action, path: path.to_path_buf(), source: source.into() }
    }

    pub(crate) fn system(action: &'static str, source: impl Into<io::Error>) -> Error {
        Error::System { action, source: source.into() }
    }
}
