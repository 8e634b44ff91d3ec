//! What a register stores: the value behind a header that says which format it is, who proposed it, and that it is
//! whole.
//!
//! ```text
//! 0   "HSVIEW"      6 bytes
//! 6   format        2 decimal digits
//! 8   CRC32C        of all that follows, little-endian
//! 12  nonce         16 random bytes, of the one swap that proposed it
//! 28  value
//! ```

use std::io::Read;

use crate::error::{Error, Result};
use crate::limits::FORMAT;

const MAGIC: &[u8; 6] = b"HSVIEW";
const HEADER_BYTES: usize = 28;

/// Tells one proposal from all others.
pub type Nonce = [u8; 16];

/// A nonce that nobody has had.
pub fn fresh_nonce() -> Result<Nonce> {
    let mut nonce = Nonce::default();
    let failed = |error| Error::system("read /dev/urandom", error);
    std::fs::File::open("/dev/urandom").map_err(failed)?.read_exact(&mut nonce).map_err(failed)?;
    Ok(nonce)
}

/// Digits of a nonce, for names of files.
pub fn hexadecimal(nonce: &Nonce) -> String {
    nonce.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is stored for a value.
pub fn seal(nonce: &Nonce, value: &[u8]) -> Vec<u8> {
    let checksum = crc32c::crc32c_append(crc32c::crc32c(nonce), value);
    let mut sealed = Vec::with_capacity(HEADER_BYTES + value.len());
    sealed.extend_from_slice(MAGIC);
    sealed.extend_from_slice(format!("{FORMAT:02}").as_bytes());
    sealed.extend_from_slice(&checksum.to_le_bytes());
    sealed.extend_from_slice(nonce);
    sealed.extend_from_slice(value);
    sealed
}

/// The proposal and the value that were stored; `place` is for errors.
///
/// # Errors
/// It is damaged, or of a newer format.
pub fn open<'a>(place: &dyn Fn() -> String, sealed: &'a [u8]) -> Result<(Nonce, &'a [u8])> {
    let damaged = |problem: &str| Error::Damaged { place: place(), problem: problem.into() };
    let (magic, rest) = sealed.split_at_checked(MAGIC.len()).ok_or_else(|| damaged("the view is cut off"))?;
    if magic != MAGIC {
        return Err(damaged("this is no view of Headstart's"));
    }
    let (digits, rest) = rest.split_at_checked(2).ok_or_else(|| damaged("the view is cut off"))?;
    let format = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok());
    match format {
        Some(FORMAT) => {}
        Some(format) if format > FORMAT => return Err(Error::Newer { place: place(), format }),
        _ => return Err(damaged("the view has no format that there is")),
    }
    let (checksum, covered) = rest.split_first_chunk::<4>().ok_or_else(|| damaged("the view is cut off"))?;
    let (nonce, value) = covered.split_first_chunk::<16>().ok_or_else(|| damaged("the view is cut off"))?;
    if crc32c::crc32c(covered) != u32::from_le_bytes(*checksum) {
        return Err(damaged("the view's checksum is wrong"));
    }
    Ok((*nonce, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> String {
        "here".into()
    }

    #[test]
    fn what_was_sealed_is_opened_and_no_part_or_change_of_it_is() {
        let sealed = seal(&[7; 16], b"value");
        assert_eq!(open(&here, &sealed).unwrap(), ([7; 16], &b"value"[..]));
        for length in 0..sealed.len() {
            let error = open(&here, &sealed[..length]).unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "{length}: {error}");
        }
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 0x10;
            assert!(open(&here, &changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_newer_format_is_refused_by_its_number() {
        let mut sealed = seal(&[7; 16], b"value");
        sealed[6..8].copy_from_slice(b"12");
        let error = open(&here, &sealed).unwrap_err();
        assert!(matches!(error, Error::Newer { format: 12, .. }), "{error}");
        assert!(error.to_string().contains("here") && error.to_string().contains("same version"), "{error}");
    }
}
