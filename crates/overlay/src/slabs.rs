//! Slabs: flash space leased to a thread, so that an absorbed write costs one round trip.
//!
//! A slab is a run of pages of the file's data file. A thread takes from it ahead of the agent, and gets more before it
//! has to ask. The agent keeps the slabs of each slot and shows them in
//! it: what the slot says is never taken for space, as any process of the run can write there. A commit takes
//! from the front of a slab, and what is left too short is topped up in the same answer.

use std::sync::atomic::Ordering;

use crate::extent_map::Mapped;
use crate::flash_space::Run;
use crate::journal::Record;
use crate::limits::REQUEST_BYTES_MAX;
use crate::output::{Answer, Output};
use crate::overlay::Overlay;
use crate::parts::reserve::Reserve;
use crate::parts::slabs::Slab;
use headstart_protocol::lease::Place;
use headstart_protocol::shared::{PIECES_MAX, Shared};
use headstart_units::PAGE_BYTES;
use headstart_units::request::Range;

/// Data files grow in steps of this many bytes, so that absorbed writes do not extend them one by one.
const GROWTH_BYTES: u64 = 16 << 20;

/// No data file is longer than this, so that no slab found in a slot ends behind it.
const SLAB_END_MAX: u64 = 1 << 44;

/// How many pages at the front of a slab are used: it is used from the front, so that the last mapped page tells.
fn pages_used(extents: impl Iterator<Item = Mapped>, slab: Run) -> u64 {
    let end = slab.page + slab.pages;
    let runs = extents
        .map(|mapped| Run::touching(mapped.data_file, mapped.place, mapped.range.length))
        .filter(|run| run.data_file == slab.data_file && run.page + run.pages > slab.page && run.page < end);
    runs.map(|run| (run.page + run.pages).min(end) - slab.page).max().unwrap_or(0)
}

impl Overlay {
    /// Leases space for a write of `range`: in one run if there is one, else in several that hold it together.
    pub(crate) fn slab(&mut self, shared: Shared<'_>, slot: u32, file: u32, range: Range) -> Answer {
        if self.is_left_alone(file) {
            return Answer::Bypassed;
        }
        if range.length > REQUEST_BYTES_MAX {
            return Answer::NoSpace;
        }
        self.make_slab_room(shared, slot, file);
        let answer = self.add_slab(shared, slot, file, range);
        if answer == Answer::NoSpace && self.threads.slabs().free_entries(slot).len() < PIECES_MAX {
            // What it holds is too little for this write. Who asks has nothing there that is not committed.
            self.return_slabs(shared, slot, None);
            return self.add_slab(shared, slot, file, range);
        }
        answer
    }

    /// Sees to it that a write of `range` that found no room gets some, as far as clean extents can give it,
    /// however little is kept free ahead of need; whether there will be enough when what is under way is
    /// done.
    pub(crate) fn room_is_coming(&mut self, file: u32, range: Range) -> bool {
        let pages = Run::touching(0, range.offset % PAGE_BYTES, range.length).pages;
        let needed = pages.saturating_mul(PAGE_BYTES).saturating_add(self.spared_bytes(file, range));
        let clean = self.mapped_bytes().saturating_sub(self.mapping.dirty_bytes());
        let can_give = self.room_bytes().saturating_add(clean) >= needed;
        while can_give
            && self.room_bytes() < needed
            && let Some((file, mapped)) = self.least_recently_used()
        {
            self.evict(file, &mapped);
            self.mapping.evicted().remember(file, mapped);
        }
        let cleaned = self.copies.write_back_bytes();
        let is_coming = self.space_is_coming() && self.room_bytes().saturating_add(cleaned) >= needed;
        self.barrier.want_if(is_coming && self.is_worth_a_barrier());
        is_coming
    }

    /// After commits that nobody asked for: makes sure that the slot can take `bytes` without asking, in writes like
    /// `range`. What is added is shown once its data file is there, and the record of that.
    pub(crate) fn refill(&mut self, shared: Shared<'_>, slot: u32, file: u32, range: Range, bytes: u64) {
        for _ in 0..PIECES_MAX / 2 {
            let slabs = self.threads.slabs().of(slot);
            let left: u64 = slabs.iter().filter(|slab| slab.file == file).map(|slab| slab.run.bytes().length).sum();
            let is_full = self.threads.slabs().free_entries(slot).is_empty();
            if left >= bytes || is_full || self.lease_slab(shared, slot, file, range).is_empty() {
                return;
            }
        }
    }

