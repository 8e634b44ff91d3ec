//! What threads of the node ask, and what the runtime has done for them.

use headstart_units::Nanos;
use headstart_units::request::Range;

use crate::guest::Asked;
use crate::member::{Intended, Member};
use crate::message::{Answer, Ask, Message, Writing};
use crate::names::{FileId, MemberId, RequestId, Seat, Stamp};
use crate::output::Output;
use crate::record::{Entry, Intent, Record};
use crate::rules::{Rule, kept};

impl Member {
    /// A thread asks for bytes of a file. It asks again, unchanged, when the agent was started anew.
    pub fn ask(&mut self, file: FileId, id: RequestId, ask: Ask) {
        let recorded = matches!(ask, Ask::Commit { .. } | Ask::WriteDone { .. }) && self.log.has(id);
        if recorded && kept(Rule::CommitTwice) {
            self.out.push(Output::Answer(id, Answer::Done));
            return;
        }
        let guest = self.guests.entry(file).or_default();
        if guest.is_absent(ask.range()) && matches!(ask, Ask::Read { .. } | Ask::Write { .. }) {
            self.out.push(Output::Answer(id, Answer::Absent));
            return;
        }
        guest.ask(Asked { id, ask });
        self.forward(file);
        self.hear_own();
    }

    /// A thread asks whether a member lives: it has read bytes that would be lost with it.
    pub fn ping(&mut self, id: RequestId, member: MemberId) {
        if self.view.seat(member).is_none() {
            self.out.push(Output::Answer(id, Answer::Again));
            return;
        }
        self.pings.insert(id, member);
        self.tell(member, Message::Ping(id));
        self.hear_own();
    }

    pub(super) fn forward(&mut self, file: FileId) {
        let home = self.view.home(file);
        let messages = self.guests.get(&file).map(|guest| guest.forward(file, home));
        for (seat, message) in messages.unwrap_or_default() {
            self.send(seat, message);
        }
    }

    /// Says again which threads write, where one has ended since the owner was told.
    pub(super) fn list_again(&mut self, file: FileId) {
        let guest = self.guests.get(&file);
        let list = guest.and_then(|guest| Some((guest.owner()?, guest.last_list()?.clone())));
        if let Some(((owner, epoch), writers)) = list {
            self.send(owner, Message::StillWriting(file, epoch, writers));
        }
    }

    /// Bits of a range are set, and these threads still write the slow file.
    pub fn on_fenced(&mut self, file: FileId, epoch: Stamp, call: Option<u64>, range: Range, writers: Vec<Writing>) {
        let Some(guest) = self.guests.get_mut(&file) else {
            return;
        };
        let Some((owner, _)) = guest.owner().filter(|(_, own)| *own == epoch) else {
            return;
        };
        let writers = guest.list(writers, false);
        let message = match call {
            Some(number) => Message::CalledIn(file, epoch, number, range, writers),
            None => Message::Claimed { file, epoch, log: self.log.of(file), writers },
        };
        self.send(owner, message);
        self.hear_own();
    }

    /// A thread that had been named as a writer has ended; these still write.
    pub fn on_writer_ended(&mut self, file: FileId, writers: Vec<Writing>) {
        let Some(guest) = self.guests.get_mut(&file) else {
            return;
        };
        let writers = guest.list(writers, true);
        if let Some((owner, epoch)) = guest.owner() {
            self.send(owner, Message::StillWriting(file, epoch, writers));
        }
        self.hear_own();
    }

    /// An owner orders a record of this node.
    pub(super) fn on_ordered(&mut self, from: Seat, record: Record) {
        let file = record.file;
        if !self.guests.entry(file).or_default().takes(record.order.epoch) {
            return;
        }
        let at = self.log.find(file, record.order).unwrap_or_else(|| self.append(Entry::Record(record)));
        self.send(from, Message::Appended(file, record.order, at, at < self.log.durable()));
        let waited = record.by.and_then(|id| self.guests.get_mut(&file).and_then(|guest| guest.answered(id)));
        if let Some(asked) = waited {
            self.out.push(Output::Answer(asked.id, Answer::Done));
        }
    }

    fn append(&mut self, entry: Entry) -> u64 {
        self.out.push(Output::Append(entry));
        self.log.append(entry)
    }

    /// A barrier has covered the first `upto` entries of the log, with all that they speak of.
    pub fn on_synced(&mut self, now: Nanos, upto: u64) {
        self.log.set_durable(upto);
        let mut owners: Vec<Seat> =
            self.guests.values().filter_map(|guest| guest.owner().map(|(seat, _)| seat)).collect();
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            self.send(owner, Message::Synced(self.log.durable()));
        }
        self.start_copies(now);
        self.hear_own();
    }

    /// An owner orders a copy.
    pub(super) fn on_copy(&mut self, from: Seat, intent: Intent, of: MemberId, place: u64) {
        let guest = self.guests.entry(intent.file).or_default();
        if !guest.takes(intent.copy.epoch) {
            return;
        }
        guest.on_owned(from, intent.copy.epoch);
        if kept(Rule::CopyTwice) {
            if self.log.has_ended(&intent) {
                return self.send(from, Message::Copied(intent, false));
            }
            if self.log.under_way().contains(&intent) {
                return;
            }
        }
        if !kept(Rule::NoIntent) {
            return self.out.push(Output::StartCopy(intent, of, place));
        }
        let after = self.append(Entry::Intent(intent)) + 1;
        self.intended.push(Intended { intent, of, place, after });
        self.out.push(Output::Barrier);
    }

    /// Begins copies whose intents are durable: if the deadline has passed meanwhile, others may have counted this log
    /// without them.
    pub(super) fn start_copies(&mut self, now: Nanos) {
        let durable = self.log.durable();
        let may = self.lease.is_valid(now) || !kept(Rule::CopyLate);
        let (ready, left) = self.intended.drain(..).partition(|intended| may && intended.after <= durable);
        self.intended = left;
        let ready: Vec<Intended> = ready;
        self.out.extend(ready.into_iter().map(|ready| Output::StartCopy(ready.intent, ready.of, ready.place)));
    }

    /// A copy has ended, having copied or not: nothing of it lands any more.
    pub fn on_copied(&mut self, intent: Intent, copied: bool) {
        self.intended.retain(|intended| intended.intent != intent);
        self.append(Entry::Ended(intent));
        if let Some((owner, _)) = self.guests.get(&intent.file).and_then(|guest| guest.owner()) {
            self.send(owner, Message::Copied(intent, copied));
        }
        self.hear_own();
    }
}
