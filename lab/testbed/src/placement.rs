//! Where files lie on the emulated devices.
//!
//! Every file owns one region per server: the same range of addresses on each server of its directory.
//! Regions are powers of two of at least 1 MiB, handed out from the outer edge inwards, so that distinct
//! files lie apart and a file's local part is contiguous. A file that outgrows its region moves to one at
//! least twice as large; the move itself takes no time, because timed files are sized beforehand. Freed
//! regions are reused, smallest address first. When the device is full the allocation wraps around and
//! regions overlap: that changes times, never bytes.
//!
//! The first server of a file follows from the number of files placed before it, so that a fresh testbed
//! repeats itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use headstart_units::MIB;

/// Smallest region on one server.
const REGION_BYTES_MIN: u64 = MIB;

/// Where one file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Index of the server that holds the file's first stripe.
    pub first_server: u32,
    /// Address of the file's local part on every server.
    pub base: u64,
    /// Bytes reserved on every server.
    pub bytes: u64,
}

/// Hands out regions on a set of equal servers.
#[derive(Debug)]
pub struct Allocator {
    servers: u64,
    stripe_bytes: u64,
    capacity: u64,
    next: u64,
    placed: u64,
    free: BTreeMap<u64, BTreeSet<u64>>,
    files: HashMap<u64, Region>,
}

impl Allocator {
    /// An empty set of `servers` devices of `capacity` bytes.
    pub fn for_servers(servers: u32, stripe_bytes: u64, capacity: u64) -> Allocator {
        assert!(servers > 0 && capacity >= REGION_BYTES_MIN, "a directory has servers, and they have space");
        let servers = u64::from(servers);
        let (next, placed) = (0, 0);
        Allocator { servers, stripe_bytes, capacity, next, placed, free: BTreeMap::new(), files: HashMap::new() }
    }

    /// The region of `file`, made or enlarged to hold `file_bytes`.
    pub fn region(&mut self, file: u64, file_bytes: u64) -> Region {
        let wanted = self.local_bytes(file_bytes).max(REGION_BYTES_MIN).next_power_of_two();
        match self.files.get(&file).copied() {
            Some(region) if region.bytes >= wanted.min(self.capacity) => region,
            Some(old) => {
                self.free.entry(old.bytes).or_default().insert(old.base);
                let region = self.take(wanted, old.first_server);
                self.files.insert(file, region);
                region
            }
            None => {
                let first_server = (mix(self.placed) % self.servers) as u32;
                self.placed += 1;
                let region = self.take(wanted, first_server);
                self.files.insert(file, region);
                region
            }
        }
    }

    /// Forgets a deleted file.
    pub fn remove(&mut self, file: u64) {
        if let Some(region) = self.files.remove(&file) {
            self.free.entry(region.bytes).or_default().insert(region.base);
        }
    }

    /// The most any server holds of a file of `file_bytes`.
    fn local_bytes(&self, file_bytes: u64) -> u64 {
        file_bytes.div_ceil(self.stripe_bytes).div_ceil(self.servers) * self.stripe_bytes
    }

    fn take(&mut self, bytes: u64, first_server: u32) -> Region {
        let bytes = bytes.min(self.capacity);
        if let Some(bases) = self.free.get_mut(&bytes)
            && let Some(base) = bases.pop_first()
        {
            return Region { first_server, base, bytes };
        }
        if self.next + bytes > self.capacity {
            self.next = 0;
        }
        let base = self.next;
        self.next += bytes;
        Region { first_server, base, bytes }
    }
}

/// Spreads consecutive numbers (the finaliser of SplitMix64).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRIPE: u64 = 64 << 10;

    #[test]
    fn distinct_files_do_not_overlap_until_the_device_is_full() {
        let mut allocator = Allocator::for_servers(8, STRIPE, 1 << 30);
        let mut regions: Vec<Region> = (0..20).map(|file| allocator.region(file, (file + 1) * 10 * MIB)).collect();
        regions.sort_by_key(|region| region.base);
        assert!(regions.windows(2).all(|pair| pair[0].base + pair[0].bytes <= pair[1].base));
    }

    #[test]
    fn a_file_keeps_its_place_until_it_outgrows_it() {
        let mut allocator = Allocator::for_servers(4, STRIPE, 1 << 30);
        let small = allocator.region(1, MIB);
        assert_eq!(allocator.region(1, 4 * MIB), small);
        let large = allocator.region(1, 4 * MIB + 1);
        assert_eq!((large.bytes, large.first_server), (2 * MIB, small.first_server));
        assert_eq!(allocator.region(2, 1).base, small.base, "the freed region is reused");
    }

    #[test]
    fn a_full_device_wraps_and_a_file_larger_than_it_starts_at_zero() {
        let mut allocator = Allocator::for_servers(1, STRIPE, 10 * MIB);
        assert_eq!(allocator.region(1, 8 * MIB).base, 0);
        assert_eq!(allocator.region(2, 4 * MIB).base, 0);
        assert_eq!(allocator.region(3, 1 << 40), Region { first_server: 0, base: 0, bytes: 10 * MIB });
        assert_eq!(allocator.region(3, 1 << 40).bytes, 10 * MIB, "asking again does not move it");
    }

    #[test]
    fn first_servers_are_spread() {
        let mut allocator = Allocator::for_servers(8, STRIPE, 1 << 40);
        let mut counts = [0; 8];
        (0..8000).for_each(|file| counts[allocator.region(file, 1).first_server as usize] += 1);
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }
}
