//! Positioning times of one idle disk, from single reads at known distances.
//!
//! The shortest of many reads after the same seek met the sector just in time: its latency is overhead + seek
//! + transfer. The mean one waited half a turn longer.

use headstart_model::request::Operation;
use headstart_units::{GIB, MIB, Nanos};

use crate::error::Result;
use crate::placement::Region;
use crate::servers::{Ask, Servers};

/// Reads per distance: the shortest misses the perfect phase by less than a hundredth of a turn.
const TRIALS: u64 = 200;

/// Pauses between reads: multiples of the golden ratio modulo a span of several turns, so that the phases
/// spread evenly.
const PAUSE_STEP_NS: u64 = 61_803_399;
const PAUSE_SPAN_NS: u64 = 100_000_000;

/// A read as short as the paper's unit of access.
const READ_BYTES: u64 = 4096;

/// What was learnt about a disk.
pub(super) struct Disk {
    /// R in seconds.
    pub(super) rotation_s: f64,
    /// F over distances in a file striped over the servers.
    pub(super) seek_curve: Vec<(u64, f64)>,
}

impl Disk {
    /// Profiles one disk of `server_count` equal ones.
    pub(super) fn profile(profile: &str, server_count: u64) -> Result<Disk> {
        let capacity = Servers::single_disk(profile, false)?.capacity_bytes();
        let base = latencies(profile, 0)?;
        let mut seek_curve = vec![(0, 0.0)];
        let mut waits_s = vec![base.mean_s - base.min_s];
        let mut distance = MIB;
        // Of endless devices (which have no seeks) a TiB is enough.
        let end = capacity.min(1024 * GIB) - READ_BYTES;
        loop {
            let local = distance.min(end) / READ_BYTES * READ_BYTES;
            let there = latencies(profile, local)?;
            waits_s.push(there.mean_s - there.min_s);
            seek_curve.push((local * server_count, (there.min_s - base.min_s).max(0.0)));
            if distance >= end {
                break;
            }
            distance *= 2;
        }
        Ok(Disk { rotation_s: waits_s.iter().sum::<f64>() / waits_s.len() as f64, seek_curve })
    }
}

struct Latencies {
    min_s: f64,
    mean_s: f64,
}

/// Reads alternately at address 0 and at `distance`, and looks at the latter (at distance 0: at each).
fn latencies(profile: &str, distance: u64) -> Result<Latencies> {
    let mut disk = Servers::without_read_ahead(profile)?;
    let place = Region { first_server: 0, base: 0, bytes: u64::MAX };
    let (mut min_ns, mut sum_ns) = (u64::MAX, 0);
    let mut now = Nanos::ZERO;
    let mut completions = Vec::new();
    for trial in 0..TRIALS {
        for (address, is_measured) in [(0, false), (distance, true)] {
            now += Nanos(trial * PAUSE_STEP_NS % PAUSE_SPAN_NS);
            disk.on_request(now, 0, Ask { operation: Operation::Read, place, offset: address, length: READ_BYTES });
            while completions.is_empty() {
                let at = disk.next_timer().expect("a request is under way");
                disk.on_timer(at, &mut completions);
            }
            let latency = completions.pop().map_or(0, |done| done.at.since(now).0);
            now += Nanos(latency);
            if is_measured {
                min_ns = min_ns.min(latency);
                sum_ns += latency;
            }
        }
    }
    Ok(Latencies { min_s: min_ns as f64 * 1e-9, mean_s: sum_ns as f64 * 1e-9 / TRIALS as f64 })
}
