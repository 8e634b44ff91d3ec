//! What goes out as data: answers, and work for the runtime.

use crate::errno;
use crate::flash_space::Run;
use headstart_cluster::{FileId, MemberId};
use headstart_protocol::message::Envelope;
use headstart_units::Nanos;
use headstart_units::request::Range;

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The file's number.
    Opened {
        /// Index in the shared table.
        file: u32,
    },
    /// Done.
    Done,
    /// No flash space: write the slow file.
    NoSpace,
    /// Nothing of the file may come to flash now: write the slow file.
    Bypassed,
    /// Others' requests are in the way and do not end: write the slow file.
    HeldUp,
    /// A flash-read lease on so many bytes; the pieces are in the slot.
    Flash {
        /// Bytes from the first one asked for.
        length: u64,
    },
    /// A slow-read lease on so many bytes.
    Disk {
        /// Bytes from the first one asked for.
        length: u64,
    },
    /// The same, of bytes that flash has as well.
    Sooner {
        /// Bytes from the first one asked for.
        length: u64,
    },
    /// Bytes that another node has, or that would be others without it: as `Flash`, or as `Disk`. What is read counts once
    /// it is confirmed.
    Remote {
        /// Bytes from the first one asked for.
        length: u64,
        /// As `Flash`.
        on_flash: bool,
    },
    /// A direct-write lease.
    Go,
    /// It failed.
    Error {
        /// What the program sees.
        errno: i32,
        /// What the user is told.
        text: String,
    },
}

/// As the thread that asked takes it.
impl From<&Answer> for headstart_protocol::call::Answer {
    fn from(answer: &Answer) -> headstart_protocol::call::Answer {
        use headstart_protocol::call::Answer as Heard;
        match *answer {
            Answer::Opened { .. } => Heard::Other,
            Answer::Done => Heard::Done,
            Answer::NoSpace => Heard::NoSpace,
            Answer::Bypassed => Heard::Bypassed,
            Answer::HeldUp => Heard::HeldUp,
            Answer::Flash { length } => Heard::Flash(length),
            Answer::Disk { length } => Heard::Disk(length),
            Answer::Sooner { length } => Heard::Sooner(length),
            Answer::Remote { length, on_flash } => Heard::Remote { length, on_flash },
            Answer::Go => Heard::Go,
            Answer::Error { errno, .. } => Heard::Refused(errno),
        }
    }
}

impl Answer {
    /// Bytes of the file are gone that only flash had.
    pub(crate) fn lost_bytes() -> Answer {
        let text =
            "absorbed bytes were lost when flash could not be synced; write them anew, or truncate or remove the file";
        Answer::Error { errno: errno::EIO, text: text.into() }
    }

    /// Another node asks for the file, and it cannot leave flash where it is.
    pub(crate) fn stuck(errno: i32) -> Answer {
        let text = "its bytes cannot leave the flash of the node that has them; 'headstart check' says why";
        Answer::Error { errno, text: text.into() }
    }

    /// The message broke the protocol.
    pub(crate) fn protocol_error(text: &str) -> Answer {
        Answer::Error { errno: errno::EPROTO, text: text.into() }
    }
}

/// Where a copy's bytes lie on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyPiece {
    /// Bytes of the slow file.
    pub range: Range,
    /// The data file.
    pub data_file: u32,
    /// Where they begin in it.
    pub place: u64,
}

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    /// Disk to flash.
    Fetch,
    /// Flash to disk.
    WriteBack,
}

/// A copy the runtime makes; it answers with [`super::Overlay::on_copy_done`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOrder {
    /// Comes back in the completion.
    pub id: u64,
    /// Which way.
    pub kind: CopyKind,
    /// The slow file.
    pub file: u32,
    /// All its bytes, contiguous.
    pub range: Range,
    /// Where they lie on flash, in that order: together they are the range.
    pub pieces: Vec<CopyPiece>,
}