    /// A slab is shown that a thread did not ask for.
    pub fn show_slab(&mut self, shared: Shared<'_>, slot: u32, at: usize, page: u64) {
        self.threads.slabs_mut().reveal(shared, slot, at, page);
    }

    /// After a commit: makes sure that the slot can take another write like `range` without asking. Slabs it
    /// has stay, as the thread may be about to commit more of them.
    pub(crate) fn top_up(&mut self, shared: Shared<'_>, slot: u32, file: u32, range: Range) {
        if !self.slab_left(slot, file, range) {
            self.add_slab(shared, slot, file, range);
        }
    }

    /// Adds slabs for a write of `range`, which the thread sees at once, as it waits for the answer.
    fn add_slab(&mut self, shared: Shared<'_>, slot: u32, file: u32, range: Range) -> Answer {
        let added = self.lease_slab(shared, slot, file, range);
        for (at, page) in &added {
            self.show_slab(shared, slot, *at, *page);
        }
        if added.is_empty() { Answer::NoSpace } else { Answer::Done }
    }

    /// Adds slabs for a write of `range`, which are shown in their turn: their entries and first pages.
    fn lease_slab(&mut self, shared: Shared<'_>, slot: u32, file: u32, range: Range) -> Vec<(usize, u64)> {
        let Some(data_file) = self.data_file_of(shared, file) else { return Vec::new() };
        let pages = Run::touching(data_file, range.offset % PAGE_BYTES, range.length).pages;
        let spared = self.spared_bytes(file, range);
        if self.space.available_bytes() < pages.saturating_mul(PAGE_BYTES).saturating_add(spared) {
            return Vec::new();
        }
        let size_before = self.space.size_bytes(data_file);
        let granted = self.grant(shared, slot, (file, data_file), pages, spared);
        let size = self.space.size_bytes(data_file);
        if size > size_before || size_before == 0 {
            self.outbox.push(Output::Grow { data_file, size: size.next_multiple_of(GROWTH_BYTES) });
            let punched = self.space.punch_excess(data_file);
            punched.into_iter().for_each(|run| self.outbox.push(Output::Punch(run)));
        }
        granted.iter().for_each(|&(at, page)| self.outbox.push(Output::Show { slot, at, page }));
        granted
    }

    /// What a write of `range` leaves free. Regions give way where the least reserve is short: it is for
    /// writes within regions, or others would displace one region after the other.
    fn spared_bytes(&self, file: u32, range: Range) -> u64 {
        let within = self.files[&file].placed.holding(range.offset).is_some();
        if within || !self.has_regions() { 0 } else { Reserve::least_bytes(self.space.capacity_bytes()) }
    }

    fn grant(
        &mut self,
        shared: Shared<'_>,
        slot: u32,
        (file, data_file): (u32, u32),
        pages: u64,
        spared_bytes: u64,
    ) -> Vec<(usize, u64)> {
        let empty = self.threads.slabs().free_entries(slot);
        let Some(&first) = empty.first() else { return Vec::new() };
        let available_bytes = self.space.available_bytes().saturating_sub(spared_bytes);
        let fair = available_bytes / PAGE_BYTES / (2 * self.threads.count().max(1) as u64);
        let most = fair.min(self.threads.slabs().bytes_max() / PAGE_BYTES).max(pages);
        if let Some(run) = self.space.allocate(data_file, pages, most) {
            self.put_slab(shared, slot, first, Slab { file, run, is_shown: false });
            return vec![(first, run.page)];
        }
        let mut runs = Vec::new();
        let mut missing = pages;
        while missing > 0 && runs.len() < empty.len() {
            let longest = self.space.longest_free(data_file).min(missing).max(1);
            let Some(run) = self.space.allocate(data_file, longest, missing) else { break };
            missing -= run.pages;
            runs.push(run);
        }
        if missing > 0 {
            runs.into_iter().for_each(|run| self.space.give_back(run));
            return Vec::new();
        }
        let mut added = Vec::new();
        for (at, run) in empty.into_iter().zip(runs) {
            self.put_slab(shared, slot, at, Slab { file, run, is_shown: false });
            added.push((at, run.page));
        }
        added
    }

    fn put_slab(&mut self, shared: Shared<'_>, slot: u32, at: usize, slab: Slab) {
        self.threads.slabs_mut().set(shared, slot, at, slab);
        self.pacing.reserve_mut().on_write(slab.run.bytes().length, self.measured_ns);
    }

