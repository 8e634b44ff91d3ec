//! What the agent and the library meet at: the shared file and the socket.

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use headstart_protocol::shared::{Region, Shared};

pub(super) fn map(path: &Path) -> Shared<'static> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    file.set_len(Region::BYTES as u64).unwrap();
    // SAFETY: a new mapping of the whole file, never removed; every field is an atomic.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let address =
            libc::mmap(std::ptr::null_mut(), Region::BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(address, libc::MAP_FAILED);
        (*(address as *const Region)).view()
    }
}

pub(super) fn listen(path: &Path) -> OwnedFd {
    let _ = fs::remove_file(path);
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the address is a zeroed sockaddr_un with a path shorter than its room.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        assert!(name.as_bytes().len() < address.sun_path.len());
        for (to, from) in address.sun_path.iter_mut().zip(name.as_bytes()) {
            *to = *from as libc::c_char;
        }
        let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        assert_eq!(libc::bind(fd, (&raw const address).cast(), length), 0);
        assert_eq!(libc::listen(fd, 128), 0);
        OwnedFd::from_raw_fd(fd)
    }
}
