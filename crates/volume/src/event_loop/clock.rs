//! The engine's time: nanoseconds since the volume is served. All that happens in a turn of the loop
//! happens at one time.

use std::time::{Duration, Instant};

use headstart_units::Nanos;

/// See the module.
#[derive(Debug)]
pub(super) struct Clock {
    started: Instant,
    turn: Instant,
}

impl Clock {
    /// From now on.
    pub(super) fn begin() -> Clock {
        let started = Instant::now();
        Clock { started, turn: started }
    }

    /// A turn begins, or goes on after something that took long.
    pub(super) fn turn(&mut self) {
        self.turn = Instant::now();
    }

    /// The time of the turn.
    pub(super) fn now(&self) -> Nanos {
        Nanos(self.since(self.started).as_nanos() as u64)
    }

    /// How long ago something was.
    pub(super) fn since(&self, then: Instant) -> Duration {
        self.turn.saturating_duration_since(then)
    }

    /// How long from now something will be; zero if it was.
    pub(super) fn until(&self, then: Instant) -> Duration {
        then.saturating_duration_since(self.turn)
    }

    /// The same by the engine's time.
    pub(super) fn until_time(&self, then: Nanos) -> Duration {
        self.until(self.started + Duration::from_nanos(then.0))
    }

    /// For how long the volume has been served.
    pub(super) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stands_still_within_a_turn_and_what_was_is_not_waited_for() {
        let mut clock = Clock::begin();
        let first = clock.now();
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!((clock.now(), first), (Nanos::ZERO, Nanos::ZERO));
        clock.turn();
        assert!(clock.now() >= Nanos(1_000_000) && clock.until_time(first) == Duration::ZERO);
        assert_eq!(clock.until_time(clock.now() + Nanos(5)), Duration::from_nanos(5));
    }
}
