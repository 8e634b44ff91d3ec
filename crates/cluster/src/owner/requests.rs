//! What threads ask of an owner, and copies: each is tried until nothing that it waits for is left.

use headstart_units::request::Range;

use crate::guest::ALL;
use crate::message::{Answer, Ask, Message};
use crate::names::{MemberId, Order, RequestId};
use crate::owner::queue::{Outcome, Waiting};
use crate::owner::{Copying, Mail, Owner, Site, Stage, ordered};
use crate::record::{Intent, Record, What};
use crate::rules::{Rule, kept};
use crate::view::Fate;

/// How many parts a look for bytes to write back looks at (assumed: what is in the way is rarely so much).
const PARTS_MAX: usize = 64;

impl Owner {
    /// A thread of a member asks. What comes again is answered as it was, but where a call has overtaken the answer:
    /// another one would be heard in place of the first or not at all, and nobody would say that what it permits has
    /// ended, or that it was not done twice.
    pub(crate) fn on_asked(
        &mut self,
        site: &Site<'_>,
        from: MemberId,
        (id, called): (RequestId, u64),
        ask: Ask,
        mail: &mut Mail,
    ) {
        if self.stage == Stage::GivenUp {
            return mail.push((from, Message::NotMine(self.file, self.epoch)));
        }
        if let Some((seq, outcome)) = self.queue.last(from, id.slot).filter(|_| kept(Rule::NoIds)) {
            if id.seq < seq {
                return;
            }
            if id.seq == seq {
                match outcome {
                    Outcome::Ordered(order) => return mail.push((from, ordered(&self.record(order, id, ask)))),
                    Outcome::Refused => return self.answer(from, id, ask.range(), Answer::Refused, mail),
                    Outcome::Told(answer, number) if called <= number || answer != Answer::Absent => {
                        let told = Message::Answered(self.file, self.epoch, id, number, ask.range(), answer);
                        return mail.push((from, told));
                    }
                    Outcome::Told(..) | Outcome::Open => {}
                }
            }
        }
        self.queue.note(from, id, Outcome::Open);
        self.queue.push(Waiting { from, id, ask });
        self.poll(site, mail);
    }

