//! Records of absorbed bytes that may lie beyond the end of the slow file: it is made long enough between their order
//! and their entry in the log. Until then nobody is shown them, and nobody writes the slow file there.

use crate::guest::ALL;
use crate::member::Member;
use crate::names::{FileId, Order, Seat};
use crate::output::Output;
use crate::record::{Entry, Record, What};

impl Member {
    /// The runtime makes slow files long enough for what is absorbed, one record after the other: `Output::Lengthen`.
    pub fn lengthening(self) -> Member {
        Member { may_lengthen: true, ..self }
    }

    /// Whether a slow file is being made long enough.
    pub(super) fn lengthens(&self, file: FileId) -> bool {
        let first = Order { epoch: Default::default(), seq: 0 };
        self.lengthening.range((file, first)..).next().is_some_and(|((other, _), _)| *other == file)
    }

    /// Whether a record waits until its file is long enough.
    pub(super) fn lengthen(&mut self, from: Seat, record: Record) -> bool {
        if !self.may_lengthen || record.what == What::Drop {
            return false;
        }
        if self.lengthening.insert((record.file, record.order), from).is_none() {
            self.out.push(Output::Lengthen(record));
        }
        true
    }

    /// The slow file is long enough for a record, or cannot be: nothing of that is under way any more. Who claims the
    /// file meanwhile is answered now, and has the record ordered anew.
    pub fn on_lengthened(&mut self, record: Record) {
        let file = record.file;
        let Some(from) = self.lengthening.remove(&(file, record.order)) else {
            return;
        };
        let guest = self.guests.at(file);
        let takes = guest.takes(record.order.epoch) && !guest.was_forgotten(record.order);
        drop(guest);
        if takes {
            let at = self.append(Entry::Record(record));
            self.appended(from, record, at);
        }
        if !self.lengthens(file)
            && let Some(epoch) = self.claimed_while_lengthening.remove(&file)
        {
            self.out.push(Output::Fence { file, epoch, call: None, range: ALL });
        }
        self.hear_own();
    }
}
