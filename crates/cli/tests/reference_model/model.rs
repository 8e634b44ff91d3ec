//! What the files must hold: an array of bytes each, some of which may still be one of two values.

/// A byte that is not in doubt has no alternative.
const CERTAIN: u16 = u16::MAX;

/// One file, whatever its name.
#[derive(Clone, Debug, Default)]
pub struct Object {
    values: Vec<u8>,
    alternatives: Vec<u16>,
    /// Sizes it may have; equal when certain.
    pub size_least: u64,
}

impl Object {
    pub fn size(&self) -> u64 {
        self.values.len() as u64
    }

    /// Whether the size is known.
    pub fn size_is_certain(&self) -> bool {
        self.size_least == self.size()
    }

    pub fn resize(&mut self, size: u64) {
        self.values.resize(size as usize, 0);
        self.alternatives.resize(size as usize, CERTAIN);
        self.size_least = size;
    }

    /// A write that was acknowledged.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        if offset + bytes.len() as u64 > self.size() {
            self.resize(offset + bytes.len() as u64);
        }
        self.values[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        self.alternatives[offset as usize..][..bytes.len()].fill(CERTAIN);
    }

    /// A write of which nobody knows whether, or how much of it, was done. What it may have appended is in
    /// doubt as a whole.
    pub fn may_have_written(&mut self, offset: u64, bytes: &[u8]) {
        let least = self.size_least;
        if offset + bytes.len() as u64 > self.size() {
            self.resize(offset + bytes.len() as u64);
        }
        self.size_least = least;
        for (index, &byte) in bytes.iter().enumerate() {
            let at = offset as usize + index;
            if self.values[at] != byte {
                self.alternatives[at] = byte.into();
            }
        }
    }

    /// The size turned out: nothing is in doubt about it any more.
    pub fn learn_size(&mut self, size: u64) {
        assert!(
            (self.size_least..=self.size()).contains(&size),
            "size {size}, not {} to {}",
            self.size_least,
            self.size()
        );
        self.resize(size);
    }

    /// Bytes were read at `offset` of a file nobody writes: checks them, and what was in doubt is so no longer.
    pub fn learn(&mut self, offset: u64, read: &[u8], asked: usize) {
        self.check(offset, read, asked, &[]);
        for (index, &byte) in read.iter().enumerate() {
            self.values[offset as usize + index] = byte;
            self.alternatives[offset as usize + index] = CERTAIN;
        }
    }

    /// Checks bytes read while `racing` writes may have been under way.
    pub fn check(&self, offset: u64, read: &[u8], asked: usize, racing: &[(u64, Vec<u8>)]) {
        let expected = self.size().saturating_sub(offset).min(asked as u64) as usize;
        assert_eq!(read.len(), expected, "bytes read at {offset} of {}, {asked} asked for", self.size());
        for (index, &byte) in read.iter().enumerate() {
            let at = offset as usize + index;
            let raced =
                |(start, bytes): &(u64, Vec<u8>)| at as u64 >= *start && bytes.get(at - *start as usize) == Some(&byte);
            let right = self.values[at] == byte || self.alternatives[at] == u16::from(byte) || racing.iter().any(raced);
            assert!(
                right,
                "byte {at} is {byte:#x}, not {:#x} (alternative {:#x})",
                self.values[at], self.alternatives[at]
            );
        }
    }

    /// Ranges with bytes in doubt, at most `length` each.
    pub fn doubts(&self, length: usize) -> Vec<(u64, usize)> {
        let blocks = self.alternatives.chunks(length).enumerate();
        blocks
            .filter(|(_, block)| block.iter().any(|&alternative| alternative != CERTAIN))
            .map(|(number, block)| ((number * length) as u64, block.len()))
            .collect()
    }

    /// The bytes, none of which is in doubt.
    pub fn bytes(&self) -> &[u8] {
        assert!(self.size_is_certain() && self.doubts(1 << 30).is_empty());
        &self.values
    }
}
