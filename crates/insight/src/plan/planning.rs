//! How a plan is made.
//!
//! Two passes over the requests: the first fills the gain table, from which regions are chosen; the second
//! sums what is left to either tier, from which the run time is predicted. A choice fits the requests it was
//! made from better than those of the next run, so that the prediction goes by requests the choice had not
//! seen: each half of them under the choice made from the other. Memory grows with regions and ranks, never
//! with requests.

use std::collections::{BTreeMap, BTreeSet};

use super::document::{Choice, Plan, PlanFile, PlanRegion};
use super::prediction::Load;
use crate::software::Software;
use headstart_policy::client::carl::selection::{Candidate, select};
use headstart_policy::client::random;
use headstart_policy::cost::benefit::ParameterError;
use headstart_policy::cost::region::Costs;
use headstart_policy::cost::region::gain_table;
use headstart_policy::cost::region::gain_table::{FileRegions, GainTable, Known, RegionGain, RegionId, flash_bytes};
use headstart_policy::order::{Distance, Tracks};
use headstart_units::Capacity;
use headstart_units::PAGE_BYTES;
use headstart_units::request::{Access, Direction, Range};

/// Regions of a plan at most: as many of 64 MiB are 64 TiB.
pub const REGIONS_MAX: u64 = 1 << 20;

/// Regions that were touched.
type Table = BTreeMap<RegionId, RegionGain>;

/// A file whose requests were traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedFile {
    /// Where it was.
    pub path: String,
    /// Its inode then, if the trace says.
    pub inode: Option<u64>,
    /// Its size when the run had ended; the end of the last request if nobody knows.
    pub size_bytes: Option<u64>,
    /// Length of its regions; rounded down to whole pages of flash, as regions that share a page would take it twice.
    pub region_bytes: u64,
}

impl TracedFile {
    /// Length of its regions in whole pages.
    fn whole_pages(&self) -> u64 {
        self.region_bytes / PAGE_BYTES * PAGE_BYTES
    }
}

/// What a plan is made for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The flash there is; a share is one of the sizes of all files with requests.
    pub capacity: Capacity,
    /// How regions are chosen.
    pub choice: Choice,
    /// What software takes of processors, for the predicted time.
    pub software: Software,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanningError {
    /// The cost model makes no sense.
    #[error("cost model of {}: {error}", if *.direction == Direction::Read { "reads" } else { "writes" })]
    Costs {
        /// Whose.
        direction: Direction,
        /// What is wrong.
        error: ParameterError,
    },
    /// Flash is handed out in pages.
    #[error("regions of {region_bytes} bytes are too small; at least {PAGE_BYTES}, the page of flash")]
    RegionTooSmall {
        /// What was asked for.
        region_bytes: u64,
    },
    /// The table would not fit.
    #[error("there are more than {regions_max} regions, found at {path}; choose larger ones than {region_bytes} bytes")]
    TooManyRegions {
        /// How many there may be.
        regions_max: u64,
        /// The file at which that was found.
        path: String,
        /// Its regions' length.
        region_bytes: u64,
    },
    /// A request names no file of the list.
    #[error("a request is for file {file}, but {files} files were traced")]
    UnknownFile {
        /// The number in the request.
        file: u32,
        /// How many files there are.
        files: usize,
    },
    /// No file is that long.
    #[error("a request for {length} bytes at {offset} of {path} is impossible: no file is longer than 2^63 - 1 bytes")]
    ImpossibleRange {
        /// The file.
        path: String,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
}

/// Makes a plan. `requests` is called once for each of the two passes and gives the same requests each time,
/// each rank's in order. `file` is asked once for each number, in their order from 0, when the first request
/// for it or for a higher one comes: so that whoever reads a trace need not know its files before.
///
/// # Errors
/// Senseless costs, regions too small or too many, requests that name no file or no possible range.
pub fn plan<I: Iterator<Item = Access>>(
    mut requests: impl FnMut() -> I,
    mut file: impl FnMut(u32) -> Option<TracedFile>,
    costs: &Costs,
    options: Options,
) -> Result<Plan, PlanningError> {
    costs.check().map_err(|(direction, error)| PlanningError::Costs { direction, error })?;
    let mut survey = Survey::new(costs, REGIONS_MAX);
    for access in requests() {
        survey.add(&access, &mut file)?;
    }
    let surveyed = survey.finish();
    let capacity_bytes = match options.capacity {
        Capacity::Bytes(bytes) => bytes,
        Capacity::Share(share) => (surveyed.total_bytes as f64 * share) as u64,
    };
    let Chosen { regions, unseen } = surveyed.choose(capacity_bytes, options.choice)?;
    let (mut load, mut halving) = (Load::new(costs, options.software), Halving::default());
    for access in requests() {
        let file = file_of(&surveyed.files, &access)?;
        let chosen = &unseen[halving.half(access.rank)];
        let parts = gain_table::parts(access.range, file.whole_pages());
        load.add(&access, parts.map(|(number, part)| (part, chosen.contains(&(access.file, number)))));
    }
    let files = (0u32..).zip(&surveyed.files).map(|(number, file)| {
        plan_file(number, file, surveyed.sizes[number as usize], &surveyed.table, &regions, options.choice)
    });
    Ok(Plan { capacity_bytes, choice: options.choice, prediction: load.predict(), files: files.collect() })
}

impl Choice {
    /// What a region gains, nanoseconds, where regions have `region_bytes`.
    pub(crate) fn gain_ns(self, region: &RegionGain, region_bytes: u64) -> i64 {
        match self {
            Choice::BesideS4d => region.gain_beside_s4d_ns(region_bytes),
            Choice::Gain | Choice::Random(_) => region.gain_ns(region_bytes),
        }
    }
}

/// The file a request is for.
fn file_of<'a>(files: &'a [TracedFile], access: &Access) -> Result<&'a TracedFile, PlanningError> {
    let file = files.get(access.file as usize);
    file.ok_or(PlanningError::UnknownFile { file: access.file, files: files.len() })
}

