//! What other members say, by who it is for: the home, the owner, the guest.

use crate::files::Beside;
use crate::guest::{ALL, Found, NONE, Told};
use crate::member::Member;
use crate::message::{Answer, Ask, Envelope, Message};
use crate::names::{FileId, MemberId, RequestId, Seat, Stamp};
use crate::output::Output;
use crate::owner::{Owner, Packed};
use crate::record::Record;
use crate::rules::{Rule, kept};

impl Member {
    /// A message has come. Whether it counts: if not, its sender or this agent has an older view, and the register is
    /// to be looked at.
    pub fn on_message(&mut self, envelope: Envelope) -> bool {
        let counts = envelope.to == self.seat && envelope.view == self.view.number() && self.view.has(envelope.from);
        if self.expelled || (!counts && kept(Rule::OldView)) {
            return false;
        }
        self.hear(envelope.from, envelope.message);
        self.hear_own();
        true
    }

    pub(super) fn hear(&mut self, from: Seat, message: Message) {
        match message {
            Message::Open(_) | Message::Own(_) | Message::Declare(..) => self.as_home(from, message),
            Message::Release(..) | Message::Drained(..) => self.as_home_of_space(from, message),
            Message::Claimed { .. } | Message::CalledIn(..) | Message::StillWriting(..) | Message::Asked(..) => {
                self.as_owner(from, message);
            }
            Message::Appended(..) | Message::Synced(_) | Message::Copied(..) | Message::Forgotten(..) => {
                self.as_owner_of_records(from.member, message)
            }
            Message::Free(file, epoch, orders, floor) => self.on_free(from, file, epoch, orders, floor),
            Message::Released(file, epoch, stamp) => self.on_released(file, epoch, stamp),
            Message::Noted(file, epoch, member) if self.owner_has(file, epoch) => {
                self.with_owner(file, |owner, _, _| owner.on_noted(member));
            }
            Message::Noted(..) => {}
            Message::Emptied(member) => self.home.on_emptied(from, member),
            Message::Ping(id) => self.send(from, Message::Pong(id)),
            Message::Pong(id) => self.on_pong(from.member, id),
            Message::Heard(slots) => {
                for slot in &slots {
                    self.undeclared.remove(slot);
                }
                if self.undeclared.is_empty() {
                    self.moved = Beside::default();
                }
            }
            // The home is asked when what waits is said again: at once, the two would go round until the one that was
            // named hears of it.
            Message::NotMine(file, epoch) => self.guests.at(file).on_not_mine(from, epoch),
            Message::Holds(..) | Message::OwnedBy(..) | Message::Yours { .. } => self.hear_home(message),
            Message::Claim(..) | Message::CallIn(..) | Message::Answered(..) => self.hear_owner(from, message),
            Message::Ordered { file, order, range, what, by } => {
                self.on_ordered(from, Record { file, order, range, what, by });
            }
            Message::Copy(intent, of, place) => self.on_copy(from, intent, of, place),
            Message::Copying(intent) if self.log.has_ended(&intent) == Some(false) => {}
            Message::Copying(intent) => self.send(from, Message::Copied(intent, false)),
        }
    }

    fn as_home(&mut self, from: Seat, message: Message) {
        match message {
            Message::Open(file) => {
                self.with_home(|home, view, _, mail| home.on_open(view, from.member, file, false, mail))
            }
            Message::Own(file) => {
                self.with_home(|home, view, _, mail| home.on_open(view, from.member, file, true, mail))
            }
            Message::Declare(slots, files) => {
                self.with_home(|home, view, buried, mail| {
                    let served = home.on_declared(view, from, &slots, &files);
                    let served = if kept(Rule::ToldBefore) { served } else { slots.clone() };
                    if !served.is_empty() {
                        mail.push((from.member, Message::Heard(served)));
                    }
                    home.serve(view, buried, mail);
                });
            }
            _ => {}
        }
    }

    fn as_home_of_space(&mut self, from: Seat, message: Message) {
        match message {
            Message::Release(file, epoch) => {
                self.with_home(|home, view, _, mail| home.on_release(view, from, file, epoch, mail));
            }
            Message::Drained(file, epoch, member) => {
                // The files are listed before one is taken out.
                self.tell_emptied();
                if self.home.on_drained(from, file, epoch, member) {
                    self.send(from, Message::Noted(file, epoch, member));
                    self.tell_emptied();
                }
            }
            _ => {}
        }
    }

    /// The home has heard that this member gave a file up.
    fn on_released(&mut self, file: FileId, epoch: Stamp, stamp: Stamp) {
        if self.owner_has(file, epoch) && self.owners.get(file).is_some_and(Packed::is_given_up) {
            self.owners.remove(file);
            let seat = self.seat;
            self.guests.at(file).on_released(seat, epoch, stamp);
            self.forward(file);
        }
    }

    /// The owner of a file, if it has that epoch.
    fn owner_has(&self, file: FileId, epoch: Stamp) -> bool {
        self.owners.get(file).is_some_and(|owner| owner.epoch() == epoch)
    }

