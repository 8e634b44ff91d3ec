//! What a site's cost model needs to know, measured on the modelled servers in virtual time.
//!
//! S4D's equations (ICDCS'14, section III.B) price a request on the disk servers as
//! T_D = F(d) + R + m/(m+1) (S - F(d)) + s_m beta_D and on the flash servers as T_C = s_n beta_C. T_C has no
//! start-up term, so bare device rates would send even requests of 4 MiB to flash. The rates given here are
//! *effective*: what a byte of the largest sub-request costs while all ranks are at work, with queues and
//! network in it. They are chosen so that the sign of T_D - T_C agrees with the faster directory in as many
//! measured cells as possible.
//!
//! CARL's parameters price an idle site ([`SiteParameters::carl`]): plans add the queues themselves.
//!
//! F, R and S come from single requests to one idle disk. Of S both readings are given: the longest seek
//! within the span of the profiled file, which the fit uses, and the device's full stroke.

mod fit;
mod idle;
mod measure;
mod seek;

use std::fmt;

use headstart_model::request::Operation;
use headstart_policy::cost::region::Costs;
use headstart_units::{ByteSize, GIB, KIB, MIB};
use serde::{Deserialize, Serialize};

use crate::config::TestbedConfig;
use crate::error::Result;
use crate::servers::Servers;

/// Request sizes of the table.
const SIZES: [u64; 11] =
    [4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB];

/// The profiled file.
pub const FILE_BYTES: u64 = 512 * MIB;

/// Processes that keep one request each in flight.
pub const RANKS: u32 = 16;

/// How the ranks go through the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Uniform over the file at multiples of the request size.
    Random,
    /// Each rank through its own part, which is an odd number of stripes long so that the ranks do not convoy.
    Sequential,
}

/// One line of the measured table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Bytes of each request.
    pub size_bytes: u64,
    /// Random or sequential.
    pub pattern: Pattern,
    /// Reads rather than writes.
    pub is_read: bool,
    /// Mean latency on the disk servers in seconds.
    pub hdd_latency_s: f64,
    /// Mean latency on the flash servers in seconds.
    pub ssd_latency_s: f64,
    /// T_D - T_C with the fitted rates, in seconds: positive means flash.
    pub model_benefit_s: f64,
    /// Whether the model and the measurement name the same directory; measured ties (5 %) agree with both.
    pub agrees: bool,
}

/// Effective costs of a byte of the largest sub-request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// beta_D, seconds per byte on a disk server.
    pub beta_d_s_per_byte: f64,
    /// beta_C, seconds per byte on a flash server.
    pub beta_c_s_per_byte: f64,
}

/// The parameters of a site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteParameters {
    /// M, disk servers.
    pub hdd_servers: u32,
    /// N, flash servers.
    pub ssd_servers: u32,
    /// str, bytes of a stripe.
    pub stripe_bytes: u64,
    /// Processes at work while the rates were measured.
    pub ranks: u32,
    /// R, average rotation delay in seconds.
    pub rotation_s: f64,
    /// S, longest seek within the span of the profiled file, in seconds.
    pub seek_max_s: f64,
    /// The disk's full stroke in seconds.
    pub seek_max_device_s: f64,
    /// F, seconds to seek over a distance in the file (bytes, over all servers); interpolate linearly, the
    /// last value holds beyond.
    pub seek_curve: Vec<(u64, f64)>,
    /// Rates of reads.
    pub read: Rates,
    /// Rates of writes.
    pub write: Rates,
    /// CARL's parameters, of idle servers.
    pub carl: Costs,
    /// What was measured.
    pub cells: Vec<Cell>,
}

impl SiteParameters {
    /// F(d) in seconds.
    pub fn seek_s(&self, distance_bytes: u64) -> f64 {
        interpolate(&self.seek_curve, distance_bytes)
    }

    /// Cells in which model and measurement agree, and all cells.
    pub fn agreement(&self) -> (usize, usize) {
        (self.cells.iter().filter(|cell| cell.agrees).count(), self.cells.len())
    }
}

