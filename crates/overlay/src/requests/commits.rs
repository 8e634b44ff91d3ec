//! Absorbed bytes enter the map.

use std::sync::atomic::Ordering;

use super::begun::Begun;
use super::held_up::HELD_UP_NS;
use crate::extent_map::{Benefit, Mapped};
use crate::flash_space::Run;
use crate::journal::Record;
use crate::limits::FILE_BYTES_MAX;
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::pending::{Commit, CommitStep, Operation, Pending};
use crate::recency::Stamp;
use headstart_protocol::counters::Dropped;
use headstart_protocol::message::Envelope;
use headstart_protocol::shared::Shared;
use headstart_units::PAGE_BYTES;
use headstart_units::request::Range;

/// What becomes of a commit.
enum Verdict {
    /// Nothing is in its way.
    Applies,
    /// It is tried again.
    Waits,
    /// Its thread is told to write the slow file.
    Refused(Answer),
}

impl Overlay {
    pub(super) fn begin_commit(&mut self, shared: Shared<'_>, envelope: Envelope, commit: Commit) -> Begun {
        let Commit { file, range, data_file, place, .. } = commit;
        if self.threads.last_commit(envelope.slot) == Some(envelope.seq) {
            // The journal holds it. The agent may have died before it made the file long enough, though.
            let end = Range::new(range.end().saturating_sub(1), 1);
            if !self.files[&file].map.touches(end) {
                return Begun::Answered(Answer::Done);
            }
            let stored = Commit { step: CommitStep::Stored, kept: range.end(), ..commit };
            return Begun::Waits(Operation::Commit(stored));
        }
        if place % PAGE_BYTES != range.offset % PAGE_BYTES || range.offset.saturating_add(range.length) > FILE_BYTES_MAX
        {
            return Begun::refused("a commit names bytes where none can be");
        }
        if range.is_empty() || !self.consume(envelope.slot, file, Run::touching(data_file, place, range.length)) {
            if self.is_of_before(file, data_file) {
                // The agent before may have refused it, taken the slab back, and died before it could say so.
                return Begun::Answered(Answer::NoSpace);
            }
            return Begun::refused("a commit names bytes of no slab");
        }
        self.hold_granules(shared, file, range);
        Begun::Waits(Operation::Commit(commit))
    }

    pub(super) fn attempt_commit(&mut self, shared: Shared<'_>, pending: &mut Pending) -> Option<Answer> {
        let Pending { envelope, arrival, waits_since_ns, .. } = *pending;
        let Operation::Commit(commit) = &mut pending.operation else { unreachable!("the caller saw that it is one") };
        if commit.step == CommitStep::Waiting {
            match self.judge(shared, arrival, waits_since_ns, commit) {
                Verdict::Waits => return None,
                Verdict::Refused(answer) => {
                    self.refuse_commit(shared, envelope.slot, commit);
                    return Some(answer);
                }
                Verdict::Applies => {}
            }
            let Commit { file, range, .. } = *commit;
            let before = self.files[&file].map.overlapping(range).last().map(|mapped| mapped.range.end());
            self.apply(shared, envelope.slot, envelope.seq, commit);
            self.granules.let_go(file, range);
            commit.kept = before.unwrap_or(range.offset);
            commit.step = CommitStep::Applied;
            self.extend_to(file, range.end());
        }
        if commit.step == CommitStep::Applied {
            return None;
        }
        if self.leases.cut_of(commit.file).is_some() {
            // The file was long enough before that was granted: the commit was answered once before.
            return Some(Answer::Done);
        }
        match self.extend(shared, commit.file, commit.range.end()) {
            Some(false) => None,
            Some(true) => Some(Answer::Done),
            None => {
                self.take_back(commit);
                // The thread writes to disk, and is told what the file system says: a part may still fit.
                Some(Answer::NoSpace)
            }
        }
    }

    /// What becomes of a commit that is not applied.
    fn judge(
        &mut self,
        shared: Shared<'_>,
        arrival: u64,
        waits_since_ns: Option<u64>,
        &Commit { file, range, data_file, .. }: &Commit,
    ) -> Verdict {
        if !self.sharing.is_alone(file) {
            self.outbox.counters.refused_bypassed_total += 1;
            return Verdict::Refused(Answer::Bypassed);
        }
        if self.data_files.has_failed(data_file) {
            // A sync of the data file failed: whether this was written before or after nobody knows.
            return Verdict::Refused(Answer::NoSpace);
        }
        let is_known = self.is_known_to_be_held_up(shared, file, range);
        if is_known || self.is_in_the_way(shared, arrival, file, range) {
            let waits_ns = waits_since_ns.map_or(0, |since_ns| self.measured_ns.saturating_sub(since_ns));
            if !is_known && waits_ns < HELD_UP_NS {
                return Verdict::Waits;
            }
            self.remember_what_holds_up(shared, file, range);
            self.outbox.counters.refused_held_up_total += 1;
            return Verdict::Refused(Answer::HeldUp);
        }
        if self.is_left_alone(file) {
            self.outbox.counters.refused_bypassed_total += 1;
            return Verdict::Refused(Answer::Bypassed);
        }
        Verdict::Applies
    }

    /// The commit takes effect: the bytes of its range are now at the place.
    pub(crate) fn apply(&mut self, shared: Shared<'_>, slot: u32, seq: u64, commit: &Commit) {
        let Commit { file, range, data_file, place, now_ns, .. } = *commit;
        self.cancel_fetches(file, range);
        self.append(&Record::Map { file, offset: range.offset, length: range.length, data_file, place, slot, seq });
        self.threads.note_commit(slot, seq);
        self.mapping.evicted().forget(file, range);
        self.carve(file, range, Dropped::Overwritten);
        let (stamp, benefit) = (Stamp::default(), Benefit::HIGHEST);
        let access = self.mapping.access_of_commit(slot, file, range);
        self.map_in(shared, file, Mapped { range, data_file, place, dirty: true, stamp, benefit }, access);
        shared.files[file as usize].modified_ns.fetch_max(now_ns, Ordering::Relaxed);
        self.outbox.counters.absorbed_requests_total += 1;
        self.outbox.counters.absorbed_bytes_total += range.length;
        self.pacing.reserve_mut().on_write(0, self.measured_ns);
    }

    /// The file could not be made long enough for a commit: its bytes beyond the end leave the map, but for
    /// those below what it keeps, where they took the place of bytes acknowledged before, and those that a later
    /// commit replaced.
    fn take_back(&mut self, &Commit { file, range, data_file, place, kept, .. }: &Commit) {
        let kept = kept.max(self.files[&file].length.size());
        let beyond = Range::between(kept.max(range.offset).min(range.end()), range.end());
        let own = |mapped: &Mapped| mapped.same_place(data_file, range.offset, place);
        let taken: Vec<Range> = self.files[&file]
            .map
            .overlapping(beyond)
            .filter(own)
            .map(|mapped| mapped.range.intersection(beyond))
            .collect();
        for Range { offset, length } in taken {
            self.append(&Record::Drop { file, offset, length });
            self.carve(file, Range::new(offset, length), Dropped::NotExtended);
        }
    }

    /// The records of commits are appended: the slabs they lie in are marked used, which must not be seen
    /// before.
    pub(crate) fn mark_used_slabs(&mut self, shared: Shared<'_>) -> bool {
        let Some(slots) = self.pending.store_commits() else { return false };
        slots.into_iter().for_each(|slot| self.show_slabs(shared, slot));
        true
    }
}
