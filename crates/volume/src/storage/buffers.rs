//! Buffers that operations share with whoever made them, and a pool, so that no request asks for memory that
//! another has just returned.

use std::sync::{Arc, Mutex, PoisonError};

use aligned_vec::AVec;

use crate::block::Buffer;

/// A buffer of zeros.
pub fn zeroed(bytes: usize) -> Buffer {
    let mut buffer = AVec::with_capacity(0, bytes);
    buffer.resize(bytes, 0);
    buffer
}

/// Nothing.
pub fn empty() -> Buffer {
    AVec::new(0)
}

/// Part of a buffer that others may hold too.
#[derive(Clone, Debug)]
pub struct Slice {
    buffer: Arc<Buffer>,
    offset: usize,
    length: usize,
}

impl Slice {
    /// These bytes of a buffer.
    pub fn new(buffer: Arc<Buffer>, offset: u64, length: u64) -> Slice {
        assert!(offset + length <= buffer.len() as u64, "a slice lies within its buffer");
        Slice { buffer, offset: offset as usize, length: length as usize }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.offset..self.offset + self.length]
    }

    /// Whether a device takes it from where it lies, whatever its sectors.
    pub fn is_aligned(&self) -> bool {
        (self.offset | self.length).is_multiple_of(4096)
    }
}

/// Size classes: powers of two from a page to 4 MiB.
const CLASSES: usize = 11;
/// Bytes that a class keeps.
const CLASS_BYTES_MAX: usize = 16 << 20;

/// Buffers that nobody uses. Their bytes are those of their last user: a reader of a device overwrites all of
/// them or fails.
#[derive(Debug, Default)]
pub struct Pool {
    classes: [Mutex<Vec<Buffer>>; CLASSES],
}

fn class(bytes: usize) -> Option<usize> {
    let class = bytes.max(4096).next_power_of_two().trailing_zeros() as usize - 12;
    (class < CLASSES).then_some(class)
}

impl Pool {
    /// A buffer of this many bytes of any value.
    pub fn take(&self, bytes: usize) -> Buffer {
        let Some(class) = class(bytes) else { return zeroed(bytes) };
        let kept = self.classes[class].lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut buffer = kept.unwrap_or_else(|| AVec::with_capacity(0, 4096 << class));
        if buffer.len() > bytes {
            buffer.truncate(bytes);
        } else {
            buffer.resize(bytes, 0);
        }
        buffer
    }

    /// Gives a buffer back.
    pub fn put(&self, buffer: Buffer) {
        let Some(class) = class(buffer.capacity()).filter(|class| buffer.capacity() == 4096 << class) else { return };
        let mut kept = self.classes[class].lock().unwrap_or_else(PoisonError::into_inner);
        if (kept.len() + 1) * buffer.capacity() <= CLASS_BYTES_MAX {
            kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_was_given_back_is_the_next_one() {
        let pool = Pool::default();
        let buffer = pool.take(5000);
        let place = buffer.as_ptr();
        assert_eq!((buffer.len(), place as usize % 4096), (5000, 0));
        pool.put(buffer);
        let again = pool.take(8192);
        assert_eq!((again.len(), again.as_ptr()), (8192, place));
        assert_ne!(pool.take(8192).as_ptr(), place);
        pool.put(pool.take(64 << 20));
    }
}
