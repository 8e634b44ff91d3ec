//! A device in memory: what a read sees, and what a crash would leave.

use crate::devices::{Device, Devices, Failed};
use headstart_units::chance::Random;
use headstart_units::request::Range;

const SECTOR: usize = 512;

#[derive(Clone)]
pub struct Storage {
    pub current: Vec<u8>,
    durable: Vec<u8>,
    unflushed: Vec<Unflushed>,
}

/// What may be lost.
#[derive(Clone)]
pub struct Unflushed {
    pub offset: u64,
    pub bytes: Vec<u8>,
    /// Zeros that the device makes: until they are durable a crash may leave anything there.
    pub is_zeroing: bool,
}

impl Storage {
    pub fn new(bytes: Vec<u8>) -> Storage {
        Storage { durable: bytes.clone(), current: bytes, unflushed: Vec::new() }
    }

    pub fn read(&self, offset: u64, length: u64) -> &[u8] {
        &self.current[offset as usize..(offset + length) as usize]
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.take(Unflushed { offset, bytes: bytes.to_vec(), is_zeroing: false });
    }

    /// Carries it out.
    pub fn take(&mut self, unflushed: Unflushed) {
        put(&mut self.current, unflushed.offset, &unflushed.bytes);
        self.unflushed.push(unflushed);
    }

    /// Some sectors of a write that failed.
    pub fn tear(&mut self, offset: u64, bytes: &[u8], random: &mut Random) {
        for (index, sector) in bytes.chunks(SECTOR).enumerate() {
            if random.chance(50) {
                self.write(offset + (index * SECTOR) as u64, sector);
            }
        }
    }

    /// What a flush that is given now will cover.
    pub fn mark(&self) -> usize {
        self.unflushed.len()
    }

    pub fn flush(&mut self, mark: usize) {
        for Unflushed { offset, bytes, .. } in self.unflushed.drain(..mark) {
            put(&mut self.durable, offset, &bytes);
        }
    }

    /// What was not flushed is lost, kept or torn at sectors, in any order; `in_flight` as well.
    pub fn crash(&mut self, in_flight: Vec<Unflushed>, random: &mut Random) {
        let mood = random.below(5);
        let mut writes = std::mem::take(&mut self.unflushed);
        writes.extend(in_flight);
        if mood == 4 {
            for index in (1..writes.len()).rev() {
                writes.swap(index, random.below(index as u64 + 1) as usize);
            }
        }
        for Unflushed { offset, mut bytes, is_zeroing } in writes {
            for sector in bytes.chunks_mut(SECTOR).filter(|_| is_zeroing) {
                let any = random.next() as u8;
                sector.fill(random.pick(&[0, any]));
            }
            let keep = match mood {
                0 => false,
                1 => true,
                _ => random.chance(50),
            };
            if mood < 3 && keep {
                put(&mut self.durable, offset, &bytes);
            }
            for (index, sector) in bytes.chunks(SECTOR).enumerate().filter(|_| mood >= 3) {
                if random.chance(60) {
                    put(&mut self.durable, offset + (index * SECTOR) as u64, sector);
                }
            }
        }
        self.current = self.durable.clone();
    }

    /// A bit rots.
    pub fn flip(&mut self, byte: u64, bit: u32) {
        self.current[byte as usize] ^= 1 << bit;
        self.durable[byte as usize] ^= 1 << bit;
    }
}

fn put(bytes: &mut [u8], offset: u64, written: &[u8]) {
    bytes[offset as usize..offset as usize + written.len()].copy_from_slice(written);
}

/// Both devices, for a start or a stop that may be cut short.
pub struct Pair<'a> {
    pub disk: &'a mut Storage,
    pub flash: &'a mut Storage,
    /// Operations until the power fails.
    pub operations_left: u64,
    pub writes: u64,
    /// Reads of flash that touch it fail.
    pub unreadable: Range,
}

impl<'a> Pair<'a> {
    pub fn new(disk: &'a mut Storage, flash: &'a mut Storage) -> Pair<'a> {
        Pair { disk, flash, operations_left: u64::MAX, writes: 0, unreadable: Range::default() }
    }

    fn of(&mut self, device: Device) -> &mut Storage {
        match device {
            Device::Disk => self.disk,
            Device::Flash => self.flash,
        }
    }

    fn count(&mut self, device: Device, action: &'static str, offset: u64) -> Result<(), Failed> {
        let failed = Failed { device, action, offset };
        self.operations_left = self.operations_left.checked_sub(1).ok_or(failed)?;
        Ok(())
    }
}

impl Devices for Pair<'_> {
    fn read(&mut self, device: Device, offset: u64, bytes: &mut [u8]) -> Result<(), Failed> {
        if device == Device::Flash && self.unreadable.overlaps(Range::new(offset, bytes.len() as u64)) {
            return Err(Failed { device, action: "read", offset });
        }
        bytes.copy_from_slice(self.of(device).read(offset, bytes.len() as u64));
        Ok(())
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), Failed> {
        self.writes += 1;
        // The last write before the power fails may have reached the medium.
        let counted = self.count(device, "write", offset);
        if counted.is_ok() || self.writes.is_multiple_of(2) {
            self.of(device).write(offset, bytes);
        }
        counted
    }

    fn flush(&mut self, device: Device) -> Result<(), Failed> {
        self.count(device, "flush", 0)?;
        let mark = self.of(device).mark();
        self.of(device).flush(mark);
        Ok(())
    }
}
