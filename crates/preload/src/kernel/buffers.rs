//! The program's memory of one request: a vector of one or more elements, so that `pread` and `preadv` share every
//! path.

use libc::{c_int, iovec};

use super::bytes;
use super::errno::Errno;

/// Most bytes the kernel moves in one call (`MAX_RW_COUNT` with 4 KiB pages).
pub(crate) const LENGTH_MAX: usize = 0x7fff_f000;
/// Below this (`vm.mmap_min_addr`) and in the upper half no program has memory.
const ADDRESS_MIN: usize = 65536;
/// Elements of a vector the kernel accepts (`UIO_MAXIOV`).
const ELEMENTS_MAX: usize = 1024;
/// Elements a part of a longer vector is cut into per system call.
const ELEMENTS_PER_CALL: usize = 64;

/// Elements of memory that a request reads into or writes from.
#[derive(Clone, Copy)]
pub(crate) struct Buffers<'a> {
    vector: &'a [iovec],
    length: usize,
    /// Flags of pwritev2 that a write to the slow file needs.
    flags: c_int,
}

impl<'a> Buffers<'a> {
    /// One element; refused as `read` refuses it.
    ///
    /// # Safety
    /// The element is memory the request may use. (The kernel answers EFAULT where nothing is mapped.)
    #[inline]
    pub(crate) unsafe fn one(element: &'a iovec) -> Result<Buffers<'a>, Errno> {
        if element.iov_len > isize::MAX as usize {
            return Err(libc::EFAULT);
        }
        Ok(Buffers { vector: std::slice::from_ref(element), length: element.iov_len.min(LENGTH_MAX), flags: 0 })
    }

    /// A vector as `readv` takes it; refused as the kernel refuses it.
    ///
    /// # Safety
    /// `vector` has `count` elements, which are memory the request may use; or it is an address where no program has
    /// memory.
    pub(crate) unsafe fn vector(vector: *const iovec, count: c_int) -> Result<Buffers<'a>, Errno> {
        if count < 0 || count as usize > ELEMENTS_MAX {
            return Err(libc::EINVAL);
        }
        if count == 0 {
            return Ok(Buffers { vector: &[], length: 0, flags: 0 });
        }
        if vector.addr() < ADDRESS_MIN || vector.addr() > isize::MAX as usize {
            return Err(libc::EFAULT);
        }
        // SAFETY: the caller's contract.
        let vector = unsafe { std::slice::from_raw_parts(vector, count as usize) };
        let mut length = 0usize;
        for element in vector {
            length =
                length.checked_add(element.iov_len).filter(|&sum| sum <= isize::MAX as usize).ok_or(libc::EINVAL)?;
        }
        Ok(Buffers { vector, length: length.min(LENGTH_MAX), flags: 0 })
    }

