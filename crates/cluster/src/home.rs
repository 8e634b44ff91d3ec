//! The home of some slots' files: knows who holds absence of a file that nobody owns, and who owns the others. Nothing
//! else, and nothing durable: a home that gets a slot asks all members what they have of its files, reads the logs of
//! those that are gone, and only then says anything.

mod known;

use std::collections::{BTreeMap, BTreeSet};

use crate::log::Log;
use crate::message::{Declared, Message};
use crate::names::{Concerned, FileId, MemberId, Seat, Stamp};
use crate::owner::Mail;
use crate::rules::{Rule, kept};
use crate::view::View;

use known::{Known, Named};

/// A question that waits until the home knows what it has to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Waiting {
    from: MemberId,
    file: FileId,
    owns: bool,
}

/// What of the view before is not in the new one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Some agent.
    pub(crate) seats: bool,
    /// Some member, seated or gone.
    pub(crate) members: bool,
}

/// What an agent is home of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Home {
    count: u64,
    /// Slots of which not all members have told yet, and those that have.
    collecting: BTreeMap<u16, BTreeSet<MemberId>>,
    files: BTreeMap<FileId, Known>,
    waiting: Vec<Waiting>,
    /// The same questions.
    waits: BTreeSet<Waiting>,
    /// Files of this home's slots in logs of members that are out, of which no owner has said in this view that the log
    /// has nothing that counts.
    undrained: BTreeMap<MemberId, BTreeSet<FileId>>,
    /// Those of them that nobody owns.
    orphans: BTreeSet<FileId>,
    /// Homes that need nothing of such a log, as they have said in this view to its first member.
    emptied: BTreeMap<MemberId, BTreeSet<Seat>>,
}

impl Home {
    /// A new view, in which that is no more. Slots that come, or were another's meanwhile, begin with nothing; files
    /// whose owner is gone have none. A walk; where all members stay it looks at no more than the files' slots.
    pub(crate) fn on_view(&mut self, me: Seat, before: u64, view: &View, ended: Ended) {
        let held: BTreeMap<u16, u64> = view.held_by(me).collect();
        let new = |slot: u16| held.get(&slot).is_none_or(|since| *since > before);
        let stays: Vec<bool> = view.for_each_slot(|slot| !new(slot));
        let names: BTreeSet<MemberId> = view.named().collect();
        self.files.retain(|file, known| {
            if !stays[usize::from(view.slot(*file))] {
                return false;
            }
            if ended.members {
                // Of a member whose log was taken out of the view nothing is left to ask for.
                known.forget_members(|member| names.contains(&member));
            }
            if ended.seats && known.named().is_some_and(|named| !view.has(named.owner)) {
                known.lose_owner();
            }
            true
        });
        self.collecting.retain(|slot, _| held.contains_key(slot));
        for slot in held.keys().filter(|slot| new(**slot)) {
            self.collecting.insert(*slot, BTreeSet::new());
        }
        // What was told in an earlier view does not count: an owner of which this home has not heard may have granted
        // more since, and be gone.
        if kept(Rule::ToldBefore) {
            self.collecting.values_mut().for_each(BTreeSet::clear);
        }
        self.waiting.clear();
        self.waits.clear();
        self.undrained.clear();
        self.orphans.clear();
        self.emptied.clear();
    }

    /// A member tells all that it has in some slots. Those of which everything is known already.
    pub(crate) fn on_declared(&mut self, view: &View, from: Seat, slots: &[u16], files: &[Declared]) -> Vec<u16> {
        let asked: BTreeSet<u16> = slots.iter().copied().filter(|slot| self.collecting.contains_key(slot)).collect();
        for declared in files.iter().filter(|declared| asked.contains(&view.slot(declared.file))) {
            let known = self.files.entry(declared.file).or_default();
            known.logged |= declared.logged;
            if declared.holds {
                known.hold(from.member);
            }
            let older = |epoch: &Stamp| known.named().is_some_and(|named| named.epoch > *epoch);
            if let Some(epoch) = declared.owns.filter(|epoch| !older(epoch)) {
                known.name(Named { owner: from, epoch, ask: Vec::new(), logged: true });
            }
        }
        for slot in asked {
            self.collecting.get_mut(&slot).map(|told| told.insert(from.member));
        }
        slots.iter().copied().filter(|slot| !self.collecting.contains_key(slot)).collect()
    }

