//! The process that holds a node's lock while agents come and go.
//!
//! It keeps one descriptor: the lock of the agent that came last. An agent finds it by a socket in the runtime
//! directory, or starts it: it binds the socket and gives it to `headstart hold-presence` as standard input, which goes
//! into a session of its own. It ends when it is told to, or when no agent was connected for [`LINGER`].
//!
//! | what dies | what happens |
//! |---|---|
//! | agent | the holder keeps its lock until a next agent brings another one |
//! | holder | the agent has the same description: nothing is given up; the connection hangs up, and the agent starts another holder |
//! | both, or the node | the lock is given up |

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::{Error, Result};
use crate::packets;

/// How long a holder waits for a next agent; assumed, as long as an agent that nobody needs stays.
pub const LINGER: Duration = Duration::from_secs(600);
/// How long an agent waits for its holder's answer, which takes microseconds; assumed: longer than a busy node makes a
/// process wait.
const PATIENCE: Duration = Duration::from_secs(5);

const SOCKET: &str = "holder";
const GREETING: &[u8] = b"hello";
const HOLD: &[u8] = b"hold";
const END: &[u8] = b"end";
const DONE: &[u8] = b"done";

/// An agent's connection to the holder of its node.
#[derive(Debug)]
pub struct Holder {
    socket: PathBuf,
    connection: OwnedFd,
}

impl Holder {
    /// Finds the holder of this runtime directory, of which the caller is the only agent, or starts one by `program`,
    /// which must call [`run`].
    pub fn find_or_start(runtime: &Path, mut program: Command) -> Result<Holder> {
        let socket = runtime.join(SOCKET);
        if let Some(holder) = Holder::find(&socket)? {
            return Ok(holder);
        }
        let listener = packets::listen_at(&socket).map_err(|error| Error::file("listen at", &socket, error))?;
        let failed = |error| Error::system("start the process that holds the node's lock", error);
        program.stdin(Stdio::from(listener)).stdout(Stdio::null()).stderr(Stdio::null());
        let status = program.status().map_err(failed)?;
        // This process's copy of the socket: where it is the last one, nobody answers.
        drop(program);
        // It has gone into the background, or has ended and its socket with it.
        Holder::find(&socket)?.ok_or_else(|| failed(io::Error::other(format!("it ended with {status}"))))
    }

    /// One that answers: a connection alone may be to a socket of which only a process that is about to become another
    /// program still has a copy.
    fn find(socket: &Path) -> Result<Option<Holder>> {
        let connection = match packets::connect_to(socket) {
            Ok(connection) => connection,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                return Ok(None);
            }
            Err(error) => return Err(Error::file("connect to", socket, error)),
        };
        let holder = Holder { socket: socket.to_path_buf(), connection };
        match packets::send(&holder.connection, GREETING).and_then(|()| holder.answer()) {
            Ok(true) => Ok(Some(holder)),
            Ok(false) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(None),
            Err(error) => Err(holder.failed(error)),
        }
    }

    /// The holder keeps this description's locks from now on, instead of any before.
    pub fn hold(&self, file: &File) -> Result<()> {
        packets::send_with(&self.connection, HOLD, file.as_fd()).map_err(|error| self.failed(error))?;
        self.await_done()
    }

    /// The holder gives up what it holds and ends.
    pub fn end(self) -> Result<()> {
        packets::send(&self.connection, END).map_err(|error| self.failed(error))?;
        self.await_done()?;
        let _ = std::fs::remove_file(&self.socket);
        Ok(())
    }

    /// Hangs up when the holder has ended: then find or start one again.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }

    fn await_done(&self) -> Result<()> {
        match self.answer() {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.failed(io::Error::other("it has ended"))),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Whether it did what it was told; false if it has ended.
    fn answer(&self) -> io::Result<bool> {
        let mut descriptors = [PollFd::new(self.connection.as_fd(), PollFlags::POLLIN)];
        let patience = PollTimeout::try_from(PATIENCE).expect("it is some seconds");
        if poll(&mut descriptors, patience)? == 0 {
            return Err(io::Error::other("it does not answer: was it stopped?"));
        }
        match packets::receive(&self.connection) {
            Ok((packet, _)) => Ok(packet == DONE),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::file("ask the process that holds the node's lock at", &self.socket, error)
    }
}

/// The holder's whole life, with its listening socket as standard input. The caller has no other thread.
pub fn run(linger: Duration) -> Result<()> {
    let listener = std::io::stdin().as_fd().try_clone_to_owned();
    let listener = listener.map_err(|error| Error::system("take the socket", error))?;
    // The parent ends here; the child has `/` as its directory and no standard streams.
    nix::unistd::daemon(false, false).map_err(|error| Error::system("go into the background", error))?;
    serve(&listener, linger)
}

fn serve(listener: &OwnedFd, linger: Duration) -> Result<()> {
    let failed = |error: io::Error| Error::system("wait for agents", error);
    let mut held: Option<OwnedFd> = None;
    let mut agent: Option<OwnedFd> = None;
    let mut alone_since = Instant::now();
    loop {
        let left = match agent {
            Some(_) => PollTimeout::NONE,
            None => match linger.checked_sub(alone_since.elapsed()) {
                Some(left) => PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX),
                None => return Ok(()),
            },
        };
        let mut descriptors = vec![PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        descriptors.extend(agent.iter().map(|agent| PollFd::new(agent.as_fd(), PollFlags::POLLIN)));
        match poll(&mut descriptors, left) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(failed(error.into())),
        }
        let is_ready = |at: usize| descriptors.get(at).and_then(PollFd::any).unwrap_or(false);
        let (comes, says) = (is_ready(0), is_ready(1));
        if says {
            let connection = agent.as_ref().expect("it was polled");
            match packets::receive(connection) {
                Ok((packet, Some(file))) if packet == HOLD => {
                    held.replace(file);
                    let _ = packets::send(connection, DONE);
                }
                Ok((packet, None)) if packet == GREETING => {
                    let _ = packets::send(connection, DONE);
                }
                Ok((packet, None)) if packet == END => {
                    drop(held);
                    let _ = packets::send(connection, DONE);
                    return Ok(());
                }
                _ => {
                    agent = None;
                    alone_since = Instant::now();
                }
            }
        }
        if comes {
            // A runtime directory has one agent: who comes now follows one that died.
            agent = Some(packets::accept(listener).map_err(failed)?);
        }
    }
}
