//! The block layer's queue in front of a drive: it merges neighbours and chooses an order.
//!
//! At most `nr_requests` commands wait in the elevator proper; parts beyond that wait outside, first come first served,
//! and take no part in ordering. A part that merges into a waiting command needs no place of its own.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;

use headstart_core::units::{KIB, Nanos};
use serde::{Deserialize, Serialize};

use crate::server::{Operation, Origin};

mod cfq;
mod deadline;
mod noop;

pub use cfq::CfqConfig;
use deadline::Deadline;
use noop::Noop;

/// Largest command after merging (max_sectors_kb of Linux 2.6: 512 KiB).
pub const COMMAND_BYTES_MAX: u64 = 512 * KIB;
/// Commands in the elevator unless told otherwise (nr_requests of Linux).
pub const NR_REQUESTS: usize = 128;

/// Which elevator a server uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElevatorKind {
    /// First come first served, with merging.
    Noop,
    /// Sorted by address in batches; old requests first.
    #[default]
    Deadline,
}

/// A name that is no elevator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an elevator; known are noop and deadline")]
pub struct UnknownElevator(String);

impl FromStr for ElevatorKind {
    type Err = UnknownElevator;

    fn from_str(name: &str) -> Result<ElevatorKind, UnknownElevator> {
        match name {
            "noop" => Ok(ElevatorKind::Noop),
            "deadline" => Ok(ElevatorKind::Deadline),
            _ => Err(UnknownElevator(name.to_string())),
        }
    }
}

impl fmt::Display for ElevatorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ElevatorKind::Noop => "noop",
            ElevatorKind::Deadline => "deadline",
        })
    }
}

/// A piece of somebody's request, at most [`COMMAND_BYTES_MAX`] long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<T> {
    /// Whose.
    pub owner: T,
    /// Read or write.
    pub operation: Operation,
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
    /// Whose request it serves.
    pub origin: Origin,
    /// True if nobody asked for it yet: it fills the server's page cache.
    pub is_read_ahead: bool,
}

/// One disk command: parts that lie side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<T> {
    /// First byte.
    pub address: u64,
    /// The byte after the last.
    pub end: u64,
    /// Read or write.
    pub operation: Operation,
    /// Owner of the part that came first.
    pub first: T,
    /// Owners of the parts merged into it.
    pub merged: Vec<T>,
    arrived: Nanos,
    sequence: u64,
}

/// Commands of one direction, by address and by age.
#[derive(Debug)]
struct BatchList<T> {
    by_address: BTreeMap<(u64, u64), Batch<T>>,
    by_age: BTreeMap<u64, u64>,
}

impl<T> Default for BatchList<T> {
    fn default() -> BatchList<T> {
        BatchList { by_address: BTreeMap::new(), by_age: BTreeMap::new() }
    }
}

impl<T: Copy> BatchList<T> {
    fn len(&self) -> usize {
        self.by_age.len()
    }

    fn insert(&mut self, batch: Batch<T>) {
        self.by_age.insert(batch.sequence, batch.address);
        self.by_address.insert((batch.address, batch.sequence), batch);
    }

    fn remove(&mut self, address: u64, sequence: u64) -> Option<Batch<T>> {
        self.by_age.remove(&sequence);
        self.by_address.remove(&(address, sequence))
    }

    /// Appends `part` to a command that ends where it starts, or puts it before one that starts where it ends.
    fn merge(&mut self, part: &Part<T>) -> bool {
        let end = part.address + part.length;
        if let Some((_, batch)) = self.by_address.range_mut(..(part.address, 0)).next_back()
            && batch.end == part.address
            && end - batch.address <= COMMAND_BYTES_MAX
        {
            batch.end = end;
            batch.merged.push(part.owner);
            return true;
        }
        let Some((&(address, sequence), batch)) = self.by_address.range((end, 0)..).next() else { return false };
        if address != end || batch.end - part.address > COMMAND_BYTES_MAX {
            return false;
        }
        let mut batch = self.remove(address, sequence).expect("the command was just seen");
        batch.address = part.address;
        batch.merged.push(part.owner);
        self.insert(batch);
        true
    }

    fn oldest(&self) -> Option<&Batch<T>> {
        let (sequence, address) = self.by_age.first_key_value()?;
        self.by_address.get(&(*address, *sequence))
    }