    fn as_owner(&mut self, from: Seat, message: Message) {
        match message {
            Message::Claimed { file, epoch, log, writers } if self.owner_has(file, epoch) => {
                self.with_owner(file, |owner, site, mail| owner.on_claimed(site, from, &log, &writers, mail));
                self.settle_own(file);
            }
            Message::CalledIn(file, epoch, number, range, writers) if self.owner_has(file, epoch) => {
                self.with_owner(file, |owner, site, mail| {
                    owner.on_called_in(site, from, (number, range), &writers, mail)
                });
            }
            Message::StillWriting(file, epoch, writers) if self.owner_has(file, epoch) => {
                self.with_owner(file, |owner, site, mail| owner.on_still_writing(site, from, &writers, mail));
            }
            Message::Asked(file, epoch, id, called, ask) if self.owner_has(file, epoch) => {
                self.with_owner(file, |owner, site, mail| {
                    owner.on_asked(site, from.member, (id, called), ask, mail);
                    owner.wake(site.me, mail);
                });
            }
            Message::Asked(file, epoch, ..) => self.send(from, Message::NotMine(file, epoch)),
            _ => {}
        }
    }

    fn as_owner_of_records(&mut self, from: MemberId, message: Message) {
        match message {
            Message::Appended(file, order, at, durable) if self.owner_has(file, order.epoch) => {
                self.with_owner(file, |owner, site, mail| owner.on_appended(site, order, (at, durable), mail));
            }
            Message::Synced(upto) => {
                let files: Vec<FileId> = self.owners.index().awaiting_barriers().collect();
                self.with_owners(files, |owner, site, mail| owner.on_synced(site, from, upto, mail));
            }
            Message::Forgotten(file, epoch, orders) if self.owner_has(file, epoch) => {
                self.with_owner(file, |owner, site, mail| owner.on_forgotten(site, from, &orders, mail));
            }
            Message::Copied(intent, copied) => {
                self.with_owner(intent.file, |owner, site, mail| owner.on_copied(site, from, intent, copied, mail));
            }
            _ => {}
        }
    }

    fn on_pong(&mut self, from: MemberId, id: RequestId) {
        if self.pings.get(&id) == Some(&from) {
            self.pings.remove(&id);
            self.out.push(Output::Answer(id, NONE, Answer::Done));
        }
    }

    fn hear_home(&mut self, message: Message) {
        match message {
            Message::Holds(file, stamp) => self.on_holds(file, stamp),
            Message::OwnedBy(file, owner, epoch) => {
                let news = self.guests.at(file).on_owned(owner, epoch);
                if news {
                    self.forward(file);
                }
            }
            Message::Yours { file, epoch, ask, logged } => {
                let newer = self.owners.get(file).is_none_or(|owner| owner.epoch() < epoch);
                if newer && self.guests.at(file).on_owned(self.seat, epoch) {
                    let mut owner = Owner::named(file, epoch, ask, logged);
                    if self.keeps_back {
                        owner.keep_back(self.seat.member);
                    }
                    self.owners.insert(file, Packed::new(owner));
                    self.with_owner(file, |owner, site, mail| {
                        owner.on_view(site, mail);
                        owner.again(site, mail);
                    });
                    self.forward(file);
                    self.settle_own(file);
                }
            }
            _ => {}
        }
    }

    fn on_holds(&mut self, file: FileId, stamp: Stamp) {
        let mut guest = self.guests.at(file);
        if !guest.on_holds(stamp) {
            return;
        }
        self.out.push(Output::Clear(file, ALL));
        for asked in guest.asked().collect::<Vec<_>>() {
            let answer = match asked.ask {
                Ask::Commit { .. } => continue,
                Ask::Read { .. } | Ask::Write { .. } => Answer::Absent,
                // Nothing is mapped, so that nothing is to be dropped.
                Ask::WriteDone { .. } => Answer::Done,
            };
            guest.answered(asked.id);
            self.out.push(Output::Answer(asked.id, asked.ask.range(), answer));
        }
        drop(guest);
        self.forward(file);
    }

    fn hear_owner(&mut self, from: Seat, message: Message) {
        match message {
            Message::Claim(file, epoch) => {
                let counts = self.guests.at(file).on_claim(from, epoch);
                if counts && self.lengthens(file) && kept(Rule::LengthInClaim) {
                    self.claimed_while_lengthening.insert(file, epoch);
                } else if counts {
                    if kept(Rule::ClaimNoBits) {
                        self.out.push(Output::Fence { file, epoch, call: None, range: ALL });
                    } else {
                        self.on_fenced(file, epoch, None, ALL, Found::default());
                    }
                    self.forward(file);
                }
            }
            Message::CallIn(file, epoch, number, range) => {
                let counts = self.guests.at(file).on_call(from, epoch, number, range);
                if counts {
                    self.out.push(Output::Fence { file, epoch, call: Some(number), range });
                }
            }
            Message::Answered(file, epoch, id, number, range, answer) => {
                let told = self.guests.at(file).on_answered(epoch, id, number, range, answer);
                match told {
                    Told::Nothing => {}
                    Told::AskAgain(asked, called) => {
                        self.send(from, Message::Asked(file, epoch, asked.id, called, asked.ask));
                    }
                    Told::Tell(answer) => self.tell_thread(file, id, range, answer),
                }
            }
            _ => {}
        }
    }

    fn tell_thread(&mut self, file: FileId, id: RequestId, range: headstart_units::request::Range, answer: Answer) {
        if answer == Answer::Absent {
            self.out.push(Output::Clear(file, range));
        }
        self.out.push(Output::Answer(id, range, answer));
    }
}