    /// Frees entries of the slot's slab table: those of other files if the table is full.
    fn make_slab_room(&mut self, shared: Shared<'_>, slot: u32, file: u32) {
        if self.threads.slabs().free_entries(slot).len() > PIECES_MAX / 2 {
            return;
        }
        for other in self.threads.slabs().of(slot).iter().filter(|slab| slab.file != file) {
            self.return_slabs(shared, slot, Some(other.file));
        }
        if self.threads.slabs().free_entries(slot).is_empty() {
            self.return_slabs(shared, slot, Some(file));
        }
    }

    /// Takes the pages of a commit from the slab they lie in; false if they lie in none. The slot shows it
    /// only once the commit's record is appended ([`Overlay::show_slabs`]): an agent that starts before that
    /// must find the pages in the slab.
    pub(crate) fn consume(&mut self, slot: u32, file: u32, used: Run) -> bool {
        let Some(before) = self.threads.slabs_mut().consume(slot, file, used) else { return false };
        self.space.give_back(before);
        true
    }

    /// Shows the slabs of the slot in it as they are.
    pub(crate) fn show_slabs(&mut self, shared: Shared<'_>, slot: u32) {
        self.threads.slabs_mut().show(shared, slot);
    }

    /// Pages in slabs of the slot.
    #[cfg(test)]
    pub(crate) fn slab_pages(&self, slot: u32) -> u64 {
        self.threads.slabs().of(slot).iter().map(|slab| slab.run.pages).sum()
    }

    /// At a start: takes over the slabs that a living thread holds, as its slot shows them, without the pages
    /// at their front whose commits are in the map. One that the journal does not know was never told to the
    /// thread. Nothing else is allocated where they lie, so that a slot that says too much is believed at its
    /// process's own cost.
    pub(crate) fn adopt_slabs(&mut self, shared: Shared<'_>, slot: u32) {
        for (at, piece) in shared.slots[slot as usize].slabs.iter().enumerate() {
            let Place { file, data_file, place, length } = piece.read();
            let run = Run { data_file, page: place / PAGE_BYTES, pages: length / PAGE_BYTES };
            let possible = place.is_multiple_of(PAGE_BYTES) && place.saturating_add(length) <= SLAB_END_MAX;
            let used = self.files.get(&file).map_or(0, |known| pages_used(known.map.iter(), run));
            let rest = Run { page: run.page + used, pages: run.pages - used, ..run };
            let known = possible && self.data_files.owner(data_file) == Some(file);
            if known && rest.pages > 0 && self.space.adopt_slab(rest) {
                self.threads.slabs_mut().set(shared, slot, at, Slab { file, run: rest, is_shown: true });
                // The agent may have been killed before it made the data file long enough, or made it at all.
                self.outbox.push(Output::Grow { data_file, size: self.space.size_bytes(data_file) });
            } else {
                shared.slots[slot as usize].revoke_slab(at);
            }
        }
    }

    /// Whether a slab of the slot holds another write like `range` next to it.
    fn slab_left(&self, slot: u32, file: u32, range: Range) -> bool {
        let pages = Run::touching(0, range.offset % PAGE_BYTES, range.length).pages;
        let fits = |slab: &Slab| {
            slab.file == file && slab.run.pages >= pages && !self.data_files.has_failed(slab.run.data_file)
        };
        self.threads.slabs().of(slot).iter().any(fits)
    }

    /// Returns the slot's slabs, all or those of one file.
    pub(crate) fn return_slabs(&mut self, shared: Shared<'_>, slot: u32, file: Option<u32>) {
        for run in self.threads.slabs_mut().take(shared, slot, file) {
            self.pacing.reserve_mut().on_return(run.bytes().length);
            self.space.give_back(run);
        }
    }

    /// Takes the slot's slabs away without using their space again: a write of a dead thread may still land
    /// there.
    pub(crate) fn forget_slabs(&mut self, shared: Shared<'_>, slot: u32) {
        self.threads.slabs_mut().forget(shared, slot);
    }

    /// The data file that `file`'s new bytes go to, if there is one or a number for it.
    pub(crate) fn data_file_of(&mut self, shared: Shared<'_>, file: u32) -> Option<u32> {
        if let Some(data_file) = self.file(file).data_file {
            return Some(data_file);
        }
        let data_file = self.data_files.create(file)?;
        shared.header.data_files_used.fetch_max(self.data_files.next().into(), Ordering::Relaxed);
        self.append(&Record::DataFile { file, data_file });
        self.space.add_data_file(data_file, true);
        self.file(file).data_file = Some(data_file);
        Some(data_file)
    }
}
