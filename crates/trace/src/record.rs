//! One request of a trace.

use headstart_units::Nanos;
use headstart_units::request::Range;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Bytes come from the file.
    Read,
    /// Bytes go to a place that the program chose.
    Write,
    /// Bytes go to the end of the file.
    Append,
}

impl Operation {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Append => "append",
        }
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The process's rank in its parallel program, if it has one.
    pub rank: Option<u32>,
    /// The process's number, if the trace knows it.
    pub process: Option<u32>,
    /// Index in the trace's table of files.
    pub file: u32,
    /// What it does.
    pub operation: Operation,
    /// The bytes that were moved.
    pub range: Range,
    /// When it began, from the trace's origin.
    pub start: Nanos,
    /// When it had ended, if the trace says so: fio's does not.
    pub end: Option<Nanos>,
    /// See [`Access::without_flash`](headstart_units::request::Access::without_flash): other tools' traces do
    /// not say so.
    pub without_flash: bool,
}

/// A request's bytes as a trace states them; none where no file can have them.
pub(crate) fn range_of(offset: u64, length: u64) -> Option<Range> {
    let end = offset.checked_add(length)?;
    (end <= i64::MAX as u64).then_some(Range { offset, length })
}
