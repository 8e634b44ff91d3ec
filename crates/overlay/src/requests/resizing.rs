//! Truncations under a lease, and what becomes of a file that is cut.

use std::sync::atomic::Ordering;

use headstart_protocol::counters::Dropped;
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

use super::begun::Begun;
use crate::journal::Record;
use crate::limits::FILE_BYTES_MAX;
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::leases::{Direct, Resizes};
use crate::parts::pending::Operation;

impl Overlay {
    pub(super) fn begin_truncation(&mut self, shared: Shared<'_>, file: u32, size: u64) -> Begun {
        if size > FILE_BYTES_MAX {
            return Begun::refused("no file is that long");
        }
        self.close_granules(shared, file, Range::between(size, u64::MAX));
        Begun::Waits(Operation::Truncate { file, size })
    }

    /// The thread says that its truncation is done, or that it did not happen.
    pub(super) fn end_truncate(&mut self, shared: Shared<'_>, slot: u32, file: u32, size: u64, changed: bool) -> Begun {
        if let Some(refused) = self.refused_end(slot, file, Some(size)) {
            return refused;
        }
        if changed && self.leases.direct(slot).is_some() {
            self.cut(shared, file, size, size);
        }
        Begun::Ends
    }

    /// A truncation to `size`, or a call that may move whatever lies there and behind. It overlaps others: the kernel
    /// makes one after the other, and each drops what it cut off. It waits while the file is about to be made long
    /// enough for bytes that it would drop, as any write that may change the size.
    pub(super) fn grant_truncation(&mut self, shared: Shared<'_>, slot: u32, file: u32, size: u64) -> Option<Answer> {
        let range = Range::new(size, u64::MAX);
        let direct = Direct { file, range, resizes: Resizes::Truncates, since_ns: self.measured_ns };
        let answer = self.grant_direct(shared, slot, direct)?;
        // A write past the new size may extend the file again from here on, and must say so.
        shared.files[file as usize].size.fetch_min(size, Ordering::SeqCst);
        self.set_size(file, self.files[&file].length.size().min(size));
        Some(answer)
    }

    /// The slow file was cut at `end`, or made longer to there; it was `size` long then. Where truncations overlapped,
    /// nobody knows which came last: the known size is the least of theirs, and never more than where one that is
    /// under way may cut it.
    pub(crate) fn cut(&mut self, shared: Shared<'_>, file: u32, end: u64, size: u64) {
        let beyond = Range::new(end, u64::MAX);
        let known = if self.leases.cuts_overlapped(file) { self.files[&file].length.size() } else { u64::MAX };
        let size = size.min(known);
        self.append(&Record::Truncate { file, size: end });
        self.mapping.evicted().forget(file, beyond);
        self.carve(file, beyond, Dropped::Truncate);
        self.settle_size(shared, file, size);
        shared.files[file as usize].size.store(size, Ordering::Release);
    }

    /// A truncation has ended. If it was the last one and did not happen: makes the file long enough for what is
    /// mapped, as the known size went down when it was granted, and an agent that started since has put that off.
    pub(crate) fn complete_mapped_size(&mut self, shared: Shared<'_>, file: u32) {
        let Some(known) = self.files.get(&file) else { return };
        let end = known.map.end();
        if end > known.length.size() && self.leases.cut_of(file).is_none() {
            self.complete_size(shared, file, end);
        }
    }
}
