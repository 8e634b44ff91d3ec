//! Values from bytes: often those at which something changes.

use headstart_units::request::Range;

/// Bytes that run out.
pub struct Source<'a>(pub &'a [u8]);

impl Source<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number less than `limit`.
    pub fn below(&mut self, limit: u32) -> u32 {
        u32::from(self.byte()) % limit
    }

    /// Any number; small, round and extreme ones above all.
    pub fn number(&mut self) -> u64 {
        let k = u64::from(self.byte());
        match self.byte() % 16 {
            0 => k,
            1..=5 => k * 4096,
            6 => k * 512,
            7 => k << 20,
            8 => k << 36,
            9 => u64::MAX - k,
            10 => u64::MAX - k * 4096,
            11 => (i64::MAX as u64).wrapping_add(k).wrapping_sub(128),
            12 => k << 56,
            13 => (1 << 32) - 128 + k,
            _ => (0..8).fold(k, |number, _| number << 8 | u64::from(self.byte())),
        }
    }

    pub fn range(&mut self) -> Range {
        Range::new(self.number(), self.number())
    }

    pub fn path(&mut self) -> Vec<u8> {
        match self.byte() % 8 {
            0 => vec![b'x'; 70_000],
            1 => Vec::new(),
            2 => vec![b'/'; 4097],
            _ => vec![b'/', b'a' + self.byte() % 3],
        }
    }
}