impl CopyOrder {
    /// The pieces in groups that lie one after another on flash, in whatever order in the file: each group is
    /// one request to flash.
    pub fn flash_runs(&self) -> impl Iterator<Item = &[CopyPiece]> {
        self.pieces.chunk_by(|one, next| {
            next.data_file == one.data_file && next.place == one.place.saturating_add(one.range.length)
        })
    }
}

/// How a slow file is made longer, if it is not that long when looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Its size is set: nobody else changes it.
    Sized,
    /// Its last byte is written: others may be making it longer, of which setting its size could cut something off.
    LastByte,
    /// Not at all: others may be writing that byte as well. It fails.
    Found,
}

/// What the runtime has to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send an answer.
    Reply(Envelope, Answer),
    /// Make a copy.
    Copy(CopyOrder),
    /// Make the slow file at least `size` long; then [`super::Overlay::on_extended`].
    Extend {
        /// The file.
        file: u32,
        /// Bytes.
        size: u64,
        /// By which means.
        growth: Growth,
    },
    /// Sync these data files, then these slow files and directories; then [`super::Overlay::on_barrier_synced`].
    Barrier {
        /// Data files whose bytes the journal names.
        data_files: Vec<u32>,
        /// Slow files written since.
        slow_files: Vec<u32>,
        /// Directories, by path, that must not forget which names were removed from them.
        directories: Vec<Vec<u8>>,
    },
    /// Make the journal durable up to its end; then [`super::Overlay::on_journal_durable`].
    SyncJournal,
    /// Make sure that the data file exists and is at least `size` long, before the next reply.
    Grow {
        /// The data file.
        data_file: u32,
        /// Bytes.
        size: u64,
    },
    /// A thread may see this slab, which it did not ask for: [`super::Overlay::show_slab`].
    Show {
        /// The thread's slot.
        slot: u32,
        /// Which of its slabs.
        at: usize,
        /// Where it begins.
        page: u64,
    },
    /// Where the bytes of a granule lie is to be told in this listing, once it has memory: [`super::Overlay::list`].
    List(u32),
    /// Records name bytes of the data file that no barrier has synced: it stays open until one has, so that a
    /// failure to write them is told to its sync.
    Unsynced(u32),
    /// Give the storage behind these pages back to the file system.
    Punch(Run),
    /// Delete a data file.
    RemoveDataFile(u32),
    /// Nobody has the file open any more and nothing of it is on flash: close what is open for it.
    Forget(u32),
    /// Send a message to another member's agent; whether it arrives is open.
    Send(headstart_cluster::Envelope),
    /// Threads may rely upon what they hold until then, by CLOCK_MONOTONIC: it stands in the shared file's header, if
    /// there is another member.
    Deadline(Nanos),
    /// Read the log of a member that is out, up to its cut; then [`super::Overlay::on_log_read`].
    ReadLog(MemberId),
    /// Copy what the log of a member that is out has of a file to the slow file, durably, and note that it was; then
    /// [`super::Overlay::on_salvaged`]. Nobody else touches those bytes.
    Salvage {
        /// The file.
        file: FileId,
        /// Whose log.
        of: MemberId,
    },
    /// This member was expelled: its threads fail, and no copy begins any more.
    Expelled,
}

/// Files that a barrier could not sync; none if it was something else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotSynced {
    /// Data files.
    pub data_files: Vec<u32>,
    /// Data files of which nothing is known: no sync was tried.
    pub data_files_untried: Vec<u32>,
    /// Slow files.
    pub slow_files: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_one_behind_the_other_on_flash_are_one_request_whatever_their_order_in_the_file() {
        let piece =
            |offset, length, data_file, place| CopyPiece { range: Range::new(offset, length), data_file, place };
        let pieces = vec![piece(300, 100, 1, 0), piece(0, 300, 1, 100), piece(400, 50, 1, 401), piece(450, 1, 2, 451)];
        let order = CopyOrder { id: 1, kind: CopyKind::WriteBack, file: 0, range: Range::new(0, 451), pieces };
        let runs: Vec<usize> = order.flash_runs().map(<[CopyPiece]>::len).collect();
        assert_eq!(runs, [2, 1, 1], "a byte is between the second and the third; the last is in another data file");
    }
}
