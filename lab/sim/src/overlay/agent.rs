//! An agent: core's overlay, and what it has under way on the tiers.

use std::collections::BTreeMap;

use headstart_overlay::journal::Identity;
use headstart_overlay::{Answer, CopyOrder, CopyPiece, Output, Overlay, Process, Settings};
use headstart_protocol::handover::COPIES_MAX;
use headstart_protocol::memory::Memory;
use headstart_protocol::message::Request as Message;
use headstart_units::request::Range;
use headstart_units::{GIB, MIB, Nanos};

use super::member::Membership;
use crate::tier::Place;

/// No number at the agent.
pub const NO_FILE: u32 = u32::MAX;

/// While something waits for a slot, of which no message tells. These are the periods of the agent's event loop.
const SLOT_POLL: Nanos = Nanos(100_000);
/// While disks may become idle for which there is work.
const WORK_POLL: Nanos = Nanos(1_000_000);
/// While threads may leave hints.
const HINT_POLL: Nanos = Nanos(20_000_000);
/// More bytes than this waiting for the journal ask for a barrier.
const JOURNAL_UNWRITTEN_MAX: u64 = 4 << 20;
/// The journal's file is replaced when it has grown by this.
const JOURNAL_BYTES: u64 = 32 << 20;
/// Of a data file's number, those below the agent's (`agent/src/node_files.rs`).
const DATA_FILE_BITS: u32 = 22;
/// What a journal has on flash, on each server.
const JOURNAL_PLACE: u64 = 64 * MIB;

/// A copy under way.
#[derive(Clone, Debug)]
pub struct Copy {
    /// What is copied.
    pub order: CopyOrder,
    /// What it asks of flash at once: pieces that lie one behind the other there.
    pub runs: Vec<std::ops::Range<usize>>,
    /// Transfers that have ended: a fetch reads once and writes run by run, a write-back the other way round.
    pub step: usize,
    /// The agent that makes it.
    pub agent: u32,
    /// The node whose card it goes through.
    pub node: u32,
}

impl Copy {
    /// None of its transfers has begun.
    pub fn new(order: CopyOrder, agent: u32, node: u32) -> Copy {
        let mut end = 0;
        let runs = order.flash_runs().map(|run| {
            let start = end;
            end += run.len();
            start..end
        });
        Copy { runs: runs.collect(), order, step: 0, agent, node }
    }

    /// The pieces of a run.
    pub fn run(&self, number: usize) -> &[CopyPiece] {
        &self.order.pieces[self.runs[number].clone()]
    }
}

/// A rank, as its agent knows it.
#[derive(Clone, Debug)]
pub struct Asker {
    /// Its number.
    pub rank: u32,
    /// Its message on the way to the agent.
    pub asked: Option<Message<'static>>,
    /// The answer on its way back.
    pub answer: Option<Answer>,
}

/// Where a barrier stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Syncing {
    /// Data files first; whether slow files follow.
    Data { slow_follows: bool },
    /// Slow files.
    Slow,
    /// The journal's records are being written; then they are synced.
    JournalWrite,
    /// The journal.
    Journal,
}

/// Which of how many agents it is: what it has on flash lies apart from what the others have there.
#[derive(Clone, Copy, Debug)]
pub struct Lot {
    /// Its number.
    pub index: u32,
    /// Agents.
    pub of: u32,
    /// Flash servers: what an agent has begins at one of them.
    pub servers: u32,
}

impl Lot {
    /// The number of its first data file. Each number is one agent's, so that any agent finds the bytes of another one.
    pub fn first_data_file(&self) -> u32 {
        (self.index << DATA_FILE_BITS) + 1
    }

    /// Of numbers that each agent gives out, one that no other agent has.
    pub fn number(&self, own: u64) -> u64 {
        own * u64::from(self.of) + u64::from(self.index)
    }

    /// Where a data file of any agent lies on flash: behind all journals, each as far behind the one before as flash may
    /// ever need.
    pub fn data_place(&self, data_file: u32) -> Place {
        let whose = Lot { index: data_file >> DATA_FILE_BITS, ..*self };
        let count = whose.number(u64::from(data_file) & ((1 << DATA_FILE_BITS) - 1));
        Place { first_server: whose.first_server(), base: JOURNAL_PLACE * u64::from(self.of) + count * GIB }
    }

    fn journal_place(&self) -> Place {
        Place { first_server: self.first_server(), base: JOURNAL_PLACE * u64::from(self.index) }
    }

    fn first_server(&self) -> u32 {
        self.index % self.servers
    }
}

/// The nodes of an agent.
#[derive(Clone, Copy, Debug)]
pub struct Nodes {
    /// The first of them.
    pub first: u32,
    /// The one behind the last.
    pub end: u32,
    /// The next one to carry a copy.
    next: u32,
}

impl Nodes {
    /// From the first to the one before `end`.
    pub fn new(first: u32, end: u32) -> Nodes {
        Nodes { first, end, next: first }
    }

    /// Each in turn.
    pub fn take(&mut self) -> u32 {
        let node = self.next;
        self.next = if node + 1 < self.end { node + 1 } else { self.first };
        node
    }
}

