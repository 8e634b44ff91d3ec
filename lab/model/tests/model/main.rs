//! The models against the published and calibrated figures they stand for, and against their own contract.
//!
//! No test here reads a clock. Random tests print their seed and take `SEED=`.

mod cache;
mod cluster;
mod contract;
mod driver;
mod flushed_writes;
mod hdd;
mod hdd_caches;
mod interference;
mod plan;
mod queue_depth;
mod ssd;
