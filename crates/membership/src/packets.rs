//! SEQPACKET sockets between agent and holder: one packet a message, a descriptor with some.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind,
    connect, listen, recvmsg, sendmsg, socket,
};

/// Longer than every packet that there is.
const PACKET_MAX: usize = 64;

fn new_socket() -> io::Result<OwnedFd> {
    Ok(socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?)
}

/// A listening socket at `path`, for this user alone, in place of what stood there.
pub(crate) fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let fresh = path.with_extension("new");
    let _ = std::fs::remove_file(&fresh);
    let socket = new_socket()?;
    bind(socket.as_raw_fd(), &UnixAddr::new(&fresh)?)?;
    std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o600))?;
    listen(&socket, Backlog::MAXCONN)?;
    std::fs::rename(&fresh, path)?;
    Ok(socket)
}

/// The next connection.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    let descriptor = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC)?;
    // SAFETY: `accept4` returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// A blocking connection to the socket at `path`.
pub(crate) fn connect_to(path: &Path) -> io::Result<OwnedFd> {
    let socket = new_socket()?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(socket)
}

/// Receives one packet, empty when the peer is gone, and the descriptor that may come with it.
pub(crate) fn receive(connection: &OwnedFd) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let (mut buffer, mut control) = ([0; PACKET_MAX], nix::cmsg_space!([RawFd; 1]));
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let descriptor = connection.as_raw_fd();
    let message = recvmsg::<()>(descriptor, &mut parts, Some(&mut control), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let rights = message.cmsgs()?.filter_map(|part| match part {
        ControlMessageOwned::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    // SAFETY: the kernel has just made them for this process, and nobody else has them.
    let came: Vec<OwnedFd> = rights.flatten().map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) }).collect();
    let length = message.bytes;
    Ok((buffer[..length].to_vec(), came.into_iter().next()))
}

/// Sends one packet.
pub(crate) fn send(connection: &OwnedFd, packet: &[u8]) -> io::Result<()> {
    send_all(connection, packet, &[])
}

/// Sends one packet and a descriptor with it.
pub(crate) fn send_with(connection: &OwnedFd, packet: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<()> {
    send_all(connection, packet, &[ControlMessage::ScmRights(&[descriptor.as_raw_fd()])])
}

fn send_all(connection: &OwnedFd, packet: &[u8], with: &[ControlMessage<'_>]) -> io::Result<()> {
    sendmsg::<()>(connection.as_raw_fd(), &[IoSlice::new(packet)], with, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}
