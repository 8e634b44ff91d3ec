//! How fast flash takes long records, measured while it has some.

use headstart_units::Nanos;

/// Shorter ones show what an order costs rather than the rate.
const RECORD_BYTES_MIN: u64 = 64 << 10;
/// A rate is of so many bytes.
const SAMPLE_BYTES: u64 = 4 << 20;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct FlashTime {
    last_done: Nanos,
    busy: Nanos,
    bytes: u64,
    ps_per_byte: Option<u64>,
}

impl FlashTime {
    /// A record of so many bytes, given then, is written.
    pub(super) fn end(&mut self, now: Nanos, given: Nanos, bytes: u64) {
        if bytes >= RECORD_BYTES_MIN {
            self.busy += now.since(given.max(self.last_done));
            self.bytes += bytes;
        }
        self.last_done = now;
        if self.bytes >= SAMPLE_BYTES {
            self.ps_per_byte = Some((u128::from(self.busy.0) * 1000 / u128::from(self.bytes)) as u64);
            (self.busy, self.bytes) = (Nanos::ZERO, 0);
        }
    }

    /// The last rate; none: too little was written yet.
    pub(super) fn ps_per_byte(&self) -> Option<u64> {
        self.ps_per_byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_overlap_are_as_long_as_all_of_them_took_and_short_ones_do_not_count() {
        let (mut time, mut now) = (FlashTime::default(), Nanos(7));
        while time.ps_per_byte().is_none() {
            // Two of 1 MiB at once in 2 ms, then nothing for as long, then a short one.
            let given = now;
            time.end(given + Nanos(1_900_000), given, 1 << 20);
            time.end(given + Nanos(2_000_000), given, 1 << 20);
            time.end(given + Nanos(4_000_000), given + Nanos(3_000_000), 8192);
            now = given + Nanos(4_000_000);
        }
        assert_eq!(time.ps_per_byte(), Some(2_000_000 * 1000 / (2 << 20)));
    }
}
