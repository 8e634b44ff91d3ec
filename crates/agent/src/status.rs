//! What the agent says of itself: the answer to `status`, also what `drain` watches.

pub use headstart_protocol::counters::{Counters, RequestCounters};
use serde::{Deserialize, Serialize};

pub use crate::counters::ServiceCounters;

/// Commands of the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// How things stand.
    Status,
    /// The same, with the files alone of which bytes cannot be written back as they are: the last try failed, or one
    /// now would, as another program changed or removed the slow file.
    Examine,
    /// Write dirty bytes back, all or those of one file.
    Drain {
        /// Absolute path of a file.
        path: Option<String>,
        /// Even over files that another program changed since; always so for one file.
        #[serde(default)]
        over_changes: bool,
    },
    /// The next drain has nodes given up that are gone, and waits until what they had synced is on the disks.
    DrainGone,
    /// Give dirty bytes up, all or those of one file, as far as no program has the files open.
    Discard {
        /// Absolute path of a file, as the status names it.
        path: Option<String>,
    },
    /// No longer insist on writing everything back.
    KeepDirty,
    /// Answered when everything acknowledged before survives power loss.
    Sync,
    /// Use so much flash from now on.
    Configure {
        /// `20%` or a size.
        capacity: String,
    },
    /// These patterns say from now on which files may come to flash; files that are open stay as they are.
    Select {
        /// As in the site file.
        include: Vec<String>,
        /// As in the site file.
        exclude: Vec<String>,
    },
    /// These regions of a file belong on flash from now on, and no others.
    Want(RegionsOfFile),
    /// Copy to flash what belongs there, as far as it fits, while the connection lasts; or stop that.
    Place {
        /// Whether to copy.
        on: bool,
    },
    /// No region belongs on flash any more, of one file or of all.
    Unplace {
        /// Absolute path of a file.
        path: Option<String>,
    },
    /// Regions that programs read again and again are moved to flash, while the connection lasts, unless a
    /// plan's are known.
    Follow,
    /// This run is a rank of a parallel program, while the connection lasts.
    Join(Part),
    /// Its program has ended: answered with how many other ranks there are, which have to drain what it wrote as well.
    Leave(Part),
    /// A program that the library is not in is about to start: answered once nothing is on flash and nothing
    /// comes there until it, and whatever holds the fifo [`headstart_protocol::STRANGERS_FILE`], has ended.
    /// An error says what could not go back.
    Stranger {
        /// The process that it will be, if that is known.
        pid: Option<u32>,
        /// Its path.
        path: String,
    },
    /// It has started.
    StrangerStarted {
        /// Its process.
        pid: u32,
    },
    /// It did not start.
    NoStranger {
        /// The process that it would have been.
        pid: u32,
    },
    /// End, if no process takes part.
    Stop,
    /// The same on another node, whose agent's answer is passed back.
    At {
        /// The node's name.
        node: String,
        /// `status`, `examine`, `drain`, `keep_dirty`, `sync` or `stop`.
        what: Box<Command>,
    },
}

/// A run that is a rank of a parallel program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The program's job, as its launcher tells it: the same in all ranks of this node, and in no others.
    pub job: String,
    /// The rank.
    pub rank: u32,
    /// The process of `headstart run`.
    pub run: u32,
}

/// Regions of a file; they count when the last of them is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionsOfFile {
    /// Absolute path.
    pub path: String,
    /// Its inode must be this one.
    pub inode: Option<u64>,
    /// Of every file as well that programs make under this name later, while the agent lives; there may be none now.
    pub by_name: bool,
    /// Offset, length, and what flash saves of one request and of all, in nanoseconds.
    pub regions: Vec<[u64; 4]>,
    /// Whether others are to come.
    pub more: bool,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// It failed.
    Error {
        /// Why, and what to do.
        error: String,
    },
    /// How things stand now.
    Status(Box<Status>),
}

