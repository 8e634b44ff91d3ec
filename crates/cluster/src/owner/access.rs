//! Who may touch a file's slow bytes without asking its owner: holders of absence, threads told to write, and threads
//! that were writing when absence was called in.

use headstart_units::request::Range;

use crate::message::{Writers, Writing};
use crate::names::{MemberId, Seat};
use crate::rules::{Rule, kept};

/// A member whose threads may read, or read and write, the slow file until it is called in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Holder {
    member: MemberId,
    range: Range,
}

/// A call that was not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub(crate) member: MemberId,
    pub(crate) number: u64,
    pub(crate) range: Range,
}

/// A thread that writes the slow file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Writer {
    member: MemberId,
    writing: Writing,
}

/// All of them, of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Access {
    number: u64,
    holders: Vec<Holder>,
    calls: Vec<Call>,
    writers: Vec<Writer>,
    /// Which list of a member's threads was the last.
    lists: Vec<(MemberId, (u32, u64))>,
}

impl Access {
    /// Number of the last call.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Calls to be repeated.
    pub(crate) fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// A member holds a range from now on.
    pub(crate) fn grant(&mut self, member: MemberId, range: Range) {
        if !self.holders.iter().any(|holder| holder.member == member && holder.range.contains(range)) {
            self.holders.push(Holder { member, range });
            self.holders.sort_unstable_by_key(|holder| (holder.member, holder.range.offset));
        }
    }

    /// Calls in what others hold of a range, the asker too. The new calls.
    pub(crate) fn call_in(&mut self, range: Range) -> Vec<Call> {
        let (calls, number) = (&self.calls, self.number + 1);
        let called =
            |holder: &Holder| calls.iter().any(|call| call.member == holder.member && call.range.contains(range));
        let mut members: Vec<MemberId> = self
            .holders
            .iter()
            .filter(|holder| holder.range.overlaps(range))
            .filter(|holder| !called(holder))
            .map(|holder| holder.member)
            .collect();
        members.dedup();
        let new: Vec<Call> = members.into_iter().map(|member| Call { member, number, range }).collect();
        if !new.is_empty() {
            self.number = number;
            self.calls.extend(&new);
        }
        new
    }

    /// Whether something of a range is being called in.
    pub(crate) fn is_calling(&self, range: Range) -> bool {
        self.calls.iter().any(|call| call.range.overlaps(range))
    }

    /// A member answered a call: it holds nothing of the range, but these threads of it still write.
    pub(crate) fn called_in(&mut self, seat: Seat, number: u64, range: Range, writers: &Writers) {
        let member = seat.member;
        let before = self.calls.len();
        self.calls.retain(|call| (call.member, call.number, call.range) != (member, number, range));
        if self.calls.len() == before {
            return;
        }
        let mut left = Vec::new();
        for holder in self.holders.drain(..) {
            if holder.member != member || !holder.range.overlaps(range) {
                left.push(holder);
                continue;
            }
            let end = holder.range.end();
            let parts = [Range::between(holder.range.offset, range.offset.min(end)), Range::between(range.end(), end)];
            left.extend(parts.into_iter().filter(|part| !part.is_empty()).map(|range| Holder { member, range }));
        }
        self.holders = left;
        self.list(seat, writers);
    }

    /// These threads of a member write, unless a later list was heard already. Those that were told to write say
    /// themselves when they have.
    pub(crate) fn list(&mut self, seat: Seat, writers: &Writers) {
        let (member, number) = (seat.member, (seat.incarnation, writers.number));
        if self.lists.iter().any(|(other, last)| *other == member && *last >= number) || !kept(Rule::NoWriters) {
            return;
        }
        self.lists.retain(|(other, _)| *other != member);
        self.lists.push((member, number));
        self.lists.sort_unstable();
        self.writers.retain(|writer| writer.member != member || writer.writing.granted);
        let unasked = writers.threads.iter().filter(|writing| !writing.granted);
        self.writers.extend(unasked.map(|writing| Writer { member, writing: *writing }));
        self.writers.sort_unstable_by_key(|writer| (writer.member, writer.writing.slot));
    }

    /// A thread is told to write.
    pub(crate) fn go(&mut self, member: MemberId, slot: u32, range: Range) {
        self.wrote(member, slot);
        self.writers.push(Writer { member, writing: Writing { slot, range, granted: true } });
        self.writers.sort_unstable_by_key(|writer| (writer.member, writer.writing.slot));
    }

    /// It has.
    pub(crate) fn wrote(&mut self, member: MemberId, slot: u32) {
        self.writers.retain(|writer| (writer.member, writer.writing.slot) != (member, slot));
    }

    /// Whether a thread writes the slow file there.
    pub(crate) fn is_writing(&self, range: Range) -> bool {
        self.writers.iter().any(|writer| writer.writing.range.overlaps(range))
    }

    /// A member is out: nothing that it does counts any more.
    pub(crate) fn out(&mut self, member: MemberId) {
        self.holders.retain(|holder| holder.member != member);
        self.calls.retain(|call| call.member != member);
        self.writers.retain(|writer| writer.member != member);
        self.lists.retain(|(other, _)| *other != member);
    }
}
