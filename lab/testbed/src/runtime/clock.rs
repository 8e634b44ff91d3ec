//! Modelled time from real time.

use std::time::{Duration, Instant};

use headstart_units::Nanos;

/// Real time divided by the time scale; with scale 0 the clock stands still until it is told to jump.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    scale: f64,
}

impl Clock {
    /// Starts at modelled time zero. `scale` is real over modelled time.
    pub fn start(scale: f64) -> Clock {
        Clock { origin: Instant::now(), scale }
    }

    /// Whether no real time passes between modelled events.
    pub fn is_virtual(&self) -> bool {
        self.scale == 0.0
    }

    /// Modelled time; `Nanos::ZERO` on a virtual clock, whose time is that of the last event.
    pub fn now(&self) -> Nanos {
        if self.is_virtual() { Nanos::ZERO } else { self.to_model(self.real()) }
    }

    /// Real nanoseconds since the start.
    pub fn real(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Modelled to real nanoseconds since the start, rounded up.
    pub fn to_real(&self, at: Nanos) -> u64 {
        if self.scale == 1.0 { at.0 } else { (at.0 as f64 * self.scale).ceil() as u64 }
    }

    /// Real to modelled nanoseconds since the start, rounded down.
    pub fn to_model(&self, real: u64) -> Nanos {
        if self.scale == 1.0 { Nanos(real) } else { Nanos((real as f64 / self.scale) as u64) }
    }

    /// How long to wait for a real time; zero if it has passed.
    pub fn until(&self, real: u64) -> Duration {
        Duration::from_nanos(real.saturating_sub(self.real()))
    }
}
