//! The control socket of a served volume: how commands ask its server for something.
//!
//! A command is a line of JSON, its answer is another; a connection may carry several, one after the other.
//! Whoever may open the socket is the server's user or root.

pub mod directory;
pub mod listener;

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::status::Status;
use crate::trace::Access;

/// What a server is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Command {
    /// How it stands.
    Status,
    /// To make durable what was answered.
    Flush,
    /// To write everything back, and go on serving.
    Drain,
    /// To end.
    Stop {
        /// Without writing back.
        keep_dirty: bool,
    },
    /// The last operations of the devices, and to remember `count` of them from now on; zero: none.
    TraceAddresses {
        /// How many.
        count: usize,
    },
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To `Status`.
    Status(Box<Status>),
    /// Done as asked.
    Done {
        /// Bytes that only flash holds now.
        dirty_bytes: u64,
    },
    /// To `TraceAddresses`: oldest first.
    Trace(Vec<Access>),
    /// Not done, and why.
    Error(String),
}

/// A command that was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody serves it.
    #[error("no server answers for the volume {0}; `headstart volume serve` starts one")]
    NotServed(String),
    /// The socket.
    #[error("the control socket {path}: {source}")]
    Socket {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The server says so.
    #[error("the volume's server: {0}")]
    Refused(String),
}

/// A connection to the server of a volume.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the server of the volume that has this name, or whose disk or flash this is.
    pub fn connect(volume: &str) -> Result<Client, ControlError> {
        Client::connect_in(&directory::path(), volume)
    }

    /// The same, among the sockets of a directory.
    pub fn connect_in(directory: &Path, volume: &str) -> Result<Client, ControlError> {
        if let Ok(uuid) = uuid::Uuid::parse_str(volume) {
            return Client::open(directory::socket(directory, uuid.as_bytes()), volume);
        }
        let wanted = directory::canonical(volume);
        for path in directory::sockets_in(directory) {
            let Ok(mut client) = Client::open(path, volume) else { continue };
            let Ok(status) = client.status() else { continue };
            if [&status.disk.name, &status.flash.name].iter().any(|name| directory::canonical(name) == wanted) {
                return Ok(client);
            }
        }
        Err(ControlError::NotServed(volume.to_owned()))
    }

    fn open(path: PathBuf, volume: &str) -> Result<Client, ControlError> {
        match UnixStream::connect(&path) {
            Ok(stream) => Ok(Client { path, stream: BufReader::new(stream) }),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                Err(ControlError::NotServed(volume.to_owned()))
            }
            Err(source) => Err(ControlError::Socket { path, source }),
        }
    }

    /// Asks, and waits for the answer.
    pub fn ask(&mut self, command: &Command) -> Result<Answer, ControlError> {
        match self.exchange(command) {
            Ok(Answer::Error(reason)) => Err(ControlError::Refused(reason)),
            Ok(answer) => Ok(answer),
            Err(source) => Err(ControlError::Socket { path: self.path.clone(), source }),
        }
    }

    fn exchange(&mut self, command: &Command) -> io::Result<Answer> {
        let mut line = serde_json::to_string(command)?;
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes())?;
        let mut answer = String::new();
        if self.stream.read_line(&mut answer)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server has ended"));
        }
        Ok(serde_json::from_str(&answer)?)
    }

    /// How the volume stands.
    pub fn status(&mut self) -> Result<Status, ControlError> {
        match self.ask(&Command::Status)? {
            Answer::Status(status) => Ok(*status),
            other => Err(ControlError::Refused(format!("an answer to something else: {other:?}"))),
        }
    }

    /// Makes durable what was answered.
    pub fn flush(&mut self) -> Result<(), ControlError> {
        self.ask(&Command::Flush).map(drop)
    }

    /// Writes everything back while the volume is served; the dirty bytes that are left.
    pub fn drain(&mut self) -> Result<u64, ControlError> {
        match self.ask(&Command::Drain)? {
            Answer::Done { dirty_bytes } => Ok(dirty_bytes),
            other => Err(ControlError::Refused(format!("an answer to something else: {other:?}"))),
        }
    }

    /// Lets the server end; it answers before it does.
    pub fn stop(&mut self, keep_dirty: bool) -> Result<(), ControlError> {
        self.ask(&Command::Stop { keep_dirty }).map(drop)
    }
}
