//! What kind of program a file is, as far as preloading goes: told by its first bytes.
//!
//! It looks for a dynamic linker's name, without which nothing is preloaded, and does not judge whether the
//! program would run.

use std::ffi::CStr;

use crate::preloading::{file_name, is_sanitizer};

/// How much of a file is looked at; program headers lie right behind the ELF header, and the linker's name
/// behind those.
pub const HEAD_BYTES: usize = 4096;

/// Size of a 64-bit ELF header.
const ELF_HEADER_BYTES: usize = 64;
/// A program header of what is loaded to memory.
const PT_LOAD: u32 = 1;
/// A program header that tells where the dynamic section lies.
const PT_DYNAMIC: u32 = 2;
/// A program header that names the dynamic linker.
const PT_INTERP: u32 = 3;
/// The machine that the library is built for, as an ELF header names it.
const MACHINE: u64 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
/// Entries of the dynamic section: a library, and where the names begin.
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
/// What is read of it at once, entries of 16 bytes, and how often: most programs have less.
const CHUNK_BYTES: usize = 512;
const CHUNKS_MAX: u64 = 8;
/// How glibc's dynamic linker is named, on the machines it runs on.
const LINKERS: [&[u8]; 5] = [b"ld-linux", b"ld64.so", b"ld.so", b"ld-2.", b"ld-x86-64.so"];

/// A program's kind.
#[derive(Debug, PartialEq, Eq)]
pub enum Image<'a> {
    /// It names glibc's dynamic linker.
    Dynamic,
    /// It names none.
    Static,
    /// It is for another machine, or for one of 32 bits.
    OtherMachine,
    /// It names the dynamic linker of another libc.
    OtherLinker(&'a CStr),
    /// It names another program.
    Script(&'a CStr),
    /// Something else.
    Unknown,
}

/// Why the library will not be in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// [`Image::Static`].
    Static,
    /// It is setuid or setgid.
    Privileged,
    /// It has capabilities of its own.
    Capable,
    /// [`Image::OtherMachine`].
    OtherMachine,
    /// [`Image::OtherLinker`].
    OtherLinker,
    /// The library's file is not there any more.
    NoLibrary,
    /// It was started, and the library did not come up.
    NotLoaded,
}

impl Stranger {
    /// What it does or is, so that the library is not in it.
    pub fn reason(self) -> &'static str {
        match self {
            Stranger::Static => "is statically linked, so that the library cannot be in it",
            Stranger::Privileged => {
                "runs with the rights of another user, so that the system keeps the library out of it"
            }
            Stranger::Capable => "has capabilities of its own (setcap), so that the system keeps the library out of it",
            Stranger::OtherMachine => "is built for another machine (32 bits?), so that the library cannot be in it",
            Stranger::OtherLinker => "is linked with another libc than glibc, so that the library cannot be in it",
            Stranger::NoLibrary => "starts without the library, whose file is gone",
            Stranger::NotLoaded => "runs without the library, which the dynamic linker did not load",
        }
    }

    /// What to do.
    pub fn advice(self) -> &'static str {
        match self {
            Stranger::Static | Stranger::OtherMachine | Stranger::OtherLinker => {
                "Use a dynamically linked build for this machine's glibc, or run it after `headstart run` has ended"
            }
            Stranger::Privileged => {
                "Use a copy without the setuid or setgid bit, or run it after `headstart run` has ended"
            }
            Stranger::Capable => "Use a copy without them (setcap -r), or run it after `headstart run` has ended",
            Stranger::NoLibrary => "Put the file back where it was",
            Stranger::NotLoaded => "What the dynamic linker says above (LD_DEBUG=libs says more) is why",
        }
    }
}

