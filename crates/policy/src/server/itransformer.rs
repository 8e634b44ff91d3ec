//! iTransformer (LANL brief, 2011): flash as the long tail of the disk scheduler's dispatch queue.
//!
//! The brief names what bounds a long queue in memory: writes in it are volatile, requests may wait for long,
//! and streams of random requests gain nothing. Here
//!
//! - writes are absorbed by the log (nothing volatile) and written back in address order, neighbours as one;
//! - interleaved streams of reads are recognised ([`Streams`]) and read ahead in long runs, staged on flash,
//!   dropped once read;
//! - random reads go to the disk sorted (the engine's disk queue, as long as need be) and undisturbed by writes;
//! - the disk serves either the foreground or a *batch* of write-backs and fetches. What a batch adds to a
//!   foreground request is what is under way when the request comes, and a batch begins nothing that would
//!   keep the disk for longer than `delay_max` ([`disk_time`]).
//!
//! ```text
//!               nothing of the foreground in front of the gate or in flight, background work wanted
//!   Foreground ------------------------------------------------------------------------------------> Background
//!   (gate open, or closed behind   <------------------------------------------------------------------ (gate closed)
//!    those that wait while work      a request waits and no more fits into delay_max; or nothing is left
//!    is urgent)
//! ```
//!
//! Large requests, and sequential streams that nothing interrupts and that keep the disk busy, bypass flash:
//! the disk serves them as well as it can. Streams of reads are fetched for only where the disk takes longer
//! without ([`Unaided`]). A stream of a few short requests at a time misses a turn of the disk after each of
//! them, and what is left to the disk of one that is otherwise absorbed stays behind the rest: it is absorbed
//! whole until the log is three quarters full, if flash is faster than the disk. As the log fills, writes are
//! paced: kept from it, so that it fills no faster than it is written back. Those of the lowest addresses are
//! let in first: neighbours come together, so that write-backs are fewer and longer. A write that has been
//! kept for `delay_max` longer than the disk alone would have taken for all that wait is let in, or goes to
//! the disk where there is no room.
//!
//! While writes are paced and all that the disk has to do is short, there are no turns: up to as many
//! write-backs as requests that compete share the disk with the foreground, whose order saves more than a
//! batch of their own would. None of them adds to what a request waits for: the write that it stands for is
//! one that the disk alone would have by now.

mod disk_time;

use super::policy::{Load, Policy, Turn};
use crate::order::{Heading, Planned, Streams, Unaided};
use disk_time::DiskTime;
use headstart_units::Nanos;
use headstart_units::request::Range;

/// Of all streams together, a window each is read in so many times `delay_max` (assumed: a second by default).
const CYCLE_DELAYS: u64 = 20;

/// A request costs the disk positioning rather than transfer if it is shorter than this (assumed: a third of
/// what the positioning of a slow disk takes).
const SHORT_BYTES_MAX: u64 = 128 << 10;
/// A sequential stream of writes with so many bytes under way keeps the disk busy by itself (the disk turns
/// around once for as many);
const BUSY_BYTES_MIN: u64 = 1 << 20;
/// so has it been lately if it was within so many writes (assumed: several rounds of a hundred processes,
/// each of which begins with one);
const BUSY_WRITES: u32 = 512;
/// one with less has this much of the log, in percent (assumed: a quarter is left for those that need it).
const LEFT_PERCENT: u32 = 75;
/// And nothing of it where flash is not so many times as fast as the disk (what it absorbs it has to read again).
const FASTER_TIMES: u64 = 2;
/// As many as a disk sorts (the depth of NCQ).
const SORTED_MAX: usize = 32;

/// Of this much, shares of `delay_max`: at the start three quarters are a batch's; never less than a fifth.
const SHARE_MAX: u64 = 1024;
const SHARE_START: u64 = 768;
const SHARE_MIN: u64 = 205;

/// What may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most that all this adds to a foreground request.
    pub delay_max: Nanos,
    /// Longer requests bypass flash (assumed: a disk spends half as long on their transfer as on positioning,
    /// and the disk queue sorts them).
    pub large_bytes_min: u64,
    /// Nothing of the foreground for so long: what is dirty is written back (assumed: several times a disk's
    /// positioning).
    pub idle: Nanos,
    /// Share of the log, in percent, from which on write-back is urgent, and from which on writes are paced.
    /// From less on, write-back reaches places where processes that are out of step have left gaps, writes
    /// around them, and finds nothing but what fills them later.
    pub urgent_percent: u32,
    /// See `urgent_percent`. From less on, a burst would meet delays of a disk's positioning while half of
    /// the log is free; from more on, random writes would fill it and go to the disk one by one.
    pub paced_percent: u32,
    /// Sequential writes that keep the disk busy by themselves bypass flash.
    pub leaves_streams: bool,
    /// First window of a stream of reads (assumed: four requests of 64 KiB).
    pub window_bytes_min: u64,
    /// Reads that make a stream of a run (assumed: random ones rarely follow each other so often).
    pub stream_reads_min: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            delay_max: Nanos(50_000_000),
            large_bytes_min: 256 << 10,
            idle: Nanos(50_000_000),
            urgent_percent: 45,
            paced_percent: 50,
            leaves_streams: true,
            window_bytes_min: 256 << 10,
            stream_reads_min: 4,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Foreground,
    /// Since then.
    Background(Nanos),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct ITransformer {
    settings: Settings,
    phase: Phase,
    /// Where the sweep of write-back is.
    cursor: u64,
    /// Bytes of a write-back, a mean over the last few.
    write_back_bytes: u64,
    is_fetch_next: bool,
    time: DiskTime,
    /// How much of `delay_max` a batch may take by estimate. A drive leaves what is far for the end, so that
    /// short batches take longer than the mean of their orders.
    share: u64,
    streams: Streams,
    unaided: Unaided,
    writers: Streams,
    /// For so many writes more the disk counts as busy with them.
    busy_writes: u32,
}

