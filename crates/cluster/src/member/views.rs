//! A new view: what it ends, and what has to be said then.

use std::collections::BTreeMap;
use std::sync::Arc;

use headstart_units::Nanos;

use crate::guest::NONE;
use crate::log::Log;
use crate::member::Member;
use crate::message::{Answer, Declared, Message};
use crate::names::{FileId, MemberId, RequestId, Seat, Stamp};
use crate::output::Output;
use crate::owner::Owner;
use crate::rules::{Rule, kept};
use crate::view::{Fate, View};

impl Member {
    /// A look at the membership service, begun at `started`, has shown this view.
    pub fn on_view(&mut self, started: Nanos, now: Nanos, view: Arc<View>) {
        if self.expelled || view.number() < self.view.number() {
            return;
        }
        if !view.has(self.seat) {
            self.expelled = true;
            self.out.push(Output::Expelled);
            return;
        }
        let until = self.lease.look(started, now, &view);
        self.out.push(Output::Deadline(until));
        if view.number() > self.view.number() {
            self.install(view);
        }
        self.count_barriers(now);
        self.hear_own();
    }

    fn install(&mut self, view: Arc<View>) {
        let before = self.view.number();
        let named: Vec<MemberId> = self.view.named().collect();
        self.view = view;
        self.undeclared.extend(self.view.moved_since(before));
        let out: Vec<MemberId> = self.view.gone().filter(|(_, cut)| cut.is_some()).map(|(member, _)| member).collect();
        let unread = out.into_iter().filter(|member| !self.buried.contains_key(member));
        self.out.extend(unread.map(Output::ReadLog));
        self.buried.retain(|member, _| self.view.gone().any(|(gone, _)| gone == *member));
        self.drop_given_up(before);
        for guest in self.guests.values_mut() {
            guest.on_view(&self.view);
        }
        self.home.on_view(self.seat, before, &self.view);
        let lost: Vec<RequestId> = self
            .pings
            .iter()
            .filter(|(_, member)| self.view.fate(**member) != Fate::Seated)
            .map(|(id, _)| *id)
            .collect();
        for id in lost {
            self.pings.remove(&id);
            self.out.push(Output::Answer(id, NONE, Answer::Again));
        }
        let dismissed: Vec<MemberId> = named.into_iter().filter(|member| !self.view.names(*member)).collect();
        self.with_owners(|owner, site, mail| owner.on_dismissed(site, &dismissed, mail));
        self.settle_all_own();
        self.with_home(|home, view, buried, mail| home.serve(view, buried, mail));
        self.again();
    }

    /// A home that is new hears of a file that was given up nothing at all: nobody owns it.
    fn drop_given_up(&mut self, before: u64) {
        let moved = self.view.moved_since(before);
        let given_up = |file: &FileId, owner: &Owner| owner.is_given_up() && moved.contains(&self.view.slot(*file));
        let over: Vec<FileId> =
            self.owners.iter().filter(|(file, owner)| given_up(file, owner)).map(|(file, _)| *file).collect();
        for file in over.into_iter().filter(|_| kept(Rule::ReleaseDeclared)) {
            let owner = self.owners.remove(&file);
            let epoch = owner.map_or_else(Stamp::default, |owner| owner.epoch());
            self.guests.entry(file).or_default().on_released(self.seat, epoch, Stamp::default());
        }
    }

    /// The log of a member that is out, up to its cut.
    pub fn on_log_read(&mut self, member: MemberId, log: Log) {
        self.buried.insert(member, log);
        self.with_owners(|owner, site, mail| owner.on_view(site, mail));
        self.settle_all_own();
        self.with_home(|home, view, buried, mail| home.serve(view, buried, mail));
        self.tell_emptied();
        self.hear_own();
    }

    /// Files that this member owns, at most so many, of which nothing is left but what logs of members have that are out
    /// and copy nothing any more: whose log has what. Whoever copies that to the slow file, durably, notes so where all
    /// look who read such a log anew, and says [`Member::on_salvaged`]. Until then readers are told where it lies.
    pub fn salvageable(&self, most: usize) -> Vec<(FileId, MemberId)> {
        let is_over = |of: MemberId| self.buried.contains_key(&of) && !self.view.may_land(of);
        let logs = self.buried.iter().filter(|(member, _)| is_over(**member));
        let named = logs.flat_map(|(member, log)| log.files().into_iter().map(|file| (file, *member)));
        let ready = |file: &FileId| self.owners.get(file).is_some_and(|owner| owner.can_be_salvaged(is_over));
        named.filter(|(file, _)| ready(file)).take(most).collect()
    }

    /// What the log of a member that is out says of a file lies in the slow file, durably, and this is noted.
    pub fn on_salvaged(&mut self, file: FileId, of: MemberId) {
        if let Some(log) = self.buried.get_mut(&of) {
            log.forget_file(file);
        }
        self.with_owner(file, |owner, site, mail| owner.on_view(site, mail));
        self.settle_own(file);
        self.tell_emptied();
        self.hear_own();
    }

    /// Whether logs of members that are out are in the view.
    pub fn has_logs_of_others(&self) -> bool {
        self.view.gone().next().is_some()
    }

    /// Tells homes of slots that moved what this member has there: each file is looked at once, whatever the homes.
    pub(super) fn declare(&mut self) {
        let mut homes: BTreeMap<Seat, (Vec<u16>, Vec<Declared>)> = BTreeMap::new();
        for slot in &self.undeclared {
            homes.entry(self.view.holder(*slot)).or_default().0.push(*slot);
        }
        let files = if homes.is_empty() { Vec::new() } else { self.declared() };
        for declared in files {
            homes.entry(self.view.home(declared.file)).or_default().1.push(declared);
        }
        for (home, (slots, files)) in homes {
            self.send(home, Message::Declare(slots, files));
        }
    }

    fn declared(&self) -> Vec<Declared> {
        let logged = self.log.files();
        let mut files: Vec<FileId> = self
            .guests
            .keys()
            .chain(self.owners.keys())
            .chain(&logged)
            .filter(|file| self.undeclared.contains(&self.view.slot(**file)))
            .copied()
            .collect();
        files.sort_unstable();
        files.dedup();
        let declared = files.into_iter().map(|file| Declared {
            file,
            holds: self.guests.get(&file).is_some_and(|guest| guest.holds_alone()),
            owns: self.owners.get(&file).map(|owner| owner.epoch()),
            logged: logged.contains(&file),
        });
        declared.filter(|declared| declared.holds || declared.owns.is_some() || declared.logged).collect()
    }
}
