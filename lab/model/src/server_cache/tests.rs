//! The cache against an array of bytes.

use super::*;
use crate::elevator::COMMAND_BYTES_MAX;

/// One byte of the reference.
#[derive(Clone, Copy, Default)]
struct Byte {
    dirty: bool,
    in_flight: bool,
    /// Flushes that wait for this byte, by owner.
    awaited_by: u64,
    /// The same for the copy in flight.
    in_flight_awaited_by: u64,
}

const SIZE: u64 = 256;
const LIMIT: u64 = 64;

struct Reference {
    bytes: Vec<Byte>,
    in_flight: Vec<(u64, u64)>,
    open_flushes: Vec<u32>,
}

impl Reference {
    fn flush(&mut self, owner: u32) -> bool {
        let bit = 1 << (owner % 64);
        let mut clean = true;
        for byte in &mut self.bytes {
            if byte.dirty {
                byte.awaited_by |= bit;
            }
            if byte.in_flight {
                byte.in_flight_awaited_by |= bit;
            }
            clean &= !byte.dirty && !byte.in_flight;
        }
        if !clean {
            self.open_flushes.push(owner);
        }
        clean
    }

    fn start(&mut self, start: u64, end: u64) {
        for byte in &mut self.bytes[start as usize..end as usize] {
            assert!(byte.dirty && !byte.in_flight, "only dirty bytes go out, and never twice at a time");
            *byte = Byte { in_flight: true, in_flight_awaited_by: byte.awaited_by, ..Byte::default() };
        }
        self.in_flight.push((start, end));
    }

    fn finish(&mut self, index: usize) -> (u64, Vec<u32>) {
        let (start, end) = self.in_flight.swap_remove(index);
        for byte in &mut self.bytes[start as usize..end as usize] {
            byte.in_flight = false;
            byte.in_flight_awaited_by = 0;
        }
        let waits = self.bytes.iter().fold(0, |bits, byte| bits | byte.awaited_by | byte.in_flight_awaited_by);
        let done = |owner: &u32| waits & (1 << (owner % 64)) == 0;
        let flushed = self.open_flushes.iter().copied().filter(done).collect();
        self.open_flushes.retain(|owner| !done(owner));
        (start, flushed)
    }

    fn check(&self, cache: &ServerCache) {
        let held = |byte: &Byte| u64::from(byte.dirty) + u64::from(byte.in_flight);
        assert_eq!(cache.held_bytes(), self.bytes.iter().map(held).sum::<u64>());
        assert!(cache.held_bytes() <= LIMIT);
        for (start, window) in self.bytes.windows(9).enumerate() {
            let covered = window.iter().all(|byte| byte.dirty || byte.in_flight);
            assert_eq!(cache.covers(start as u64, start as u64 + 9), covered);
        }
    }
}

/// Writes are cut so that they fit or wait whole; a waiting write is admitted before the next operation is
/// drawn, so the reference needs no queue. What it does not check: the order of piecewise admission.
#[test]
fn flushes_complete_with_the_last_byte_that_was_dirty_when_they_came() {
    for seed in 0..20_u64 {
        let mut state = seed;
        let mut random = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let mut cache = ServerCache::new(LIMIT, COMMAND_BYTES_MAX);
        let mut reference =
            Reference { bytes: vec![Byte::default(); SIZE as usize], in_flight: vec![], open_flushes: vec![] };
        for owner in 0..4000_u32 {
            let (mut acknowledged, mut flushed) = (Vec::new(), Vec::new());
            match random(4) {
                0 => {
                    let start = random(SIZE - 16);
                    let end = start + 1 + random(16);
                    let fresh = reference.bytes[start as usize..end as usize].iter().filter(|byte| !byte.dirty).count();
                    if cache.held_bytes() + fresh as u64 > LIMIT {
                        continue;
                    }
                    cache.on_write(owner, start, end, &mut acknowledged);
                    assert_eq!(acknowledged, [owner]);
                    reference.bytes[start as usize..end as usize].iter_mut().for_each(|byte| byte.dirty = true);
                }
                1 if reference.open_flushes.len() < 32
                    && reference.open_flushes.first().is_none_or(|first| owner - first < 64) =>
                {
                    assert_eq!(cache.on_flush(Nanos::ZERO, owner), reference.flush(owner));
                }
                2 => {
                    if let Some((start, end)) = cache.next_write_back(Nanos::ZERO, false) {
                        reference.start(start, end);
                    }
                }
                _ if !reference.in_flight.is_empty() => {
                    let index = random(reference.in_flight.len() as u64) as usize;
                    let (start, expected) = reference.finish(index);
                    cache.on_written(start, &mut acknowledged, &mut flushed);
                    assert_eq!(flushed, expected);
                }
                _ => {}
            }
            reference.check(&cache);
        }
    }
}

