//! Regions that belong on flash, whoever asks for their bytes: a plan says which, or the gain table of the
//! running program.
//!
//! What is mapped of a region is *kept*: it has no generation ([`Stamp::KEPT`]), so that nothing that was
//! used since displaces it. Where even the least reserve for writes is short, regions of the least gain per
//! byte give way. An extent belongs to the region that holds its first byte.
//!
//! Regions come to flash by the writes and reads of programs, as all bytes do, or are placed: fetched one
//! after the other, of the most gain per byte first, until all is there that finds room.

use crate::extent_map::Mapped;
use crate::fingerprint::Fingerprint;
use crate::journal::{Identity, Record};
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::placing::Rank;
use crate::recency::{Access, Stamp};
use crate::room::Room;
use headstart_policy::client::Policy;
use headstart_policy::client::carl::{Regions, Wanted};
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

/// Bytes fetched at once of a region.
const FETCH_BYTES: u64 = 1 << 20;
/// The same beside programs that regions follow: some stripes of each server, so that seeks take little of their time.
const FOLLOWING_BYTES: u64 = 4 << 20;

/// How far a file's regions are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The file.
    pub file: u32,
    /// Bytes of its regions.
    pub wanted_bytes: u64,
    /// Bytes of those on flash.
    pub placed_bytes: u64,
    /// What its last copy to flash failed with; nothing more of it is placed before the next try.
    pub error: Option<i32>,
}

impl Overlay {
    /// A file that no process need have open: its number, to set regions of, which is good until somebody
    /// closes the file or a barrier ends. `observed`: the slow file as it is, our own write-backs left out.
    ///
    /// # Errors
    /// As for an open: the file was changed behind our back while newer bytes wait on flash, or the table is full.
    pub fn know(
        &mut self,
        shared: Shared<'_>,
        identity: Identity,
        path: &[u8],
        observed: Fingerprint,
    ) -> Result<u32, Answer> {
        let number = self.find_or_add(shared, identity, path, observed)?;
        if !self.files[&number].users.are_there() {
            self.files.close(number);
        }
        Ok(number)
    }

    /// Which regions of a known file belong on flash from now on; durable with the next barrier. Clean
    /// extents of those that no longer do leave flash at once, dirty ones as all others. Ends
    /// [`Overlay::follow`].
    pub fn set_regions(&mut self, shared: Shared<'_>, number: u32, regions: Regions) {
        self.end_following();
        let Some(known) = self.files.get_mut(&number) else { return };
        let old = known.placed.replace(regions);
        let (before, after): (Vec<Wanted>, Vec<Wanted>) =
            (old.iter().collect(), self.files[&number].placed.regions().iter().collect());
        let gone: Vec<&Wanted> = difference(&before, &after).collect();
        let new: Vec<&Wanted> = difference(&after, &before).collect();
        for region in &gone {
            let Range { offset, length } = region.range;
            self.append(&Record::Unwanted { file: number, offset, length });
            self.placing.remove(number, region);
        }
        for region in &new {
            self.append(&Record::Wanted { file: number, region: **region });
            self.placing.insert(number, region);
        }
        for region in gone {
            self.release(number, region.range);
        }
        for region in new {
            self.keep(number, region.range);
        }
        self.barrier.want();
        self.forget_if_done(shared, number);
        self.poll(shared);
    }

    /// The regions of a known file.
    pub fn regions(&self, number: u32) -> Option<&Regions> {
        self.files.get(&number).map(|file| file.placed.regions())
    }

    /// Copies regions to flash until all is there that finds room, or `false` ends it.
    pub fn place(&mut self, shared: Shared<'_>, on: bool) {
        if on {
            for file in self.files.values_mut() {
                file.placed.retry();
            }
        }
        self.placing.begin(on);
        self.poll(shared);
    }

    /// Whether regions are being copied.
    pub fn is_placing(&self) -> bool {
        self.placing.is_on() || self.fetches.any_places()
    }

