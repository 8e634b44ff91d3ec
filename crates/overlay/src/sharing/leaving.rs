//! A claim on a file of which something is on flash here: it leaves flash, or its extents are listed for the owner. Who
//! still uses it by its slow bytes is named.

use headstart_cluster::{FileId, Found, Stamp, Writing};
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

use super::ALL;
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::sharing::{Cluster, Leaving, Standing};
use crate::writer::Writer;

impl Overlay {
    /// Another member asks for a file: it leaves flash.
    pub(super) fn fence(
        &mut self,
        shared: Shared<'_>,
        file: FileId,
        (epoch, call, range): (Stamp, Option<u64>, Range),
    ) {
        if self.fence_shared(shared, file, (epoch, call, range)) {
            return;
        }
        let Some(cluster) = self.sharing.get_mut() else { return };
        let numbers = cluster.numbers(file);
        cluster.leave(file, Leaving { epoch, call, range, left: numbers.iter().copied().collect() });
        if numbers.is_empty() {
            return self.answer_fence(shared, file, None);
        }
        for number in numbers {
            let mut asked_again = false;
            if let Some(cluster) = self.sharing.get_mut() {
                asked_again = cluster.standing(number) == Standing::Leaving;
                cluster.stand(number, Standing::Leaving);
            }
            self.granules.deny(shared, number);
            self.show_left_alone(shared, number);
            self.close_granules(shared, number, ALL);
            // What threads find without asking is theirs no more, though it stays where it is.
            self.listings.changed(number, ALL);
            self.cancel_fetches(number, ALL);
            // What failed is tried once; from then on whoever asks hears why.
            if let Some(known) = self.files.get_mut(&number).filter(|_| !asked_again) {
                known.write_back_error = None;
            }
            self.pending.push_leave(number);
        }
    }

    /// Goes on with a file that leaves flash; done once nothing of it is there, durably.
    pub(crate) fn attempt_leave(&mut self, shared: Shared<'_>, number: u32) -> Option<Answer> {
        if self.sharing.get().is_some_and(Cluster::commits) {
            return self.attempt_list(shared, number);
        }
        let ended = self.attempt_bypass(number, true);
        let stuck = match &ended {
            // What cannot leave fails those who ask for it: they would read older bytes.
            Some(Answer::Error { errno, .. }) => Some(*errno),
            _ => None,
        };
        if let Some(cluster) = self.sharing.get_mut()
            && let Some(file) = cluster.file(number)
        {
            cluster.stick(file, stuck);
        }
        if stuck.is_some() || ended.is_none() {
            return None;
        }
        let known = &self.files[&number];
        let busy = !known.map.is_empty()
            || known.length.is_extending()
            || self.copies.any_of(number)
            || self.fetches.any_of(number);
        if busy {
            return None;
        }
        // A bit is cleared once what was removed under it is durably so.
        if self.granules.any(number) {
            self.barrier.want_if(!self.barrier.is_running());
            return None;
        }
        let file = self.sharing.get().and_then(|cluster| cluster.file(number)).expect("it has a number");
        self.answer_fence(shared, file, Some(number));
        // The claim may have been an older one than what has become known since.
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.stand(number, Standing::Asking(false));
            let standing = cluster.known(file);
            self.stand_all(shared, file, standing);
        }
        Some(Answer::Done)
    }

    pub(super) fn answer_fence(&mut self, shared: Shared<'_>, file: FileId, number: Option<u32>) {
        let told = self.sharing.get_mut().and_then(|cluster| cluster.left(file, number));
        let Some(Leaving { epoch, call, range, .. }) = told else { return };
        let found = self.found(shared, file);
        if let Some(cluster) = self.sharing.get_mut() {
            cluster.name(file, found.threads.clone());
            match cluster.commits() {
                true => cluster.member.on_fenced(file, epoch, call, range, found),
                false => cluster.member.on_left(file, epoch, call, range, found),
            }
        }
    }

    /// Who still uses a file here, by its slow bytes or by having it open.
    pub(super) fn found(&self, shared: Shared<'_>, file: FileId) -> Found {
        let numbers = self.sharing.get().map(|cluster| cluster.numbers(file)).unwrap_or_default();
        let mut found = Found::default();
        for number in numbers {
            let Some(known) = self.files.get(&number) else { continue };
            found.uses |= known.users.are_there() || known.users.bypass_us();
            let cheap = (0..).zip(shared.used_slots()).filter_map(|(slot, cell)| Some((slot, cell.cheap_write()?)));
            let cheap =
                cheap.filter(|(_, (of, _))| *of == number).map(|(slot, (_, range))| (Writer::Cheap(slot), range));
            let unseen = known.users.bypass_us().then_some((Writer::Unseen(number), ALL));
            let writers = cheap.chain(self.leases.all_of_writers(shared, number)).chain(unseen);
            found.threads.extend(writers.map(|(writer, range)| Writing { slot: writer.name(), range, granted: false }));
        }
        found
    }

    /// Tells of threads that others were told of as writers and that have ended.
    pub(crate) fn tell_of_ended_writers(&mut self, shared: Shared<'_>) {
        let Some(cluster) = self.sharing.get() else { return };
        let named: Vec<(FileId, Vec<Writing>)> =
            cluster.named().map(|(file, writers)| (file, writers.to_vec())).collect();
        for (file, before) in named {
            let found = self.found(shared, file);
            if let Some(cluster) = self.sharing.get_mut().filter(|_| found.threads != before) {
                cluster.name(file, found.threads.clone());
                cluster.member.on_writer_ended(file, found);
            }
        }
    }
}