/// Divides the requests of each rank in two, by a hash of their number, so that no pattern of the program's
/// falls together with it.
#[derive(Default)]
struct Halving {
    counts: BTreeMap<u32, u64>,
}

impl Halving {
    fn half(&mut self, rank: u32) -> usize {
        let count = self.counts.entry(rank).or_default();
        *count += 1;
        let mixed = (*count ^ (u64::from(rank) << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 63) as usize
    }
}

/// The gain tables of both halves of the requests, and the files, while requests come.
pub(crate) struct Survey {
    tables: [GainTable; 2],
    /// Where each rank is: some requests that follow others gain nothing.
    tracks: Tracks,
    costs: Costs,
    halving: Halving,
    files: Vec<TracedFile>,
    /// End of each file's last request.
    ends: Vec<u64>,
    regions_max: u64,
}

impl Survey {
    pub(crate) fn new(costs: &Costs, regions_max: u64) -> Survey {
        let tables = [GainTable::new(costs.clone()), GainTable::new(costs.clone())];
        Survey {
            tables,
            tracks: Tracks::default(),
            costs: costs.clone(),
            halving: Halving::default(),
            files: Vec::new(),
            ends: Vec::new(),
            regions_max,
        }
    }

    /// Adds a request and says to which half it belongs, and how it lies to those before it.
    pub(crate) fn add(
        &mut self,
        access: &Access,
        file: &mut impl FnMut(u32) -> Option<TracedFile>,
    ) -> Result<(usize, Distance), PlanningError> {
        while self.files.len() <= access.file as usize {
            let unknown = PlanningError::UnknownFile { file: access.file, files: self.files.len() };
            let next = file(self.files.len() as u32).ok_or(unknown)?;
            if next.region_bytes < PAGE_BYTES {
                return Err(PlanningError::RegionTooSmall { region_bytes: next.region_bytes });
            }
            self.files.push(next);
            self.ends.push(0);
        }
        let file = file_of(&self.files, access)?;
        let Range { offset, length } = access.range;
        if offset.saturating_add(length) > i64::MAX as u64 {
            return Err(PlanningError::ImpossibleRange { path: file.path.clone(), offset, length });
        }
        let touched = self.tables.iter().map(|table| table.count() as u64).max().unwrap_or(0);
        if touched + length / file.whole_pages() > self.regions_max {
            return Err(too_many(file, self.regions_max));
        }
        let half = self.halving.half(access.rank);
        let table = &mut self.tables[half];
        let distance = self.tracks.advance(access);
        let costs = self.costs.of(access.direction);
        // As S4D decides it.
        let stays = distance.stays(costs.near_stays, costs.interleaved_stays);
        let is_timed = access.without_flash && access.end > access.start;
        let took = is_timed.then(|| access.end.since(access.start));
        let known = if stays { Known::Stays } else { took.map_or(Known::Nothing, Known::Took) };
        table.add(access.file, file.whole_pages(), access.direction, access.range, known);
        self.ends[access.file as usize] = access.range.end().max(self.ends[access.file as usize]);
        Ok((half, distance))
    }

