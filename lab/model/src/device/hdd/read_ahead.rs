//! A drive's read cache: segments that each hold one stream.
//!
//! After a read the drive keeps reading into that read's segment at the sustained rate until another mechanical command
//! starts or the segment is full: it spans one segment from the start of the latest read, and at least half a segment
//! from its end, so that reads as long as a segment stream too. The segment that is being filled is the
//! *streaming* one. A read that starts in it, or at most a segment ahead of its frontier, waits only for the
//! frontier. Segments left behind keep what they hold.
//!
//! ```text
//!      start            base          frontier(now)          stop
//!        |--- held ------|--- held ------|--- will be read ----|
//! ```

use headstart_units::Nanos;

/// What all segments are asked for: where a read may begin that one has something for, and which was used
/// least recently. Apart from the rest and close together.
#[derive(Clone, Copy, Debug)]
struct Reach {
    /// The first byte of the segment.
    start: u64,
    /// Where reading ahead ends.
    stop: u64,
    /// Zero if the segment is free.
    last_use: u64,
}

impl Reach {
    const NONE: Reach = Reach { start: u64::MAX, stop: 0, last_use: 0 };
}

#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    /// The frontier at `base_at`.
    base: u64,
    base_at: Nanos,
    ns_per_byte: f64,
}

/// How much of a read the cache holds or is about to hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lookup {
    /// All of it is there at `ready`.
    Hit {
        /// The segment.
        segment: usize,
        /// When the last byte is there.
        ready: Nanos,
    },
    /// Bytes before `from` are there, the rest must be read.
    Partial {
        /// The segment.
        segment: usize,
        /// First byte to read.
        from: u64,
    },
    /// Nothing useful is there.
    Miss,
}

/// The segments of a drive.
#[derive(Debug)]
pub struct ReadAhead {
    reaches: Vec<Reach>,
    segments: Vec<Segment>,
    segment_bytes: u64,
    streaming: Option<usize>,
    use_count: u64,
}

impl ReadAhead {
    /// `segment_count` empty segments of `segment_bytes`.
    pub fn new(segment_count: usize, segment_bytes: u64) -> ReadAhead {
        assert!(segment_count > 0 && segment_bytes > 0, "a read-ahead cache needs room; leave it out to have none");
        ReadAhead {
            reaches: vec![Reach::NONE; segment_count],
            segments: vec![Segment::default(); segment_count],
            segment_bytes,
            streaming: None,
            use_count: 0,
        }
    }

    /// Where reading ahead stops after a read of `address..end`.
    fn stop(&self, address: u64, end: u64) -> u64 {
        (address + self.segment_bytes).max(end + self.segment_bytes / 2)
    }

    fn frontier(&self, index: usize, now: Nanos) -> u64 {
        let segment = &self.segments[index];
        if self.streaming != Some(index) {
            return segment.base;
        }
        let read = (now.since(segment.base_at).0 as f64 / segment.ns_per_byte) as u64;
        segment.base.saturating_add(read).min(self.reaches[index].stop)
    }

    /// The address under the head at `now` while a segment is being filled.
    pub fn head_address(&self, now: Nanos) -> Option<u64> {
        self.streaming.map(|index| self.frontier(index, now))
    }

    /// What the cache knows of a read of `address..end` at `now`.
    pub fn lookup(&self, address: u64, end: u64, now: Nanos) -> Lookup {
        for (index, reach) in self.reaches.iter().enumerate() {
            // No segment reaches further than one segment beyond its end.
            if address < reach.start || address > reach.stop + self.segment_bytes {
                continue;
            }
            let segment = &self.segments[index];
            let frontier = self.frontier(index, now);
            if address < frontier.saturating_sub(self.segment_bytes) {
                continue;
            }
            if end <= frontier {
                return Lookup::Hit { segment: index, ready: now };
            }
            let reading = self.streaming == Some(index) && frontier < reach.stop;
            if reading && address <= frontier + self.segment_bytes {
                let ahead_ns = ((end - segment.base) as f64 * segment.ns_per_byte).ceil() as u64;
                return Lookup::Hit { segment: index, ready: segment.base_at + Nanos(ahead_ns) };
            }
            if address <= frontier {
                return Lookup::Partial { segment: index, from: frontier };
            }
        }
        Lookup::Miss
    }

    /// Notes a hit on `address..end` at `now`: the window moves along with the reader. A drive that had filled the
    /// segment goes on reading once the spindle has come round, which `wait` computes from the frontier's address.
    pub fn hit(&mut self, index: usize, address: u64, end: u64, now: Nanos, wait: impl FnOnce(u64) -> Nanos) {
        let frontier = self.frontier(index, now);
        let stop = self.stop(address, end);
        self.use_count += 1;
        let (reach, segment) = (&mut self.reaches[index], &mut self.segments[index]);
        reach.last_use = self.use_count;
        if self.streaming == Some(index) && stop > reach.stop {
            if frontier == reach.stop {
                segment.base = frontier;
                segment.base_at = now + wait(frontier);
            }
            reach.stop = stop;
        }
    }

    /// Stops reading ahead: a mechanical command starts at `now`.
    pub fn interrupt(&mut self, now: Nanos) {
        if let Some(index) = self.streaming {
            let frontier = self.frontier(index, now);
            self.segments[index].base = frontier;
            self.reaches[index].stop = frontier;
            self.streaming = None;
        }
    }

    /// Starts reading ahead after a mechanical read of `address..end` that ends at `at`; `reused` is the segment of a
    /// partial hit, otherwise the least recently used one is given up.
    pub fn begin(&mut self, reused: Option<usize>, address: u64, end: u64, at: Nanos, ns_per_byte: f64) {
        self.use_count += 1;
        let index = reused.unwrap_or_else(|| {
            let oldest = self.reaches.iter().enumerate().min_by_key(|(_, reach)| reach.last_use);
            oldest.map_or(0, |(index, _)| index)
        });
        let start = if reused.is_some() { self.reaches[index].start } else { address };
        self.reaches[index] = Reach { start, stop: self.stop(address, end), last_use: self.use_count };
        self.segments[index] = Segment { base: end, base_at: at, ns_per_byte };
        self.streaming = Some(index);
    }

    /// Forgets what `start..end` makes stale. Call `interrupt` first.
    pub fn invalidate(&mut self, start: u64, end: u64) {
        for (reach, segment) in self.reaches.iter_mut().zip(&mut self.segments) {
            if reach.start < end && start < segment.base {
                (*reach, *segment) = (Reach::NONE, Segment::default());
            }
        }
    }
}
