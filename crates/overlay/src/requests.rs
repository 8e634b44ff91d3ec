//! What threads ask, and what each answer waits for. A file for each family of requests says how they begin and how
//! they go on.
//!
//! | request | waits for | then |
//! |---|---|---|
//! | slab | space that is coming, not for long | leases it, or says that there is none |
//! | commit | the granules settle; no slow read, no direct write overlaps; no truncation that came before waits; none may be extending, if it extends; not for long | cancels fetches, appends `Map`, extends the size; or is refused |
//! | read | nothing | leases flash pieces and lists what is read again, or names the slow file up to the next extent, under a lease if that is asked for |
//! | write | write-backs on the range; an extension, if it extends too; then not for long for truncations as well | cancels fetches, leases the slow range |
//! | anything else, under a lease of its own | nothing | ends the direct write whose `WriteDone` never came |
//! | truncate | as write, on everything from the new size; not for long for whoever may make the file longer | the same |
//! | rearrange | no dirty byte left from there on, durably; then as write. Commits that reach there and come later wait | the same |
//! | open | the barrier that makes its intent durable; an extension | |
//! | sync | a barrier begun since | |
//! | write back | no dirty byte left in the range | |

mod begun;
mod commits;
mod direct;
pub(crate) mod held_up;
pub(crate) mod opening;
mod reads;
mod rearranging;
mod resizing;
mod slabs;
mod syncs;
mod write_backs;

use headstart_protocol::message::{Envelope, Request};
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

use self::begun::Begun;
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::pending::{Commit, CommitStep, Operation, Pending, Reading};
use crate::recency::Access;

/// The file that a request names by a number it was told.
fn file_of(request: &Request<'_>) -> Option<u32> {
    match *request {
        Request::Slab { file, .. }
        | Request::Commit { file, .. }
        | Request::Read { file, .. }
        | Request::Confirm { file }
        | Request::Write { file, .. }
        | Request::WriteDone { file, .. }
        | Request::Truncate { file, .. }
        | Request::TruncateDone { file, .. }
        | Request::Rearrange { file, .. }
        | Request::RearrangeDone { file, .. }
        | Request::Sync { file }
        | Request::WriteBack { file, .. }
        | Request::Bypass { file, .. }
        | Request::Sealed { file }
        | Request::FlashFailed { file, .. }
        | Request::Close { file } => Some(file),
        _ => None,
    }
}

impl Overlay {
    /// Takes a request in; what can be answered at once is.
    pub(crate) fn begin(&mut self, shared: Shared<'_>, now_ns: u64, envelope: Envelope, request: &Request<'_>) {
        self.collect_pushes(shared);
        self.leave_direct(shared, envelope, Some(request));
        match self.begun(shared, now_ns, envelope, request) {
            Begun::Answered(answer) => self.outbox.reply(envelope, answer),
            Begun::Waits(operation) => self.pending.push(envelope, operation),
            Begun::Ends => self.leases.end_once_appended(envelope),
        }
    }

    fn begun(&mut self, shared: Shared<'_>, now_ns: u64, envelope: Envelope, request: &Request<'_>) -> Begun {
        let slot = envelope.slot;
        if file_of(request).is_some_and(|file| !self.files.contains_key(&file)) {
            return match request {
                // Sent again to the next agent: the one before had forgotten the file and died before it could answer.
                Request::Close { .. } => Begun::Answered(Answer::Done),
                _ => Begun::refused("no such file"),
            };
        }
        match *request {
            Request::Renamed { old_length, exchanged, paths } => self.begin_rename(old_length, exchanged, paths),
            Request::Name { inode, stays, path } => self.begin_name(shared, inode, stays, path),
            Request::Close { file } => self.begin_close(shared, slot, file),
            Request::Sealed { file } => self.begin_sealed(shared, file),
            Request::Slab { file, offset, length } => self.begin_slab(shared, slot, file, Range::new(offset, length)),
            Request::Commit { file, data_file, offset, length, place } => {
                let (range, step) = (Range::new(offset, length), CommitStep::Waiting);
                self.begin_commit(
                    shared,
                    envelope,
                    Commit { file, range, data_file, place, step, kept: offset, now_ns },
                )
            }
            Request::FlashFailed { file, offset, length } => {
                Begun::Answered(self.flash_failed(file, Range::new(offset, length)))
            }
            Request::Read { file, offset, length, leased, in_order } => {
                let read = Reading { file, range: Range::new(offset, length), leased, access: Access::of(in_order) };
                if self.sharing.holds_back(file) || self.sharing.asks(file) {
                    return Begun::Waits(Operation::Read(read));
                }
                Begun::Answered(self.read(shared, slot, read))
            }
            Request::Write { file, offset, length, extends } => {
                Begun::Waits(Operation::Write { file, range: Range::new(offset, length), extends })
            }
            Request::Confirm { file } => match self.commits() {
                true => Begun::Waits(Operation::Confirm { file }),
                // An agent before told it so.
                false => Begun::Answered(Answer::NoSpace),
            },
            Request::WriteDone { file, offset, length } => self.end_write(slot, file, Range::new(offset, length)),
            Request::Truncate { file, size } => self.begin_truncation(shared, file, size),
            Request::TruncateDone { file, size, changed } => self.end_truncate(shared, slot, file, size, changed),
            Request::Rearrange { file, from } => self.begin_rearrangement(shared, file, from),
            Request::RearrangeDone { file, from, size } => self.end_rearrangement(shared, slot, file, from, size),
            Request::Sync { file } => self.begin_sync(file),
            Request::WriteBack { file, offset, length } => self.begin_write_back(file, Range::new(offset, length)),
            Request::Bypass { file, writes } => self.begin_bypass(shared, slot, file, writes),
            Request::Hello { .. }
            | Request::Open { .. }
            | Request::TimesSet { .. }
            | Request::Unlinked { .. }
            | Request::Regions { .. }
            | Request::Descriptor { .. }
            | Request::Connect
            | Request::Marked
            | Request::Control { .. } => {
                unreachable!("the runtime handles these itself")
            }
        }
    }

