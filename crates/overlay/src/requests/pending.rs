//! Requests that are not answered yet.

use headstart_protocol::counters::Wait;
use headstart_protocol::message::Envelope;
use headstart_units::request::Range;

/// A request not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// It came after those of lower numbers.
    pub(crate) arrival: u64,
    pub(crate) envelope: Envelope,
    pub(crate) operation: Operation,
    /// Its thread is gone: nobody is answered.
    pub(crate) orphan: bool,
    /// When it was found that it has to wait.
    pub(crate) waits_since_ns: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Once it is applied, bytes below `kept` were on flash before, or may have been.
    Commit {
        file: u32,
        range: Range,
        data_file: u32,
        place: u64,
        step: CommitStep,
        kept: u64,
        now_ns: u64,
    },
    /// No space was free, but some is coming.
    Slab {
        file: u32,
        range: Range,
        until_ns: u64,
    },
    Write {
        file: u32,
        range: Range,
        extends: bool,
    },
    Truncate {
        file: u32,
        size: u64,
    },
    /// Once nothing is dirty from there on, a barrier has to say so too.
    Rearrange {
        file: u32,
        from: u64,
        barrier: Option<u64>,
    },
    Sync {
        file: u32,
        barrier: u64,
    },
    WriteBack {
        file: u32,
        range: Range,
    },
    Bypass {
        file: u32,
        writes: bool,
    },
    /// `longer`: nobody had it open, and it is to be made long enough for what flash holds.
    Open {
        file: u32,
        barrier: u64,
        longer: bool,
    },
}

/// How far a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitStep {
    /// Waits for whoever is in its way.
    Waiting,
    /// In the map; its record may not be appended yet.
    Applied,
    /// Appended, and its slab is marked used; the slow file may have to become longer.
    Stored,
}

impl Pending {
    pub(crate) fn new(arrival: u64, envelope: Envelope, operation: Operation) -> Pending {
        Pending { arrival, envelope, operation, orphan: false, waits_since_ns: None }
    }

    pub(crate) fn wait(&self) -> Wait {
        match self.operation {
            Operation::Commit { .. } => Wait::Requests,
            Operation::Slab { .. } => Wait::Space,
            Operation::Write { .. } | Operation::Truncate { .. } => Wait::Copies,
            Operation::WriteBack { .. } | Operation::Bypass { .. } | Operation::Rearrange { .. } => Wait::WriteBacks,
            Operation::Sync { .. } | Operation::Open { .. } => Wait::Barriers,
        }
    }

    pub(crate) fn file(&self) -> Option<u32> {
        match self.operation {
            Operation::Commit { file, .. }
            | Operation::Slab { file, .. }
            | Operation::Write { file, .. }
            | Operation::Truncate { file, .. }
            | Operation::Rearrange { file, .. }
            | Operation::WriteBack { file, .. }
            | Operation::Bypass { file, .. }
            | Operation::Open { file, .. } => Some(file),
            Operation::Sync { .. } => None,
        }
    }

    /// Whether it is a commit that is in the map, beyond `size`, for which the file is not long enough yet.
    pub(crate) fn is_mapped_beyond(&self, file: u32, size: u64) -> bool {
        matches!(self.operation, Operation::Commit { file: of, range, step: CommitStep::Applied | CommitStep::Stored, .. }
            if of == file && range.end() > size)
    }

    pub(crate) fn truncates(&self) -> bool {
        matches!(self.operation, Operation::Truncate { .. } | Operation::Rearrange { .. })
    }

    /// Whether it waits for something of which no message tells.
    pub(crate) fn waits_for_slots(&self) -> bool {
        matches!(self.operation, Operation::Commit { .. })
    }

    pub(crate) fn waits_for_space(&self) -> bool {
        matches!(self.operation, Operation::Slab { .. })
    }

    /// The range that somebody waits to write, of which no further write-back should begin.
    pub(crate) fn wants_to_write(&self) -> Option<(u32, Range)> {
        match self.operation {
            Operation::Write { file, range, .. } => Some((file, range)),
            Operation::Truncate { file, size } => Some((file, Range::new(size, u64::MAX))),
            _ => None,
        }
    }

    /// The range whose dirty bytes somebody waits for.
    pub(crate) fn wants_written_back(&self) -> Option<(u32, Range)> {
        match self.operation {
            Operation::WriteBack { file, range } => Some((file, range)),
            Operation::Rearrange { file, from, .. } => Some((file, Range::new(from, u64::MAX))),
            Operation::Bypass { file, .. } => Some((file, Range::new(0, u64::MAX))),
            _ => None,
        }
    }
}
