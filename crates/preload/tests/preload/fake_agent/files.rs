//! The map in memory: which extents of each file are on flash, and what else the agent knows.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use headstart_policy::client::carl::Regions;
use headstart_protocol::lease::Place;
use headstart_protocol::shared::{FileEntry, LEASE_DIRECT_WRITE, Piece, Shared, Slab, Slot, bits_of};
use headstart_protocol::{FLASH_DIRECTORY, data_file_name};
use headstart_units::GRANULE_BYTES;
use headstart_units::request::Range;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Extent {
    pub(super) range: Range,
    pub(super) place: u64,
}

pub(super) struct Cached {
    /// Open for reading alone: a file somebody has open for writing cannot be executed.
    pub(super) slow: File,
    pub(super) flash: File,
    pub(super) extents: Vec<Extent>,
    pub(super) next_place: u64,
    /// Processes that use it unseen.
    pub(super) bypassers: Vec<u32>,
}

impl Cached {
    /// Whatever is listed ends first.
    pub(super) fn carve(&mut self, shared: Shared, hole: Range) {
        shared.end_all_listings();
        let mut left = Vec::new();
        for extent in self.extents.drain(..) {
            let before = Range::between(extent.range.offset, extent.range.end().min(hole.offset));
            let after = Range::between(extent.range.offset.max(hole.end()), extent.range.end());
            for part in [before, after].into_iter().filter(|part| !part.is_empty()) {
                left.push(Extent { range: part, place: extent.place + (part.offset - extent.range.offset) });
            }
        }
        self.extents = left;
    }

    /// The slow file for a moment, for writing: in a thread with descriptors of its own, or processes that
    /// other tests start at that moment would have it open until they execute their programs, and it could
    /// not be executed.
    pub(super) fn while_writable(&self, work: impl FnOnce(&File) -> std::io::Result<()> + Send) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: it changes this thread alone, which ends without closing what others opened.
                assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
                let path = format!("/proc/thread-self/fd/{}", self.slow.as_raw_fd());
                work(&OpenOptions::new().write(true).open(path).unwrap()).unwrap();
            });
        });
    }

    pub(super) fn write_back(&self, range: Range) {
        if !self.extents.iter().any(|extent| extent.range.overlaps(range)) {
            return;
        }
        self.while_writable(|slow| {
            self.extents.iter().try_for_each(|extent| {
                let part = extent.range.intersection(range);
                let mut bytes = vec![0; part.length as usize];
                let place = extent.place + part.offset.saturating_sub(extent.range.offset);
                self.flash.read_exact_at(&mut bytes, place)?;
                slow.write_all_at(&bytes, part.offset)
            })
        });
    }
}

#[derive(Default)]
pub(super) struct Inner {
    pub(super) files: Vec<Cached>,
    pub(super) index: HashMap<u64, u32>,
    /// Every request but the data path's, as text.
    pub(super) log: Vec<String>,
    /// Last answered commit of each slot.
    pub(super) commits: HashMap<u32, u64>,
    /// Commits that are applied but not answered before the agent dies.
    pub(super) swallow_commits: bool,
    pub(super) refuse_opens: bool,
    /// Reads, direct writes, truncations and write-backs wait for their answer.
    pub(super) hold_asks: bool,
    /// Those that do.
    pub(super) held_asks: u64,
    pub(super) asks_for_space: u64,
    pub(super) exclude: bool,
    /// Reads of what is on flash are sent to the slow file.
    pub(super) sooner: bool,
    /// Of every file.
    pub(super) regions: Regions,
    /// Extents that are written back and dropped, one for each message or so.
    pub(super) churn: bool,
    pub(super) churned: u64,
}

/// Whether a living process uses the file unseen.
pub(super) fn bypassed(shared: Shared, inner: &mut Inner, file: u32) -> bool {
    let living = |pid: &u32| shared.used_slots().iter().any(|slot| slot.owner_pid.load(Ordering::Acquire) == *pid);
    let bypassers = &mut inner.files[file as usize].bypassers;
    bypassers.retain(living);
    !bypassers.is_empty()
}