    /// Answers what is not asked anew when it comes again.
    fn tell(&mut self, waiting: &Waiting, answer: Answer, mail: &mut Mail) {
        if kept(Rule::ToldAgain) {
            self.queue.note(waiting.from, waiting.id, Outcome::Told(answer, self.access.number()));
        }
        self.answer(waiting.from, waiting.id, waiting.ask.range(), answer, mail);
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
    pub(super) fn try_all(&mut self, site: &Site<'_>, mail: &mut Mail) {
        for waiting in self.queue.take() {
            let over = match waiting.ask {
                Ask::Commit { range, .. } => self.commit(&waiting, range, mail),
                Ask::Read { range } => self.read(site, &waiting, range, mail),
                Ask::Write { range } => self.write(&waiting, range, mail),
                Ask::WriteDone { range } => self.write_done(&waiting, range, mail),
            };
            if !over {
                self.queue.push(waiting);
            }
        }
    }

    pub(crate) fn next(&mut self) -> Order {
        self.seq += 1;
        Order { epoch: self.epoch, seq: self.seq }
    }

    fn give(&mut self, waiting: &Waiting, mail: &mut Mail) {
        let order = self.next();
        let record = self.record(order, waiting.id, waiting.ask);
        self.stack.order(record, waiting.from);
        self.queue.note(waiting.from, waiting.id, Outcome::Ordered(order));
        mail.push((waiting.from, ordered(&record)));
    }

    /// Whether a record over the range waits for its writer: until it is appended, none is ordered above it, so that
    /// each log has the records of a byte in their order.
    fn is_unshown(&self, range: Range) -> bool {
        self.stack.is_unshown(range) && kept(Rule::LogOrder)
    }

    fn commit(&mut self, waiting: &Waiting, range: Range, mail: &mut Mail) -> bool {
        if self.access.is_writing(range) && kept(Rule::CommitInDirect) {
            self.queue.note(waiting.from, waiting.id, Outcome::Refused);
            self.answer(waiting.from, waiting.id, range, Answer::Refused, mail);
            return true;
        }
        if kept(Rule::NoCallIn) {
            let new = self.access.call_in(range);
            self.send_calls(new.into_iter(), mail);
            if self.access.is_calling(range) {
                return false;
            }
        }
        if self.is_unshown(range) {
            return false;
        }
        self.give(waiting, mail);
        true
    }

    fn read(&mut self, site: &Site<'_>, waiting: &Waiting, range: Range, mail: &mut Mail) -> bool {
        let unshown = self.stack.is_unshown(range) && kept(Rule::ShowEarly);
        if unshown || self.access.is_calling(range) {
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
        match answer {
            Answer::Flash { .. } => self.access.grant_flash(waiting.from, part),
            _ => self.access.grant(waiting.from, part),
        }
        self.answer(waiting.from, waiting.id, part, answer, mail);
        true
    }

    fn write(&mut self, waiting: &Waiting, range: Range, mail: &mut Mail) -> bool {
        let copied = self.is_copied(range) && kept(Rule::DirectInCopy);
        let lengthened = self.stack.is_unshown(range) && kept(Rule::DirectInLengthen);
        if copied || lengthened || self.access.is_calling(range) {
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
        match answer {
            // Who is told so asks for something else.
            Answer::Absorb => self.answer(waiting.from, waiting.id, range, answer, mail),
            _ => self.tell(waiting, answer, mail),
        }
        true
    }

    fn write_done(&mut self, waiting: &Waiting, range: Range, mail: &mut Mail) -> bool {
        if self.is_unshown(range) {
            return false;
        }
        self.access.wrote(waiting.from, waiting.id.slot);
        if self.stack.absent(range) {
            self.tell(waiting, Answer::Done, mail);
        } else {
            self.give(waiting, mail);
        }
        true
    }

    fn is_copied(&self, range: Range) -> bool {
        self.copies.values().any(|copy| copy.intent.range.overlaps(range))
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
        let busy = self.is_copied(part) || self.access.is_writing(part);
        let held = self.quarantine.iter().any(|(_, held)| held.overlaps(part));
        if !self.serves() || !appended || busy || held {
            return false;
        }
        let intent = Intent { file: self.file, copy: self.next(), order: record.order, range: part };
        let place = place + (part.offset - record.range.offset);
        self.copies.insert(intent.copy, Copying { intent, mover, source: Some((of, place)) });
        mail.push((mover, Message::Copy(intent, of, place)));
        true
    }

    /// The same of the next bytes in the order of addresses, from where the last look ended.
    pub(crate) fn write_back_next(&mut self, site: &Site<'_>, bytes_max: u64, mail: &mut Mail) -> bool {
        let parts = self.stack.mapped(Range::between(self.next_back, u64::MAX), PARTS_MAX);
        if parts.is_empty() {
            self.next_back = 0;
        }
        for part in parts {
            let part = Range::new(part.offset, part.length.min(bytes_max));
            self.next_back = part.end();
            if self.write_back(site, part, mail) {
                return true;
            }
        }
        false
    }

    /// Whether it serves, and there is something to write back.
    pub(crate) fn has_mapped(&self) -> bool {
        self.serves() && !self.stack.mapped(ALL, 1).is_empty()
    }

    /// How many write-backs are under way.
    pub(crate) fn copies(&self) -> usize {
        self.copies.len()
    }

    /// A member's copy has ended, having copied or not.
    pub(crate) fn on_copied(&mut self, site: &Site<'_>, from: MemberId, intent: Intent, copied: bool, mail: &mut Mail) {
        let known = self.copies.get(&intent.copy).is_some_and(|copy| copy.mover == from && copy.intent == intent);
        if known {
            self.copies.remove(&intent.copy);
        }
        let (part, top) = self.stack.top(intent.range);
        let newest = part == intent.range && top.is_some_and(|top| top.record.order == intent.order);
        if known && copied && (newest || !kept(Rule::CopiedOld)) {
            let order = self.next();
            let record = Record { file: self.file, order, range: intent.range, what: What::Drop, by: None };
            self.stack.order(record, from);
            mail.push((from, ordered(&record)));
        }
        self.poll(site, mail);
    }
}
