//! Sockets that carry packets, and descriptors with them.

use libc::{c_int, c_void, iovec};

use super::errno::Errno;
use super::raw::syscall;

/// Two sockets for packets, connected to each other.
pub(crate) fn socket_pair() -> Result<[c_int; 2], Errno> {
    let mut pair = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `pair` has room for two numbers.
    unsafe { syscall!(libc::SYS_socketpair, libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) }.map(|_| pair)
}

/// send(2) without SIGPIPE.
pub(crate) fn send(socket: c_int, packet: &[u8]) -> Result<usize, Errno> {
    let none = std::ptr::null::<libc::sockaddr>();
    // SAFETY: `packet` is readable for its length; no address is given.
    unsafe { syscall!(libc::SYS_sendto, socket, packet.as_ptr(), packet.len(), libc::MSG_NOSIGNAL, none, 0) }
}

/// sendmsg(2) of a packet and a descriptor with it, without SIGPIPE.
pub(crate) fn send_with(socket: c_int, packet: &[u8], fd: c_int) -> Result<usize, Errno> {
    let mut part = iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
    let mut control = Control::default();
    let mut message = control.message(&mut part);
    // SAFETY: the control buffer has room for one header and one descriptor.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as usize;
        libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(fd);
        syscall!(libc::SYS_sendmsg, socket, &raw mut message, libc::MSG_NOSIGNAL)
    }
}

/// recv(2).
pub(crate) fn receive(socket: c_int, buffer: &mut [u8]) -> Result<usize, Errno> {
    let none = std::ptr::null_mut::<libc::sockaddr>();
    // SAFETY: `buffer` is writable for its length; no address is asked for.
    unsafe { syscall!(libc::SYS_recvfrom, socket, buffer.as_mut_ptr(), buffer.len(), 0, none, none) }
}

/// recvmsg(2) of a packet and the descriptor that may come with it.
pub(crate) fn receive_with(socket: c_int, buffer: &mut [u8]) -> Result<(usize, Option<c_int>), Errno> {
    let mut part = iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Control::default();
    let mut message = control.message(&mut part);
    // SAFETY: everything that the message names is writable and lives.
    let length = unsafe { syscall!(libc::SYS_recvmsg, socket, &raw mut message, libc::MSG_CMSG_CLOEXEC) }?;
    // SAFETY: the kernel filled the buffer, which has room for one descriptor.
    let fd = unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        let came =
            !header.is_null() && ((*header).cmsg_level, (*header).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        came.then(|| libc::CMSG_DATA(header).cast::<c_int>().read_unaligned())
    };
    Ok((length, fd))
}

/// Room for one descriptor beside a packet: a header of 16 bytes and what is behind it.
#[repr(C, align(8))]
#[derive(Default)]
struct Control([u8; 24]);

impl Control {
    fn message(&mut self, part: &mut iovec) -> libc::msghdr {
        // SAFETY: a message of zeroes is valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (part, 1);
        (message.msg_control, message.msg_controllen) = (self.0.as_mut_ptr().cast(), self.0.len());
        message
    }
}

/// Waits until a descriptor can be read from, or its other end is closed.
pub(crate) fn wait_readable(fd: c_int) -> Result<(), Errno> {
    let mut waited = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let none = std::ptr::null::<c_void>();
    // SAFETY: `waited` is one element; neither a time nor a mask is given.
    unsafe { syscall!(libc::SYS_ppoll, &raw mut waited, 1, none, none, 0) }.map(drop)
}

/// Whether a connection's other end is gone.
pub(crate) fn is_hung_up(fd: c_int) -> bool {
    let (mut looked, at_once) = (libc::pollfd { fd, events: 0, revents: 0 }, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: `looked` is one element, the time is readable.
    let found = unsafe { syscall!(libc::SYS_ppoll, &raw mut looked, 1, &raw const at_once, 0, 0) };
    found.is_err() || looked.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}