impl Default for ITransformer {
    fn default() -> ITransformer {
        ITransformer::new(Settings::default())
    }
}

impl ITransformer {
    /// One that has seen nothing yet.
    pub fn new(settings: Settings) -> ITransformer {
        ITransformer {
            settings,
            phase: Phase::Foreground,
            cursor: 0,
            write_back_bytes: 1 << 20,
            is_fetch_next: false,
            time: DiskTime::default(),
            share: SHARE_START,
            streams: Streams::new(settings.window_bytes_min, settings.stream_reads_min),
            unaided: Unaided::default(),
            writers: Streams::new(settings.window_bytes_min, settings.stream_reads_min),
            busy_writes: 0,
        }
    }

    /// See [`Streams::heading`]; none of requests that bypass flash.
    pub(crate) fn heading(&self, range: Range) -> Option<Heading> {
        (range.length < self.settings.large_bytes_min).then(|| self.streams.heading(range))?
    }

    /// Streams that were read lately.
    pub(crate) fn streams_active(&self) -> u64 {
        self.streams.active()
    }

    /// A read that memory answers: nothing is to be fetched for it, but its stream goes on.
    pub(crate) fn on_held_read(&mut self, range: Range) {
        self.streams.on_held_read(range);
    }

    /// Percent of the log that is in use.
    fn used_percent(load: &Load) -> u32 {
        let used = u64::from(load.ring_blocks - load.free_blocks);
        (100 * used / u64::from(load.ring_blocks.max(1))) as u32
    }

    fn is_urgent(&self, load: &Load) -> bool {
        load.draining || load.is_full || Self::used_percent(load) >= self.settings.urgent_percent
    }

    fn wants_write_back(&self, load: &Load) -> bool {
        load.is_dirty && (self.is_urgent(load) || load.now.since(load.foreground_at) >= self.settings.idle)
    }

    fn is_paced(&self, load: &Load) -> bool {
        !load.draining && Self::used_percent(load) >= self.settings.paced_percent
    }

    /// Whether write-backs share the disk with the foreground: there is nothing to be moved in long runs, and
    /// each write-back stands for a write that the disk alone would have among the others by now.
    fn shares(&self, load: &Load) -> bool {
        let is_short = load.in_flight_bytes <= SHORT_BYTES_MAX * load.in_flight as u64;
        load.is_dirty
            && self.is_paced(load)
            && load.fetches_waiting == 0
            && is_short
            && self.write_back_bytes < SHORT_BYTES_MAX
    }

    /// Whether the disk may be given more: what it has then is done before anybody has waited for too long.
    fn has_time(&self, bytes: u64, load: &Load) -> bool {
        let Phase::Background(since) = self.phase else { return false };
        if load.background() == 0 && (load.waiting == 0 || load.now == since) {
            return true;
        }
        // What it waited for others of the foreground is not added by a batch.
        let waited = load.oldest.map_or(Nanos::ZERO, |oldest| load.now.since(oldest.max(since)));
        let allowed = (self.settings.delay_max.0 * self.share / SHARE_MAX).saturating_sub(waited.0);
        self.time.left(load.now).0 + self.time.of(bytes).0 <= allowed
    }

    /// A batch for whose end somebody has waited was too long, or short enough.
    fn learn(&mut self, load: &Load) {
        let Phase::Background(since) = self.phase else { return };
        let waited = load.oldest.map_or(Nanos::ZERO, |oldest| load.now.since(oldest.max(since)));
        if waited.0 > self.settings.delay_max.0 * 9 / 10 {
            self.share = (self.share * 15 / 16).max(SHARE_MIN);
        } else {
            self.share = (self.share + 1).min(SHARE_START);
        }
    }

    /// What the disk alone would take for so many writes like those that wait for the log.
    fn bare_disk(&self, writes: usize, load: &Load) -> Nanos {
        let each = load.log_bytes / load.log_items.max(1) as u64;
        Nanos(self.time.of(each).0 * writes as u64)
    }

    /// Bytes of which two orders fit into `delay_max`.
    fn unit_bytes(&self) -> u64 {
        self.time.bytes_in(Nanos(self.settings.delay_max.0 * 3 / 8)).clamp(64 << 10, 4 << 20)
    }
}