    /// How far placing is, for each file with regions.
    pub fn placements(&self) -> impl Iterator<Item = Placement> + '_ {
        self.files.iter().filter(|(_, file)| file.placed.any()).map(|(&number, file)| {
            let placed = |range: Range| -> u64 {
                file.map.overlapping(range).map(|mapped| mapped.range.intersection(range).length).sum()
            };
            Placement {
                file: number,
                wanted_bytes: file.placed.regions().iter().map(|region| region.range.length).sum(),
                placed_bytes: file.placed.regions().iter().map(|region| placed(region.range)).sum(),
                error: file.placed.error(),
            }
        })
    }

    /// Whether any file has regions.
    pub(crate) fn has_regions(&self) -> bool {
        self.placing.has_regions()
    }

    /// Regions that the journal names.
    pub(crate) fn adopt_regions(&mut self, number: u32, regions: Regions) {
        regions.iter().for_each(|region| self.placing.insert(number, &region));
        self.file(number).placed.replace(regions);
    }

    /// The file is forgotten.
    pub(crate) fn forget_regions(&mut self, number: u32, regions: &Regions) {
        for region in regions.iter() {
            self.placing.remove(number, &region);
        }
    }

    /// The stamp of an extent that begins at `offset` and was used just now.
    pub(crate) fn stamp(&mut self, number: u32, offset: u64, access: Access) -> Stamp {
        if let Some(region) = self.files[&number].placed.holding(offset) {
            self.placing.may_give(number, region);
            return Stamp::KEPT;
        }
        self.mapping.stamp_use(access)
    }

    /// The region belongs on flash: what is mapped of it stays.
    fn keep(&mut self, number: u32, region: Range) {
        for mapped in self.begun_in(number, region) {
            let stamp = self.stamp(number, mapped.range.offset, Access::Random);
            self.restamp(number, &mapped, stamp);
        }
    }

    /// It no longer does, but for the parts that other regions hold.
    fn release(&mut self, number: u32, region: Range) {
        let mut rest = region;
        while !rest.is_empty() {
            let regions = self.files[&number].placed.regions();
            let (held, end) = (regions.holding(rest.offset).is_some(), regions.bound(rest));
            let part = Range::between(rest.offset, end);
            rest = Range::between(end, rest.end());
            if !held {
                self.release_part(number, part);
            }
        }
    }

    fn release_part(&mut self, number: u32, part: Range) {
        for mapped in self.files[&number].map.overlapping(part).collect::<Vec<_>>() {
            if !mapped.dirty {
                let clean = mapped.part(part);
                self.evict(number, &clean);
                self.mapping.evicted().remember(number, clean);
            } else if mapped.range.offset >= part.offset {
                let stamp = self.mapping.oldest_stamp();
                self.restamp(number, &mapped, stamp);
            }
        }
    }

    pub(crate) fn begun_in(&self, number: u32, region: Range) -> Vec<Mapped> {
        let begun = |mapped: &Mapped| mapped.range.offset >= region.offset;
        self.files[&number].map.overlapping(region).filter(begun).collect()
    }

    /// A clean extent of the region with the least gain per byte that has any.
    pub(crate) fn least_wanted(&mut self) -> Option<(u32, Mapped)> {
        if !self.mapping.has_kept_clean() {
            return None;
        }
        let clean = |(_, file, offset): &Rank| {
            let known = &self.files[file];
            let region = known.placed.holding(*offset)?.range;
            let mut mapped = known.map.overlapping(region);
            mapped.find(|mapped| !mapped.dirty && mapped.range.offset >= region.offset).map(|mapped| (*file, mapped))
        };
        let (rank, found) = self.placing.giving().find_map(|rank| Some((rank, clean(&rank)?)))?;
        self.placing.give_from(rank);
        Some(found)
    }

    /// Fetches what is missing of regions, as far as `limit` fetches at once. A pass tries each stretch once.
    pub(crate) fn place_next(&mut self, shared: Shared<'_>, limit: usize) {
        while self.placing.is_on() && !self.is_kept_off() && self.fetches.count() < limit && self.copies.may_begin() {
            let Some((rank, range)) = self.next_missing() else {
                // What was written to meanwhile is tried again when all other copies have ended.
                if !self.fetches.any_places() {
                    self.placing.end_pass();
                }
                return;
            };
            match self.start_placing(shared, rank.1, range) {
                Room::Now => self.placing.go_on_at(rank, range.end()),
                Room::AfterBarrier => {
                    self.placing.go_on_at(rank, range.offset);
                    return;
                }
                Room::None => self.placing.stop(),
            }
        }
    }

    /// One region belongs on flash from now on, which the journal does not say.
    pub(crate) fn want(&mut self, number: u32, region: Wanted) {
        self.placing.insert(number, &region);
        self.file(number).placed.put(region);
        self.keep(number, region.range);
    }

    /// The region of these bytes no longer does.
    pub(crate) fn unplace(&mut self, number: u32, range: Range) {
        let Some(known) = self.files.get_mut(&number) else { return };
        let Some(region) = known.placed.holding(range.offset).copied() else { return };
        known.placed.remove(region);
        self.placing.remove(number, &region);
        self.release(number, region.range);
    }

    /// Whether something of the region is not on flash.
    pub(crate) fn is_missing(&self, number: u32, range: Range) -> bool {
        let Some(known) = self.files.get(&number) else { return true };
        let mapped: u64 = known.map.overlapping(range).map(|mapped| mapped.range.intersection(range).length).sum();
        mapped < range.intersection(Range::between(0, known.placeable_end())).length.max(1)
    }

    /// A copy of a region failed.
    pub(crate) fn placing_failed(&mut self, number: u32, range: Range, errno: i32) {
        let Some(file) = self.files.get_mut(&number) else { return };
        if range.end() > file.length.size() && file.users.are_there() {
            file.placed.end_at(range.offset);
        } else {
            file.placed.fail(errno);
        }
    }

    /// The next stretch that is missing, of the regions from where this pass has come to.
    fn next_missing(&self) -> Option<(Rank, Range)> {
        self.placing.rest().find_map(|(rank, from)| Some((rank, self.missing_of(rank, from)?)))
    }

    /// The first stretch of a region, from `from` on, that is neither on flash nor on its way there; none if
    /// there is none, or nothing may come.
    fn missing_of(&self, (_, number, offset): Rank, from: u64) -> Option<Range> {
        let most = if self.is_following() { FOLLOWING_BYTES } else { FETCH_BYTES };
        let file = &self.files[&number];
        let unwanted = file.users.bypass_us() || !self.sharing.is_alone(number);
        if file.names.is_unlinked() || file.looks.is_unseen() || unwanted || file.placed.error().is_some() {
            return None;
        }
        let region = file.placed.holding(offset)?.range;
        let mut rest = Range::between(region.offset.max(from), region.end().min(file.placeable_end()));
        while !rest.is_empty() {
            let mapped = file.map.overlapping(rest).next().map(|mapped| mapped.range);
            let fetched = self.fetches.within(number, rest);
            let taken = mapped.into_iter().chain(fetched).min();
            match taken {
                Some(taken) if taken.offset <= rest.offset => rest = Range::between(taken.end(), rest.end()),
                _ => {
                    let end = taken.map_or(rest.end(), |taken| taken.offset);
                    // What lies beyond the known end may not be there.
                    let end = if rest.offset < file.length.size() { end.min(file.length.size()) } else { end };
                    return Some(Range::new(rest.offset, (end - rest.offset).min(most)));
                }
            }
        }
        None
    }
}

/// The regions of `these` that are not among `those` as they are; both by offset.
fn difference<'a>(these: &'a [Wanted], those: &'a [Wanted]) -> impl Iterator<Item = &'a Wanted> {
    these.iter().filter(|this| {
        let found = those.binary_search_by_key(&this.range.offset, |that| that.range.offset);
        found.map(|index| those[index]) != Ok(**this)
    })
}
