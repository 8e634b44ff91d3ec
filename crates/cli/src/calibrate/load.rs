//! Closed loops in real time: a thread for each request under way.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headstart_insight::calibration::schedule::Planned;
use headstart_insight::calibration::{BLOCK_BYTES, Latencies, Load, Measured, Offsets, Pattern};
use headstart_units::Nanos;
use headstart_units::request::Direction;

/// Alignment that O_DIRECT asks for at most.
const ALIGNMENT: usize = BLOCK_BYTES as usize;

/// Latencies kept of a load: enough for every percentile, and bounded.
const LATENCIES_MAX: usize = 1 << 20;

/// Requests of a lane at least, however short the time: a few percent of a pair's seeks cannot be told from two.
const PAIRS_MIN: u64 = 2 * 8;
const REQUESTS_MIN: u64 = 3;

/// The share of a load of writes during which caches fill, which does not count.
const WARM_UP: f64 = 1.0 / 3.0;

/// Bytes where O_DIRECT wants them, of a content that nothing can compress.
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    /// Of `length` bytes.
    pub fn of(length: usize) -> Buffer {
        let mut memory = vec![0u8; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for word in memory.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_ne_bytes());
        }
        Buffer { memory, start, length }
    }

    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }

    /// Makes each block one that was not written before: `place` differs from call to call.
    pub fn stamp(&mut self, place: u64) {
        for (index, block) in self.bytes().chunks_exact_mut(ALIGNMENT).enumerate() {
            block[..8].copy_from_slice(&(place + index as u64 * BLOCK_BYTES).to_ne_bytes());
        }
    }
}

/// What a lane did.
#[derive(Default)]
struct Lane {
    latencies: Vec<u64>,
    bytes: u64,
    begun: Option<Instant>,
    end: Option<Instant>,
}

/// What all lanes of a load go by.
struct Course<'a> {
    file: &'a File,
    planned: &'a Planned,
    offsets: &'a Mutex<Offsets>,
    /// Whether a request of some lane failed.
    failed: &'a AtomicBool,
    until: Instant,
    /// From when on requests count.
    warm: Instant,
    /// Requests of a lane at least.
    requests_min: u64,
}

impl Course<'_> {
    /// One request after another, until time is over.
    fn run(&self, lane: usize, stopped: impl Fn() -> bool) -> io::Result<Lane> {
        let Load { direction, depth, .. } = self.planned.load;
        let mut buffer = Buffer::of(self.planned.load.size_bytes as usize);
        let mut done = Lane::default();
        let mut count = 0;
        while (Instant::now() < self.until || count < self.requests_min)
            && !stopped()
            && !self.failed.load(Ordering::Relaxed)
        {
            let step = self.offsets.lock().expect("no lane panics").next(lane);
            if step.pause_ns > 0 {
                std::thread::sleep(Duration::from_nanos(step.pause_ns));
            }
            let start = Instant::now();
            let outcome = match direction {
                Direction::Read => self.file.read_exact_at(buffer.bytes(), step.offset),
                Direction::Write => self.file.write_all_at(buffer.bytes(), step.offset),
            };
            let end = Instant::now();
            outcome.inspect_err(|_| self.failed.store(true, Ordering::Relaxed))?;
            count += 1;
            if end < self.warm {
                continue;
            }
            done.bytes += self.planned.load.size_bytes;
            done.begun.get_or_insert(start);
            done.end = Some(end);
            if step.counts && done.latencies.len() < LATENCIES_MAX / depth as usize {
                done.latencies.push((end - start).as_nanos() as u64);
            }
        }
        Ok(done)
    }
}

/// Measures a load for its time, or until `stopped` says so.
///
/// # Errors
/// Of the first request that failed.
pub fn measure(
    file: &File,
    planned: &Planned,
    seed: u64,
    stopped: &(impl Fn() -> bool + Sync),
) -> io::Result<Measured> {
    let Load { pattern, direction, depth, .. } = planned.load;
    let offsets = Mutex::new(Offsets::of(planned.load, seed));
    let failed = AtomicBool::new(false);
    let begun = Instant::now();
    let until = begun + Duration::from_secs_f64(planned.seconds);
    let warm = match direction {
        Direction::Read => begun,
        Direction::Write => begun + Duration::from_secs_f64(planned.seconds * WARM_UP),
    };
    let requests_min = match pattern {
        Pattern::Seek { .. } | Pattern::Again => PAIRS_MIN,
        _ if depth == 1 => REQUESTS_MIN,
        _ => 1,
    };
    let course = Course { file, planned, offsets: &offsets, failed: &failed, until, warm, requests_min };
    let run = |lane: usize| course.run(lane, stopped);
    let lanes: Vec<io::Result<Lane>> = std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..depth as usize).map(|lane| scope.spawn(move || run(lane))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a panic ends the process")).collect()
    });
    let (mut latencies, mut bytes, mut counted, mut end) = (Vec::new(), 0, warm, warm);
    for lane in lanes {
        let lane = lane?;
        latencies.extend(lane.latencies);
        bytes += lane.bytes;
        end = end.max(lane.end.unwrap_or(warm));
        if depth == 1 {
            // All of the first request counts. With others under way it is they that were served before.
            counted = lane.begun.unwrap_or(warm);
        }
    }
    if direction == Direction::Write {
        // What caches hold is not the next load's to pay.
        file.sync_data()?;
    }
    let elapsed = Nanos((end - counted).as_nanos() as u64);
    Ok(Measured { load: planned.load, latencies: Latencies::new(latencies), bytes, elapsed })
}
