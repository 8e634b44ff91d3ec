//! The metrics socket: HTTP on a unix socket, in threads of its own.
//!
//! The event loop is only asked for a snapshot of the figures, through its mailbox; everything else happens
//! here. A connection is served once and closed. It has a few seconds in all, a request head of a few KiB,
//! and there are a few of them at a time: further ones are told so, and a peer that sends nothing, or reads
//! nothing, holds up nobody else.

use std::io::{self, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::socket::SockType;

use super::{CONTENT_TYPE, text};
use crate::error::{Error, Result};
use crate::socket;
use crate::status::Status;

/// Name of the socket in the runtime directory.
pub(crate) const METRICS_FILE: &str = "metrics";
/// How long a connection may take, and how long the event loop may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections served at once.
const CONNECTIONS_MAX: usize = 16;
/// Longest request head; those of scrapers have a few hundred bytes.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Headers a request may have.
const HEADERS_MAX: usize = 64;

/// Where the figures come from; nothing if they cannot be had in time.
pub trait Source: Send + Sync + 'static {
    /// How things stand now.
    fn snapshot(&self, patience: Duration) -> Option<Box<Status>>;
}

/// The socket's name in the file system, removed with this.
pub struct Endpoint {
    path: PathBuf,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Serves `source` at `path`, for this user alone, until the process ends.
pub fn start(path: &Path, source: impl Source) -> Result<Endpoint> {
    let failed = |error| Error::file("serve metrics at", path, error);
    refuse_what_is_not_ours(path).map_err(failed)?;
    let listener = UnixListener::from(socket::listen_at(path, SockType::Stream).map_err(failed)?);
    listener.set_nonblocking(false).map_err(failed)?;
    let endpoint = Endpoint { path: path.to_path_buf() };
    let source = Arc::new(source);
    let accept = move || accept_all(&listener, &source);
    std::thread::Builder::new().name("metrics".into()).stack_size(128 << 10).spawn(accept).map_err(failed)?;
    Ok(endpoint)
}

/// A socket nobody listens at is left over; anything else at the path stays.
fn refuse_what_is_not_ours(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => Err(io::Error::other("something else is there")),
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => Err(io::Error::other("another process serves it")),
            Err(_) => Ok(()),
        },
    }
}

fn accept_all(listener: &UnixListener, source: &Arc<impl Source>) {
    let busy = Arc::new(AtomicUsize::new(0));
    loop {
        let mut connection = match listener.accept() {
            Ok((connection, _)) => connection,
            Err(error) => {
                tracing::warn!(%error, "a metrics connection was not accepted");
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        let _ = connection.set_write_timeout(Some(PATIENCE));
        if busy.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            busy.fetch_sub(1, Ordering::AcqRel);
            let _ = answer(&mut connection, "503 Service Unavailable", "too many connections\n", true);
            continue;
        }
        let (source, guard) = (Arc::clone(source), Place(Arc::clone(&busy)));
        let serve = move || {
            let _guard = guard;
            let _ = serve(connection, source.as_ref());
        };
        let spawned = std::thread::Builder::new().name("metrics".into()).stack_size(256 << 10).spawn(serve);
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread for a metrics connection");
        }
    }
}

/// One of the places of connections.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What a request head asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The figures, or the head of that answer alone.
    Metrics {
        /// Whether the figures are wanted.
        body: bool,
    },
    /// Nothing that is served; the status to answer with.
    Nothing(&'static str),
}

fn serve(mut connection: UnixStream, source: &impl Source) -> io::Result<()> {
    let asked = read_head(&mut connection)?;
    let (status, text, body) = match asked {
        Asked::Metrics { body } => match source.snapshot(PATIENCE) {
            Some(status) => ("200 OK", text(&status), body),
            None => ("503 Service Unavailable", "the agent does not answer\n".into(), body),
        },
        Asked::Nothing(status) => (status, format!("{status}; GET /metrics\n"), true),
    };
    answer(&mut connection, status, &text, body)
}

fn read_head(connection: &mut UnixStream) -> io::Result<Asked> {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    loop {
        let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        let Some(left) = left else { return Ok(Asked::Nothing("408 Request Timeout")) };
        connection.set_read_timeout(Some(left))?;
        match connection.read(&mut buffer) {
            Ok(0) => return Ok(Asked::Nothing("400 Bad Request")),
            Ok(count) => head.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => continue,
            Err(error) => return Err(error),
        }
        if let Some(asked) = understand(&head) {
            return Ok(asked);
        }
        if head.len() > HEAD_BYTES_MAX {
            return Ok(Asked::Nothing("431 Request Header Fields Too Large"));
        }
    }
}

