//! Streams of requests of one disk: which continue others, though requests of many streams come interleaved and in
//! any order.
//!
//! A *run* is a range of the disk that was read without gaps. From the fourth read on that lies beside the
//! run and near the one before it is a stream, forwards or backwards, by the side it grows on. (Random
//! requests that fill a range grow runs too, but here and there.) While most reads continue another run than
//! the one before, streams are read ahead: a window that doubles from fetch to fetch, asked for when a
//! quarter of the last one is left. A stream that is alone is left to the disk, also one that many processes
//! read together, whose requests come in any order ([`Crowd`]).

use std::collections::BTreeMap;

use headstart_units::request::Range;

use super::crowd::Crowd;
use super::trust::Trust;

/// Runs that are remembered (assumed: several for each of a hundred processes).
const RUNS_MAX: usize = 1024;
/// Of 256 requests that are not read ahead, those that continue another run than the one before, while a
/// stream counts as alone (assumed; it came with the suite of 48 streams, `scenarios/itransformer`).
const SWITCHES_MAX: u32 = 64;
/// First windows of a stream that is long (assumed).
const LONG_WINDOWS: u64 = 4;
/// A stream's requests come out of order by no more than so many (assumed).
const NEAR_REQUESTS: u64 = 8;
/// A stream's next read comes before so many of others (assumed; twice as many as there are streams, or a hundred).
const SOON_READS: u64 = 256;
/// Reads that show how many streams there are (assumed).
const RECENT: u64 = 512;

#[derive(Clone, Copy, Debug)]
struct Run {
    end: u64,
    /// Reads in a row that followed each other closely.
    score: u32,
    /// Where the last of them was.
    last: u64,
    /// And when, in reads that were not read ahead.
    seen: u64,
    used: u64,
    is_backwards: bool,
    /// Where the next fetch begins, or ends, and how long it is; zero: there was none.
    ahead: u64,
    window: u64,
    windows: u32,
}

/// Which way a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heading {
    /// To higher addresses.
    Up,
    /// To lower ones.
    Down,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    window_min: u64,
    reads_min: u32,
    runs: BTreeMap<u64, Run>,
    by_use: BTreeMap<u64, u64>,
    uses: u64,
    /// Reads that were not read ahead.
    misses: u64,
    /// Where the last read that was not read ahead was.
    last: u64,
    /// How often such a read continues another run than the one before: 256 is always.
    switches: u32,
    crowd: Crowd,
    trust: Trust,
}

impl Streams {
    /// None yet; the first window of one has so many bytes, and so many reads make one.
    pub(crate) fn new(window_min: u64, reads_min: u32) -> Streams {
        let (runs, by_use) = (BTreeMap::new(), BTreeMap::new());
        Streams {
            window_min,
            reads_min,
            runs,
            by_use,
            uses: 0,
            misses: 0,
            last: 0,
            switches: 0,
            crowd: Crowd::default(),
            trust: Trust::default(),
        }
    }

    fn take(&mut self, start: u64) -> Option<Run> {
        let run = self.runs.remove(&start)?;
        self.by_use.remove(&run.used);
        Some(run)
    }

    /// The run that a read continues or begins, with the read in it: its begin, and whether it grew downwards.
    fn join(&mut self, range: Range) -> (u64, Run) {
        let fresh = Run {
            end: range.end(),
            score: 1,
            last: range.offset,
            seen: self.misses,
            used: 0,
            is_backwards: false,
            ahead: 0,
            window: 0,
            windows: 0,
        };
        let before = self.runs.range(..=range.offset).next_back().map(|(start, run)| (*start, *run));
        let left = before.filter(|(_, run)| run.end >= range.offset);
        let (mut start, mut run) = (range.offset, fresh);
        if let Some((left, old)) = left {
            self.take(left);
            if old.end < range.end() {
                (start, run) = (left, Run { end: range.end(), is_backwards: false, ..old }.follow(range, self.misses));
            }
            // What lies within a run reads something for a second time: a new one.
        }
        let after = self.runs.range(range.offset..).next().map(|(start, run)| (*start, *run));
        if let Some((right, old)) = after.filter(|(right, _)| *right <= range.end()) {
            self.take(right);
            let end = old.end.max(run.end);
            run = match start == range.offset {
                true => Run { end, is_backwards: true, ..old }.follow(range, self.misses),
                // It closes a gap between two.
                false => Run { end, ..run },
            };
        }
        (start, run)
    }

    /// Where a read goes that continues a stream, if that is one among others.
    pub(crate) fn heading(&self, range: Range) -> Option<Heading> {
        let is_stream = |run: &Run| run.score >= self.reads_min && self.switches > SWITCHES_MAX;
        let before = self.runs.range(..=range.offset).next_back().map(|(_, run)| run);
        let up = before.is_some_and(|run| run.end == range.offset && is_stream(run));
        let down = || self.runs.get(&range.end()).is_some_and(is_stream);
        if up { Some(Heading::Up) } else { down().then_some(Heading::Down) }
    }

