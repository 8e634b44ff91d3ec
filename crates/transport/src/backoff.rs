//! How long to wait before the next attempt to connect: twice as long each time, half of it by chance, so that many
//! who lost the same peer do not come back at once.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use headstart_units::chance::Random;

/// First pause. Assumed: an agent that is restarted listens again within some of these.
const FIRST: Duration = Duration::from_millis(50);
/// Longest pause. Assumed: well below the time in which a silent member is expelled.
const LONGEST: Duration = Duration::from_secs(5);

/// See the module.
pub(crate) struct Backoff {
    next: Duration,
    chance: Random,
}

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff { next: FIRST, chance: Random(RandomState::new().hash_one(0)) }
    }

    /// An attempt failed: the pause before the next.
    pub(crate) fn pause(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(LONGEST);
        let half_us = (whole / 2).as_micros() as u64;
        Duration::from_micros(half_us + self.chance.below(half_us + 1))
    }

    /// An attempt succeeded.
    pub(crate) fn reset(&mut self) {
        self.next = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_half_of_each_is_chance() {
        let mut backoff = Backoff::new();
        let mut whole = FIRST;
        for _ in 0..20 {
            let pause = backoff.pause();
            assert!(whole / 2 <= pause && pause <= whole, "{pause:?} of {whole:?}");
            whole = (whole * 2).min(LONGEST);
        }
        assert_eq!(whole, LONGEST);
        backoff.reset();
        assert!(backoff.pause() <= FIRST);
    }
}
