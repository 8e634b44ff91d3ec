//! Nobody waits for ever for a thread that does not go on: one stopped by a signal, a debugger, a batch
//! system or a freezer in the middle of a request.
//!
//! A commit that others' requests keep waiting longer than [`HELD_UP_NS`] is refused. Refusing is always
//! allowed: nothing was appended, so that nobody can have seen it, and its thread makes the write on the
//! disk, as it would without Headstart. What the stopped thread may still write to the disk lands beside it
//! there, and nothing that is newer lies on flash. While a request that was in the way then is still under
//! way, those that come later are refused at once.
//!
//! Where a file has to be made longer for bytes that are in the map, nothing can be refused. After the same time
//! that is done by its last byte, which shortens nothing that others wrote (`files.rs`). Beside what the dead may still
//! write that is done at once.
//!
//! What waits for dirty bytes that a direct write holds up is told an error after [`STUCK_NS`], with the
//! process's number.

use crate::errno;
use crate::flash_space::Run;
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::leases::Direct;
use crate::parts::pending::Commit;
use crate::process::Process;
use headstart_protocol::shared::{Shared, Slot, bits_of};
use headstart_units::request::Range;

/// A commit, a fetch or a change of a file's size waits no longer for requests of others (assumed: several times what a request takes
/// behind a deep queue of a disk, and what a thread that runs waits for a processor).
pub(crate) const HELD_UP_NS: u64 = 500_000_000;

/// Whoever waits for dirty bytes that a direct write holds up waits no longer (assumed: no single request of
/// a disk takes so long).
const STUCK_NS: u64 = 10_000_000_000;

/// A process in the middle of a direct write to dirty bytes.
#[derive(Clone, Copy, Debug)]
pub struct WriterAboveDirty {
    /// The file.
    pub file: u32,
    /// What it may write.
    pub range: Range,
    /// The process.
    pub process: Process,
    /// How long it has been.
    pub age_ns: u64,
}

impl Overlay {
    /// Whether others' requests are in the way of a commit.
    pub(crate) fn is_in_the_way(&mut self, shared: Shared<'_>, arrival: u64, file: u32, range: Range) -> bool {
        !self.granules.settled(shared, file, range)
            || self.leases.slow_read_overlaps(shared, file, range)
            || self.leases.direct_overlaps(file, range)
            || self.pending.would_hold_up_a_truncation(arrival, file, self.files[&file].length.size(), range)
            || !self.may_be_extended(shared, file, range.end())
    }

    /// Whether a commit waits for a request for which another one was refused.
    pub(crate) fn is_known_to_be_held_up(&mut self, shared: Shared<'_>, file: u32, range: Range) -> bool {
        self.pending.still_in_the_way(shared).into_iter().any(|slot| self.holds_up(shared, slot, file, range))
    }

    /// Keeps in mind what is in the way of a commit that has waited long enough.
    pub(crate) fn remember_what_holds_up(&mut self, shared: Shared<'_>, file: u32, range: Range) {
        for (slot, cell) in (0..).zip(shared.used_slots()) {
            if self.holds_up(shared, slot, file, range) {
                self.pending.remember_in_the_way(slot, cell.glance());
            }
        }
    }

    /// Whether a request that has waited since then for those of these slots goes on waiting: not for those for which
    /// another one has waited long enough.
    pub(super) fn goes_on_waiting(&mut self, shared: Shared<'_>, mut slots: Vec<u32>, since_ns: Option<u64>) -> bool {
        let known = self.pending.still_in_the_way(shared);
        slots.retain(|slot| !known.contains(slot));
        let waits_ns = since_ns.map_or(0, |since_ns| self.measured_ns.saturating_sub(since_ns));
        if slots.is_empty() || waits_ns < HELD_UP_NS {
            return !slots.is_empty();
        }
        for slot in slots {
            self.pending.remember_in_the_way(slot, shared.slots[slot as usize].glance());
        }
        false
    }

    fn holds_up(&self, shared: Shared<'_>, slot: u32, file: u32, range: Range) -> bool {
        let (cell, size): (&Slot, u64) = (&shared.slots[slot as usize], self.files[&file].length.size());
        let grows = range.end() > size;
        let direct = self.leases.direct(slot).filter(|direct| direct.file == file);
        direct.is_some_and(|direct| direct.truncates() || direct.range.overlaps(range) || grows && direct.extends())
            || cell.slow_read_overlaps(file, range)
            || bits_of(range).any(|bit| cell.cheap_touches(file, bit))
            || grows && cell.cheap_extends(file, size)
    }

    /// Takes a commit's space back that was not applied, and what it held.
    pub(crate) fn refuse_commit(&mut self, shared: Shared<'_>, slot: u32, commit: &Commit) {
        self.drop_commit(commit);
        self.show_slabs(shared, slot);
    }

    /// The same of a commit whose thread is gone.
    fn drop_commit(&mut self, commit: &Commit) {
        self.granules.let_go(commit.file, commit.range);
        self.space.give_back(Run::touching(commit.data_file, commit.place, commit.range.length));
    }

    /// The thread is gone: what it waited for is not answered. A commit not applied yet never was acknowledged, and
    /// its bytes had landed before it was sent: it is dropped and its space returned.
    pub(crate) fn abandon(&mut self, slot: u32) {
        for (arrival, file) in self.pending.asked_by(slot) {
            if let Some(cluster) = self.sharing.get_mut() {
                cluster.commits.flights.abandon(arrival, file);
            }
        }
        for commit in self.pending.abandon(slot) {
            self.drop_commit(&commit);
        }
    }

    /// What whoever waits for dirty bytes of the range is told, if a direct write that does not end keeps
    /// them from being written back.
    pub(crate) fn stuck(&self, file: u32, range: Range) -> Option<Answer> {
        let stuck = |held: &WriterAboveDirty| {
            held.file == file
                && held.range.overlaps(range)
                && held.age_ns >= STUCK_NS
                && self.is_dirty(file, held.range.intersection(range))
        };
        self.writers_above_dirty().find(stuck).map(|held| Answer::Error {
            errno: errno::EBUSY,
            text: format!(
                "{}: process {} is in the middle of a write to it and does not go on; until then bytes of it wait on flash",
                self.files[&file].names.shown(),
                held.process.pid
            ),
        })
    }

    /// The direct writes that keep dirty bytes from being written back now.
    pub fn writers_above_dirty(&self) -> impl Iterator<Item = WriterAboveDirty> + '_ {
        let above = |direct: &Direct| self.files.contains_key(&direct.file) && self.is_dirty(direct.file, direct.range);
        let held = self.leases.all_direct().filter(move |(_, direct)| above(direct));
        held.filter_map(|(slot, &Direct { file, range, since_ns, .. })| {
            let process = self.threads.owner(slot)?;
            Some(WriterAboveDirty { file, range, process, age_ns: self.measured_ns.saturating_sub(since_ns) })
        })
    }
}
