//! Truncations under a lease, and what becomes of a file that is cut.
//!
//! If the thread of one dies, the file's size says whether it happened (`deaths.rs`). So nobody else makes the file
//! longer from the grant until its end is recorded: the size bit is set, and who asks waits. Before the grant others
//! come to their ends: cheap writes that did not see the bit, direct writes, and truncations to another size. No wait is
//! longer than [`HELD_UP_NS`](super::held_up::HELD_UP_NS). What the dead may still write is not waited for.

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
use crate::parts::looks;
use crate::parts::pending::{Operation, Pending};

impl Overlay {
    pub(super) fn begin_truncation(&mut self, shared: Shared<'_>, file: u32, size: u64) -> Begun {
        if size > FILE_BYTES_MAX {
            return Begun::refused("no file is that long");
        }
        self.close_granules(shared, file, Range::between(size, u64::MAX));
        Begun::Waits(Operation::Truncate { file, size })
    }

    pub(super) fn attempt_truncation(
        &mut self,
        shared: Shared<'_>,
        slot: u32,
        file: u32,
        size: u64,
        waits_since_ns: Option<u64>,
    ) -> Option<Answer> {
        shared.announce_extension(file);
        if self.waits_for_resizing(shared, file, size, waits_since_ns) {
            return None;
        }
        let direct = self.truncation(file, size);
        if self.is_busy_below(&direct) {
            return None;
        }
        shared.lower_size(file, size);
        // Some may have begun meanwhile that took the file for longer.
        if self.waits_for_resizing(shared, file, size, waits_since_ns) {
            shared.files[file as usize].size.store(self.files[&file].length.size(), Ordering::Release);
            return None;
        }
        self.grant_truncation(shared, slot, file, size)
    }

    fn truncation(&self, file: u32, size: u64) -> Direct {
        let range = Range::new(size, u64::MAX);
        Direct { file, range, resizes: Resizes::Truncates, since_ns: self.measured_ns }
    }

    /// Whether a truncation to `size` waits for somebody who may make the file longer than that.
    fn waits_for_resizing(&mut self, shared: Shared<'_>, file: u32, size: u64, since_ns: Option<u64>) -> bool {
        looks::count(shared.used_slots().len());
        let cheap = (0..).zip(shared.used_slots()).filter(|(_, cell)| cell.cheap_extends(file, size));
        let lengthens = |direct: &Direct| match direct.truncates() {
            true => direct.range.offset != size,
            false => direct.extends() || direct.range.end() > size,
        };
        let leased = self.leases.all_direct().filter(|(_, direct)| direct.file == file && lengthens(direct));
        let slots = cheap.map(|(slot, _)| slot).chain(leased.map(|(slot, _)| slot)).collect();
        self.goes_on_waiting(shared, slots, since_ns)
    }

    /// Whether a write that makes the file longer waits for truncations: those under way, and those that came before it
    /// and would wait for ever behind such writes.
    pub(super) fn waits_for_truncations(&mut self, shared: Shared<'_>, file: u32, write: &Pending) -> bool {
        let leased = self.leases.all_direct().filter(|(_, direct)| direct.file == file && direct.truncates());
        let before = self.pending.truncations_before(write.arrival, file);
        let slots = leased.map(|(slot, _)| slot).chain(before).collect();
        self.goes_on_waiting(shared, slots, write.waits_since_ns)
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

    /// A truncation to `size`, or a call that may move whatever lies there and behind. It may overlap others: the kernel
    /// makes one after the other, and each drops what it cut off. It waits while the file is about to be made long
    /// enough for bytes that it would drop, as any write that may change the size.
    pub(super) fn grant_truncation(&mut self, shared: Shared<'_>, slot: u32, file: u32, size: u64) -> Option<Answer> {
        let answer = self.grant_direct(shared, slot, self.truncation(file, size))?;
        // A write past the new size may extend the file again from here on, and must say so.
        shared.lower_size(file, size);
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
    pub(crate) fn truncation_ended(&mut self, shared: Shared<'_>, file: u32) {
        let Some(known) = self.files.get(&file) else { return };
        let end = known.map.end();
        if end > known.length.size() && self.leases.cut_of(file).is_none() {
            self.complete_size(shared, file, end);
        }
        self.clear_size_bit(shared, file);
    }

    /// Writes that make the file longer need not ask any more, if nobody changes its size. A truncation that waits sets the
    /// bit again.
    pub(crate) fn clear_size_bit(&mut self, shared: Shared<'_>, file: u32) {
        let Some(known) = self.files.get(&file) else { return };
        let cut = || self.leases.cut_of(file).is_some() || self.leases.is_cut_short(file);
        if !known.length.is_extending() && !cut() {
            shared.end_extension(file);
        }
    }
}
