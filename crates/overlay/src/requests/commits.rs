//! Absorbed bytes enter the map.

use std::sync::atomic::Ordering;

use super::pending::{CommitStep, Operation};
use crate::extent_map::{Benefit, Mapped};
use crate::journal::Record;
use crate::overlay::Overlay;
use crate::recency::Stamp;
use headstart_protocol::counters::Dropped;
use headstart_protocol::message::Envelope;
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

impl Overlay {
    /// The commit takes effect: the bytes of `range` are now at the place.
    pub(crate) fn apply(
        &mut self,
        shared: Shared<'_>,
        envelope: Envelope,
        file: u32,
        range: Range,
        (data_file, place): (u32, u64),
        now_ns: u64,
    ) {
        self.cancel_fetches(file, range);
        self.append(&Record::Map {
            file,
            offset: range.offset,
            length: range.length,
            data_file,
            place,
            slot: envelope.slot,
            seq: envelope.seq,
        });
        self.threads.note_commit(envelope.slot, envelope.seq);
        self.evicted.forget(file, range);
        self.carve(file, range, Dropped::Overwritten);
        let (stamp, benefit) = (Stamp::default(), Benefit::HIGHEST);
        let access = self.access(envelope.slot, file, range);
        self.map_in(file, Mapped { range, data_file, place, dirty: true, stamp, benefit }, access);
        self.granules.let_go(file, range);
        shared.files[file as usize].modified_ns.fetch_max(now_ns, Ordering::Relaxed);
        self.outbox.counters.absorbed_requests_total += 1;
        self.outbox.counters.absorbed_bytes_total += range.length;
        self.reserve.on_write(0, self.measured_ns);
    }

    /// The file could not be made long enough for a commit: its bytes beyond the end leave the map, but for
    /// those below `kept`, where they took the place of bytes acknowledged before, and those that a later
    /// commit replaced.
    pub(crate) fn take_back(&mut self, file: u32, range: Range, (data_file, place): (u32, u64), kept: u64) {
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

    /// The records of commits are appended: the slabs they lie in are marked used, which must not be seen before.
    pub(crate) fn mark_used_slabs(&mut self, shared: Shared<'_>) -> bool {
        let mut pending = std::mem::take(&mut self.pending);
        let mut any = false;
        for one in &mut pending {
            if let Operation::Commit { ref mut step, .. } = one.operation
                && *step == CommitStep::Applied
            {
                *step = CommitStep::Stored;
                any = true;
                if !one.orphan {
                    self.show_slabs(shared, one.envelope.slot);
                }
            }
        }
        self.pending = pending;
        any
    }
}
