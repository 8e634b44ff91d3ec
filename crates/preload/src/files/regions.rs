//! The regions of a file that belong on flash (CARL), as the agent told them.
//!
//! A number in the file's entry of the shared table says whether there are any and whether they changed; the
//! first request that finds another number than before asks the agent. Requests read the list at the same time,
//! and none waits. The list before is freed once nobody reads it, at the latest at the next change.
//!
//! ```text
//! number of the entry: 0 -> none
//!               as known -> look them up
//!                another -> one thread asks, the others see none meanwhile
//! ```

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use headstart_policy::client::carl::Regions;
use headstart_protocol::message::{Request, decode_regions};

use crate::kernel::Errno;
use crate::session::{self, Answer, Session};

/// What a list is of: an opening of a file, by its serial number, and the file's number and that of its
/// regions at the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The record's number of this opening.
    pub serial: u32,
    /// The file.
    pub file: u32,
    /// What the shared table says of its regions, not zero.
    pub version: u64,
}

#[derive(Debug)]
struct Known {
    key: Key,
    regions: Regions,
    /// The list before, which somebody may read yet.
    older: *mut Known,
}

/// What one record knows.
#[derive(Debug)]
pub(crate) struct Cell {
    known: AtomicPtr<Known>,
    readers: AtomicU32,
    asking: AtomicBool,
}

impl Cell {
    /// Nothing.
    pub(crate) const fn new() -> Cell {
        Cell { known: AtomicPtr::new(ptr::null_mut()), readers: AtomicU32::new(0), asking: AtomicBool::new(false) }
    }

    /// Looks at the regions; at none if these are not known.
    #[inline]
    pub(crate) fn with<R>(&self, key: Key, work: impl FnOnce(&Regions) -> R) -> R {
        self.readers.fetch_add(1, Ordering::SeqCst);
        // SAFETY: a list that is found here is freed only when `readers` was seen to be zero after it was replaced.
        let known = unsafe { self.known.load(Ordering::SeqCst).as_ref() };
        let result = work(known.filter(|known| known.key == key).map_or(&Regions::NONE, |known| &known.regions));
        self.readers.fetch_sub(1, Ordering::Release);
        result
    }

    /// Whether they are known.
    #[inline]
    pub(crate) fn knows(&self, key: Key) -> bool {
        self.readers.fetch_add(1, Ordering::SeqCst);
        // SAFETY: as in `with`.
        let knows = unsafe { self.known.load(Ordering::SeqCst).as_ref() }.is_some_and(|known| known.key == key);
        self.readers.fetch_sub(1, Ordering::Release);
        knows
    }

    /// Learns them, unless another thread is about to, or nobody says.
    #[cold]
    pub(crate) fn learn(&self, key: Key, ask: impl FnOnce() -> Result<Regions, Errno>) {
        if self.asking.swap(true, Ordering::Acquire) {
            return;
        }
        if let Ok(regions) = ask() {
            self.replace(Known { key, regions, older: ptr::null_mut() });
        }
        self.asking.store(false, Ordering::Release);
    }

    /// One thread at a time.
    fn replace(&self, known: Known) {
        let known = Box::into_raw(Box::new(known));
        let before = self.known.swap(known, Ordering::SeqCst);
        // SAFETY: whoever finds `known` reads neither its `older` nor what that leads to, and `asking` keeps
        // others from here.
        unsafe { (*known).older = before };
        if self.readers.load(Ordering::SeqCst) > 0 {
            return;
        }
        // Whoever reads from now on finds `known`.
        // SAFETY: as above.
        let mut next = unsafe { std::mem::replace(&mut (*known).older, ptr::null_mut()) };
        while !next.is_null() {
            // SAFETY: it came from `Box::into_raw`, nobody reads it, and it hangs on nothing else any more.
            next = unsafe { Box::from_raw(next) }.older;
        }
    }

    /// In a forked child, which has no other thread here: those that were reading or asking stayed with the parent.
    pub(crate) fn forked(&self) {
        self.readers.store(0, Ordering::Relaxed);
        self.asking.store(false, Ordering::Relaxed);
    }
}

/// Asks the agent.
pub(crate) fn ask(session: &mut Session, file: u32) -> Result<Regions, Errno> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let (length, last) = match session.call(&Request::Regions { file, from })? {
            Answer::Regions(length, last) => (length, last),
            other => return Err(session.unexpected(other)),
        };
        let part = session.packed(length).and_then(|packed| decode_regions(packed).ok());
        let part = part.filter(|part| part.first().is_none_or(|first| first.range.offset >= from));
        let Some(part) = part else {
            session::complain(format_args!("the agent's regions of a file make no sense; library and agent differ"));
            return Err(libc::EIO);
        };
        from = part.last().map_or(u64::MAX, |last| last.range.end());
        all.extend(part);
        if last || from == u64::MAX {
            return Ok(Regions::new(all));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use headstart_policy::client::carl::Wanted;
    use headstart_units::request::Range;

    use super::*;

    fn key(version: u64) -> Key {
        Key { serial: 1, file: 2, version }
    }

    /// As many regions as the version says, each of which names it.
    fn regions(version: u64) -> Regions {
        let region = |k| Wanted { range: Range::new(k * 10, 10), benefit_ns: version, gain_ns: 0 };
        Regions::new((0..version % 100).map(region))
    }

    #[test]
    fn what_is_known_of_one_opening_or_version_says_nothing_of_another() {
        let cell = Cell::new();
        assert!(!cell.knows(key(5)));
        cell.learn(key(5), || Ok(regions(5)));
        assert!(cell.knows(key(5)) && cell.with(key(5), |regions| regions.iter().count()) == 5);
        for other in [key(6), Key { serial: 9, ..key(5) }, Key { file: 9, ..key(5) }] {
            assert!(!cell.knows(other) && cell.with(other, |regions| regions.is_empty()));
        }
        cell.learn(key(6), || Err(libc::EIO));
        assert!(!cell.knows(key(6)));
        cell.learn(key(6), || Ok(regions(6)));
        assert!(cell.knows(key(6)), "what nobody said is asked again");
    }

    #[test]
    fn threads_that_read_while_lists_are_replaced_see_whole_ones() {
        let (cell, version) = (Cell::new(), AtomicU64::new(1));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while version.load(Ordering::Relaxed) < 20_000 {
                        let key = key(version.load(Ordering::Relaxed));
                        cell.with(key, |found| assert!(found.is_empty() || *found == regions(key.version)));
                    }
                });
            }
            for next in 1..=20_000 {
                cell.learn(key(next), || Ok(regions(next)));
                version.store(next, Ordering::Relaxed);
            }
        });
    }
}
