//! SEQPACKET sockets: one packet a message.

use std::io;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind,
    connect, getsockopt, listen, recv, recvmsg, send, sendmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

/// Longest packet.
pub(crate) const PACKET_MAX: usize = 128 << 10;

fn new_socket(kind: SockType, flags: SockFlag) -> io::Result<OwnedFd> {
    Ok(socket(AddressFamily::Unix, kind, flags | SockFlag::SOCK_CLOEXEC, None)?)
}

/// A listening socket at `path`, for this user alone; what stood there is replaced, so that whoever finds
/// nothing there knows that no agent is on its way.
pub(crate) fn listen_at(path: &Path, kind: SockType) -> io::Result<OwnedFd> {
    use std::os::unix::fs::PermissionsExt;
    let fresh = path.with_extension("new");
    let _ = std::fs::remove_file(&fresh);
    let socket = new_socket(kind, SockFlag::SOCK_NONBLOCK)?;
    bind(socket.as_raw_fd(), &UnixAddr::new(&fresh)?)?;
    std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o600))?;
    listen(&socket, Backlog::MAXCONN)?;
    std::fs::rename(&fresh, path)?;
    Ok(socket)
}

/// The next connection, if one waits; of another user: refused.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    match accept4(listener.as_raw_fd(), SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC) {
        Ok(descriptor) => {
            // SAFETY: `accept4` returned a new descriptor that nobody else owns.
            let connection = unsafe { OwnedFd::from_raw_fd(descriptor) };
            let peer = getsockopt(&connection, sockopt::PeerCredentials)?;
            let own = nix::unistd::getuid().as_raw();
            if peer.uid() != own && peer.uid() != 0 {
                return Err(io::Error::other("a process of another user tried to connect"));
            }
            Ok(Some(connection))
        }
        Err(nix::errno::Errno::EAGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The process that made the connection, as this process's namespace shows it; zero if it does not.
pub(crate) fn peer(connection: &OwnedFd) -> u32 {
    getsockopt(connection, sockopt::PeerCredentials).map_or(0, |peer| u32::try_from(peer.pid()).unwrap_or(0))
}

/// A blocking connection to the socket at `path`.
pub(crate) fn connect_to(path: &Path) -> io::Result<OwnedFd> {
    let socket = new_socket(SockType::SeqPacket, SockFlag::empty())?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(socket)
}

/// From now on `receive` waits for so long at most on a blocking socket.
pub(crate) fn receive_within(socket: &OwnedFd, patience: Duration) -> io::Result<()> {
    let limit = TimeVal::new(patience.as_secs() as i64, patience.subsec_micros().into());
    Ok(setsockopt(socket, sockopt::ReceiveTimeout, &limit)?)
}

/// Receives one packet; `Some(0)` when the peer is gone, `None` when none waits on a non-blocking socket or came in
/// time.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match recv(socket.as_raw_fd(), buffer, MsgFlags::empty()) {
        Ok(length) => Ok(Some(length)),
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => Ok(None),
        Err(nix::errno::Errno::ECONNRESET) => Ok(Some(0)),
        Err(error) => Err(error.into()),
    }
}

/// Room for a packet and a descriptor with it; without any after `take`.
#[derive(Default)]
pub(crate) struct Packet {
    buffer: Vec<u8>,
    control: Vec<u8>,
}

impl Packet {
    pub(crate) fn new() -> Packet {
        Packet { buffer: vec![0; PACKET_MAX], control: nix::cmsg_space!([std::os::fd::RawFd; 1]) }
    }

    /// What came last.
    pub(crate) fn bytes(&self, length: usize) -> &[u8] {
        &self.buffer[..length]
    }
}

/// The same, with the descriptor that may come with it.
pub(crate) fn receive_with(socket: &OwnedFd, packet: &mut Packet) -> io::Result<Option<(usize, Option<OwnedFd>)>> {
    let mut parts = [IoSliceMut::new(&mut packet.buffer)];
    match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut packet.control), MsgFlags::MSG_CMSG_CLOEXEC) {
        Ok(message) => {
            let rights = message.cmsgs().into_iter().flatten().filter_map(|part| match part {
                ControlMessageOwned::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            });
            // SAFETY: the kernel has just made them for this process, and nobody else has them.
            let mut came = rights.flatten().map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) });
            let first = came.next();
            came.for_each(drop);
            Ok(Some((message.bytes, first)))
        }
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => Ok(None),
        Err(nix::errno::Errno::ECONNRESET) => Ok(Some((0, None))),
        Err(error) => Err(error.into()),
    }
}

/// Sends one packet and a descriptor with it; false if a non-blocking socket takes none now.
pub(crate) fn send_with(socket: &OwnedFd, packet: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<bool> {
    let rights = [descriptor.as_raw_fd()];
    let parts = [IoSlice::new(packet)];
    let sent =
        sendmsg::<()>(socket.as_raw_fd(), &parts, &[ControlMessage::ScmRights(&rights)], MsgFlags::MSG_NOSIGNAL, None);
    match sent {
        Ok(_) => Ok(true),
        Err(nix::errno::Errno::EAGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A connection that came over another one, for the event loop.
pub(crate) fn arrived(socket: OwnedFd) -> io::Result<OwnedFd> {
    let flags = nix::fcntl::fcntl(&socket, nix::fcntl::FcntlArg::F_GETFL)?;
    let flags = nix::fcntl::OFlag::from_bits_truncate(flags) | nix::fcntl::OFlag::O_NONBLOCK;
    nix::fcntl::fcntl(&socket, nix::fcntl::FcntlArg::F_SETFL(flags))?;
    let is_packets = getsockopt(&socket, sockopt::SockType)? == SockType::SeqPacket;
    if is_packets { Ok(socket) } else { Err(io::Error::other("it is no socket for packets")) }
}

/// Sends one packet; false if a non-blocking socket takes none now.
pub(crate) fn send_packet(socket: &OwnedFd, packet: &[u8]) -> io::Result<bool> {
    loop {
        match send(socket.as_raw_fd(), packet, MsgFlags::MSG_NOSIGNAL) {
            Ok(_) => return Ok(true),
            Err(nix::errno::Errno::EAGAIN) => return Ok(false),
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