/// The journal: what of it no file holds yet, and what its file has.
#[derive(Debug, Default)]
pub struct JournalFile {
    place: Place,
    unwritten_bytes: u64,
    written_bytes: u64,
}

impl JournalFile {
    /// Records come.
    pub fn append(&mut self, bytes: u64) {
        self.unwritten_bytes += bytes;
    }

    /// Its file takes them: where on flash, and how many bytes.
    pub fn write(&mut self) -> (Place, Range) {
        let length = std::mem::take(&mut self.unwritten_bytes);
        let offset = self.written_bytes % JOURNAL_BYTES;
        self.written_bytes += length;
        (self.place, Range::new(offset, length))
    }

    /// Bytes of all records so far.
    pub fn bytes(&self) -> u64 {
        self.written_bytes + self.unwritten_bytes
    }
}

/// See the module.
pub struct Agent {
    /// What decides.
    pub overlay: Overlay,
    /// The shared file.
    pub memory: Memory,
    /// Which one it is.
    pub lot: Lot,
    /// Its nodes.
    pub nodes: Nodes,
    /// Numbers of the scenario's files; [`NO_FILE`] while nobody has opened one.
    pub numbers: Vec<u32>,
    /// By number, the file of the scenario.
    pub by_number: BTreeMap<u32, u32>,
    /// The journal.
    pub journal: JournalFile,
    /// Copies under way.
    pub copies: u32,
    /// The barrier under way.
    pub syncing: Option<Syncing>,
    /// Its ranks, by slot.
    pub askers: Vec<Asker>,
    /// The next look around, if one is announced.
    pub poll_due: Option<Nanos>,
    /// Everything is to go back to disk.
    pub draining: bool,
    /// Nothing was dirty when it was last looked at, as it drained.
    pub was_clean: bool,
    /// As one of several.
    pub membership: Membership,
}

impl Agent {
    /// An agent for these ranks, in the order of their slots, on a site with so many files.
    pub fn new(settings: Settings, (lot, nodes): (Lot, Nodes), ranks: &[u32], files: usize) -> Agent {
        let memory = Memory::new(settings.files_max, ranks.len().max(1), COPIES_MAX);
        let first_data_file = settings.first_data_file;
        let mut overlay = Overlay::new(settings, 0, first_data_file);
        for slot in 0..ranks.len() as u32 {
            overlay.on_join(slot, Process { pid: slot + 1, start_time: 1 });
        }
        Agent {
            overlay,
            memory,
            lot,
            nodes,
            numbers: vec![NO_FILE; files],
            by_number: BTreeMap::new(),
            journal: JournalFile { place: lot.journal_place(), ..JournalFile::default() },
            copies: 0,
            syncing: None,
            askers: ranks.iter().map(|rank| Asker { rank: *rank, asked: None, answer: None }).collect(),
            poll_due: None,
            draining: false,
            was_clean: false,
            membership: Membership::default(),
        }
    }

    /// The identity of a file of the scenario.
    pub fn identity(file: u32) -> Identity {
        Identity { inode: u64::from(file) + 1, birth_ns: 1 }
    }

    /// The file of the scenario behind a number.
    pub fn file_of(&self, number: u32) -> u32 {
        self.by_number[&number]
    }

    /// The agent has a file of the scenario under that number.
    pub fn enter(&mut self, file: u32, number: u32) {
        self.numbers[file as usize] = number;
        self.by_number.insert(number, file);
    }

    /// The number is nobody's any more.
    pub fn forget(&mut self, number: u32) {
        if let Some(file) = self.by_number.remove(&number) {
            self.numbers[file as usize] = NO_FILE;
        }
    }

    /// Stores the records of what happened and returns what is to be done; again until there is nothing.
    pub fn store_records(&mut self) -> Vec<Output> {
        let (records, outputs) = (self.overlay.take_journal(), self.overlay.take_outputs());
        self.journal.append(records.len() as u64);
        self.overlay.on_appended(self.memory.view());
        outputs
    }

    /// The file system's answer to what a barrier's request asks beside data: nothing is left to do but to ask for one.
    pub fn limit_journal(&mut self) {
        if self.journal.unwritten_bytes > JOURNAL_UNWRITTEN_MAX {
            self.overlay.request_barrier();
        }
    }

    /// How long until the next look around.
    pub fn poll_period(&self) -> Nanos {
        if self.overlay.waits_for_slots() {
            SLOT_POLL
        } else if self.draining || self.overlay.is_placing() || self.overlay.waits_for_idleness() {
            WORK_POLL
        } else {
            HINT_POLL
        }
    }

    /// Whether nothing is dirty, nothing is under way and all of it is durable. Asks for the barrier that makes it so.
    pub fn is_clean(&mut self) -> bool {
        let is_idle = self.overlay.dirty_bytes() == 0 && self.copies == 0 && self.syncing.is_none();
        if is_idle && !self.overlay.is_durable() {
            // A record may have come after the last one.
            self.overlay.request_barrier();
            return false;
        }
        is_idle
    }
}
