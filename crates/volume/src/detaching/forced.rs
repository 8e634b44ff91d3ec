//! `detach --force`: the guard comes off without the flash.
//!
//! XOR in place cannot be repeated, so a crash in between would leave sectors of both kinds that nothing
//! tells apart. Both ends are therefore kept in a file first, and taken from it if a first try did not end:
//! then each sector of the disk is either as in the file or as it will be. Where a sector is neither, the
//! file is of another time, and nothing is written.
//!
//! The file: `HSVENDS1`, identity of the disk, its size, session, both ends as they were found, CRC32C of all that.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use headstart_units::SECTOR_BYTES;

use crate::ends::Ends;
use crate::pair::OpenDevice;

const MAGIC: &[u8; 8] = b"HSVENDS1";
const HEADER_BYTES: usize = 8 + 32 + 8 + 4;

/// Why the guard stays.
#[derive(Debug, thiserror::Error)]
pub enum ForcedError {
    /// The disk.
    #[error("{0}")]
    Disk(io::Error),
    /// The copy of the ends.
    #[error("{}: cannot {action} the copy of the disk's ends: {source}", path.display())]
    Copy {
        /// Which file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// An old copy.
    #[error(
        "{} is a copy of the ends of this disk as they were another time; the disk was written since. Remove it \
         if nothing was interrupted, and try again", .0.display()
    )]
    Stale(PathBuf),
}

/// Takes the guard of a session off, and keeps the ends in `directory` while it does.
pub fn undo_guard(disk: &OpenDevice, ends: &Ends, session: u32, directory: &Path) -> Result<(), ForcedError> {
    let path = copy_path(disk, directory);
    let error = |action| {
        let path = path.clone();
        move |source| ForcedError::Copy { path, action, source }
    };
    let mut file = File::create(&path).map_err(error("make"))?;
    file.write_all(&encode(disk, ends, session)).and_then(|()| file.sync_all()).map_err(error("write"))?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(error("write"))?;
    ends.transformed(session).write(disk).map_err(ForcedError::Disk)?;
    fs::remove_file(&path).map_err(error("remove"))
}

/// Ends what a crash interrupted in `undo_guard`; whether there was anything to end.
pub fn resume(disk: &OpenDevice, ends: &Ends, directory: &Path) -> Result<bool, ForcedError> {
    let path = copy_path(disk, directory);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(ForcedError::Copy { path, action: "read", source }),
    };
    // A copy that is not whole was never used.
    let Some((copy, session)) = decode(disk, &bytes) else { return Ok(false) };
    let plain = copy.transformed(session);
    let known = ends.bytes.iter().zip(copy.bytes.iter().zip(&plain.bytes)).all(|(found, (before, after))| {
        let sectors = |bytes| <[u8]>::chunks(bytes, SECTOR_BYTES as usize);
        sectors(found)
            .zip(sectors(before).zip(sectors(after)))
            .all(|(found, (before, after))| found == before || found == after)
    });
    if !known {
        return Err(ForcedError::Stale(path));
    }
    plain.write(disk).map_err(ForcedError::Disk)?;
    fs::remove_file(&path).map_err(|source| ForcedError::Copy { path, action: "remove", source })?;
    Ok(true)
}

/// Where the ends of a disk are kept.
pub(super) fn copy_path(disk: &OpenDevice, directory: &Path) -> PathBuf {
    let name: String = disk.identity_text().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    directory.join(format!("headstart-ends-{name}"))
}

pub(super) fn encode(disk: &OpenDevice, ends: &Ends, session: u32) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&disk.identity);
    bytes.extend_from_slice(&disk.bytes.to_le_bytes());
    bytes.extend_from_slice(&session.to_le_bytes());
    ends.bytes.iter().for_each(|end| bytes.extend_from_slice(end));
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

fn decode(disk: &OpenDevice, bytes: &[u8]) -> Option<(Ends, u32)> {
    let (bytes, crc) = bytes.split_last_chunk::<4>()?;
    let mut ends = Ends::empty(disk.bytes);
    let length: usize = ends.bytes.iter().map(Vec::len).sum();
    let sound = u32::from_le_bytes(*crc) == crc32c::crc32c(bytes)
        && bytes.len() == HEADER_BYTES + length
        && bytes.starts_with(MAGIC)
        && bytes[8..40] == disk.identity
        && bytes[40..48] == disk.bytes.to_le_bytes();
    if !sound {
        return None;
    }
    let session = u32::from_le_bytes(bytes[48..52].try_into().expect("four bytes"));
    let mut rest = &bytes[HEADER_BYTES..];
    for end in &mut ends.bytes {
        let (own, behind) = rest.split_at(end.len());
        end.copy_from_slice(own);
        rest = behind;
    }
    Some((ends, session))
}