    /// Members that have not told of some slot.
    pub(crate) fn waits_for(&self, view: &View) -> Vec<MemberId> {
        let untold = |told: &BTreeSet<MemberId>| {
            view.seats().iter().map(|seat| seat.member).filter(|member| !told.contains(member)).collect::<Vec<_>>()
        };
        self.collecting.values().flat_map(untold).collect()
    }

    /// Slots of which everything is known begin to be served: the questions that waited for it.
    pub(crate) fn serve(&mut self, view: &View, buried: &BTreeMap<MemberId, Log>, mail: &mut Mail) {
        let all_buried = view.gone().all(|(member, _)| buried.contains_key(&member));
        if !all_buried && kept(Rule::ListLogs) {
            return;
        }
        // Too few cannot be all: this is asked at each of them.
        let all_told = |told: &BTreeSet<MemberId>| {
            told.len() >= view.seats().len() && view.seats().iter().all(|seat| told.contains(&seat.member))
        };
        let ready: Vec<u16> = self
            .collecting
            .iter()
            .filter(|(_, told)| all_told(told) || !kept(Rule::DeclareAll))
            .map(|(slot, _)| *slot)
            .collect();
        if ready.is_empty() {
            return;
        }
        for slot in &ready {
            self.collecting.remove(slot);
        }
        mail.extend(view.seats().iter().map(|seat| (seat.member, Message::Heard(ready.clone()))));
        if kept(Rule::ListLogs) {
            for file in buried.values().flat_map(Log::files).filter(|file| ready.contains(&view.slot(*file))) {
                self.files.entry(file).or_default().logged = true;
            }
        }
        self.waits.clear();
        for Waiting { from, file, owns } in std::mem::take(&mut self.waiting) {
            self.on_open(view, from, file, owns, mail);
        }
    }

    /// An owner gives a file up: nothing of it is on flash, and nobody holds anything of it.
    pub(crate) fn on_release(&mut self, view: &View, from: Seat, file: FileId, epoch: Stamp, mail: &mut Mail) {
        if self.collecting.contains_key(&view.slot(file)) {
            return;
        }
        let known = self.files.entry(file).or_default();
        let named = known.named().is_some_and(|named| named.owner == from && named.epoch == epoch);
        if named || !kept(Rule::ReleaseAgain) {
            self.files.remove(&file);
            self.list_orphan(file);
            // What is said from now on is newer than what was said of that owner.
            self.count += u64::from(kept(Rule::ReleaseStamp));
        }
        let stamp = Stamp { view: view.number(), count: self.count };
        mail.push((from.member, Message::Released(file, epoch, stamp)));
    }

    /// Of each log of a member that is out, the files that it has in this home's slots, once those are known.
    fn list_undrained(&mut self, me: Seat, view: &View, buried: &BTreeMap<MemberId, Log>) {
        if !self.collecting.is_empty() {
            return;
        }
        for (member, log) in buried {
            if self.undrained.contains_key(member) {
                continue;
            }
            let mine: BTreeSet<FileId> = log.files().into_iter().filter(|file| view.home(*file) == me).collect();
            self.undrained.insert(*member, mine.clone());
            mine.into_iter().for_each(|file| self.list_orphan(file));
        }
    }

    /// Notes whether a file is an orphan.
    fn list_orphan(&mut self, file: FileId) {
        match self.is_orphan(file) {
            true => self.orphans.insert(file),
            false => self.orphans.remove(&file),
        };
    }

    fn is_orphan(&self, file: FileId) -> bool {
        let owned = self.files.get(&file).is_some_and(|known| known.named().is_some());
        !owned && self.undrained.values().any(|files| files.contains(&file))
    }

    /// For tests: whether the orphans are those that a walk finds.
    #[cfg(test)]
    pub(crate) fn is_in_step(&self) -> bool {
        let all: BTreeSet<FileId> = self.undrained.values().flatten().copied().collect();
        let waits: BTreeSet<Waiting> = self.waiting.iter().copied().collect();
        all.into_iter().filter(|file| self.is_orphan(*file)).eq(self.orphans.iter().copied()) && waits == self.waits
    }

