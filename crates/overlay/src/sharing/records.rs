//! What owners order: records of this node's log, places that are free, copies, files that are to be long enough.

use std::collections::BTreeSet;

use headstart_cluster::{Entry, FileId, Intent, MemberId, Record, What};
use headstart_protocol::counters::Dropped;
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

use crate::extent_map::{Benefit, Mapped};
use crate::flash_space::Run;
use crate::journal::{self, Extent};
use crate::output::{CopyKind, CopyPiece, Growth, Output};
use crate::overlay::Overlay;
use crate::parts::copies::NewCopy;
use crate::parts::sharing::Cluster;
use crate::recency::Stamp;

/// Bits of a data file's number that count those of a node; the node is above.
const COUNT_BITS: u32 = 22;
/// Bits of a place that say where in a data file; which one is above.
const PLACE_BITS: u32 = u64::BITS - COUNT_BITS;
/// A barrier for the sake of others comes no more often (assumed: some of them a second cost flash little, and space that
/// comes back so late is little beside what a second's writes need).
const SHARED_BARRIER_PERIOD_NS: u64 = 100_000_000;
/// A record names places below.
pub(crate) const PLACE_END: u64 = 1 << PLACE_BITS;

/// Where bytes lie, as records name it: in which data file of its node, and where in that.
pub(crate) fn place_of(data_file: u32, place: u64) -> u64 {
    u64::from(data_file & ((1 << COUNT_BITS) - 1)) << PLACE_BITS | place
}

/// The data file of a node's record.
pub(super) fn data_file_of(node: u16, place: u64) -> u32 {
    u32::from(node) << COUNT_BITS | (place >> PLACE_BITS) as u32
}

/// Where in it.
pub(super) fn place_in(place: u64) -> u64 {
    place & (PLACE_END - 1)
}

impl Overlay {
    /// This node.
    pub(super) fn node(&self) -> u16 {
        self.outbox.member().node
    }

    /// The log has an entry: the journal gets it, and what it says is done.
    pub(super) fn record(&mut self, shared: Shared<'_>, entry: Entry) {
        let Some(cluster) = self.sharing.get() else { return };
        let Some(number) = cluster.numbers(entry.file()).last().copied() else { return };
        self.append_entry(number, &entry);
        match entry {
            Entry::Record(record) => match record.what {
                What::Map { .. } => self.map_record(shared, number, &record),
                What::Drop => self.carve(number, record.range, Dropped::DirectWrite),
            },
            Entry::Forgot(..) | Entry::Intent(_) | Entry::Ended(_) => {}
        }
    }

    /// Appends what a start needs to find the entry.
    pub(super) fn append_entry(&mut self, number: u32, entry: &Entry) {
        match *entry {
            Entry::Record(record) => {
                let commits = self.sharing.get_mut().map(|cluster| &mut cluster.commits);
                if commits.is_none_or(|commits| commits.name_epoch(number, record.order.epoch)) {
                    self.append(&journal::Record::Epoch { file: number, epoch: record.order.epoch });
                }
                self.append(&journal::Record::Ordered { seq: record.order.seq });
                let said = said_of(self.node(), number, &record);
                self.append(&said);
                let thread = record.by.and_then(Cluster::thread).filter(|_| record.what == What::Drop);
                if let Some((slot, seq)) = thread {
                    self.append(&journal::Record::LastCommit { slot, seq });
                }
                if let Some((slot, seq)) = record.by.and_then(Cluster::thread) {
                    self.threads.note_commit(slot, seq);
                }
            }
            Entry::Forgot(_, order) => self.append(&journal::Record::Gone { file: number, order }),
            Entry::Intent(Intent { copy, order, range, .. }) => {
                self.append(&journal::Record::Copying { file: number, copy, order, range });
            }
            Entry::Ended(Intent { copy, .. }) => self.append(&journal::Record::Copied { file: number, copy }),
        }
    }

