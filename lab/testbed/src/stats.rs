//! What a testbed did: per directory and per server, and whether its times can be trusted.
//!
//! A run is void if replies were late: p99 above 0.5 ms, or a mean above a tenth of the directory's mean service time.
//! Lateness is taken when the reply has been written. What happens before the server reads a request from the
//! FUSE device cannot be seen from here; the arrival lateness is the time from the handler's start until the
//! model was told, which includes waiting for the lock and storing the bytes of a small write.

pub mod latency;
mod table;

use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use headstart_model::request::Operation;
use headstart_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::config::TestbedConfig;
use crate::servers::ServerStats;
use crate::stats::latency::Histogram;
use crate::system::RealTime;

/// Lateness beyond which a run is void (a twenty-fifth of a disk operation).
const LATE_P99_NS_MAX: u64 = 500_000;

/// Share of the mean service time beyond which mean lateness makes a run void.
const LATE_MEAN_SHARE_MAX: f64 = 0.1;

/// Durations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Largest.
    pub max_ns: u64,
    /// Mean.
    pub mean_ns: u64,
}

impl From<&Histogram> for Latency {
    fn from(histogram: &Histogram) -> Latency {
        Latency {
            p50_ns: histogram.quantile_ns(0.5),
            p99_ns: histogram.quantile_ns(0.99),
            max_ns: histogram.max_ns(),
            mean_ns: histogram.mean_ns(),
        }
    }
}

/// One directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MountStats {
    /// `slow`, `fast` or `disk`.
    pub name: String,
    /// Modelled time since the start.
    pub model_ns: Nanos,
    /// Reads answered.
    pub read_count: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Writes answered.
    pub write_count: u64,
    /// Bytes of them.
    pub write_bytes: u64,
    /// Flushes answered.
    pub flush_count: u64,
    /// Requests not yet answered.
    pub in_flight: usize,
    /// The most there were at once.
    pub in_flight_max: usize,
    /// Real time from arrival until the reply was due.
    pub service: Latency,
    /// Reply written minus reply due.
    pub lateness: Latency,
    /// Model told minus request handled.
    pub arrival_lateness: Latency,
    /// Why the times cannot be trusted; `None` if they can.
    pub void: Option<String>,
    /// Its servers in stripe order.
    pub servers: Vec<ServerStats>,
}

/// A whole testbed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestbedStats {
    /// Wall clock, seconds since 1970.
    pub time_seconds: f64,
    /// Process id of the server.
    pub process: u32,
    /// What the server was permitted.
    pub real_time: RealTime,
    /// Largest request the kernel sends, in bytes.
    pub request_bytes_max: u64,
    /// How it was configured.
    pub config: TestbedConfig,
    /// The directories.
    pub mounts: Vec<MountStats>,
}

/// Seconds since 1970.
pub(crate) fn wall_clock_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Counts of one directory while it runs.
#[derive(Debug)]
pub(crate) struct MountCounters {
    name: &'static str,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    reads: (u64, u64),
    writes: (u64, u64),
    flushes: u64,
    service: Histogram,
    lateness: Histogram,
    arrival: Histogram,
}

impl MountCounters {
    pub(crate) fn named(name: &'static str) -> MountCounters {
        MountCounters { name, counts: Mutex::default() }
    }

    pub(crate) fn arrived(&self, late_ns: u64) {
        self.lock().arrival.record(late_ns);
    }

    pub(crate) fn answering(&self, operation: Operation, bytes: u64, service_ns: u64) {
        let mut counts = self.lock();
        match operation {
            Operation::Read => counts.reads = (counts.reads.0 + 1, counts.reads.1 + bytes),
            Operation::Write => counts.writes = (counts.writes.0 + 1, counts.writes.1 + bytes),
            Operation::Flush => counts.flushes += 1,
        }
        counts.service.record(service_ns);
    }

    pub(crate) fn answered(&self, late_ns: u64) {
        self.lock().lateness.record(late_ns);
    }

    pub(crate) fn reset(&self) {
        *self.lock() = Counts::default();
    }

    pub(crate) fn snapshot(&self, model_ns: Nanos, servers: Vec<ServerStats>) -> MountStats {
        let counts = self.lock();
        let (service, lateness) = (Latency::from(&counts.service), Latency::from(&counts.lateness));
        MountStats {
            name: self.name.to_string(),
            model_ns,
            read_count: counts.reads.0,
            read_bytes: counts.reads.1,
            write_count: counts.writes.0,
            write_bytes: counts.writes.1,
            flush_count: counts.flushes,
            in_flight: 0,
            in_flight_max: 0,
            service,
            lateness,
            arrival_lateness: Latency::from(&counts.arrival),
            void: verdict(&service, &lateness),
            servers,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().expect("no panic while holding the lock")
    }
}

/// Why the times cannot be trusted.
fn verdict(service: &Latency, lateness: &Latency) -> Option<String> {
    if lateness.p99_ns > LATE_P99_NS_MAX {
        return Some(format!(
            "1 % of replies were more than {:.2} ms late (limit 0.5 ms)",
            lateness.p99_ns as f64 * 1e-6
        ));
    }
    if lateness.mean_ns as f64 > LATE_MEAN_SHARE_MAX * service.mean_ns as f64 {
        return Some(format!(
            "replies were {:.3} ms late on average, more than a tenth of the mean service time of {:.3} ms",
            lateness.mean_ns as f64 * 1e-6,
            service.mean_ns as f64 * 1e-6
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(p99_ns: u64, mean_ns: u64) -> Latency {
        Latency { p50_ns: mean_ns, p99_ns, max_ns: p99_ns, mean_ns }
    }

    #[test]
    fn late_replies_void_a_run() {
        let service = latency(10_000_000, 5_000_000);
        assert_eq!(verdict(&service, &latency(400_000, 50_000)), None);
        assert!(verdict(&service, &latency(600_000, 50_000)).is_some());
        assert!(verdict(&latency(500_000, 300_000), &latency(400_000, 50_000)).is_some());
        assert_eq!(verdict(&latency(0, 0), &latency(0, 0)), None);
    }
}