impl<'a> Image<'a> {
    /// Of a program's first bytes.
    pub fn of(head: &'a mut [u8]) -> Image<'a> {
        if head.starts_with(b"#!") {
            return script(head).map_or(Image::Unknown, Image::Script);
        }
        if !head.starts_with(b"\x7fELF") || head.len() < ELF_HEADER_BYTES {
            return Image::Unknown;
        }
        let is_native = head[4..6] == [2, 1] && number(head, 18, 2) == Some(MACHINE);
        if !is_native {
            return Image::OtherMachine;
        }
        elf(head).unwrap_or(Image::Unknown)
    }

    /// Why the library cannot be in it; a script is as its interpreter.
    pub fn stranger(&self) -> Option<Stranger> {
        match self {
            Image::Static => Some(Stranger::Static),
            Image::OtherMachine => Some(Stranger::OtherMachine),
            Image::OtherLinker(_) => Some(Stranger::OtherLinker),
            Image::Dynamic | Image::Script(_) | Image::Unknown => None,
        }
    }
}

/// Whether a program of this name is a dynamic linker of glibc's, which names none itself and obeys LD_PRELOAD.
pub fn is_linker(path: &[u8]) -> bool {
    LINKERS.iter().any(|linker| file_name(path).starts_with(linker))
}

/// The sanitizer's runtime that a program is linked with, put into `name`. `read` reads at an offset of the
/// file, as far as there is something.
pub fn sanitizer<'n>(
    head: &[u8],
    name: &'n mut [u8; 64],
    mut read: impl FnMut(u64, &mut [u8]) -> usize,
) -> Option<&'n [u8]> {
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let section = headers(head)?.find(|header| header.kind == PT_DYNAMIC)?;
    // Names of libraries come first, and where they lie behind them.
    let mut names = [0; 16];
    let mut count = 0;
    let mut chunk = [0; CHUNK_BYTES];
    let chunks = (section.length.div_ceil(CHUNK_BYTES as u64)).min(CHUNKS_MAX);
    let table = (0..chunks).find_map(|k| {
        let at = section.offset.checked_add(k * CHUNK_BYTES as u64)?;
        let length = read(at, &mut chunk).min(CHUNK_BYTES);
        chunk[..length].chunks_exact(16).find_map(|entry| match (number(entry, 0, 8)?, number(entry, 8, 8)?) {
            (DT_NEEDED, at) if count < names.len() => {
                names[count] = at;
                count += 1;
                None
            }
            (DT_STRTAB, at) => Some(at),
            _ => None,
        })
    })?;
    let load = headers(head)?.find(|header| {
        header.kind == PT_LOAD && (header.address..header.address.saturating_add(header.length)).contains(&table)
    })?;
    let table = (table - load.address).checked_add(load.offset)?;
    let found = names[..count].iter().find_map(|at| {
        let length = read(table.checked_add(*at)?, name);
        let end = name[..length].iter().position(|&byte| byte == 0)?;
        is_sanitizer(&name[..end]).then_some(end)
    })?;
    Some(&name[..found])
}

/// A program header.
struct Header {
    kind: u32,
    offset: u64,
    address: u64,
    length: u64,
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte)))
}

/// Those that lie in the head, whole.
fn headers(head: &[u8]) -> Option<impl Iterator<Item = Header> + '_> {
    let first = usize::try_from(number(head, 32, 8)?).ok()?;
    let (size, count) = (number(head, 54, 2)? as usize, number(head, 56, 2)? as usize);
    let header = move |k: usize| {
        let at = first.checked_add(k.checked_mul(size)?)?;
        let field = |behind: usize| number(head, at.checked_add(behind)?, 8);
        Some(Header { kind: number(head, at, 4)? as u32, offset: field(8)?, address: field(16)?, length: field(32)? })
    };
    Some((0..count).map_while(header))
}

fn script(head: &mut [u8]) -> Option<&CStr> {
    let start = 2 + head[2..].iter().position(|byte| !b" \t".contains(byte))?;
    let end = start + head[start..].iter().position(|byte| b" \t\n\0".contains(byte))?;
    head[end] = 0;
    CStr::from_bytes_with_nul(&head[start..=end]).ok().filter(|path| !path.is_empty())
}

