//! Who may touch a file's bytes without asking its owner: holders of absence, threads told to write, threads that were
//! writing when absence was called in, and threads that read flash.

use std::collections::BTreeMap;

use headstart_units::request::Range;

use crate::message::{Writers, Writing};
use crate::names::{MemberId, Seat};
use crate::rules::{Rule, kept};
use crate::spans::Spans;

/// A call that was not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub(crate) member: MemberId,
    pub(crate) number: u64,
    pub(crate) range: Range,
}

/// A thread that writes the slow file: its member, its slot, whether it was told to.
type Writer = (MemberId, u32, bool);

/// All of them, of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Access {
    number: u64,
    /// Members whose threads may read, or read and write, the slow file until it is called in.
    holders: Spans<MemberId>,
    /// Members whose threads were told to read flash, since the call of that number.
    readers: Spans<(MemberId, u64)>,
    calls: BTreeMap<(u64, MemberId), Range>,
    /// Calls of absence by their ranges.
    calling: Spans<u64>,
    writers: BTreeMap<Writer, Range>,
    writing: Spans<Writer>,
    /// Which list of a member's threads was the last.
    lists: BTreeMap<MemberId, (u32, u64)>,
}

/// All bytes.
const ALL: Range = Range { offset: 0, length: u64::MAX };

impl Access {
    /// Number of the last call.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Calls to be repeated.
    pub(crate) fn calls(&self) -> impl Iterator<Item = Call> {
        self.calls.iter().map(|((number, member), range)| Call { member: *member, number: *number, range: *range })
    }

    /// A member holds a range from now on.
    pub(crate) fn grant(&mut self, member: MemberId, range: Range) {
        self.holders.add(range, member);
    }

    /// A member's thread reads flash from now on; nobody hears when it has.
    pub(crate) fn grant_flash(&mut self, member: MemberId, range: Range) {
        self.readers.retain(range, |(other, _)| *other != member);
        self.readers.add(range, (member, self.number));
    }

    /// Calls in what others hold of a range, the asker too. The new calls.
    pub(crate) fn call_in(&mut self, range: Range) -> Vec<Call> {
        let mut members = self.holders.of(range);
        members.retain(|member| {
            let under_way = self.calling.of(Range::new(range.offset, 1));
            let mut ranges = under_way.iter().filter_map(|number| self.calls.get(&(*number, *member)));
            !ranges.any(|called| called.contains(range))
        });
        let new = self.call(members, range);
        if !new.is_empty() {
            self.calling.add(range, self.number);
        }
        new
    }

    /// Calls in reads of flash, of records that are dead. The new calls, and their number.
    pub(crate) fn call_readers(&mut self, range: Range) -> Vec<Call> {
        let mut members: Vec<MemberId> = self.readers.of(range).into_iter().map(|(member, _)| member).collect();
        members.dedup();
        self.call(members, range)
    }

    fn call(&mut self, members: Vec<MemberId>, range: Range) -> Vec<Call> {
        self.number += u64::from(!members.is_empty());
        let number = self.number;
        let new: Vec<Call> = members.into_iter().map(|member| Call { member, number, range }).collect();
        self.calls.extend(new.iter().map(|call| ((call.number, call.member), call.range)));
        new
    }

    /// Whether absence of a part of the range is being called in.
    pub(crate) fn is_calling(&self, range: Range) -> bool {
        self.calling.touches(range)
    }

    /// Whether a call was not answered by all.
    pub(crate) fn is_open(&self, number: u64) -> bool {
        self.calls.keys().any(|(other, _)| *other == number)
    }

    /// Whether no call is under way.
    pub(crate) fn has_no_calls(&self) -> bool {
        self.calls.is_empty()
    }

    /// A member answered a call: it holds nothing of the range, but these threads of it still write.
    pub(crate) fn called_in(&mut self, seat: Seat, number: u64, range: Range, writers: &Writers) {
        let member = seat.member;
        if self.calls.get(&(number, member)) != Some(&range) {
            return;
        }
        self.calls.remove(&(number, member));
        // No absence is granted while it is called in. Where only readers were, some may have been: it stays noted.
        if self.calling.of(range).contains(&number) {
            self.holders.retain(range, |other| *other != member);
        }
        self.answered(number, range);
        self.readers.retain(range, |(other, granted)| *other != member || *granted >= number);
        self.list(seat, writers);
    }

    /// Of a call.
    fn answered(&mut self, number: u64, range: Range) {
        if !self.is_open(number) {
            self.calling.retain(range, |other| *other != number);
        }
    }

    /// These threads of a member write, unless a later list was heard already. Those that were told to write say
    /// themselves when they have.
    pub(crate) fn list(&mut self, seat: Seat, writers: &Writers) {
        let (member, number) = (seat.member, (seat.incarnation, writers.number));
        if self.lists.get(&member).is_some_and(|last| *last >= number) || !kept(Rule::NoWriters) {
            return;
        }
        self.lists.insert(member, number);
        self.end_writers(|(other, _, granted)| other == member && !granted);
        for Writing { slot, range, .. } in writers.threads.iter().filter(|writing| !writing.granted) {
            self.begin_writer((member, *slot, false), *range);
        }
    }

    fn begin_writer(&mut self, writer: Writer, range: Range) {
        self.writers.insert(writer, range);
        self.writing.add(range, writer);
    }

    fn end_writers(&mut self, over: impl Fn(Writer) -> bool) {
        let ended: Vec<Writer> = self.writers.keys().copied().filter(|writer| over(*writer)).collect();
        ended.into_iter().for_each(|writer| self.end_writer(writer));
    }

    fn end_writer(&mut self, writer: Writer) {
        if let Some(range) = self.writers.remove(&writer) {
            self.writing.retain(range, |other| *other != writer);
        }
    }

    /// A thread is told to write.
    pub(crate) fn go(&mut self, member: MemberId, slot: u32, range: Range) {
        self.wrote(member, slot);
        self.begin_writer((member, slot, true), range);
    }

    /// It has.
    pub(crate) fn wrote(&mut self, member: MemberId, slot: u32) {
        self.end_writer((member, slot, true));
        self.end_writer((member, slot, false));
    }

    /// Whether a thread writes the slow file there.
    pub(crate) fn is_writing(&self, range: Range) -> bool {
        self.writing.touches(range)
    }

    /// Whether a thread writes the slow file anywhere.
    pub(crate) fn any_writers(&self) -> bool {
        !self.writers.is_empty()
    }

    /// A member is out: nothing that it does counts any more.
    pub(crate) fn out(&mut self, member: MemberId) {
        self.holders.retain(ALL, |other| *other != member);
        self.readers.retain(ALL, |(other, _)| *other != member);
        let open: Vec<(u64, Range)> =
            self.calls().filter(|c| c.member == member).map(|c| (c.number, c.range)).collect();
        for (number, range) in open {
            self.calls.remove(&(number, member));
            self.answered(number, range);
        }
        self.end_writers(|(other, ..)| other == member);
        self.lists.remove(&member);
    }
}
