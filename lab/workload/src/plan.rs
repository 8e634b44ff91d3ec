//! What one rank does in one phase.
//!
//! A plan is a row of regions that repeats, so many bytes further on in the file each time. Every pattern
//! comes down to one; the steps of a program and the C program's requests are both read off it.

use headstart_units::request::Range;

/// The regions of one period.
pub trait Regions: Send + Sync {
    /// Region number `index` of the period.
    fn range(&self, index: u64) -> Range;
}

/// See the module.
pub struct Plan {
    /// The regions of the first period.
    pub regions: Box<dyn Regions>,
    /// How many there are in a period.
    pub region_count: u64,
    /// Either 1, each region is a request; or `region_count`, one request for all of a period, whose regions ascend.
    pub regions_per_request: u64,
    /// How often the period comes.
    pub period_count: u64,
    /// How much further on in the file each time.
    pub period_bytes: u64,
    /// With windows a period holds so many parts of equal length, which whoever has a clock may make by turns. Else 0.
    pub window_count: u64,
    /// All ranks meet before each such group of requests; 0: never.
    pub requests_per_barrier: u64,
    /// All ranks meet after the open and before the close.
    pub barrier_around_requests: bool,
    /// The file, by number.
    pub file: u32,
}

impl Plan {
    /// A plan of `region_count` requests, one after another, on file 0.
    pub fn new(regions: Box<dyn Regions>, region_count: u64) -> Plan {
        Plan {
            regions,
            region_count,
            regions_per_request: 1,
            period_count: 1,
            period_bytes: 0,
            window_count: 0,
            requests_per_barrier: 0,
            barrier_around_requests: false,
            file: 0,
        }
    }

    /// Number of requests.
    pub fn requests(&self) -> u64 {
        if self.region_count == 0 { 0 } else { self.region_count / self.regions_per_request * self.period_count }
    }

    /// Region `index`, counted over all periods.
    pub fn region(&self, index: u64) -> Range {
        let range = self.regions.range(index % self.region_count);
        Range { offset: range.offset + index / self.region_count * self.period_bytes, ..range }
    }
}