    /// Length of a file's regions; the file had a request.
    pub(crate) fn region_bytes(&self, file: u32) -> u64 {
        self.files[file as usize].whole_pages()
    }

    pub(crate) fn finish(self) -> Surveyed {
        let halves = self.tables.map(GainTable::into_regions);
        let size = |(file, end): (&TracedFile, &u64)| FileRegions {
            size_bytes: file.size_bytes.unwrap_or(*end).min(i64::MAX as u64),
            region_bytes: file.whole_pages(),
        };
        let sizes: Vec<FileRegions> = self.files.iter().zip(&self.ends).map(size).collect();
        let total_bytes = sizes.iter().map(|file| file.size_bytes).fold(0, u64::saturating_add);
        let mut table = halves[0].clone();
        for (id, gain) in &halves[1] {
            table.entry(*id).or_default().add(gain);
        }
        Surveyed { halves, table, files: self.files, sizes, total_bytes, regions_max: self.regions_max }
    }
}

/// What all requests came to.
pub(crate) struct Surveyed {
    halves: [Table; 2],
    /// Both halves together.
    pub(crate) table: Table,
    pub(crate) files: Vec<TracedFile>,
    pub(crate) sizes: Vec<FileRegions>,
    pub(crate) total_bytes: u64,
    regions_max: u64,
}

/// The regions for flash, and those that are chosen for requests of either half, which the choice had not seen.
#[derive(PartialEq)]
pub(crate) struct Chosen {
    pub(crate) regions: BTreeSet<RegionId>,
    pub(crate) unseen: [BTreeSet<RegionId>; 2],
}

impl Surveyed {
    pub(crate) fn choose(&self, capacity_bytes: u64, choice: Choice) -> Result<Chosen, PlanningError> {
        let best = |table: &Table| {
            let candidate = |(id, region): (&RegionId, &RegionGain)| Candidate {
                id: *id,
                gain_ns: choice.gain_ns(region, self.sizes[id.0 as usize].region_bytes),
                flash_bytes: flash_bytes(self.sizes[id.0 as usize].range(id.1)),
            };
            select(table.iter().map(candidate).collect(), capacity_bytes).into_iter().collect()
        };
        // Of each half of the requests is predicted what the choice made from the other half does for it.
        match choice {
            Choice::Gain | Choice::BesideS4d => {
                let unseen = [best(&self.halves[1]), best(&self.halves[0])];
                Ok(Chosen { regions: best(&self.table), unseen })
            }
            Choice::Random(seed) => {
                self.check_count()?;
                let drawn = random::choose((0..).zip(self.sizes.iter().copied()), capacity_bytes, seed);
                Ok(Chosen { regions: drawn.clone(), unseen: [drawn.clone(), drawn] })
            }
        }
    }

    /// Whether all regions, touched or not, are few enough to draw from.
    fn check_count(&self) -> Result<(), PlanningError> {
        let mut count = 0u64;
        for (file, size) in self.files.iter().zip(&self.sizes) {
            count = count.saturating_add(size.count());
            if count > self.regions_max {
                return Err(too_many(file, self.regions_max));
            }
        }
        Ok(())
    }
}

fn too_many(file: &TracedFile, regions_max: u64) -> PlanningError {
    PlanningError::TooManyRegions { regions_max, path: file.path.clone(), region_bytes: file.region_bytes }
}

fn plan_file(
    number: u32,
    file: &TracedFile,
    size: FileRegions,
    table: &Table,
    chosen: &BTreeSet<RegionId>,
    choice: Choice,
) -> PlanFile {
    let own = (number, 0)..=(number, u64::MAX);
    let mut ids: BTreeSet<RegionId> = table.range(own.clone()).map(|(id, _)| *id).collect();
    ids.extend(chosen.range(own));
    let region = |id: &RegionId| {
        let gain = table.get(id).copied().unwrap_or_default();
        PlanRegion {
            range: size.range(id.1),
            gain_ns: choice.gain_ns(&gain, size.region_bytes),
            reads: gain.reads,
            writes: gain.writes,
            bytes: gain.bytes,
            place: chosen.contains(id),
        }
    };
    // What was asked for beyond the end of the file is of no region.
    let regions = ids.iter().map(region).filter(|region| !region.range.is_empty()).collect();
    PlanFile { path: file.path.clone(), inode: file.inode, size_bytes: size.size_bytes, regions }
}
