//! CARL's parameters (2013, Table II), from single requests to one idle server of each kind: what a request
//! takes that meets nobody.
//!
//! - Startup of a disk server is taken as uniform between a and b (eq. 2). They are chosen so that mean and
//!   variance are those that random requests within the profiled file show. What a cache serves has no
//!   startup, so neither the drive's read-ahead nor a write cache takes part: disks soon have to do what
//!   caches only put off.
//! - β of either tier is the slope of latency over size, network included.
//! - A flash server is as it is, caches included: it keeps up with them. For how long a byte keeps it from
//!   others is what it takes a byte when many requests are under way.
//!
//! Times are those that programs see, which a testbed may have slowed down or sped up.

use headstart_model::request::Operation;
use headstart_policy::cost::region::{Costs, Parameters};
use headstart_units::{KIB, MIB, Nanos};

use super::FILE_BYTES;
use crate::config::TestbedConfig;
use crate::error::Result;
use crate::placement::Region;
use crate::servers::{Ask, Servers};

/// Single requests of either size: the mean of half a turn of 8.3 ms is right to half a percent, and so is
/// its variance to 2 %.
const TRIALS: u64 = 4000;

/// Between two of them: longer than any request takes, and no multiple of a turn.
const GAP_NS: u64 = 161_803_399;

/// The slope is that from here
const SHORT_BYTES: u64 = 4 * KIB;

/// to here on disks: so long that what a turn more or less does to the mean is a hundredth of the transfer;
const DISK_BYTES: u64 = MIB;

/// and to here on flash: a usual stripe, which is the most that one server is asked for at a time.
const FLASH_BYTES: u64 = 64 * KIB;

/// Requests under way at a busy flash server, and how many are measured.
const BUSY_REQUESTS: u64 = 64;
const BUSY_MEASURED: u64 = 4000;

/// Profiles both tiers.
pub(super) fn costs(config: &TestbedConfig) -> Result<Costs> {
    let parameters = |operation| -> Result<Parameters> {
        let disk = Line::of(|| Servers::one_disk(config), config.hdd_servers, operation, DISK_BYTES)?;
        let flash = Line::of(|| Servers::one_flash(config), config.ssd_servers, operation, FLASH_BYTES)?;
        // Mean and standard deviation of a uniform distribution are its middle and its width over the square
        // root of 12.
        let half_width_s = 3f64.sqrt() * disk.startup_s_deviation;
        let seen = |seconds: f64| seconds * if config.time_scale > 0.0 { config.time_scale } else { 1.0 };
        Ok(Parameters {
            hdd_servers: config.hdd_servers,
            ssd_servers: config.ssd_servers,
            stripe_bytes: config.stripe_bytes,
            hdd_startup_s_min: seen((disk.startup_s_mean - half_width_s).max(0.0)),
            hdd_startup_s_max: seen(disk.startup_s_mean + half_width_s),
            hdd_s_per_byte: seen(disk.s_per_byte),
            ssd_s_per_byte: seen(flash.s_per_byte),
            ssd_startup_s: seen(flash.startup_s_mean),
            ssd_busy_s_per_byte: Some(seen(busy_s_per_byte(Servers::one_flash(config)?, config, operation))),
            near_stays: false,
            interleaved_stays: false,
        })
    };
    Ok(Costs { read: parameters(Operation::Read)?, write: parameters(Operation::Write)? })
}

/// Latency of single requests as startup and a slope over size.
struct Line {
    startup_s_mean: f64,
    startup_s_deviation: f64,
    s_per_byte: f64,
}

impl Line {
    fn of(server: impl Fn() -> Result<Servers>, server_count: u32, operation: Operation, long: u64) -> Result<Line> {
        let span_bytes = (FILE_BYTES / u64::from(server_count.max(1))).max(long);
        let short = SHORT_BYTES;
        let latencies_s = single_latencies_s(server()?, operation, short, span_bytes);
        let longer_s = single_latencies_s(server()?, operation, long, span_bytes);
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        // The same places at the same times, so that what differs is the transfer.
        let s_per_byte = ((mean(&longer_s) - mean(&latencies_s)) / (long - short) as f64).max(0.0);
        let latency_s = mean(&latencies_s);
        let squares: Vec<f64> = latencies_s.iter().map(|latency| (latency - latency_s).powi(2)).collect();
        Ok(Line {
            startup_s_mean: (latency_s - short as f64 * s_per_byte).max(0.0),
            startup_s_deviation: mean(&squares).sqrt(),
            s_per_byte,
        })
    }
}

/// Requests at places drawn from the first `span_bytes` of the device, each alone.
fn single_latencies_s(mut server: Servers, operation: Operation, size_bytes: u64, span_bytes: u64) -> Vec<f64> {
    let place = Region { first_server: 0, base: 0, bytes: u64::MAX };
    let (mut random, mut completions) = (Places::default(), Vec::new());
    let mut latency_s = |trial: u64| {
        let now = Nanos(trial * GAP_NS);
        // What the one before left to do behind its reply is done by now.
        server.on_timer(now, &mut completions);
        server.on_request(
            now,
            trial,
            Ask { operation, place, offset: random.next(span_bytes - size_bytes), length: size_bytes },
        );
        while completions.is_empty() {
            let at = server.next_timer().expect("a request is under way");
            server.on_timer(at, &mut completions);
        }
        completions.pop().map_or(0.0, |done| done.at.since(now).seconds())
    };
    (0..TRIALS).map(&mut latency_s).collect()
}

/// What a byte takes a flash server that always has requests waiting.
fn busy_s_per_byte(mut server: Servers, config: &TestbedConfig, operation: Operation) -> f64 {
    let place = Region { first_server: 0, base: 0, bytes: u64::MAX };
    let (size_bytes, span_bytes) = (FLASH_BYTES, FILE_BYTES);
    let (mut random, mut completions) = (Places::default(), Vec::new());
    let cached_bytes = if operation == Operation::Write { 2 * config.server_cache_bytes } else { 0 };
    let warm_up = BUSY_REQUESTS + cached_bytes / size_bytes;
    for id in 0..BUSY_REQUESTS {
        server.on_request(
            Nanos::ZERO,
            id,
            Ask { operation, place, offset: random.next(span_bytes - size_bytes), length: size_bytes },
        );
    }
    let (mut count, mut begin, mut end) = (0, Nanos::ZERO, Nanos::ZERO);
    while count < warm_up + BUSY_MEASURED {
        let at = server.next_timer().expect("requests are under way");
        server.on_timer(at, &mut completions);
        for done in completions.drain(..) {
            count += 1;
            begin = if count <= warm_up { done.at } else { begin };
            end = done.at;
            server.on_request(
                done.at,
                done.id,
                Ask { operation, place, offset: random.next(span_bytes - size_bytes), length: size_bytes },
            );
        }
    }
    end.since(begin).seconds() / ((count - warm_up) * size_bytes) as f64
}

/// Places at multiples of the shortest size, from a fixed seed so that a site file can be reproduced.
struct Places {
    state: u64,
}

impl Default for Places {
    fn default() -> Places {
        Places { state: 1 }
    }
}

impl Places {
    /// The next place, up to `last`. Xorshift.
    fn next(&mut self, last: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % (last / SHORT_BYTES + 1) * SHORT_BYTES
    }
}
