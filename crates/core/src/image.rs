//! What kind of program a file is, as far as preloading goes: told by its first bytes.
//!
//! It looks for a dynamic linker's name, without which nothing is preloaded, and does not judge whether the program would run.

use std::ffi::CStr;

/// How much of a file is looked at; program headers lie right behind the ELF header.
pub const HEAD_BYTES: usize = 4096;

/// Size of a 64-bit ELF header.
const ELF_HEADER_BYTES: usize = 64;
/// A program header that names the dynamic linker.
const PT_INTERP: u32 = 3;

/// A program's kind.
#[derive(Debug, PartialEq, Eq)]
pub enum Image<'a> {
    /// It names a dynamic linker, or is one.
    Dynamic,
    /// It does not.
    Static,
    /// It names another program.
    Script(&'a CStr),
    /// Something else.
    Unknown,
}

impl<'a> Image<'a> {
    /// Of a program's first bytes.
    pub fn of(head: &'a mut [u8]) -> Image<'a> {
        if head.starts_with(b"#!") {
            return script(head).map_or(Image::Unknown, Image::Script);
        }
        let native = head.starts_with(b"\x7fELF\x02\x01") && head.len() >= ELF_HEADER_BYTES;
        if !native {
            return Image::Unknown;
        }
        elf(head).unwrap_or(Image::Unknown)
    }
}

fn script(head: &mut [u8]) -> Option<&CStr> {
    let start = 2 + head[2..].iter().position(|byte| !b" \t".contains(byte))?;
    let end = start + head[start..].iter().position(|byte| b" \t\n\0".contains(byte))?;
    head[end] = 0;
    CStr::from_bytes_with_nul(&head[start..=end]).ok().filter(|path| !path.is_empty())
}

fn elf(head: &[u8]) -> Option<Image<'_>> {
    let number = |at: usize, length: usize| {
        let bytes = head.get(at..at.checked_add(length)?)?;
        Some(bytes.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte)))
    };
    let (offset, size, count) = (number(32, 8)? as usize, number(54, 2)? as usize, number(56, 2)? as usize);
    for k in 0..count {
        let at = offset.checked_add(k.checked_mul(size)?)?;
        if number(at, 4)? as u32 == PT_INTERP {
            return Some(Image::Dynamic);
        }
    }
    Some(Image::Static)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kinds: &[u32]) -> Vec<u8> {
        let mut head = vec![0; 64 + 56 * kinds.len()];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        head[32] = 64;
        head[54] = 56;
        head[56] = kinds.len() as u8;
        for (k, kind) in kinds.iter().enumerate() {
            head[64 + 56 * k..][..4].copy_from_slice(&kind.to_le_bytes());
        }
        head
    }

    #[test]
    fn a_program_is_dynamic_if_it_names_a_dynamic_linker() {
        assert_eq!(Image::of(&mut header(&[6, 3, 1, 2])), Image::Dynamic);
        assert_eq!(Image::of(&mut header(&[1, 2, 4])), Image::Static);
        assert_eq!(Image::of(&mut header(&[])), Image::Static);
    }

    #[test]
    fn a_script_names_its_interpreter() {
        assert_eq!(Image::of(&mut b"#!/bin/sh -e\necho".to_vec()), Image::Script(c"/bin/sh"));
        assert_eq!(Image::of(&mut b"#! \t/usr/bin/env python\n".to_vec()), Image::Script(c"/usr/bin/env"));
        for head in [&b"#!"[..], b"#!\n", b"#!/bin/sh"] {
            assert_eq!(Image::of(&mut head.to_vec()), Image::Unknown);
        }
    }

    #[test]
    fn no_bytes_make_it_read_past_the_end() {
        let whole = header(&[1, 3]);
        for length in 0..whole.len() {
            let mut cut = whole[..length].to_vec();
            assert!(matches!(Image::of(&mut cut), Image::Unknown | Image::Dynamic));
        }
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut head = whole.clone();
            for _ in 0..3 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = (state >> 33) as usize % head.len();
                head[at] = (state >> 20) as u8;
            }
            let _ = Image::of(&mut head);
        }
    }
}
