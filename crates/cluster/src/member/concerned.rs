//! Whom what happened to a file concerns, beside the protocol.

use crate::member::Member;
use crate::names::{Concerned, FileId};

impl Member {
    /// Whom it concerns.
    pub fn concerned(&self, file: FileId) -> Concerned {
        if self.view.seats().is_empty() {
            return Concerned::Nobody;
        }
        let home = self.view.home(file);
        if home != self.seat { Concerned::Home(home.member) } else { self.home.concerned(&self.view, file) }
    }
}
