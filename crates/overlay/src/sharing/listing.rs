//! A file that this node had to itself and another member asks for, where such files stay on flash: its extents are
//! listed, so that its owner has them as records. And what a journal has of such files at a start.
//!
//! Clean bytes leave flash first: owners know none. Then whatever the journal may say beside the list when the node dies
//! is made void by a barrier, before the claim is answered.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use headstart_cluster::{Entry, FileId, Intent, Log, Record, Stamp, What};
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

use super::ALL;
use super::records::{data_file_of, place_in, place_of, said_of};
use crate::flash_space::Run;
use crate::journal::{self, Extent, Journal};
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::sharing::Standing;

impl Overlay {
    /// The log to begin with among others: what the journal had, and the files of which it has extents beside.
    pub(super) fn log_to_join(&mut self, files: &[(u32, FileId)], alone: bool) -> Log {
        if alone {
            self.unlist_all();
        }
        let mut log = self.sharing.take_log();
        log.set_durable(log.end());
        let is_unlisted =
            |(number, file): &&(u32, FileId)| !self.files[number].map.is_empty() && !log.has_records(*file);
        let unlisted: Vec<FileId> =
            files.iter().filter(|_| !alone).filter(is_unlisted).map(|(_, file)| *file).collect();
        log.set_unlisted(unlisted);
        log
    }

    /// The extents that the journal lists for owners are this agent's alone: there are no other members.
    pub(crate) fn unlist_all(&mut self) {
        let log = self.sharing.take_log();
        for record in log.records() {
            if let Some(number) = self.number_of(record.file) {
                self.append(&journal::Record::Gone { file: number, order: record.order });
            }
            self.let_go_of(&record);
        }
        let numbers: Vec<u32> = log.files().into_iter().filter_map(|file| self.number_of(file)).collect();
        for number in numbers {
            let again = self.files[&number].map.iter().collect::<Vec<_>>();
            for mapped in again {
                let Range { offset, length } = mapped.range;
                let extent = Extent { offset, length, place: mapped.place, dirty: mapped.dirty };
                let (file, data_file) = (number, mapped.data_file);
                self.append(&journal::Record::Extents { file, data_file, extents: vec![extent] });
            }
        }
    }

    /// The number of the file that the journal means by an inode.
    pub(super) fn number_of(&self, file: FileId) -> Option<u32> {
        self.files.iter().find(|(_, known)| known.identity().inode == file.0).map(|(number, _)| *number)
    }

