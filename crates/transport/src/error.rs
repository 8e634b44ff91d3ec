//! What can go wrong before any connection is made, with the file or setting it went wrong on and what to do.
//!
//! Afterwards nothing is an error of the transport's: connections fail, and [`crate::Event`] says how.

use std::io;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An operating error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call on a file or directory failed.
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
        action: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The agents' key is not one that can be trusted.
    #[error("the agents' key {}: {problem}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The setting `listen` makes no sense on this node.
    #[error("[cluster] listen = \"{listen}\": {problem}")]
    Listen {
        /// What it says.
        listen: String,
        /// What is wrong, and what it should be.
        problem: String,
    },
    /// A name or a managed directory's id is none.
    #[error("a member cannot be called {name:?}: {problem}")]
    Name {
        /// What it was to be called.
        name: String,
        /// What is wrong.
        problem: &'static str,
    },
}

impl Error {
    pub(crate) fn file(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::File { action, path: path.into(), source }
    }

    pub(crate) fn system(action: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error::System { action: action.into(), source: source.into() }
    }
}