fn elf(head: &[u8]) -> Option<Image<'_>> {
    let count = number(head, 56, 2)? as usize;
    if headers(head)?.count() < count {
        return None;
    }
    let Some(interpreter) = headers(head)?.find(|header| header.kind == PT_INTERP) else { return Some(Image::Static) };
    // One that lies elsewhere is taken for what nearly all are.
    let at = usize::try_from(interpreter.offset).ok().filter(|at| *at >= ELF_HEADER_BYTES);
    let name = at.and_then(|at| head.get(at..));
    let name = name.and_then(|bytes| CStr::from_bytes_until_nul(bytes).ok()).filter(|name| !name.is_empty());
    Some(match name {
        Some(name) if !is_linker(name.to_bytes()) => Image::OtherLinker(name),
        _ => Image::Dynamic,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kinds: &[u32]) -> Vec<u8> {
        let mut head = vec![0; 64 + 56 * kinds.len()];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        head[18] = MACHINE as u8;
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

    /// The same with a linker's name behind the headers.
    fn linked(linker: &[u8]) -> Vec<u8> {
        let mut head = header(&[PT_INTERP]);
        let at = head.len();
        head[64 + 8..][..2].copy_from_slice(&(at as u16).to_le_bytes());
        head.extend_from_slice(linker);
        head.push(0);
        head
    }

    #[test]
    fn a_program_of_another_libc_machine_or_width_is_a_stranger() {
        for (linker, stranger) in [
            (&b"/lib64/ld-linux-x86-64.so.2"[..], None),
            (b"/nix/store/x-glibc-2.38/lib/ld-linux-aarch64.so.1", None),
            (b"/lib/ld-musl-x86_64.so.1", Some(Stranger::OtherLinker)),
            (b"/system/bin/linker64", Some(Stranger::OtherLinker)),
        ] {
            assert_eq!(Image::of(&mut linked(linker)).stranger(), stranger, "{}", linker.escape_ascii());
        }
        let mut narrow = header(&[PT_INTERP]);
        narrow[4] = 1;
        let mut foreign = header(&[PT_INTERP]);
        foreign[18] = 243;
        for mut head in [narrow, foreign] {
            assert_eq!(Image::of(&mut head), Image::OtherMachine);
        }
    }

    #[test]
    fn a_sanitizer_is_found_among_the_libraries_a_program_needs() {
        let mut file = header(&[PT_LOAD, PT_DYNAMIC]);
        let (names, section) = (file.len() as u64, file.len() as u64 + 64);
        let put = |file: &mut Vec<u8>, at: usize, value: u64| file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        // Loaded from the file's beginning to 0x1000.
        put(&mut file, 64 + 16, 0x1000);
        put(&mut file, 64 + 32, 4096);
        put(&mut file, 120 + 8, section);
        put(&mut file, 120 + 32, 16 * 4);
        let mut text = b"libm.so.6\0libasan.so.8\0".to_vec();
        text.resize(64, 0);
        file.extend_from_slice(&text);
        for (kind, value) in [(DT_NEEDED, 0), (DT_NEEDED, 10), (DT_STRTAB, 0x1000 + names), (0, 0)] {
            file.extend_from_slice(&kind.to_le_bytes());
            file.extend_from_slice(&u64::to_le_bytes(value));
        }
        let found = |file: &[u8]| {
            let mut name = [0; 64];
            let read = |at: u64, to: &mut [u8]| {
                let rest = file.get(at as usize..).unwrap_or_default();
                let length = rest.len().min(to.len());
                to[..length].copy_from_slice(&rest[..length]);
                length
            };
            sanitizer(file, &mut name, read).map(<[u8]>::to_vec)
        };
        assert_eq!(found(&file), Some(b"libasan.so.8".to_vec()));
        let at = names as usize + 10;
        file[at] = b'x';
        assert_eq!(found(&file), None);
        (0..file.len()).for_each(|length| assert_eq!(found(&file[..length]), None));
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
        let whole = linked(b"/lib64/ld-linux-x86-64.so.2");
        for length in 0..whole.len() {
            let mut cut = whole[..length].to_vec();
            assert!(matches!(Image::of(&mut cut), Image::Unknown | Image::Dynamic), "{length}");
        }
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut head = whole.clone();
            for _ in 0..3 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = (state >> 33) as usize % head.len();
                head[at] = (state >> 20) as u8;
            }
            let _ = sanitizer(&head, &mut [0; 64], |_, _| 16);
            let _ = Image::of(&mut head);
        }
    }
}
