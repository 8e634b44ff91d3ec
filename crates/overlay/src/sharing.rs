//! Files that programs on other nodes use too: what the machines of `headstart-cluster` want done here.
//!
//! What follows is [`Policy::Leaves`], which the agent passes. With [`Policy::Commits`] such files stay on flash
//! (`sharing/listing.rs`, `asking.rs`, `records.rs`): their owner orders what is written to them, and each node's log
//! has what its threads wrote.
//!
//! While one node uses a file, everything is as on one node. Once another member asks for it, it leaves flash: its
//! dirty bytes go back, what says that nothing of it is mapped is made durable, and only then is the other answered.
//! From then on it lies on the disks for all. So a file with bytes on flash is one that no other member's threads can
//! touch, and no byte of flash is ever read or replaced by another node.
//!
//! ```text
//! a file gets a number --> asking --- home: nobody has anything of it -----> absent --- flash is wanted --+
//!                            |   '--- others have left it ----------------------^ |                       |
//!                            '------- owned here, nobody else has anything --> alone <--------------------'
//!              asking <--- nothing is on flash, durably --- leaving <--- another member asks
//! ```

mod asking;
mod leaving;
mod listing;
pub(crate) mod records;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use headstart_cluster as cluster;
use headstart_cluster::{Ask, Envelope, FileId, Log, MemberId, Message, Seat, Timing, View};
use headstart_protocol::shared::Shared;
use headstart_units::Nanos;
use headstart_units::request::Range;

use crate::output::Output;
use crate::overlay::Overlay;
use crate::parts::sharing::{Cluster, Policy, Standing};

/// So many files of members that are gone are copied at once; assumed: they are copied one by one, and the next one is
/// not to wait for a message.
const SALVAGES_MAX: usize = 16;
/// So many that nobody asks for begin to be owned at a time; assumed: their messages are one packet.
const ORPHANS_MAX: usize = 64;

/// All bytes of a file.
const ALL: Range = Range { offset: 0, length: u64::MAX };

impl Overlay {
    /// From now on this agent is one among others, with that seat. `alone`: up to now it was the only one of its site,
    /// and has the files that it knows to itself. Else, as an agent that was started anew under living threads, it asks
    /// about each. Call it before the first [`Overlay::on_view`].
    pub fn join(&mut self, shared: Shared<'_>, seat: Seat, timing: Timing, alone: bool, policy: Policy) {
        let files: Vec<(u32, FileId)> =
            self.files.iter().map(|(number, file)| (*number, FileId(file.identity().inode))).collect();
        let member = match policy {
            Policy::Leaves => {
                let on_flash = files.iter().filter(|(number, _)| !alone && self.granules.any(*number));
                let log = Log::unlisted(on_flash.map(|(_, file)| *file));
                cluster::Member::new(seat, timing, log, Vec::new()).keeping_claims_back()
            }
            Policy::Commits => {
                let log = self.log_to_join(&files, alone);
                cluster::Member::new(seat, timing, log, Vec::new()).keeping_claims_back().lengthening()
            }
        };
        let mut joined = Cluster::new(member, policy);
        for (number, file) in files {
            if alone {
                joined.member.begin_alone(file);
                joined.enter(number, file, Standing::Alone);
            } else {
                joined.enter(number, file, joined.unknown());
                self.granules.deny(shared, number);
            }
        }
        if policy == Policy::Commits {
            // What the agent before let threads write below bytes on flash needs a record when it has been written.
            let above = |file: &u32, range| self.files.get(file).is_some_and(|known| known.map.touches(range));
            let direct = self.leases.all_direct().filter(|(_, direct)| above(&direct.file, direct.range));
            direct.for_each(|(slot, _)| shared.slots[slot as usize].order_direct_write());
            joined.adopt(shared, self.leases.held());
        }
        self.sharing.join(joined);
        if !alone {
            self.close_all_granules(shared);
        }
        self.heed(shared);
    }

