//! The owner's map of a file: for each byte the records that may still count for it, newest on top.
//!
//! A record that is not durable may vanish with its writer's node, and then what lay below it counts again. So what
//! lies below the newest durable record of a byte is garbage, and nothing else is. A record is *shown* once its writer
//! has appended it: before that nobody may see its bytes, since the agents of owner and writer may both die while the
//! nodes live. Merging logs is putting their records in by order.
//!
//! One vector of records, searched from end to end: right for the checker, and for what an owner's engine with trees
//! must equal.

use headstart_units::request::Range;

use crate::log::{Log, Logged};
use crate::names::{FileId, MemberId, Order};
use crate::record::{Entry, Record, What};
use crate::rules::{Rule, kept};

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
}

/// Records by order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stack(Vec<Stacked>);

impl Stack {
    /// A record that was ordered and not appended yet.
    pub(crate) fn order(&mut self, record: Record, of: MemberId) {
        self.put(Stacked { record, of, at: None, durable: false });
    }

    /// What a member's log says.
    pub(crate) fn merge(&mut self, of: MemberId, log: &[Logged]) {
        for logged in log {
            if let Entry::Record(record) = logged.entry {
                self.put(Stacked { record, of, at: Some(logged.at), durable: logged.durable });
            }
        }
        self.settle();
    }

    fn put(&mut self, new: Stacked) {
        let at = self.0.partition_point(|other| other.record.order < new.record.order);
        match self.0.get_mut(at) {
            Some(same) if same.record.order == new.record.order => *same = new,
            _ => self.0.insert(at, new),
        }
    }

    /// The record was appended.
    pub(crate) fn appended(&mut self, order: Order, at: u64, durable: bool) {
        for stacked in self.0.iter_mut().filter(|stacked| stacked.record.order == order) {
            stacked.at = Some(at);
            stacked.durable |= durable;
        }
        self.settle();
    }

    /// A member's log is durable up to there.
    pub(crate) fn synced(&mut self, of: MemberId, upto: u64) {
        for stacked in self.0.iter_mut().filter(|stacked| stacked.of == of) {
            stacked.durable |= stacked.at.is_some_and(|at| at < upto);
        }
        self.settle();
    }

    /// A member is out: what its cut log has counts for ever, and nothing else of it.
    pub(crate) fn cut(&mut self, file: FileId, of: MemberId, log: &Log) {
        self.0.retain(|stacked| stacked.of != of || log.find(file, stacked.record.order).is_some());
        for stacked in self.0.iter_mut().filter(|stacked| stacked.of == of) {
            stacked.at = log.find(file, stacked.record.order);
            stacked.durable = true;
        }
        self.settle();
    }

    /// Records that wait for their writers.
    pub(crate) fn unshown(&self) -> impl Iterator<Item = &Stacked> {
        self.0.iter().filter(|stacked| stacked.at.is_none())
    }

    /// Whether nothing of the range is mapped, whatever nodes die. A DROP that is not durable does not suffice: if its
    /// writer dies, what it covered is back, and hides what others wrote to the slow file and synced.
    pub(crate) fn absent(&self, range: Range) -> bool {
        let over = |stacked: &&Stacked| stacked.record.range.overlaps(range);
        if !kept(Rule::AbsentUndurable) {
            return self.0.iter().rfind(over).is_none_or(|top| top.record.what == What::Drop);
        }
        !self.0.iter().any(|stacked| over(&stacked))
    }

    /// The record on top at the range's first byte, and how far it is that.
    pub(crate) fn top(&self, range: Range) -> (Range, Option<&Stacked>) {
        let first = Range::new(range.offset, 1);
        let top = self.0.iter().rposition(|stacked| stacked.record.range.overlaps(first));
        let above = self.0.iter().skip(top.map_or(0, |at| at + 1));
        let next = above.map(|stacked| stacked.record.range.offset).filter(|start| *start > range.offset).min();
        let own = top.map_or(u64::MAX, |at| self.0[at].record.range.end());
        let end = range.end().min(own).min(next.unwrap_or(u64::MAX));
        (Range::between(range.offset, end), top.map(|at| &self.0[at]))
    }

    /// Lets go of what lies below durable records, and of a durable DROP with nothing below it.
    fn settle(&mut self) {
        let mut durable: Vec<Range> = Vec::new();
        let mut kept_records = Vec::with_capacity(self.0.len());
        for stacked in self.0.drain(..).rev() {
            if covered(stacked.record.range, &durable) {
                continue;
            }
            if stacked.durable || !kept(Rule::KeepBelow) {
                durable.push(stacked.record.range);
            }
            kept_records.push(stacked);
        }
        kept_records.reverse();
        for stacked in kept_records {
            let below = self.0.iter().any(|other| other.record.range.overlaps(stacked.record.range));
            if below || stacked.record.what != What::Drop || !stacked.durable {
                self.0.push(stacked);
            }
        }
    }
}

/// Whether ranges cover all of one.
fn covered(range: Range, by: &[Range]) -> bool {
    let mut left = vec![range];
    for cover in by {
        left = left
            .iter()
            .flat_map(|part| {
                let before = Range::between(part.offset, part.end().min(cover.offset));
                [before, Range::between(part.offset.max(cover.end()), part.end())]
            })
            .filter(|part| !part.is_empty())
            .collect();
    }
    left.is_empty()
}
