//! The numbers that payloads are made of.
//!
//! | name | how |
//! |---|---|
//! | number | varint: seven bits a byte, lowest first, the high bit set in all bytes but the last; no longer than needed |
//! | position | a count of bytes as a number: twice the pages of 4 KiB if it is a whole number of them, else twice the bytes plus one |
//! | position and flag | the same, twice, plus the flag |
//! | step | a difference as a number: twice it if it is not negative, else twice its negative minus one |

use headstart_units::PAGE_BYTES;

/// Bytes of the longest varint: 66 bits, a position and a flag.
const VARINT_BYTES_MAX: usize = 10;

/// Appends numbers.
pub(crate) struct Writer<'a>(pub &'a mut Vec<u8>);

impl Writer<'_> {
    fn varint(&mut self, mut value: u128) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A number.
    pub(crate) fn number(&mut self, value: impl Into<u64>) {
        self.varint(value.into().into());
    }

    /// A position.
    pub(crate) fn position(&mut self, bytes: u64) {
        self.varint(position(bytes));
    }

    /// A position and a flag.
    pub(crate) fn position_and(&mut self, bytes: u64, flag: bool) {
        self.varint(position(bytes) << 1 | u128::from(flag));
    }

    /// A step.
    pub(crate) fn step(&mut self, difference: i64) {
        self.number(difference.wrapping_shl(1) as u64 ^ (difference >> 63) as u64);
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

fn position(bytes: u64) -> u128 {
    match bytes % PAGE_BYTES {
        0 => u128::from(bytes / PAGE_BYTES) << 1,
        _ => u128::from(bytes) << 1 | 1,
    }
}

fn bytes_of(position: u128) -> Option<u64> {
    let count = u64::try_from(position >> 1).ok()?;
    match position & 1 {
        0 => count.checked_mul(PAGE_BYTES),
        _ => (count % PAGE_BYTES != 0).then_some(count),
    }
}

/// Reads numbers; none where they are cut, longer than needed, or too large.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn varint(&mut self) -> Option<u128> {
        let mut value = 0;
        for (index, byte) in self.0.iter().take(VARINT_BYTES_MAX).enumerate() {
            value |= u128::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return (*byte != 0 || index == 0).then_some(value);
            }
        }
        None
    }

    /// A number.
    pub(crate) fn number(&mut self) -> Option<u64> {
        u64::try_from(self.varint()?).ok()
    }

    /// A number of 32 bits.
    pub(crate) fn word(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }

    /// A position.
    pub(crate) fn position(&mut self) -> Option<u64> {
        bytes_of(self.varint()?)
    }

    /// A position and a flag.
    pub(crate) fn position_and(&mut self) -> Option<(u64, bool)> {
        let both = self.varint()?;
        Some((bytes_of(both >> 1)?, both & 1 == 1))
    }

    /// A step.
    pub(crate) fn step(&mut self) -> Option<i64> {
        let folded = self.number()?;
        Some((folded >> 1) as i64 ^ -((folded & 1) as i64))
    }

    /// What is left, which is read with that.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
