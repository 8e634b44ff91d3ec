//! Policies under test: one that does anything it may, and those that volumes have, with settings that fit
//! small devices.

use headstart_policy::server::chain;
use headstart_policy::server::chain::{Chain, Names};
use headstart_policy::server::itransformer::Settings;
use headstart_policy::server::segments::Segments;
use headstart_policy::server::{Load, Policy, SegmentRead, Turn, liu};
use headstart_units::BLOCK_BYTES;
use headstart_units::Nanos;
use headstart_units::chance::Random;
use headstart_units::request::Range;

/// A policy that does anything it may. It never keeps the disk from those who wait while nobody uses it.
#[derive(Clone, Debug)]
pub struct Chaos {
    pub random: Random,
    pub absorbs: u64,
    pub writes_back: u64,
    pub bypasses: bool,
    pub fetches: u64,
    pub holds: u64,
    pub loads: u64,
    pub lifts: u64,
    pub loaded: Vec<u64>,
    pub lifted: Vec<u64>,
}

impl Chaos {
    /// One that absorbs what it may, and writes back or reads ahead nothing.
    pub fn absorbing(random: Random) -> Chaos {
        Chaos {
            random,
            absorbs: 100,
            writes_back: 0,
            bypasses: false,
            fetches: 0,
            holds: 0,
            loads: 0,
            lifts: 0,
            loaded: Vec::new(),
            lifted: Vec::new(),
        }
    }
}

impl Policy for Chaos {
    fn on_segment_read(&mut self, read: SegmentRead) -> Option<Range> {
        if !self.random.chance(self.loads) {
            return None;
        }
        if !self.loaded.contains(&read.segment) {
            self.loaded.push(read.segment);
        }
        // A whole segment, what is ahead of the read, or anything.
        let any = [self.random.below(8), self.random.below(8)];
        let first = self.random.pick(&[0, read.part.offset / BLOCK_BYTES, any[0]]);
        let blocks = self.random.pick(&[u64::from(u32::MAX), any[1]]);
        Some(Range::new(first * BLOCK_BYTES, blocks * BLOCK_BYTES))
    }

    fn next_eviction(&mut self) -> Option<u64> {
        let evicts = !self.loaded.is_empty() && self.random.chance(30);
        evicts.then(|| self.loaded.swap_remove(self.random.below(self.loaded.len() as u64) as usize))
    }

    fn next_lift(&mut self, load: &Load) -> Option<u64> {
        (load.lifts < 2 && self.random.chance(self.lifts)).then(|| self.random.below(8))
    }

    fn on_lifted(&mut self, segment: u64) {
        self.lifted.push(segment);
    }

    fn on_head_lost(&mut self, segment: u64, _again: bool) {
        self.lifted.retain(|lifted| *lifted != segment);
    }

    fn next_de_lift(&mut self, _newcomer: u64) -> Option<u64> {
        let any = !self.lifted.is_empty() && self.random.chance(50);
        any.then(|| self.lifted[self.random.below(self.lifted.len() as u64) as usize])
    }

    fn absorbs(&mut self, _range: Range, _load: &Load) -> bool {
        self.random.chance(self.absorbs)
    }

    fn waits_for_room(&self, _load: &Load) -> Nanos {
        if self.bypasses { Nanos::ZERO } else { Nanos::MAX }
    }

    fn paces(&self, load: &Load) -> Nanos {
        Nanos(self.holds * u64::from(load.ring_blocks - load.free_blocks) * 1_000)
    }

    fn next_write_back(&mut self, load: &Load) -> Option<u64> {
        let wanted = load.is_full || load.draining || self.random.chance(self.writes_back);
        (wanted && load.write_backs < 3).then(|| self.random.below(1 << 16))
    }

    fn on_write_back(&mut self, _now: Nanos, _range: Range) {}

    fn on_read(&mut self, range: Range, _load: &Load) -> Option<Range> {
        let before = self.random.below(2) * self.random.below(range.offset + 1);
        let wanted = Range::between(before, range.end() + self.random.below(20_000));
        self.random.chance(self.fetches).then_some(wanted)
    }

    fn begins_fetch(&mut self, _range: Range, load: &Load) -> bool {
        load.fetches == 0 || self.random.chance(60)
    }

    fn turn(&mut self, load: &Load) -> Turn {
        let pick = if self.random.chance(self.holds) { self.random.below(4) } else { 0 };
        match pick {
            1 if load.background() > 0 || load.waiting == 0 => Turn::Background,
            2 if load.waiting + load.in_flight > 0 => Turn::Foreground,
            3 if load.admitted + load.in_flight > 0 => Turn::Closing,
            _ => Turn::Shared,
        }
    }
}

/// A policy of a case.
#[derive(Clone, Debug)]
pub enum Tested {
    Chaos(Chaos),
    Chain(Box<Chain>),
}

