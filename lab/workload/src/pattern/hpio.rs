//! HPIO 1.55. Each rank has `region-count` regions of `region-size` bytes. In a file that is not contiguous
//! (nc) the regions of all ranks alternate, with spacing between them; in a contiguous one (c) each rank's
//! regions follow each other:
//!
//! ```text
//! nc:  offset = (size + spacing) * (k * ranks + rank)            c:  offset = rank * count * size + k * size
//! ```
//!
//! Memory that is not contiguous has the regions at a stride of size + spacing in the buffer; file offsets do
//! not change. One call moves all regions; with `individual` each is one of its own.

use std::sync::Arc;

use headstart_units::request::Range;
use serde::{Deserialize, Serialize};

use super::{Pattern, Rate, check_file_bytes, phases_of};
use crate::description::{Common, Operation, Problem, size};
use crate::plan::{Plan, Regions};
use crate::step::Phase;

/// Memory first, file second, as HPIO names them: contiguous or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Shape {
    #[serde(rename = "c-c")]
    CC,
    #[serde(rename = "nc-c")]
    NcC,
    #[serde(rename = "c-nc")]
    CNc,
    #[serde(rename = "nc-nc")]
    NcNc,
}

/// Its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Hpio {
    /// Regions per rank.
    pub region_count: u64,
    /// Bytes of a region.
    #[serde(with = "size")]
    pub region_size: u64,
    /// Bytes between regions.
    #[serde(with = "size")]
    pub region_spacing: u64,
    /// Memory and file.
    #[serde(rename = "pattern")]
    pub shape: Shape,
    /// One request per region instead of one for all.
    pub individual: bool,
}

impl Default for Hpio {
    fn default() -> Hpio {
        Hpio { region_count: 4096, region_size: 8 << 10, region_spacing: 0, shape: Shape::CNc, individual: false }
    }
}

/// HPIO counts regions and their bytes in C's int.
const INT_MAX: u64 = i32::MAX as u64;

impl Hpio {
    pub(crate) fn pattern(&self, common: &Common) -> Result<Arc<dyn Pattern>, Problem> {
        if self.region_size == 0 || self.region_count == 0 {
            return Err(Problem::new("region-count and region-size must be above 0"));
        }
        if self.region_spacing.max(self.region_size).max(self.region_count) > INT_MAX {
            return Err(Problem::new("lower region-size, region-spacing or region-count: none may exceed 2^31 - 1"));
        }
        check_file_bytes((self.region_count * self.stride()).saturating_mul(u64::from(common.ranks)))?;
        Ok(Arc::new(HpioPattern { hpio: self.clone(), ranks: common.ranks, operation: common.operation }))
    }

    fn stride(&self) -> u64 {
        self.region_size + self.region_spacing
    }

    fn is_file_contiguous(&self) -> bool {
        matches!(self.shape, Shape::CC | Shape::NcC)
    }
}

struct HpioPattern {
    hpio: Hpio,
    ranks: u32,
    operation: Operation,
}

struct Strided {
    first: u64,
    stride: u64,
    length: u64,
}

impl Regions for Strided {
    fn range(&self, k: u64) -> Range {
        Range { offset: self.first + k * self.stride, length: self.length }
    }
}

impl Pattern for HpioPattern {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn phases(&self) -> Vec<Phase> {
        phases_of(self.operation)
    }

    fn plan(&self, _: usize, rank: u32) -> Plan {
        let hpio = &self.hpio;
        let (rank, own_bytes) = (u64::from(rank), hpio.region_count * hpio.region_size);
        let contiguous = |length| Strided { first: rank * own_bytes, stride: length, length };
        let (regions, count) = if !hpio.is_file_contiguous() {
            let stride = hpio.stride() * u64::from(self.ranks);
            (Strided { first: hpio.stride() * rank, stride, length: hpio.region_size }, hpio.region_count)
        } else if hpio.individual {
            (contiguous(hpio.region_size), hpio.region_count)
        } else {
            (contiguous(own_bytes), 1)
        };
        Plan {
            regions_per_request: if hpio.individual { 1 } else { count },
            period_bytes: self.file_bytes(),
            ..Plan::new(Box::new(regions), count)
        }
    }

    fn file_bytes(&self) -> u64 {
        let regions = u64::from(self.ranks) * self.hpio.region_count;
        match self.hpio.is_file_contiguous() {
            true => regions * self.hpio.region_size,
            false => regions * self.hpio.stride() - self.hpio.region_spacing,
        }
    }

    fn request_bytes_max(&self) -> u64 {
        self.hpio.region_size * if self.hpio.individual { 1 } else { self.hpio.region_count }
    }

    fn rate(&self) -> Rate {
        Rate::OpenToClose
    }
}
