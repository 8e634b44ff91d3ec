//! What the runtime has to do, in this order.

use headstart_units::Nanos;
use headstart_units::request::Range;

use crate::message::{Answer, Envelope};
use crate::names::{FileId, MemberId, RequestId, Stamp};
use crate::record::{Entry, Intent, Record};

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send it; whether it arrives is open.
    Send(Envelope),
    /// Append it to this member's log before anything behind it is done.
    Append(Entry),
    /// Make the slow file long enough for this record, by its last byte if it is too short: `Member::on_lengthened`.
    /// Nobody else touches that byte meanwhile.
    Lengthen(Record),
    /// Answer a thread, for a first part of what it asked about: all of it, where it asks again.
    Answer(RequestId, Range, Answer),
    /// Clear the bits of a range: threads read and write the slow file by themselves.
    Clear(FileId, Range),
    /// This member owns the file, and no other has anything of it: its threads go on by the rules of one node until the
    /// next `Fence`.
    Alone(FileId),
    /// Who owns the file is known, or not any more, or it is another one: what is shown of that may be looked at again.
    Owner(FileId),
    /// Set the bits of a range, raise its generation, fence, then look at the slots: `Member::on_fenced`.
    Fence {
        /// The file.
        file: FileId,
        /// The epoch for which.
        epoch: Stamp,
        /// The call for which; none for a claim.
        call: Option<u64>,
        /// The bytes.
        range: Range,
    },
    /// Nobody reads any more where the bytes of a record lay: the place may be used again.
    Free(FileId, Record),
    /// Make the log durable, with all that it speaks of: `Member::on_synced`.
    Barrier,
    /// Copy the bytes at a place of a member's data file to the slow file: `Member::on_copied`.
    StartCopy(Intent, MemberId, u64),
    /// Read the log of a member that is out, up to its cut: `Member::on_log_read`.
    ReadLog(MemberId),
    /// Threads may rely upon what they hold until then: it stands in the shared file's header.
    Deadline(Nanos),
    /// This member was expelled: threads that wait fail.
    Expelled,
}
