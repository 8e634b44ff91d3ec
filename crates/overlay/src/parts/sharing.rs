//! What this member knows of files that other members may use: where each file stands, and what it waits for.
//!
//! | a file is | its bits in the shared file | its threads |
//! |---|---|---|
//! | alone | as its granules say | as on one node |
//! | asking | all set | wait: nobody has told yet who has something of it |
//! | absent | clear | read and write the slow file; nothing of it comes to flash |
//! | leaving | all set | wait until nothing of it is on flash here, durably: another member asks for it |
//!
//! | shared | all set | ask its owner, request by request ([`Policy::Commits`] alone) |
//!
//! Without other members there is nothing here, and every file is alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

mod commits;
mod flights;

use headstart_cluster::{FileId, Log, Member, MemberId, RequestId, Seat, Stamp, View, Writing};
use headstart_protocol::message::Envelope;
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

use crate::writer::{OF_FILE, Writer};

pub(crate) use commits::{Commits, Remote};
pub(crate) use flights::Flight;

/// No agent asks so many questions of its own: above is its incarnation.
const ASKS_BITS: u32 = 40;

/// What becomes of a file that programs on two nodes use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// It leaves flash.
    #[default]
    Leaves,
    /// It stays, and one of the members orders what all commit.
    Commits,
}

/// Where a file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// No other member has anything of it.
    Alone,
    /// Nobody has told. Whether somebody was asked for a thread that waits.
    Asking(bool),
    /// Nobody has anything of it on flash.
    Absent,
    /// It leaves flash, or is being listed for its owner.
    Leaving,
    /// An owner orders it.
    Shared,
}

/// What another member is told once a file has left flash.
#[derive(Clone, Debug)]
pub(crate) struct Leaving {
    /// The epoch for which.
    pub(crate) epoch: Stamp,
    /// The call for which; none for a claim.
    pub(crate) call: Option<u64>,
    /// The bytes that were asked for.
    pub(crate) range: Range,
    /// Numbers of the file that have not left.
    pub(crate) left: BTreeSet<u32>,
}

/// A member among others.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// The machines.
    pub(crate) member: Member,
    files: BTreeMap<u32, (FileId, Standing)>,
    /// How many of them stand alone.
    alone: usize,
    /// Those for which somebody was asked.
    asking: BTreeSet<u32>,
    /// Those that threads were refused for now: they see so until the next look at the view.
    refused: BTreeSet<u32>,
    numbers: BTreeSet<(FileId, u32)>,
    leaving: BTreeMap<FileId, Leaving>,
    /// Threads that others were told of as writers.
    named: BTreeMap<FileId, Vec<Writing>>,
    /// Files that this member is to own, if nobody does.
    wanted: BTreeSet<FileId>,
    /// Files whose bytes the runtime copies from data files of members that are gone.
    salvages: BTreeSet<(FileId, MemberId)>,
    stuck: Stuck,
    asks: u64,
    policy: Policy,
    /// Of files that stay on flash.
    pub(crate) commits: Commits,
}

/// Files that cannot leave flash, as what is dirty of them cannot be written back: their threads fail, here and at
/// members that ask for them, and do not wait for ever.
#[derive(Debug, Default)]
struct Stuck {
    /// Those of this member, with the error number of the write-back.
    here: BTreeMap<FileId, i32>,
    /// What changed here and was not told; no number: the file can leave after all.
    untold: Vec<(FileId, Option<i32>)>,
    /// Those of others, with the agent that said so.
    elsewhere: BTreeMap<FileId, (Seat, i32)>,
}

impl Cluster {
    /// One that knows no file.
    pub(crate) fn new(member: Member, policy: Policy) -> Cluster {
        // Owners may remember what an agent before asked under the same name.
        let asks = u64::from(member.seat().incarnation) << ASKS_BITS;
        Cluster {
            member,
            files: BTreeMap::new(),
            alone: 0,
            asking: BTreeSet::new(),
            refused: BTreeSet::new(),
            numbers: BTreeSet::new(),
            leaving: BTreeMap::new(),
            named: BTreeMap::new(),
            wanted: BTreeSet::new(),
            salvages: BTreeSet::new(),
            stuck: Stuck::default(),
            asks,
            policy,
            commits: Commits::default(),
        }
    }

    /// Where a file stands as far as is known of it.
    pub(crate) fn known(&self, file: FileId) -> Standing {
        match (self.member.is_alone(file), self.member.holds(file)) {
            (true, _) => Standing::Alone,
            (false, true) => Standing::Absent,
            (false, false) if self.policy == Policy::Commits => Standing::Shared,
            (false, false) => Standing::Asking(false),
        }
    }

