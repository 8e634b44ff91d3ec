//! Whether the disk serves streams as well without fetches.
//!
//! A drive reads ahead itself, for as many streams as its cache has segments. So streams are left to it at
//! first, and what it takes for a byte of their reads is compared with what a fetch takes. Beside fetches it
//! would not be the same; so streams that are fetched for are left to the disk again now and then, to measure
//! it anew.
//!
//! ```text
//!            less by fetches, or far less before the trial is over
//!     Trial --------------------------------------------------------> Fetched
//!      ^ '---- else ----> Left ----------- less by now ---------------> |
//!      '---------------------- so many reads later ---------------------'
//! ```

use headstart_units::Nanos;

/// Reads of a trial (assumed: several of each stream that a drive serves well), and over which what they take
/// is a mean.
const TRIAL_READS: u64 = 64;
/// So many show it if the difference is large. This and what is large is chosen on `compose/ior-read`: 252 instead of
/// 219 MB/s, the disks alone 249.
const LARGE_READS: u64 = 32;
/// Large: the disk takes so much longer without fetches, in percent. Streams that begin look worse than they
/// are, as each has its first read.
const LARGE_PERCENT: u64 = 200;
/// From here on a fetch is worth its while (assumed: turns, and what is fetched for nothing, cost something as well).
const GAIN_PERCENT: u64 = 150;
/// Reads of streams that are fetched for until the next trial, which costs about a percent of that; each time
/// twice as many.
const FETCHED_READS: u64 = 16384;
/// While what a fetch takes is not known, one in so many reads is fetched for (assumed).
const PROBE_PART: u64 = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Trial,
    Left,
    /// For so many reads by now.
    Fetched(u64),
}

/// A fetch as it would be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    /// Its length.
    pub bytes: u64,
    /// What the disk takes for it,
    pub time: Nanos,
    /// and whether that was measured rather than assumed.
    pub is_known: bool,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unaided {
    state: State,
    /// Reads that were measured since the state was last `Fetched`.
    measured: u64,
    ps_per_byte: u64,
    /// How long `Fetched` lasts.
    patience: u64,
    left: u64,
}

impl Default for Unaided {
    fn default() -> Unaided {
        Unaided { state: State::Trial, measured: 0, ps_per_byte: 0, patience: FETCHED_READS, left: 0 }
    }
}

fn ps_per_byte(bytes: u64, time: Nanos) -> u64 {
    (u128::from(time.0) * 1000 / u128::from(bytes.max(1))).min(1_000_000_000) as u64
}

impl Unaided {
    /// The disk has read for a stream what was not fetched.
    pub(crate) fn on_read(&mut self, bytes: u64, took: Nanos) {
        if matches!(self.state, State::Fetched(_)) {
            return;
        }
        self.measured += 1;
        let weight = self.measured.min(TRIAL_READS);
        self.ps_per_byte = (self.ps_per_byte * (weight - 1) + ps_per_byte(bytes, took)) / weight;
    }

    /// A read of a stream has come; whether it is left to the disk rather than fetched for like this.
    pub(crate) fn serves(&mut self, fetch: Planned) -> bool {
        match self.state {
            State::Fetched(reads) if reads < self.patience => self.state = State::Fetched(reads + 1),
            State::Fetched(_) => {
                (self.state, self.measured) = (State::Trial, 0);
                self.patience *= 2;
            }
            State::Trial | State::Left => self.judge(fetch),
        }
        if matches!(self.state, State::Fetched(_)) {
            return false;
        }
        self.left += 1;
        fetch.is_known || !self.left.is_multiple_of(PROBE_PART)
    }

    fn judge(&mut self, fetch: Planned) {
        let percent = 100 * self.ps_per_byte / ps_per_byte(fetch.bytes, fetch.time).max(1);
        let has_shown = match self.measured {
            TRIAL_READS.. => percent >= GAIN_PERCENT,
            LARGE_READS.. => percent >= LARGE_PERCENT,
            _ => false,
        };
        if has_shown {
            self.state = State::Fetched(0);
        } else if self.state == State::Trial && self.measured >= TRIAL_READS {
            (self.state, self.patience) = (State::Left, FETCHED_READS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 65_536;

    /// A disk takes so long for a read, and 16 ms for a fetch of eight: of so many reads those that are left to it.
    fn left(unaided: &mut Unaided, reads: u64, took_ms: u64, is_known: bool) -> u64 {
        let fetch = Planned { bytes: 8 * BYTES, time: Nanos(16_000_000), is_known };
        let one = |_: &u64| {
            let serves = unaided.serves(fetch);
            if serves {
                unaided.on_read(BYTES, Nanos(took_ms * 1_000_000));
            }
            serves
        };
        (0..reads).filter(one).count() as u64
    }

    #[test]
    fn streams_that_the_disk_serves_well_are_left_to_it_until_it_does_not() {
        let mut unaided = Unaided::default();
        assert_eq!(left(&mut unaided, 5000, 2, true), 5000);
        let until = left(&mut unaided, 5000, 8, true);
        assert!((10..100).contains(&until), "{until} reads");
    }

    #[test]
    fn streams_are_fetched_for_at_once_where_the_difference_is_large_and_after_a_trial_where_it_is_not() {
        assert_eq!(left(&mut Unaided::default(), 5000, 4, true), LARGE_READS);
        assert_eq!(left(&mut Unaided::default(), 5000, 3, true), TRIAL_READS);
    }

    #[test]
    fn streams_that_are_fetched_for_are_left_to_the_disk_now_and_then_and_stay_there_if_it_serves_them_by_now() {
        let mut unaided = Unaided::default();
        assert_eq!(
            left(&mut unaided, 100_000, 4, true),
            3 * LARGE_READS,
            "before 16384 reads, and twice and four times as many"
        );
        let of_next = left(&mut unaided, 100_000, 2, true);
        assert!((10_000..90_000).contains(&of_next), "{of_next}");
        assert_eq!(left(&mut unaided, 1000, 2, true), 1000);
    }

    #[test]
    fn some_are_fetched_for_while_nothing_is_known_of_fetches() {
        assert_eq!(left(&mut Unaided::default(), 1024, 2, false), 1022);
    }
}