/// Writes one extent of each file back, drops it, and clears the bits of granules nothing is left in.
pub(super) fn churn(shared: Shared, inner: &mut Inner) {
    for (file, cached) in inner.files.iter_mut().enumerate() {
        let Some(extent) = cached.extents.first().copied() else { continue };
        let leased = shared.used_slots().iter().any(|slot| {
            slot.lease.load(Ordering::Acquire) == LEASE_DIRECT_WRITE
                && slot.lease_file.load(Ordering::Relaxed) == file as u32
                && slot.leased().overlaps(extent.range)
        });
        if leased {
            cached.extents.rotate_left(1);
            continue;
        }
        cached.write_back(extent.range);
        cached.carve(shared, extent.range);
        inner.churned += 1;
        for bit in bits_of(extent.range) {
            let granule = Range::new(bit * GRANULE_BYTES, GRANULE_BYTES);
            if !cached.extents.iter().any(|extent| extent.range.overlaps(granule)) {
                shared.clear_bit(file as u32, bit);
            }
        }
    }
}

pub(super) fn open(shared: Shared, fast: &Path, inner: &mut Inner, inode: u64, path: &[u8]) -> std::io::Result<u32> {
    if let Some(&file) = inner.index.get(&inode) {
        return Ok(file);
    }
    let file = inner.files.len() as u32;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let slow = File::open(path)?;
    let flash = fast.join(FLASH_DIRECTORY).join(data_file_name(file));
    let flash = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(flash).unwrap();
    let entry = &shared.files[file as usize];
    entry.size.store(slow.metadata().unwrap().len(), Ordering::Relaxed);
    entry.regions.store(u64::from(inner.regions != Regions::NONE), Ordering::Relaxed);
    entry.used.store(1, Ordering::Release);
    inner.files.push(Cached { slow, flash, extents: Vec::new(), next_place: 0, bypassers: Vec::new() });
    inner.index.insert(inode, file);
    Ok(file)
}

pub(super) fn commit(shared: Shared, slot: &Slot, inner: &mut Inner, file: u32, range: Range, place: u64) {
    let cached = &mut inner.files[file as usize];
    cached.carve(shared, range);
    cached.extents.push(Extent { range, place });
    extend(shared, &shared.files[file as usize], cached, file, range.end());
    let mut slabs = slot.slabs.iter().map(Slab::read).enumerate();
    let holds =
        |slab: &Place| slab.file == file && slab.place <= place && place + range.length <= slab.place + slab.length;
    let (at, slab) = slabs.find(|(_, slab)| holds(slab)).expect("a commit lies in a slab of its slot");
    let end = slab.place + slab.length;
    let next = (place + range.length).next_multiple_of(4096).min(end);
    if next == end {
        return slot.revoke_slab(at);
    }
    slot.show_slab(at, Place { place: next, length: end - next, ..slab });
}

/// Extends the slow file, while writes that would extend it too ask first.
fn extend(shared: Shared, entry: &FileEntry, cached: &Cached, file: u32, end: u64) {
    let slow = &cached.slow;
    if slow.metadata().unwrap().len() < end {
        shared.announce_extension(file);
        while shared.may_be_extending(file, entry.size.load(Ordering::Acquire)) {
            std::hint::spin_loop();
        }
        if slow.metadata().unwrap().len() < end {
            cached.while_writable(|slow| slow.set_len(end));
        }
        shared.end_extension(file);
    }
    entry.size.store(slow.metadata().unwrap().len(), Ordering::Release);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    entry.modified_ns.store(now.as_nanos() as u64, Ordering::Relaxed);
}

pub(super) fn set_piece(piece: &Piece, file: u32, place: u64, length: u64) {
    piece.file.store(file, Ordering::Relaxed);
    piece.data_file.store(file, Ordering::Relaxed);
    piece.place.store(place, Ordering::Relaxed);
    piece.length.store(length, Ordering::Release);
}