/// Measures the servers of a configuration in virtual time; takes no part of a running testbed.
///
/// # Errors
/// An invalid configuration.
pub fn site_parameters(config: &TestbedConfig) -> Result<SiteParameters> {
    // A volume makes a burst cheap, not the disk: what stays dear is the disk alone.
    let config = &TestbedConfig { server_policy: "stock".to_string(), ..config.clone() };
    let slow = || Servers::slow(config);
    let fast = || Servers::fast(config);
    slow()?;
    fast()?;
    let disk = seek::Disk::profile(&config.hdd_profile, u64::from(config.hdd_servers))?;
    let mut parameters = SiteParameters {
        hdd_servers: config.hdd_servers,
        ssd_servers: config.ssd_servers,
        stripe_bytes: config.stripe_bytes,
        ranks: RANKS,
        rotation_s: disk.rotation_s,
        seek_max_s: interpolate(&disk.seek_curve, FILE_BYTES),
        seek_max_device_s: disk.seek_curve.last().map_or(0.0, |(_, seconds)| *seconds),
        seek_curve: disk.seek_curve,
        read: Rates { beta_d_s_per_byte: 0.0, beta_c_s_per_byte: 0.0 },
        write: Rates { beta_d_s_per_byte: 0.0, beta_c_s_per_byte: 0.0 },
        carl: idle::costs(config)?,
        cells: Vec::new(),
    };
    for operation in [Operation::Read, Operation::Write] {
        for pattern in [Pattern::Random, Pattern::Sequential] {
            for size_bytes in SIZES {
                let run = |servers| measure::mean_latency_s(servers, config, operation, pattern, size_bytes);
                parameters.cells.push(Cell {
                    size_bytes,
                    pattern,
                    is_read: operation == Operation::Read,
                    hdd_latency_s: run(slow()?),
                    ssd_latency_s: run(fast()?),
                    model_benefit_s: 0.0,
                    agrees: false,
                });
            }
        }
    }
    parameters.read = fit::rates(&parameters, true);
    parameters.write = fit::rates(&parameters, false);
    fit::judge(&mut parameters);
    Ok(parameters)
}

/// Requests per second that `ranks` processes without any turnaround of their own get from the modelled
/// servers: the bound for what a real-time run can show.
///
/// # Errors
/// An invalid configuration.
pub fn predicted_requests_per_s(
    config: &TestbedConfig,
    fast: bool,
    is_read: bool,
    pattern: Pattern,
    size_bytes: u64,
) -> Result<f64> {
    let servers = if fast { Servers::fast(config)? } else { Servers::slow(config)? };
    let operation = if is_read { Operation::Read } else { Operation::Write };
    let latency_s = measure::mean_latency_s(servers, config, operation, pattern, size_bytes);
    Ok(f64::from(RANKS) / latency_s.max(1e-9))
}

fn interpolate(curve: &[(u64, f64)], at: u64) -> f64 {
    let after = curve.partition_point(|(distance, _)| *distance < at);
    match (after.checked_sub(1).map(|before| curve[before]), curve.get(after)) {
        (Some((x0, y0)), Some(&(x1, y1))) => y0 + (y1 - y0) * (at - x0) as f64 / (x1 - x0) as f64,
        (None, Some(&(_, first))) => first,
        (Some((_, last)), None) => last,
        (None, None) => 0.0,
    }
}

impl fmt::Display for SiteParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} disk and {} flash servers, stripe {}, {} ranks, file {} GiB",
            self.hdd_servers,
            self.ssd_servers,
            ByteSize(self.stripe_bytes),
            self.ranks,
            FILE_BYTES as f64 / GIB as f64
        )?;
        writeln!(
            f,
            "R {:.3} ms, S {:.3} ms within the file, {:.3} ms full stroke",
            self.rotation_s * 1e3,
            self.seek_max_s * 1e3,
            self.seek_max_device_s * 1e3
        )?;
        for (name, rates) in [("read", &self.read), ("write", &self.write)] {
            let mb_s = |seconds_per_byte: f64| 1e-6 / seconds_per_byte;
            let (disk, flash) = (mb_s(rates.beta_d_s_per_byte), mb_s(rates.beta_c_s_per_byte));
            writeln!(f, "{name}: 1/beta_D {disk:.2} MB/s, 1/beta_C {flash:.2} MB/s")?;
        }
        for (name, carl) in [("read", &self.carl.read), ("write", &self.carl.write)] {
            writeln!(
                f,
                "{name}, idle: startup {:.2} to {:.2} ms, 1/beta_H {:.1} MB/s; flash {:.2} ms, 1/beta_S {:.1} MB/s, {:.1} at most",
                carl.hdd_startup_s_min * 1e3,
                carl.hdd_startup_s_max * 1e3,
                1e-6 / carl.hdd_s_per_byte,
                carl.ssd_startup_s * 1e3,
                1e-6 / carl.ssd_s_per_byte,
                1e-6 / carl.ssd_busy_s_per_byte.unwrap_or(carl.ssd_s_per_byte)
            )?;
        }
        writeln!(f, "     size pattern    op    disk ms  flash ms  T_D-T_C ms")?;
        for cell in &self.cells {
            writeln!(
                f,
                "{:>9} {:<10} {:<5} {:>7.3} {:>9.3} {:>11.3} {}",
                ByteSize(cell.size_bytes).to_string(),
                if cell.pattern == Pattern::Random { "random" } else { "sequential" },
                if cell.is_read { "read" } else { "write" },
                cell.hdd_latency_s * 1e3,
                cell.ssd_latency_s * 1e3,
                cell.model_benefit_s * 1e3,
                if cell.agrees { "" } else { "DISAGREES" }
            )?;
        }
        let (agreeing, total) = self.agreement();
        writeln!(f, "the model names the faster directory in {agreeing} of {total} cells")
    }
}
