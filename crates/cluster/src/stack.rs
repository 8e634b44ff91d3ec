//! The owner's map of a file: for each byte the records that may still count for it, newest on top, and those that are
//! not forgotten yet.
//!
//! A record that is not durable may vanish with its writer's node, and then what lay below it counts again. So what
//! lies below the newest durable record of a byte is *dead*, and so is that record itself where it is a DROP; nothing
//! else is. A record that is dead everywhere is to be forgotten by its log. Until that is durable it stays here: if
//! what covers it were forgotten first, it would count again. What covers it is a durable record above, or at last a
//! DROP, which stays until nothing is below it. A record is *shown* once its writer has appended it: before that nobody
//! may see its bytes, since the agents of owner and writer may both die while the nodes live. Merging logs is putting
//! their records in by order.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use headstart_units::request::Range;

use crate::log::{Log, Logged};
use crate::names::{FileId, MemberId, Order, Stamp};
use crate::record::{Entry, Record, What};
use crate::rules::{Rule, kept};
use crate::spans::Spans;

/// A record, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stacked {
    pub(crate) record: Record,
    /// In whose log it lies.
    pub(crate) of: MemberId,
    /// Where, once it is appended.
    pub(crate) at: Option<u64>,
    /// Whether it survives its node.
    pub(crate) durable: bool,
    /// How many of its bytes may still count.
    live: u64,
}

/// Records by order and by offset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stack {
    records: BTreeMap<Order, Stacked>,
    spans: Spans<Order>,
    /// By the log in which they lie.
    of: BTreeSet<(MemberId, Order)>,
    /// Appended and not durable, by their places in logs.
    unsynced: BTreeSet<(MemberId, u64, Order)>,
    unshown: BTreeSet<Order>,
    /// Dead records that are to be forgotten, and nobody has been told.
    ripe: BTreeSet<Order>,
}

impl Stack {
    /// Whether no log has a record.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// A record that was ordered and not appended yet.
    pub(crate) fn order(&mut self, record: Record, of: MemberId) {
        self.put(record, of, None, false);
    }

    /// What a member's log says.
    pub(crate) fn merge(&mut self, of: MemberId, log: &[Logged]) {
        for logged in log {
            if let Entry::Record(record) = logged.entry {
                self.put(record, of, Some(logged.at), logged.durable);
            }
        }
    }

    fn put(&mut self, record: Record, of: MemberId, at: Option<u64>, durable: bool) {
        let (order, range) = (record.order, record.range);
        self.recount(range, |stack| {
            stack.spans.add(range, order);
            stack.of.insert((of, order));
            stack.records.insert(order, Stacked { record, of, at, durable, live: 0 });
            stack.note(order);
        });
    }

    /// Keeps what is listed by state in line with a record.
    fn note(&mut self, order: Order) {
        let Some(Stacked { of, at, durable, .. }) = self.records.get(&order) else {
            return;
        };
        match at {
            None => self.unshown.insert(order),
            Some(_) => self.unshown.remove(&order),
        };
        if let Some(at) = at {
            let key = (*of, *at, order);
            match durable {
                false => self.unsynced.insert(key),
                true => self.unsynced.remove(&key),
            };
        }
    }

    /// The record was appended.
    pub(crate) fn appended(&mut self, order: Order, at: u64, durable: bool) {
        self.know(order, Some(at), durable);
    }

    fn know(&mut self, order: Order, at: Option<u64>, durable: bool) {
        let Some(range) = self.records.get(&order).map(|stacked| stacked.record.range) else {
            return;
        };
        self.recount(range, |stack| {
            if let Some(stacked) = stack.records.get_mut(&order) {
                stacked.at = at.or(stacked.at);
                stacked.durable |= durable;
            }
            stack.note(order);
        });
    }

    /// A member's log is durable up to there.
    pub(crate) fn synced(&mut self, of: MemberId, upto: u64) {
        let lowest = (of, 0, Order { epoch: Default::default(), seq: 0 });
        let covered: Vec<Order> = self
            .unsynced
            .range(lowest..)
            .take_while(|(member, at, _)| *member == of && *at < upto)
            .map(|(_, _, order)| *order)
            .collect();
        for order in covered {
            self.know(order, None, true);
        }
    }

