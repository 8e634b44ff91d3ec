//! A new view: what it ends, and what has to be said then.

use std::sync::Arc;

use headstart_units::Nanos;

use crate::guest::{Guest, NONE};
use crate::home::Ended;
use crate::log::Log;
use crate::member::Member;
use crate::message::Answer;
use crate::names::{FileId, MemberId, RequestId, Stamp};
use crate::output::Output;
use crate::owner::Packed;
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
        let old = std::mem::replace(&mut self.view, view);
        let before = old.number();
        let dismissed: Vec<MemberId> = old.named().filter(|member| !self.view.names(*member)).collect();
        let unseats = old.seats().iter().any(|seat| !self.view.has(*seat));
        self.find_moved(before);
        let out: Vec<MemberId> = self.view.gone().filter(|(_, cut)| cut.is_some()).map(|(member, _)| member).collect();
        let unread = out.into_iter().filter(|member| !self.buried.contains_key(member));
        self.out.extend(unread.map(Output::ReadLog));
        self.buried.retain(|member, _| self.view.gone().any(|(gone, _)| gone == *member));
        self.drop_given_up(before);
        if self.guests.index().owners().any(|owner| !self.view.has(owner)) {
            let is_left = |_, guest: &Guest| guest.owner().is_some_and(|(owner, _)| !self.view.has(owner));
            self.guests.change_where(is_left, |guest| guest.on_view(&self.view));
        }
        self.home.on_view(self.seat, before, &self.view, Ended { seats: unseats, members: !dismissed.is_empty() });
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
        self.with_owners_concerned(|owner, site, mail| owner.on_dismissed(site, &dismissed, mail));
        self.settle_all_own();
        self.with_home(|home, view, buried, mail| home.serve(view, buried, mail));
        self.again();
    }

    /// A home that is new hears of a file that was given up nothing at all: nobody owns it.
    fn drop_given_up(&mut self, before: u64) {
        let moved = self.view.moved_since(before);
        let is_given_up = |file: &FileId| self.owners.get(*file).is_some_and(Packed::is_given_up);
        let given_up = self.owners.index().saying().filter(is_given_up);
        let over: Vec<FileId> = given_up.filter(|file| moved.contains(&self.view.slot(*file))).collect();
        for file in over.into_iter().filter(|_| kept(Rule::ReleaseDeclared)) {
            let owner = self.owners.remove(file);
            let epoch = owner.map_or_else(Stamp::default, |owner| owner.epoch());
            self.guests.at(file).on_released(self.seat, epoch, Stamp::default());
        }
    }

    /// The log of a member that is out, up to its cut.
    pub fn on_log_read(&mut self, member: MemberId, log: Log) {
        self.buried.insert(member, log);
        self.with_owners_concerned(|owner, site, mail| owner.on_view(site, mail));
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
        let ready = |file: &FileId| {
            let owner = self.owners.get(*file).map(Packed::unfolded);
            owner.is_some_and(|owner| owner.can_be_salvaged(is_over))
        };
        let logs = |file: FileId| self.buried.iter().filter(move |(_, log)| log.speaks_of(file));
        let named = self.owners.index().holding_out().filter(ready);
        let named = named.flat_map(|file| logs(file).map(move |(member, _)| (file, *member)));
        named.filter(|(_, member)| is_over(*member)).take(most).collect()
    }

    /// Files that this member owns and of which bytes are on flash of a member that is out: this member is to write them
    /// back. Whose log names them.
    pub fn inherited(&self) -> impl Iterator<Item = (FileId, MemberId)> + '_ {
        let named = self.buried.iter().flat_map(|(of, log)| log.files().into_iter().map(|file| (file, *of)));
        named.filter(|(file, _)| self.owners.get(*file).is_some_and(|owner| owner.unfolded().has_mapped()))
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
}
