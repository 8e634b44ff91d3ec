//! What the agent answers to each request, in the protocol's order: bits, fence, wait for cheap requests, then the map.

use std::path::Path;
use std::sync::atomic::Ordering;

use headstart_protocol::lease::Place;
use headstart_protocol::message::{Envelope, REGIONS_PER_REPLY, Reply, Request, encode_regions};
use headstart_protocol::shared::{
    LEASE_DIRECT_WRITE, LEASE_FLASH_READ, LEASE_NONE, LEASE_SLOW_READ, PIECES_MAX, Shared, Slot, bits_of,
};
use headstart_units::GRANULE_BYTES;
use headstart_units::request::Range;

use super::files::{Extent, Inner, bypassed, commit, open, set_piece};

/// Slabs are at most this long, so that large writes come in parts.
const SLAB_BYTES: u64 = 256 << 10;

const WHOLE: Range = Range { offset: 0, length: u64::MAX };

/// What becomes of a request.
pub(super) enum Served {
    Reply(Reply<'static>),
    /// Done, but never answered.
    Silence,
    /// A lease is in the way: asked again.
    Later,
}

/// One request of one thread.
struct Asked<'a> {
    shared: Shared<'static>,
    fast: &'a Path,
    inner: &'a mut Inner,
    envelope: Envelope,
    slot: &'static Slot,
}

/// Serves one request.
pub(super) fn serve(
    shared: Shared<'static>,
    fast: &Path,
    inner: &mut Inner,
    envelope: Envelope,
    request: Request,
) -> Served {
    let slot = &shared.slots[envelope.slot as usize];
    let mut asked = Asked { shared, fast, inner, envelope, slot };
    if asked.is_put_off(&request) {
        return Served::Later;
    }
    let reply = match request {
        Request::Slab { file, offset, length } => asked.slab(file, Range::new(offset, length)),
        Request::Commit { file, offset, length, place, data_file } => {
            assert_eq!(data_file, file, "this agent has one data file for each file");
            assert_eq!(place % 4096, offset % 4096, "places keep the offset modulo 4096");
            return asked.commit(file, Range::new(offset, length), place);
        }
        Request::Read { file, offset, length, leased, .. } => asked.read(file, Range::new(offset, length), leased),
        Request::Write { file, offset, length, .. } => return asked.write(file, Range::new(offset, length)),
        Request::WriteDone { file, offset, length } => asked.dropped(file, Range::new(offset, length), None),
        Request::Truncate { file, size } => asked.lease(LEASE_DIRECT_WRITE, file, Range::between(size, u64::MAX)),
        Request::TruncateDone { changed: false, .. } => asked.end_lease(),
        Request::TruncateDone { file, size, .. } => asked.dropped(file, Range::between(size, u64::MAX), Some(size)),
        Request::Rearrange { file, from } => {
            asked.inner.files[file as usize].write_back(Range::between(from, u64::MAX));
            asked.lease(LEASE_DIRECT_WRITE, file, Range::between(from, u64::MAX))
        }
        Request::RearrangeDone { file, from, size } => asked.dropped(file, Range::between(from, u64::MAX), Some(size)),
        Request::WriteBack { file, offset, length } => {
            asked.inner.files[file as usize].write_back(Range::new(offset, length));
            Reply::Done
        }
        Request::Marked => return Served::Silence,
        request => asked.about_a_file(request),
    };
    Served::Reply(reply)
}

