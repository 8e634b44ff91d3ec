//! How long the disk takes, learned from write-backs and fetches, which have it to themselves.
//!
//! An order costs positioning unless it continues the one before, and transfer. Both are means over the last
//! dozen or so that show them; until some have been seen, a slow disk is assumed.

use std::collections::VecDeque;

use headstart_units::Nanos;
use headstart_units::request::Range;

/// Transfers of at least this size show the rate, shorter ones the positioning (assumed).
const RATE_BYTES_MIN: u64 = 256 << 10;
/// What a positioning takes until some have been seen (assumed: a slow disk),
const POSITION_AT_FIRST: Nanos = Nanos(10_000_000);
/// and a byte, in picoseconds (assumed: likewise, 50 MB/s).
const PS_PER_BYTE_AT_FIRST: u64 = 20_000;
/// Weight of what is new in the means, one of so many (assumed).
const WEIGHT: u64 = 8;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct DiskTime {
    position: Nanos,
    ps_per_byte: u64,
    under_way: VecDeque<(Range, Nanos)>,
    last_end: u64,
    last_done: Nanos,
    /// How many orders have shown the positioning.
    positioned: u32,
}

impl Default for DiskTime {
    fn default() -> DiskTime {
        DiskTime {
            position: POSITION_AT_FIRST,
            ps_per_byte: PS_PER_BYTE_AT_FIRST,
            under_way: VecDeque::new(),
            last_end: u64::MAX,
            last_done: Nanos::ZERO,
            positioned: 0,
        }
    }
}

impl DiskTime {
    fn transfer(&self, bytes: u64) -> Nanos {
        Nanos((u128::from(bytes) * u128::from(self.ps_per_byte) / 1000) as u64)
    }

    /// What an order of so many bytes takes.
    pub(crate) fn of(&self, bytes: u64) -> Nanos {
        self.position + self.transfer(bytes)
    }

    /// Whether it is known, not assumed.
    pub(crate) fn is_known(&self) -> bool {
        self.positioned >= WEIGHT as u32
    }

    /// What it takes for a byte of a long order, in picoseconds.
    pub(crate) fn ps_per_byte(&self) -> u64 {
        self.ps_per_byte
    }

    /// Bytes that are moved in a time, positioning included.
    pub(crate) fn bytes_in(&self, time: Nanos) -> u64 {
        (u128::from(time.since(self.position).0) * 1000 / u128::from(self.ps_per_byte)) as u64
    }

    /// What is left to do of what the disk has.
    pub(crate) fn left(&self, now: Nanos) -> Nanos {
        let Some((_, begun)) = self.under_way.front() else { return Nanos::ZERO };
        let mut end = self.last_end;
        let mut total = 0;
        for (range, _) in &self.under_way {
            total += self.transfer(range.length).0 + if range.offset == end { 0 } else { self.position.0 };
            end = range.end();
        }
        Nanos(total.saturating_sub(now.since(self.last_done.max(*begun)).0))
    }

    /// The disk has been given an order.
    pub(crate) fn begin(&mut self, now: Nanos, range: Range) {
        self.under_way.push_back((range, now));
    }

    /// It has carried it out.
    pub(crate) fn end(&mut self, now: Nanos, range: Range) {
        let Some(index) = self.under_way.iter().position(|(held, _)| *held == range) else { return };
        let (_, begun) = self.under_way.remove(index).expect("it was found there");
        let took = now.since(self.last_done.max(begun)).0;
        let continues = range.offset == self.last_end;
        if continues && range.length >= RATE_BYTES_MIN {
            // Several that end at once were one transfer: no rate is above 10 GB/s.
            let rate = (u128::from(took) * 1000 / u128::from(range.length)) as u64;
            self.ps_per_byte = (self.ps_per_byte * (WEIGHT - 1) + rate.clamp(100, 1_000_000)) / WEIGHT;
        } else if !continues {
            let position = took.saturating_sub(self.transfer(range.length).0);
            self.position = Nanos((self.position.0 * (WEIGHT - 1) + position.min(100_000_000)) / WEIGHT);
            self.positioned = self.positioned.saturating_add(1);
        }
        (self.last_end, self.last_done) = (range.end(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positioning_and_rate_of_a_disk_are_found() {
        let mut time = DiskTime::default();
        let (mut now, mut at) = (Nanos(1_000_000_000), 0);
        for turn in 0..200u64 {
            let length = 1 << 20;
            at += if turn % 4 == 0 { 1 << 30 } else { 0 };
            let range = Range::new(at, length);
            time.begin(now, range);
            // 5 ms, and 10 ns a byte.
            now += Nanos(if turn % 4 == 0 { 5_000_000 } else { 0 } + 10 * length);
            time.end(now, range);
            at += length;
        }
        assert!((9_900..10_100).contains(&time.ps_per_byte), "{}", time.ps_per_byte);
        assert!((4_900_000..5_100_000).contains(&time.position.0), "{:?}", time.position);
        time.begin(now, Range::new(0, 1 << 20));
        let left = time.left(now + Nanos(5_000_000)).millis();
        assert!((10.0..11.0).contains(&left), "{left} ms");
    }
}
