//! What two tiers cost, from measurements of their latencies: which loads to measure, and what follows from
//! the figures.
//!
//! ```text
//! schedule::loads -> loads -> (whoever measures: real files, or models in virtual time) -> Measured
//!                                   |
//!      Disk (latencies, transfer, seek curve)    Flash (transfer)    rates::effective
//!                                   |
//!              S4D's and CARL's parameters, LiU's head and body: `findings`
//! ```
//!
//! All loads are closed loops: `depth` lanes keep one request each under way. Nothing here reads a clock or a file.

pub mod findings;
mod fit_error;
mod latencies;
mod load;
mod offsets;
pub mod rates;
pub mod schedule;
mod seek;
mod transfer;

pub use findings::{Disk, Flash, Segment};
pub use fit_error::FitError;
pub use latencies::Latencies;
pub use load::{BLOCK_BYTES, Load, Measured, Pattern};
pub use offsets::{Offsets, Step};