    /// Lists them in a journal that begins: of these files, records are all that it says of extents.
    pub(crate) fn list_in(&mut self, journal: &mut Journal) {
        let log = self.sharing.log();
        let numbers: BTreeMap<u64, u32> =
            self.files.iter().map(|(number, known)| (known.identity().inode, *number)).collect();
        for record in log.records() {
            let Some(number) = numbers.get(&record.file.0).copied() else { continue };
            journal.append(&journal::Record::Epoch { file: number, epoch: record.order.epoch });
            journal.append(&journal::Record::Ordered { seq: record.order.seq });
            journal.append(&said_of(self.node(), number, &record));
        }
        for Intent { file, copy, order, range } in log.under_way() {
            let Some(file) = numbers.get(&file.0).copied() else { continue };
            journal.append(&journal::Record::Copying { file, copy, order, range });
        }
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.commits.forget_epochs();
        }
    }

    /// At a start: places of records are held, of those too that lie below others of this node.
    pub(crate) fn hold_listed(&mut self) {
        let records: Vec<Record> = self.sharing.log().records().collect();
        records.iter().for_each(|record| self.hold_on_to(record));
    }

    /// The place of a record is in use until its owner says otherwise, whatever covers it here: on other nodes it may
    /// be read.
    pub(super) fn hold_on_to(&mut self, record: &Record) {
        if let What::Map { place } = record.what {
            let data_file = data_file_of(self.node(), place);
            self.space.hold(Run::touching(data_file, place_in(place), record.range.length));
        }
    }

    /// It is not any more.
    pub(super) fn let_go_of(&mut self, record: &Record) {
        if let What::Map { place } = record.what {
            let data_file = data_file_of(self.node(), place);
            self.space.release(Run::touching(data_file, place_in(place), record.range.length));
        }
    }

    /// An owner calls a range in, or claims a file of which nothing is on flash here but what is listed: bits are set, and
    /// it is answered at once. False if something has to be listed first.
    pub(super) fn fence_shared(
        &mut self,
        shared: Shared<'_>,
        file: FileId,
        (epoch, call, range): (Stamp, Option<u64>, Range),
    ) -> bool {
        let Some(cluster) = self.sharing.get().filter(|cluster| cluster.commits()) else { return false };
        let (numbers, is_listed) = (cluster.numbers(file), cluster.member.log().has_records(file));
        let is_alone = |number: &u32| matches!(cluster.standing(*number), Standing::Alone | Standing::Leaving);
        let has_unlisted = |number: &u32| !self.files[number].map.is_empty() && !is_listed;
        let waits = call.is_none() && !self.sharing.has_landed();
        if waits || numbers.iter().any(|number| is_alone(number) || has_unlisted(number)) {
            return false;
        }
        for number in numbers {
            self.share(shared, number);
            if let Some(cluster) = self.sharing.get_mut() {
                cluster.commits.call_in(number, range);
            }
        }
        let found = self.found(shared, file);
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.name(file, found.threads.clone());
            cluster.member.on_fenced(file, epoch, call, range, found);
        }
        true
    }

    /// From now on its threads ask for every byte.
    fn share(&mut self, shared: Shared<'_>, number: u32) {
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.stand(number, Standing::Shared);
        }
        self.granules.deny(shared, number);
        // What its node makes durable is what others may have to rely on.
        self.barrier.ask(number);
    }

    /// Goes on with a file whose extents are to be listed; done once they are, durably.
    pub(super) fn attempt_list(&mut self, shared: Shared<'_>, number: u32) -> Option<Answer> {
        let file = self.sharing.get().and_then(|cluster| cluster.file(number)).expect("it has a number");
        match self.sharing.get().and_then(|cluster| cluster.commits.listed(number)) {
            None => {
                let known = &self.files[&number];
                let busy = known.length.is_extending()
                    || self.copies.any_of(number)
                    || self.fetches.any_of(number)
                    || self.leases.cut_of(number).is_some()
                    || self.has_untrusted(number, ALL)
                    || self.pending.are_mapped_beyond(number, 0)
                    || !self.sharing.has_landed();
                if !busy {
                    self.list_extents(number, file);
                }
                return None;
            }
            Some(barrier) => match self.barrier.answer(barrier)? {
                Answer::Done => {}
                _ => {
                    let next = self.wanted_barrier();
                    self.barrier.sync_slow(number);
                    self.sharing.get_mut().expect("there are others").commits.list(number, next);
                    return None;
                }
            },
        }
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.commits.end_list(number);
        }
        // What is being written below bytes that are listed needs a record when it has been.
        let map = &self.files[&number].map;
        let direct = self.leases.all_direct().filter(|(_, direct)| direct.file == number && map.touches(direct.range));
        let above: Vec<u32> = direct.map(|(slot, _)| slot).collect();
        for slot in above {
            self.order_direct(shared, slot, shared.slots[slot as usize].seq.load(Ordering::Relaxed));
        }
        self.share(shared, number);
        self.answer_fence(shared, file, Some(number));
        Some(Answer::Done)
    }

    /// Lists the file's dirty extents, in the log and in the journal, without the clean ones.
    fn list_extents(&mut self, number: u32, file: FileId) {
        self.drop_clean(number, ALL);
        self.mapping.evicted().forget_file(number);
        let extents: Vec<_> = self.files[&number].map.iter().collect();
        let barrier = self.wanted_barrier();
        self.barrier.ask(number);
        self.barrier.sync_slow(number);
        let Some(cluster) = self.sharing.get_mut() else { return };
        cluster.commits.list(number, barrier);
        if cluster.member.log().has_records(file) {
            // It was listed for an earlier claim, and nothing has come since.
            return;
        }
        let placed = extents.iter().map(|mapped| (mapped.range, place_of(mapped.data_file, mapped.place)));
        let records = cluster.member.list(file, placed);
        for record in &records {
            self.append_entry(number, &Entry::Record(*record));
            self.hold_on_to(record);
        }
    }
}
