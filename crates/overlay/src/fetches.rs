//! Fetches: bytes that were read from the disk and are worth flash are copied there.
//!
//! A fetch yields to all: whoever writes cancels it, and so does a request that it would have to wait for too long.

use crate::extent_map::{Benefit, Mapped};
use crate::flash_space::Run;
use crate::journal::Record;
use crate::limits::{FILE_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::output::{CopyKind, CopyPiece, Output};
use crate::overlay::Overlay;
use crate::parts::copies::NewCopy;
use crate::parts::fetches::{Fetch, FetchStep};
use crate::parts::looks;
use crate::recency::{Access, Stamp};
use crate::requests::held_up::HELD_UP_NS;
use crate::room::Room;
use headstart_policy::client::s4d::Critical;
use headstart_protocol::shared::{HINTS_MAX, Shared};
use headstart_units::PAGE_BYTES;
use headstart_units::request::Range;

/// Fetches under way at once beside programs whose reads say which regions to fetch; assumed: half of what
/// keeps the disks busy.
const FOLLOWING_AT_ONCE: usize = 4;

/// Fetches of regions under way at once (assumed).
const FETCHES_MAX: usize = 8;

impl Overlay {
    /// Reads the threads' hints into the critical data table; marks were taken.
    pub(crate) fn take_hints(&mut self, shared: Shared<'_>) {
        for slot in self.rings.take_hinted(self.measured_ns).iter() {
            looks::count(1);
            let slot = &shared.slots[slot as usize];
            let hints = std::iter::from_fn(|| slot.take_hint()).take(HINTS_MAX);
            for critical in hints {
                let Critical { file, range, .. } = critical;
                self.outbox.counters.critical_reads_total += 1;
                self.pacing.hear_of_read(self.measured_ns);
                let sensible = (1..=REQUEST_BYTES_MAX).contains(&range.length) && range.end() <= FILE_BYTES_MAX;
                if self.files.contains_key(&file) && sensible {
                    self.note_read(file, range);
                    self.fetches.note_critical(critical);
                }
            }
        }
    }

    pub(crate) fn plan_fetches(&mut self, shared: Shared<'_>, foreground: usize) {
        // Fetches have the lowest priority: they are for later requests, so they take the disks only while
        // these are idle, and a few at a time otherwise.
        let limit = if foreground == 0 { self.copies.most() / 4 } else { 1 };
        let limit = limit.max(1);
        if self.is_following() && self.placing.is_on() {
            // Those regions are worth more than their copies cost, and what programs read of them now comes with them.
            return self.place_next(shared, FOLLOWING_AT_ONCE);
        }
        let is_idle = self.pacing.are_disks_idle(self.measured_ns);
        while self.fetches.count() < limit && self.copies.may_begin() {
            let Some(critical) = self.fetches.next_critical(is_idle) else { break };
            if !self.start_fetch(shared, critical) {
                break;
            }
        }
        self.place_next(shared, limit.min(FETCHES_MAX));
    }

    /// Starts fetching the first part of a critical range that is not on flash; false if there is no room now.
    fn start_fetch(&mut self, shared: Shared<'_>, critical: Critical) -> bool {
        if !self.sharing.is_alone(critical.file) {
            return true;
        }
        let kept_off = self.lets_nothing_in();
        let Some(file) = self.files.get_mut(&critical.file) else { return true };
        if file.sooner.is_disk(&shared.files[critical.file as usize].read_times) {
            return true;
        }
        // The known size may be less than the file's, as only the agent's extensions raise it. A copy that
        // meets the end fails.
        let mut range = critical.range;
        while let Some(mapped) = file.map.overlapping(range).next() {
            if mapped.range.offset > range.offset {
                range = Range::between(range.offset, mapped.range.offset);
                break;
            }
            range = Range::between(mapped.range.end(), range.end());
        }
        let fetching = self.fetches.within(critical.file, range).next().is_some();
        let unwanted = kept_off || file.users.bypass_us();
        if range.is_empty() || fetching || file.names.is_unlinked() || !file.users.are_there() || unwanted {
            return true;
        }
        let benefit = Benefit::per_kib(critical.benefit_ns.saturating_mul(1024) / critical.range.length);
        // What belongs on flash displaces whatever does not.
        let spared = file.placed.holding(range.offset).is_none().then_some(benefit);
        match self.begin_fetch(shared, critical.file, range, benefit, spared) {
            Room::Now => true,
            Room::AfterBarrier => {
                self.fetches.defer(critical);
                false
            }
            Room::None => false,
        }
    }

    /// Starts fetching a stretch of a region.
    pub(crate) fn start_placing(&mut self, shared: Shared<'_>, file: u32, range: Range) -> Room {
        self.begin_fetch(shared, file, range, Benefit::HIGHEST, None)
    }

    fn begin_fetch(
        &mut self,
        shared: Shared<'_>,
        file: u32,
        range: Range,
        benefit: Benefit,
        spared: Option<Benefit>,
    ) -> Room {
        let Some(data_file) = self.data_file_of(shared, file) else { return Room::None };
        let pages = Run::touching(data_file, range.offset % PAGE_BYTES, range.length).pages;
        let size_before = self.space.size_bytes(data_file);
        // Room that readers have let go counts as room that is coming, and nobody else may look for it.
        self.free_read(shared);
        // The reserve is for writes: a fetch that took of it would evict bytes of more benefit in the next moment.
        let room = self.space.available_bytes().saturating_sub(self.reserve_beside(spared)) / PAGE_BYTES;
        let Some(run) = (room >= pages).then(|| self.space.allocate(data_file, pages, pages)).flatten() else {
            return if self.displace(pages, spared) { Room::AfterBarrier } else { Room::None };
        };
        let size = self.space.size_bytes(data_file);
        if size > size_before {
            self.outbox.push(Output::Grow { data_file, size });
        }
        self.close_granules(shared, file, range);
        self.granules.hold(shared, file, range);
        self.fetches.push(Fetch {
            file,
            range,
            run,
            place: run.page * PAGE_BYTES + range.offset % PAGE_BYTES,
            benefit,
            step: FetchStep::Settling,
            since_ns: self.measured_ns,
            copy: 0,
            cancelled: false,
        });
        self.advance_fetches(shared);
        Room::Now
    }

    pub(crate) fn advance_fetches(&mut self, shared: Shared<'_>) {
        let mut ended = Vec::new();
        for mut fetch in self.fetches.take() {
            if self.advance_fetch(shared, &mut fetch) {
                self.fetches.push(fetch);
            } else {
                if fetch.places() && fetch.cancelled {
                    self.placing.miss();
                }
                self.granules.let_go(fetch.file, fetch.range);
                ended.push(fetch.file);
            }
        }
        ended.into_iter().for_each(|file| self.forget_if_done(shared, file));
    }

    /// Gives a fetch up.
    fn give_up_fetch(&mut self, fetch: &mut Fetch) -> bool {
        fetch.cancelled = true;
        self.space.give_back(fetch.run);
        self.outbox.counters.fetches_cancelled_total += 1;
        false
    }

    /// Moves a fetch on; false when it has ended.
    fn advance_fetch(&mut self, shared: Shared<'_>, fetch: &mut Fetch) -> bool {
        let is_held_up = self.measured_ns.saturating_sub(fetch.since_ns) >= HELD_UP_NS;
        match fetch.step {
            FetchStep::Settling => {
                let forbidden = self.leases.direct_overlaps(fetch.file, fetch.range)
                    || self.copies.within(fetch.file, fetch.range).next().is_some()
                    || self.leases.quarantines(fetch.file, fetch.range)
                    || self.files[&fetch.file].map.touches(fetch.range);
                if forbidden || fetch.cancelled {
                    return self.give_up_fetch(fetch);
                }
                let is_settled = self.granules.settled(shared, fetch.file, fetch.range);
                if !is_settled && is_held_up {
                    return self.give_up_fetch(fetch);
                }
                if is_settled && self.copies.can_begin() {
                    let piece = CopyPiece { range: fetch.range, data_file: fetch.run.data_file, place: fetch.place };
                    fetch.copy = self.start_copy(
                        shared,
                        NewCopy {
                            kind: CopyKind::Fetch,
                            file: fetch.file,
                            range: fetch.range,
                            pieces: vec![piece],
                            extents: 1,
                        },
                    );
                    fetch.step = FetchStep::Copying;
                }
                true
            }
            FetchStep::Copying => true,
            FetchStep::Publishing => {
                if fetch.cancelled {
                    return self.give_up_fetch(fetch);
                }
                if self.leases.slow_read_overlaps(shared, fetch.file, fetch.range) {
                    return !is_held_up || self.give_up_fetch(fetch);
                }
                self.publish(shared, fetch);
                false
            }
        }
    }

    /// The copy of a fetch ended.
    pub(crate) fn fetch_copied(&mut self, copy: u64, result: Result<(), i32>, cancelled: bool) {
        let Some(fetch) = self.fetches.of_copy(copy) else { return };
        (fetch.step, fetch.since_ns) = (FetchStep::Publishing, self.measured_ns);
        fetch.cancelled |= cancelled || result.is_err();
        let (file, range, places) = (fetch.file, fetch.range, fetch.places());
        if let Some(errno) = result.err().filter(|_| places) {
            self.placing_failed(file, range, errno);
        }
    }

    fn publish(&mut self, shared: Shared<'_>, fetch: &Fetch) {
        let (file, range) = (fetch.file, fetch.range);
        let (data_file, place) = (fetch.run.data_file, fetch.place);
        self.append(&Record::Fetched { file, offset: range.offset, length: range.length, data_file, place });
        self.mapping.evicted().forget(file, range);
        let (stamp, benefit) = (Stamp::default(), fetch.benefit);
        self.map_in(shared, file, Mapped { range, data_file, place, dirty: false, stamp, benefit }, Access::Sequential);
        self.outbox.counters.fetches_total += 1;
        self.outbox.counters.fetched_bytes_total += range.length;
    }

    /// Somebody writes the range: a fetch of it must not be published. Each copy of that kind has its entry
    /// in the fetches.
    pub(crate) fn cancel_fetches(&mut self, file: u32, range: Range) {
        self.fetches.cancel(file, range);
    }
}
