//! What agents tell each other beside the protocol: names that changed, and programs beside which nothing may be on
//! flash, and how much flash each needs. No rule of the protocol rests on it.

use crate::names::{FileId, Seat};

/// What one agent tells another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// No name of the file is left.
    Unlinked {
        /// The file.
        file: FileId,
        /// Its home has passed it on to who may have bytes of it on flash.
        passed: bool,
    },
    /// A directory was renamed, or two things were exchanged.
    Renamed {
        /// What it was called.
        old: Vec<u8>,
        /// What it is called.
        new: Vec<u8>,
        /// What was there has the old name now.
        exchanged: bool,
    },
    /// A file lies there.
    At {
        /// The file.
        file: FileId,
        /// When it was made; zero where that is not known.
        birth_ns: u64,
        /// Its path.
        path: Vec<u8>,
    },
    /// A file has got another name (`stays`), or is about to lose one of several.
    Named {
        /// The file.
        file: FileId,
        /// Whether the name is there from now on.
        stays: bool,
        /// The name.
        path: Vec<u8>,
    },
    /// A file with bytes on flash is not where it was: who knows its path says so.
    WhereIs {
        /// The file.
        file: FileId,
        /// When it was made; zero where that is not known.
        birth_ns: u64,
    },
    /// Somebody has set the file's time of last write.
    TimesSet {
        /// The file.
        file: FileId,
        /// When it was made; zero where that is not known.
        birth_ns: u64,
    },
    /// The file cannot leave the sender's flash, so that who asks for it waits in vain; or it can after all.
    Stuck {
        /// The file.
        file: FileId,
        /// The error number of its write-back; zero: it can.
        errno: u32,
    },
    /// The sender needs so much of the directory's capacity.
    Needs {
        /// In bytes of flash.
        bytes: u64,
    },
    /// Nothing may come to flash from now on and all leaves it (`on`), or it may come again.
    KeepOff {
        /// Which of both.
        on: bool,
        /// What the answer is to name; zero: nobody waits for one.
        question: u64,
    },
    /// Nothing is on flash any more since that question.
    Off {
        /// The question.
        question: u64,
        /// What is there nevertheless, and why; empty if nothing is.
        problem: Vec<u8>,
    },
}

/// Notes on their way, and how far those of the other side were taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    /// The agent that sent it.
    pub from: Seat,
    /// The agent that it is for.
    pub to: Seat,
    /// All of the sender's notes below this number were answered.
    pub answered: u64,
    /// Number of the first note.
    pub first: u64,
    /// The notes.
    pub notes: Vec<Note>,
    /// All of the receiver's notes below this number were taken.
    pub heard: u64,
}
