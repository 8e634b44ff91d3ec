//! The dirty guard: both ends of the disk, and the copies that file systems keep of what lies there, are
//! XORed with a keystream while the volume serves, so that nobody takes the disk for a whole one. Which
//! blocks these are says [`Regions`].
//!
//! ```text
//! off --copy and CRCs, applying durable--> write XORed, disk FLUSH --> on      (before the first DATA or ZERO)
//! on --copy and CRCs, removing durable--> write plain, disk FLUSH --> off      (after the last CLEAN)
//! ```
//!
//! XOR cannot be repeated, so a start that finds *applying* or *removing* writes the ends plain from the
//! copy. The guard goes on before a volume that absorbs serves its first request and off when it has stopped:
//! no request is ever held for it. What is dirty is guarded throughout; a server that dies while nothing is
//! dirty leaves a guard that the next one knows.
//!
//! The plain text of guarded blocks changes on the disk while the guard is on. Writes there are always
//! absorbed, so a durable record names the block before the disk is written; those that the log has named are
//! marked *changed* in the superblock, and their checksums are not compared. A block that was written back
//! whole is known again: a checkpoint that does not name it has its checksum. So what the guard is asked,
//! whether these are the disk and the flash that parted, has an answer after a mkfs through the volume too.

mod regions;

use super::devices::{Device, Devices, Failed};
use super::superblock::{Guard, GuardState, Superblock};
use headstart_units::BLOCK_BYTES;
use headstart_units::request::Range;
pub use regions::{Region, Regions};

/// Sessions have numbers below this.
pub const SESSIONS: u32 = 1 << 16;

/// XORs bytes that lie at `offset` of the disk with the keystream of a session. `offset` and length are multiples of 8.
///
/// The keystream's 64-bit word at byte `o` of the disk is splitmix64 of `session * 2^40 + o / 8`; its bytes
/// are little-endian.
pub fn transform(session: u32, offset: u64, bytes: &mut [u8]) {
    for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
        let key = splitmix64((u64::from(session) << 40).wrapping_add(offset / 8 + index as u64));
        word.iter_mut().zip(key.to_le_bytes()).for_each(|(byte, key)| *byte ^= key);
    }
}

