//! The server's end of the control socket: a thread that accepts, and one for each connection.

use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Answer, Command, directory};
use crate::handle::Handle;

/// Longest line of a command.
const LINE_BYTES_MAX: u64 = 4096;

/// Longest wait for a client to take its answer (assumed).
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The socket; closed and removed when dropped.
pub struct Listener {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    handle: Handle,
    path: PathBuf,
    closing: AtomicBool,
    connections: Mutex<Vec<(UnixStream, JoinHandle<()>)>>,
}

impl Listener {
    /// Answers for a volume. A socket that a killed server left is replaced: its devices' owner is this process now.
    pub fn start(directory: &Path, handle: Handle) -> io::Result<Listener> {
        directory::create(directory)?;
        let path = directory::socket(directory, handle.uuid());
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let shared = Arc::new(Shared { handle, path, closing: AtomicBool::new(false), connections: Mutex::default() });
        let thread = std::thread::Builder::new().name("volume-control".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.accept(&listener)
        })?;
        Ok(Listener { shared, thread: Some(thread) })
    }
}

impl Shared {
    fn accept(self: &Arc<Shared>, listener: &UnixListener) {
        for stream in listener.incoming() {
            if self.closing.load(Ordering::SeqCst) {
                return;
            }
            if let Err(error) = stream.and_then(|stream| self.serve(stream)) {
                tracing::warn!(%error, path = %self.path.display(), "a connection to the control socket failed");
            }
        }
    }

    fn serve(self: &Arc<Shared>, stream: UnixStream) -> io::Result<()> {
        // Who does not read its answer does not keep a volume from ending.
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let copy = stream.try_clone()?;
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name("volume-control".to_owned()).spawn(move || {
            // A client that has gone needs no answer.
            let _ = shared.converse(&stream);
            let _ = stream.shutdown(Shutdown::Both);
        })?;
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|(_, thread)| !thread.is_finished());
        connections.push((copy, thread));
        Ok(())
    }

    fn converse(&self, stream: &UnixStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = String::new();
            if io::Read::take(&mut reader, LINE_BYTES_MAX).read_line(&mut line)? == 0 {
                return Ok(());
            }
            let answer = match serde_json::from_str::<Command>(&line) {
                Ok(command) => self.handle.ask(command).unwrap_or_else(|ended| Answer::Error(ended.0)),
                Err(error) => Answer::Error(format!("not a command: {error}")),
            };
            let mut line = serde_json::to_string(&answer)?;
            line.push('\n');
            let mut stream = stream;
            stream.write_all(line.as_bytes())?;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts; one that died cannot be woken and need not be.
        let _ = UnixStream::connect(&self.shared.path);
        let _ = std::fs::remove_file(&self.shared.path);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let connections = std::mem::take(&mut *self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner));
        for (stream, thread) in connections {
            // The one that waits for a command hears that none follows.
            let _ = stream.shutdown(Shutdown::Read);
            let _ = thread.join();
        }
    }
}
