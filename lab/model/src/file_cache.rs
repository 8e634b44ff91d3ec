//! A server's page cache for reads, filled ahead of those who read a file in order.
//!
//! A *stream* is what one job reads of one file at this server, whichever rank does. Its *frontier* is the
//! page after the last one fetched. A read near the frontier continues the stream: windows of pages are
//! fetched until one whole window lies ahead of the read. A read elsewhere moves the frontier there and
//! fetches nothing ahead, so that ranks that each read a region of their own defeat the read-ahead.
//!
//! ```text
//! absent --window or missing page--> in flight --fill--> clean --oldest of too many--> absent
//! ```
//!
//! Reads of pages in flight wait for them. Pages are addresses on the device, so jobs that read the same file
//! share them. The window's size is a calibration, no rule of PVFS2 or Linux; see [`FileReadAhead`].
//!
//! Not modelled: the end of a file (a stream reads up to two windows beyond it), parts of pages, and writes,
//! which leave pages as they are.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use crate::request::Origin;

mod config;

pub use config::FileReadAhead;

/// How far behind the frontier a read may be and continue the stream, in pages (calibrated).
const BEHIND_PAGES: u64 = 65;
/// How far ahead of it, besides four windows (the same).
const AHEAD_PAGES: u64 = 7;
/// Streams known at a time, the oldest forgotten first (assumed).
const STREAMS_MAX: usize = 4096;
/// No waiter.
const NONE: u32 = u32::MAX;

/// Only ever asked for single keys, so that its order does not matter.
type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

#[derive(Clone, Copy, Debug)]
enum Page {
    Clean,
    /// The first and the last of those who wait for it.
    InFlight {
        first: u32,
        last: u32,
    },
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    owner: u32,
    next: u32,
}

/// Pages to read from the device with one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The first page.
    pub page: u64,
    /// How many.
    pub count: u64,
}

/// How a read is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// All pages are there.
    Hit,
    /// When so many pages have come; [`FileCache::on_filled`] names the owner once for each.
    Waits(u32),
    /// By a command of its own, of which [`FileCache::on_read_done`] wants to know the end.
    Alone,
}

/// The page cache of one server.
#[derive(Debug)]
pub struct FileCache {
    config: FileReadAhead,
    pages: Map<u64, Page>,
    /// Clean pages in the order they came.
    clean: VecDeque<u64>,
    clean_max: usize,
    /// Frontiers by job and file.
    streams: Map<(u32, u32), u64>,
    stream_order: VecDeque<(u32, u32)>,
    /// Reads that wait for the drive alone, by job.
    alone: BTreeMap<u32, usize>,
    alone_count: usize,
    waiters: Vec<Waiter>,
    free_waiters: Vec<u32>,
}

impl FileCache {
    /// An empty cache.
    pub fn new(config: FileReadAhead) -> FileCache {
        let window = config.window_pages.max(config.contended_window_pages);
        assert!(
            config.page_bytes > 0 && config.window_pages > 0 && config.contended_window_pages > 0,
            "pages have bytes"
        );
        assert!(config.cache_bytes >= 2 * window * config.page_bytes, "the cache holds two windows");
        FileCache {
            config,
            pages: Map::default(),
            clean: VecDeque::new(),
            clean_max: (config.cache_bytes / config.page_bytes) as usize,
            streams: Map::default(),
            stream_order: VecDeque::new(),
            alone: BTreeMap::new(),
            alone_count: 0,
            waiters: Vec::new(),
            free_waiters: Vec::new(),
        }
    }

    /// Forgets all clean pages and all streams.
    pub fn empty(&mut self) {
        for page in std::mem::take(&mut self.clean) {
            self.pages.remove(&page);
        }
        self.streams.clear();
        self.stream_order.clear();
    }

    /// Bytes of clean pages.
    pub fn held_bytes(&self) -> u64 {
        self.clean.len() as u64 * self.config.page_bytes
    }

    /// Looks up a read of `address..end`; appends what to fetch from the device.
    pub fn on_read(&mut self, owner: u32, origin: Origin, address: u64, end: u64, fetches: &mut Vec<Fetch>) -> Lookup {
        let (first, last) = (address / self.config.page_bytes, (end - 1) / self.config.page_bytes);
        let continues = self.advance(origin, first, last, fetches);
        let absent = |cache: &FileCache, page: &u64| !cache.pages.contains_key(page);
        if !continues && (first..=last).any(|page| absent(self, &page)) {
            return Lookup::Alone;
        }
        let mut page = first;
        while let Some(start) = (page..=last).find(|page| absent(self, page)) {
            let stop = (start..=last).find(|page| !absent(self, page)).unwrap_or(last + 1);
            self.fetch(start, stop, fetches);
            page = stop;
        }
        match (first..=last).map(|page| u32::from(self.wait(page, owner))).sum() {
            0 => Lookup::Hit,
            count => Lookup::Waits(count),
        }
    }

