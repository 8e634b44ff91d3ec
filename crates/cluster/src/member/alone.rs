//! Files that this member has to itself, and what becomes known of files before anybody waits for it.

use crate::guest::ALL;
use crate::member::Member;
use crate::message::{Answer, Message};
use crate::names::Order;
#[cfg(test)]
use crate::names::RequestId;
use crate::names::{FileId, Seat, Stamp};
use crate::output::Output;
use crate::owner::{Owner, Packed};
use crate::record::{Entry, Record, What};
use headstart_units::request::Range;

impl Member {
    /// Whoever becomes owner of a file here keeps the claim to this member back while nobody else uses it.
    pub fn keeping_claims_back(self) -> Member {
        Member { keeps_back: true, ..self }
    }

    /// Before the first view: the member is the first of its site, and has this file to itself.
    pub fn begin_alone(&mut self, file: FileId) {
        assert!(self.view.seats().is_empty(), "who has seen a view asks homes");
        let mut owner = Owner::named(file, Stamp::FIRST, Vec::new(), false);
        owner.keep_back(self.seat.member);
        self.owners.insert(file, Packed::new(owner));
        self.guests.at(file).on_owned(self.seat, Stamp::FIRST);
        self.settle_own(file);
    }

    /// Whether the member has the file to itself.
    pub fn is_alone(&self, file: FileId) -> bool {
        !self.expelled && self.owners.get(file).is_some_and(Packed::is_alone)
    }

    /// Whether the member is about to have the file to itself: others have not answered.
    pub fn may_be_alone(&self, file: FileId) -> bool {
        self.owners.get(file).is_some_and(Packed::keeps_back)
    }

    /// Whether its threads read and write all of the slow file without asking.
    pub fn holds(&self, file: FileId) -> bool {
        self.guests.get(file).is_some_and(|guest| guest.is_absent(ALL))
    }

    /// The file's owner, if it is known.
    pub fn owner_of(&self, file: FileId) -> Option<Seat> {
        self.guests.get(file)?.owner().map(|(owner, _)| owner)
    }

    /// A program has opened the file: its home is asked who owns it, so that this is known when it is needed. What is
    /// lost of that is asked for again with what the program asks.
    pub fn open(&mut self, file: FileId) {
        if self.owner_of(file).is_none() && !self.holds(file) {
            self.send(self.view.home(file), Message::Open(file));
            self.hear_own();
        }
    }

    /// The member is to be the owner, if nobody is: `Output::Alone` follows if nobody else has anything of the file.
    /// Nothing of it is said again by itself.
    pub fn own(&mut self, file: FileId) {
        if self.owner_of(file).is_none() {
            self.send(self.view.home(file), Message::Own(file));
            self.hear_own();
        }
    }

    /// Files of which the log has something, and whose owner is not known: nobody may be there to write them back.
    pub fn ownerless(&self) -> impl Iterator<Item = FileId> + '_ {
        self.log.files().into_iter().filter(|file| self.owner_of(*file).is_none())
    }

    /// Whether what an owner here has heard makes the file this member's alone. What threads wait for is decided
    /// without it then.
    pub(super) fn settle_own(&mut self, file: FileId) {
        let mut alone = false;
        let logged = self.log.has_records(file);
        self.with_owner(file, |owner, site, mail| alone = owner.settle_own(site.me, logged, mail));
        if !alone {
            return;
        }
        self.out.push(Output::Alone(file));
        let asked = self.guests.get_mut(file).map(|mut guest| guest.take_asked()).unwrap_or_default();
        self.out.extend(asked.into_iter().map(|asked| Output::Answer(asked.id, asked.ask.range(), Answer::Again)));
    }

    /// The file's extents here, as the claim is to be told of them: places of what was recorded while it was alone. They
    /// come before whatever owners order. The records, which are to be in the journal before the claim is answered.
    pub fn list(&mut self, file: FileId, extents: impl IntoIterator<Item = (Range, u64)>) -> Vec<Record> {
        assert!(!self.log.has_records(file), "a file with ordered records is not alone");
        self.log.list(file);
        let record = |(seq, (range, place))| Record {
            file,
            order: Order { epoch: Stamp::FIRST, seq },
            range,
            what: What::Map { place },
            by: None,
        };
        let records: Vec<Record> = (1..).zip(extents).map(record).collect();
        for record in &records {
            self.log.append(Entry::Record(*record));
        }
        records
    }

    /// For the checker: what the rules of one node record of a file that is alone, or that leaves flash.
    #[cfg(test)]
    pub(crate) fn record_alone(&mut self, file: FileId, range: Range, what: What, by: Option<RequestId>) {
        let alone = self.owners.get_mut(file).filter(|owner| owner.is_alone()).map(|mut owner| owner.unfold().next());
        let order = alone.or_else(|| self.log.last(file).map(|Order { epoch, seq }| Order { epoch, seq: seq + 1 }));
        let order = order.expect("it is alone, or was");
        self.append(Entry::Record(Record { file, order, range, what, by }));
    }

    pub(super) fn settle_all_own(&mut self) {
        let kept: Vec<FileId> = self.owners.index().settling().collect();
        kept.into_iter().for_each(|file| self.settle_own(file));
    }
}