    /// Whether a read that is over went on with others, or lies so close behind some that a fetch for them
    /// would have brought it.
    pub(crate) fn follows(&self, range: Range) -> bool {
        let Some((start, run)) = self.runs.range(..=range.offset).next_back() else { return false };
        if run.is_backwards || *start < range.offset {
            return !run.is_backwards || range.end() < run.end;
        }
        let before = self.runs.range(..start).next_back();
        before.is_some_and(|(_, run)| run.end + self.window_min >= *start)
    }

    /// Streams that were read lately.
    pub(crate) fn active(&self) -> u64 {
        let recent = self.by_use.range(self.uses.saturating_sub(RECENT)..);
        recent.filter(|(_, start)| self.runs[*start].score >= self.reads_min).count() as u64
    }

    /// Whether most requests continue the one before, and this one a stream that is long by now: the disk
    /// needs no help with it.
    pub(crate) fn is_alone(&mut self, range: Range) -> bool {
        let (start, run) = self.note(range, false);
        let is_long = run.end - start >= LONG_WINDOWS * self.window_min;
        self.put(start, run);
        is_long && run.score >= self.reads_min && self.switches <= SWITCHES_MAX
    }

    /// A read has come: what to fetch, in windows of at most what `window_max` says for so many streams.
    pub(crate) fn on_read(
        &mut self,
        range: Range,
        window_max: impl FnOnce(u64) -> u64,
        may_fetch: bool,
    ) -> Option<Range> {
        let (start, mut run) = self.note(range, true);
        let wanted = if may_fetch && self.switches > SWITCHES_MAX && run.score >= self.reads_min {
            self.next_fetch(start, &mut run, range, window_max)
        } else {
            None
        };
        self.put(start, run);
        wanted
    }

    fn next_fetch(
        &mut self,
        start: u64,
        run: &mut Run,
        range: Range,
        window_max: impl FnOnce(u64) -> u64,
    ) -> Option<Range> {
        let mut next = *run;
        let fetch = next.next_fetch(start, range, self.window_min, window_max(self.active().max(1)))?;
        match next.windows {
            1 if !self.trust.opens(self.misses) => return None,
            2 => self.trust.goes_on(),
            _ => {}
        }
        *run = next;
        Some(fetch)
    }

    /// A read has come that neither the disk nor flash is asked for: its stream goes on, and nothing else is learnt.
    pub(crate) fn on_held_read(&mut self, range: Range) {
        let (start, mut run) = self.join(range);
        if run.used == 0 {
            self.uses += 1;
            run.used = self.uses;
        }
        self.put(start, run);
    }

    /// A request has come; whether those of a crowd continue each other.
    fn note(&mut self, range: Range, crowds: bool) -> (u64, Run) {
        self.uses += 1;
        let (start, mut run) = self.join(range);
        if !run.has_fetched(range) {
            self.misses += 1;
            let is_crowd = crowds && self.crowd.gathers(range);
            let continues = is_crowd || (start <= self.last && self.last <= run.end);
            self.switches = (self.switches * 15 + if continues { 0 } else { 256 }) / 16;
            self.last = range.offset;
        }
        run.used = self.uses;
        (start, run)
    }

    fn put(&mut self, start: u64, run: Run) {
        self.by_use.insert(run.used, start);
        self.runs.insert(start, run);
        if self.runs.len() > RUNS_MAX {
            let (_, oldest) = self.by_use.pop_first().expect("each run was used");
            self.runs.remove(&oldest);
        }
    }
}

impl Run {
    /// A read that grows the run: one of a stream if it is near the one before, also in time.
    fn follow(self, range: Range, misses: u64) -> Run {
        let near = self.last.abs_diff(range.offset) <= NEAR_REQUESTS * range.length;
        let soon = misses - self.seen <= SOON_READS;
        let score = if near && soon { self.score.saturating_add(1) } else { 1 };
        Run { score, last: range.offset, seen: misses, ..self }
    }

    /// Whether a read was read ahead, or will be.
    fn has_fetched(&self, range: Range) -> bool {
        self.window > 0 && if self.is_backwards { self.ahead <= range.offset } else { range.end() <= self.ahead }
    }

    fn next_fetch(&mut self, start: u64, range: Range, window_min: u64, window_max: u64) -> Option<Range> {
        if window_max < 2 * range.length {
            return None;
        }
        let window = if self.window == 0 { window_min.max(2 * range.length) } else { 2 * self.window };
        // Whole requests, so that none has to wait for two.
        let window = window.min(window_max) / range.length * range.length;
        if self.is_backwards {
            // What was read without a fetch, or the begin.
            let ahead = if self.window == 0 || self.ahead > range.end() { range.end() } else { self.ahead };
            if start > ahead + self.window / 4 || ahead == 0 {
                return None;
            }
            let fetch = Range::between(ahead.saturating_sub(window), ahead);
            (self.ahead, self.window, self.windows) = (fetch.offset, window, self.windows + 1);
            return Some(fetch);
        }
        let ahead = if self.window == 0 || self.ahead < range.offset { range.offset } else { self.ahead };
        if ahead > self.end + self.window / 4 {
            return None;
        }
        (self.ahead, self.window, self.windows) = (ahead + window, window, self.windows + 1);
        Some(Range::new(ahead, window))
    }
}

#[cfg(test)]
mod tests;
