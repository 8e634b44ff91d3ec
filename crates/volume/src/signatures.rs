//! Partition tables, file systems and the like, by what they write to the first or the last MiB of a disk.
//!
//! A signature counts only together with fields that make sense beside it: the guard's 65,536 keystreams are
//! tried on the same bytes, and a magic number of 16 bits (ext4, MBR) would be found under one of them by
//! chance. Each test here is passed by fewer than one of 2^40 blocks of random bytes.

use crate::guarded_blocks::Ends;

/// What is on a disk, by name; each once.
pub fn recognised(ends: &Ends) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    let fixed = MAGICS.iter().filter(|(_, offset, magic)| ends.at(*offset, magic.len()) == Some(*magic));
    found.extend(fixed.map(|(name, ..)| *name));
    for (name, is_there) in CHECKS {
        if is_there(ends).unwrap_or(false) {
            found.push(name);
        }
    }
    let mut seen = Vec::new();
    found.retain(|name| !seen.contains(name) && (seen.push(*name), true).1);
    found
}

/// Magic numbers long enough to stand alone: name, byte of the disk, bytes.
const MAGICS: &[(&str, u64, &[u8])] = &[
    ("a GPT partition table", 512, b"EFI PART\0\0\x01\0"),
    ("a GPT partition table", 4096, b"EFI PART\0\0\x01\0"),
    ("btrfs", 65536 + 64, b"_BHRfS_M"),
    ("an LVM physical volume", 24, b"LVM2 001"),
    ("an LVM physical volume", 512 + 24, b"LVM2 001"),
    ("an LVM physical volume", 1024 + 24, b"LVM2 001"),
    ("an LVM physical volume", 1536 + 24, b"LVM2 001"),
    ("LUKS", 0, b"LUKS\xba\xbe\0\x01"),
    ("LUKS", 0, b"LUKS\xba\xbe\0\x02"),
    ("swap space", 4096 - 10, b"SWAPSPACE2"),
    ("swap space", 65536 - 10, b"SWAPSPACE2"),
    ("NTFS", 3, b"NTFS    "),
    ("exFAT", 3, b"EXFAT   "),
    ("FAT", 54, b"FAT12   "),
    ("FAT", 54, b"FAT16   "),
    ("FAT", 82, b"FAT32   "),
    ("bcache", 4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    ("Ceph BlueStore", 0, b"bluestore block device\n"),
];

/// The name of our own.
pub const HEADSTART: &str = "a Headstart volume";

type Check = fn(&Ends) -> Option<bool>;

/// Those that take more than a comparison.
const CHECKS: &[(&str, Check)] = &[
    ("a GPT partition table", gpt_backup),
    ("an MBR partition table", mbr),
    ("XFS", xfs),
    ("ext2, ext3 or ext4", ext),
    ("F2FS", f2fs),
    ("an md RAID member", md),
    ("ZFS", zfs),
    (HEADSTART, headstart),
];

fn u16_le(ends: &Ends, at: u64) -> Option<u16> {
    Some(u16::from_le_bytes(ends.at(at, 2)?.try_into().ok()?))
}

fn u32_le(ends: &Ends, at: u64) -> Option<u32> {
    Some(u32::from_le_bytes(ends.at(at, 4)?.try_into().ok()?))
}

fn u64_le(ends: &Ends, at: u64) -> Option<u64> {
    Some(u64::from_le_bytes(ends.at(at, 8)?.try_into().ok()?))
}

fn gpt_backup(ends: &Ends) -> Option<bool> {
    let at = |sector: u64| ends.at(ends.disk_bytes.checked_sub(sector)?, 12);
    Some([512, 4096].into_iter().any(|sector| at(sector) == Some(b"EFI PART\0\0\x01\0")))
}

/// The boot signature, and four entries of which one is used and each is sound.
fn mbr(ends: &Ends) -> Option<bool> {
    if ends.at(510, 2)? != b"\x55\xaa" {
        return Some(false);
    }
    let sectors = ends.disk_bytes / 512;
    let (mut used, mut protects) = (false, false);
    for entry in 0..4 {
        let at = 446 + 16 * entry;
        let (status, kind) = (ends.at(at, 1)?[0], ends.at(at + 4, 1)?[0]);
        let (start, length) = (u64::from(u32_le(ends, at + 8)?), u64::from(u32_le(ends, at + 12)?));
        let empty = kind == 0 && start == 0 && length == 0;
        // The entry that protects a GPT may be longer than the disk.
        let sound = kind != 0 && start > 0 && length > 0 && (start + length <= sectors || kind == 0xee);
        if status & 0x7f != 0 || !(empty || sound) {
            return Some(false);
        }
        used |= sound;
        // Only there to protect a GPT, which is found by itself.
        protects |= sound && kind == 0xee;
    }
    Some(used && !protects)
}

fn xfs(ends: &Ends) -> Option<bool> {
    let block = u32::from_be_bytes(ends.at(4, 4)?.try_into().ok()?);
    let sector = u16::from_be_bytes(ends.at(102, 2)?.try_into().ok()?);
    let sound = block.is_power_of_two() && (512..=65536).contains(&block) && sector.is_power_of_two() && sector >= 512;
    Some(ends.at(0, 4)? == b"XFSB" && sound)
}

fn ext(ends: &Ends) -> Option<bool> {
    let at = 1024;
    let block_bits = u32_le(ends, at + 24)?;
    Some(
        u16_le(ends, at + 56)? == 0xef53
            && u16_le(ends, at + 58)? < 8
            && (1..=3).contains(&u16_le(ends, at + 60)?)
            && u32_le(ends, at + 72)? < 5
            && u32_le(ends, at + 76)? < 2
            && u32_le(ends, at + 20)? < 2
            && block_bits <= 6
            && (1..=8 << (10 + block_bits)).contains(&u64::from(u32_le(ends, at + 32)?)),
    )
}

fn f2fs(ends: &Ends) -> Option<bool> {
    let sound = u16_le(ends, 1028)? == 1 && (9..=12).contains(&u32_le(ends, 1032)?);
    Some(u32_le(ends, 1024)? == 0xf2f5_2010 && sound)
}

/// Superblocks say where they lie (formats 1.0 to 1.2), but for the old ones near the end.
fn md(ends: &Ends) -> Option<bool> {
    const MAGIC: u32 = 0xa92b_4efc;
    let sectors = ends.disk_bytes / 512;
    for sector in [0, 8, sectors.saturating_sub(16) & !7] {
        let at = sector * 512;
        let here = u32_le(ends, at) == Some(MAGIC) && u32_le(ends, at + 4) == Some(1);
        if here && u64_le(ends, at + 144) == Some(sector) {
            return Some(true);
        }
    }
    let old = (ends.disk_bytes & !0xffff).checked_sub(65536)?;
    Some(u32_le(ends, old)? == MAGIC && u32_le(ends, old + 4)? == 0 && u32_le(ends, old + 8)? == 90)
}

/// An uberblock of the first label.
fn zfs(ends: &Ends) -> Option<bool> {
    Some((0..128).any(|index| u64_le(ends, (128 << 10) + (index << 10)) == Some(0x00ba_b10c)))
}

fn headstart(ends: &Ends) -> Option<bool> {
    let digits = |at: u64| ends.at(at, 8).is_some_and(|magic| &magic[..6] == b"HSVSUP" && magic[6].is_ascii_digit());
    Some(digits(0) || digits(4096))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_are_nothing_under_any_session() {
        // Pseudo-random bytes of a fixed seed: the keystream of a session that there is none of.
        let ends = Ends::empty(64 << 20).transformed(1 << 20);
        assert_eq!(recognised(&ends), Vec::<&str>::new());
        assert_eq!(ends.sessions_tried(), Vec::<u32>::new());
    }
}
