//! What members say to each other. Every message may be lost, doubled and overtaken; each is answered the same when it
//! comes again.

use headstart_units::request::Range;

use crate::log::Logged;
use crate::names::{FileId, MemberId, Order, RequestId, Seat, Stamp};
use crate::record::{Intent, What};

/// A message with its addresses. It counts if sender, receiver and view are those of the receiver's view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// The agent that sent it.
    pub from: Seat,
    /// The agent that it is for.
    pub to: Seat,
    /// The sender's view.
    pub view: u64,
    /// What it says.
    pub message: Message,
}

/// What a thread asks for, as its agent tells the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ask {
    /// The bytes lie in a data file of the asker's node.
    Commit {
        /// The bytes.
        range: Range,
        /// Where they lie.
        place: u64,
    },
    /// Where do the bytes lie?
    Read {
        /// The bytes.
        range: Range,
    },
    /// May I write the slow file?
    Write {
        /// The bytes.
        range: Range,
    },
    /// I have.
    WriteDone {
        /// The bytes.
        range: Range,
    },
}

impl Ask {
    /// The bytes that it is about.
    pub fn range(&self) -> Range {
        match *self {
            Ask::Commit { range, .. } | Ask::Read { range } | Ask::Write { range } | Ask::WriteDone { range } => range,
        }
    }
}

/// What a thread is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It is done, and appended to the log of the thread's node.
    Done,
    /// Somebody writes there: nothing was appended, write the slow file.
    Refused,
    /// Write the slow file, then say so.
    Go,
    /// Nobody must write the slow file there now: have it absorbed.
    Absorb,
    /// Nothing of it is on flash, until it is called in: read and write the slow file.
    Absent,
    /// Read the slow file; nobody will say when that is over, so look at the generation.
    Disk {
        /// Whose node the bytes would be lost with, and others be right again: ask afterwards whether it still lives.
        of: MemberId,
    },
    /// Read it on flash.
    Flash {
        /// Whose data file.
        of: MemberId,
        /// Where.
        place: u64,
        /// Whether it survives its node. If not, ask afterwards whether that still lives.
        durable: bool,
    },
    /// Ask anew.
    Again,
}

/// A thread that writes the slow file by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writing {
    /// Its slot.
    pub slot: u32,
    /// The bytes.
    pub range: Range,
    /// Whether it was told `Go`, so that it says when it has: others end unsaid.
    pub granted: bool,
}

/// All threads of a member that write a file's slow bytes, at one moment: of two the later counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Writers {
    /// How many such lists the agent made before, of this file.
    pub number: u64,
    /// The threads.
    pub threads: Vec<Writing>,
    /// Whether programs of the member have the file open. No rule goes by it.
    pub uses: bool,
}

/// A file as its new home is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Declared {
    /// The file.
    pub file: FileId,
    /// The member holds absence that no living owner knows of.
    pub holds: bool,
    /// The member is its owner.
    pub owns: Option<Stamp>,
    /// The member's log has records of it.
    pub logged: bool,
}

/// The messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// To a home: who owns the file?
    Open(FileId),
    /// To a home: I want to absorb it.
    Own(FileId),
    /// Nobody: nothing of it is on flash until an owner claims it.
    Holds(FileId, Stamp),
    /// Another member.
    OwnedBy(FileId, Seat, Stamp),
    /// You, once `ask` have answered your claim. `logged`: there are records, in logs of members that are gone too.
    Yours {
        /// The file.
        file: FileId,
        /// The epoch.
        epoch: Stamp,
        /// Who may hold something of it.
        ask: Vec<MemberId>,
        /// Whether logs have records of it.
        logged: bool,
    },
    /// To a new home of slots: all that I have of files there.
    Declare(Vec<u16>, Vec<Declared>),
    /// From a home: I know now what all have there.
    Heard(Vec<u16>),
    /// From an owner: I am, from this epoch on. Set all bits, take nothing older, tell me what you have.
    Claim(FileId, Stamp),
    /// What the member has.
    Claimed {
        /// The file.
        file: FileId,
        /// The epoch.
        epoch: Stamp,
        /// All that its log says of the file.
        log: Vec<Logged>,
        /// Threads that write the slow file.
        writers: Writers,
    },
    /// From an owner: set these bits.
    CallIn(FileId, Stamp, u64, Range),
    /// They are; these threads still write.
    CalledIn(FileId, Stamp, u64, Range, Writers),
    /// A thread that was named has ended, and these still write.
    StillWriting(FileId, Stamp, Writers),
    /// To an owner: a thread's request, and the number of the last call that its member had heard of. What is asked
    /// again as a call has overtaken its answer has a higher one than that.
    Asked(FileId, Stamp, RequestId, u64, Ask),
    /// To one that asked an owner: I am none, or not yet, or not of that epoch. The home knows better.
    NotMine(FileId, Stamp),
    /// Its answer, of a first part of the range. A grant counts only if nothing was called in since: it has the number
    /// of the last call before it.
    Answered(FileId, Stamp, RequestId, u64, Range, Answer),
    /// From an owner: append this.
    Ordered {
        /// The file.
        file: FileId,
        /// The record's place.
        order: Order,
        /// The bytes.
        range: Range,
        /// Where they lie.
        what: What,
        /// The request that it answers.
        by: Option<RequestId>,
    },
    /// It is, at that position of the log; durable or not yet.
    Appended(FileId, Order, u64, bool),
    /// So many entries of the log are durable.
    Synced(u64),
    /// From an owner: copy these bytes of that record to the slow file.
    Copy(Intent, MemberId, u64),
    /// From an owner: has that copy of yours ended?
    Copying(Intent),
    /// The copy has ended, having copied or not.
    Copied(Intent, bool),
    /// From an owner: forget these records. Of yours, none that was ordered before `Order` comes again.
    Free(FileId, Stamp, Vec<Order>, Order),
    /// They are not in the log, and that is durable.
    Forgotten(FileId, Stamp, Vec<Order>),
    /// From an owner to the home: nothing of the file is on flash, nobody holds anything of it, I give it up.
    Release(FileId, Stamp),
    /// Nobody owns the file of that owner any more. What is said of it from now on has higher stamps than this.
    Released(FileId, Stamp, Stamp),
    /// From an owner to the home: nothing in the log of that member, which is out, counts for the file any more.
    Drained(FileId, Stamp, MemberId),
    /// The home has heard it.
    Noted(FileId, Stamp, MemberId),
    /// From a home to the first of the view: no file of its slots needs the log of that member, which is out.
    Emptied(MemberId),
    /// Do you live?
    Ping(RequestId),
    /// I do.
    Pong(RequestId),
}
