//! TCP sockets that nobody waits for.

use std::io::{self, IoSlice, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, connect, sendmsg, setsockopt, socket, sockopt,
};

/// Begins to connect; whether it came to be, `TcpStream::take_error` says once it is writable.
pub(crate) fn dial(address: SocketAddr, silence: Duration) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) | Err(Errno::EINPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    prepare(&stream, silence)?;
    Ok(stream)
}

/// Sends at once what is written, and notices within about `silence` that the other host is gone: while something is
/// unacknowledged or its window is closed, and while nothing is said. Of a process that is stopped its kernel says
/// nothing; the PING does.
pub(crate) fn prepare(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let seconds = u32::try_from(silence.as_secs()).unwrap_or(u32::MAX).max(2);
    setsockopt(stream, sockopt::TcpUserTimeout, &u32::try_from(silence.as_millis()).unwrap_or(u32::MAX))?;
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &(seconds / 2))?;
    setsockopt(stream, sockopt::TcpKeepInterval, &(seconds / 2))?;
    Ok(())
}

/// Writes to a socket whose other end may be gone, without a signal that would end the process.
pub(crate) struct Quietly<'a>(pub(crate) &'a TcpStream);

impl Write for Quietly<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(sendmsg::<()>(self.0.as_raw_fd(), parts, &[], MsgFlags::MSG_NOSIGNAL, None)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
