//! The owner of a file: orders its records, knows who touches its slow bytes, keeps its map.
//!
//! It serves once all that may hold something of the file have answered its claim and, where logs have records, those
//! of members that are gone are merged. From then on every request is tried in the order of arrival, again and again,
//! until nothing it waits for is left: a call, a writer's append, a copy, a member that leaves. All of these end, or
//! their member is expelled.

mod access;
mod alone;
mod index;
mod packed;
mod queue;
mod requests;
mod space;

use std::collections::{BTreeMap, BTreeSet};

use crate::log::{Log, Logged};
use crate::message::{Message, Writers};
use crate::names::{FileId, MemberId, Order, Seat, Stamp};
use crate::record::{Entry, Intent, Record};
use crate::rules::{Rule, kept};
use crate::stack::Stack;
use crate::view::View;
use access::{Access, Call};
use alone::OwnClaim;
use headstart_units::request::Range;
use queue::Queue;
use space::Space;

pub(crate) use packed::Packed;

/// What an owner is told of the site with each event.
pub(crate) struct Site<'a> {
    pub(crate) me: MemberId,
    pub(crate) view: &'a View,
    /// Logs of members that are out, up to their cuts.
    pub(crate) buried: &'a BTreeMap<MemberId, Log>,
}

/// Messages to send.
pub(crate) type Mail = Vec<(MemberId, Message)>;

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// It claims the file, then it serves.
    Owns,
    /// It calls in what others hold: requests wait.
    GivesUp,
    /// The home is to hear that nobody owns the file: to others it is no owner any more.
    GivenUp,
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
    stage: Stage,
    /// Who has not answered the claim.
    claiming: BTreeSet<MemberId>,
    own: OwnClaim,
    /// Logs of members that are gone have records, and are not merged yet.
    merges: bool,
    seq: u64,
    stack: Stack,
    access: Access,
    queue: Queue,
    copies: BTreeMap<Order, Copying>,
    /// What copies of members that are out may still overwrite in the slow file.
    quarantine: Vec<(MemberId, Range)>,
    /// Programs of another member have it open, as that said.
    is_used: bool,
    /// Where the last write-back ended.
    next_back: u64,
    space: Space,
}

impl Owner {
    /// An owner that its home has named. It claims when [`Self::again`] is called.
    pub(crate) fn named(file: FileId, epoch: Stamp, ask: Vec<MemberId>, logged: bool) -> Owner {
        Owner {
            file,
            epoch,
            stage: Stage::Owns,
            claiming: ask.into_iter().collect(),
            own: OwnClaim::Made,
            merges: logged,
            seq: 0,
            stack: Stack::default(),
            access: Access::default(),
            queue: Queue::default(),
            copies: BTreeMap::new(),
            quarantine: Vec::new(),
            is_used: false,
            next_back: 0,
            space: Space::default(),
        }
    }

    /// Whether it answers requests.
    pub(crate) fn serves(&self) -> bool {
        let keeps_back = self.own != OwnClaim::Made && kept(Rule::AloneServes);
        self.claiming.is_empty() && !self.merges && self.stage == Stage::Owns && !keeps_back
    }

    /// Says again all that was not answered.
    pub(crate) fn again(&mut self, site: &Site<'_>, mail: &mut Mail) {
        mail.extend(self.claiming.iter().map(|member| (*member, Message::Claim(self.file, self.epoch))));
        self.send_calls(self.access.calls(), mail);
        for stacked in self.stack.unshown() {
            mail.push((stacked.of, ordered(&stacked.record)));
        }
        for copy in self.copies.values() {
            let message = match copy.source {
                Some((of, place)) => Message::Copy(copy.intent, of, place),
                None => Message::Copying(copy.intent),
            };
            mail.push((copy.mover, message));
        }
        self.space_again(site, mail);
        self.tell_drained(site, true, mail);
        self.poll(site, mail);
    }

    fn send_calls(&self, calls: impl Iterator<Item = Call>, mail: &mut Mail) {
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
        self.space.drained.clear();
        let all_buried = site.view.gone().all(|(member, _)| site.buried.contains_key(&member));
        if self.merges && self.claiming.is_empty() && all_buried {
            for (member, log) in site.buried {
                self.stack.merge(*member, &log.of(self.file));
            }
            self.merges = false;
        }
        self.poll(site, mail);
    }

    /// The view names members no more whose logs nobody needs.
    pub(crate) fn on_dismissed(&mut self, site: &Site<'_>, members: &[MemberId], mail: &mut Mail) {
        for member in members {
            self.bury(site, *member, &Log::default());
        }
        self.on_view(site, mail);
    }

    /// Members of which something is awaited: without it somebody waits here.
    pub(crate) fn waits_for(&self) -> impl Iterator<Item = MemberId> {
        let claimed = self.claiming.iter().copied();
        let called = self.access.calls().map(|call| call.member);
        let unshown = self.stack.unshown().map(|stacked| stacked.of);
        claimed.chain(called).chain(unshown).chain(self.copies.values().map(|copy| copy.mover))
    }

    fn bury(&mut self, site: &Site<'_>, member: MemberId, log: &Log) {
        self.claiming.remove(&member);
        self.access.out(member);
        self.queue.out(member);
        self.stack.cut(self.file, member, log);
        self.space.told.retain(|order| self.stack.get(*order).is_some());
        self.space.reading.retain(|order, _| self.stack.get(*order).is_some());
        let told = self.copies.values().filter(|copy| copy.mover == member).map(|copy| copy.intent);
        let logged = log.under_way_of(self.file);
        let under_way: Vec<Intent> = told.chain(logged).collect();
        self.copies.retain(|_, copy| copy.mover != member);
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
        if !self.claiming.remove(&from) {
            return;
        }
        self.is_used |= writers.uses && from != site.me;
        self.stack.merge(from, log);
        self.go_on_behind(log);
        for writing in writers.threads.iter().filter(|writing| writing.granted) {
            self.access.go(from, writing.slot, writing.range);
        }
        self.access.list(seat, writers);
        for logged in log {
            if let Entry::Intent(intent) = logged.entry {
                self.copies.insert(intent.copy, Copying { intent, mover: from, source: None });
            }
        }
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
        if self.stack.awaits(from) {
            self.stack.synced(from, upto);
            self.poll(site, mail);
        }
    }

    /// Tries what waits.
    fn poll(&mut self, site: &Site<'_>, mail: &mut Mail) {
        self.go_on_giving_up(site, mail);
        if self.serves() {
            self.try_all(site, mail);
            self.forget_dead(site, mail);
        }
        self.space.holds_out = site.buried.keys().any(|member| self.stack.has_of(*member));
    }
}

fn ordered(record: &Record) -> Message {
    let Record { file, order, range, what, by } = *record;
    Message::Ordered { file, order, range, what, by }
}
