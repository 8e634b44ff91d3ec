//! The owner of a file: orders its records, knows who touches its slow bytes, keeps its map.
//!
//! It serves once all that may hold something of the file have answered its claim and, where logs have records, those
//! of members that are gone are merged. From then on every request is tried in the order of arrival, again and again,
//! until nothing it waits for is left: a call, a writer's append, a copy, a member that leaves. All of these end, or
//! their member is expelled.

mod access;

use std::collections::BTreeMap;

use headstart_units::request::Range;

use crate::log::{Log, Logged};
use crate::message::{Answer, Ask, Message, Writers};
use crate::names::{FileId, MemberId, Order, RequestId, Seat, Stamp};
use crate::record::{Entry, Intent, Record, What};
use crate::rules::{Rule, kept};
use crate::stack::Stack;
use crate::view::{Fate, View};
use access::{Access, Call};

/// What an owner is told of the site with each event.
pub(crate) struct Site<'a> {
    pub(crate) me: MemberId,
    pub(crate) view: &'a View,
    /// Logs of members that are out, up to their cuts.
    pub(crate) buried: &'a BTreeMap<MemberId, Log>,
}

/// Messages to send.
pub(crate) type Mail = Vec<(MemberId, Message)>;

/// A request that is not answered yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    from: MemberId,
    id: RequestId,
    ask: Ask,
}

/// What became of a thread's last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Outcome {
    Open,
    Ordered(Order),
    Refused,
}

/// A thread's last request: an older one is an echo.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Last {
    from: MemberId,
    id: RequestId,
    outcome: Outcome,
}

/// A write-back that a member was told to make, or was found with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Copying {
    intent: Intent,
    mover: MemberId,
    /// The record's log and place; none if the claim found it.
    source: Option<(MemberId, u64)>,
}

/// An owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    file: FileId,
    epoch: Stamp,
    claiming: Vec<MemberId>,
    /// Logs of members that are gone have records, and are not merged yet.
    merges: bool,
    seq: u64,
    stack: Stack,
    access: Access,
    waiting: Vec<Waiting>,
    last: Vec<Last>,
    copies: Vec<Copying>,
    /// What copies of members that are out may still overwrite in the slow file.
    quarantine: Vec<(MemberId, Range)>,
}

impl Owner {
    /// An owner that its home has named. It claims when [`Self::again`] is called.
    pub(crate) fn named(file: FileId, epoch: Stamp, ask: Vec<MemberId>, logged: bool) -> Owner {
        Owner {
            file,
            epoch,
            claiming: ask,
            merges: logged,
            seq: 0,
            stack: Stack::default(),
            access: Access::default(),
            waiting: Vec::new(),
            last: Vec::new(),
            copies: Vec::new(),
            quarantine: Vec::new(),
        }
    }

    /// Its epoch.
    pub(crate) fn epoch(&self) -> Stamp {
        self.epoch
    }

    /// Whether it answers requests.
    pub(crate) fn serves(&self) -> bool {
        self.claiming.is_empty() && !self.merges
    }

    /// Says again all that was not answered.
    pub(crate) fn again(&mut self, site: &Site<'_>, mail: &mut Mail) {
        mail.extend(self.claiming.iter().map(|member| (*member, Message::Claim(self.file, self.epoch))));
        self.send_calls(self.access.calls(), mail);
        for stacked in self.stack.unshown() {
            mail.push((stacked.of, ordered(&stacked.record)));
        }
        for copy in &self.copies {
            let message = match copy.source {
                Some((of, place)) => Message::Copy(copy.intent, of, place),
                None => Message::Copying(copy.intent),
            };
            mail.push((copy.mover, message));
        }
        self.poll(site, mail);
    }

    fn send_calls(&self, calls: &[Call], mail: &mut Mail) {
        for call in calls {
            mail.push((call.member, Message::CallIn(self.file, self.epoch, call.number, call.range)));
        }
    }

