//! What threads ask, and what each answer waits for.
//!
//! | request | waits for | then |
//! |---|---|---|
//! | slab | space that is coming, not for long | leases it, or says that there is none |
//! | commit | the granules settle; no slow read, no direct write overlaps; no truncation that came before waits; none may be extending, if it extends; not for long | cancels fetches, appends `Map`, extends the size; or is refused |
//! | read | nothing | leases flash pieces, or the slow file up to the next extent |
//! | write | write-backs on the range; an extension, if it extends too | cancels fetches, leases the slow range |
//! | anything else, under a lease of its own | nothing | the direct write is over that the thread did not say the end of |
//! | truncate | as write, on everything from the new size | the same |
//! | rearrange | no dirty byte left from there on, durably; then as truncate. Commits that reach there and come later wait | the same |
//! | open | the barrier that makes its intent durable; an extension | |
//! | sync | a barrier begun since | |
//! | write back | no dirty byte left in the range | |

mod commits;
mod direct;
mod held_up;
mod pending;
mod reads;

use crate::errno;
use crate::fingerprint::Fingerprint;
use crate::flash_space::Run;
use crate::journal::Identity;
use crate::limits::{FILE_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::leases::{Direct, Resizes};
use headstart_protocol::counters::Dropped;
use headstart_protocol::message::{Envelope, Request};
use headstart_protocol::shared::Shared;
use headstart_units::PAGE_BYTES;
use headstart_units::request::Range;
pub use held_up::WriterAboveDirty;
pub(crate) use held_up::{HELD_UP_NS, HeldUp};
use pending::CommitStep;
pub(crate) use pending::{Operation, Pending};

/// A write waits for space no longer: the disks take it then (assumed: what a request takes behind a deep
/// queue of write-backs).
const SPACE_WAIT_NS: u64 = 100_000_000;
/// Nor longer than so many times what the disks took for the last direct writes and write-backs, if that is
/// not less than a message and a barrier take on a tmpfs (assumed).
const SPACE_WAIT_TIMES: u64 = 4;
const SPACE_WAIT_NS_MIN: u64 = 1_000_000;
/// One part in so many of a new duration counts beside those before.
const DISK_WRITE_SHARE: u64 = 8;

impl Overlay {
    /// Opens are told apart from the rest because the runtime looks at the slow file first.
    pub fn on_open(
        &mut self,
        shared: Shared<'_>,
        envelope: Envelope,
        identity: Identity,
        observed: Fingerprint,
        writable: bool,
        path: &[u8],
    ) {
        self.leave_direct(shared, envelope, None);
        let process = self.threads.process(envelope.slot);
        // Number zero: the process was told that it has the file open by an agent before, and whatever that
        // waited for is durable.
        let again = envelope.seq == 0
            && self
                .find(identity)
                .map(|number| &self.files[&number])
                .is_some_and(|file| file.openers.contains(&process) && (!writable || file.writers.contains(&process)));
        let opened = self.find(identity).is_some_and(|number| !self.files[&number].openers.is_empty());
        match self.open(shared, envelope.slot, identity, observed, writable, path) {
            Err(answer) => self.outbox.reply(envelope, answer),
            Ok(file) => {
                let barrier = if again { 0 } else { self.file(file).open_barrier };
                self.enqueue(envelope, Operation::Open { file, barrier, longer: !opened });
            }
        }
        self.poll(shared);
    }

    /// Takes a request in; what can be answered at once is.
    pub(crate) fn begin(&mut self, shared: Shared<'_>, now_ns: u64, envelope: Envelope, request: &Request<'_>) {
        let slot = envelope.slot;
        self.leave_direct(shared, envelope, Some(request));
        let known = |file: u32| self.files.contains_key(&file);
        let operation = match *request {
            Request::Hello { .. }
            | Request::Open { .. }
            | Request::TimesSet { .. }
            | Request::Unlinked { .. }
            | Request::Regions { .. }
            | Request::Descriptor { .. }
            | Request::Connect
            | Request::Control { .. } => {
                unreachable!("the runtime handles these itself")
            }
            Request::Renamed { old_length, exchanged, paths } => {
                match paths.split_at_checked(old_length as usize) {
                    Some((old, new)) => self.renamed(old, new, exchanged),
                    None => return self.reply(envelope, protocol_error("a rename names two paths")),
                }
                return self.reply(envelope, Answer::Done);
            }
            Request::Name { inode, stays, path } => match self.name_changed(inode, stays, path) {
                Some(file) => {
                    self.file(file).write_back_error = None;
                    Operation::WriteBack { file, range: Range::new(0, u64::MAX) }
                }
                None => return self.reply(envelope, Answer::Done),
            },
            // Sent again to the next agent: the one before had forgotten the file and died before it could answer.
            Request::Close { file } if !known(file) => return self.reply(envelope, Answer::Done),
            Request::Slab { file, .. }
            | Request::Commit { file, .. }
            | Request::Read { file, .. }
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
                if !known(file) =>
            {
                return self.reply(envelope, protocol_error("no such file"));
            }
            Request::Close { file } => {
                self.close(shared, slot, file);
                return self.reply(envelope, Answer::Done);
            }
            Request::Slab { file, offset, length } => {
                let range = Range::new(offset, length);
                self.expect_write(file, range.end());
                // Who came first is served first.
                let answer =
                    if self.waits_for_space() { Answer::NoSpace } else { self.slab(shared, slot, file, range) };
                match answer {
                    Answer::NoSpace => self.reserve.on_no_space(length, self.measured_ns),
                    Answer::Bypassed => self.outbox.counters.refused_bypassed_total += 1,
                    _ => {}
                }
                let fits = length <= REQUEST_BYTES_MAX.min(self.space.capacity_bytes());
                if answer != Answer::NoSpace || !fits || !self.room_is_coming(file, range) {
                    self.outbox.counters.no_space_total += u64::from(answer == Answer::NoSpace);
                    return self.reply(envelope, answer);
                }
                Operation::Slab { file, range, until_ns: self.measured_ns + self.space_wait_ns() }
            }
            Request::FlashFailed { file, offset, length } => {
                let answer = self.flash_failed(file, Range::new(offset, length));
                return self.reply(envelope, answer);
            }
            Request::Read { file, offset, length } => {
                let answer = self.read(shared, slot, file, Range::new(offset, length));
                return self.reply(envelope, answer);
            }
            Request::WriteDone { file, .. }
            | Request::TruncateDone { file, .. }
            | Request::RearrangeDone { file, .. }
                if self.leases.direct(slot).is_some_and(|direct| direct.file != file) =>
            {
                return self.reply(envelope, protocol_error("the lease is on another file"));
            }
            Request::WriteDone { file, offset, length } => {
                self.write_done(slot, file, Range::new(offset, length));
                return self.leases.end_once_appended(envelope);
            }
            Request::TruncateDone { size: from, .. } | Request::RearrangeDone { from, .. }
                if self.leases.direct(slot).is_some_and(|direct| direct.range != Range::new(from, u64::MAX)) =>
            {
                return self.reply(envelope, protocol_error("the lease is for another size"));
            }
            Request::Rearrange { from: size, .. } | Request::RearrangeDone { size, .. } if size > FILE_BYTES_MAX => {
                return self.reply(envelope, protocol_error("no file is that long"));
            }
            Request::RearrangeDone { file, from, size } => {
                self.rearrange_done(shared, slot, file, from, size);
                return self.leases.end_once_appended(envelope);
            }
            Request::TruncateDone { file, size, changed } => {
                self.truncate_done(shared, slot, file, size, changed);
                return self.leases.end_once_appended(envelope);
            }
            Request::Commit { file, data_file, offset, length, place } => {
                let range = Range::new(offset, length);
                if self.threads.last_commit(slot) == Some(envelope.seq) {
                    // The journal holds it. The agent may have died before it made the file long enough, though.
                    let end = Range::new(range.end().saturating_sub(1), 1);
                    if !self.files[&file].map.touches(end) {
                        return self.reply(envelope, Answer::Done);
                    }
                    let (step, kept) = (CommitStep::Stored, range.end());
                    let operation = Operation::Commit { file, range, data_file, place, step, kept, now_ns };
                    return self.enqueue(envelope, operation);
                }
                if place % PAGE_BYTES != offset % PAGE_BYTES || offset.saturating_add(length) > FILE_BYTES_MAX {
                    return self.reply(envelope, protocol_error("a commit names bytes where none can be"));
                }
                if range.is_empty() || !self.consume(slot, file, Run::touching(data_file, place, length)) {
                    if self.is_of_before(file, data_file) {
                        // The agent before may have refused it, taken the slab back, and died before it could say so.
                        return self.reply(envelope, Answer::NoSpace);
                    }
                    return self.reply(envelope, protocol_error("a commit names bytes of no slab"));
                }
                self.granules.hold(shared, file, range);
                let (step, kept) = (CommitStep::Waiting, range.offset);
                Operation::Commit { file, range, data_file, place, step, kept, now_ns }
            }
            Request::Write { file, offset, length, extends } => {
                Operation::Write { file, range: Range::new(offset, length), extends }
            }
            Request::Truncate { size, .. } if size > FILE_BYTES_MAX => {
                return self.reply(envelope, protocol_error("no file is that long"));
            }
            Request::Truncate { file, size } => Operation::Truncate { file, size },
            Request::Rearrange { file, from } => {
                self.file(file).write_back_error = None;
                Operation::Rearrange { file, from, barrier: None }
            }
            Request::Sync { file } => {
                self.barrier.ask(file);
                if self.is_durable() && !self.barrier.is_running() {
                    let answer = self.synced(file);
                    return self.reply(envelope, answer);
                }
                self.barrier.want();
                Operation::Sync { file, barrier: self.barrier.next() }
            }
            Request::WriteBack { file, offset, length } => {
                self.file(file).write_back_error = None;
                Operation::WriteBack { file, range: Range::new(offset, length) }
            }
            Request::Sealed { file } => {
                self.file(file).is_sealed = true;
                return self.reply(envelope, Answer::Done);
            }
            Request::Bypass { file, writes } => {
                let process = self.threads.process(slot);
                let known = self.file(file);
                known.write_back_error = None;
                known.bypassers.insert(process);
                shared.open_files[slot as usize].bypassed.insert(file);
                self.cancel_fetches(file, Range::new(0, u64::MAX));
                Operation::Bypass { file, writes }
            }
        };
        self.enqueue(envelope, operation);
    }

    pub(crate) fn enqueue(&mut self, envelope: Envelope, operation: Operation) {
        self.arrivals += 1;
        self.pending.push(Pending::new(self.arrivals, envelope, operation));
    }

    fn reply(&mut self, envelope: Envelope, answer: Answer) {
        self.outbox.reply(envelope, answer);
    }

    /// Tries every pending request, oldest first, until none gets further.
    pub(crate) fn advance(&mut self, shared: Shared<'_>) {
        let mut progress = true;
        while progress {
            progress = self.start_extensions(shared);
            let mut ended = Vec::new();
            let waits_for_space = self.waits_for_space();
            // Truncations last: whether one may go ahead depends on every commit that waits, and others come
            // to their ends before.
            for truncates in [false, true] {
                let (tried, others) =
                    std::mem::take(&mut self.pending).into_iter().partition(|one| one.truncates() == truncates);
                self.pending = others;
                ended.extend(self.try_each(shared, tried, waits_for_space));
            }
            progress |= !ended.is_empty();
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
                    if let Operation::Commit { file, range, .. } = pending.operation
                        && answer == Answer::Done
                        && !waits_for_space
                    {
                        self.top_up(shared, pending.envelope.slot, file, range);
                    }
                    self.reply(pending.envelope, answer);
                    ended.extend(pending.file());
                }
                None => {
                    pending.waits_since_ns.get_or_insert(self.measured_ns);
                    self.pending.push(pending);
                }
            }
        }
        ended
    }

    fn attempt(&mut self, shared: Shared<'_>, pending: &mut Pending) -> Option<Answer> {
        let Pending { envelope, arrival, waits_since_ns: since_ns, .. } = *pending;
        match pending.operation {
            Operation::Commit { file, range, data_file, place, ref mut step, ref mut kept, now_ns } => {
                if *step == CommitStep::Waiting {
                    let flash = (data_file, place);
                    if self.untrusted.contains_key(&data_file) {
                        // A sync of the data file failed: whether this was written before or after nobody knows.
                        self.refuse_commit(shared, envelope.slot, file, range, flash);
                        return Some(Answer::NoSpace);
                    }
                    let is_known = self.is_known_to_be_held_up(shared, file, range);
                    if is_known || self.is_in_the_way(shared, arrival, file, range) {
                        let waits_ns = since_ns.map_or(0, |since_ns| self.measured_ns.saturating_sub(since_ns));
                        if !is_known && waits_ns < HELD_UP_NS {
                            return None;
                        }
                        self.remember_what_holds_up(shared, file, range);
                        self.refuse_commit(shared, envelope.slot, file, range, flash);
                        self.outbox.counters.refused_held_up_total += 1;
                        return Some(Answer::HeldUp);
                    }
                    if self.is_left_alone(file) {
                        self.refuse_commit(shared, envelope.slot, file, range, flash);
                        self.outbox.counters.refused_bypassed_total += 1;
                        return Some(Answer::Bypassed);
                    }
                    let before = self.files[&file].map.overlapping(range).last().map(|mapped| mapped.range.end());
                    self.apply(shared, envelope, file, range, (data_file, place), now_ns);
                    *kept = before.unwrap_or(range.offset);
                    *step = CommitStep::Applied;
                    self.extend_to(file, range.end());
                }
                if *step == CommitStep::Applied {
                    return None;
                }
                match self.extend(shared, file, range.end()) {
                    Some(false) => None,
                    Some(true) => Some(Answer::Done),
                    None => {
                        let kept = (*kept).max(self.files[&file].size);
                        self.take_back(file, range, (data_file, place), kept);
                        // The thread writes to disk, and is told what the file system says: a part may still fit.
                        Some(Answer::NoSpace)
                    }
                }
            }
            Operation::Slab { file, range, until_ns } => {
                let answer = self.slab(shared, envelope.slot, file, range);
                if answer == Answer::NoSpace {
                    if self.measured_ns < until_ns && self.room_is_coming(file, range) {
                        return None;
                    }
                    self.outbox.counters.no_space_total += 1;
                }
                Some(answer)
            }
            Operation::Write { file, range, extends } => {
                // The file may have become shorter since the thread looked at its size.
                let extends = extends || range.end() > self.file(file).size;
                self.grant_direct(
                    shared,
                    envelope.slot,
                    Direct {
                        file,
                        range,
                        resizes: if extends { Resizes::Extends } else { Resizes::No },
                        since_ns: self.measured_ns,
                    },
                )
            }
            Operation::Truncate { file, size } => self.grant_truncation(shared, envelope.slot, file, size),
            Operation::Rearrange { file, from, ref mut barrier } => {
                let moved = Range::new(from, u64::MAX);
                match self.written_back(file, moved).or_else(|| self.stuck(file, moved)) {
                    None => {
                        *barrier = None;
                        return None;
                    }
                    Some(Answer::Done) => {}
                    error => return error,
                }
                // Bytes that the power brings back to flash would be written over those that the kernel moved
                // to their place.
                if barrier.is_none() && (!self.is_durable() || self.barrier.is_running()) {
                    self.barrier.want();
                    *barrier = Some(self.barrier.next());
                }
                match barrier.map_or(Some(Answer::Done), |barrier| self.barrier.answer(barrier))? {
                    Answer::Done => self.grant_truncation(shared, envelope.slot, file, from),
                    error => Some(error),
                }
            }
            Operation::Sync { file, barrier } => match self.barrier.answer(barrier)? {
                Answer::Done => Some(self.synced(file)),
                error => Some(error),
            },
            Operation::Open { file, longer: true, .. } if self.files[&file].extension.is_some() => None,
            Operation::Open { file, barrier, .. } => self.barrier.answer(barrier).map(|answer| match answer {
                Answer::Done => Answer::Opened { file },
                error => error,
            }),
            Operation::WriteBack { file, range } => self.written_back(file, range).or_else(|| self.stuck(file, range)),
            Operation::Bypass { file, writes } => {
                let all = Range::new(0, u64::MAX);
                let answer = self.written_back(file, all).or_else(|| self.stuck(file, all))?;
                if writes && answer == Answer::Done {
                    self.drop_all(file, Dropped::Bypass);
                }
                Some(answer)
            }
        }
    }

    /// Whether a truncation that came before waits, which would have to wait for this commit too: one that
    /// reaches beyond its size, or for which the file has to be made longer. Were later ones applied, they
    /// could put it off for ever. So it is for who has to wait until nothing is dirty.
    fn would_hold_up_a_truncation(&self, arrival: u64, file: u32, range: Range) -> bool {
        let known = self.files[&file].size;
        self.pending.iter().any(|before| {
            let (of, size) = match before.operation {
                Operation::Truncate { file, size } => (file, size.min(known)),
                Operation::Rearrange { file, from, .. } => (file, from),
                _ => return false,
            };
            of == file && before.arrival < arrival && range.end() > size
        })
    }

    /// Whether a write waits for space.
    pub fn waits_for_space(&self) -> bool {
        self.pending.iter().any(Pending::waits_for_space)
    }

    /// Whether places will be free when what is under way is done.
    pub(crate) fn space_is_coming(&self) -> bool {
        self.space.removed_bytes() > 0 || self.copies.any_write_back()
    }

    /// How long a write may wait for space: what a disk that is busy takes, but no multiple of what this one does.
    fn space_wait_ns(&self) -> u64 {
        let taken_ns = self.disk_write_ns.map(|ns| ns.saturating_mul(SPACE_WAIT_TIMES).max(SPACE_WAIT_NS_MIN));
        taken_ns.map_or(SPACE_WAIT_NS, |ns| ns.min(SPACE_WAIT_NS))
    }

    /// A direct write took so long, from its lease to its end, or a write-back.
    pub(crate) fn disk_write_took(&mut self, ns: u64) {
        let ns = ns.min(SPACE_WAIT_NS);
        let before = self.disk_write_ns.unwrap_or(ns);
        self.disk_write_ns = Some(before - before / DISK_WRITE_SHARE + ns / DISK_WRITE_SHARE);
    }

    /// What an fsync is told after its barrier.
    fn synced(&self, file: u32) -> Answer {
        if self.has_untrusted(file, Range::new(0, u64::MAX)) { lost_bytes() } else { Answer::Done }
    }

    /// Done once nothing of the range is dirty or being written back; or why it cannot be.
    fn written_back(&mut self, file: u32, range: Range) -> Option<Answer> {
        if self.has_untrusted(file, range) {
            return Some(lost_bytes());
        }
        if let Some(errno) = self.file(file).write_back_error {
            return Some(Answer::Error { errno, text: "dirty bytes could not be written back".into() });
        }
        let dirty = self.is_dirty(file, range);
        let copying = self.copies.write_back(file, range);
        (!dirty && !copying).then_some(Answer::Done)
    }

    /// The thread is gone: what it waited for is not answered. A commit not applied yet never was
    /// acknowledged, and its bytes had landed before it was sent: it is dropped and its space returned. One
    /// that is applied goes on to its end: what it mapped must not lie beyond the end of the file.
    pub(crate) fn abandon(&mut self, slot: u32) {
        let (abandoned, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|pending| pending.envelope.slot == slot && !pending.orphan);
        self.pending = kept;
        for pending in abandoned {
            match pending.operation {
                Operation::Commit { file, range, data_file, place, step: CommitStep::Waiting, .. } => {
                    self.granules.let_go(file, range);
                    self.space.give_back(Run::touching(data_file, place, range.length));
                }
                Operation::Commit { .. } => self.pending.push(Pending { orphan: true, ..pending }),
                _ => {}
            }
        }
    }
}

fn lost_bytes() -> Answer {
    let text =
        "absorbed bytes were lost when flash could not be synced; write them anew, or truncate or remove the file";
    Answer::Error { errno: errno::EIO, text: text.into() }
}

pub(crate) fn protocol_error(text: &str) -> Answer {
    Answer::Error { errno: errno::EPROTO, text: text.into() }
}
