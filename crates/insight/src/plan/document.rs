//! What a plan says: the files that were asked for, their regions, and which of those belong on flash.

use headstart_policy::client::carl::{Regions, Wanted};
use headstart_policy::cost::region::gain_table::flash_bytes;
use headstart_units::request::Range;

use super::prediction::Prediction;

/// How regions are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// CARL: by gain.
    #[default]
    Gain,
    /// By what is gained beside S4D, which absorbs what is written for the first time: for the chain of both.
    BesideS4d,
    /// RANDOM: drawn with this seed.
    Random(u64),
}

/// One region and what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanRegion {
    /// Its bytes in the file.
    pub range: Range,
    /// Its gain (eq. 9, or as the choice counts it), nanoseconds.
    pub gain_ns: i64,
    /// Requests to read, parts of longer ones included.
    pub reads: u64,
    /// Requests to write, likewise.
    pub writes: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// Whether it belongs on flash.
    pub place: bool,
}

/// One file and its regions, by offset; those nobody asked for are left out unless chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanFile {
    /// Where it was when traced.
    pub path: String,
    /// Its inode then, if the trace says.
    pub inode: Option<u64>,
    /// Its size then.
    pub size_bytes: u64,
    /// The regions.
    pub regions: Vec<PlanRegion>,
}

impl PlanFile {
    /// The policy of this file: its chosen regions.
    pub fn wanted(&self) -> Regions {
        Regions::new(self.regions.iter().filter(|region| region.place).map(|region| Wanted {
            range: region.range,
            benefit_ns: (region.gain_ns.max(0) as u64) / (region.reads + region.writes).max(1),
            gain_ns: region.gain_ns.max(0) as u64,
        }))
    }
}

/// A plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The flash it was made for, bytes.
    pub capacity_bytes: u64,
    /// How regions were chosen.
    pub choice: Choice,
    /// What it promises.
    pub prediction: Prediction,
    /// The files for which there were requests, by their numbers.
    pub files: Vec<PlanFile>,
}

impl Plan {
    /// Bytes of flash that the chosen regions take.
    pub fn placed_bytes(&self) -> u64 {
        let regions = self.files.iter().flat_map(|file| &file.regions).filter(|region| region.place);
        regions.map(|region| flash_bytes(region.range)).fold(0, u64::saturating_add)
    }
}
