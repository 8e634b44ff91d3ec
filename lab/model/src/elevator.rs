//! The block layer's queue in front of a drive: it merges neighbours and chooses an order.
//!
//! At most `nr_requests` commands wait in the elevator proper; parts beyond that wait outside, first come first served,
//! and take no part in ordering. A part that merges into a waiting command needs no place of its own. With
//! CFQ a command keeps its place until the drive has finished it, as in Linux.

use std::fmt;
use std::str::FromStr;

use headstart_units::{KIB, Nanos};
use serde::{Deserialize, Serialize};

mod batch_list;
mod cfq;
mod deadline;
mod noop;
mod part;
mod pool;

use cfq::Cfq;
pub use cfq::CfqConfig;
use deadline::Deadline;
use noop::Noop;
pub use part::{Batch, Part};
use pool::Pool;

/// Largest command after merging unless told otherwise (max_sectors_kb of Linux 2.6: 512 KiB).
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
    /// A queue for every reader, turns among them, and patience with the one whose turn it is.
    Cfq,
}

/// A name that is no elevator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an elevator; known are noop, deadline and cfq")]
pub struct UnknownElevator(String);

impl FromStr for ElevatorKind {
    type Err = UnknownElevator;

    fn from_str(name: &str) -> Result<ElevatorKind, UnknownElevator> {
        match name {
            "noop" => Ok(ElevatorKind::Noop),
            "deadline" => Ok(ElevatorKind::Deadline),
            "cfq" => Ok(ElevatorKind::Cfq),
            _ => Err(UnknownElevator(name.to_string())),
        }
    }
}

impl fmt::Display for ElevatorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ElevatorKind::Noop => "noop",
            ElevatorKind::Deadline => "deadline",
            ElevatorKind::Cfq => "cfq",
        })
    }
}

/// How an elevator is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ElevatorConfig {
    /// Its order.
    pub kind: ElevatorKind,
    /// CFQ's settings.
    pub cfq: CfqConfig,
    /// Commands that take part in ordering.
    pub nr_requests: usize,
    /// Largest command after merging.
    pub command_bytes_max: u64,
}

#[derive(Debug)]
enum Form<T> {
    Pool(Pool<T>),
    Cfq(Box<Cfq<T>>),
}

/// The queue in front of a drive.
#[derive(Debug)]
pub struct Elevator<T> {
    form: Form<T>,
    bytes_max: u64,
}

impl<T: Copy + fmt::Debug + Send + 'static> Elevator<T> {
    /// An empty elevator.
    pub fn new(config: ElevatorConfig) -> Elevator<T> {
        let ElevatorConfig { kind, cfq, nr_requests, command_bytes_max: bytes_max } = config;
        assert!(nr_requests > 0 && bytes_max > 0, "an elevator without places never serves anything");
        let pool = |order| Form::Pool(Pool::new(order, nr_requests, bytes_max));
        let form = match kind {
            ElevatorKind::Noop => pool(Box::<Noop<T>>::default()),
            ElevatorKind::Deadline => pool(Box::<Deadline<T>>::default()),
            ElevatorKind::Cfq => Form::Cfq(Box::new(Cfq::new(cfq, nr_requests, bytes_max))),
        };
        Elevator { form, bytes_max }
    }

    fn check(&self, part: &Part<T>) {
        assert!((1..=self.bytes_max).contains(&part.length), "a part is at most one command long and never empty");
    }

    /// Adds a part at `now`. Call `next_command` afterwards.
    pub fn on_part(&mut self, now: Nanos, part: Part<T>) {
        self.check(&part);
        match &mut self.form {
            Form::Pool(pool) => pool.on_part(now, part),
            Form::Cfq(cfq) => cfq.on_part(now, part),
        }
    }

    /// Does the same as `on_part` and then `next_command`, sooner if nothing waits.
    pub fn pass(&mut self, now: Nanos, part: Part<T>) -> Option<Batch<T>> {
        self.check(&part);
        match &mut self.form {
            Form::Pool(pool) => pool.pass(now, part),
            Form::Cfq(cfq) => {
                cfq.on_part(now, part);
                cfq.next_command(now)
            }
        }
    }

    /// Takes the next command at `now`; `None` if nothing waits, or if the elevator waits for something better (then
    /// `next_timer` says how long). Report its end with `on_finished`.
    pub fn next_command(&mut self, now: Nanos) -> Option<Batch<T>> {
        match &mut self.form {
            Form::Pool(pool) => pool.next_command(now),
            Form::Cfq(cfq) => cfq.next_command(now),
        }
    }

    /// The drive has finished a command of [`Batch::queue`] at `now`, or it never got it. Call `next_command`
    /// afterwards.
    pub fn on_finished(&mut self, now: Nanos, queue: u32) {
        if let Form::Cfq(cfq) = &mut self.form {
            cfq.on_finished(now, queue);
        }
    }

    /// When `on_timer` should be called; `None` if the elevator does not wait for anything.
    pub fn next_timer(&self) -> Option<Nanos> {
        match &self.form {
            Form::Pool(_) => None,
            Form::Cfq(cfq) => cfq.next_timer(),
        }
    }

    /// Gives up waiting if that is due. Call `next_command` afterwards.
    pub fn on_timer(&mut self, now: Nanos) {
        if let Form::Cfq(cfq) = &mut self.form {
            cfq.on_timer(now);
        }
    }

    /// True if a further command finds a place.
    pub fn has_room(&self) -> bool {
        match &self.form {
            Form::Pool(pool) => pool.has_room(),
            Form::Cfq(cfq) => cfq.has_room(),
        }
    }

    /// Commands in the elevator and parts outside it.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Pool(pool) => pool.len(),
            Form::Cfq(cfq) => cfq.len(),
        }
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;
