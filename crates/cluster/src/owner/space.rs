//! How space comes back: dead records are forgotten by their logs, logs of members that are out are emptied, and files
//! in which nothing is left are given up.

use std::collections::{BTreeMap, BTreeSet};

use crate::guest::ALL;
use crate::message::Message;
use crate::names::{MemberId, Order};
use crate::owner::{Mail, Owner, Site, Stage};
use crate::rules::{Rule, kept};
use crate::stack::Stacked;
use crate::view::{Fate, View};

/// What an owner waits for without anybody waiting for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Space {
    /// Dead records whose readers are called in, by the number of that call.
    pub(super) reading: BTreeMap<Order, u64>,
    /// Dead records that logs were told to forget.
    pub(super) told: BTreeSet<Order>,
    /// Members that are out and whose logs have nothing of the file; whether the home has heard so.
    pub(super) drained: BTreeMap<MemberId, bool>,
    /// Logs of members that are out have records here.
    pub(super) holds_out: bool,
}

impl Space {
    /// Whether something is said again.
    pub(super) fn has_to_say(&self) -> bool {
        !self.reading.is_empty() || !self.told.is_empty() || self.drained.values().any(|heard| !heard)
    }
}

impl Owner {
    /// Has dead records forgotten, once nobody reads where their bytes lie.
    pub(super) fn forget_dead(&mut self, site: &Site<'_>, mail: &mut Mail) {
        for order in self.stack.take_ripe() {
            let known = self.space.told.contains(&order) || self.space.reading.contains_key(&order);
            let Some(stacked) = self.stack.get(order).filter(|_| !known) else {
                continue;
            };
            let range = stacked.record.range;
            let calls = if kept(Rule::ReadFreed) { self.access.call_readers(range) } else { Vec::new() };
            self.space.reading.insert(order, calls.first().map_or(0, |call| call.number));
            self.send_calls(calls.into_iter(), mail);
        }
        let over = |(order, call): (&Order, &u64)| (!self.access.is_open(*call)).then_some(*order);
        let now: Vec<Order> = self.space.reading.iter().filter_map(over).collect();
        for order in &now {
            self.space.reading.remove(order);
            self.space.told.insert(*order);
        }
        self.free(site, now, mail);
        self.tell_drained(site, false, mail);
    }

    /// Tells logs to forget records.
    fn free(&self, site: &Site<'_>, orders: Vec<Order>, mail: &mut Mail) {
        let mut by_log: BTreeMap<MemberId, Vec<Order>> = BTreeMap::new();
        for order in orders {
            if let Some(stacked) = self.stack.get(order) {
                by_log.entry(stacked.of).or_default().push(order);
            }
        }
        for (of, orders) in by_log {
            if site.view.fate(of) == Fate::Seated {
                mail.push((of, Message::Free(self.file, self.epoch, orders, self.floor(of))));
            }
        }
    }

    /// All records and copies of a member that were ordered before have been heard of: of those nothing comes again.
    pub(super) fn floor(&self, of: MemberId) -> Order {
        let unshown = self.stack.unshown().find(|stacked| stacked.of == of).map(|stacked| stacked.record.order);
        let copied = self.copies.values().find(|copy| copy.mover == of).map(|copy| copy.intent.copy);
        let next = Order { epoch: self.epoch, seq: self.seq + 1 };
        unshown.into_iter().chain(copied).fold(next, Order::min)
    }

    /// A member's log has durably forgotten records.
    pub(crate) fn on_forgotten(&mut self, site: &Site<'_>, from: MemberId, orders: &[Order], mail: &mut Mail) {
        for order in orders {
            if self.stack.get(*order).is_some_and(|stacked| stacked.of == from) && self.space.told.remove(order) {
                self.stack.forget(*order);
            }
        }
        self.poll(site, mail);
    }

