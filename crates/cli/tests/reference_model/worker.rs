//! A process of the run: does what the stage asks, by as many means as a program has.

use std::ffi::CString;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use super::operation::{Means, Opening, Operation, Outcome, receive, send};
use crate::site::{content, managed};

/// Slots of a worker.
pub const SLOTS: usize = 4;

/// The path of a name.
pub fn path(name: usize) -> PathBuf {
    managed().join(format!("file-{name}"))
}

fn c_path(name: usize) -> CString {
    CString::new(path(name).as_os_str().as_bytes()).unwrap()
}

/// Works until the stage closes the socket, which is standard input.
pub fn work() {
    // SAFETY: descriptor 0 is the socket the stage gave this process, and nothing else here uses it.
    let mut stage = UnixStream::from(unsafe { OwnedFd::from_raw_fd(0) });
    let mut slots: [Option<OwnedFd>; SLOTS] = Default::default();
    while let Ok(operation) = receive::<Operation>(&mut stage) {
        let mut bytes = Vec::new();
        let outcome = perform(&mut slots, &operation, &mut bytes);
        let outcome = outcome.unwrap_or_else(|error| Outcome::Failed(error.to_string()));
        if send(&mut stage, &outcome).is_err() || stage.write_all(&bytes).is_err() {
            break;
        }
    }
}

type Result<T> = std::io::Result<T>;

fn checked(result: i64) -> Result<i64> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}

fn perform(slots: &mut [Option<OwnedFd>; SLOTS], operation: &Operation, bytes: &mut Vec<u8>) -> Result<Outcome> {
    let descriptor = |slot: usize| slots[slot].as_ref().expect("the stage knows the slots").as_raw_fd();
    match *operation {
        Operation::Open { slot, name, opening, truncate } => slots[slot] = Some(open(name, opening, truncate)?),
        Operation::Close { slot } => slots[slot] = None,
        Operation::Write { slot, offset, length, tag, means } => {
            let mut block = content(tag, offset, length);
            whole(transfer(descriptor(slot), &mut block, offset, means, true)?, length)?;
        }
        Operation::Append { slot, length, tag, vectored } => {
            let mut block = content(tag, 0, length);
            let pieces = pieces(&mut block);
            let fd = descriptor(slot);
            // SAFETY: the pieces lie in `block`, which lives across the call.
            let moved = unsafe {
                if vectored {
                    libc::writev(fd, pieces.as_ptr(), pieces.len() as i32)
                } else {
                    libc::write(fd, block.as_ptr().cast(), length)
                }
            };
            whole(checked(moved as i64)? as usize, length)?;
        }
        Operation::Read { slot, offset, length, means } => {
            bytes.resize(length, 0xee);
            let count = transfer(descriptor(slot), bytes, offset, means, false)?;
            bytes.truncate(count);
            return Ok(Outcome::Bytes(count));
        }
        Operation::Resize { slot, size } => {
            // SAFETY: plain integers.
            checked(unsafe { libc::ftruncate(descriptor(slot), size as i64) }.into())?;
        }
        Operation::ResizeByName { name, size } => {
            // SAFETY: the path is a C string that lives across the call.
            checked(unsafe { libc::truncate(c_path(name).as_ptr(), size as i64) }.into())?;
        }
        Operation::Sync { slot, data_only } => {
            let fd = descriptor(slot);
            // SAFETY: plain integers.
            checked(unsafe { if data_only { libc::fdatasync(fd) } else { libc::fsync(fd) } }.into())?;
        }
        Operation::Size { slot } => {
            // SAFETY: all-zero bytes are a valid `stat`, which the call fills.
            let mut status: libc::stat = unsafe { std::mem::zeroed() };
            // SAFETY: as above.
            checked(unsafe { libc::fstat(descriptor(slot), &mut status) }.into())?;
            return Ok(Outcome::Size(status.st_size as u64));
        }
        Operation::SizeByName { name } => return Ok(Outcome::Size(std::fs::metadata(path(name))?.len())),
        Operation::Rename { from, to } => std::fs::rename(path(from), path(to))?,
        Operation::Unlink { name } => std::fs::remove_file(path(name))?,
    }
    Ok(Outcome::Done)
}

fn whole(moved: usize, length: usize) -> Result<()> {
    if moved == length { Ok(()) } else { Err(std::io::Error::other(format!("{moved} of {length} bytes were moved"))) }
}

fn open(name: usize, opening: Opening, truncate: bool) -> Result<OwnedFd> {
    let flags = libc::O_RDWR
        | libc::O_CREAT
        | match opening {
            Opening::Plain => 0,
            Opening::Append => libc::O_APPEND,
            Opening::Synchronous => libc::O_DSYNC,
        }
        | if truncate { libc::O_TRUNC } else { 0 };
    // SAFETY: the path is a C string that lives across the call; the descriptor is nobody else's.
    unsafe { Ok(OwnedFd::from_raw_fd(checked(libc::open(c_path(name).as_ptr(), flags, 0o644).into())? as RawFd)) }
}

