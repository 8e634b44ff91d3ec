//! Requests for bytes of a file that others use: their owner is asked, and its answer carried out.
//!
//! | request | asks | then |
//! |---|---|---|
//! | commit | for its place in the order | its record is appended before the answer comes, or it is refused |
//! | read | where the first bytes lie | own ones are read under a lease, those of others are confirmed afterwards |
//! | write | for leave | a lease here; its end is the owner's to hear before the thread |
//! | truncate, rearrange, bypass, write back | for absence from there on | waits, as owners have all written back that they can; then as alone, where nothing is mapped |
//!
//! What is told of a thread that is gone is given back: a leave to write ends with no bytes written.

use headstart_cluster::{Answer as Told, Ask, FileId, MemberId, RequestId};
use headstart_protocol::lease::Place;
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

use super::ALL;
use super::records::{PLACE_END, data_file_of, place_in, place_of};
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::leases::{Direct, Resizes};
use crate::parts::pending::{Commit, CommitStep, Operation, Pending, Reading};
use crate::parts::sharing::{Cluster, Flight, Remote, Standing};

/// No bytes.
const NONE: Range = Range { offset: 0, length: 0 };

impl Overlay {
    /// Goes on with a request for bytes of a file that others use.
    pub(crate) fn attempt_shared(&mut self, shared: Shared<'_>, file: u32, pending: &mut Pending) -> Option<Answer> {
        let arrival = pending.arrival;
        match self.sharing.get()?.commits.flights.get(arrival) {
            None => self.ask(shared, file, pending),
            Some((_, Flight::Asked | Flight::Later)) => None,
            Some((id, Flight::Told(part, told))) => {
                let answer = self.carry_out(shared, pending, (id, part, told));
                if answer.is_some() {
                    self.end_flight(arrival);
                }
                answer
            }
        }
    }

    /// Asks its owner, or answers at once.
    fn ask(&mut self, shared: Shared<'_>, file: u32, pending: &mut Pending) -> Option<Answer> {
        let (ask, is_bound) = match &mut pending.operation {
            Operation::Commit(commit) => match self.judge_shared(commit) {
                Some(answer) => {
                    if commit.step == CommitStep::Waiting {
                        let refused = *commit;
                        self.refuse_commit(shared, pending.envelope.slot, &refused);
                    }
                    return Some(answer);
                }
                None => {
                    commit.step = CommitStep::Asked;
                    (Ask::Commit { range: commit.range, place: place_of(commit.data_file, commit.place) }, true)
                }
            },
            Operation::Read(Reading { range, .. }) => (Ask::Read { range: *range }, true),
            // Where the kernel will write beyond the end is not known.
            Operation::Write { range, .. } => {
                (Ask::Write { range: if range.end() == u64::MAX { ALL } else { *range } }, true)
            }
            Operation::WriteDone { .. } if !shared.slots[pending.envelope.slot as usize].orders_direct_write() => {
                // Nothing was above it: whoever called absence in was told of it, and hears that it has ended.
                self.end_direct(shared, pending.envelope.slot);
                return Some(Answer::Done);
            }
            Operation::WriteDone { range, .. } => (Ask::WriteDone { range: *range }, true),
            Operation::Truncate { size, .. } => (Ask::Write { range: Range::between(*size, u64::MAX) }, false),
            Operation::Rearrange { from, .. } => (Ask::Write { range: Range::between(*from, u64::MAX) }, false),
            Operation::WriteBack { range, .. } => (Ask::Write { range: *range }, false),
            Operation::Bypass { .. } => (Ask::Write { range: ALL }, false),
            Operation::Confirm { .. } => return self.confirm(pending),
            operation => unreachable!("{operation:?} touches no bytes"),
        };
        let cluster = self.sharing.get_mut()?;
        let id = if is_bound { Cluster::id(pending.envelope) } else { cluster.next_unbound() };
        let of = cluster.file(file)?;
        cluster.commits.flights.begin(pending.arrival, id);
        cluster.member.ask(of, id, ask);
        None
    }

    /// What a commit is told that no owner has to be asked about.
    fn judge_shared(&mut self, commit: &Commit) -> Option<Answer> {
        if commit.step == CommitStep::Stored {
            return Some(Answer::Done);
        }
        if self.data_files.has_failed(commit.data_file) || commit.place >= PLACE_END - commit.range.length {
            return Some(Answer::NoSpace);
        }
        self.is_left_alone(commit.file).then(|| {
            self.outbox.counters.refused_bypassed_total += 1;
            Answer::Bypassed
        })
    }

