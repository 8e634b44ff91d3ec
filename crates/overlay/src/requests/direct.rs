//! Writes and truncations that threads make on the slow file under a lease.

use std::sync::atomic::Ordering;

use crate::journal::Record;
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::leases::{Direct, Resizes};
use headstart_protocol::counters::Dropped;
use headstart_protocol::message::{Envelope, Request};
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

impl Overlay {
    pub(crate) fn grant_direct(&mut self, shared: Shared<'_>, slot: u32, direct: Direct) -> Option<Answer> {
        let Direct { file, range, resizes, .. } = direct;
        let copying = self.copies.write_back(file, range);
        if copying || (direct.extends() && self.file(file).extension.is_some()) {
            return None;
        }
        self.cancel_fetches(file, range);
        if self.leases.slow_read_overlaps(shared, file, range) {
            // Whoever reads there sees what is written from now on, and nobody may find older bytes on flash behind it.
            self.drop_clean(file, range);
        }
        self.leases.grant_direct(slot, direct);
        shared.slots[slot as usize].grant_direct_write(file, range, resizes.flags());
        Some(Answer::Go)
    }

    /// A truncation to `size`, or a call that may move whatever lies there and behind.
    pub(crate) fn grant_truncation(&mut self, shared: Shared<'_>, slot: u32, file: u32, size: u64) -> Option<Answer> {
        // One at a time: which of two came last would decide what the size is. And not while the file is
        // about to be made long enough for bytes that would be dropped.
        if self.leases.cut_of(file).is_some() || self.pending.iter().any(|pending| pending.is_mapped_beyond(file, size))
        {
            return None;
        }
        let range = Range::new(size, u64::MAX);
        let direct = Direct { file, range, resizes: Resizes::Truncates, since_ns: self.measured_ns };
        let answer = self.grant_direct(shared, slot, direct)?;
        // A write past the new size may extend the file again from here on, and must say so.
        shared.files[file as usize].size.fetch_min(size, Ordering::SeqCst);
        self.set_size(file, self.files[&file].size.min(size));
        Some(answer)
    }

    /// The thread behind `slot` asks for something, so that it is back from the kernel: if that is not the
    /// end of its direct write, it gave that up, or never heard that it was granted. Requests numbered zero
    /// say nothing, as they come before the one that is pending, and handlers of signals that interrupt it
    /// have slots of their own.
    pub(crate) fn leave_direct(&mut self, shared: Shared<'_>, envelope: Envelope, request: Option<&Request<'_>>) {
        let ends = matches!(
            request,
            Some(Request::WriteDone { .. } | Request::TruncateDone { .. } | Request::RearrangeDone { .. })
        );
        if envelope.seq == 0 || ends {
            return;
        }
        let again = |file: u32| matches!(request, Some(Request::Truncate { file: cut, .. }) if *cut == file);
        if let Some(direct) = self.give_up_direct(shared, envelope.slot).filter(|direct| !again(direct.file)) {
            self.end_given_up_truncation(shared, direct);
        }
    }

    /// Ends the direct writes that their threads gave up.
    pub(crate) fn end_given_up(&mut self, shared: Shared<'_>) {
        let given_up = |slot: &u32| shared.slots[*slot as usize].has_given_up();
        let slots: Vec<u32> = self.leases.all_direct().map(|(slot, _)| slot).filter(given_up).collect();
        for slot in slots {
            if let Some(direct) = self.give_up_direct(shared, slot) {
                self.end_given_up_truncation(shared, direct);
            }
        }
    }

    /// It did not happen, as far as anybody was told. Who holds a lease may have closed the file, if it makes no sense.
    fn end_given_up_truncation(&mut self, shared: Shared<'_>, direct: Direct) {
        if direct.truncates() && self.files.contains_key(&direct.file) {
            self.complete_mapped_size(shared, direct.file);
        }
    }

    /// Nobody said what was written under the lease, and nobody writes under it any more. Its thread was told
    /// of an error, so that what is dirty below may stay; of what is clean the disk has to say what it is.
    fn give_up_direct(&mut self, shared: Shared<'_>, slot: u32) -> Option<Direct> {
        let direct = self.leases.direct(slot)?;
        self.drop_clean(direct.file, direct.range);
        self.evicted.forget(direct.file, direct.range);
        self.end_direct(shared, slot);
        Some(direct)
    }

    pub(crate) fn end_direct(&mut self, shared: Shared<'_>, slot: u32) {
        if self.leases.end_direct(slot).is_some() {
            shared.slots[slot as usize].revoke_lease();
        }
    }

    /// The records of direct writes are appended: their leases end and they are answered. Not before: were
    /// the agent killed in between, the next one would find neither lease nor record. Nor may anything be
    /// committed under the lease until then.
    pub(crate) fn end_direct_writes(&mut self, shared: Shared<'_>) -> bool {
        let ended = self.leases.take_ending();
        for envelope in &ended {
            self.end_direct(shared, envelope.slot);
            self.reply(*envelope, Answer::Done);
        }
        !ended.is_empty()
    }

    pub(crate) fn write_done(&mut self, slot: u32, file: u32, range: Range) {
        let Some(direct) = self.leases.direct(slot) else {
            return; // answered before: nothing was committed under the lease
        };
        let took_ns = self.measured_ns.saturating_sub(direct.since_ns);
        let range = range.intersection(direct.range);
        self.disk_write_took(took_ns);
        self.evicted.forget(file, range);
        if self.file(file).map.touches(range) {
            self.append(&Record::Drop { file, offset: range.offset, length: range.length });
            self.carve(file, range, Dropped::DirectWrite);
        }
    }

    pub(crate) fn truncate_done(&mut self, shared: Shared<'_>, slot: u32, file: u32, size: u64, changed: bool) {
        if self.leases.direct(slot).is_none() {
            return;
        }
        if changed {
            self.cut(shared, file, size, size);
        }
        // If it did not happen: the known size went down when it was granted, and an agent that started since
        // has put off making the file long enough.
        self.complete_mapped_size(shared, file);
    }

    /// All of it was clean, and nothing was committed under the lease: whatever the kernel did, the slow file
    /// says what is there.
    pub(crate) fn rearrange_done(&mut self, shared: Shared<'_>, slot: u32, file: u32, from: u64, size: u64) {
        if self.leases.direct(slot).is_some() {
            self.cut(shared, file, from, size);
        }
    }

    /// The slow file was cut at `end`, or made longer to there; it is `size` long.
    pub(crate) fn cut(&mut self, shared: Shared<'_>, file: u32, end: u64, size: u64) {
        let beyond = Range::new(end, u64::MAX);
        self.append(&Record::Truncate { file, size: end });
        self.evicted.forget(file, beyond);
        self.carve(file, beyond, Dropped::Truncate);
        self.settle_size(shared, file, size);
        shared.files[file as usize].size.store(size, Ordering::Release);
    }

    /// Makes the file long enough for what is mapped.
    pub(crate) fn complete_mapped_size(&mut self, shared: Shared<'_>, file: u32) {
        let end = self.files[&file].map.end();
        if end > self.files[&file].size {
            self.complete_size(shared, file, end);
        }
    }
}
