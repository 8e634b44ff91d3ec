//! One agent of a member: its view, its deadline, what it is home of, owns and uses, its log. Routes what comes in.
//!
//! Messages to itself it hears at once, and they cost nothing: a site with one member is a home, an owner and a guest
//! of each file that say everything to themselves.

mod alone;
mod concerned;
mod declaring;
mod guests;
mod lengthening;
mod letters;
mod views;

#[cfg(test)]
mod idle_tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use headstart_units::Nanos;
use headstart_units::request::Range;

use crate::files::{Beside, Files};
use crate::guest::Guest;
use crate::home::Home;
use crate::lease::{Lease, Timing};
use crate::log::Log;
use crate::message::{Envelope, Message};
use crate::names::{FileId, MemberId, Order, RequestId, Seat, Stamp};
use crate::output::Output;
use crate::owner::{Mail, Owner, Packed, Site};
use crate::record::Intent;
use crate::view::View;

/// A copy that begins when its intent is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Intended {
    intent: Intent,
    of: MemberId,
    place: u64,
    /// How many entries have to be durable.
    after: u64,
}

/// An agent of a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    seat: Seat,
    view: Arc<View>,
    lease: Lease,
    home: Home,
    owners: Files<Packed>,
    guests: Files<Guest>,
    log: Log,
    /// Logs of members that are out, up to their cuts.
    buried: BTreeMap<MemberId, Log>,
    /// Slots whose home has not heard yet what this member has there.
    undeclared: BTreeSet<u16>,
    /// Files there, and maybe others: where to look, so that saying it again is no walk.
    moved: Beside<Vec<FileId>>,
    /// Threads that ask whether a member lives.
    pings: BTreeMap<RequestId, MemberId>,
    intended: Vec<Intended>,
    /// Slow files are made long enough for what is absorbed.
    may_lengthen: bool,
    /// Records for which that is under way, and who ordered them.
    lengthening: BTreeMap<(FileId, Order), Seat>,
    /// Claims that are answered when it is over.
    claimed_while_lengthening: BTreeMap<FileId, Stamp>,
    expelled: bool,
    /// Owners keep the claim to their own member back.
    keeps_back: bool,
    to_self: VecDeque<Message>,
    out: Vec<Output>,
}

impl Member {
    /// An agent that begins with a log and with what it finds of bits that are clear, by file; nothing of either where
    /// the member is new. It takes part from its first view on.
    pub fn new(seat: Seat, timing: Timing, log: Log, found: Vec<(FileId, Vec<Range>)>) -> Member {
        let mut guests = Files::default();
        found.into_iter().for_each(|(file, absent)| guests.insert(file, Guest::found(absent)));
        Member {
            seat,
            view: Arc::new(View::none()),
            lease: Lease::new(timing),
            home: Home::default(),
            owners: Files::default(),
            guests,
            log,
            buried: BTreeMap::new(),
            undeclared: BTreeSet::new(),
            moved: Beside::default(),
            pings: BTreeMap::new(),
            intended: Vec::new(),
            may_lengthen: false,
            lengthening: BTreeMap::new(),
            claimed_while_lengthening: BTreeMap::new(),
            expelled: false,
            keeps_back: false,
            to_self: VecDeque::new(),
            out: Vec::new(),
        }
    }

    /// Its seat.
    pub fn seat(&self) -> Seat {
        self.seat
    }

    /// Its view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Its log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Whether it was expelled: it does nothing more.
    pub fn is_expelled(&self) -> bool {
        self.expelled
    }

    /// Whether it answers requests for a file as its owner.
    pub fn owns(&self, file: FileId) -> bool {
        !self.expelled && self.owners.get(file).is_some_and(Packed::serves)
    }

