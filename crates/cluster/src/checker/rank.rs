//! A node's thread: one request at a time, each step of it that others can come between.

use headstart_units::request::Range;

use super::register::Values;
use super::row::Kind;
use crate::message::{Ask, Writing};
use crate::names::{FileId, MemberId, RequestId};

/// A request of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Op {
    pub(super) kind: Kind,
    pub(super) file: u8,
    pub(super) block: u8,
    /// What it writes.
    pub(super) value: u8,
    /// What was known when it began, or what it syncs.
    pub(super) known: Values,
}

impl Op {
    pub(super) fn file(&self) -> FileId {
        FileId(u64::from(self.file))
    }

    pub(super) fn range(&self) -> Range {
        Range::new(u64::from(self.block), 1)
    }
}

/// Where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rank {
    Idle,
    /// About to look at deadline and bit.
    Look(Op),
    /// The bit was clear: the kernel call is under way, then it has returned.
    Cheap {
        op: Op,
        landed: bool,
    },
    /// A read of the slow file; whether the generation has changed since, whose death would make it wrong.
    Disk {
        op: Op,
        disturbed: bool,
        of: Option<MemberId>,
    },
    /// The agent was asked.
    Asks {
        op: Op,
        id: RequestId,
        ask: Ask,
    },
    /// Told to write, by the owner or by the own agent as the file is its own: the kernel call is under way, then it
    /// has returned.
    Direct {
        op: Op,
        landed: bool,
        by_owner: bool,
    },
    /// Told where to read on flash.
    Flash {
        op: Op,
        of: MemberId,
        place: u8,
        durable: bool,
        /// The generation has changed since.
        disturbed: bool,
    },
    /// Has read what would be lost with its node.
    Pings {
        op: Op,
        id: RequestId,
        of: MemberId,
        value: u8,
    },
    /// A barrier is under way.
    Syncs(Op),
    /// Done but for a look at the deadline; a read has a value. What the agent was asked, if it has just answered: it
    /// may die before that is heard.
    Ends {
        op: Op,
        value: u8,
        asked: Option<(RequestId, Ask)>,
    },
    /// The node was expelled.
    Failed,
}

impl Rank {
    /// What its slot says of the slow file.
    pub(super) fn writing(&self) -> Option<(FileId, Writing)> {
        let (op, granted) = match self {
            Rank::Cheap { op, .. } if op.kind != Kind::Read => (op, false),
            Rank::Direct { op, by_owner, .. } => (op, *by_owner),
            Rank::Asks { op, ask: Ask::WriteDone { .. }, .. } => (op, true),
            _ => return None,
        };
        Some((op.file(), Writing { slot: 0, range: op.range(), granted }))
    }
}