    /// Says again what logs have not forgotten, and that a file was given up.
    pub(super) fn space_again(&self, site: &Site<'_>, mail: &mut Mail) {
        self.free(site, self.space.told.iter().copied().collect(), mail);
        if self.stage == Stage::GivenUp {
            mail.push((site.view.home(self.file).member, Message::Release(self.file, self.epoch)));
        }
    }

    /// Whether all that there is of the file lies in logs of members that are over, and nobody touches its slow bytes.
    pub(crate) fn can_be_salvaged(&self, is_over: impl Fn(MemberId) -> bool) -> bool {
        let members = self.stack.members();
        let idle = self.copies.is_empty() && !self.access.is_writing(ALL);
        self.serves() && idle && !members.is_empty() && members.into_iter().all(is_over)
    }

    /// Whether logs of members that are out have records of the file.
    pub(crate) fn holds_out(&self) -> bool {
        self.space.holds_out
    }

    /// Tells the home of members that are out, whose logs have nothing of the file any more that may count.
    pub(super) fn tell_drained(&mut self, site: &Site<'_>, again: bool, mail: &mut Mail) {
        if !self.serves() {
            return;
        }
        for (member, log) in site.buried {
            let read =
                || self.space.reading.keys().any(|order| self.stack.get(*order).is_some_and(|of| of.of == *member));
            if !log.names(self.file) || !self.stack.is_drained(*member) || read() {
                continue;
            }
            let heard = self.space.drained.get(member).copied();
            if heard.is_none() || (again && heard == Some(false)) {
                self.space.drained.insert(*member, false);
                mail.push((site.view.home(self.file).member, Message::Drained(self.file, self.epoch, *member)));
            }
        }
    }

    /// The home has heard that.
    pub(crate) fn on_noted(&mut self, member: MemberId) {
        self.space.drained.entry(member).and_modify(|heard| *heard = true);
    }

    /// Gives the file up, where no log has anything of it and nobody waits: calls in what others hold.
    pub(crate) fn give_up(&mut self, site: &Site<'_>, mail: &mut Mail) -> bool {
        let empty = self.stack.is_empty() || (!kept(Rule::ReleaseUndurable) && self.stack.is_dropped(ALL));
        let busy = !self.queue.is_empty() || !self.copies.is_empty() || !self.quarantine.is_empty();
        if !self.serves() || !empty || busy || self.access.is_writing(ALL) || !self.access.has_no_calls() {
            return false;
        }
        self.stage = Stage::GivesUp;
        let calls: Vec<_> = self.access.call_in(ALL).into_iter().chain(self.access.call_readers(ALL)).collect();
        self.send_calls(calls.into_iter(), mail);
        self.poll(site, mail);
        true
    }

    /// What was called in has come in: the home may say that nobody owns the file. If a thread still writes, it does not
    /// wait for that: it goes on as owner.
    pub(super) fn go_on_giving_up(&mut self, site: &Site<'_>, mail: &mut Mail) {
        let held = !self.access.has_no_calls() && kept(Rule::ReleaseHeld);
        if self.stage != Stage::GivesUp || held {
            return;
        }
        if self.access.is_writing(ALL) && kept(Rule::ReleaseHeld) {
            self.stage = Stage::Owns;
            return;
        }
        self.stage = Stage::GivenUp;
        let waiting = self.queue.take();
        mail.extend(waiting.map(|waiting| (waiting.from, Message::NotMine(self.file, self.epoch))));
        mail.push((site.view.home(self.file).member, Message::Release(self.file, self.epoch)));
    }

    /// Whether something is to be said again, though nobody waits for it.
    pub(crate) fn has_to_say(&self, view: &View) -> bool {
        let can_forget = |stacked: &Stacked| view.fate(stacked.of) == Fate::Seated;
        self.stage == Stage::GivenUp
            || self.space.drained.values().any(|heard| !heard)
            || self.space.told.iter().any(|order| self.stack.get(*order).is_some_and(can_forget))
    }
}