    /// Moves the stream's frontier; true if the read continues the stream.
    fn advance(&mut self, origin: Origin, first: u64, last: u64, fetches: &mut Vec<Fetch>) -> bool {
        let window = self.window(origin.job);
        let frontier = match self.streams.entry((origin.job, origin.file)) {
            Entry::Occupied(stream) => stream.into_mut(),
            Entry::Vacant(stream) => {
                self.stream_order.push_back(*stream.key());
                stream.insert(last + 1);
                if self.stream_order.len() > STREAMS_MAX
                    && let Some(oldest) = self.stream_order.pop_front()
                {
                    self.streams.remove(&oldest);
                }
                return false;
            }
        };
        if first + BEHIND_PAGES < *frontier || first > *frontier + 4 * window + AHEAD_PAGES {
            *frontier = last + 1;
            return false;
        }
        let start = *frontier;
        let count = if start > last + window { 0 } else { (last + window - start) / window + 1 };
        *frontier += count * window;
        for index in 0..count {
            self.fetch(start + index * window, start + (index + 1) * window, fetches);
        }
        true
    }

    /// Pages of a window for `job`, fewer while others' reads wait for the drive.
    fn window(&self, job: u32) -> u64 {
        let own = self.alone.get(&job).copied().unwrap_or(0);
        let contended = self.alone_count - own > self.config.foreign_reads_max;
        if contended { self.config.contended_window_pages } else { self.config.window_pages }
    }

    /// Fetches `start..stop`, less what is there or coming at its ends.
    fn fetch(&mut self, start: u64, stop: u64, fetches: &mut Vec<Fetch>) {
        let mut absent = (start..stop).filter(|page| !self.pages.contains_key(page));
        let Some(first) = absent.next() else { return };
        let stop = absent.next_back().unwrap_or(first) + 1;
        for page in first..stop {
            self.pages.entry(page).or_insert(Page::InFlight { first: NONE, last: NONE });
        }
        fetches.push(Fetch { page: first, count: stop - first });
    }

    /// True if `owner` has to wait for `page`.
    fn wait(&mut self, page: u64, owner: u32) -> bool {
        let Some(Page::InFlight { first, last }) = self.pages.get_mut(&page) else { return false };
        let waiter = Waiter { owner, next: NONE };
        let index = self.free_waiters.pop().unwrap_or(self.waiters.len() as u32);
        match self.waiters.get_mut(index as usize) {
            Some(slot) => *slot = waiter,
            None => self.waiters.push(waiter),
        }
        if *first == NONE {
            *first = index;
        } else {
            self.waiters[*last as usize].next = index;
        }
        *last = index;
        true
    }

    /// Pages have come from the device; appends the owners who waited for each, in order.
    pub fn on_filled(&mut self, fetch: Fetch, woken: &mut Vec<u32>) {
        for page in fetch.page..fetch.page + fetch.count {
            let Some(state) = self.pages.get_mut(&page) else { continue };
            let Page::InFlight { first: mut waiter, .. } = *state else { continue };
            *state = Page::Clean;
            self.keep(page);
            while waiter != NONE {
                let Waiter { owner, next } = self.waiters[waiter as usize];
                woken.push(owner);
                self.free_waiters.push(waiter);
                waiter = next;
            }
        }
    }

    fn keep(&mut self, page: u64) {
        self.clean.push_back(page);
        if self.clean.len() > self.clean_max
            && let Some(oldest) = self.clean.pop_front()
        {
            self.pages.remove(&oldest);
        }
    }

    /// A command of a job's read that is served alone waits for the drive, or no longer does.
    pub fn on_alone(&mut self, job: u32, waits: bool) {
        let count = self.alone.entry(job).or_default();
        if waits {
            *count += 1;
            self.alone_count += 1;
            return;
        }
        *count -= 1;
        self.alone_count -= 1;
        if *count == 0 {
            self.alone.remove(&job);
        }
    }

    /// A read that was served alone has its bytes: pages it has read whole are clean now.
    pub fn on_read_done(&mut self, address: u64, end: u64) {
        for page in address.div_ceil(self.config.page_bytes)..end / self.config.page_bytes {
            if let Entry::Vacant(absent) = self.pages.entry(page) {
                absent.insert(Page::Clean);
                self.keep(page);
            }
        }
    }
}

#[cfg(test)]
mod tests;