    /// Absorbed bytes are in the log: they enter the map.
    fn map_record(&mut self, shared: Shared<'_>, number: u32, record: &Record) {
        let What::Map { place } = record.what else { unreachable!("it maps") };
        let (data_file, place) = (data_file_of(self.node(), place), place_in(place));
        let thread = record.by.and_then(Cluster::thread);
        let waits = record.by.and_then(|id| self.sharing.get()?.commits.flights.arrival(id));
        if !waits.is_some_and(|arrival| self.pending.apply_commit(arrival))
            && let Some((slot, _)) = thread
        {
            // An agent before asked for it: the thread has not sent it again yet.
            self.consume(slot, number, Run::touching(data_file, place, record.range.length));
        }
        self.carve(number, record.range, Dropped::Overwritten);
        self.hold_on_to(record);
        let (stamp, benefit) = (Stamp::default(), Benefit::HIGHEST);
        let access = self.mapping.access_of_commit(thread.map_or(0, |(slot, _)| slot), number, record.range);
        self.map_in(
            shared,
            number,
            Mapped { range: record.range, data_file, place, dirty: true, stamp, benefit },
            access,
        );
        self.outbox.counters.absorbed_requests_total += 1;
        self.outbox.counters.absorbed_bytes_total += record.range.length;
        self.pacing.reserve_mut().on_write(0, self.measured_ns);
    }

