//! Members that are silent: given up, cut, brought back, forgotten.
//!
//! | it sees of a member | it does |
//! |---|---|
//! | somebody waits for it, it is out of reach, and its node gave its lock up, or it was silent too long | proposes the view without it |
//! | its deadline has surely passed, and its agent is gone | copies what counts of its journal, proposes that cut |
//! | its cut | reads it |
//! | a file of it that this member owns by now | has its bytes brought back |
//! | no home needs its log | removes its files, proposes the view without its log |
//!
//! As long as no agent says durably which write-backs it begins, nobody knows of one that is silent what of it may still
//! land. So a cut waits until the lock that the agent alone has on the slow directory was given up, or its node was
//! started anew; a node that hangs keeps others waiting until it goes on or is ended.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use headstart_cluster::{FileId, Log, MemberId};
use headstart_membership::now_ns;
use headstart_membership::presence::{LockState, observe};
use headstart_overlay::Mapped;
use headstart_overlay::recovery::Recovered;
use headstart_units::Nanos;

use crate::cluster::gone::GIVEN_UP;
use crate::cluster::roster::{Member, Place, Roster, Standing};
use crate::cluster::{gone, views};
use crate::error::Result;
use crate::node_files::NodeFiles;
use crate::renamed;
use crate::salvager::SalvageJob;
use crate::store::Claim;

use super::super::EventLoop;
use super::{Membership, Part};

/// How often it looks; assumed: two look-ups in a directory for each member that is waited for.
const PERIOD: Duration = Duration::from_millis(250);
/// So many files are named of which bytes were not synced; assumed: what somebody reads.
const TOLD_MAX: usize = 100;
/// How often what failed is tried again, and told.
const AGAIN: Duration = Duration::from_secs(60);

/// What is known of members that are silent or gone.
#[derive(Default)]
pub(super) struct Gone {
    looked: Option<Instant>,
    /// There is something to look for.
    looks: bool,
    /// Since when somebody waits for a member.
    awaited: BTreeMap<MemberId, Instant>,
    /// Since when a member is out of reach.
    lost: BTreeMap<Place, Instant>,
    /// Since when its lock is found given up.
    given_up: BTreeMap<Place, Instant>,
    /// Nobody begins as that member's next agent before its cut is in the register.
    claim: Option<Claim>,
    /// Whose log is on its way out of the view.
    dismissing: Option<Place>,
    /// What they left.
    maps: BTreeMap<MemberId, Recovered>,
    /// Whose cut could not be read.
    unread: BTreeSet<MemberId>,
    /// Whose log cannot be copied.
    uncut: BTreeSet<MemberId>,
    /// What could not be brought back, and when that was found.
    failed: Vec<(Instant, FileId, MemberId)>,
    told: BTreeMap<MemberId, Instant>,
    /// A drain waits for what nodes that are gone had.
    drains: bool,
    /// Those that it found when it last looked.
    drained: (Option<Instant>, BTreeSet<MemberId>),
}

impl Gone {
    /// A member is out of reach.
    pub(super) fn lost(&mut self, place: Place) {
        self.lost.entry(place).or_insert_with(Instant::now);
    }

    /// Something was heard of it.
    pub(super) fn heard(&mut self, place: Place) {
        self.lost.remove(&place);
    }

    /// How long until it looks, if there is something to look for.
    pub(super) fn left(&self) -> Option<Duration> {
        self.looks.then(|| PERIOD.saturating_sub(self.looked.map_or(PERIOD, |looked| looked.elapsed())))
    }

    /// A swap has ended.
    pub(super) fn swapped(&mut self) {
        self.claim = None;
    }

    fn note(&mut self, awaited: &[MemberId]) {
        self.awaited.retain(|member, _| awaited.contains(member));
        for member in awaited {
            self.awaited.entry(*member).or_insert_with(Instant::now);
        }
    }

