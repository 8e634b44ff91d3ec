//! Drives models through virtual time.

use headstart_model::device::{Command, Device};
use headstart_model::request::{Completion, Operation, Origin, Request};
use headstart_model::server::Server;
use headstart_units::Nanos;

/// splitmix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Seeded from `SEED=` or `default`; prints the seed.
    pub fn seeded(default: u64) -> Random {
        let seed = std::env::var("SEED").ok().map_or(default, |text| text.parse().expect("SEED is a number"));
        println!("SEED={seed}");
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

pub fn read(id: u64, address: u64, length: u64) -> Request {
    Request { id, operation: Operation::Read, address, length, origin: Origin::default() }
}

pub fn write(id: u64, address: u64, length: u64) -> Request {
    Request { id, operation: Operation::Write, address, length, origin: Origin::default() }
}

pub fn flush(id: u64) -> Request {
    Request { id, operation: Operation::Flush, address: 0, length: 0, origin: Origin::default() }
}

/// Serves one command on an otherwise idle device; returns when it finished.
pub fn serve(device: &mut dyn Device, now: Nanos, operation: Operation, address: u64, length: u64) -> Nanos {
    let mut finished = Vec::new();
    while let Some(at) = device.next_timer().filter(|at| *at <= now) {
        device.on_timer(at, &mut finished);
    }
    device.on_command(now, Command { tag: 0, operation, address, length });
    while finished.is_empty() {
        let at = device.next_timer().expect("a command is under way");
        device.on_timer(at, &mut finished);
    }
    finished[0].at
}

/// Runs the server until it is idle.
pub fn drain(server: &mut Server) -> Vec<Completion> {
    let mut completions = Vec::new();
    while let Some(at) = server.next_timer() {
        server.on_timer(at, &mut completions);
    }
    completions
}

/// Keeps `depth` requests under way until `count` have completed; returns when the last of them did.
pub fn closed_loop(server: &mut Server, depth: u64, count: u64, mut next: impl FnMut(u64) -> Request) -> Nanos {
    let mut issued = 0;
    while issued < depth {
        server.on_request(Nanos::ZERO, next(issued));
        issued += 1;
    }
    let (mut completed, mut completions) = (0, Vec::new());
    loop {
        let at = server.next_timer().expect("requests are under way");
        server.on_timer(at, &mut completions);
        for completion in completions.drain(..) {
            completed += 1;
            if completed == count {
                return completion.at;
            }
            server.on_request(completion.at, next(issued));
            issued += 1;
        }
    }
}

/// Asserts that `value` is within `percent` of `expected`, or within `digit` if that is more (a printed figure's
/// last digit rounds).
#[track_caller]
pub fn assert_near(what: &str, value: f64, expected: f64, percent: f64, digit: f64) {
    let allowed = (expected * percent / 100.0).max(digit / 2.0 + 1e-9);
    let error = (value / expected - 1.0) * 100.0;
    println!("{what}: {value:.3} against {expected} ({error:+.1} %)");
    assert!((value - expected).abs() <= allowed, "{what}: {value} against {expected} ({error:+.1} %)");
}
