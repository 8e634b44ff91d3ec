//! Files of which nothing that is written comes to flash: their threads see it in the shared file, and do not ask.
//!
//! What they see is a hint. A thread that saw it too late asks, or commits what it had in hand, and is refused; one that
//! saw it too long writes to the disk, as it may at any time, and asks first where a bit is set. So no order of stores
//! matters, neither with bits nor with the file's size.

use headstart_protocol::shared::Shared;

use crate::overlay::Overlay;

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

    /// The same of all files: some have become free that other members had, of which no message told.
    pub(crate) fn show_all_left_alone(&self, shared: Shared<'_>) {
        self.files.keys().for_each(|file| self.show_left_alone(shared, *file));
    }
}