fn splitmix64(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The session whose keystream this word of the disk is: what zeros look like while the guard is on. Other
/// words are none's, but for one in 2^48.
pub fn session_of_zeros(offset: u64, word: u64) -> Option<u32> {
    let number = number_of(word).wrapping_sub(offset / 8);
    let session = number >> 40;
    (number & ((1 << 40) - 1) == 0 && session < u64::from(SESSIONS)).then_some(session as u32)
}

/// The number that splitmix64 makes a word of: each of its steps can be undone.
fn number_of(word: u64) -> u64 {
    let z = word ^ (word >> 31) ^ (word >> 62);
    let z = z.wrapping_mul(0x3196_42b2_d24d_8ec3);
    let z = z ^ (z >> 27) ^ (z >> 54);
    let z = z.wrapping_mul(0x96de_1b17_3f11_9089);
    let z = z ^ (z >> 30) ^ (z >> 60);
    z.wrapping_mul(0xf1de_83e1_9937_733d).wrapping_sub(1)
}

/// The guarded blocks of a volume's disk.
pub fn regions(superblock: &Superblock) -> Regions {
    Regions::new(superblock.disk_bytes, superblock.guard.crcs.len() as u64 / 2)
}

/// Numbers and ranges of the guarded blocks that a range touches.
fn blocks(regions: &Regions, range: Range) -> impl Iterator<Item = (usize, Range)> {
    regions.overlapping(range).flat_map(move |Region { range: region, first }| {
        let part = region.intersection(range);
        let from = (part.offset - region.offset) / BLOCK_BYTES;
        let to = (part.end() - region.offset).div_ceil(BLOCK_BYTES);
        let block = |index| Range::new(region.offset + index * BLOCK_BYTES, BLOCK_BYTES).intersection(*region);
        (from..to).map(move |index| ((first + index) as usize, block(index)))
    })
}

/// Marks the guarded blocks that a range touches as changed.
pub fn mark_changed(guard: &mut Guard, regions: &Regions, range: Range) {
    blocks(regions, range).for_each(|(bit, _)| guard.changed[bit / 64] |= 1 << (bit % 64));
}

/// Checksums of what guarded blocks hold on the disk, by number; none: not known.
#[derive(Clone, Debug)]
pub struct Written(Vec<Option<u32>>);

impl Written {
    /// As far as a superblock says.
    pub fn new(guard: &Guard) -> Written {
        Written(guard.crcs.iter().enumerate().map(|(bit, crc)| (!guard.is_changed(bit)).then_some(*crc)).collect())
    }

    /// A range was written, or may have been: whole blocks have these checksums, if any, and others are not known.
    pub fn write(&mut self, regions: &Regions, range: Range, crc: impl Fn(Range) -> Option<u32>) {
        for (bit, block) in blocks(regions, range) {
            let is_whole = block.length == BLOCK_BYTES && range.contains(block);
            self.0[bit] = if is_whole { crc(block) } else { None };
        }
    }

    /// Changed blocks that are known and have no name in a checkpoint are taken to be what they are, from its
    /// superblock on.
    pub fn settle(&self, guard: &mut Guard, regions: &Regions, is_named: impl Fn(Range) -> bool) {
        for (bit, block) in blocks(regions, Range::between(0, u64::MAX)) {
            let known = self.0[bit].filter(|_| guard.is_changed(bit) && !is_named(block));
            if let Some(crc) = known {
                guard.crcs[bit] = crc;
                guard.changed[bit / 64] &= !(1 << (bit % 64));
            }
        }
    }
}

/// The bytes of each region.
pub type Contents = Vec<Vec<u8>>;

/// Checksums of the plain text of all guarded blocks, in the order of [`Guard::crcs`].
fn checksums(superblock: &Superblock, plain: &Contents) -> Vec<u32> {
    let mut crcs = vec![0; superblock.guard.crcs.len()];
    for (region, bytes) in regions(superblock).iter().zip(plain) {
        for (crc, block) in crcs[region.first as usize..].iter_mut().zip(bytes.chunks(BLOCK_BYTES as usize)) {
            *crc = crc32c::crc32c(block);
        }
    }
    crcs
}

/// Where a region lies on a device: on flash in the copy.
fn place(superblock: &Superblock, region: &Region, device: Device) -> u64 {
    match device {
        Device::Disk => region.range.offset,
        Device::Flash => superblock.layout().guard_offset() + region.first * BLOCK_BYTES,
    }
}

fn read_regions(devices: &mut impl Devices, superblock: &Superblock, device: Device) -> Result<Contents, Failed> {
    let mut contents = Vec::new();
    for region in regions(superblock).iter() {
        let mut bytes = vec![0; region.range.length as usize];
        devices.read(device, place(superblock, region, device), &mut bytes)?;
        contents.push(bytes);
    }
    Ok(contents)
}

fn write_regions(
    devices: &mut impl Devices,
    superblock: &Superblock,
    device: Device,
    contents: &Contents,
) -> Result<(), Failed> {
    for (region, bytes) in regions(superblock).iter().zip(contents) {
        let mut bytes = bytes.clone();
        if device == Device::Flash {
            bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES as usize), 0);
        }
        devices.write(device, place(superblock, region, device), &bytes)?;
    }
    Ok(())
}

fn transformed(superblock: &Superblock, mut contents: Contents) -> Contents {
    for (region, bytes) in regions(superblock).iter().zip(&mut contents) {
        transform(superblock.guard.session, region.range.offset, bytes);
    }
    contents
}

/// Writes the next superblock to one place and then the other, and waits until it is durable in both.
pub fn write_superblock(devices: &mut impl Devices, superblock: &mut Superblock) -> Result<(), Failed> {
    superblock.number += 1;
    let bytes = superblock.encode();
    for offset in superblock.places() {
        devices.write(Device::Flash, offset, &bytes)?;
        devices.flush(Device::Flash)?;
    }
    Ok(())
}

