//! What a program or library says of the libraries it needs: the part of an ELF file that the dynamic linker goes by.

use libc::{c_int, iovec};

use crate::kernel;
use crate::location::{PATH_MAX, PathBuffer};

/// Most bytes of a table that are looked at (assumed: the largest libraries have a few hundred entries of 16 bytes).
const TABLE_BYTES_MAX: usize = 64 << 10;

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;

pub(crate) const DT_NEEDED: u64 = 1;
pub(crate) const DT_STRTAB: u64 = 5;
pub(crate) const DT_RPATH: u64 = 15;
pub(crate) const DT_RUNPATH: u64 = 29;
const DT_AUXILIARY: u64 = 0x7fff_fffd;
const DT_FILTER: u64 = 0x7fff_ffff;

/// Bytes of a file: where they are few, in a room that costs no memory of the kernel's.
enum Bytes {
    Few(PathBuffer, usize),
    Many(Vec<u8>),
}

impl Bytes {
    fn read(fd: c_int, offset: u64, length: usize) -> Bytes {
        if length > PATH_MAX {
            let mut bytes = vec![0u8; length.min(TABLE_BYTES_MAX)];
            let count = read(fd, offset, &mut bytes);
            bytes.truncate(count);
            return Bytes::Many(bytes);
        }
        let mut room = PathBuffer::empty();
        let count = read(fd, offset, &mut room.room()[..length]);
        Bytes::Few(room, count)
    }

    fn get(&self) -> &[u8] {
        match self {
            Bytes::Few(room, count) => &room.bytes()[..*count],
            Bytes::Many(bytes) => bytes,
        }
    }
}

fn read(fd: c_int, offset: u64, to: &mut [u8]) -> usize {
    let element = iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    // SAFETY: the element is memory of that length.
    unsafe { kernel::read_at(fd, &[element], offset) }.unwrap_or(0)
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let found = bytes.get(at..at.checked_add(length)?)?;
    Some(found.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// An ELF file of 64 bits, by a descriptor that may be read.
pub(crate) struct Object {
    fd: c_int,
    /// Its program headers, and the bytes of each.
    headers: Bytes,
    header_bytes: usize,
    dynamic: Bytes,
}

/// A program header: kind, place in the file, address, bytes in the file.
type Part = [u64; 4];

fn parts(headers: &Bytes, header_bytes: usize) -> impl Iterator<Item = Part> {
    headers.get().chunks_exact(header_bytes).filter_map(|header| {
        Some([number(header, 0, 4)?, number(header, 8, 8)?, number(header, 16, 8)?, number(header, 32, 8)?])
    })
}

impl Object {
    /// Nothing if it is no such file.
    pub(crate) fn of(fd: c_int) -> Option<Object> {
        let mut head = [0u8; 64];
        let length = read(fd, 0, &mut head);
        if length < head.len() || !head.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let (offset, size) = (number(&head, 32, 8)?, number(&head, 54, 2)? as usize);
        let headers = Bytes::read(fd, offset, (number(&head, 56, 2)? as usize).checked_mul(size)?);
        let header_bytes = size.max(40);
        let dynamic = parts(&headers, header_bytes).find(|part| part[0] == PT_DYNAMIC);
        let dynamic = dynamic.map_or(Bytes::Many(Vec::new()), |part| Bytes::read(fd, part[1], part[3] as usize));
        Some(Object { fd, headers, header_bytes, dynamic })
    }

    fn parts(&self) -> impl Iterator<Item = Part> {
        parts(&self.headers, self.header_bytes)
    }

    /// Entries of its dynamic section: what, and a number.
    fn entries(&self) -> impl Iterator<Item = [u64; 2]> {
        let entry = |bytes: &[u8]| Some([number(bytes, 0, 8)?, number(bytes, 8, 8)?]);
        self.dynamic.get().chunks_exact(16).filter_map(entry).take_while(|entry| entry[0] != 0)
    }

    /// The dynamic linker that it names.
    pub(crate) fn interpreter(&self) -> Option<Vec<u8>> {
        self.parts().find(|part| part[0] == PT_INTERP).and_then(|part| self.text(part[1]))
    }

    /// Where it says that libraries are to be looked for, by `DT_RPATH` or `DT_RUNPATH`.
    pub(crate) fn directories(&self, which: u64) -> Option<Vec<u8>> {
        self.entries().find(|entry| entry[0] == which).and_then(|entry| self.string(entry[1]))
    }

    /// Names or paths of what is loaded with it.
    pub(crate) fn needed(&self) -> impl Iterator<Item = Vec<u8>> {
        let needed = |entry: &[u64; 2]| matches!(entry[0], DT_NEEDED | DT_AUXILIARY | DT_FILTER);
        self.entries().filter(needed).filter_map(|entry| self.string(entry[1]))
    }

    fn string(&self, at: u64) -> Option<Vec<u8>> {
        let table = self.entries().find(|entry| entry[0] == DT_STRTAB)?[1];
        let holds = |part: &Part| part[0] == PT_LOAD && part[2] <= table && table - part[2] < part[3];
        let part = self.parts().find(holds)?;
        self.text((part[1] + (table - part[2])).checked_add(at)?)
    }

    fn text(&self, offset: u64) -> Option<Vec<u8>> {
        let bytes = Bytes::read(self.fd, offset, PATH_MAX);
        let end = bytes.get().iter().position(|&byte| byte == 0)?;
        Some(bytes.get()[..end].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_program_names_its_linker_and_what_it_needs_and_other_bytes_name_nothing() {
        let program = std::fs::File::open("/proc/self/exe").unwrap();
        let object = Object::of(program.as_raw_fd()).unwrap();
        assert!(object.interpreter().is_some_and(|path| path.starts_with(b"/")));
        assert!(object.needed().any(|name| name.starts_with(b"libc.so")));
        assert!(Object::of(std::fs::File::open("/proc/self/maps").unwrap().as_raw_fd()).is_none());
    }
}
