//! Slabs: flash space leased to a thread, so that an absorbed write costs one round trip.
//!
//! A slab is a run of pages of the file's data file. It stands in the thread's slot, written by the agent alone: a commit
//! takes from its front, and what is left too short is topped up in the same answer.

use std::sync::atomic::Ordering;

use super::flash_space::{PAGE_BYTES, Run};
use super::journal::Record;
use super::{Answer, Output, Overlay};
use crate::protocol::shared::{PIECES_MAX, Piece, Shared};
use crate::request::Range;

/// Data files grow in steps of this many bytes, so that absorbed writes do not extend them one by one.
const GROWTH_BYTES: u64 = 16 << 20;

fn read(piece: &Piece) -> (u32, Run) {
    let length = piece.length.load(Ordering::Relaxed);
    let run = Run {
        data_file: piece.data_file.load(Ordering::Relaxed),
        page: piece.place.load(Ordering::Relaxed) / PAGE_BYTES,
        pages: length / PAGE_BYTES,
    };
    (piece.file.load(Ordering::Relaxed), run)
}

fn write(piece: &Piece, file: u32, run: Run) {
    piece.file.store(file, Ordering::Relaxed);
    piece.data_file.store(run.data_file, Ordering::Relaxed);
    piece.place.store(run.page * PAGE_BYTES, Ordering::Relaxed);
    piece.length.store(run.pages * PAGE_BYTES, Ordering::Release);
}

impl Overlay {
    /// Leases space for a write of `range`: in one run if there is one, else in several that hold it together.
    pub(super) fn slab(&mut self, shared: Shared<'_>, slot: u32, file: u32, range: Range) -> Answer {
        if !self.files[&file].bypassers.is_empty() {
            return Answer::NoSpace;
        }
        self.make_slab_room(shared, slot, file);
        self.add_slab(shared, slot, file, range)
    }

    /// After a commit: makes sure that the slot can take another write like `range` without asking. Slabs it has stay, as the
    /// thread may be about to commit more of them.
    pub(super) fn top_up(&mut self, shared: Shared<'_>, slot: u32, file: u32, range: Range) {
        if !self.slab_left(shared, slot, file, range) {
            self.add_slab(shared, slot, file, range);
        }
    }

    fn add_slab(&mut self, shared: Shared<'_>, slot: u32, file: u32, range: Range) -> Answer {
        let data_file = self.data_file_of(file);
        let pages = Run::touching(data_file, range.offset % PAGE_BYTES, range.length).pages;
        let size_before = self.space.size_bytes(data_file);
        let granted = self.grant(shared, slot, file, data_file, pages);
        let size = self.space.size_bytes(data_file);
        if size > size_before || size_before == 0 {
            self.outputs.push(Output::Grow { data_file, size: size.next_multiple_of(GROWTH_BYTES) });
            let punched = self.space.punch_excess(data_file);
            self.outputs.extend(punched.into_iter().map(Output::Punch));
        }
        if granted { Answer::Done } else { Answer::NoSpace }
    }

    fn grant(&mut self, shared: Shared<'_>, slot: u32, file: u32, data_file: u32, pages: u64) -> bool {
        let empty: Vec<&Piece> =
            shared.slots[slot as usize].slabs.iter().filter(|slab| slab.length.load(Ordering::Relaxed) == 0).collect();
        let Some(first) = empty.first() else { return false };
        let fair = self.space.available_bytes() / PAGE_BYTES / (2 * self.processes.len().max(1) as u64);
        let most = fair.min(self.settings.slab_bytes_max / PAGE_BYTES).max(pages);
        if let Some(run) = self.space.allocate(data_file, pages, most) {
            write(first, file, run);
            return true;
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
            return false;
        }
        for (piece, run) in empty.into_iter().zip(runs) {
            write(piece, file, run);
        }
        true
    }

    /// Frees entries of the slot's slab table: those of other files if the table is full.
    fn make_slab_room(&mut self, shared: Shared<'_>, slot: u32, file: u32) {
        let slabs = &shared.slots[slot as usize].slabs;
        if slabs.iter().filter(|slab| slab.length.load(Ordering::Relaxed) == 0).count() > PIECES_MAX / 2 {
            return;
        }
        let others: Vec<u32> = slabs.iter().map(|slab| read(slab).0).filter(|owner| *owner != file).collect();
        for owner in others {
            self.return_slabs(shared, slot, Some(owner));
        }
        if slabs.iter().all(|slab| slab.length.load(Ordering::Relaxed) > 0) {
            self.return_slabs(shared, slot, Some(file));
        }
    }

    /// Takes the pages of a commit from the slab they lie in; false if they lie in none.
    pub(super) fn consume(&mut self, shared: Shared<'_>, slot: u32, file: u32, used: Run) -> bool {
        for piece in &shared.slots[slot as usize].slabs {
            let (owner, slab) = read(piece);
            let end = slab.page + slab.pages;
            if slab.pages == 0
                || owner != file
                || slab.data_file != used.data_file
                || used.page < slab.page
                || used.page + used.pages > end
            {
                continue;
            }
            self.space.give_back(Run { pages: used.page - slab.page, ..slab });
            let page = used.page + used.pages;
            write(piece, file, Run { page, pages: end - page, ..slab });
            return true;
        }
        false
    }

    /// Whether a slab of the slot holds another write like `range` next to it.
    fn slab_left(&self, shared: Shared<'_>, slot: u32, file: u32, range: Range) -> bool {
        let pages = Run::touching(0, range.offset % PAGE_BYTES, range.length).pages;
        let fits =
            |(owner, run): (u32, Run)| owner == file && run.pages >= pages && self.space.is_writable(run.data_file);
        shared.slots[slot as usize].slabs.iter().map(read).any(fits)
    }

    /// Returns the slot's slabs, all or those of one file.
    pub(super) fn return_slabs(&mut self, shared: Shared<'_>, slot: u32, file: Option<u32>) {
        for piece in &shared.slots[slot as usize].slabs {
            let (owner, run) = read(piece);
            if run.pages > 0 && file.is_none_or(|file| file == owner) {
                piece.length.store(0, Ordering::Release);
                self.space.give_back(run);
            }
        }
    }

    /// The data file that `file`'s new bytes go to.
    pub(super) fn data_file_of(&mut self, file: u32) -> u32 {
        if let Some(data_file) = self.file(file).data_file {
            return data_file;
        }
        let data_file = self.next_data_file;
        self.next_data_file += 1;
        self.append(&Record::DataFile { file, data_file });
        self.data_files.insert(data_file, file);
        self.space.add_data_file(data_file, true);
        self.file(file).data_file = Some(data_file);
        data_file
    }
}
