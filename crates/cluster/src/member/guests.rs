//! What threads of the node ask, and what the runtime has done for them.

use std::collections::BTreeMap;

use headstart_units::Nanos;
use headstart_units::request::Range;

use crate::guest::{Asked, Found, Guest, NONE};
use crate::member::{Intended, Member};
use crate::message::{Answer, Ask, Message};
use crate::names::{FileId, MemberId, Order, RequestId, Seat, Stamp};
use crate::output::Output;
use crate::owner::Packed;
use crate::record::{Entry, Intent, Record};
use crate::rules::{Rule, kept};

impl Member {
    /// A thread asks for bytes of a file. It asks again, unchanged, when the agent was started anew.
    pub fn ask(&mut self, file: FileId, id: RequestId, ask: Ask) {
        let recorded = matches!(ask, Ask::Commit { .. } | Ask::WriteDone { .. }) && self.log.has(id);
        if recorded && kept(Rule::CommitTwice) {
            self.out.push(Output::Answer(id, ask.range(), Answer::Done));
            return;
        }
        let mut guest = self.guests.at(file);
        if guest.is_absent(ask.range()) && matches!(ask, Ask::Read { .. } | Ask::Write { .. }) {
            self.out.push(Output::Answer(id, ask.range(), Answer::Absent));
            return;
        }
        guest.ask(Asked { id, ask });
        drop(guest);
        self.forward(file);
        self.hear_own();
    }

    /// A thread asks whether a member lives: it has read bytes that would be lost with it.
    pub fn ping(&mut self, id: RequestId, member: MemberId) {
        if self.view.seat(member).is_none() {
            self.out.push(Output::Answer(id, NONE, Answer::Again));
            return;
        }
        self.pings.insert(id, member);
        self.tell(member, Message::Ping(id));
        self.hear_own();
    }

    pub(super) fn forward(&mut self, file: FileId) {
        if self.owners.get(file).is_some_and(Packed::keeps_back) {
            return;
        }
        let home = self.view.home(file);
        let messages = self.guests.get(file).map(|guest| guest.forward(file, home));
        for (seat, message) in messages.unwrap_or_default() {
            self.send(seat, message);
        }
    }

    /// Says again which threads write, where one has ended since the owner was told.
    pub(super) fn list_again(&mut self, file: FileId) {
        let guest = self.guests.get(file);
        let list = guest.and_then(|guest| Some((guest.owner()?, guest.last_list()?.clone())));
        if let Some(((owner, epoch), writers)) = list {
            self.send(owner, Message::StillWriting(file, epoch, writers));
        }
    }

    /// Bits of a range are set, and these threads still write the slow file.
    pub fn on_fenced(&mut self, file: FileId, epoch: Stamp, call: Option<u64>, range: Range, found: Found) {
        let Some(mut guest) = self.guests.get_mut(file) else {
            return;
        };
        let Some((owner, _)) = guest.owner().filter(|(_, own)| *own == epoch) else {
            return;
        };
        let writers = guest.list(found, false);
        drop(guest);
        let message = match call {
            Some(number) => Message::CalledIn(file, epoch, number, range, writers),
            None => Message::Claimed { file, epoch, log: self.log.of(file), writers },
        };
        self.send(owner, message);
        self.hear_own();
    }

    /// The same, as nothing of the file is on flash here any more, durably: there is no record to tell of.
    pub fn on_left(&mut self, file: FileId, epoch: Stamp, call: Option<u64>, range: Range, found: Found) {
        self.log.leave(file);
        self.on_fenced(file, epoch, call, range, found);
    }

    /// A thread that had been named as a writer has ended; these still write.
    pub fn on_writer_ended(&mut self, file: FileId, found: Found) {
        let Some(mut guest) = self.guests.get_mut(file) else {
            return;
        };
        let (writers, owned) = (guest.list(found, true), guest.owner());
        drop(guest);
        if let Some((owner, epoch)) = owned {
            self.send(owner, Message::StillWriting(file, epoch, writers));
        }
        self.hear_own();
    }

    /// An owner orders a record of this node.
    pub(super) fn on_ordered(&mut self, from: Seat, record: Record) {
        let file = record.file;
        let guest = self.guests.at(file);
        let (takes, was_forgotten) = (guest.takes(record.order.epoch), guest.was_forgotten(record.order));
        drop(guest);
        if !takes {
            return;
        }
        let at = match self.log.find(file, record.order) {
            Some((_, at)) => at,
            None if was_forgotten => return,
            None if self.lengthen(from, record) => return,
            None => self.append(Entry::Record(record)),
        };
        self.appended(from, record, at);
    }

