//! The part of a read that a listing says the places of ([`crate::listing`]): piece by piece, without a question or a
//! lease. It counts if the listing is the same behind all its pieces.

use headstart_units::GRANULE_BYTES;
use headstart_units::request::Range;

use super::step::{Moved, Step, Thread};
use crate::listing::Listed;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListedPart {
    listed: Listed,
    /// What is wanted of the granule.
    range: Range,
    /// Bytes read of it.
    read: u64,
    /// Length of the piece that is being read; zero: none is any more.
    length: u64,
    /// The program's memory ended: the read ends with this part.
    is_last: bool,
}

/// The end of the granule of an offset.
fn granule_end(offset: u64) -> u64 {
    (offset - offset % GRANULE_BYTES).saturating_add(GRANULE_BYTES)
}

impl ListedPart {
    /// Begins with the first bytes of `rest`, if they are listed. The thread's request is published.
    pub(super) fn begin(thread: &impl Thread, file: u32, rest: Range) -> Option<(ListedPart, Step)> {
        let listed = thread.shared().listed(file, rest.offset)?;
        let range = Range::between(rest.offset, rest.end().min(granule_end(rest.offset)));
        let mut part = ListedPart { listed, range, read: 0, length: 0, is_last: false };
        let step = part.next(thread)?;
        Some((part, step))
    }

    /// The next piece, if it is listed too.
    fn next(&mut self, thread: &impl Thread) -> Option<Step> {
        let wanted = Range::between(self.range.offset + self.read, self.range.end());
        let place = thread.shared().listed_piece(self.listed, wanted)?;
        self.length = place.length;
        let range = Range::new(wanted.offset, place.length);
        Some(Step::Flash { range, data_file: place.data_file, place: place.place })
    }

    /// A piece is read, or not: what comes next; none if it is no use to go on.
    pub(super) fn on_moved(&mut self, thread: &impl Thread, moved: Moved) -> Option<Step> {
        // Whatever failed: the place may be the file's no more, and else the agent says the same.
        let Moved::Bytes(bytes) = moved else { return None };
        self.read += bytes;
        self.is_last = bytes < std::mem::take(&mut self.length);
        let next = if self.is_last { None } else { self.next(thread) };
        Some(next.unwrap_or(Step::Look))
    }

    /// Looks whether what was read counts: so many bytes, and whether the read ends with them.
    pub(super) fn judge(&self, thread: &impl Thread, in_order: bool) -> Option<(u64, bool)> {
        let shared = thread.shared();
        if !shared.is_still_listed(self.listed) {
            return None;
        }
        shared.use_listing(self.listed, Range::new(self.range.offset, self.read), in_order);
        Some((self.read, self.is_last))
    }
}
