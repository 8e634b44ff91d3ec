//! Cost models: what a request costs on disk and on flash.

pub mod benefit;
pub mod region;

/// No disk answers half of all random reads sooner (assumed: a third of a turn at 15,000 a minute is 1.3 ms).
pub const DISK_S_MIN: f64 = 0.5e-3;
/// The share of the peak rate at which LiU's authors put the knee: 4 MiB on their disk.
pub const KNEE_SHARE: f64 = 0.85;