    /// What there is to do.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        self.note_new();
        let owned_anew = self.guests.index_mut().take_owned_anew();
        self.out.extend(owned_anew.into_iter().map(Output::Owner));
        std::mem::take(&mut self.out)
    }

    /// Members that leave and whose deadline has surely passed. Whoever has one copies the durable part of its log to a
    /// name of its own, and proposes the view with that cut.
    pub fn over(&self, now: Nanos) -> Vec<MemberId> {
        self.lease.over(now).collect()
    }

    /// Members of which something is awaited. One that is silent for a deadline's length is to be expelled.
    pub fn waits_for(&self) -> BTreeSet<MemberId> {
        let mut members = BTreeSet::new();
        for owner in self.owners_saying().filter(|owner| !owner.is_alone()) {
            members.extend(owner.unfolded().waits_for());
        }
        members.extend(self.home.waits_for(&self.view));
        members.extend(self.pings.values());
        members.extend(self.undeclared.iter().map(|slot| self.view.holder(*slot).member));
        for file in self.guests.index().asking() {
            let owner = self.guests.get(file).and_then(Guest::owner);
            members.insert(owner.map_or_else(|| self.view.home(file), |(owner, _)| owner).member);
        }
        members.remove(&self.seat.member);
        members
    }

    /// Whether there is something to say again.
    pub fn waits(&self) -> bool {
        !self.waits_for().is_empty()
            || self.guests.index().says()
            || self.owners_saying().any(|owner| owner.unfolded().has_to_say(&self.view))
    }

    /// Says again all that was not answered.
    pub fn again(&mut self) {
        self.declare();
        let pings: Vec<(RequestId, MemberId)> = self.pings.iter().map(|(id, member)| (*id, *member)).collect();
        for (id, member) in pings {
            self.tell(member, Message::Ping(id));
        }
        for file in self.guests.index().saying() {
            self.forward(file);
            self.list_again(file);
        }
        let files: Vec<FileId> = self.owners.index().saying().collect();
        self.with_owners(files, |owner, site, mail| owner.again(site, mail));
        self.tell_emptied();
        self.hear_own();
    }

    /// Tells owners again how much of the log is durable: nobody waits for that, but space that others have.
    pub fn say_synced(&mut self) {
        let owners: Vec<Seat> = self.guests.index().owners().collect();
        for owner in owners {
            self.send(owner, Message::Synced(self.log.durable()));
        }
        self.hear_own();
    }

    /// Gives up a file of which nothing is on flash, if nobody waits for anything there. Whether that has begun.
    pub fn give_up(&mut self, file: FileId) -> bool {
        let mut begun = false;
        self.with_owner(file, |owner, site, mail| begun = owner.give_up(site, mail));
        self.hear_own();
        begun
    }

    /// Members that are out and whose logs nobody needs any more, as all homes have said in this view. Whoever has one
    /// proposes this view without it.
    pub fn emptied(&self) -> Vec<MemberId> {
        self.home.needed_by_none(&self.view)
    }

    /// Files, so many at most, of which logs of members that are out have something that counts, and which nobody owns:
    /// while this is so, the logs stay. Whoever wants them to go claims these files, and writes them back.
    pub fn orphans(&mut self, most: usize) -> Vec<FileId> {
        self.home.orphans(self.seat, &self.view, &self.buried).take(most).collect()
    }

    /// Tells the first of the view which logs no file of this home's slots needs.
    fn tell_emptied(&mut self) {
        let first = self.view.seats().first().copied();
        for member in self.home.emptied(self.seat, &self.view, &self.buried) {
            first.into_iter().for_each(|first| self.send(first, Message::Emptied(member)));
        }
    }

    /// A write-back of a range of a file that this member owns begins, if nothing is in its way.
    pub fn write_back(&mut self, file: FileId, range: Range) -> bool {
        let mut begun = false;
        self.with_owner(file, |owner, site, mail| begun = owner.write_back(site, range, mail));
        self.hear_own();
        begun
    }

    /// Files that it answers requests for as their owner, and of which logs have records.
    pub fn recorded(&self) -> Vec<FileId> {
        self.owners.index().recorded().filter(|file| self.owners.get(*file).is_some_and(Packed::serves)).collect()
    }

    /// The next bytes of a file that this member owns are written back, no more than `bytes_max` and none where
    /// something is in the way. Whether any are.
    pub fn write_back_next(&mut self, file: FileId, bytes_max: u64) -> bool {
        let mut begun = false;
        self.with_owner(file, |owner, site, mail| begun = owner.write_back_next(site, bytes_max, mail));
        self.hear_own();
        begun
    }

    /// How many write-backs of a file that this member owns are under way.
    pub fn copies_of(&self, file: FileId) -> usize {
        self.owners.get(file).map_or(0, |owner| owner.unfolded().copies())
    }

    /// To the agent of a member, if it has a seat.
    fn tell(&mut self, member: MemberId, message: Message) {
        if let Some(seat) = self.view.seat(member) {
            self.send(seat, message);
        }
    }

    fn send(&mut self, to: Seat, message: Message) {
        if to == self.seat {
            self.to_self.push_back(message);
        } else {
            self.out.push(Output::Send(Envelope { from: self.seat, to, view: self.view.number(), message }));
        }
    }

    fn deliver(&mut self, mail: Mail) {
        for (member, message) in mail {
            self.tell(member, message);
        }
    }

    fn hear_own(&mut self) {
        while let Some(message) = self.to_self.pop_front() {
            self.hear(self.seat, message);
        }
    }

    fn with_owner(&mut self, file: FileId, act: impl FnOnce(&mut Owner, &Site<'_>, &mut Mail)) {
        let site = Site { me: self.seat.member, view: &self.view, buried: &self.buried };
        let mut mail = Mail::new();
        if let Some(mut owner) = self.owners.get_mut(file) {
            act(owner.unfold(), &site, &mut mail);
        }
        self.deliver(mail);
    }

    /// The same of several files, before anybody hears of it.
    fn with_owners(&mut self, files: Vec<FileId>, mut act: impl FnMut(&mut Owner, &Site<'_>, &mut Mail)) {
        let site = Site { me: self.seat.member, view: &self.view, buried: &self.buried };
        let mut mail = Mail::new();
        for file in files {
            if let Some(mut owner) = self.owners.get_mut(file) {
                act(owner.unfold(), &site, &mut mail);
            }
        }
        self.deliver(mail);
    }

    /// The same of all files of which a view or a log of a member that is out may change something: a walk, which
    /// passes by what this member has to itself.
    fn with_owners_concerned(&mut self, mut act: impl FnMut(&mut Owner, &Site<'_>, &mut Mail)) {
        let site = Site { me: self.seat.member, view: &self.view, buried: &self.buried };
        let mut mail = Mail::new();
        let named = |file: FileId| site.buried.values().any(|log| log.names(file));
        let concerns = |file: FileId, owner: &Packed| !owner.is_blank() || named(file);
        self.owners.change_where(concerns, |owner| act(owner.unfold(), &site, &mut mail));
        self.deliver(mail);
    }

    fn owners_saying(&self) -> impl Iterator<Item = &Packed> {
        self.owners.index().saying().filter_map(|file| self.owners.get(file))
    }

    fn with_home(&mut self, act: impl FnOnce(&mut Home, &View, &BTreeMap<MemberId, Log>, &mut Mail)) {
        let mut mail = Mail::new();
        act(&mut self.home, &self.view, &self.buried, &mut mail);
        self.deliver(mail);
    }

    /// For the checker: whether what is at work is what a walk through all files finds.
    #[cfg(test)]
    pub(crate) fn is_in_step(&self) -> bool {
        self.owners.are_in_step() && self.guests.are_in_step() && self.home.is_in_step()
    }

    /// For the checker: a site whose first view everybody has already.
    #[cfg(test)]
    pub(crate) fn settle_at(&mut self, view: Arc<View>) {
        self.view = view;
    }

    /// For the checker: a tick has passed.
    #[cfg(test)]
    pub(crate) fn age(&mut self, tick: Nanos, now: Nanos) {
        self.lease.age(tick, now);
    }

    /// For the checker: whether time makes a difference to members that leave.
    #[cfg(test)]
    pub(crate) fn leaving_ages(&self, now: Nanos) -> bool {
        self.lease.leaving_ages(now)
    }
}