    /// It is in the log at that position.
    pub(super) fn appended(&mut self, from: Seat, record: Record, at: u64) {
        let file = record.file;
        self.send(from, Message::Appended(file, record.order, at, at < self.log.durable()));
        let waited = record.by.and_then(|id| self.guests.get_mut(file).and_then(|mut guest| guest.answered(id)));
        if let Some(asked) = waited {
            self.out.push(Output::Answer(asked.id, asked.ask.range(), Answer::Done));
        }
    }

    pub(super) fn append(&mut self, entry: Entry) -> u64 {
        self.out.push(Output::Append(entry));
        self.log.append(entry)
    }

    /// A barrier has covered the first `upto` entries of the log, with all that they speak of. One that ends past the
    /// deadline counts once this member has seen itself in the view again: else its log was cut before.
    pub fn on_synced(&mut self, now: Nanos, upto: u64) {
        self.log.cover(upto);
        self.count_barriers(now);
        self.hear_own();
    }

    pub(super) fn count_barriers(&mut self, now: Nanos) {
        let may = self.lease.is_valid(now) || !kept(Rule::BarrierLate);
        if !may || !self.log.is_covered_further() {
            return;
        }
        let mut forgotten: BTreeMap<FileId, Vec<Order>> = BTreeMap::new();
        for (file, order) in self.log.count_covered() {
            forgotten.entry(file).or_default().push(order);
        }
        for (file, orders) in forgotten {
            if let Some((owner, epoch)) = self.guests.get(file).and_then(Guest::owner) {
                self.send(owner, Message::Forgotten(file, epoch, orders));
            }
        }
        let owners: Vec<Seat> = self.guests.index().owners().collect();
        for owner in owners {
            self.send(owner, Message::Synced(self.log.durable()));
        }
        self.start_copies();
    }

    /// An owner has records forgotten: their places are free, as what covers them is durable, and stays until it has
    /// heard that this is durable too.
    pub(super) fn on_free(&mut self, from: Seat, file: FileId, epoch: Stamp, orders: Vec<Order>, floor: Order) {
        if !self.guests.at(file).on_free(epoch, floor) {
            return;
        }
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for order in orders {
            match self.log.find(file, order) {
                Some((record, _)) if !self.log.is_forgetting(file, order) => new.push(record),
                Some(_) => {}
                None => gone.push(order),
            }
        }
        for record in new {
            self.append(Entry::Forgot(file, record.order));
            self.out.push(Output::Free(file, record));
        }
        self.log.forget_copies(file, floor);
        if !gone.is_empty() {
            self.send(from, Message::Forgotten(file, epoch, gone));
        }
    }

    /// An owner orders a copy.
    pub(super) fn on_copy(&mut self, from: Seat, intent: Intent, of: MemberId, place: u64) {
        let mut guest = self.guests.at(intent.file);
        if !guest.takes(intent.copy.epoch) {
            return;
        }
        guest.on_owned(from, intent.copy.epoch);
        let was_forgotten = guest.was_forgotten(intent.copy);
        drop(guest);
        if kept(Rule::CopyTwice) {
            match self.log.has_ended(&intent) {
                Some(true) => return self.send(from, Message::Copied(intent, false)),
                Some(false) => return,
                None if was_forgotten => return,
                None => {}
            }
        }
        if !kept(Rule::NoIntent) {
            return self.out.push(Output::StartCopy(intent, of, place));
        }
        let after = self.append(Entry::Intent(intent)) + 1;
        self.intended.push(Intended { intent, of, place, after });
        self.out.push(Output::Barrier);
    }

    /// Begins copies whose intents are durable.
    fn start_copies(&mut self) {
        let durable = self.log.durable();
        let (ready, left) = self.intended.drain(..).partition(|intended| intended.after <= durable);
        self.intended = left;
        let ready: Vec<Intended> = ready;
        self.out.extend(ready.into_iter().map(|ready| Output::StartCopy(ready.intent, ready.of, ready.place)));
    }

    /// A copy has ended, having copied or not: nothing of it lands any more.
    pub fn on_copied(&mut self, intent: Intent, copied: bool) {
        self.intended.retain(|intended| intended.intent != intent);
        self.append(Entry::Ended(intent));
        if let Some((owner, _)) = self.guests.get(intent.file).and_then(|guest| guest.owner()) {
            self.send(owner, Message::Copied(intent, copied));
        }
        self.hear_own();
    }
}