    /// Where a file stands of which nothing is known.
    pub(crate) fn unknown(&self) -> Standing {
        if self.commits() { Standing::Shared } else { Standing::Asking(false) }
    }

    /// Takes over what the agent before has granted: direct writes by their slots.
    pub(crate) fn adopt(&mut self, shared: Shared<'_>, held: impl IntoIterator<Item = u32>) {
        for slot in held.into_iter().filter(|slot| shared.slots[*slot as usize].orders_direct_write()) {
            self.commits.grant(slot, shared.slots[slot as usize].seq.load(Ordering::Relaxed));
        }
        self.commits.adopt(self.member.log().under_way());
    }

    /// The name of a thread's request.
    pub(crate) fn id(envelope: Envelope) -> RequestId {
        Cluster::id_of(envelope.slot, envelope.seq)
    }

    /// The same, by its slot and number.
    pub(crate) fn id_of(slot: u32, seq: u64) -> RequestId {
        RequestId { slot: Writer::Leased(slot).name(), seq: seq.wrapping_mul(2) }
    }

    /// What the agent says itself for a thread, behind its request of that number.
    pub(crate) fn id_behind(slot: u32, seq: u64) -> RequestId {
        RequestId { slot: Writer::Leased(slot).name(), seq: 2 * seq + 1 }
    }

    /// The thread's request of that name: its slot and number. None of what is the agent's own.
    pub(crate) fn thread(id: RequestId) -> Option<(u32, u64)> {
        (id.slot & OF_FILE == 0).then_some((id.slot / 4, id.seq / 2))
    }

    /// Where a file with a number stands.
    pub(crate) fn standing(&self, number: u32) -> Standing {
        self.files.get(&number).map_or(Standing::Alone, |(_, standing)| *standing)
    }

    /// The file behind a number.
    pub(crate) fn file(&self, number: u32) -> Option<FileId> {
        self.files.get(&number).map(|(file, _)| *file)
    }

    /// The numbers of a file: more than one if it was removed here, and another one got its inode.
    pub(crate) fn numbers(&self, file: FileId) -> Vec<u32> {
        self.numbers.range((file, 0)..=(file, u32::MAX)).map(|(_, number)| *number).collect()
    }

    /// A file has the number from now on.
    pub(crate) fn enter(&mut self, number: u32, file: FileId, standing: Standing) {
        self.put(number, Some((file, standing)));
        self.numbers.insert((file, number));
    }

    fn put(&mut self, number: u32, stands: Option<(FileId, Standing)>) {
        let before = match stands {
            Some(stands) => self.files.insert(number, stands),
            None => self.files.remove(&number),
        };
        let is_alone = |stands: Option<(FileId, Standing)>| stands.is_some_and(|(_, now)| now == Standing::Alone);
        self.alone = self.alone + usize::from(is_alone(stands)) - usize::from(is_alone(before));
        match stands {
            Some((_, Standing::Asking(true))) => self.asking.insert(number),
            _ => self.asking.remove(&number),
        };
    }