    fn carry_out(
        &mut self,
        shared: Shared<'_>,
        pending: &mut Pending,
        (id, part, told): (RequestId, Range, Told),
    ) -> Option<Answer> {
        let (slot, seq) = (pending.envelope.slot, pending.envelope.seq);
        match pending.operation {
            Operation::Commit(commit) => self.end_shared_commit(shared, slot, id, (&commit, told)),
            Operation::Read(Reading { file, range, leased, .. }) => {
                self.read_shared(shared, slot, (file, range, leased), (part, told))
            }
            Operation::Write { file, range, extends } => {
                let range = if range.end() == u64::MAX { ALL } else { range };
                let resizes = if extends { Resizes::Extends } else { Resizes::No };
                self.let_write(shared, pending.arrival, (slot, seq), (file, range, resizes), told)
            }
            Operation::WriteDone { .. } => {
                if let Some(cluster) = self.sharing.get_mut() {
                    cluster.commits.end_grant(slot);
                }
                self.end_write_once_appended(pending);
                Some(Answer::Done)
            }
            Operation::Truncate { file, size: from } | Operation::Rearrange { file, from, .. } => {
                self.wait_for_absence(pending.arrival, file, id, told)?;
                let range = Range::between(from, u64::MAX);
                let told = Told::Absent;
                self.let_write(shared, pending.arrival, (slot, seq), (file, range, Resizes::Truncates), told)
            }
            Operation::WriteBack { file, .. } | Operation::Bypass { file, .. } => {
                self.wait_for_absence(pending.arrival, file, id, told)?;
                Some(Answer::Done)
            }
            Operation::Confirm { .. } => Some(self.confirmed(slot, told == Told::Done)),
            _ => unreachable!("it touches no bytes"),
        }
    }

    fn end_shared_commit(
        &mut self,
        shared: Shared<'_>,
        slot: u32,
        id: RequestId,
        (commit, told): (&Commit, Told),
    ) -> Option<Answer> {
        match (told, commit.step) {
            // Its record is not appended yet.
            (Told::Done, CommitStep::Applied) => None,
            (Told::Done, _) => {
                self.granules.let_go(commit.file, commit.range);
                let failed = self.sharing.get_mut().is_some_and(|cluster| cluster.commits.take_failed(id));
                Some(if failed { Answer::NoSpace } else { Answer::Done })
            }
            _ => {
                self.outbox.counters.refused_held_up_total += 1;
                self.refuse_commit(shared, slot, commit);
                Some(Answer::HeldUp)
            }
        }
    }

    /// A thread may write the slow file: under a lease here, by which the owner is told of it if it is asked.
    fn let_write(
        &mut self,
        shared: Shared<'_>,
        arrival: u64,
        (slot, seq): (u32, u64),
        (file, range, resizes): (u32, Range, Resizes),
        told: Told,
    ) -> Option<Answer> {
        if !matches!(told, Told::Go | Told::Absent) {
            // Nobody must write there now; whoever is in the way ends.
            self.put_off(arrival);
            return None;
        }
        let direct = Direct { file, range, resizes, since_ns: self.measured_ns };
        self.leases.grant_direct(slot, direct);
        shared.slots[slot as usize].grant_direct_write(file, range, resizes.flags());
        if told == Told::Go {
            self.order_direct(shared, slot, seq);
        }
        Some(Answer::Go)
    }