    fn take_oldest(&mut self) -> Option<Batch<T>> {
        let (sequence, address) = self.by_age.pop_first()?;
        self.by_address.remove(&(address, sequence))
    }

    /// Takes the first command at or after `address`.
    fn take_from(&mut self, address: u64) -> Option<Batch<T>> {
        let (&(address, sequence), _) = self.by_address.range((address, 0)..).next()?;
        self.remove(address, sequence)
    }
}

/// An order of waiting commands.
trait Order<T>: fmt::Debug + Send {
    /// Merges `part` into a waiting command if one lies beside it.
    fn merge(&mut self, part: &Part<T>) -> bool;
    /// Adds a command.
    fn insert(&mut self, batch: Batch<T>);
    /// Commands waiting.
    fn len(&self) -> usize;
    /// Takes the command that goes next at `now`.
    fn next(&mut self, now: Nanos) -> Option<Batch<T>>;
    /// Does what `insert` and `next` would do with a command that comes while none waits.
    fn pass(&mut self, batch: &Batch<T>);
}

/// The queue in front of a drive.
#[derive(Debug)]
pub struct Elevator<T> {
    order: Box<dyn Order<T>>,
    nr_requests: usize,
    outside: VecDeque<(Nanos, Part<T>)>,
    sequence: u64,
}

impl<T: Copy + fmt::Debug + Send + 'static> Elevator<T> {
    /// An empty elevator for at most `nr_requests` commands.
    pub fn new(kind: ElevatorKind, nr_requests: usize) -> Elevator<T> {
        assert!(nr_requests > 0, "an elevator without places never serves anything");
        let order: Box<dyn Order<T>> = match kind {
            ElevatorKind::Noop => Box::new(Noop::default()),
            ElevatorKind::Deadline => Box::new(Deadline::default()),
        };
        Elevator { order, nr_requests, outside: VecDeque::new(), sequence: 0 }
    }

    /// Adds a part at `now`.
    pub fn on_part(&mut self, now: Nanos, part: Part<T>) {
        assert!((1..=COMMAND_BYTES_MAX).contains(&part.length), "a part is at most one command long and never empty");
        if !self.outside.is_empty() || !self.place(now, part) {
            self.outside.push_back((now, part));
        }
    }

    fn place(&mut self, now: Nanos, part: Part<T>) -> bool {
        if self.order.merge(&part) {
            return true;
        }
        if self.order.len() >= self.nr_requests {
            return false;
        }
        let batch = self.batch(now, part);
        self.order.insert(batch);
        true
    }

    fn batch(&mut self, now: Nanos, part: Part<T>) -> Batch<T> {
        self.sequence += 1;
        Batch {
            address: part.address,
            end: part.address + part.length,
            operation: part.operation,
            first: part.owner,
            merged: Vec::new(),
            arrived: now,
            sequence: self.sequence,
        }
    }

    /// Does the same as `on_part` and then `next_command`, sooner if nothing waits.
    pub fn pass(&mut self, now: Nanos, part: Part<T>) -> Option<Batch<T>> {
        if !self.is_empty() {
            self.on_part(now, part);
            return self.next_command(now);
        }
        let batch = self.batch(now, part);
        self.order.pass(&batch);
        Some(batch)
    }

    /// Takes the next command at `now`.
    pub fn next_command(&mut self, now: Nanos) -> Option<Batch<T>> {
        let batch = self.order.next(now)?;
        while let Some(&(_, part)) = self.outside.front() {
            if !self.place(now, part) {
                break;
            }
            self.outside.pop_front();
        }
        Some(batch)
    }

    /// True if a further command finds a place.
    pub fn has_room(&self) -> bool {
        self.outside.is_empty() && self.order.len() < self.nr_requests
    }

    /// Commands in the elevator and parts outside it.
    pub fn len(&self) -> usize {
        self.order.len() + self.outside.len()
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Index of a direction: reads 0, writes 1.
fn direction(operation: Operation) -> usize {
    match operation {
        Operation::Read => 0,
        Operation::Write => 1,
        Operation::Flush => unreachable!("a flush does not pass the elevator"),
    }
}

#[cfg(test)]
mod tests;
