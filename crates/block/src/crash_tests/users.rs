//! The users of a volume in a crash test: what they have asked for, and what they may see.

use std::collections::BTreeMap;

use super::register::{FIRST, Register, sector_bytes};
use crate::order::{Request, Tag};
use headstart_units::SECTOR_BYTES;
use headstart_units::request::Range;

/// What a user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Read,
    Write { version: u32, zero: bool, fua: bool },
    Flush,
}

/// A request that has no reply yet.
#[derive(Clone)]
pub struct Asked {
    pub range: Range,
    pub data: Vec<u8>,
    pub what: What,
    pub begun: u64,
}

impl Asked {
    /// As the engine is asked.
    pub fn request(&self) -> Request<'_> {
        let range = self.range;
        match self.what {
            What::Read => Request::Read(range),
            What::Flush => Request::Flush,
            What::Write { zero: true, fua, .. } => Request::Zero { range, fua },
            What::Write { zero: false, fua, .. } => Request::Write { offset: range.offset, data: &self.data, fua },
        }
    }
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} of {:?} at {}", self.what, self.range, self.begun)
    }
}

/// See the module.
#[derive(Clone)]
pub struct Users {
    disk_bytes: u64,
    asked: BTreeMap<Tag, Asked>,
    /// What each sector may hold.
    pub register: Register,
    /// Grows with whatever they see.
    now: u64,
    /// Where readers that go on are.
    readers: [u64; 2],
    tags: Tag,
    versions: u32,
}

impl Users {
    /// Of a disk on which every sector is as it was at first.
    pub fn new(disk_bytes: u64) -> Users {
        let register = Register::new(disk_bytes);
        Users { disk_bytes, asked: BTreeMap::new(), register, now: 1, readers: [0; 2], tags: 0, versions: FIRST }
    }

    /// Something is seen; when that is.
    pub fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// When something was last seen.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// A name for a request.
    pub fn tag(&mut self) -> Tag {
        self.tags += 1;
        self.tags
    }

    /// Where one of two readers goes on, forwards or backwards.
    pub fn read_on(&mut self, reader: usize, length: u64) -> Range {
        let length = length.min(self.disk_bytes);
        let at = self.readers[reader];
        let range = if reader == 0 {
            Range::new(if at + length > self.disk_bytes { 0 } else { at }, length)
        } else {
            Range::new(at.checked_sub(length).unwrap_or(self.disk_bytes - length), length)
        };
        self.readers[reader] = if reader == 0 { range.end() } else { range.offset };
        range
    }

    /// Somebody writes a new version of a range, or zeros; what that is, and its data.
    pub fn write(&mut self, range: Range, zero: bool, fua: bool) -> (What, Vec<u8>) {
        self.versions += 1;
        let version = self.versions;
        let first = range.offset / SECTOR_BYTES;
        let data = (first..range.end() / SECTOR_BYTES).flat_map(|sector| sector_bytes(version, sector));
        let data = if zero { Vec::new() } else { data.collect() };
        self.register.begin_write(range, version, zero, self.now);
        (What::Write { version, zero, fua }, data)
    }

    /// Somebody asks.
    pub fn ask(&mut self, range: Range, what: What, data: Vec<u8>) -> (Tag, Asked) {
        let asked = Asked { range, data, what, begun: self.now };
        self.tick();
        let tag = self.tag();
        self.asked.insert(tag, asked.clone());
        (tag, asked)
    }

    /// The data of a write.
    pub fn data(&self, tag: Tag) -> &[u8] {
        &self.asked[&tag].data
    }

    /// A request has its reply.
    pub fn end(&mut self, tag: Tag) -> Asked {
        self.tick();
        self.asked.remove(&tag).expect("a request has one reply")
    }

    /// What a read returns, compared with what it may.
    pub fn check_read(&mut self, asked: &Asked, bytes: &[u8]) -> Vec<String> {
        assert_eq!(bytes.len() as u64, asked.range.length, "a read returns what was asked for");
        let first = asked.range.offset / SECTOR_BYTES;
        let sectors = (first..).zip(bytes.chunks(SECTOR_BYTES as usize));
        sectors.filter_map(|(index, sector)| self.register.read(index, sector, asked.begun, self.now).err()).collect()
    }

    /// A write or FLUSH has succeeded.
    pub fn note_success(&mut self, asked: &Asked) {
        match asked.what {
            What::Read => {}
            What::Write { version, fua, .. } => {
                self.register.end_write(asked.range, version, self.now);
                if fua {
                    self.register.written_through(asked.range, version);
                }
            }
            What::Flush => self.register.flushed(asked.range, asked.begun),
        }
    }

    /// Requests without a reply.
    pub fn asked(&self) -> impl Iterator<Item = &Asked> {
        self.asked.values()
    }

    /// Whether there is none.
    pub fn are_done(&self) -> bool {
        self.asked.is_empty()
    }

    /// Whoever has asked is gone.
    pub fn leave(&mut self) {
        self.asked.clear();
    }
}
