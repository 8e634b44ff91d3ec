//! What a server has done, for reports.

use headstart_units::Nanos;
use serde::Serialize;

use super::volume_stats::VolumeStats;
use crate::device::DeviceStats;
use crate::request::Operation;

/// What a server has done up to a time. Means are zero where nothing was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ServerStats {
    /// The time these figures are of.
    pub at_ns: u64,
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Flushes completed.
    pub flushes: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Bytes of the writes.
    pub write_bytes: u64,
    /// Commands the device served, its own write-back included.
    pub device_commands: u64,
    /// Mean distance from the end of one device command to the start of the next.
    pub seek_distance_bytes_mean: f64,
    /// Time the device was at work.
    pub device_busy_ns: u64,
    /// Requests at the server (arrived, reply not sent), weighted by time since the first request.
    pub queue_depth_mean: f64,
    /// Most requests at the server at once.
    pub queue_depth_max: u64,
    /// Mean time from a request's departure at the client to the reply's arrival there; flushes not counted.
    pub service_ns_mean: f64,
    /// The same of reads alone.
    pub read_service_ns_mean: f64,
    /// The same of writes alone.
    pub write_service_ns_mean: f64,
    /// Dirty bytes in the server's cache.
    pub dirty_bytes: u64,
    /// Its volume, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeStats>,
}

fn mean(sum: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}

/// Running sums.
#[derive(Debug, Default)]
pub(super) struct Counters {
    count: [u64; 3],
    bytes: [u64; 3],
    service_ns: [u64; 3],
    depth: u64,
    depth_max: u64,
    depth_ns: f64,
    depth_since: Nanos,
    started: Option<Nanos>,
}

impl Counters {
    pub(super) fn start(&mut self, now: Nanos) {
        if self.started.is_none() {
            self.started = Some(now);
            self.depth_since = now;
        }
    }

    fn advance(&mut self, now: Nanos) {
        self.depth_ns += self.depth as f64 * now.since(self.depth_since).0 as f64;
        self.depth_since = now;
    }

    pub(super) fn arrive(&mut self, now: Nanos) {
        self.advance(now);
        self.depth += 1;
        self.depth_max = self.depth_max.max(self.depth);
    }

    pub(super) fn leave(&mut self, now: Nanos) {
        self.advance(now);
        self.depth -= 1;
    }

    pub(super) fn complete(&mut self, operation: Operation, bytes: u64, service: Nanos) {
        let index = operation as usize;
        self.count[index] += 1;
        self.bytes[index] += bytes;
        self.service_ns[index] += service.0;
    }

    pub(super) fn report(&self, now: Nanos, device: DeviceStats, dirty_bytes: u64) -> ServerStats {
        let since_change = now.since(self.depth_since).0 as f64;
        let elapsed_ns = now.since(self.started.unwrap_or(now)).0;
        let [reads, writes, flushes] = self.count;
        let service = |index: usize| self.service_ns[index] as f64;
        ServerStats {
            at_ns: now.0,
            reads,
            writes,
            flushes,
            read_bytes: self.bytes[Operation::Read as usize],
            write_bytes: self.bytes[Operation::Write as usize],
            device_commands: device.commands,
            seek_distance_bytes_mean: mean(device.distance_bytes as f64, device.commands),
            device_busy_ns: device.busy_ns,
            queue_depth_mean: mean(self.depth_ns + self.depth as f64 * since_change, elapsed_ns),
            queue_depth_max: self.depth_max,
            service_ns_mean: mean(service(0) + service(1), reads + writes),
            read_service_ns_mean: mean(service(0), reads),
            write_service_ns_mean: mean(service(1), writes),
            dirty_bytes,
            volume: None,
        }
    }
}