    /// How many files stand alone, and how many do not.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.alone, self.files.len() - self.alone)
    }

    /// Threads are refused flash for the file until the next look at the view.
    pub(crate) fn refuse(&mut self, number: u32) {
        self.refused.insert(number);
    }

    /// Whether they are.
    #[cfg(test)]
    pub(crate) fn is_refused(&self, number: u32) -> bool {
        self.refused.contains(&number)
    }

    /// There was a look: those that are not refused any more.
    pub(crate) fn take_refused(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.refused)
    }

    /// It stands elsewhere now.
    pub(crate) fn stand(&mut self, number: u32, standing: Standing) {
        if let Some(file) = self.file(number) {
            self.put(number, Some((file, standing)));
        }
    }

    /// The number is free.
    pub(crate) fn forget(&mut self, number: u32) {
        if let Some(file) = self.file(number) {
            self.put(number, None);
            self.numbers.remove(&(file, number));
            self.refused.remove(&number);
        }
    }

    /// Whether files that others use stay on flash.
    pub(crate) fn commits(&self) -> bool {
        self.policy == Policy::Commits
    }

    /// A new name for what is asked, and for no thread.
    pub(crate) fn next_unbound(&mut self) -> RequestId {
        self.asks += 1;
        RequestId { slot: self.commits.flights.borrow(OF_FILE | 1 << 30), seq: self.asks }
    }

    /// A new number for such a name.
    pub(crate) fn next_seq(&mut self) -> u64 {
        self.asks += 1;
        self.asks
    }

    /// A new name for what is asked about a file.
    pub(crate) fn next_ask(&mut self, number: u32) -> RequestId {
        self.asks += 1;
        RequestId { slot: OF_FILE | number, seq: self.asks }
    }

    /// The file that was asked about.
    pub(crate) fn asked(id: RequestId) -> u32 {
        id.slot & !OF_FILE
    }

    /// Files of which it is known who has them, and whose threads wait all the same: until no call of the agent before
    /// is under way. Only where files stay on flash: there nobody else asks so.
    pub(crate) fn asking(&self) -> BTreeSet<FileId> {
        let waits = |standing: &Standing| self.commits() && matches!(standing, Standing::Asking(_));
        self.files.values().filter(|(_, standing)| waits(standing)).map(|(file, _)| *file).collect()
    }

    /// What was asked and not told may be asked again.
    pub(crate) fn ask_anew(&mut self) {
        if self.commits() {
            return;
        }
        for number in std::mem::take(&mut self.asking) {
            self.stand(number, Standing::Asking(false));
        }
    }

    /// A file is to leave flash: what is to be told then.
    pub(crate) fn leave(&mut self, file: FileId, leaving: Leaving) {
        self.leaving.insert(file, leaving);
    }

    /// Whether a file that leaves cannot, and with which error number.
    pub(crate) fn stick(&mut self, file: FileId, errno: Option<i32>) {
        let before = match errno {
            Some(errno) => self.stuck.here.insert(file, errno),
            None => self.stuck.here.remove(&file),
        };
        if before != errno {
            self.stuck.untold.push((file, errno));
        }
    }

    /// The same of another member's, as its agent says.
    pub(crate) fn stick_elsewhere(&mut self, from: Seat, file: FileId, errno: Option<i32>) {
        match errno {
            Some(errno) => self.stuck.elsewhere.insert(file, (from, errno)),
            None => self.stuck.elsewhere.remove(&file),
        };
    }

    /// What agents that are gone said counts no more: the next ones say what they find.
    pub(crate) fn unstick_for(&mut self, view: &View) {
        self.stuck.elsewhere.retain(|_, (seat, _)| view.seats().contains(seat));
    }

    /// Changes here that were not told yet.
    pub(crate) fn take_stuck(&mut self) -> Vec<(FileId, Option<i32>)> {
        std::mem::take(&mut self.stuck.untold)
    }

    /// Files of this member that cannot leave.
    pub(crate) fn stuck(&self) -> impl Iterator<Item = (FileId, i32)> {
        self.stuck.here.iter().map(|(file, errno)| (*file, *errno))
    }

    /// Why threads of the file that wait would do so for ever.
    fn why_stuck(&self, number: u32) -> Option<i32> {
        let (file, standing) = *self.files.get(&number)?;
        match standing {
            Standing::Leaving => self.stuck.here.get(&file).copied(),
            Standing::Asking(_) => self.stuck.elsewhere.get(&file).map(|(_, errno)| *errno),
            Standing::Alone | Standing::Absent | Standing::Shared => None,
        }
    }

    /// One of the file's numbers has left: what is to be told, if it was the last.
    pub(crate) fn left(&mut self, file: FileId, number: Option<u32>) -> Option<Leaving> {
        let leaving = self.leaving.get_mut(&file)?;
        leaving.left.retain(|other| Some(*other) != number);
        if leaving.left.is_empty() { self.leaving.remove(&file) } else { None }
    }

    /// These threads were told of as writers.
    pub(crate) fn name(&mut self, file: FileId, writers: Vec<Writing>) {
        if writers.is_empty() {
            self.named.remove(&file);
        } else {
            self.named.insert(file, writers);
        }
    }

    /// Files with threads that were.
    pub(crate) fn named(&self) -> impl Iterator<Item = (FileId, &[Writing])> {
        self.named.iter().map(|(file, writers)| (*file, writers.as_slice()))
    }

    /// Files to be salvaged that are not yet, so many at once at most. Where files stay on flash, they are to be known
    /// here, so that this member can write them back.
    pub(crate) fn begin_salvages(&mut self, most: usize) -> Vec<(FileId, MemberId)> {
        let ready = match self.policy {
            Policy::Leaves => self.member.salvageable(most),
            Policy::Commits => {
                let unknown = |(file, _): &(FileId, MemberId)| self.numbers(*file).is_empty();
                self.member.inherited().filter(unknown).take(most).collect()
            }
        };
        let room = most.saturating_sub(self.salvages.len());
        let new: Vec<_> = ready.into_iter().filter(|of| !self.salvages.contains(of)).take(room).collect();
        self.salvages.extend(&new);
        new
    }

    /// It is, or failed; false if it was not under way.
    pub(crate) fn end_salvage(&mut self, file: FileId, of: MemberId) -> bool {
        self.salvages.remove(&(file, of))
    }

    /// This member is to own the file; true if that is news.
    pub(crate) fn want(&mut self, file: FileId) -> bool {
        self.wanted.insert(file)
    }

    /// It need not any more.
    pub(crate) fn end_want(&mut self, file: FileId) {
        self.wanted.remove(&file);
    }

    /// The files that it is to own.
    pub(crate) fn wanted(&self) -> Vec<FileId> {
        self.wanted.iter().copied().collect()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sharing {
    cluster: Option<Box<Cluster>>,
    /// What the journal has of files that others used, until there are other members again.
    log: Log,
    /// No kernel call of the agent before is under way.
    has_landed: bool,
}

impl Default for Sharing {
    fn default() -> Sharing {
        Sharing { cluster: None, log: Log::default(), has_landed: true }
    }
}

impl Sharing {
    /// An agent begins with what the journal has of files that others used, and where one was before.
    pub(crate) fn adopt(&mut self, log: Log) {
        *self = Sharing { cluster: None, log, has_landed: false };
    }

    /// Nothing of the agent before is under way any more.
    pub(crate) fn land(&mut self) {
        self.has_landed = true;
    }

    /// Whether that is so.
    pub(crate) fn has_landed(&self) -> bool {
        self.has_landed
    }

    /// What the journal had.
    pub(crate) fn take_log(&mut self) -> Log {
        std::mem::take(&mut self.log)
    }

    /// There are other members from now on.
    pub(crate) fn join(&mut self, cluster: Cluster) {
        self.cluster = Some(Box::new(cluster));
    }

    /// This member, if there are others.
    pub(crate) fn get(&self) -> Option<&Cluster> {
        self.cluster.as_deref()
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self) -> Option<&mut Cluster> {
        self.cluster.as_deref_mut()
    }

    /// What is in this member's log of files that others use.
    pub(crate) fn log(&self) -> &Log {
        self.get().map_or(&self.log, |cluster| cluster.member.log())
    }

    /// Whether no other member has anything of the file.
    pub(crate) fn is_alone(&self, number: u32) -> bool {
        self.get().is_none_or(|cluster| cluster.standing(number) == Standing::Alone)
    }

    /// Whether it belongs to others, or to all, and nothing of it comes to flash: it cannot be had alone, as far as is
    /// known.
    pub(crate) fn is_elsewhere(&self, number: u32) -> bool {
        let Some(cluster) = self.get().filter(|cluster| !cluster.commits()) else { return false };
        let has_owner = |file| cluster.member.owner_of(file).is_some() && !cluster.member.may_be_alone(file);
        match cluster.standing(number) {
            Standing::Alone | Standing::Shared => false,
            Standing::Leaving => true,
            Standing::Asking(_) | Standing::Absent => cluster.file(number).is_some_and(has_owner),
        }
    }

    /// Why they would wait for ever: the error number with which the file's bytes cannot leave flash.
    pub(crate) fn why_stuck(&self, number: u32) -> Option<i32> {
        self.get()?.why_stuck(number)
    }

    /// Whether something of the file may come to flash: it is alone, or an owner orders it.
    pub(crate) fn may_absorb(&self, number: u32) -> bool {
        self.get().is_none_or(|cluster| cluster.commits() || cluster.standing(number) == Standing::Alone)
    }

    /// Whether its threads have to wait.
    pub(crate) fn holds_back(&self, number: u32) -> bool {
        let waits = |cluster: &Cluster| matches!(cluster.standing(number), Standing::Asking(_) | Standing::Leaving);
        self.get().is_some_and(waits)
    }

    /// Whether its requests are an owner's to answer.
    pub(crate) fn asks(&self, number: u32) -> bool {
        let asks = |cluster: &Cluster| {
            cluster.commits() && matches!(cluster.standing(number), Standing::Shared | Standing::Absent)
        };
        self.get().is_some_and(asks)
    }

    /// Whether records of the log are all that the journal is to say of the extents of a file.
    pub(crate) fn is_listed(&self, inode: u64) -> bool {
        self.log().has_records(FileId(inode))
    }
}