/// How things stand.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The agent's process.
    pub pid: u32,
    /// The slow directory.
    pub slow: String,
    /// The fast directory.
    pub fast: String,
    /// The capacity as it was asked for.
    pub capacity: String,
    /// Patterns of files that may come to flash.
    pub include: Vec<String>,
    /// Patterns of files that may not.
    pub exclude: Vec<String>,
    /// Bytes of flash it comes to.
    pub capacity_bytes: u64,
    /// Bytes of flash that hold extents.
    pub mapped_bytes: u64,
    /// Bytes on flash that the disk does not have.
    pub dirty_bytes: u64,
    /// Extents.
    pub extents: u64,
    /// Threads taking part.
    pub threads: u64,
    /// Everything acknowledged survives power loss.
    pub durable: bool,
    /// Everything is being written back.
    pub draining: bool,
    /// Programs that live and that the library is not in: nothing comes to flash meanwhile.
    pub strangers: u64,
    /// How far regions that belong on flash are there.
    pub placement: PlacementStatus,
    /// The same by file: first those that could not be copied, then those that are not whole on flash; not
    /// all if they are many.
    pub file_placements: Vec<FilePlacement>,
    /// Files with bytes on flash, or open: first those that cannot be written back, then those with dirty
    /// bytes; not all if they are many.
    pub files: Vec<FileStatus>,
    /// Processes in the middle of a write to a slow file, which keeps bytes of it on flash from being written back.
    pub held_up: Vec<HeldUpFile>,
    /// Runs that are other ranks of a program; only in the answer to [`Command::Leave`].
    #[serde(skip_serializing_if = "is_zero")]
    pub other_ranks: u64,
    /// Number of files known.
    pub files_known: u64,
    /// Number of files with dirty bytes.
    pub files_dirty: u64,
    /// Number of files with dirty bytes whose last write-back failed.
    pub files_failed: u64,
    /// What the overlay did.
    pub agent: Counters,
    /// What the agent did besides.
    pub service: ServiceCounters,
    /// What the programs' requests met, since the agent started; if it follows one that died, since that one did.
    pub requests: RequestCounters,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// The node among others, if there are others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterStatus>,
}

/// A node among others, as its agent sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterStatus {
    /// What the node is called.
    pub name: String,
    /// Its number.
    pub number: u16,
    /// Members of the view.
    pub members: u64,
    /// The view's number; zero until it has seen one.
    pub view: u64,
    /// For how long programs go on without another look at the membership service; none if they have no deadline.
    pub deadline_ms: Option<u64>,
    /// Since when the membership service has not answered.
    pub asked_for_ms: Option<u64>,
    /// Names of members of which something is awaited.
    pub waits_for: Vec<String>,
    /// Files that more than one node has open, or might: they stay on the disks.
    pub files_shared: u64,
    /// Paths of files with dirty bytes here that are not where they were: other nodes that open one wait for it.
    #[serde(default)]
    pub files_missing: Vec<String>,
    /// Files that this node has to itself: what is on its flash is theirs.
    pub files_alone: u64,
    /// What its agent and others have written to each other.
    #[serde(default)]
    pub traffic: Traffic,
}

/// What an agent and those of other nodes have written to each other since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// Messages sent.
    pub sent_letters_total: u64,
    /// Packets in which they went: what waits for the same node goes in one.
    pub sent_packets_total: u64,
    /// Bytes of these, before encryption.
    pub sent_bytes_total: u64,
    /// Messages that came.
    pub received_letters_total: u64,
    /// Bytes of these.
    pub received_bytes_total: u64,
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, more: Traffic) {
        self.sent_letters_total += more.sent_letters_total;
        self.sent_packets_total += more.sent_packets_total;
        self.sent_bytes_total += more.sent_bytes_total;
        self.received_letters_total += more.received_letters_total;
        self.received_bytes_total += more.received_bytes_total;
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Regions that belong on flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlacementStatus {
    /// Whether they are being copied.
    pub running: bool,
    /// They are none of a plan, but follow what programs read.
    pub following: bool,
    /// Number of files that have some.
    pub files: u64,
    /// Number of these that could not be copied.
    pub failed: u64,
    /// Number of names that have regions, whatever file is there.
    pub names: u64,
    /// Bytes of the regions.
    pub wanted_bytes: u64,
    /// Bytes of these that are on flash.
    pub placed_bytes: u64,
}

/// Regions of one file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FilePlacement {
    /// Where it is; bytes that are no UTF-8 are replaced.
    pub path: String,
    /// Bytes of its regions.
    pub wanted_bytes: u64,
    /// Bytes of these that are on flash.
    pub placed_bytes: u64,
    /// Why the last copy failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A file with bytes that cannot be written back now.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HeldUpFile {
    /// Where it is; bytes that are no UTF-8 are replaced.
    pub path: String,
    /// The process that is in the middle of a write to it.
    pub pid: u32,
    /// For how long it has been.
    pub for_ms: u64,
}

/// One file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FileStatus {
    /// Where it is; bytes that are no UTF-8 are replaced.
    pub path: String,
    /// All its bytes, if some are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<Vec<u8>>,
    /// Bytes the disk does not have.
    pub dirty_bytes: u64,
    /// Why its last write-back failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