    /// Whether it is to be said that somebody waits for that member.
    fn is_to_tell(&mut self, member: MemberId) -> bool {
        let due = self.told.get(&member).is_none_or(|told| told.elapsed() >= AGAIN);
        if due {
            self.told.insert(member, Instant::now());
        }
        due
    }
}

impl Membership {
    /// Whether the node of a member, or its agent, is known to be gone for good.
    fn is_over(&self, member: &Member) -> bool {
        let started_anew = |other: &Member| other.name == member.name && other.boot_id != member.boot_id;
        self.roster.seated().any(started_anew) || self.locks(member).is_some_and(|(_, movers)| movers)
    }

    /// Whether its locks were given up: that of its node, and that of its agent.
    fn locks(&self, member: &Member) -> Option<(bool, bool)> {
        let (door, name) = (self.door.as_ref()?, member.locks.as_ref()?);
        let seen = observe(door.places(), name);
        let present = seen.present == LockState::GivenUp;
        Some((present, present || seen.movers == LockState::GivenUp))
    }

    /// Whether a member that somebody waits for is to be given up.
    fn accuses(&mut self, member: &Member, awaited: Instant) -> bool {
        let timing = self.site.timing;
        let patience = Duration::from_nanos(timing.hold.0 + timing.margin.0);
        let node_is_gone = self.locks(member).is_some_and(|(present, _)| present);
        if !node_is_gone {
            self.gone.given_up.remove(&member.place);
        } else {
            let since = *self.gone.given_up.entry(member.place).or_insert_with(Instant::now);
            return since.elapsed() >= GIVEN_UP;
        }
        let lost = self.gone.lost.get(&member.place);
        lost.is_some_and(|lost| lost.elapsed() >= patience) && awaited.elapsed() >= patience
    }

    /// The roster without one that is silent.
    fn without_a_silent_one(&mut self) -> Option<Roster> {
        for (id, awaited) in self.gone.awaited.clone() {
            let place = views::place(id);
            let may_be = self.roster.may_be_given_up(place);
            let Some(member) = self.roster.at(place).filter(|_| may_be).cloned() else { continue };
            if self.accuses(&member, awaited) {
                tracing::warn!(node = member.name, "a node is silent, and the others go on without it");
                return views::without(&self.roster, member.place).ok();
            }
        }
        None
    }
}

