//! The bytes of a disk's guarded blocks, read and written without the flash that remembers them.

use std::io;

use headstart_block::guard;
use headstart_block::guard::Regions;
use headstart_block::layout::GUARD_BLOCKS_MAX;
use headstart_units::request::Range;

use crate::pair::OpenDevice;

/// The guarded blocks of a disk: both ends, and copies of superblocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Size of the disk.
    pub disk_bytes: u64,
    /// Where they lie.
    pub regions: Vec<Range>,
    /// Their bytes.
    pub bytes: Vec<Vec<u8>>,
}

impl Ends {
    /// Reads them.
    pub fn read(device: &OpenDevice) -> io::Result<Ends> {
        let mut ends = Ends::empty(device.bytes);
        for (region, bytes) in ends.regions.iter().zip(&mut ends.bytes) {
            device.read(region.offset, bytes)?;
        }
        Ok(ends)
    }

    /// Those of a disk of zeros.
    pub fn empty(disk_bytes: u64) -> Ends {
        let regions = Regions::new(disk_bytes, GUARD_BLOCKS_MAX);
        let regions: Vec<Range> = regions.iter().map(|region| region.range).collect();
        let bytes = regions.iter().map(|region| vec![0; region.length as usize]).collect();
        Ends { disk_bytes, regions, bytes }
    }

    /// Writes them, and waits until they are durable.
    pub fn write(&self, device: &OpenDevice) -> io::Result<()> {
        for (region, bytes) in self.regions.iter().zip(&self.bytes) {
            device.write(region.offset, bytes)?;
        }
        device.file.sync_data()
    }

    /// Bytes at a place of the disk, if they lie in one of the ends.
    pub fn at(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let range = Range::new(offset, length as u64);
        let (region, bytes) = self.regions.iter().zip(&self.bytes).find(|(region, _)| region.contains(range))?;
        let start = (offset - region.offset) as usize;
        bytes.get(start..start + length)
    }

    /// The same with the keystream of a session over them: guarded where they were plain, and the other way round.
    pub fn transformed(&self, session: u32) -> Ends {
        let mut other = self.clone();
        for (region, bytes) in self.regions.iter().zip(&mut other.bytes) {
            guard::transform(session, region.offset, bytes);
        }
        other
    }
}
