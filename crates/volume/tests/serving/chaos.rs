//! A policy that does anything it may.

use headstart_policy::server::{Load, Policy};
use headstart_units::Nanos;
use headstart_units::chance::Random;
use headstart_units::request::Range;

#[derive(Clone, Debug)]
pub struct Chaos {
    pub random: Random,
    absorbs: u64,
    writes_back: u64,
    bypasses: bool,
}

impl Chaos {
    pub fn new(random: &mut Random) -> Chaos {
        Chaos {
            random: Random(random.next()),
            absorbs: random.pick(&[100, 80, 50, 10]),
            writes_back: random.pick(&[0, 2, 10, 40]),
            bypasses: random.chance(50),
        }
    }
}

impl Policy for Chaos {
    fn absorbs(&mut self, _range: Range, _load: &Load) -> bool {
        self.random.chance(self.absorbs)
    }

    fn waits_for_room(&self, _load: &Load) -> Nanos {
        if self.bypasses { Nanos::ZERO } else { Nanos::MAX }
    }

    fn next_write_back(&mut self, load: &Load) -> Option<u64> {
        let wanted = load.is_full || load.draining || self.random.chance(self.writes_back);
        (wanted && load.write_backs < 3).then(|| self.random.below(1 << 17))
    }

    fn on_write_back(&mut self, _now: Nanos, _range: Range) {}
}