    /// Nobody reads the bytes of a record any more, which something durable covers.
    pub(super) fn free(&mut self, file: FileId, record: &Record) {
        let Some(number) = self.sharing.get().and_then(|cluster| cluster.numbers(file).last().copied()) else { return };
        for part in self.left_of(number, record) {
            self.carve(number, part, Dropped::Overwritten);
        }
        self.let_go_of(record);
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.commits.free(number);
        }
    }

    /// Forgets files of which nothing is left in the log, durably.
    pub(super) fn forget_freed(&mut self, shared: Shared<'_>) {
        let freed = self.sharing.get_mut().map(|cluster| cluster.commits.take_freed()).unwrap_or_default();
        for number in freed {
            match self.is_logged(number) {
                true => self.sharing.get_mut().expect("there are others").commits.free(number),
                false => self.forget_if_done(shared, number),
            }
        }
    }

    /// What the map has of a record still.
    fn left_of(&self, number: u32, record: &Record) -> Vec<Range> {
        let What::Map { place } = record.what else { return Vec::new() };
        let (data_file, place) = (data_file_of(self.node(), place), place_in(place));
        let own = |mapped: &Mapped| mapped.same_place(data_file, record.range.offset, place);
        let left = self.files[&number].map.overlapping(record.range).filter(own);
        left.map(|mapped| mapped.range.intersection(record.range)).collect()
    }

    /// A file is to be long enough for a record.
    pub(super) fn lengthen(&mut self, record: Record) {
        let Some(cluster) = self.sharing.get_mut() else { return };
        let Some(number) = cluster.numbers(record.file).last().copied() else { return };
        if cluster.commits.lengthen(number, record) && self.sharing.has_landed() {
            self.start_lengthening(number);
        }
    }

    fn start_lengthening(&mut self, number: u32) {
        let next = self.sharing.get().and_then(|cluster| cluster.commits.lengthens(number));
        if let Some(record) = next {
            let (size, growth) = (record.range.end(), Growth::LastByte);
            self.outbox.push(Output::Extend { file: number, size, growth });
        }
    }

    /// A file was made long enough for the record that comes first, or could not be. False if none waits.
    pub(crate) fn on_lengthened(&mut self, shared: Shared<'_>, number: u32, done: bool) -> bool {
        let Some(cluster) = self.sharing.get_mut() else { return false };
        let Some(record) = cluster.commits.take_lengthened(number) else { return false };
        if let Some(id) = record.by.filter(|_| !done) {
            cluster.commits.fail(id);
        }
        cluster.member.on_lengthened(record);
        self.start_lengthening(number);
        self.progress(shared);
        true
    }

    /// No kernel call of the agent before is under way any more.
    pub(crate) fn on_landed(&mut self, shared: Shared<'_>) {
        self.sharing.land();
        let Some(cluster) = self.sharing.get_mut() else { return };
        for intent in cluster.commits.take_of_before() {
            cluster.member.on_copied(intent, false);
        }
        let (numbers, waiting) = (cluster.commits.lengthening(), cluster.asking());
        numbers.into_iter().for_each(|number| self.start_lengthening(number));
        for file in waiting {
            let standing = self.sharing.get().map(|cluster| cluster.known(file));
            standing.into_iter().for_each(|standing| self.stand_all(shared, file, standing));
        }
        self.progress(shared);
    }

    /// An owner has bytes copied to the slow file.
    pub(super) fn order_copy(&mut self, intent: Intent, of: MemberId, place: u64) {
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.commits.order_copy(intent, of, place);
        }
    }

    /// Begins copies that owners have ordered, and orders some of what this member owns: all that is dirty, at any time.
    pub(crate) fn plan_shared_copies(&mut self, shared: Shared<'_>) {
        if !self.commits() || !self.sharing.has_landed() {
            return;
        }
        let (most, bytes_max) = (self.copies.most(), self.pacing.write_back_bytes_max());
        let cluster = self.sharing.get_mut().expect("files that others use stay on flash");
        // Where this member is to copy, the runtime makes the file known first.
        let inherited: BTreeSet<FileId> = cluster.member.inherited().map(|(file, _)| file).collect();
        for file in cluster.member.recorded() {
            if inherited.contains(&file) && cluster.numbers(file).is_empty() {
                continue;
            }
            while cluster.member.copies_of(file) < most && cluster.member.write_back_next(file, bytes_max) {}
        }
        self.heed(shared);
        while self.copies.can_begin()
            && let Some((intent, of, place)) = self.sharing.get_mut().and_then(|it| it.commits.next_copy())
        {
            self.begin_copy(shared, intent, of, place);
        }
    }

    fn begin_copy(&mut self, shared: Shared<'_>, intent: Intent, of: MemberId, place: u64) {
        let number = self.sharing.get().and_then(|cluster| cluster.numbers(intent.file).last().copied());
        let Some(number) = number else {
            // Nobody has it open here, and its log has no record: nothing of it is to be copied.
            return self.end_shared_copy(shared, intent, false);
        };
        let piece = CopyPiece { range: intent.range, data_file: data_file_of(of.node, place), place: place_in(place) };
        let new =
            NewCopy { kind: CopyKind::WriteBack, file: number, range: intent.range, pieces: vec![piece], extents: 1 };
        let id = self.start_copy(shared, new);
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.commits.begin_copy(id, intent);
        }
    }

    /// Such a copy has ended.
    pub(crate) fn end_shared_copy(&mut self, shared: Shared<'_>, intent: Intent, copied: bool) {
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.member.on_copied(intent, copied);
            self.heed(shared);
        }
    }

    /// Asks for a barrier now and then while the log has what somebody may wait for: others' space comes back by it.
    pub(crate) fn want_shared_barrier(&mut self) {
        let wants = self.sharing.get().is_some_and(|it| it.commits() && it.member.log().wants_barrier());
        let is_due = self.measured_ns.saturating_sub(self.barrier.ended_ns()) > SHARED_BARRIER_PERIOD_NS;
        self.barrier.want_if(wants && is_due && !self.barrier.is_running());
    }

    /// Which part of the log a barrier that begins now covers.
    pub(crate) fn begin_shared_barrier(&mut self) {
        if let Some(cluster) = self.sharing.get_mut() {
            let end = cluster.member.log().end();
            cluster.commits.begin_barrier(end);
        }
    }

    /// It has ended. It counts with the next look at the membership service that shows this member.
    pub(crate) fn end_shared_barrier(&mut self) {
        if let Some(cluster) = self.sharing.get_mut().filter(|cluster| cluster.commits()) {
            let covered = cluster.commits.covering();
            cluster.member.on_synced(headstart_units::Nanos(u64::MAX), covered);
        }
    }
}

/// What the journal says of a record.
pub(crate) fn said_of(node: u16, number: u32, record: &Record) -> journal::Record {
    let (file, Range { offset, length }) = (number, record.range);
    let What::Map { place } = record.what else { return journal::Record::Drop { file, offset, length } };
    let (data_file, place) = (data_file_of(node, place), place_in(place));
    match record.by.and_then(Cluster::thread) {
        Some((slot, seq)) => journal::Record::Map { file, offset, length, data_file, place, slot, seq },
        None => {
            let extent = Extent { offset, length, place, dirty: true };
            journal::Record::Extents { file, data_file, extents: vec![extent] }
        }
    }
}