impl EventLoop<'_> {
    /// What is due by time.
    pub(super) fn tend_gone(&mut self) -> Result<()> {
        let serves = self.life.serves();
        let Some(membership) = self.cluster.0.as_mut().filter(|membership| membership.part == Part::Armed) else {
            return Ok(());
        };
        let has_logs = self.tiers.overlay.has_logs_of_others();
        // Who waits for nobody has sent nothing that was not answered.
        membership.gone.looks = has_logs || membership.said.is_some() || !membership.gone.drained.1.is_empty();
        if membership.gone.left() != Some(Duration::ZERO) {
            return Ok(());
        }
        membership.gone.looked = Some(Instant::now());
        let mut awaited = self.tiers.overlay.waits_for_members();
        awaited.extend(&membership.gone.drained.1);
        membership.gone.note(&awaited);
        if has_logs {
            self.tiers.overlay.say_again(self.tiers.shared.view());
        }
        self.read_unread();
        self.try_failed_again();
        if !serves || self.cluster.0.as_ref().is_some_and(|membership| membership.swaps) {
            return self.carry_out_all();
        }
        let next = self.with_a_cut().or_else(|| self.without_an_empty_log());
        if let Some(membership) = &mut self.cluster.0
            && let Some(roster) = next.or_else(|| membership.without_a_silent_one())
        {
            membership.service.ask_swap(membership.version, roster.to_bytes());
            membership.swaps = true;
        }
        self.carry_out_all()
    }

    /// The roster with the cut of a member whose deadline has passed, once nothing of it can change any more.
    fn with_a_cut(&mut self) -> Option<Roster> {
        let over = self.tiers.overlay.members_over(Nanos(now_ns()));
        let membership = self.cluster.0.as_mut()?;
        for id in over {
            let Some(member) = membership.roster.at(views::place(id)).cloned() else { continue };
            let made = match membership.is_over(&member) {
                true => gone::cut(self.site.fast(), self.site.slow(), member.place, membership.place),
                false => Ok(None),
            };
            if made.is_err() {
                membership.gone.uncut.insert(id);
            } else {
                membership.gone.uncut.remove(&id);
            }
            match made {
                Ok(Some(made)) => {
                    membership.gone.claim = Some(made.claim);
                    return views::cut(&membership.roster, member.place, made.cut, made.position).ok();
                }
                Ok(None) if membership.gone.is_to_tell(id) => tracing::warn!(
                    node = member.name,
                    "a node that is silent may still write back: others wait for files that it had until its agent has \
                     ended, or 'headstart cluster forget' gives it up"
                ),
                Err(error) if membership.gone.is_to_tell(id) => tracing::error!(
                    %error, node = member.name, "what a node that is gone left cannot be copied, and is waited for"
                ),
                Ok(None) | Err(_) => {}
            }
        }
        None
    }

    /// The roster without a log that nobody needs.
    fn without_an_empty_log(&mut self) -> Option<Roster> {
        let emptied = self.tiers.overlay.members_emptied();
        let membership = self.cluster.0.as_mut()?;
        let place = emptied.into_iter().map(views::place).next()?;
        let is_its = membership.roster.at(place).is_some_and(|member| member.standing == Standing::Expelled);
        if is_its && let Err(error) = gone::wipe(self.site.fast(), place) {
            if membership.gone.is_to_tell(views::id(place)) {
                tracing::warn!(%error, "what a node that is gone had on flash cannot be removed");
            }
            return None;
        }
        membership.gone.dismissing = is_its.then_some(place);
        views::dismissed(&membership.roster, place).ok()
    }

    /// The register has another roster: what a member that is gone left goes with its log.
    pub(super) fn forget_dismissed(&mut self) {
        let Some(membership) = &mut self.cluster.0 else { return };
        let roster = &membership.roster;
        let is_left = |place: &Place| roster.at(*place).is_none_or(|member| member.standing == Standing::Left);
        let Some(place) = membership.gone.dismissing.filter(is_left) else { return };
        membership.gone.dismissing = None;
        membership.gone.maps.remove(&views::id(place));
        membership.gone.uncut.remove(&views::id(place));
        match gone::remove(self.site.fast(), self.site.slow(), place) {
            Ok(()) => tracing::info!(node = place.node, "all that a node that is gone had on flash is on the disks"),
            Err(error) => tracing::warn!(%error, "what spoke of a node that is gone stays"),
        }
    }

    /// The log of a member that is out: one that left had nothing, and of one that the user gave up nothing counts.
    pub(in crate::event_loop) fn read_log(&mut self, id: MemberId) {
        let Some(membership) = &mut self.cluster.0 else { return };
        let cut = membership.roster.at(views::place(id)).and_then(|member| member.cut.clone());
        let Some(cut) = cut else {
            self.tiers.overlay.on_log_read(self.tiers.shared.view(), id, Log::default());
            return;
        };
        self.know_salvaged();
        let Some(membership) = &mut self.cluster.0 else { return };
        match gone::read(self.site.fast(), views::place(id), &cut) {
            Ok(gone::Left { log, mut maps }) => {
                let list = NodeFiles::of(self.site.fast(), id.node).list();
                tracing::info!(node = id.node, dirty_bytes = maps.dirty_bytes(), "a node that is gone left its log");
                tell_unsynced(&self.site.slow().join(&list), id, &maps);
                renamed::find(self.site.slow(), &list, &mut maps);
                membership.gone.unread.remove(&id);
                membership.gone.maps.insert(id, maps);
                self.tiers.overlay.on_log_read(self.tiers.shared.view(), id, log);
            }
            Err(error) => {
                if membership.gone.is_to_tell(id) {
                    tracing::error!(%error, "what a node that is gone left cannot be read: its files are waited for");
                }
                membership.gone.unread.insert(id);
            }
        }
    }

    fn read_unread(&mut self) {
        let unread = self.cluster.0.as_ref().map(|membership| membership.gone.unread.clone()).unwrap_or_default();
        unread.into_iter().for_each(|id| self.read_log(id));
    }

    /// What others have brought back since the logs were read counts no more in those.
    fn know_salvaged(&mut self) {
        let Some(membership) = &self.cluster.0 else { return };
        for id in membership.gone.maps.keys() {
            let files = gone::salvaged(self.site.fast(), views::place(*id)).unwrap_or_default();
            for file in files {
                self.tiers.overlay.was_salvaged(self.tiers.shared.view(), file, *id);
            }
        }
    }

    /// Where files that several nodes use stay on flash, whoever owns one that a member left is to know it: it writes back
    /// what that had as what all others have, in the order in which it was written.
    fn inherit(&mut self, file: FileId, of: MemberId) {
        let Some(membership) = &self.cluster.0 else { return };
        let maps = membership.gone.maps.get(&of);
        let known =
            maps.into_iter().flat_map(|maps| maps.files.values()).filter(|known| known.identity.inode == file.0);
        // Whose name is gone, and which nobody has open here, is nobody's to ask for.
        let is_wanted = |identity, unlinked: bool| !unlinked || self.tiers.overlay.find(identity).is_some();
        let known = known.filter(|known| is_wanted(known.identity, known.unlinked));
        let known: Vec<_> = known.map(|known| (known.identity, known.path.clone())).collect();
        if known.is_empty() {
            return self.tiers.overlay.on_salvaged(self.tiers.shared.view(), file, of, true);
        }
        let mut result = Ok(());
        for (identity, path) in known {
            if let Err(error) = self.tiers.know(identity, &path) {
                result = Err(format!("{error:?}"));
            }
        }
        match result {
            Ok(()) => self.tiers.overlay.on_salvaged(self.tiers.shared.view(), file, of, false),
            Err(_) => self.salvaged(file, of, result),
        }
    }

    /// Bytes of a file that this member owns lie in data files of one that is gone.
    pub(in crate::event_loop) fn salvage(&mut self, file: FileId, of: MemberId) {
        if self.tiers.overlay.commits() {
            return self.inherit(file, of);
        }
        let Some(membership) = &self.cluster.0 else { return };
        let maps = membership.gone.maps.get(&of);
        let known = maps.into_iter().flat_map(|maps| maps.files.values());
        let mut job = SalvageJob {
            file,
            of,
            by: membership.place,
            fast: self.site.fast().to_path_buf(),
            storage: self.tiers.store.storage().clone(),
            open: None,
            known: Vec::new(),
            is_lost: false,
            deadline: &self.shared().header.deadline,
        };
        for known in known.filter(|known| known.identity.inode == file.0) {
            let number = self.tiers.overlay.find(known.identity);
            let open = number.and_then(|number| self.tiers.store.slow(number)).map(|slow| slow.file());
            let dirty: Vec<Mapped> = known.map.iter().filter(|mapped| mapped.dirty).collect();
            if dirty.is_empty() || (known.unlinked && open.is_none()) {
                // Nothing is owed, or nobody can ask for it any more.
                continue;
            }
            job.is_lost |= maps.is_some_and(|maps| dirty.iter().any(|mapped| maps.is_untrusted(mapped)));
            job.open = job.open.or(open);
            job.known.push((known.identity, known.path.clone(), dirty));
        }
        self.workers.salvages.push(job);
    }

    /// They are in the slow file, or could not be brought there.
    pub(in crate::event_loop) fn salvaged(
        &mut self,
        file: FileId,
        of: MemberId,
        result: std::result::Result<(), String>,
    ) {
        let Some(membership) = &mut self.cluster.0 else { return };
        if let Err(error) = result {
            let paths = membership.gone.maps.get(&of).into_iter().flat_map(|maps| maps.files.values());
            let mut path = paths.filter(|known| known.identity.inode == file.0).map(|known| known.path.escape_ascii());
            tracing::error!(
                path = path.next_back().map(|path| path.to_string()),
                node = of.node,
                error,
                "bytes of a node that is gone cannot be brought back; 'headstart cluster forget' gives them up"
            );
            membership.gone.failed.push((Instant::now(), file, of));
            return;
        }
        self.tiers.overlay.on_salvaged(self.tiers.shared.view(), file, of, true);
    }

    fn try_failed_again(&mut self) {
        let Some(membership) = &mut self.cluster.0 else { return };
        let is_due = |(failed, ..): &(Instant, FileId, MemberId)| failed.elapsed() >= AGAIN;
        let (due, left) = membership.gone.failed.drain(..).partition(is_due);
        membership.gone.failed = left;
        let due: Vec<(Instant, FileId, MemberId)> = due;
        for (_, file, of) in due {
            self.tiers.overlay.on_salvaged(self.tiers.shared.view(), file, of, false);
        }
    }

    /// Whether bytes of members that are gone are to go to the disks before a drain has ended: of those too for which
    /// nobody waits otherwise.
    pub(in crate::event_loop) fn drains_others(&mut self) -> bool {
        let is_meant = |membership: &&mut Membership| membership.part == Part::Armed && membership.gone.drains;
        let Some(membership) = self.cluster.0.as_mut().filter(is_meant) else { return false };
        if membership.gone.drained.0.is_none_or(|looked| looked.elapsed() >= PERIOD) {
            let others = membership.roster.seated().filter(|member| member.place != membership.place);
            let is_gone = |member: &&Member| membership.locks(member).is_some_and(|(present, _)| present);
            let gone = others.filter(|member| membership.roster.may_be_given_up(member.place)).filter(is_gone);
            let gone: BTreeSet<MemberId> = gone.map(|member| views::id(member.place)).collect();
            membership.gone.drained = (Some(Instant::now()), gone);
        }
        !membership.gone.drained.1.is_empty() || self.brings_back()
    }

    /// The next drain waits for what nodes that are gone had; none of this node alone does.
    pub(in crate::event_loop) fn drain_gone(&mut self) {
        if let Some(membership) = &mut self.cluster.0 {
            membership.gone.drains = true;
        }
    }

    /// A drain has ended.
    pub(in crate::event_loop) fn end_drain_of_others(&mut self) {
        if let Some(membership) = &mut self.cluster.0 {
            membership.gone.drains = false;
            membership.gone.drained = (None, BTreeSet::new());
        }
    }

    /// Whether bytes of members that are gone are about to go to the disks.
    pub(in crate::event_loop) fn brings_back(&self) -> bool {
        let Some(Membership { gone, .. }) = &self.cluster.0 else { return false };
        let can_be = gone.failed.is_empty() && gone.uncut.is_empty() && gone.unread.is_empty();
        can_be && self.owes_for_others()
    }

    /// Whether members that are gone may have something that the disks have not.
    pub(crate) fn owes_for_others(&self) -> bool {
        let Some(membership) = &self.cluster.0 else { return false };
        membership.roster.members.iter().any(|member| member.standing == Standing::Expelled)
    }
}

/// Names what a member that is gone had not synced, as far as that is known.
fn tell_unsynced(list: &Path, of: MemberId, maps: &Recovered) {
    let files = gone::unsynced(list, maps);
    for (path, bytes) in files.iter().take(TOLD_MAX) {
        let path = path.display();
        tracing::warn!(node = of.node, %path, bytes, "a node that is gone had not synced this, unless it had written it back");
    }
    if let Some(more) = files.len().checked_sub(TOLD_MAX).filter(|more| *more > 0) {
        tracing::warn!(node = of.node, more, "and bytes of more files");
    }
}