    /// Whether something of a member is not durable.
    pub(crate) fn awaits(&self, of: MemberId) -> bool {
        let lowest = (of, 0, Order { epoch: Default::default(), seq: 0 });
        self.unsynced.range(lowest..).next().is_some_and(|(member, ..)| *member == of)
    }

    /// Whether something of any member is not durable.
    pub(crate) fn awaits_any(&self) -> bool {
        !self.unsynced.is_empty()
    }

    /// Whether dead records are to be forgotten, and nobody has been told.
    pub(crate) fn is_ripening(&self) -> bool {
        !self.ripe.is_empty()
    }

    /// Whether a member's log has records of the file.
    pub(crate) fn has_of(&self, of: MemberId) -> bool {
        self.of_member(of).next().is_some()
    }

    fn of_member(&self, of: MemberId) -> impl Iterator<Item = &Stacked> {
        let lowest = (of, Order { epoch: Default::default(), seq: 0 });
        let all = self.of.range(lowest..).take_while(move |(member, _)| *member == of);
        all.filter_map(|(_, order)| self.records.get(order))
    }

    /// A member is out: what its cut log has counts for ever, and nothing else of it.
    pub(crate) fn cut(&mut self, file: FileId, of: MemberId, log: &Log) {
        let gone = |order: &Order| log.find(file, *order).is_none();
        let all: Vec<Order> = self.of_member(of).map(|stacked| stacked.record.order).filter(gone).collect();
        all.into_iter().for_each(|order| self.forget(order));
        self.merge(of, &log.of(file));
    }

    /// Members whose logs have records of the file.
    pub(crate) fn members(&self) -> Vec<MemberId> {
        let last = Order { epoch: Stamp { view: u64::MAX, count: u64::MAX }, seq: u64::MAX };
        let behind = |member: MemberId| (Bound::Excluded((member, last)), Bound::Unbounded);
        let first = self.of.first().map(|(member, _)| *member);
        let next = |member: &MemberId| self.of.range(behind(*member)).next().map(|(member, _)| *member);
        std::iter::successors(first, next).collect()
    }

    /// Whether all that a member's log has of the file is dead, and covers nothing that other logs have.
    pub(crate) fn is_drained(&self, of: MemberId) -> bool {
        let covers = |stacked: &Stacked| self.covers_others(stacked) && kept(Rule::DismissDrop);
        self.of_member(of).all(|stacked| stacked.live == 0 && !covers(stacked))
    }

    /// Whether without a DROP a record of another log would count again. What its own log has goes with it.
    fn covers_others(&self, Stacked { record, of, .. }: &Stacked) -> bool {
        let others = |order: &Order| self.records[order].of != *of;
        record.what == What::Drop
            && self.spans.over(record.range).any(|(_, over)| {
                let above = over.iter().rev().take_while(|other| **other > record.order);
                let mut below = over.iter().take_while(|other| **other < record.order);
                below.any(others) && !above.into_iter().any(|other| self.records[other].durable)
            })
    }

    /// Its log has forgotten a record, and that is durable; or it was never there.
    pub(crate) fn forget(&mut self, order: Order) {
        let Some(Stacked { record, of, at, .. }) = self.records.get(&order).cloned() else {
            return;
        };
        self.recount(record.range, |stack| {
            stack.spans.retain(record.range, |other| *other != order);
            stack.records.remove(&order);
            stack.of.remove(&(of, order));
            stack.unsynced.remove(&(of, at.unwrap_or_default(), order));
            stack.unshown.remove(&order);
            stack.ripe.remove(&order);
        });
    }

    /// A record.
    pub(crate) fn get(&self, order: Order) -> Option<&Stacked> {
        self.records.get(&order)
    }

    /// Records that wait for their writers.
    pub(crate) fn unshown(&self) -> impl Iterator<Item = &Stacked> {
        self.unshown.iter().filter_map(|order| self.records.get(order))
    }

    /// Whether a record that may count for a byte of the range waits for its writer.
    pub(crate) fn is_unshown(&self, range: Range) -> bool {
        !self.unshown.is_empty()
            && self.spans.over(range).any(|(_, over)| self.live(over).iter().any(|order| self.unshown.contains(order)))
    }