/// What the head asks for, once it is whole; what follows it changes nothing.
pub fn understand(head: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return Some(Asked::Nothing("400 Bad Request")),
    }
    let path = request.path.unwrap_or("").split('?').next().unwrap_or("");
    Some(match (request.method, path) {
        (Some("GET"), "/metrics") => Asked::Metrics { body: true },
        (Some("HEAD"), "/metrics") => Asked::Metrics { body: false },
        (_, "/metrics") => Asked::Nothing("405 Method Not Allowed"),
        _ => Asked::Nothing("404 Not Found"),
    })
}

fn answer(connection: &mut UnixStream, status: &str, text: &str, body: bool) -> io::Result<()> {
    let length = text.len();
    let mut response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if body {
        response.push_str(text);
    }
    connection.write_all(response.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Figures(AtomicUsize);

    impl Source for Figures {
        fn snapshot(&self, _: Duration) -> Option<Box<Status>> {
            // Every third cannot be had.
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            (number % 3 != 2).then(|| Box::new(Status { slow: "/slow".into(), ..Status::default() }))
        }
    }

    fn started() -> (tempfile::TempDir, PathBuf, Endpoint) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("metrics");
        let endpoint = start(&path, Figures(AtomicUsize::new(0))).unwrap();
        (directory, path, endpoint)
    }

    fn ask(path: &Path, request: &[u8]) -> String {
        let mut connection = UnixStream::connect(path).unwrap();
        // It may have been answered, and closed, before all was sent.
        let _ = connection.write_all(request);
        let mut answer = Vec::new();
        let _ = connection.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

    #[test]
    fn requests_good_and_bad_are_answered() {
        let (_directory, path, _endpoint) = started();
        let good = ask(&path, GET);
        let (head, body) = good.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains(CONTENT_TYPE), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
        assert!(body.contains("# TYPE headstart_requests_total counter\n"));
        let head = ask(&path, b"HEAD /metrics?x=1 HTTP/1.0\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(ask(&path, GET).starts_with("HTTP/1.1 503"), "a figure that is missing");
        for (request, status) in [
            (&b"POST /metrics HTTP/1.1\r\n\r\n"[..], "405"),
            (b"GET /other HTTP/1.1\r\n\r\n", "404"),
            (b"\0\xff nonsense\r\n\r\n", "400"),
            (b"GET /metrics SMTP\r\n\r\n", "400"),
            (&[b'a'; 20 << 10], "4"),
        ] {
            let answer = ask(&path, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        }
        let long = [b"GET /metrics HTTP/1.1\r\nX: ", &[b'a'; 20 << 10][..]].concat();
        assert!(ask(&path, &long).starts_with("HTTP/1.1 431"));
        let mut cut = UnixStream::connect(&path).unwrap();
        cut.write_all(b"GET /met").unwrap();
        cut.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        cut.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    }

    #[test]
    fn peers_that_say_nothing_are_bounded_and_let_go() {
        let (_directory, path, _endpoint) = started();
        let silent: Vec<UnixStream> = (0..40).map(|_| UnixStream::connect(&path).unwrap()).collect();
        // Those beyond the limit are refused at once.
        let mut refused = 0;
        for connection in &silent[CONNECTIONS_MAX..] {
            let mut answer = String::new();
            (&mut &*connection).read_to_string(&mut answer).unwrap();
            refused += usize::from(answer.starts_with("HTTP/1.1 503"));
        }
        assert_eq!(refused, silent.len() - CONNECTIONS_MAX);
        drop(silent);
        let start = Instant::now();
        while !ask(&path, GET).starts_with("HTTP/1.1 200") {
            assert!(start.elapsed() < Duration::from_secs(60), "it never serves again");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn the_socket_is_private_vanishes_and_replaces_only_a_dead_one() {
        use std::os::unix::fs::PermissionsExt;
        let (directory, path, endpoint) = started();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = start(&path, Figures(AtomicUsize::new(0))).err().unwrap().to_string();
        assert!(again.contains("another process serves it"), "{again}");
        drop(endpoint);
        assert!(!path.exists());
        let plain = directory.path().join("plain");
        std::fs::write(&plain, b"precious").unwrap();
        assert!(start(&plain, Figures(AtomicUsize::new(0))).is_err());
        assert_eq!(std::fs::read(&plain).unwrap(), b"precious");
        drop(UnixListener::bind(&path).unwrap());
        let _left_over = start(&path, Figures(AtomicUsize::new(0))).unwrap();
        assert!(ask(&path, GET).starts_with("HTTP/1.1 200"));
    }
}