    /// The view has changed, or the log of a member that is out was read.
    pub(crate) fn on_view(&mut self, site: &Site<'_>, mail: &mut Mail) {
        for (member, log) in site.buried {
            self.bury(site, *member, log);
        }
        self.quarantine.retain(|(member, _)| site.view.may_land(*member));
        let all_buried = site.view.gone().all(|(member, _)| site.buried.contains_key(&member));
        if self.merges && self.claiming.is_empty() && all_buried {
            for (member, log) in site.buried {
                self.stack.merge(*member, &log.of(self.file));
            }
            self.merges = false;
        }
        self.poll(site, mail);
    }

    /// Members of which something is awaited: without it somebody waits here.
    pub(crate) fn waits_for(&self) -> impl Iterator<Item = MemberId> {
        let claimed = self.claiming.iter().copied();
        let called = self.access.calls().iter().map(|call| call.member);
        let unshown = self.stack.unshown().map(|stacked| stacked.of);
        claimed.chain(called).chain(unshown).chain(self.copies.iter().map(|copy| copy.mover))
    }

    fn bury(&mut self, site: &Site<'_>, member: MemberId, log: &Log) {
        self.claiming.retain(|other| *other != member);
        self.access.out(member);
        self.waiting.retain(|waiting| waiting.from != member);
        self.last.retain(|last| last.from != member);
        self.stack.cut(self.file, member, log);
        let told = self.copies.iter().filter(|copy| copy.mover == member).map(|copy| copy.intent);
        let logged = log.under_way().into_iter().filter(|intent| intent.file == self.file);
        let under_way: Vec<Intent> = told.chain(logged).collect();
        self.copies.retain(|copy| copy.mover != member);
        for intent in under_way {
            let new = !self.quarantine.contains(&(member, intent.range));
            if new && site.view.may_land(member) && kept(Rule::NoQuarantine) {
                self.quarantine.push((member, intent.range));
            }
        }
    }

    /// A member has answered the claim.
    pub(crate) fn on_claimed(
        &mut self,
        site: &Site<'_>,
        seat: Seat,
        log: &[Logged],
        writers: &Writers,
        mail: &mut Mail,
    ) {
        let from = seat.member;
        if !self.claiming.contains(&from) {
            return;
        }
        self.claiming.retain(|member| *member != from);
        self.stack.merge(from, log);
        for writing in writers.threads.iter().filter(|writing| writing.granted) {
            self.access.go(from, writing.slot, writing.range);
        }
        self.access.list(seat, writers);
        let mut open: Vec<Intent> = Vec::new();
        for logged in log {
            match logged.entry {
                Entry::Intent(intent) => open.push(intent),
                Entry::Ended(ended) => open.retain(|intent| *intent != ended),
                Entry::Record(_) => {}
            }
        }
        self.copies.extend(open.into_iter().map(|intent| Copying { intent, mover: from, source: None }));
        self.on_view(site, mail);
    }

    /// A member has answered a call.
    pub(crate) fn on_called_in(
        &mut self,
        site: &Site<'_>,
        seat: Seat,
        call: (u64, Range),
        writers: &Writers,
        mail: &mut Mail,
    ) {
        self.access.called_in(seat, call.0, call.1, writers);
        self.poll(site, mail);
    }

    /// A member says which threads still write.
    pub(crate) fn on_still_writing(&mut self, site: &Site<'_>, seat: Seat, writers: &Writers, mail: &mut Mail) {
        self.access.list(seat, writers);
        self.poll(site, mail);
    }

    /// A record was appended by its writer.
    pub(crate) fn on_appended(&mut self, site: &Site<'_>, order: Order, at: (u64, bool), mail: &mut Mail) {
        self.stack.appended(order, at.0, at.1);
        self.poll(site, mail);
    }

    /// A member's log is durable up to there.
    pub(crate) fn on_synced(&mut self, site: &Site<'_>, from: MemberId, upto: u64, mail: &mut Mail) {
        self.stack.synced(from, upto);
        self.poll(site, mail);
    }