impl Policy for ITransformer {
    fn absorbs(&mut self, range: Range, load: &Load) -> bool {
        // Also what is absorbed is part of its stream.
        let is_alone = self.writers.is_alone(range);
        let is_busy = load.written_bytes >= BUSY_BYTES_MIN;
        self.busy_writes = if is_busy { BUSY_WRITES } else { self.busy_writes.saturating_sub(1) };
        let keeps_busy = self.settings.leaves_streams && self.busy_writes > 0;
        let is_slow = load.flash_ps_per_byte.is_some_and(|flash| FASTER_TIMES * flash > self.time.ps_per_byte());
        let is_left = is_alone && (keeps_busy || is_slow || Self::used_percent(load) >= LEFT_PERCENT);
        range.length < self.settings.large_bytes_min && !is_left
    }

    fn waits_for_room(&self, load: &Load) -> Nanos {
        self.settings.delay_max + self.bare_disk(load.log_items + load.waiting + load.in_flight, load)
    }

    fn paces(&self, load: &Load) -> Nanos {
        if !self.is_paced(load) {
            return Nanos::ZERO;
        }
        let above = Self::used_percent(load) - self.settings.paced_percent;
        let span = 100 - self.settings.paced_percent;
        let longest = self.settings.delay_max + self.bare_disk(load.log_items, load);
        Nanos(longest.0 * u64::from(above) / u64::from(span))
    }

    fn next_write_back(&mut self, load: &Load) -> Option<u64> {
        if self.phase == Phase::Foreground {
            let competing = load.in_flight + load.waiting + load.log_items;
            return (load.write_backs < competing.min(SORTED_MAX)).then_some(self.cursor);
        }
        // They take turns, and neither starves the other.
        if self.is_fetch_next && load.fetches_waiting > 0 {
            return None;
        }
        (self.wants_write_back(load) && self.has_time(self.write_back_bytes, load)).then_some(self.cursor)
    }

    fn write_back_bytes_max(&self) -> u64 {
        self.unit_bytes()
    }

    fn on_write_back(&mut self, now: Nanos, range: Range) {
        self.cursor = range.end();
        self.is_fetch_next = true;
        self.write_back_bytes = (self.write_back_bytes * 3 + range.length) / 4;
        if self.phase != Phase::Foreground {
            self.time.begin(now, range);
        }
    }

    fn on_zeroing(&mut self, range: Range) {
        self.cursor = range.end();
        self.is_fetch_next = true;
    }

    fn on_read(&mut self, range: Range, load: &Load) -> Option<Range> {
        let may_fetch = range.length < self.settings.large_bytes_min;
        let delay_max = self.settings.delay_max.0;
        let (time, least) = (&self.time, self.settings.window_bytes_min);
        let unaided = &mut self.unaided;
        // One fetch at a time fits into `delay_max`, and no stream waits for long until it is its turn again.
        let window_max = |streams: u64| {
            let each = (delay_max * 3 / 4).min(CYCLE_DELAYS * delay_max / streams);
            let window = time.bytes_in(Nanos(each)).clamp(least, 4 << 20).min(load.staging_bytes / (2 * streams));
            let fetch = Planned { bytes: window, time: time.of(window), is_known: time.is_known() };
            if unaided.serves(fetch) { 0 } else { window }
        };
        self.streams.on_read(range, window_max, may_fetch)
    }

    fn on_disk_read(&mut self, range: Range, took: Nanos) {
        if self.streams.follows(range) {
            self.unaided.on_read(range.length, took);
        }
    }

    fn begins_fetch(&mut self, range: Range, load: &Load) -> bool {
        let begins = self.has_time(range.length, load);
        if begins {
            self.is_fetch_next = false;
            self.time.begin(load.now, range);
        }
        begins
    }

    fn on_background_end(&mut self, now: Nanos, range: Range) {
        self.time.end(now, range);
    }

    fn turn(&mut self, load: &Load) -> Turn {
        let fetches = load.fetches_waiting > 0;
        let wanted = fetches || self.wants_write_back(load);
        let urgent = fetches || (load.is_dirty && self.is_urgent(load));
        if self.phase != Phase::Foreground && load.background() == 0 && (load.waiting > 0 || !wanted) {
            self.learn(load);
            self.phase = Phase::Foreground;
            return if urgent { Turn::Closing } else { Turn::Foreground };
        }
        let is_free = load.admitted == 0 && load.in_flight == 0 && load.background() == 0;
        if self.phase == Phase::Foreground && wanted && is_free {
            self.phase = Phase::Background(load.now);
        }
        match self.phase {
            Phase::Background(_) => Turn::Background,
            Phase::Foreground if self.shares(load) => Turn::Shared,
            Phase::Foreground if urgent => Turn::Closing,
            Phase::Foreground => Turn::Foreground,
        }
    }

    fn next_timer(&self, load: &Load) -> Option<Nanos> {
        let idle = load.foreground_at + self.settings.idle;
        (load.is_dirty && idle > load.now).then_some(idle)
    }
}

#[cfg(test)]
mod tests;