/// Pieces of uneven length that cover the block.
fn pieces(block: &mut [u8]) -> Vec<libc::iovec> {
    let third = block.len() / 3;
    let (first, rest) = block.split_at_mut(third);
    let (second, last) = rest.split_at_mut(third / 2);
    [first, second, last].map(|piece| libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() }).into()
}

/// Moves the block by one of the means; how many bytes were moved.
fn transfer(fd: RawFd, block: &mut [u8], offset: u64, means: Means, write: bool) -> Result<usize> {
    let (at, length) = (offset as i64, block.len());
    let pieces = pieces(block);
    let (data, vector, count) = (block.as_mut_ptr(), pieces.as_ptr(), pieces.len() as i32);
    // SAFETY: `data` and the pieces are the block, which lives across each call and is used by nobody else meanwhile.
    let moved = unsafe {
        match (means, write) {
            (Means::Positioned, true) => libc::pwrite(fd, data.cast(), length, at),
            (Means::Positioned, false) => libc::pread(fd, data.cast(), length, at),
            (Means::Vectored, true) => libc::pwritev(fd, vector, count, at),
            (Means::Vectored, false) => libc::preadv(fd, vector, count, at),
            (Means::VectoredWithFlags, true) => libc::pwritev2(fd, vector, count, at, 0),
            (Means::VectoredWithFlags, false) => libc::preadv2(fd, vector, count, at, 0),
            (Means::Offset | Means::OffsetVectored, _) => {
                checked(libc::lseek(fd, at, libc::SEEK_SET))?;
                match (means == Means::Offset, write) {
                    (true, true) => libc::write(fd, data.cast(), length),
                    (true, false) => libc::read(fd, data.cast(), length),
                    (false, true) => libc::writev(fd, vector, count),
                    (false, false) => libc::readv(fd, vector, count),
                }
            }
            (Means::Asynchronous, _) => return asynchronous(fd, &mut [(data, length, at)], write),
            (Means::List, _) => {
                let half = length / 2;
                let blocks = &mut [(data, half, at), (data.add(half), length - half, at + half as i64)];
                return asynchronous(fd, blocks, write);
            }
            (Means::Duplicate, _) => {
                let copy = OwnedFd::from_raw_fd(checked(libc::dup(fd).into())? as RawFd);
                return transfer(copy.as_raw_fd(), block, offset, Means::Positioned, write);
            }
            (Means::Child, true) => return by_child(fd, block, offset),
            (Means::Child, false) => return transfer(fd, block, offset, Means::Positioned, write),
        }
    };
    Ok(checked(moved as i64)? as usize)
}

/// POSIX asynchronous requests, one alone or several as a list.
fn asynchronous(fd: RawFd, blocks: &mut [(*mut u8, usize, i64)], write: bool) -> Result<usize> {
    // SAFETY: all-zero bytes are a valid `aiocb`.
    let mut requests: Vec<libc::aiocb> = blocks.iter().map(|_| unsafe { std::mem::zeroed() }).collect();
    for (request, &mut (data, length, at)) in requests.iter_mut().zip(blocks) {
        request.aio_fildes = fd;
        request.aio_buf = data.cast();
        request.aio_nbytes = length;
        request.aio_offset = at;
        request.aio_lio_opcode = if write { libc::LIO_WRITE } else { libc::LIO_READ };
        request.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
    }
    let list: Vec<*mut libc::aiocb> = requests.iter_mut().map(std::ptr::from_mut).collect();
    // SAFETY: the requests and their blocks live until every one of them has ended, below.
    unsafe {
        match (list.len(), write) {
            (1, true) => checked(libc::aio_write(list[0]).into())?,
            (1, false) => checked(libc::aio_read(list[0]).into())?,
            (count, _) => {
                checked(libc::lio_listio(libc::LIO_WAIT, list.as_ptr(), count as i32, std::ptr::null_mut()).into())?
            }
        };
        let mut moved = 0;
        for request in list {
            while libc::aio_error(request) == libc::EINPROGRESS {
                libc::aio_suspend([request.cast_const()].as_ptr(), 1, std::ptr::null());
            }
            match libc::aio_error(request) {
                0 => moved += libc::aio_return(request) as usize,
                errno => return Err(std::io::Error::from_raw_os_error(errno)),
            }
        }
        Ok(moved)
    }
}

/// A forked child writes the block.
fn by_child(fd: RawFd, block: &mut [u8], offset: u64) -> Result<usize> {
    // SAFETY: the child makes one system call through the library under test and ends; it allocates nothing.
    unsafe {
        match libc::fork() {
            0 => {
                let moved = libc::pwrite(fd, block.as_ptr().cast(), block.len(), offset as i64);
                libc::_exit(if moved == block.len() as isize { 0 } else { 1 })
            }
            child => {
                let mut status = 0;
                checked(i64::from(child))?;
                checked(libc::waitpid(child, &mut status, 0).into())?;
                if status == 0 {
                    Ok(block.len())
                } else {
                    Err(std::io::Error::other(format!("child: status {status}")))
                }
            }
        }
    }
}
