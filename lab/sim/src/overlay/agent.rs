//! The agent: core's overlay, and what it has under way on the tiers.

use std::collections::BTreeMap;

use headstart_overlay::journal::Identity;
use headstart_overlay::{Answer, CopyOrder, CopyPiece, Output, Overlay, Process, Settings};
use headstart_policy::client::chain::Chain;
use headstart_policy::client::s4d::S4d;
use headstart_protocol::handover::COPIES_MAX;
use headstart_protocol::memory::Memory;
use headstart_protocol::message::Request as Message;
use headstart_units::request::Range;
use headstart_units::{GIB, MIB, Nanos};

use crate::tier::Place;
use headstart_model::slab::Slab;

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

/// A copy under way.
#[derive(Clone, Debug)]
pub struct Copy {
    /// What is copied.
    pub order: CopyOrder,
    /// What it asks of flash at once: pieces that lie one behind the other there.
    pub runs: Vec<std::ops::Range<usize>>,
    /// Transfers that have ended: a fetch reads once and writes run by run, a write-back the other way round.
    pub step: usize,
    /// The node whose card it goes through.
    pub node: u32,
}

impl Copy {
    /// None of its transfers has begun.
    pub fn new(order: CopyOrder, node: u32) -> Copy {
        let mut end = 0;
        let runs = order.flash_runs().map(|run| {
            let start = end;
            end += run.len();
            start..end
        });
        Copy { runs: runs.collect(), order, step: 0, node }
    }

    /// The pieces of a run.
    pub fn run(&self, number: usize) -> &[CopyPiece] {
        &self.order.pieces[self.runs[number].clone()]
    }
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

/// Of each file of the scenario: its number at the agent, and the slow file's size.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// [`NO_FILE`] while nobody has opened it.
    pub number: u32,
    /// Bytes.
    pub size: u64,
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
    /// The policies of the run.
    pub chain: Chain,
    /// S4D's cost models.
    pub s4d: S4d,
    /// The files of the scenario.
    pub files: Vec<Known>,
    /// By number at the agent, the file of the scenario.
    pub by_number: BTreeMap<u32, u32>,
    /// The journal.
    pub journal: JournalFile,
    /// Where data files lie, each as far behind the one before as flash may ever need.
    pub data_base: u64,
    /// Copies under way.
    pub copies: Slab<Copy>,
    /// The barrier under way.
    pub syncing: Option<Syncing>,
    /// Messages on their way to the agent, by slot; and answers on their way back.
    pub asked: Vec<Option<Message<'static>>>,
    /// Answers on their way back, by slot.
    pub answers: Vec<Option<Answer>>,
    /// The next look around, if one is announced.
    pub poll_due: Option<Nanos>,
    /// The next node to carry a copy.
    pub next_node: u32,
    /// Everything is to go back to disk.
    pub draining: bool,
}

impl Agent {
    /// An agent for so many ranks and files of such sizes.
    pub fn new(settings: Settings, chain: Chain, s4d: S4d, ranks: usize, sizes: &[u64]) -> Agent {
        let memory = Memory::new(sizes.len() + 1, ranks.max(1), COPIES_MAX);
        let files_max = sizes.len() + 1;
        let mut overlay = Overlay::new(Settings { files_max, ..settings }, 0, 1);
        for slot in 0..ranks as u32 {
            overlay.on_join(slot, Process { pid: slot + 1, start_time: 1 });
        }
        Agent {
            overlay,
            memory,
            chain,
            s4d,
            files: sizes.iter().map(|size| Known { number: NO_FILE, size: *size }).collect(),
            by_number: BTreeMap::new(),
            journal: JournalFile::default(),
            data_base: 64 * MIB,
            copies: Slab::default(),
            syncing: None,
            asked: vec![None; ranks],
            answers: vec![None; ranks],
            poll_due: None,
            next_node: 0,
            draining: false,
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

    /// Where a data file lies on flash.
    pub fn data_place(&self, data_file: u32) -> Place {
        Place { first_server: 0, base: self.data_base + u64::from(data_file) * GIB }
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
        let is_idle = self.overlay.dirty_bytes() == 0 && self.copies.is_empty() && self.syncing.is_none();
        if is_idle && !self.overlay.is_durable() {
            // A record may have come after the last one.
            self.overlay.request_barrier();
            return false;
        }
        is_idle
    }
}