    /// An owner needs nothing of the log of a member that is out. Whether this home has noted that.
    pub(crate) fn on_drained(&mut self, from: Seat, file: FileId, epoch: Stamp, member: MemberId) -> bool {
        let named = self.files.get(&file).and_then(Known::named);
        let owns = named.is_some_and(|named| named.owner == from && named.epoch == epoch);
        let files = self.undrained.get_mut(&member).filter(|_| owns);
        let noted = files.map(|files| files.remove(&file)).is_some();
        self.list_orphan(file);
        noted
    }

    /// Members that are out and whose logs have nothing that counts for files of this home's slots.
    pub(crate) fn emptied(&mut self, me: Seat, view: &View, buried: &BTreeMap<MemberId, Log>) -> Vec<MemberId> {
        self.list_undrained(me, view, buried);
        let needs = |files: &BTreeSet<FileId>| !files.is_empty() && kept(Rule::DismissNamed);
        self.undrained.iter().filter(|(_, files)| !needs(files)).map(|(member, _)| *member).collect()
    }

    /// A home says that it needs nothing of such a log.
    pub(crate) fn on_emptied(&mut self, from: Seat, member: MemberId) {
        self.emptied.entry(member).or_default().insert(from);
    }

    /// Members whose logs no home needs.
    pub(crate) fn needed_by_none(&self, view: &View) -> Vec<MemberId> {
        if self.emptied.is_empty() {
            return Vec::new();
        }
        let homes = view.home_seats();
        let all = |said: &BTreeSet<Seat>| homes.iter().all(|home| said.contains(home));
        self.emptied.iter().filter(|(_, said)| all(said)).map(|(member, _)| *member).collect()
    }

    /// Files of such logs that count, and that nobody owns.
    pub(crate) fn orphans(
        &mut self,
        me: Seat,
        view: &View,
        buried: &BTreeMap<MemberId, Log>,
    ) -> impl Iterator<Item = FileId> + '_ {
        self.list_undrained(me, view, buried);
        self.orphans.iter().copied()
    }

    /// Whom it concerns what happened to a file of this home's.
    pub(crate) fn concerned(&self, view: &View, file: FileId) -> Concerned {
        let known = self.files.get(&file);
        let owner = known.and_then(Known::named).map(|named| named.owner.member);
        let is_told = !self.collecting.contains_key(&view.slot(file)) && !known.is_some_and(|known| known.logged);
        match owner {
            Some(owner) => Concerned::Owner(owner),
            None if is_told => Concerned::Nobody,
            None => Concerned::All,
        }
    }

    /// A member has opened a file, or wants to absorb it.
    pub(crate) fn on_open(&mut self, view: &View, from: MemberId, file: FileId, owns: bool, mail: &mut Mail) {
        if self.collecting.contains_key(&view.slot(file)) {
            let waiting = Waiting { from, file, owns };
            if self.waits.insert(waiting) {
                self.waiting.push(waiting);
            }
            return;
        }
        let Some(seat) = view.seat(from) else {
            return;
        };
        let known = self.files.entry(file).or_default();
        if known.named().is_none() && (owns || known.logged) {
            self.count += 1;
            let epoch = Stamp { view: view.number(), count: self.count };
            let members = || view.seats().iter().map(|seat| seat.member).chain(view.gone().map(|(member, _)| member));
            let held = known.take_holders();
            let ask = if known.logged { members().collect() } else { held };
            known.name(Named { owner: seat, epoch, ask, logged: known.logged });
            self.orphans.remove(&file);
        }
        let known = self.files.entry(file).or_default();
        let answer = match known.named() {
            Some(named) if named.owner == seat => {
                Message::Yours { file, epoch: named.epoch, ask: named.ask.clone(), logged: named.logged }
            }
            Some(named) => Message::OwnedBy(file, named.owner, named.epoch),
            None => {
                known.hold(from);
                Message::Holds(file, Stamp { view: view.number(), count: self.count })
            }
        };
        mail.push((from, answer));
    }
}