    /// A thread of a member asks.
    pub(crate) fn on_asked(&mut self, site: &Site<'_>, from: MemberId, id: RequestId, ask: Ask, mail: &mut Mail) {
        let last = self.last.iter().find(|last| last.from == from && last.id.slot == id.slot);
        if kept(Rule::NoIds)
            && let Some(last) = last
        {
            if id.seq < last.id.seq {
                return;
            }
            if id.seq == last.id.seq {
                match last.outcome {
                    Outcome::Ordered(order) => return mail.push((from, ordered(&self.record(order, id, ask)))),
                    Outcome::Refused => return self.answer(from, id, ask.range(), Answer::Refused, mail),
                    Outcome::Open => {}
                }
            }
        }
        self.note(from, id, Outcome::Open);
        self.waiting.retain(|waiting| (waiting.from, waiting.id.slot) != (from, id.slot));
        self.waiting.push(Waiting { from, id, ask });
        self.poll(site, mail);
    }

    fn note(&mut self, from: MemberId, id: RequestId, outcome: Outcome) {
        self.last.retain(|last| (last.from, last.id.slot) != (from, id.slot));
        self.last.push(Last { from, id, outcome });
        self.last.sort_unstable_by_key(|last| (last.from, last.id.slot));
    }

    fn record(&self, order: Order, id: RequestId, ask: Ask) -> Record {
        let what = match ask {
            Ask::Commit { place, .. } => What::Map { place },
            _ => What::Drop,
        };
        Record { file: self.file, order, range: ask.range(), what, by: Some(id) }
    }

    fn answer(&self, to: MemberId, id: RequestId, range: Range, answer: Answer, mail: &mut Mail) {
        mail.push((to, Message::Answered(self.file, self.epoch, id, self.access.number(), range, answer)));
    }

    /// Tries what waits.
    fn poll(&mut self, site: &Site<'_>, mail: &mut Mail) {
        if !self.serves() {
            return;
        }
        for waiting in std::mem::take(&mut self.waiting) {
            let over = match waiting.ask {
                Ask::Commit { range, .. } => self.commit(&waiting, range, mail),
                Ask::Read { range } => self.read(site, &waiting, range, mail),
                Ask::Write { range } => self.write(&waiting, range, mail),
                Ask::WriteDone { range } => self.write_done(&waiting, range, mail),
            };
            if !over {
                self.waiting.push(waiting);
            }
        }
    }

    fn next(&mut self) -> Order {
        self.seq += 1;
        Order { epoch: self.epoch, seq: self.seq }
    }

    fn give(&mut self, waiting: &Waiting, mail: &mut Mail) {
        let order = self.next();
        let record = self.record(order, waiting.id, waiting.ask);
        self.stack.order(record, waiting.from);
        self.note(waiting.from, waiting.id, Outcome::Ordered(order));
        mail.push((waiting.from, ordered(&record)));
    }

    fn commit(&mut self, waiting: &Waiting, range: Range, mail: &mut Mail) -> bool {
        if self.access.is_writing(range) && kept(Rule::CommitInDirect) {
            self.note(waiting.from, waiting.id, Outcome::Refused);
            self.answer(waiting.from, waiting.id, range, Answer::Refused, mail);
            return true;
        }
        if kept(Rule::NoCallIn) {
            let new = self.access.call_in(range);
            self.send_calls(&new, mail);
            if self.access.is_calling(range) {
                return false;
            }
        }
        self.give(waiting, mail);
        true
    }

