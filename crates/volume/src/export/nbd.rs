//! A volume over NBD, on a unix socket: the fixed newstyle handshake and simple replies (the protocol's
//! `doc/proto.md`).
//!
//! ```text
//! connection --reader thread--> Block::submit --its callback--> channel --writer thread--> connection
//! ```
//!
//! A connection is two threads and what they share, and nothing of it is shared with another: whatever a client does,
//! and wherever it dies, ends at most its own connection. Requests that it leaves behind are carried out, and their
//! answers dropped. A client that does not take its answers is not read from any more once so many of them wait
//! ([`window`]).
//!
//! All connections see one disk, and a FLUSH on any of them covers the completed writes of all: clients may use
//! several. Not here: TLS, TCP, filters (nbdkit's plugin has them), structured replies and block status: to a client
//! every byte of a disk is data.

mod handshake;
mod transmission;
mod window;

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::socket::{Shutdown, shutdown};

use crate::block::Block;
use crate::handle::Handle;

/// Smallest request: a sector.
const REQUEST_BYTES_MIN: u32 = 512;
/// What clients should align to: a block of the volume, smaller writes read and write a whole one.
const REQUEST_BYTES_PREFERRED: u32 = 4096;
/// Largest request: what clients assume where nothing is said (NBD protocol, "Block size constraints").
const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// How long a listener that cannot take a connection, for want of descriptors, waits before it tries again.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// What clients are told of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Export {
    size_bytes: u64,
    discards: bool,
    /// Zeros cost no more than a record.
    zeros_are_fast: bool,
}

/// A socket that is listened on.
#[derive(Debug)]
pub struct NbdExport {
    path: PathBuf,
    listener: Arc<UnixListener>,
    thread: Option<JoinHandle<()>>,
    is_closed: Arc<AtomicBool>,
    clients: Arc<AtomicUsize>,
}

impl NbdExport {
    /// Listens at `path`, where nothing is yet.
    pub fn listen(handle: Handle, path: &Path) -> io::Result<NbdExport> {
        let listener = Arc::new(UnixListener::bind(path)?);
        let (discards, zeros_are_fast) = (handle.discards(), handle.zeros_are_fast());
        let export = Export { size_bytes: handle.size_bytes(), discards, zeros_are_fast };
        let (is_closed, clients) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let accepting = Accepting {
            listener: Arc::clone(&listener),
            is_closed: Arc::clone(&is_closed),
            clients: Arc::clone(&clients),
            handle,
            export,
        };
        let thread = std::thread::Builder::new().name("nbd".to_owned()).spawn(move || accepting.run())?;
        Ok(NbdExport { path: path.to_owned(), listener, thread: Some(thread), is_closed, clients })
    }

    /// How many clients are connected.
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::SeqCst)
    }

    /// Takes no more connections; those that there are go on.
    pub fn close(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.is_closed.store(true, Ordering::SeqCst);
        // A listener that is shut down accepts nobody, and who waits for somebody hears of it.
        let _ = shutdown(self.listener.as_raw_fd(), Shutdown::Both);
        let _ = thread.join();
        // Who finds it later is told that nobody listens.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Drop for NbdExport {
    fn drop(&mut self) {
        self.close();
    }
}

struct Accepting {
    listener: Arc<UnixListener>,
    is_closed: Arc<AtomicBool>,
    clients: Arc<AtomicUsize>,
    handle: Handle,
    export: Export,
}

/// A client that is connected.
struct Client(Arc<AtomicUsize>);

impl Client {
    fn new(clients: &Arc<AtomicUsize>) -> Client {
        clients.fetch_add(1, Ordering::SeqCst);
        Client(Arc::clone(clients))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Accepting {
    fn run(self) {
        while !self.is_closed.load(Ordering::SeqCst) {
            match self.listener.accept() {
                Ok((stream, _)) => self.begin(stream),
                Err(_) if self.is_closed.load(Ordering::SeqCst) => return,
                Err(error) => {
                    tracing::warn!(%error, "a client cannot be connected");
                    std::thread::sleep(RETRY_INTERVAL);
                }
            }
        }
    }

    fn begin(&self, stream: UnixStream) {
        let client = Client::new(&self.clients);
        let (handle, export) = (self.handle.clone(), self.export);
        let thread = std::thread::Builder::new().name("nbd-client".to_owned());
        let begun = thread.spawn(move || {
            let _client = client;
            if let Err(error) = serve(stream, handle, export) {
                tracing::debug!(%error, "a client's connection has ended");
            }
        });
        if let Err(error) = begun {
            tracing::warn!(%error, "a client cannot be served");
        }
    }
}

/// Serves a client until it goes.
fn serve(mut stream: UnixStream, handle: Handle, export: Export) -> io::Result<()> {
    match handshake::shake_hands(&mut stream, &export)? {
        handshake::End::Transmission => transmission::serve(stream, handle, &export),
        handshake::End::Goodbye => Ok(()),
    }
}