impl Asked<'_> {
    /// Whether the test wants it to wait.
    fn is_put_off(&mut self, request: &Request) -> bool {
        let asks = matches!(
            request,
            Request::Read { .. } | Request::Write { .. } | Request::Truncate { .. } | Request::WriteBack { .. }
        );
        let puts_off = asks && self.inner.hold_asks;
        self.inner.held_asks += u64::from(puts_off);
        puts_off
    }

    /// Requests that move nothing.
    fn about_a_file(&mut self, request: Request) -> Reply<'static> {
        match request {
            Request::Regions { file: _, from } => {
                let rest = self.inner.regions.beginning_from(from);
                let part = &rest[..rest.len().min(REGIONS_PER_REPLY)];
                Reply::Regions { last: part.len() == rest.len(), packed: encode_regions(part).leak() }
            }
            Request::Open { inode, path, .. } => self.open(inode, path),
            Request::Bypass { file, writes } => {
                let cached = &mut self.inner.files[file as usize];
                cached.write_back(WHOLE);
                if writes {
                    cached.carve(self.shared, WHOLE);
                }
                cached.bypassers.push(self.slot.owner_pid.load(Ordering::Relaxed));
                Reply::Done
            }
            Request::Close { .. }
            | Request::Sealed { .. }
            | Request::Sync { .. }
            | Request::Unlinked { .. }
            | Request::TimesSet { .. }
            | Request::Name { .. }
            | Request::Renamed { .. } => Reply::Done,
            // Its flash never fails, and whoever runs against it can open everything by its path.
            Request::FlashFailed { .. } | Request::Descriptor { .. } => Reply::Error { errno: libc::EIO, text: b"" },
            other => unreachable!("{other:?} is served before"),
        }
    }

    fn open(&mut self, inode: u64, path: &[u8]) -> Reply<'static> {
        if self.inner.refuse_opens {
            return Reply::Error { errno: libc::EBUSY, text: b"another node has it" };
        }
        match open(self.shared, self.fast, self.inner, inode, path) {
            Ok(file) => Reply::Opened { file, excluded: self.inner.exclude },
            Err(error) => Reply::Error { errno: error.raw_os_error().unwrap(), text: b"the agent cannot open it" },
        }
    }

    /// Grants the slot a lease. Its published request may be another one: who cuts a file by name publishes none.
    fn lease(&self, kind: u32, file: u32, range: Range) -> Reply<'static> {
        self.slot.lease_file.store(file, Ordering::Relaxed);
        self.slot.lease_offset.store(range.offset, Ordering::Relaxed);
        self.slot.lease_length.store(range.length, Ordering::Relaxed);
        self.slot.lease.store(kind, Ordering::Release);
        Reply::Go
    }

    /// Whether another slot has a lease of one of these kinds there.
    fn is_held_up(&self, file: u32, range: Range, kinds: &[u32]) -> bool {
        self.shared.used_slots().iter().any(|other| {
            !std::ptr::eq(other, self.slot)
                && kinds.contains(&other.lease.load(Ordering::Acquire))
                && other.lease_file.load(Ordering::Relaxed) == file
                && other.leased().overlaps(range)
        })
    }

    /// The slow file was changed under a lease: what flash had of `range` is gone, and perhaps the size is another.
    fn dropped(&mut self, file: u32, range: Range, size: Option<u64>) -> Reply<'static> {
        self.inner.files[file as usize].carve(self.shared, range);
        if let Some(size) = size {
            self.shared.files[file as usize].size.store(size, Ordering::Release);
        }
        self.end_lease()
    }

    fn end_lease(&self) -> Reply<'static> {
        self.slot.lease.store(LEASE_NONE, Ordering::Release);
        Reply::Done
    }

    fn slab(&mut self, file: u32, range: Range) -> Reply<'static> {
        self.inner.asks_for_space += 1;
        let wanted = (range.length + 4096 + range.offset % 4096).next_multiple_of(4096).clamp(64 << 10, SLAB_BYTES);
        if bypassed(self.shared, self.inner, file) {
            return Reply::Bypassed;
        }
        if self.shared.header.free_bytes.load(Ordering::Relaxed) < wanted {
            return Reply::NoSpace;
        }
        self.shared.header.free_bytes.fetch_sub(wanted, Ordering::Relaxed);
        let cached = &mut self.inner.files[file as usize];
        let left = |at: &usize| self.slot.slabs[*at].read().length;
        let at = (0..PIECES_MAX).min_by_key(left).unwrap();
        self.slot.show_slab(at, Place { file, data_file: file, place: cached.next_place, length: wanted });
        cached.next_place += wanted;
        Reply::Done
    }

    fn commit(&mut self, file: u32, range: Range, place: u64) -> Served {
        let Envelope { slot, seq } = self.envelope;
        if self.inner.commits.get(&slot) == Some(&seq) {
            self.inner.log.push("repeated commit".into());
            return Served::Reply(Reply::Done);
        }
        if bypassed(self.shared, self.inner, file) {
            return Served::Reply(Reply::Bypassed);
        }
        let shared = self.shared;
        shared.announce(file, range);
        let cheap = !bits_of(range).all(|bit| shared.is_settled(file, bit));
        let extenders = shared.may_be_extending(file, shared.files[file as usize].size.load(Ordering::Acquire));
        if cheap || extenders || self.is_held_up(file, range, &[LEASE_DIRECT_WRITE, LEASE_SLOW_READ]) {
            return Served::Later;
        }
        shared.raise_generation(file, range);
        commit(shared, self.slot, self.inner, file, range, place);
        self.inner.commits.insert(slot, seq);
        if self.inner.swallow_commits {
            self.inner.log.push("swallowed commit".into());
            return Served::Silence;
        }
        Served::Reply(Reply::Done)
    }

    fn read(&mut self, file: u32, range: Range, leased: bool) -> Reply<'static> {
        let parts = self.parts(file, range);
        let (mut end, mut count) = (range.offset, 0);
        for part in parts.iter().take(PIECES_MAX).take_while(|part| {
            let adjoins = part.range.offset == end;
            end = if adjoins { part.range.end() } else { end };
            adjoins
        }) {
            set_piece(&self.slot.pieces[count], file, part.place, part.range.length);
            count += 1;
        }
        self.slot.pieces_count.store(count as u32, Ordering::Relaxed);
        let length = end - range.offset;
        if count > 0 && self.inner.sooner {
            self.lease_slow(leased, file, Range::between(range.offset, end));
            Reply::Sooner { length }
        } else if count > 0 {
            self.lease(LEASE_FLASH_READ, file, Range::new(0, 0));
            self.list(file, range.offset / GRANULE_BYTES);
            Reply::Flash { length }
        } else {
            let length = parts.first().map_or(range.length, |part| part.range.offset - range.offset);
            self.lease_slow(leased, file, Range::new(range.offset, length));
            Reply::Disk { length }
        }
    }

    /// Reads of the granule ask nobody from now on.
    fn list(&self, file: u32, granule: u64) {
        let parts = self.parts(file, Range::new(granule * GRANULE_BYTES, GRANULE_BYTES));
        let place = |part: &Extent| Place { file, data_file: file, place: part.place, length: part.range.length };
        let index = self.shared.listing_of(file, granule).expect("there are listings");
        self.shared.fill_listing(index, file, granule, parts.iter().map(|part| (part.range.offset, place(part))));
    }

    fn lease_slow(&self, leased: bool, file: u32, range: Range) {
        if leased {
            self.lease(LEASE_SLOW_READ, file, range);
        }
    }

    /// What of a range is on flash, in its order.
    fn parts(&self, file: u32, range: Range) -> Vec<Extent> {
        let extents = &self.inner.files[file as usize].extents;
        let within = |extent: &Extent| {
            let part = extent.range.intersection(range);
            Extent { range: part, place: extent.place + (part.offset - extent.range.offset) }
        };
        let mut parts: Vec<_> = extents.iter().filter(|extent| extent.range.overlaps(range)).map(within).collect();
        parts.sort_by_key(|part| part.range.offset);
        parts
    }

    fn write(&self, file: u32, range: Range) -> Served {
        if self.is_held_up(file, range, &[LEASE_DIRECT_WRITE]) {
            return Served::Later;
        }
        self.shared.raise_generation(file, range);
        Served::Reply(self.lease(LEASE_DIRECT_WRITE, file, range))
    }
}