    /// The same, to be written with flags of pwritev2.
    pub(crate) fn with_flags(self, flags: c_int) -> Buffers<'a> {
        Buffers { flags, ..self }
    }

    /// Bytes of the request.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Whether each element begins and ends at a multiple of `bytes`.
    pub(crate) fn are_aligned(&self, bytes: usize) -> bool {
        let aligned = |element: &iovec| (element.iov_base.addr() | element.iov_len).is_multiple_of(bytes);
        self.vector.iter().all(aligned)
    }

    /// Reads the file's bytes from `offset` into bytes `from .. from + length`; stops where the file ends.
    pub(crate) fn read(&self, fd: c_int, from: usize, length: usize, offset: u64) -> Result<usize, Errno> {
        self.transfer(from, length, |part, moved| {
            // SAFETY: whoever made the buffers vouched for their memory.
            unsafe { bytes::read_at(fd, part, offset + moved as u64) }
        })
    }

    /// Writes bytes `from .. from + length` to the file at `offset`; fewer where the kernel takes fewer.
    pub(crate) fn write(&self, fd: c_int, from: usize, length: usize, offset: u64) -> Result<usize, Errno> {
        self.transfer(from, length, |part, moved| {
            // SAFETY: whoever made the buffers vouched for their memory.
            unsafe { bytes::write_at(fd, part, offset + moved as u64) }
        })
    }

    /// The same to a slow file, with the flags.
    pub(crate) fn write_slow(&self, fd: c_int, from: usize, length: usize, offset: u64) -> Result<usize, Errno> {
        if self.flags == 0 {
            return self.write(fd, from, length, offset);
        }
        self.transfer(from, length, |part, moved| {
            // SAFETY: whoever made the buffers vouched for their memory.
            unsafe { bytes::append(fd, part, offset as i64 + moved as i64, self.flags) }
        })
    }

    /// Writes everything at the file's end with pwritev2(2): `place` -1 moves the descriptor's offset.
    pub(crate) fn append(&self, fd: c_int, place: i64, flags: c_int) -> Result<usize, Errno> {
        // SAFETY: whoever made the buffers vouched for their memory.
        unsafe { bytes::append(fd, self.vector, place, flags) }
    }

    /// Copies into bytes `from ..`, for reads that had to go through a buffer of the library; returns how many.
    pub(crate) fn fill(&self, from: usize, bytes: &[u8]) -> Result<usize, Errno> {
        self.transfer(from, bytes.len(), |part, moved| {
            // SAFETY: whoever made the buffers vouched for their memory.
            unsafe { bytes::copy(&bytes[moved..], part) }
        })
    }

    fn transfer(
        &self,
        from: usize,
        length: usize,
        mut call: impl FnMut(&[iovec], usize) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let mut moved = 0;
        let mut failed = None;
        self.each(from, length, |part| {
            let wanted: usize = part.iter().map(|element| element.iov_len).sum();
            match call(part, moved) {
                Ok(count) => {
                    moved += count;
                    count == wanted
                }
                Err(errno) => {
                    failed = Some(errno);
                    false
                }
            }
        });
        match failed {
            Some(errno) if moved == 0 => Err(errno),
            _ => Ok(moved),
        }
    }

    /// Hands out the elements that make up `from .. from + length`, some at a time, until `work` says no.
    #[inline]
    fn each(&self, from: usize, length: usize, mut work: impl FnMut(&[iovec]) -> bool) {
        if let [one] = self.vector {
            let part =
                iovec { iov_base: one.iov_base.wrapping_byte_add(from), iov_len: length.min(one.iov_len - from) };
            work(&[part]);
            return;
        }
        if from == 0 && length == self.length && length < LENGTH_MAX {
            // One system call, as the program made one.
            if length > 0 {
                work(self.vector);
            }
            return;
        }
        self.each_cut(from, length, &mut work);
    }

    /// The same of a part of a vector. Apart, as it takes more of the stack than all else.
    #[inline(never)]
    fn each_cut(&self, from: usize, length: usize, work: &mut dyn FnMut(&[iovec]) -> bool) {
        let nothing = iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut part = [nothing; ELEMENTS_PER_CALL];
        let (mut skip, mut rest, mut used) = (from, length, 0);
        for element in self.vector {
            if skip >= element.iov_len {
                skip -= element.iov_len;
                continue;
            }
            if rest == 0 {
                break;
            }
            let count = (element.iov_len - skip).min(rest);
            part[used] = iovec { iov_base: element.iov_base.wrapping_byte_add(skip), iov_len: count };
            (skip, rest, used) = (0, rest - count, used + 1);
            if used == ELEMENTS_PER_CALL {
                if !work(&part) {
                    return;
                }
                used = 0;
            }
        }
        if used > 0 {
            work(&part[..used]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_vector_is_the_same_bytes_whatever_its_elements() {
        let mut memory = vec![0u8; 1000];
        let base = memory.as_mut_ptr();
        let vector: Vec<iovec> = (0..200)
            .map(|k| iovec { iov_base: base.wrapping_add(k * 5).cast(), iov_len: if k % 7 == 0 { 0 } else { 5 } })
            .collect();
        // SAFETY: the elements lie in `memory`.
        let buffers = unsafe { Buffers::vector(vector.as_ptr(), 200) }.unwrap();
        let flat: Vec<usize> = (0..200usize).filter(|k| k % 7 != 0).flat_map(|k| k * 5..k * 5 + 5).collect();
        assert_eq!(buffers.length(), flat.len());
        for (from, length) in [(0, flat.len()), (3, 400), (511, 1), (0, 0), (5, 325)] {
            let mut seen = Vec::new();
            buffers.each(from, length, |part| {
                for element in part {
                    let start = element.iov_base as usize - base as usize;
                    seen.extend(start..start + element.iov_len);
                }
                true
            });
            assert_eq!(seen, flat[from..from + length], "{from} {length}");
        }
        let bytes: Vec<u8> = (0..300).map(|k| k as u8).collect();
        assert_eq!(buffers.fill(11, &bytes), Ok(300));
        for (k, &at) in flat[11..311].iter().enumerate() {
            assert_eq!(memory[at], k as u8);
        }
    }

    #[test]
    fn vectors_are_refused_as_the_kernel_refuses_them() {
        let huge = iovec { iov_base: std::ptr::null_mut(), iov_len: isize::MAX as usize };
        let endless = iovec { iov_base: std::ptr::null_mut(), iov_len: usize::MAX };
        // SAFETY: nothing is read through them.
        unsafe {
            assert_eq!(Buffers::vector(std::ptr::null(), -1).err(), Some(libc::EINVAL));
            assert_eq!(Buffers::vector(std::ptr::null(), 1025).err(), Some(libc::EINVAL));
            assert_eq!(Buffers::vector([huge, huge].as_ptr(), 2).err(), Some(libc::EINVAL));
            assert_eq!(Buffers::vector(std::ptr::dangling(), 1).err(), Some(libc::EFAULT));
            assert_eq!(Buffers::vector(std::ptr::without_provenance(usize::MAX), 1).err(), Some(libc::EFAULT));
            assert_eq!(Buffers::one(&endless).err(), Some(libc::EFAULT));
            assert_eq!(Buffers::one(&huge).unwrap().length(), LENGTH_MAX);
        }
    }
}
