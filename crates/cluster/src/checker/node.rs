//! A node: its agent, what outlives the agent, its thread.

use headstart_units::Nanos;
use headstart_units::request::Range;

use super::rank::Rank;
use super::register::FOREIGN;
use crate::log::Log;
use crate::message::Writing;
use crate::names::{FileId, MemberId, Seat, Stamp};
use crate::record::{Intent, Record};
use crate::{Member, View};

/// All times are distances from this one.
pub(super) const NOW: Nanos = Nanos(10);

/// What a place of a data file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) value: u8,
    /// It survives the node.
    pub(super) durable: bool,
    /// It is no thread's to write.
    pub(super) used: bool,
}

/// A copy whose kernel call has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mover {
    pub(super) intent: Intent,
    /// What it has read, and where.
    pub(super) value: u8,
    pub(super) from: (u8, u8),
    /// It has returned; the agent has not heard so.
    pub(super) landed: bool,
    /// The agent that began it.
    pub(super) agent: u32,
}

/// A node.
#[derive(Clone, Debug, Hash)]
pub(super) struct Node {
    pub(super) agent: Option<Member>,
    pub(super) seat: Seat,
    /// The log of an agent that was killed.
    pub(super) left: Option<Log>,
    /// How many entries of the log are durable, whether or not its agent counts them.
    pub(super) durable: u64,
    /// The data file.
    pub(super) flash: Vec<Place>,
    pub(super) dead: bool,
    /// Its agent knows that it was expelled.
    pub(super) expelled: bool,
    /// Bits that are clear, of each file, by block.
    pub(super) clear: Vec<u8>,
    /// As the shared file's header says.
    pub(super) deadline: Nanos,
    /// There is none: it is alone, and has not seen that others came.
    pub(super) unarmed: bool,
    /// A look at the membership service under way: since when, what it will show.
    pub(super) looking: Option<(Nanos, std::sync::Arc<View>)>,
    pub(super) rank: Rank,
    /// The thread's requests so far.
    pub(super) seq: u64,
    pub(super) movers: Vec<Mover>,
    /// Records for which a slow file is made long enough; once it was looked at, whether it is too short.
    pub(super) lengthening: Vec<(Record, Option<bool>)>,
    /// Its thread was named to an owner as one that writes.
    pub(super) named: bool,
    /// A file that leaves flash, and the epoch of the claim.
    pub(super) leaving: Option<(FileId, Stamp)>,
}

/// Blocks of a range, as bits.
pub(super) fn blocks(range: Range) -> u8 {
    (0..8u8).filter(|block| range.overlaps(Range::new(u64::from(*block), 1))).fold(0, |all, block| all | 1 << block)
}

impl Node {
    pub(super) fn new(agent: Member, files: u8, places: u8) -> Node {
        let outside = Node::outside(agent.seat(), files, places);
        Node { agent: Some(agent), left: None, deadline: NOW + Nanos(1), ..outside }
    }

    /// One that is alone.
    pub(super) fn unarmed(agent: Member, files: u8, places: u8) -> Node {
        Node { unarmed: true, deadline: NOW, ..Node::new(agent, files, places) }
    }

    /// One that has not joined.
    pub(super) fn outside(seat: Seat, files: u8, places: u8) -> Node {
        Node {
            seat,
            agent: None,
            left: Some(Log::default()),
            dead: false,
            durable: 0,
            flash: vec![Place { value: FOREIGN, durable: true, used: false }; places as usize],
            expelled: false,
            clear: vec![0; files as usize],
            deadline: NOW,
            unarmed: false,
            looking: None,
            rank: Rank::Idle,
            seq: 0,
            lengthening: Vec::new(),
            named: false,
            leaving: None,
            movers: Vec::new(),
        }
    }

    pub(super) fn member(&self) -> MemberId {
        self.seat.member
    }

    /// Whether it is down.
    pub(super) fn is_off(&self) -> bool {
        self.dead
    }

    /// A place that a thread may write.
    pub(super) fn free_place(&self) -> Option<u8> {
        self.flash.iter().position(|place| !place.used).map(|place| place as u8)
    }

    /// Whether its threads may rely upon what they hold.
    pub(super) fn is_valid(&self) -> bool {
        self.unarmed || NOW < self.deadline
    }

    pub(super) fn log(&self) -> &Log {
        self.agent.as_ref().map_or_else(|| self.left.as_ref().expect("the log outlives the agent"), Member::log)
    }

    /// Threads that write the slow file, as its slot says.
    pub(super) fn writers(&self, file: FileId) -> Vec<Writing> {
        self.rank.writing().filter(|(of, _)| *of == file).map(|(_, writing)| writing).into_iter().collect()
    }

    /// A new agent sets all bits.
    pub(super) fn set_bits(&mut self) {
        self.clear.iter_mut().for_each(|bits| *bits = 0);
        if let Rank::Disk { disturbed, .. } = &mut self.rank {
            *disturbed = true;
        }
    }

    /// What a new agent finds of bits that are clear.
    pub(super) fn found(&self) -> Vec<(FileId, Vec<Range>)> {
        let ranges =
            |bits: u8| (0..8u64).filter(move |block| bits & (1 << block) != 0).map(|block| Range::new(block, 1));
        let files = self.clear.iter().enumerate().filter(|(_, bits)| **bits != 0);
        files.map(|(file, bits)| (FileId(file as u64), ranges(*bits).collect())).collect()
    }
}
