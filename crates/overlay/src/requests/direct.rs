//! Writes that threads make on the slow file under a lease, and how such leases end.

use super::begun::Begun;
use crate::journal::Record;
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::leases::{Direct, Resizes};
use crate::parts::pending::{Operation, Pending};
use headstart_protocol::counters::Dropped;
use headstart_protocol::message::{Envelope, Request};
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

impl Overlay {
    pub(crate) fn grant_direct(&mut self, shared: Shared<'_>, slot: u32, direct: Direct) -> Option<Answer> {
        let Direct { file, range, resizes, .. } = direct;
        if self.is_busy_below(&direct) {
            return None;
        }
        self.close_granules(shared, file, range);
        self.cancel_fetches(file, range);
        // Whoever reads clean bytes from the disk may see what is written from now on, while older ones are on flash:
        // what it read does not count.
        if self.files[&file].map.touches(range) {
            shared.raise_generation(file, range);
        }
        self.leases.grant_direct(slot, direct);
        shared.slots[slot as usize].grant_direct_write(file, range, resizes.flags());
        Some(Answer::Go)
    }

    /// Whether copies are under way that a direct write would have to wait for, or, if it changes the size, an extension.
    pub(super) fn is_busy_below(&self, direct: &Direct) -> bool {
        self.copies.write_back(direct.file, direct.range)
            || (direct.extends() && self.files[&direct.file].length.is_extending())
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
        if direct.truncates() {
            self.truncation_ended(shared, direct.file);
        }
    }

    /// Nobody said what was written under the lease, and nobody writes under it any more. Its thread was told
    /// of an error, so that what is dirty below may stay; of what is clean the disk has to say what it is.
    fn give_up_direct(&mut self, shared: Shared<'_>, slot: u32) -> Option<Direct> {
        let direct = self.leases.direct(slot)?;
        self.drop_clean(direct.file, direct.range);
        self.mapping.evicted().forget(direct.file, direct.range);
        self.end_direct(shared, slot)
    }

    pub(crate) fn end_direct(&mut self, shared: Shared<'_>, slot: u32) -> Option<Direct> {
        let ended = self.leases.end_direct(slot)?;
        self.give_back_lease(slot, ended.file);
        shared.slots[slot as usize].revoke_lease();
        self.pending.leaving().stir(ended.file);
        Some(ended)
    }

    /// The records of direct writes are appended: their leases end and they are answered. Not before: were
    /// the agent killed in between, the next one would find neither lease nor record. Nor may anything be
    /// committed under the lease until then.
    pub(crate) fn end_direct_writes(&mut self, shared: Shared<'_>) -> bool {
        let ended = self.leases.take_ending();
        for envelope in &ended {
            if let Some(direct) = self.end_direct(shared, envelope.slot).filter(Direct::truncates) {
                self.truncation_ended(shared, direct.file);
            }
            self.outbox.reply(*envelope, Answer::Done);
        }
        !ended.is_empty()
    }

    /// The thread says that its direct write is done.
    pub(super) fn end_write(&mut self, slot: u32, file: u32, range: Range) -> Begun {
        if let Some(refused) = self.refused_end(slot, file, None) {
            return refused;
        }
        if self.commits() && !self.sharing.is_alone(file) {
            // Without a lease it was answered before.
            let direct = self.leases.direct(slot);
            return direct.map_or(Begun::Ends, |direct| {
                Begun::Waits(Operation::WriteDone { file, range: range.intersection(direct.range) })
            });
        }
        self.end_own_write(slot, file, range)
    }

    /// The same of a file that has become this node's alone since.
    pub(super) fn attempt_write_done(&mut self, pending: &mut Pending, file: u32, range: Range) -> Option<Answer> {
        self.end_own_write(pending.envelope.slot, file, range);
        self.end_write_once_appended(pending);
        Some(Answer::Done)
    }

    /// A direct write that waited for its end is over: it is answered when its record is appended, and not before.
    pub(crate) fn end_write_once_appended(&mut self, pending: &mut Pending) {
        if !pending.orphan {
            self.leases.end_once_appended(pending.envelope);
            pending.orphan = true;
        }
    }

    fn end_own_write(&mut self, slot: u32, file: u32, range: Range) -> Begun {
        let Some(direct) = self.leases.direct(slot) else {
            return Begun::Ends; // answered before: nothing was committed under the lease
        };
        let range = range.intersection(direct.range);
        self.pacing.disk_write_took(self.measured_ns.saturating_sub(direct.since_ns));
        self.mapping.evicted().forget(file, range);
        if self.file(file).map.touches(range) {
            self.append(&Record::Drop { file, offset: range.offset, length: range.length });
            self.carve(file, range, Dropped::DirectWrite);
        }
        Begun::Ends
    }

    /// What is told who ends a direct write under a lease that is not for that: of another file, or, of a truncation,
    /// from another size on.
    pub(super) fn refused_end(&self, slot: u32, file: u32, from: Option<u64>) -> Option<Begun> {
        let direct = self.leases.direct(slot)?;
        if direct.file != file {
            return Some(Begun::refused("the lease is on another file"));
        }
        let other = from.is_some_and(|from| direct.range != Range::new(from, u64::MAX));
        other.then(|| Begun::refused("the lease is for another size"))
    }

    pub(super) fn attempt_write(&mut self, shared: Shared<'_>, pending: &Pending) -> Option<Answer> {
        let Operation::Write { file, range, extends } = pending.operation else {
            unreachable!("the caller saw that it is one")
        };
        // The file may have become shorter since the thread looked at its size.
        let extends = extends || range.end() > self.file(file).length.size();
        if extends && self.waits_for_truncations(shared, file, pending) {
            return None;
        }
        let resizes = if extends { Resizes::Extends } else { Resizes::No };
        let direct = Direct { file, range, resizes, since_ns: self.measured_ns };
        self.grant_direct(shared, pending.envelope.slot, direct)
    }
}
