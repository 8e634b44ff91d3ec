//! What other nodes did to names of files that are known here, and where a file is that is not where it was.
//!
//! A file is its inode. While the agent has it open its path matters to the next agent alone; one that does not find a
//! file asks the others, and nobody reads older bytes meanwhile.

use headstart_cluster::{Concerned, FileId, Seat};
use headstart_protocol::shared::Shared;

use crate::journal::{Identity, Record};
use crate::overlay::Overlay;
use crate::parts::sharing::{Cluster, Standing};

impl Overlay {
    /// A directory was renamed, or two things were exchanged.
    pub fn renamed_elsewhere(&mut self, shared: Shared<'_>, old: &[u8], new: &[u8], exchanged: bool) {
        self.renamed(old, new, exchanged);
        self.progress(shared);
    }

    /// The last name of the file is gone; `is_named` as in [`Overlay::on_unlinked`].
    pub fn unlinked_elsewhere(&mut self, shared: Shared<'_>, file: FileId, is_named: impl Fn(u32) -> bool) {
        self.unlinked(shared, file.0, is_named);
        self.progress(shared);
    }

    /// A file has got another name, or is about to lose one of several. The file, if no other name of it is known then:
    /// it is to leave flash.
    pub fn named_elsewhere(&mut self, shared: Shared<'_>, file: FileId, stays: bool, path: &[u8]) -> Option<u32> {
        let nameless = self.name_changed(shared, file.0, stays, path);
        self.progress(shared);
        nameless
    }

    /// The file of this inode that has a name, as far as is known.
    pub fn named(&self, file: FileId) -> Option<u32> {
        self.numbers_of(file.0).rfind(|number| !self.files[number].names.is_unlinked())
    }

    /// The file lies there.
    pub fn is_at(&mut self, shared: Shared<'_>, number: u32, path: &[u8]) {
        let file = self.file(number);
        let identity: Identity = file.identity();
        if file.names.found_at(path) {
            self.show_left_alone(shared, number);
            self.append(&Record::File { file: number, identity, path: path.to_vec() });
            // Bytes that outlast the power are written back where the journal says the file is.
            self.barrier.want_if(self.barrier.is_asked(number) && self.files[&number].dirty_bytes > 0);
            self.progress(shared);
        }
    }

    /// The slow file is open that could not be found: what failed is tried again.
    pub fn found_again(&mut self, shared: Shared<'_>, number: u32) {
        self.file(number).write_back_error = None;
        self.pending.leaving().stir(number);
        self.progress(shared);
    }

    /// Files that other members ask for and that cannot leave flash here, since this was last asked, with the error number
    /// of the write-back; no number: one can after all. All members are to hear of it.
    pub fn take_stuck(&mut self) -> Vec<(FileId, Option<i32>)> {
        self.sharing.get_mut().map(Cluster::take_stuck).unwrap_or_default()
    }

    /// All of them, for a member that is new.
    pub fn stuck_files(&self) -> Vec<(FileId, i32)> {
        self.sharing.get().map(|cluster| cluster.stuck().collect()).unwrap_or_default()
    }

    /// A file cannot leave flash at another member, or can after all, says its agent.
    pub fn stuck_elsewhere(&mut self, shared: Shared<'_>, from: Seat, file: FileId, errno: Option<i32>) {
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.stick_elsewhere(from, file, errno);
            self.progress(shared);
        }
    }

    /// Whether another member waits for the file to leave flash.
    pub fn is_awaited_elsewhere(&self, number: u32) -> bool {
        self.sharing.get().is_some_and(|cluster| cluster.standing(number) == Standing::Leaving)
    }

    /// Whether no other member has bytes of the file on flash, as far as is known here.
    pub fn is_nobody_elses(&self, file: FileId) -> bool {
        self.sharing.get().is_none_or(|cluster| matches!(cluster.known(file), Standing::Alone | Standing::Absent))
    }

    /// Who is to hear of the file.
    pub fn concerned(&self, file: FileId) -> Concerned {
        self.sharing.get().map_or(Concerned::Nobody, |cluster| cluster.member.concerned(file))
    }

    /// Whether programs of other members may have a file open, of which nobody would know here.
    pub(crate) fn may_be_open_elsewhere(&self) -> bool {
        self.view().is_some_and(|view| view.seats().len() > 1)
    }
}