    /// Tries every pending request, oldest first, until none gets further.
    pub(crate) fn advance(&mut self, shared: Shared<'_>) {
        let mut progress = true;
        self.start_extensions(shared);
        self.heed(shared);
        while progress {
            let mut ended = Vec::new();
            let waits_for_space = self.waits_for_space();
            // Truncations last: whether one may go ahead depends on every commit that waits, and others come to their
            // ends before.
            for truncations in [false, true] {
                let tried = self.pending.take(truncations);
                ended.extend(self.try_each(shared, tried, waits_for_space));
            }
            progress = !ended.is_empty();
            // One for all commits that are applied by now: it is carried out once their records are appended.
            progress |= self.start_extensions(shared);
            // A file that has left flash is told of, and what is told of others lets requests go on.
            progress |= self.heed(shared);
            ended.into_iter().for_each(|file| self.forget_if_done(shared, file));
        }
    }

    /// Answers those of `tried` that get to their end, and keeps the others; the files of the ones that ended.
    fn try_each(&mut self, shared: Shared<'_>, tried: Vec<Pending>, waits_for_space: bool) -> Vec<u32> {
        let mut ended = Vec::new();
        for mut pending in tried {
            let attempt = self.attempt(shared, &mut pending);
            if let (Some(_), Some(since_ns)) = (&attempt, pending.waits_since_ns) {
                self.outbox.counters.waited(pending.wait(), self.measured_ns.saturating_sub(since_ns));
            }
            match attempt {
                Some(_) if pending.orphan => ended.extend(pending.file()),
                Some(answer) => {
                    if let Operation::Commit(commit) = pending.operation
                        && answer == Answer::Done
                    {
                        if self.sharing.is_alone(commit.file) {
                            self.open_granule(shared, commit.file, commit.range);
                        }
                        if !waits_for_space {
                            self.top_up(shared, pending.envelope.slot, commit.file, commit.range);
                        }
                    }
                    self.outbox.reply(pending.envelope, answer);
                    ended.extend(pending.file());
                }
                None => {
                    pending.waits_since_ns.get_or_insert(self.measured_ns);
                    self.pending.keep(pending);
                }
            }
        }
        ended
    }

    fn attempt(&mut self, shared: Shared<'_>, pending: &mut Pending) -> Option<Answer> {
        let slot = pending.envelope.slot;
        if let Some(file) = pending.touched().filter(|file| self.sharing.holds_back(*file)) {
            return self.sharing.why_stuck(file).map(Answer::stuck);
        }
        if let Some(file) = pending.asks().filter(|file| self.sharing.asks(*file)) {
            return self.attempt_shared(shared, file, pending);
        }
        if let Operation::Commit(Commit { step: CommitStep::Asked, .. }) = pending.operation {
            // Its owner may order it still, once it is answered what this node has of the file.
            return None;
        }
        self.end_flight(pending.arrival);
        match pending.operation {
            Operation::Commit(_) => self.attempt_commit(shared, pending),
            Operation::Slab { file, range, until_ns } => self.attempt_slab(shared, slot, file, range, until_ns),
            Operation::Write { .. } => self.attempt_write(shared, pending),
            Operation::Truncate { file, size } => {
                self.attempt_truncation(shared, slot, file, size, pending.waits_since_ns)
            }
            Operation::Rearrange { file, from, ref mut barrier } => {
                self.attempt_rearrangement(shared, slot, file, from, barrier)
            }
            Operation::Sync { file, barrier } => self.attempt_sync(file, barrier),
            Operation::Open { file, barrier, longer } => self.attempt_open(file, barrier, longer),
            Operation::WriteBack { file, range } => self.attempt_write_back(file, range),
            Operation::Bypass { file, writes } => self.attempt_bypass(file, writes),
            Operation::Read(read) => Some(self.read(shared, slot, read)),
            // The file has become this node's alone meanwhile.
            Operation::Confirm { .. } => Some(Answer::NoSpace),
            Operation::WriteDone { file, range } => self.attempt_write_done(pending, file, range),
            Operation::ToOwn { file, range, until_ns } => self.attempt_to_own(shared, slot, file, range, until_ns),
            Operation::Leave { file } => self.attempt_leave(shared, file),
        }
    }
}