#[test]
fn background_write_back_yields_and_pressure_does_not() {
    let mut cache = ServerCache::new(LIMIT, COMMAND_BYTES_MAX);
    let mut acknowledged = Vec::new();
    cache.on_write(0, 0, 8, &mut acknowledged);
    assert_eq!(cache.next_write_back(Nanos::ZERO, true), None);
    assert_eq!(cache.next_write_back(Nanos::ZERO, false), Some((0, 8)));
    cache.on_write(1, 100, 130, &mut acknowledged);
    assert_eq!(cache.next_write_back(Nanos::ZERO, true), Some((100, 130)), "half the room is taken");
}

#[test]
fn writes_wait_for_room_in_order() {
    let mut cache = ServerCache::new(LIMIT, COMMAND_BYTES_MAX);
    let (mut acknowledged, mut flushed) = (Vec::new(), Vec::new());
    for (owner, start, end) in [(0, 0, 60), (1, 100, 110), (2, 200, 202)] {
        cache.on_write(owner, start, end, &mut acknowledged);
    }
    assert_eq!(acknowledged, [0], "2 does not pass 1");
    let (start, _) = cache.next_write_back(Nanos::ZERO, false).expect("it is dirty");
    cache.on_written(start, &mut acknowledged, &mut flushed);
    assert_eq!(acknowledged, [0, 1, 2]);
}

#[test]
fn a_flush_does_not_wait_for_a_writer_that_goes_ahead_of_the_sweep() {
    let mut cache = ServerCache::new(LIMIT, COMMAND_BYTES_MAX);
    let mut acknowledged = Vec::new();
    for block in 0..8 {
        cache.on_write(0, block * 8, block * 8 + 4, &mut acknowledged);
    }
    let write_back = |cache: &mut ServerCache| {
        let (start, _) = cache.next_write_back(Nanos::ZERO, false).unwrap();
        let (mut acknowledged, mut flushed) = (Vec::new(), Vec::new());
        cache.on_written(start, &mut acknowledged, &mut flushed);
        (start, flushed)
    };
    // The sweep is past the first half when the flush comes.
    (0..4).for_each(|_| assert!(write_back(&mut cache).1.is_empty()));
    cache.on_write(0, 0, 4, &mut acknowledged);
    assert!(!cache.on_flush(Nanos::ZERO, 7));
    let mut starts = Vec::new();
    loop {
        let ahead = 100 + 8 * starts.len() as u64;
        cache.on_write(0, ahead, ahead + 4, &mut acknowledged);
        let (start, flushed) = write_back(&mut cache);
        starts.push(start);
        if !flushed.is_empty() {
            break;
        }
    }
    assert_eq!(starts, [32, 40, 48, 56, 0], "what was dirty then, from where the sweep was, and around");
    assert_eq!(write_back(&mut cache).0, 100, "and on it goes with the rest");
}

#[test]
fn nothing_else_is_sent_while_a_flush_has_waited_for_too_long() {
    let mut cache = ServerCache::new(LIMIT, COMMAND_BYTES_MAX);
    let (mut acknowledged, mut flushed) = (Vec::new(), Vec::new());
    cache.on_write(0, 0, 4, &mut acknowledged);
    assert!(!cache.on_flush(Nanos(1), 7));
    cache.on_write(0, 8, 12, &mut acknowledged);
    cache.on_write(0, 16, 20, &mut acknowledged);
    assert_eq!(cache.next_write_back(Nanos(1), false), Some((0, 4)));
    assert_eq!(cache.next_write_back(Nanos(2), false), Some((8, 12)), "it may not take long");
    let late = Nanos(1) + FLUSH_PATIENCE;
    assert_eq!(cache.next_write_back(late, false), None);
    // Written again while on its way, before another flush comes: that waits for it.
    cache.on_write(0, 0, 4, &mut acknowledged);
    assert!(!cache.on_flush(Nanos(3), 8));
    cache.on_written(0, &mut acknowledged, &mut flushed);
    assert_eq!(flushed, [7]);
    assert_eq!(cache.next_write_back(late, false), Some((16, 20)), "of what was dirty then, from the sweep on");
    assert_eq!(cache.next_write_back(late, false), Some((0, 4)), "and around");
    for start in [8, 16, 0] {
        cache.on_written(start, &mut acknowledged, &mut flushed);
    }
    assert_eq!(flushed, [7, 8]);
}
