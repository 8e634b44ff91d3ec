//! A journal that begins anew with what the overlay knows.

use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

use crate::file::File;
use crate::fingerprint::Fingerprint;
use crate::journal::{Batches, Extent, Journal, Record};
use crate::overlay::Overlay;

/// A number that no file has.
const NO_FILE: u32 = u32::MAX;

impl Overlay {
    /// The records of a journal that says what this overlay knows; closed by a barrier at `start` plus their
    /// length. The caller has synced the data files and slow files before.
    pub fn checkpoint(&mut self, start: u64) -> Vec<u8> {
        let mut journal = self.begin_anew(start);
        let end = journal.end();
        journal.append(&Record::Barrier { end });
        self.outbox.go_on_with(&journal);
        self.barrier.set_durable_end(journal.end());
        journal.take()
    }

    /// The same while programs are at work: nothing of it counts until the barrier it asks for, so that the
    /// old journal must stay in place until then. No barrier may be under way; see
    /// [`Overlay::hold_barriers`].
    pub fn begin_journal(&mut self, start: u64) -> Vec<u8> {
        let mut journal = self.begin_anew(start);
        self.outbox.go_on_with(&journal);
        self.barrier.set_durable_end(start);
        self.request_barrier();
        journal.take()
    }

    fn begin_anew(&mut self, start: u64) -> Journal {
        assert!(!self.barrier.is_running(), "a barrier under way names positions of the old journal");
        let mut journal = self.outbox.begin_journal(start);
        // Of files with one identity the one that has it comes last.
        let is_followed = |(number, file): &(&u32, &File)| !self.files.has_identity(**number, file.identity());
        let (followed, others): (Vec<_>, Vec<_>) = self.files.iter().partition(is_followed);
        for (&number, file) in followed.into_iter().chain(others) {
            journal.append(&Record::File { file: number, identity: file.identity(), path: file.names.path().to_vec() });
            if file.looks.has_intent() {
                journal.append(&Record::Intent { file: number });
            }
            if file.names.is_unlinked() {
                journal.append(&Record::Unlinked { file: number });
            }
            if let Some(Fingerprint { size, modified_ns }) = file.looks.fingerprint() {
                journal.append(&Record::Fingerprint { file: number, size, modified_ns });
            }
            if self.files.of_identity(file.identity()).is_none() {
                // The one that followed it is forgotten. That it came is said once more.
                let (file, identity) = (NO_FILE, file.identity());
                journal.append(&Record::File { file, identity, path: Vec::new() });
                journal.append(&Record::Remove { file });
            }
        }
        for (&number, file) in self.files.iter().filter(|_| !self.placing.is_following()) {
            let wanted = |region| Record::Wanted { file: number, region };
            file.placed.regions().iter().for_each(|region| journal.append(&wanted(region)));
        }
        for (data_file, file) in self.data_files.iter() {
            journal.append(&Record::DataFile { file, data_file });
        }
        self.data_files.untrusted_records().for_each(|record| journal.append(&record));
        for (slot, seq) in self.threads.last_commits() {
            journal.append(&Record::LastCommit { slot, seq });
        }
        for (&number, file) in self.files.iter().filter(|(_, file)| !self.sharing.is_listed(file.identity().inode)) {
            let mut batches = Batches::of(number);
            for mapped in file.map.iter() {
                let Range { offset, length } = mapped.range;
                let extent = Extent { offset, length, place: mapped.place, dirty: mapped.dirty };
                batches.put(&mut journal, mapped.data_file, extent);
            }
            batches.finish(&mut journal);
        }
        self.list_in(&mut journal);
        self.granules.rebase(journal.end());
        journal
    }

    /// Drops everything of a file whose slow file is gone or another one, as soon as nobody has it open.
    pub fn disown(&mut self, shared: Shared<'_>, number: u32) {
        self.unlink(number);
        self.forget_if_done(shared, number);
    }
}