    /// Those of the records over a byte that may count for it.
    fn live<'a>(&self, over: &'a [Order]) -> &'a [Order] {
        for (at, order) in over.iter().enumerate().rev() {
            let stacked = &self.records[order];
            if stacked.durable && stacked.record.what == What::Drop {
                return &over[at + 1..];
            }
            if stacked.durable || !kept(Rule::KeepBelow) {
                return &over[at..];
            }
        }
        over
    }

    /// Whether nothing of the range is mapped, whatever nodes die. A DROP that is not durable does not suffice: if its
    /// writer dies, what it covered is back, and hides what others wrote to the slow file and synced.
    pub(crate) fn absent(&self, range: Range) -> bool {
        (!kept(Rule::AbsentUndurable) && self.is_dropped(range))
            || self.spans.over(range).all(|(_, over)| self.live(over).is_empty())
    }

    /// Whether a DROP is on top of all that is mapped, durable or not.
    pub(crate) fn is_dropped(&self, range: Range) -> bool {
        let dropped = |order: &Order| self.records[order].record.what == What::Drop;
        self.spans.over(range).all(|(_, over)| self.live(over).last().is_none_or(dropped))
    }

    /// The record on top at the range's first byte, and how far it is that.
    pub(crate) fn top(&self, range: Range) -> (Range, Option<&Stacked>) {
        let mut top = None;
        let mut upto = range.offset;
        let end = (Range::between(range.end(), range.end()), [].as_slice());
        for (part, over) in self.spans.over(range).chain([end]) {
            if part.offset > upto {
                // Nothing lies over the bytes between.
                if top.is_some_and(|top: Option<Order>| top.is_some()) {
                    break;
                }
                (top, upto) = (Some(None), part.offset);
            }
            let here = self.live(over).last().copied();
            if part.is_empty() || top.is_some_and(|top| top != here) {
                break;
            }
            (top, upto) = (Some(here), part.end());
        }
        (Range::between(range.offset, upto), top.flatten().and_then(|order| self.records.get(&order)))
    }

    /// The first parts of a range on which bytes on flash are on top.
    pub(crate) fn mapped(&self, range: Range, most: usize) -> Vec<Range> {
        let mapped = |order: &&Order| matches!(self.records[order].record.what, What::Map { .. });
        let top = |over: &[Order]| self.live(over).last().filter(mapped).copied();
        let parts = self.spans.over(range).filter_map(|(part, over)| Some((part, top(over)?))).take(most);
        let mut joined: Vec<(Range, Order)> = Vec::new();
        for (part, top) in parts {
            match joined.last_mut() {
                Some((last, of)) if *of == top && last.end() == part.offset => last.length += part.length,
                _ => joined.push((part, top)),
            }
        }
        joined.into_iter().map(|(part, _)| part).collect()
    }

    /// Dead records that are to be forgotten now: nobody has been told of them.
    pub(crate) fn take_ripe(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.ripe).into_iter().collect()
    }

    /// Changes something about records of a range, and finds out what died by it.
    fn recount(&mut self, range: Range, change: impl FnOnce(&mut Stack)) {
        let before = self.count(range);
        for (order, bytes) in before {
            if let Some(stacked) = self.records.get_mut(&order) {
                stacked.live -= bytes;
            }
        }
        change(self);
        for (order, bytes) in self.count(range) {
            if let Some(stacked) = self.records.get_mut(&order) {
                stacked.live += bytes;
            }
        }
        for order in self.spans.of(range) {
            // While logs are merged, what a DROP covers may come after it.
            match self.is_ripe(order) {
                true => self.ripe.insert(order),
                false => self.ripe.remove(&order),
            };
        }
    }

    /// Bytes of the range for which records may count.
    fn count(&self, range: Range) -> Vec<(Order, u64)> {
        let parts = self.spans.over(range);
        parts.flat_map(|(part, over)| self.live(over).iter().map(move |order| (*order, part.length))).collect()
    }

    /// Whether a log is to forget a record: it is dead, and covered until it has.
    fn is_ripe(&self, order: Order) -> bool {
        let stacked = &self.records[&order];
        if stacked.live > 0 || stacked.at.is_none() {
            return false;
        }
        if stacked.record.what != What::Drop || !kept(Rule::DropKept) {
            return true;
        }
        self.spans.over(stacked.record.range).all(|(_, over)| {
            let above = over.iter().rev().take_while(|other| **other > order);
            over.first() == Some(&order) || above.into_iter().any(|other| self.records[other].durable)
        })
    }
}
