//! The table of known files: who gets a number, and when it is free again.
//!
//! A number is an index into the shared table, which has an end. A file keeps its number while somebody has
//! it open or anything of it is on flash; a file nobody has open leaves flash when numbers run short.

use std::sync::atomic::Ordering;

use crate::barrier::runs_read;
use crate::errno;
use crate::file::File;
use crate::flash_space::Run;
use crate::journal::{Identity, Record};
use crate::output::{Answer, Output};
use crate::overlay::Overlay;
use headstart_protocol::counters::Dropped;
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

/// Files that leave flash at once: it bounds the time of one step.
const BATCH: usize = 64;

impl Overlay {
    pub(crate) fn add_file(
        &mut self,
        shared: Shared<'_>,
        identity: Identity,
        path: &[u8],
        size: u64,
    ) -> Result<u32, Answer> {
        let Some(number) = self.files.free_number(shared.files.len()) else {
            return Err(Answer::Error {
                errno: errno::ENFILE,
                text: format!(
                    "{} files are open, or closed with bytes that cannot leave flash, which is the limit; close some, or see \
                     'headstart status' for what keeps the others",
                    self.files.numbers(shared.files.len())
                ),
            });
        };
        let entry = &shared.files[number as usize];
        entry.inode.store(identity.inode, Ordering::Relaxed);
        entry.read_times.forget();
        entry.size.store(size, Ordering::Relaxed);
        entry.modified_ns.store(0, Ordering::Relaxed);
        entry.size_bit.store(0, Ordering::Relaxed);
        entry.inherited.store(0, Ordering::Relaxed);
        entry.refused_end.store(0, Ordering::Relaxed);
        entry.leave_alone(false);
        entry.used.store(1, Ordering::Release);
        self.files.insert(number, File::new(identity, path.to_vec(), 0));
        self.set_size(number, size);
        self.append(&Record::File { file: number, identity, path: path.to_vec() });
        self.enter(shared, number);
        Ok(number)
    }

    /// Whether a file with this identity that is opened now has a number.
    pub fn keeps_number(&self, identity: Identity) -> bool {
        self.files.of_identity(identity).is_some_and(|number| !self.files[&number].is_gone())
    }

    /// The next file gets the first free number from here on round the table that `is_usable`; false if none
    /// is.
    pub fn seek_number(&mut self, shared: Shared<'_>, is_usable: impl FnMut(u32) -> bool) -> bool {
        self.files.seek_number(shared.files.len(), is_usable)
    }

    /// Forgets a file nobody has open when nothing of it is on flash, or when it has no name any more and
    /// nobody can have inherited it. Its bits are cleared first, by a barrier as all bits are: the journal on
    /// disk may still call bytes of it dirty, and whoever opens it again must see that an fsync has to ask.
    pub(crate) fn forget_if_done(&mut self, shared: Shared<'_>, number: u32) {
        let Some(file) = self.files.get(&number) else { return };
        self.pending.leaving().stir(number);
        if file.users.are_there() {
            return;
        }
        // What others use is written back, whoever has removed its name.
        if file.names.is_unlinked() && !self.is_owners(number) {
            if self.is_left_to_heirs(shared, number) {
                self.files.leave_to_heirs(number);
                return;
            }
            self.drop_all(number, Dropped::Unlink);
        }
        let all = Range::new(0, u64::MAX);
        let file = &self.files[&number];
        let busy = !file.map.is_empty()
            || (file.placed.any() && !file.names.is_unlinked() && !self.placing.is_following())
            || file.users.bypass_us()
            || file.length.is_extending()
            || self.copies.any_of(number)
            || self.fetches.any_of(number)
            || self.pending.any_of(number)
            || self.is_logged(number);
        if busy {
            return;
        }
        if self.granules.any(number) || self.barrier.names(number) || self.leases.quarantines(number, all) {
            self.files.forget_after_barrier(number);
            self.barrier.want_if(self.granules.any(number));
            return;
        }
        self.forget(shared, number);
    }

    fn forget(&mut self, shared: Shared<'_>, number: u32) {
        let is_unsynced = self.barrier.is_unsynced(number);
        if is_unsynced && self.files[&number].is_gone() {
            self.is_left(number);
        }
        self.append(&Record::Remove { file: number });
        self.set_size(number, 0);
        let file = self.files.remove(number);
        self.forget_regions(number, file.placed.regions());
        self.placing.forget_file(number);
        self.mapping.evicted().forget_file(number);
        self.fetches.forget_file(number);
        self.leave_number(shared, number);
        shared.files[number as usize].used.store(0, Ordering::Release);
        self.barrier.forget_file(number);
        self.outbox.push(Output::Forget(number));
        if let Some(data_file) = file.data_file {
            self.data_files.retire(data_file);
            self.remove_data_file_if_unused(shared, data_file);
        }
    }

    /// Deletes data files that hold nothing and that nobody will write to any more.
    pub(crate) fn remove_unused_data_files(&mut self, shared: Shared<'_>) {
        for data_file in self.data_files.retired() {
            self.remove_data_file_if_unused(shared, data_file);
        }
    }

    fn remove_data_file_if_unused(&mut self, shared: Shared<'_>, data_file: u32) {
        if self.barrier.is_running() {
            return; // it may sync it; its end looks again
        }
        let owner = self.data_files.owner(data_file).and_then(|owner| self.files.get(&owner));
        let written = owner.is_some_and(|file| file.data_file == Some(data_file));
        // Under a lease of before, which an agent that has started since knows from the slot alone.
        let names = |run: Run| run.data_file == data_file;
        if written
            || !self.space.is_unused(data_file)
            || self.leases.flash_readers(shared).flat_map(runs_read).any(names)
        {
            return;
        }
        self.data_files.remove(data_file);
        self.space.remove_data_file(data_file);
        self.barrier.forget_data_file(data_file);
        self.outbox.push(Output::RemoveDataFile(data_file));
    }

    /// Keeps a part of the table free ahead of need: of files nobody has open, dirty bytes go to disk and
    /// clean ones are dropped, so that the files can be forgotten. Those with the oldest numbers first.
    pub(crate) fn keep_numbers(&mut self, shared: Shared<'_>) {
        let excess = self.files.excess(shared.files.len());
        if excess == 0 {
            return;
        }
        let leaving: Vec<u32> =
            self.files.closed().filter(|number| self.may_leave(*number)).take(excess.min(BATCH)).collect();
        let all = Range::new(0, u64::MAX);
        for number in leaving {
            if self.is_logged(number) {
                continue;
            }
            if self.files[&number].dirty_bytes > 0 {
                while self.copies.may_begin() && self.write_back_in(shared, number, all) {}
            } else {
                self.drop_all(number, Dropped::Eviction);
                self.forget_if_done(shared, number);
                self.barrier.want_if(self.files.is_forgetting(number));
            }
        }
    }

    fn may_leave(&self, number: u32) -> bool {
        let file = &self.files[&number];
        let all = Range::new(0, u64::MAX);
        let stays = file.write_back_error.is_some() || self.has_untrusted(number, all);
        let stays = stays || (file.placed.any() && !self.placing.is_following());
        !file.users.are_there() && !stays && !self.files.is_forgetting(number)
    }

    /// Whether the table is full but will not stay so: an open of a file not known yet has to wait.
    pub fn awaits_number(&self, shared: Shared<'_>, identity: Identity) -> bool {
        self.files.len() >= self.files.numbers(shared.files.len())
            && self.files.of_identity(identity).is_none()
            && (self.files.any_forgetting() || self.files.closed().any(|number| self.may_leave(number)))
    }
}

#[cfg(test)]
mod tests;