    fn read(&mut self, site: &Site<'_>, waiting: &Waiting, range: Range, mail: &mut Mail) -> bool {
        let unshown = self.stack.unshown().any(|stacked| stacked.record.range.overlaps(range));
        if (unshown && kept(Rule::ShowEarly)) || self.access.is_calling(range) {
            return false;
        }
        let (part, top) = self.stack.top(range);
        let answer = match top {
            // What an expelled node has not made durable is decided by its cut.
            Some(top) if !top.durable && site.view.fate(top.of) != Fate::Seated => return false,
            Some(top) => match top.record.what {
                What::Map { place } => {
                    // The record may lie above the first byte of a longer one.
                    let place = place + (part.offset - top.record.range.offset);
                    Answer::Flash { of: top.of, place, durable: top.durable }
                }
                What::Drop if self.stack.absent(part) => Answer::Absent,
                What::Drop => Answer::Disk { of: top.of },
            },
            None => Answer::Absent,
        };
        if matches!(answer, Answer::Absent | Answer::Disk { .. }) {
            self.access.grant(waiting.from, part);
        }
        self.answer(waiting.from, waiting.id, part, answer, mail);
        true
    }

    fn write(&mut self, waiting: &Waiting, range: Range, mail: &mut Mail) -> bool {
        let copied = self.copies.iter().any(|copy| copy.intent.range.overlaps(range)) && kept(Rule::DirectInCopy);
        if copied || self.access.is_calling(range) {
            return false;
        }
        let answer = if self.quarantine.iter().any(|(_, held)| held.overlaps(range)) {
            Answer::Absorb
        } else if self.stack.absent(range) {
            self.access.grant(waiting.from, range);
            Answer::Absent
        } else {
            self.access.go(waiting.from, waiting.id.slot, range);
            Answer::Go
        };
        self.answer(waiting.from, waiting.id, range, answer, mail);
        true
    }

    fn write_done(&mut self, waiting: &Waiting, range: Range, mail: &mut Mail) -> bool {
        self.access.wrote(waiting.from, waiting.id.slot);
        if self.stack.absent(range) {
            self.answer(waiting.from, waiting.id, range, Answer::Done, mail);
        } else {
            self.give(waiting, mail);
        }
        true
    }

    /// Has the bytes at a place copied to the slow file by the node that has them, or by this one if that is out.
    pub(crate) fn write_back(&mut self, site: &Site<'_>, range: Range, mail: &mut Mail) -> bool {
        let (part, top) = self.stack.top(range);
        let Some((record, of, appended)) = top.map(|top| (top.record, top.of, top.at.is_some())) else {
            return false;
        };
        let What::Map { place } = record.what else {
            return false;
        };
        let mover = match site.view.fate(of) {
            Fate::Seated => of,
            Fate::Leaving => return false,
            Fate::Out => site.me,
        };
        let busy = self.copies.iter().any(|copy| copy.intent.range.overlaps(part)) || self.access.is_writing(part);
        let held = self.quarantine.iter().any(|(_, held)| held.overlaps(part));
        if !self.serves() || !appended || busy || held {
            return false;
        }
        let intent = Intent { file: self.file, copy: self.next(), order: record.order, range: part };
        let place = place + (part.offset - record.range.offset);
        self.copies.push(Copying { intent, mover, source: Some((of, place)) });
        mail.push((mover, Message::Copy(intent, of, place)));
        true
    }

    /// A member's copy has ended, having copied or not.
    pub(crate) fn on_copied(&mut self, site: &Site<'_>, from: MemberId, intent: Intent, copied: bool, mail: &mut Mail) {
        let before = self.copies.len();
        self.copies.retain(|copy| copy.mover != from || copy.intent != intent);
        let (part, top) = self.stack.top(intent.range);
        let newest = part == intent.range && top.is_some_and(|top| top.record.order == intent.order);
        if self.copies.len() < before && copied && (newest || !kept(Rule::CopiedOld)) {
            let order = self.next();
            let record = Record { file: self.file, order, range: intent.range, what: What::Drop, by: None };
            self.stack.order(record, from);
            mail.push((from, ordered(&record)));
        }
        self.poll(site, mail);
    }
}

fn ordered(record: &Record) -> Message {
    let Record { file, order, range, what, by } = *record;
    Message::Ordered { file, order, range, what, by }
}