impl Tested {
    pub fn new(random: &mut Random, segments: Segments) -> Tested {
        if random.chance(40) {
            let itransformer = Settings {
                delay_max: Nanos(random.pick(&[1_000_000, 50_000_000])),
                large_bytes_min: random.pick(&[1024, 8192, 1 << 20]),
                idle: Nanos(random.pick(&[1_000_000, 100_000_000])),
                urgent_percent: random.pick(&[5, 25, 60]),
                paced_percent: random.pick(&[10, 40]),
                leaves_streams: random.pick(&[false, true]),
                window_bytes_min: random.pick(&[4096, 16384]),
                stream_reads_min: random.pick(&[1, 2]),
            };
            let liu = liu::Settings {
                buffer_bytes: random.pick(&[1, 2, 4]) * segments.segment_bytes(),
                stack_per_buffer: random.pick(&[1, 2]),
                threshold_percent: random.pick(&[1, 50, 100]),
                idle: Nanos(random.pick(&[1_000_000, 50_000_000])),
            };
            let names =
                random.pick(&[Names::ITransformer, Names::Liu, Names::Liu, Names::LiuITransformer, Names::Auto]);
            let settings = chain::Settings { liu, itransformer };
            return Tested::Chain(Box::new(Chain::new(names, segments, settings)));
        }
        Tested::Chaos(Chaos {
            random: Random(random.next()),
            absorbs: random.pick(&[100, 80, 50, 10]),
            writes_back: random.pick(&[0, 2, 10, 40]),
            bypasses: random.chance(50),
            fetches: random.pick(&[0, 20, 80]),
            holds: random.pick(&[0, 0, 30, 80]),
            loads: random.pick(&[0, 20, 80]),
            lifts: random.pick(&[5, 20, 50]),
            loaded: Vec::new(),
            lifted: Vec::new(),
        })
    }

    /// The same after a start, when it has seen nothing.
    pub fn started(&self, random: Random) -> Tested {
        match self {
            Tested::Chaos(chaos) => {
                let (loaded, lifted) = (Vec::new(), Vec::new());
                Tested::Chaos(Chaos { random, loaded, lifted, ..chaos.clone() })
            }
            Tested::Chain(policy) => Tested::Chain(policy.clone()),
        }
    }
}

macro_rules! delegate {
    ($self:ident, $call:ident ( $($argument:expr),* )) => {
        match $self {
            Tested::Chaos(policy) => policy.$call($($argument),*),
            Tested::Chain(policy) => policy.$call($($argument),*),
        }
    };
}

impl Policy for Tested {
    fn absorbs(&mut self, range: Range, load: &Load) -> bool {
        delegate!(self, absorbs(range, load))
    }
    fn waits_for_room(&self, load: &Load) -> Nanos {
        delegate!(self, waits_for_room(load))
    }
    fn paces(&self, load: &Load) -> Nanos {
        delegate!(self, paces(load))
    }
    fn next_write_back(&mut self, load: &Load) -> Option<u64> {
        delegate!(self, next_write_back(load))
    }
    fn write_back_bytes_max(&self) -> u64 {
        delegate!(self, write_back_bytes_max())
    }
    fn on_write_back(&mut self, now: Nanos, range: Range) {
        delegate!(self, on_write_back(now, range))
    }
    fn on_zeroing(&mut self, range: Range) {
        delegate!(self, on_zeroing(range))
    }
    fn on_segment_read(&mut self, read: SegmentRead) -> Option<Range> {
        delegate!(self, on_segment_read(read))
    }
    fn next_eviction(&mut self) -> Option<u64> {
        delegate!(self, next_eviction())
    }
    fn next_lift(&mut self, load: &Load) -> Option<u64> {
        delegate!(self, next_lift(load))
    }
    fn on_lift_refused(&mut self, now: Nanos, segment: u64, again: bool) {
        delegate!(self, on_lift_refused(now, segment, again))
    }
    fn on_lifted(&mut self, segment: u64) {
        delegate!(self, on_lifted(segment))
    }
    fn on_head_lost(&mut self, segment: u64, again: bool) {
        delegate!(self, on_head_lost(segment, again))
    }
    fn next_de_lift(&mut self, newcomer: u64) -> Option<u64> {
        delegate!(self, next_de_lift(newcomer))
    }
    fn on_read(&mut self, range: Range, load: &Load) -> Option<Range> {
        delegate!(self, on_read(range, load))
    }
    fn on_disk_read(&mut self, range: Range, took: Nanos) {
        delegate!(self, on_disk_read(range, took))
    }
    fn begins_fetch(&mut self, range: Range, load: &Load) -> bool {
        delegate!(self, begins_fetch(range, load))
    }
    fn on_background_end(&mut self, now: Nanos, range: Range) {
        delegate!(self, on_background_end(now, range))
    }
    fn turn(&mut self, load: &Load) -> Turn {
        delegate!(self, turn(load))
    }
    fn next_timer(&self, load: &Load) -> Option<Nanos> {
        delegate!(self, next_timer(load))
    }
}
