//! Checks of a run by what happened in it, apart from whoever made it happen.
//!
//! The simulator tells each request, each transfer of bytes and each copy as an [`Event`]; a checker keeps
//! its own picture of what every place holds and what every byte of every file may be ([`contents`],
//! [`register`]), and says where the two disagree.
//!
//! Held:
//! - every byte read was, when the read began and when it ended, a byte that the file may have: that of the
//!   newest write that had ended before the read began, or of one beside it;
//! - at the end every byte written lies where reads are sent, in its newest version;
//! - requests begun and ended are equal in number, and, of runs that drain, messages sent and answered, bytes
//!   sent to servers and bytes that servers say they moved, and nothing is under way.
//!
//! Not checked: when things happen (times are the models'), what a power loss would leave (core's crash tests
//! are for that), whether two reads of one byte beside a write agree with each other on the order; of runs
//! that do not drain (`drain = false`) where the newest bytes are, and messages and bytes that are still
//! under way when the last rank ends; and what lies beneath a disk server: a server's disk is one place here,
//! whatever its volume has on flash, in memory or on the disk (core's crash and model tests of volumes are
//! for that).

mod contents;
mod ranges;
mod register;

use std::collections::{BTreeMap, BTreeSet};

use headstart_units::request::Range;

use contents::{Contents, Value};
pub use contents::{Space, Spot};
use register::Register;

/// A request's number.
pub type RequestId = u64;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A rank asks for bytes of a file.
    Began {
        /// The request.
        id: RequestId,
        /// Whether it writes.
        writes: bool,
        /// The file.
        file: u32,
        /// The bytes.
        range: Range,
    },
    /// It has them, or they are written.
    Ended {
        /// The request.
        id: RequestId,
    },
    /// A transfer of a read begins, or ends: `range` of the file is taken from the spot.
    Read {
        /// The request.
        id: RequestId,
        /// Bytes of the file.
        range: Range,
        /// Where the first of them lies.
        spot: Spot,
    },
    /// A transfer of a write has ended: `range` of the file was put at the spot.
    Wrote {
        /// The request.
        id: RequestId,
        /// Bytes of the file.
        range: Range,
        /// Where the first of them lies.
        spot: Spot,
    },
    /// A copy took so many bytes from here.
    Picked {
        /// The copy.
        copy: u64,
        /// Which of its bytes come first.
        skip: u64,
        /// Where the first of them lies.
        spot: Spot,
        /// Bytes.
        length: u64,
    },
    /// and put so many of its bytes here.
    Put {
        /// The copy.
        copy: u64,
        /// Which of its bytes come first.
        skip: u64,
        /// Where the first of them lies.
        spot: Spot,
        /// Bytes.
        length: u64,
    },
    /// A copy has ended.
    Copied {
        /// The copy.
        copy: u64,
    },
}

/// What must be equal at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// What is counted.
    pub name: &'static str,
    /// By the simulator.
    pub told: u64,
    /// By somebody else.
    pub found: u64,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    begun: u64,
    writes: bool,
    file: u32,
    range: Range,
}

/// Says where reads of a part of a file are sent.
pub type Lies<'a> = &'a dyn Fn(u32, Range) -> Vec<(Range, Spot)>;

/// Messages kept; of the others there is a count.
const VIOLATIONS_MAX: usize = 20;

/// See the module.
#[derive(Debug, Default)]
pub struct Checker {
    clock: u64,
    open: BTreeMap<RequestId, Open>,
    /// When those under way began.
    begun: BTreeSet<u64>,
    registers: BTreeMap<u32, Register>,
    contents: Contents,
    /// What each copy took, by where it begins among the copy's bytes.
    copies: BTreeMap<u64, BTreeMap<u64, (u64, Value)>>,
    requests: [u64; 2],
    violations: Vec<String>,
    violation_count: u64,
}

impl Checker {
    /// Nothing has happened. Disks hold their files, flash nothing.
    pub fn new() -> Checker {
        Checker::default()
    }

    /// A space that holds a file from the begin, byte for byte.
    pub fn holds(&mut self, space: Space, file: u32) {
        self.contents.holds(space, file);
    }

    /// Takes note of an event.
    pub fn on(&mut self, event: &Event) {
        self.clock += 1;
        match *event {
            Event::Began { id, writes, file, range } => self.begin(id, writes, file, range),
            Event::Ended { id } => self.end(id),
            Event::Read { id, range, spot } => self.read(id, range, spot),
            Event::Wrote { id, range, spot } => match self.open.get(&id) {
                Some(open) if open.writes && open.range.contains(range) => {
                    let value = Value { file: open.file, offset: range.offset, version: id };
                    self.contents.put(spot, range.length, value);
                }
                _ => self.violate(format!("bytes {range:?} of request {id}, which writes no such bytes, were written")),
            },
            Event::Picked { copy, skip, spot, length } => {
                let taken = self.copies.entry(copy).or_default();
                let mut at = skip;
                for (bytes, value) in self.contents.take(spot, length) {
                    taken.insert(at, (bytes, value));
                    at += bytes;
                }
            }
            Event::Put { copy, skip, spot, length } => self.put(copy, skip, spot, length),
            Event::Copied { copy } => drop(self.copies.remove(&copy)),
        }
    }