fn write_state(devices: &mut impl Devices, superblock: &mut Superblock, state: GuardState) -> Result<(), Failed> {
    superblock.guard.state = state;
    write_superblock(devices, superblock)
}

/// Puts the guard on, of a new session. Nothing may be dirty.
pub fn apply(devices: &mut impl Devices, superblock: &mut Superblock) -> Result<(), Failed> {
    assert_eq!(superblock.guard.state, GuardState::Off, "a guard is put on where there is none");
    let plain = read_regions(devices, superblock, Device::Disk)?;
    write_regions(devices, superblock, Device::Flash, &plain)?;
    // The copy is durable before a superblock that rests on it is written.
    devices.flush(Device::Flash)?;
    superblock.guard.session = superblock.guard.session.wrapping_add(1) % SESSIONS;
    superblock.guard.crcs = checksums(superblock, &plain);
    superblock.guard.changed = [0; 8];
    write_state(devices, superblock, GuardState::Applying)?;
    let hidden = transformed(superblock, plain);
    write_regions(devices, superblock, Device::Disk, &hidden)?;
    devices.flush(Device::Disk)?;
    write_state(devices, superblock, GuardState::On)
}

/// Takes the guard off. Nothing may be dirty, and the last CLEAN or checkpoint that says so is durable.
pub fn remove(devices: &mut impl Devices, superblock: &mut Superblock) -> Result<(), Failed> {
    assert_eq!(superblock.guard.state, GuardState::On, "a guard is taken off where there is one");
    let hidden = read_regions(devices, superblock, Device::Disk)?;
    let plain = transformed(superblock, hidden);
    write_regions(devices, superblock, Device::Flash, &plain)?;
    devices.flush(Device::Flash)?;
    superblock.guard.crcs = checksums(superblock, &plain);
    superblock.guard.changed = [0; 8];
    write_state(devices, superblock, GuardState::Removing)?;
    write_regions(devices, superblock, Device::Disk, &plain)?;
    devices.flush(Device::Disk)?;
    write_state(devices, superblock, GuardState::Off)
}

/// The copy, unless it is damaged.
pub fn copy(devices: &mut impl Devices, superblock: &Superblock) -> Result<Option<Contents>, Failed> {
    let plain = read_regions(devices, superblock, Device::Flash)?;
    Ok((checksums(superblock, &plain) == superblock.guard.crcs).then_some(plain))
}

/// Ends what a crash interrupted: writes both ends plain, as the copy has them.
pub fn redo(devices: &mut impl Devices, superblock: &mut Superblock, plain: &Contents) -> Result<(), Failed> {
    write_regions(devices, superblock, Device::Disk, plain)?;
    devices.flush(Device::Disk)?;
    write_state(devices, superblock, GuardState::Off)
}

/// What the disk's ends hold, with the guard on; none if that is not what the superblock remembers, but for
/// changed blocks.
pub fn known(devices: &mut impl Devices, superblock: &Superblock) -> Result<Option<Written>, Failed> {
    let hidden = read_regions(devices, superblock, Device::Disk)?;
    let found = checksums(superblock, &transformed(superblock, hidden));
    let guard = &superblock.guard;
    let is_known =
        guard.crcs.iter().zip(&found).enumerate().all(|(bit, (known, found))| known == found || guard.is_changed(bit));
    Ok(is_known.then(|| Written(found.into_iter().map(Some).collect())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_under_the_guard_tell_its_session_and_other_words_do_not() {
        for (session, offset) in [(0, 0), (1, 0), (1, 8), (9, 4096), (SESSIONS - 1, (1 << 40) + 512)] {
            let mut zeros = [0; 8];
            transform(session, offset, &mut zeros);
            let word = u64::from_le_bytes(zeros);
            assert_eq!(session_of_zeros(offset, word), Some(session));
            assert_eq!(session_of_zeros(offset + 8, word), None);
            assert_eq!(session_of_zeros(offset, word ^ 1), None);
            assert_eq!(session_of_zeros(offset, 0), None);
        }
    }
}
