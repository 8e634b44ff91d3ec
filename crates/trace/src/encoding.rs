//! The numbers that entries are made of: varints, seven bits a byte, lowest first, the high bit set in all
//! bytes but the last. A step is a difference: twice it if it is not negative, else twice its negative minus
//! one.

/// Bytes of the longest number.
pub(crate) const NUMBER_BYTES_MAX: usize = 10;

/// Writes into memory that the caller made large enough.
pub(crate) struct Writer<'a> {
    bytes: &'a mut [u8],
    used: usize,
}

impl<'a> Writer<'a> {
    /// A writer at the beginning of `bytes`.
    pub(crate) fn new(bytes: &'a mut [u8]) -> Writer<'a> {
        Writer { bytes, used: 0 }
    }

    /// One byte.
    #[inline]
    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes[self.used] = byte;
        self.used += 1;
    }

    /// A number.
    #[inline]
    pub(crate) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// A step.
    #[inline]
    pub(crate) fn step(&mut self, difference: i64) {
        self.number(difference.wrapping_shl(1) as u64 ^ (difference >> 63) as u64);
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes[self.used..self.used + bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
    }

    /// How many bytes were written.
    pub(crate) fn used(&self) -> usize {
        self.used
    }
}

/// Reads numbers; none where they are cut, longer than needed, or too large.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// One byte.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A number.
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for index in 0..NUMBER_BYTES_MAX {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if index == NUMBER_BYTES_MAX - 1 && bits > 1 {
                return None;
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                return (byte != 0 || index == 0).then_some(value);
            }
        }
        None
    }

    /// A number of 32 bits.
    pub(crate) fn word(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// A step.
    pub(crate) fn step(&mut self) -> Option<i64> {
        let folded = self.number()?;
        Some((folded >> 1) as i64 ^ -((folded & 1) as i64))
    }

    /// So many bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }
}
