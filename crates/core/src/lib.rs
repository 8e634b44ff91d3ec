//! What decides: no file, socket, thread, clock or random source. Time comes in as `now`, work goes out as data.
#![forbid(unsafe_code)]

pub mod advice;
pub mod calibration;
pub mod chance;
pub mod chunked_map;
pub mod cost;
pub mod counters;
pub mod image;
pub mod interleaving;
pub mod overlay;
pub mod plan;
pub mod policy;
pub mod preloading;
pub mod protocol;
pub mod request;
pub mod stripe;
pub mod trace;
pub mod units;
pub mod volume;
