//! Packets to the agent and back: sockets, one exchange, and what an answer says.

use headstart_protocol::SOCKET_FILE;
use headstart_protocol::message::{Envelope, Reply, Request};
use libc::c_int;

use super::complaints::complain;
use crate::files::descriptors::own::{self, Own};
use crate::kernel::raw::syscall;
use crate::kernel::{self, Errno};
use crate::settings::{runtime_path, settings};

/// How long a process that has lost the agent waits for another one.
pub(crate) const PATIENCE_MS: u64 = 30_000;
/// Pause between attempts to connect.
pub(crate) const RETRY_MS: u64 = 50;

/// An answer without its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// `Reply::Opened`: the file's index, and whether it is excluded.
    Opened(u32, bool),
    /// `Reply::Done`.
    Done,
    /// `Reply::NoSpace`.
    NoSpace,
    /// `Reply::Bypassed`.
    Bypassed,
    /// `Reply::HeldUp`.
    HeldUp,
    /// `Reply::Flash`.
    Flash(u64),
    /// `Reply::Disk`.
    Disk(u64),
    /// `Reply::Sooner`.
    Sooner(u64),
    /// `Reply::Remote`: how many bytes, and whether they are on flash.
    Remote(u64, bool),
    /// `Reply::Go`.
    Go,
    /// `Reply::Regions`: length of the packet, and whether it is the last.
    Regions(usize, bool),
}

/// Why an exchange brought no answer.
pub(crate) enum Lost {
    /// The agent is gone.
    Agent,
    /// So is its socket: it was stopped, or never was.
    Socket,
    /// It answered: no.
    Refused(Errno),
}

pub(crate) fn unconnected() -> Result<c_int, Errno> {
    // SAFETY: no memory is involved.
    unsafe { syscall!(libc::SYS_socket, libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) }
        .map(|socket| socket as c_int)
}

/// A socket of the library's own, for a connection later.
pub(crate) fn spare_socket() -> Result<c_int, Errno> {
    own_socket(unconnected()?)
}

/// A socket connected by its path, not marked as the library's.
pub(crate) fn connected() -> Result<c_int, Errno> {
    let socket = unconnected()?;
    if let Err(errno) = connect_socket(socket) {
        let _ = kernel::close(socket);
        return Err(errno);
    }
    Ok(socket)
}

pub(crate) fn connect_socket(socket: c_int) -> Result<(), Errno> {
    let path = runtime_path(SOCKET_FILE)?;
    let mut path = path.as_bytes();
    let mut link = Vec::new();
    let mut directory = None;
    // SAFETY: an address of zeroes is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    if path.len() >= address.sun_path.len() {
        // Too long for an address: by way of a descriptor of the directory.
        let runtime = std::ffi::CString::new(settings().runtime.as_slice()).map_err(|_| libc::EINVAL)?;
        let fd = kernel::openat(libc::AT_FDCWD, &runtime, libc::O_PATH | libc::O_CLOEXEC, 0)?;
        let _ = std::io::Write::write_fmt(&mut link, format_args!("/proc/self/fd/{fd}/{SOCKET_FILE}"));
        path = &link;
        directory = Some(fd);
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    // SAFETY: `address` is readable for the length given; a system call is no cancellation point.
    let result = unsafe { syscall!(libc::SYS_connect, socket, &raw const address, size_of::<libc::sockaddr_un>()) };
    if let Some(fd) = directory {
        let _ = kernel::close(fd);
    }
    result.map(drop)
}

/// Marks a new socket as the library's and moves it away from the program's numbers.
pub(crate) fn own_socket(socket: i32) -> Result<i32, Errno> {
    own::make_own(socket, Own::Socket)
}

/// Sends one packet and waits for the answer that repeats its envelope; its length.
pub(crate) fn exchange(
    socket: c_int,
    envelope: Option<Envelope>,
    packet: &[u8],
    answer: &mut [u8],
) -> Result<usize, Lost> {
    loop {
        match kernel::send(socket, packet) {
            Ok(_) => break,
            Err(libc::EINTR) => {}
            Err(_) => return Err(Lost::Agent),
        }
    }
    loop {
        match kernel::receive(socket, answer) {
            Ok(0) => return Err(Lost::Agent),
            // What is in it is decoded where it is wanted: that takes of a stack which may be small.
            Ok(length) => match Envelope::of(&answer[..length]) {
                Ok(found) if envelope.is_none_or(|expected| expected == found) => return Ok(length),
                // The answer to a request that was sent twice.
                Ok(_) => {}
                Err(_) => return Err(Lost::Agent),
            },
            Err(libc::EINTR) => {}
            Err(_) => return Err(Lost::Agent),
        }
    }
}

/// Asks for a descriptor, which is the caller's then.
pub(crate) fn exchange_for_descriptor(socket: c_int, envelope: Envelope, data_file: u32) -> Result<c_int, Lost> {
    let (mut packet, mut answer) = (Vec::new(), [0; 256]);
    Request::Descriptor { data_file }.encode(envelope, &mut packet);
    loop {
        match kernel::send(socket, &packet) {
            Ok(_) => break,
            Err(libc::EINTR) => {}
            Err(_) => return Err(Lost::Agent),
        }
    }
    loop {
        match kernel::receive_with(socket, &mut answer) {
            Ok((0, _)) => return Err(Lost::Agent),
            Ok((length, Some(fd))) if answer_of(&answer[..length]).is_ok() => return Ok(fd),
            Ok((length, fd)) => {
                if let Some(fd) = fd {
                    let _ = kernel::close(fd);
                }
                // Without one: there was no number for it, or the agent refused.
                return Err(match answer_of(&answer[..length]) {
                    Err(lost) => lost,
                    Ok(_) => Lost::Refused(libc::EMFILE),
                });
            }
            Err(libc::EINTR) => {}
            Err(_) => return Err(Lost::Agent),
        }
    }
}

pub(crate) fn refused(errno: Errno, text: &[u8]) -> Lost {
    if !text.is_empty() {
        complain(format_args!("{}", text.escape_ascii()));
    }
    Lost::Refused(if errno > 0 { errno } else { libc::EIO })
}

pub(crate) fn answer_of(packet: &[u8]) -> Result<Answer, Lost> {
    match Reply::decode(packet) {
        Ok((_, Reply::Opened { file, excluded })) => Ok(Answer::Opened(file, excluded)),
        Ok((_, Reply::Done)) => Ok(Answer::Done),
        Ok((_, Reply::NoSpace)) => Ok(Answer::NoSpace),
        Ok((_, Reply::Bypassed)) => Ok(Answer::Bypassed),
        Ok((_, Reply::HeldUp)) => Ok(Answer::HeldUp),
        Ok((_, Reply::Flash { length })) => Ok(Answer::Flash(length)),
        Ok((_, Reply::Disk { length })) => Ok(Answer::Disk(length)),
        Ok((_, Reply::Sooner { length })) => Ok(Answer::Sooner(length)),
        Ok((_, Reply::Remote { length, on_flash })) => Ok(Answer::Remote(length, on_flash)),
        Ok((_, Reply::Go)) => Ok(Answer::Go),
        Ok((_, Reply::Regions { last, .. })) => Ok(Answer::Regions(packet.len(), last)),
        Ok((_, Reply::Error { errno, text })) => Err(refused(errno, text)),
        Ok((_, Reply::Welcome(_) | Reply::Control { .. })) | Err(_) => Err(Lost::Refused(libc::EIO)),
    }
}