    /// A look at the membership service, begun at `started`, has shown this view; both times by CLOCK_MONOTONIC.
    pub fn on_view(&mut self, shared: Shared<'_>, started: Nanos, now: Nanos, view: Arc<View>) {
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.ask_anew();
            cluster.unstick_for(&view);
            cluster.member.on_view(started, now, view);
            self.progress(shared);
            self.end_refusals(shared);
            self.forget_freed(shared);
        }
    }

    /// A message of another member's agent. False: one of the two has an older view; look at the membership service.
    pub fn on_peer(&mut self, shared: Shared<'_>, envelope: Envelope) -> bool {
        let Some(cluster) = self.sharing.get_mut() else { return false };
        if !cluster.commits() && !is_spoken(&envelope.message) {
            return true;
        }
        let counts = cluster.member.on_message(envelope);
        self.progress(shared);
        counts
    }

    /// The log of a member that is out, up to its cut.
    pub fn on_log_read(&mut self, shared: Shared<'_>, member: MemberId, log: Log) {
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.member.on_log_read(member, log);
            self.progress(shared);
        }
    }

    /// Says again what other members have not answered. Call it now and then while
    /// [`Overlay::waits_for_members`] names any.
    pub fn say_again(&mut self, shared: Shared<'_>) {
        let Some(cluster) = self.sharing.get_mut() else { return };
        cluster.ask_anew();
        cluster.wanted().into_iter().for_each(|file| cluster.member.own(file));
        cluster.member.again();
        if cluster.commits() {
            cluster.member.say_synced();
            let ownerless: Vec<FileId> = cluster.member.ownerless().take(ORPHANS_MAX).collect();
            ownerless.into_iter().for_each(|file| cluster.member.own(file));
        }
        self.salvage();
        self.progress(shared);
    }

    /// What members that are gone have on flash goes to the disks, by whoever owns the file. What nobody asks for is
    /// owned by its home.
    fn salvage(&mut self) {
        let Some(cluster) = self.sharing.get_mut().filter(|cluster| cluster.member.has_logs_of_others()) else {
            return;
        };
        for file in cluster.member.orphans(ORPHANS_MAX) {
            cluster.member.own(file);
        }
        for (file, of) in cluster.begin_salvages(SALVAGES_MAX) {
            self.outbox.push(Output::Salvage { file, of });
        }
    }

    /// What the log of a member that is out has of a file is in the slow file, durably, and noted, or nobody can ask for
    /// it any more; or could not be copied, and is tried again. Where files stay on flash the file is known here now, and
    /// is written back as all others.
    pub fn on_salvaged(&mut self, shared: Shared<'_>, file: FileId, of: MemberId, done: bool) {
        let Some(cluster) = self.sharing.get_mut() else { return };
        if cluster.end_salvage(file, of) && done {
            cluster.member.on_salvaged(file, of);
            cluster.ask_anew();
        }
        self.salvage();
        self.progress(shared);
    }

    /// That of a file all was salvaged before the log was read: by an owner of before.
    pub fn was_salvaged(&mut self, shared: Shared<'_>, file: FileId, of: MemberId) {
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.member.on_salvaged(file, of);
            self.progress(shared);
        }
    }

    /// Whether members that are gone may have something on flash.
    pub fn has_logs_of_others(&self) -> bool {
        self.sharing.get().is_some_and(|cluster| cluster.member.has_logs_of_others())
    }

    /// Members that are gone and whose logs nobody needs: the view is to go on without them.
    pub fn members_emptied(&self) -> Vec<MemberId> {
        self.sharing.get().map(|cluster| cluster.member.emptied()).unwrap_or_default()
    }

    /// Members of which something is awaited: one that is silent is to be expelled.
    pub fn waits_for_members(&self) -> Vec<MemberId> {
        self.sharing.get().map(|cluster| cluster.member.waits_for().into_iter().collect()).unwrap_or_default()
    }

    /// Members that leave and whose deadline has surely passed: their logs are to be cut.
    pub fn members_over(&self, now: Nanos) -> Vec<MemberId> {
        self.sharing.get().map(|cluster| cluster.member.over(now)).unwrap_or_default()
    }

    /// Whether something is to be said again for which nobody waits: space of others comes back by it. Only where files
    /// stay on flash.
    pub fn has_to_say_again(&self) -> bool {
        self.sharing.get().is_some_and(|cluster| {
            cluster.commits() && (cluster.member.waits() || cluster.member.ownerless().next().is_some())
        })
    }

    /// Whether what a barrier covered waits for the next look at the membership service.
    pub fn awaits_look(&self) -> bool {
        self.sharing.get().is_some_and(|cluster| cluster.commits() && cluster.member.log().is_covered_further())
    }

    /// The view, if there are other members.
    pub fn view(&self) -> Option<&View> {
        self.sharing.get().map(|cluster| cluster.member.view())
    }

    /// Whether this member was expelled.
    pub fn is_expelled(&self) -> bool {
        self.sharing.get().is_some_and(|cluster| cluster.member.is_expelled())
    }

    /// How many files other members use too, or may.
    pub fn files_shared(&self) -> usize {
        self.sharing.get().map_or(0, |cluster| cluster.counts().1)
    }

    /// How many no other member has anything of.
    pub fn files_alone(&self) -> usize {
        self.sharing.get().map_or(self.files.len(), |cluster| cluster.counts().0)
    }

    /// A file has got a number: who has something of it is asked, unless that is known.
    pub(crate) fn enter(&mut self, shared: Shared<'_>, number: u32) {
        let file = FileId(self.files[&number].identity().inode);
        let has_landed = self.sharing.has_landed();
        let Some(cluster) = self.sharing.get_mut() else { return };
        let mut standing = cluster.known(file);
        if standing == Standing::Alone && cluster.commits() && !has_landed {
            standing = Standing::Asking(true);
        }
        cluster.enter(number, file, standing);
        if matches!(standing, Standing::Asking(_) | Standing::Shared) {
            cluster.member.open(file);
            self.granules.deny(shared, number);
            if standing == Standing::Shared {
                // Others may have synced what its threads write over.
                self.barrier.ask(number);
            }
        }
        self.show_left_alone(shared, number);
    }

    /// The file's number is free.
    pub(crate) fn leave_number(&mut self, shared: Shared<'_>, number: u32) {
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.forget(number);
        }
        self.granules.admit(shared, number);
    }

    /// Asks for threads that wait, and does what the machines want done. True if anything was.
    pub(crate) fn heed(&mut self, shared: Shared<'_>) -> bool {
        if self.sharing.get().is_none() {
            return false;
        }
        self.ask_for_waiting();
        let mut heeded = false;
        while let Some(outputs) = self.sharing.get_mut().map(|cluster| cluster.member.take_outputs())
            && !outputs.is_empty()
        {
            outputs.into_iter().for_each(|output| self.heed_one(shared, output));
            heeded = true;
        }
        heeded
    }

    fn ask_for_waiting(&mut self) {
        let waiting: Vec<u32> = self.pending.touched().collect();
        let Some(cluster) = self.sharing.get_mut() else { return };
        for number in waiting {
            if let (Standing::Asking(false), Some(file)) = (cluster.standing(number), cluster.file(number)) {
                cluster.stand(number, Standing::Asking(true));
                let id = cluster.next_ask(number);
                cluster.member.ask(file, id, Ask::Read { range: ALL });
            }
        }
    }

    fn heed_one(&mut self, shared: Shared<'_>, output: cluster::Output) {
        match output {
            cluster::Output::Send(envelope) => self.outbox.push(Output::Send(envelope)),
            cluster::Output::Deadline(until) => self.outbox.push(Output::Deadline(until)),
            cluster::Output::ReadLog(member) => self.outbox.push(Output::ReadLog(member)),
            cluster::Output::Expelled => self.outbox.push(Output::Expelled),
            cluster::Output::Alone(file) => self.stand_all(shared, file, Standing::Alone),
            cluster::Output::Clear(file, range) if range == ALL => self.stand_all(shared, file, Standing::Absent),
            cluster::Output::Owner(file) => self.show_left_alone_of(shared, file),
            cluster::Output::Fence { file, epoch, call, range } => self.fence(shared, file, (epoch, call, range)),
            cluster::Output::Answer(id, part, answer) if self.commits() => self.hear(id, part, answer),
            // Of a part alone nothing follows: other bytes of the file may be on flash of a node that is gone.
            cluster::Output::Answer(_, range, cluster::Answer::Absent) if range != ALL => {}
            cluster::Output::Answer(id, _, answer) => self.told(shared, Cluster::asked(id), answer),
            // Where files leave flash no member records anything for another. Absence of a part of a file is its
            // member's to answer.
            cluster::Output::Clear(..) => {}
            cluster::Output::Append(entry) => self.record(shared, entry),
            cluster::Output::Lengthen(record) => self.lengthen(record),
            cluster::Output::Barrier => self.barrier.want(),
            cluster::Output::Free(file, record) => self.free(file, &record),
            cluster::Output::StartCopy(intent, of, place) => self.order_copy(intent, of, place),
        }
    }

    /// Whether files that others use stay on flash.
    pub fn commits(&self) -> bool {
        self.sharing.get().is_some_and(Cluster::commits)
    }

    /// Nobody else has anything of a file, or nobody has.
    pub(super) fn stand_all(&mut self, shared: Shared<'_>, file: FileId, standing: Standing) {
        let numbers = self.sharing.get().map(|cluster| cluster.numbers(file)).unwrap_or_default();
        let has_landed = self.sharing.has_landed();
        for number in numbers {
            // One that leaves flash does so for a newer claim.
            if let Some(cluster) =
                self.sharing.get_mut().filter(|cluster| cluster.standing(number) != Standing::Leaving)
            {
                let before = cluster.standing(number);
                if standing == Standing::Alone && cluster.commits() && !has_landed {
                    // What the agent before made longer may land over what is written from now on.
                    cluster.stand(number, Standing::Asking(true));
                    self.granules.deny(shared, number);
                    continue;
                }
                cluster.stand(number, standing);
                if matches!(standing, Standing::Alone | Standing::Absent) {
                    self.granules.admit(shared, number);
                }
                self.show_left_alone(shared, number);
                if standing == Standing::Alone && before != Standing::Alone && self.files.contains_key(&number) {
                    // Others may have cut it.
                    self.settle_size(shared, number, 0);
                    shared.files[number as usize].size.store(0, Ordering::Release);
                }
            }
        }
    }

    /// What was asked about a file is answered.
    fn told(&mut self, shared: Shared<'_>, number: u32, answer: cluster::Answer) {
        let Some(cluster) = self.sharing.get_mut() else { return };
        match (cluster.standing(number), answer) {
            (Standing::Asking(_), cluster::Answer::Absent) => {
                cluster.stand(number, Standing::Absent);
                self.granules.admit(shared, number);
            }
            (Standing::Asking(_), cluster::Answer::Again) => cluster.stand(number, Standing::Asking(false)),
            // Something of it is on flash of a node that is gone: its threads wait for that, and ask now and then.
            _ => {}
        }
    }

    /// A thread wants flash for a file that is not alone: whether it can come to be, and is worth the wait.
    pub(crate) fn may_own(&mut self, number: u32, until_ns: u64) -> bool {
        let Some(cluster) = self.sharing.get_mut() else { return true };
        let Some(file) = cluster.file(number) else { return false };
        let waits = match cluster.member.owner_of(file) {
            None => true,
            Some(_) => cluster.member.may_be_alone(file),
        };
        if !waits || self.measured_ns >= until_ns {
            cluster.end_want(file);
            return false;
        }
        if cluster.want(file) {
            cluster.member.own(file);
        }
        true
    }

    /// It does not want it any more, or has it.
    pub(crate) fn end_want(&mut self, number: u32) {
        if let Some(cluster) = self.sharing.get_mut()
            && let Some(file) = cluster.file(number)
        {
            cluster.end_want(file);
        }
    }

    /// Whether bytes of the file are on flash.
    #[cfg(test)]
    pub(crate) fn has_extents(&self, number: u32) -> bool {
        self.files.get(&number).is_some_and(|file| !file.map.is_empty())
    }
}

/// Whether members say this to each other as long as files that two use lie on the disks.
fn is_spoken(message: &Message) -> bool {
    !matches!(
        message,
        Message::Ordered { .. }
            | Message::Appended(..)
            | Message::Synced(_)
            | Message::Copy(..)
            | Message::Copying(_)
            | Message::Copied(..)
            | Message::Asked(_, _, _, _, Ask::Commit { .. } | Ask::WriteDone { .. } | Ask::Write { .. })
    )
}