    fn violate(&mut self, what: String) {
        self.violation_count += 1;
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(what);
        }
    }

    fn begin(&mut self, id: RequestId, writes: bool, file: u32, range: Range) {
        self.requests[0] += 1;
        self.begun.insert(self.clock);
        if writes {
            self.registers.entry(file).or_default().begin(range, id, self.clock);
        }
        if self.open.insert(id, Open { begun: self.clock, writes, file, range }).is_some() {
            self.violate(format!("request {id} began twice"));
        }
    }

    fn end(&mut self, id: RequestId) {
        self.requests[1] += 1;
        let Some(open) = self.open.remove(&id) else {
            return self.violate(format!("request {id} ended and had not begun"));
        };
        self.begun.remove(&open.begun);
        if open.writes {
            let oldest = self.begun.first().copied().unwrap_or(self.clock);
            self.registers.entry(open.file).or_default().end(open.range, id, self.clock, oldest);
        }
    }

    fn read(&mut self, id: RequestId, range: Range, spot: Spot) {
        let Some(open) = self.open.get(&id).copied().filter(|open| !open.writes && open.range.contains(range)) else {
            return self.violate(format!("bytes {range:?} were read for request {id}, which asks for no such bytes"));
        };
        let mut at = range.offset;
        for (length, value) in self.contents.take(spot, range.length) {
            let part = Range::new(at, length);
            at += length;
            if value.file != open.file || value.offset != part.offset {
                self.violate(format!(
                    "request {id} read bytes {part:?} of file {} at {spot:?} and found {value:?}",
                    open.file
                ));
                continue;
            }
            let register = self.registers.entry(open.file).or_default();
            if let Some(newer) = register.stale(part, value.version, open.begun) {
                self.violate(format!(
                    "request {id} read bytes {part:?} of file {} at {spot:?} as request {} wrote them, after {newer} had ended",
                    open.file, value.version
                ));
            }
        }
    }

    fn put(&mut self, copy: u64, skip: u64, spot: Spot, length: u64) {
        let taken = self.copies.get(&copy).cloned().unwrap_or_default();
        let (mut at, mut left, mut next) = (spot, length, skip);
        for (start, (bytes, value)) in taken {
            if start > next || left == 0 {
                break;
            }
            let over = (next - start).min(bytes);
            let bytes = (bytes - over).min(left);
            if bytes > 0 {
                self.contents.put(at, bytes, value.from(over));
                at.offset += bytes;
                next += bytes;
                left -= bytes;
            }
        }
        if left > 0 {
            self.violate(format!("copy {copy} put {left} bytes to {spot:?} that it never took"));
        }
    }

    /// The run is over. `lies` says where reads of a part of a file are sent; none if nobody can say. What was wrong.
    pub fn finish(mut self, lies: Option<Lies<'_>>, sums: &[Sum]) -> Vec<String> {
        if !self.open.is_empty() {
            self.violate(format!("requests are still under way: {:?}", self.open.keys().take(5).collect::<Vec<_>>()));
        }
        if !self.copies.is_empty() {
            self.violate(format!("copies are still under way: {:?}", self.copies.keys().take(5).collect::<Vec<_>>()));
        }
        let requests = Sum { name: "requests begun, ended", told: self.requests[0], found: self.requests[1] };
        for sum in sums.iter().chain([&requests]) {
            if sum.told != sum.found {
                self.violate(format!("{}: {} and {}", sum.name, sum.told, sum.found));
            }
        }
        if let Some(lies) = lies {
            self.check_newest(lies);
        }
        if self.violation_count > self.violations.len() as u64 {
            self.violations.push(format!("and {} more", self.violation_count - self.violations.len() as u64));
        }
        self.violations
    }

    fn check_newest(&mut self, lies: Lies<'_>) {
        let registers = std::mem::take(&mut self.registers);
        let now = self.clock + 1;
        for (file, register) in &registers {
            for written in register.written() {
                for (part, spot) in lies(*file, written) {
                    let mut at = part.offset;
                    for (length, value) in self.contents.take(spot, part.length) {
                        let piece = Range::new(at, length);
                        at += length;
                        let is_its_own = value.file == *file && value.offset == piece.offset;
                        if !is_its_own || register.stale(piece, value.version, now).is_some() {
                            self.violate(format!("at the end {piece:?} of file {file} at {spot:?} is {value:?}"));
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
