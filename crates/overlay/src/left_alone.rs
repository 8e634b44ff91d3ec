//! Files of which nothing that is written comes to flash: their threads see it in the shared file, and do not ask.
//!
//! What they see is a hint. A thread that saw it too late asks, or commits what it had in hand, and is refused; one that
//! saw it too long writes to the disk, as it may at any time, and asks first where a bit is set. So no order of stores
//! matters, neither with bits nor with the file's size.

use headstart_cluster::FileId;
use headstart_protocol::shared::Shared;

use crate::overlay::Overlay;
use crate::parts::sharing::Cluster;

impl Overlay {
    /// Whether what is written of the file goes to the slow file alone.
    pub(crate) fn is_left_alone(&self, file: u32) -> bool {
        self.lets_nothing_in() || !self.sharing.may_absorb(file) || self.files[&file].is_left_alone()
    }

    /// Shows threads whether it does, after anything by which that may have changed. Where all files are kept off, they
    /// see no room.
    pub(crate) fn show_left_alone(&self, shared: Shared<'_>, file: u32) {
        if let Some(known) = self.files.get(&file) {
            let is_left_alone = known.is_left_alone() || self.sharing.is_elsewhere(file);
            shared.files[file as usize].leave_alone(is_left_alone);
        }
    }

    /// The same of a file by its name among members: who owns it is another one now, or nobody.
    pub(crate) fn show_left_alone_of(&self, shared: Shared<'_>, file: FileId) {
        let numbers = self.sharing.get().map(|cluster| cluster.numbers(file)).unwrap_or_default();
        numbers.into_iter().for_each(|number| self.show_left_alone(shared, number));
    }

    /// Nobody has said in time who has the file: its threads do not ask before the next look at the view.
    pub(crate) fn refuse_for_now(&mut self, shared: Shared<'_>, file: u32) {
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.refuse(file);
            shared.files[file as usize].leave_alone(true);
        }
    }

    /// There was one.
    pub(crate) fn end_refusals(&mut self, shared: Shared<'_>) {
        let refused = self.sharing.get_mut().map(Cluster::take_refused).unwrap_or_default();
        refused.into_iter().for_each(|file| self.show_left_alone(shared, file));
    }
}