    /// The file's owner is to hear of the end of a direct write.
    pub(super) fn order_direct(&mut self, shared: Shared<'_>, slot: u32, seq: u64) {
        shared.slots[slot as usize].order_direct_write();
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.commits.grant(slot, seq);
        }
    }

    /// Something once nothing of the range is on flash anywhere; the leave to write there is given back till then.
    fn wait_for_absence(&mut self, arrival: u64, file: u32, id: RequestId, told: Told) -> Option<()> {
        if told == Told::Absent {
            return Some(());
        }
        if told == Told::Go {
            self.give_back(file, id);
        }
        self.put_off(arrival);
        None
    }

    /// Says that nothing was written with the leave that was asked for under that name.
    fn give_back(&mut self, number: u32, asked: RequestId) {
        let Some(cluster) = self.sharing.get_mut() else { return };
        let Some(file) = cluster.file(number) else { return };
        let seq = if Cluster::thread(asked).is_some() { asked.seq + 1 } else { cluster.next_seq() };
        cluster.member.ask(file, RequestId { seq, ..asked }, Ask::WriteDone { range: NONE });
    }

    /// A direct write has ended without its thread's word: nothing that it wrote counts.
    pub(crate) fn give_back_lease(&mut self, slot: u32, number: u32) {
        let Some(cluster) = self.sharing.get_mut().filter(|cluster| cluster.commits()) else { return };
        let Some(seq) = cluster.commits.end_grant(slot) else { return };
        let Some(file) = cluster.file(number).filter(|file| !cluster.member.is_alone(*file)) else { return };
        cluster.member.ask(file, Cluster::id_behind(slot, seq), Ask::WriteDone { range: NONE });
    }

    fn put_off(&mut self, arrival: u64) {
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.commits.flights.put_off(arrival);
        }
    }

    /// A request waits no longer, answered or not.
    pub(crate) fn end_flight(&mut self, arrival: u64) {
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.commits.flights.end(arrival);
        }
    }

    /// An owner has answered, or a member that it lives.
    pub(super) fn hear(&mut self, id: RequestId, part: Range, told: Told) {
        let Some(cluster) = self.sharing.get_mut() else { return };
        let arrival = cluster.commits.flights.tell(id, part, told);
        match (arrival, told) {
            (Some(arrival), Told::Again) => self.pending.ask_commit_anew(arrival),
            // Its thread is gone.
            (None, Told::Go) => self.give_back_orphan(id),
            _ => {}
        }
    }

    /// The same of a leave whose thread was gone before it came.
    fn give_back_orphan(&mut self, id: RequestId) {
        let Some(cluster) = self.sharing.get_mut() else { return };
        if let Some(number) = cluster.commits.flights.take_orphan(id) {
            self.give_back(number, id);
        }
    }

    /// Where the first bytes of a read lie.
    fn read_shared(
        &mut self,
        shared: Shared<'_>,
        slot: u32,
        (file, range, leased): (u32, Range, bool),
        (part, told): (Range, Told),
    ) -> Option<Answer> {
        let part = part.intersection(range);
        let (length, node) = (part.length, self.node());
        let cell = &shared.slots[slot as usize];
        cell.forget_read();
        let (of, on_flash) = match told {
            Told::Flash { of, place, durable } => {
                let (data_file, place) = (data_file_of(of.node, place), place_in(place));
                cell.grant_flash_read([Place { file, data_file, place, length }]);
                self.leases.note_flash_read(slot);
                if of.node == node {
                    return Some(Answer::Flash { length });
                }
                ((!durable).then_some(of), true)
            }
            Told::Disk { of } if of.node != node => (Some(of), false),
            _ => (None, false),
        };
        if leased && !on_flash {
            cell.grant_slow_read(part);
            self.leases.note_slow_read(slot);
        }
        if !on_flash && of.is_none() {
            return Some(Answer::Disk { length });
        }
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.commits.read(slot, Remote { file, range: part, of, is_stale: false });
        }
        Some(Answer::Remote { length, on_flash })
    }

    /// Whether what a thread has read counts, as it was told of another node's bytes.
    fn confirm(&mut self, pending: &Pending) -> Option<Answer> {
        let slot = pending.envelope.slot;
        let remote = self.sharing.get()?.commits.remote(slot);
        let of: Option<MemberId> = match remote {
            Some(Remote { is_stale: false, of, .. }) => of,
            _ => return Some(self.confirmed(slot, false)),
        };
        let Some(of) = of else { return Some(self.confirmed(slot, true)) };
        let cluster = self.sharing.get_mut()?;
        let id = Cluster::id(pending.envelope);
        cluster.commits.flights.begin(pending.arrival, id);
        cluster.member.ping(id, of);
        None
    }

    fn confirmed(&mut self, slot: u32, lives: bool) -> Answer {
        let Some(cluster) = self.sharing.get_mut() else { return Answer::NoSpace };
        let counts = lives && cluster.commits.remote(slot).is_some_and(|remote| !remote.is_stale);
        cluster.commits.end_remote(slot);
        if counts { Answer::Done } else { Answer::NoSpace }
    }

    /// What was put off is asked anew. Call it now and then.
    pub(crate) fn ask_put_off(&mut self) {
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.commits.flights.ask_anew();
        }
    }

    /// Whether what is on flash of the file is its owner's to have written back and forgotten: not of one that an agent
    /// before had alone, which nobody has claimed since.
    pub(crate) fn is_owners(&self, number: u32) -> bool {
        let leaves = |cluster: &Cluster| cluster.commits() && cluster.standing(number) == Standing::Leaving;
        self.is_logged(number) || self.sharing.get().is_some_and(leaves)
    }

    /// Whether the log has something of the file: it stays known.
    pub(crate) fn is_logged(&self, number: u32) -> bool {
        self.files.get(&number).is_some_and(|file| self.sharing.log().has_entries(FileId(file.identity().inode)))
    }
}
