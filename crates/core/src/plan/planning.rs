//! How a plan is made.
//!
//! Two passes over the requests: the first fills the gain table, from which regions are chosen; the second sums what is left to
//! either tier, from which the run time is predicted. A choice fits the requests it was made from better than those of the next run,
//! so that the prediction goes by requests the choice had not seen: each half of them under the choice made from the other.
//! Memory grows with regions and ranks, never with requests.

use std::collections::{BTreeMap, BTreeSet};

use super::prediction::Load;
use super::{Choice, Plan, PlanFile, PlanRegion};
use crate::cost::benefit::ParameterError;
use crate::cost::region::Costs;
use crate::cost::region::gain_table::{self, FileRegions, GainTable, RegionGain, RegionId, flash_bytes};
use crate::overlay::Capacity;
use crate::overlay::flash_space::PAGE_BYTES;
use crate::policy::carl::selection::{Candidate, select};
use crate::policy::random;
use crate::request::{Access, Direction, Range};

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
    #[error("there are more than {REGIONS_MAX} regions, found at {path}; choose larger ones than {region_bytes} bytes")]
    TooManyRegions {
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

/// Makes a plan. `requests` is called once for each of the two passes and gives the same requests each time, in any order. `file` is
/// asked once for each number, in their order from 0, when the first request for it or for a higher one comes: so that whoever reads
/// a trace need not know its files before.
///
/// # Errors
/// Senseless costs, regions too small or too many, requests that name no file or no possible range.
pub fn plan<I: Iterator<Item = Access>>(
    mut requests: impl FnMut() -> I,
    file: impl FnMut(u32) -> Option<TracedFile>,
    costs: &Costs,
    options: Options,
) -> Result<Plan, PlanningError> {
    costs.check().map_err(|(direction, error)| PlanningError::Costs { direction, error })?;
    let (halves, files, ends) = fill_tables(requests(), file, costs)?;
    let files = files.as_slice();
    let sizes: Vec<FileRegions> = (files.iter().zip(&ends))
        .map(|(file, end)| FileRegions {
            size_bytes: file.size_bytes.unwrap_or(*end).min(i64::MAX as u64),
            region_bytes: file.whole_pages(),
        })
        .collect();
    let total_bytes = sizes.iter().map(|file| file.size_bytes).fold(0, u64::saturating_add);
    let capacity_bytes = match options.capacity {
        Capacity::Bytes(bytes) => bytes,
        Capacity::Share(share) => (total_bytes as f64 * share) as u64,
    };
    let mut table = halves[0].clone();
    for (id, gain) in &halves[1] {
        table.entry(*id).or_default().add(gain);
    }
    let best = |table: &Table| {
        let candidate = |(id, region): (&RegionId, &RegionGain)| Candidate {
            id: *id,
            gain_ns: region.gain_ns(),
            flash_bytes: flash_bytes(sizes[id.0 as usize].range(id.1)),
        };
        select(table.iter().map(candidate).collect(), capacity_bytes).into_iter().collect()
    };
    // Of each half of the requests is predicted what the choice made from the other half does for it.
    let (chosen, unseen): (BTreeSet<RegionId>, [BTreeSet<RegionId>; 2]) = match options.choice {
        Choice::Gain => (best(&table), [best(&halves[1]), best(&halves[0])]),
        Choice::Random(seed) => {
            check_count(files, &sizes)?;
            let drawn = random::choose((0..).zip(sizes.iter().copied()), capacity_bytes, seed);
            (drawn.clone(), [drawn.clone(), drawn])
        }
    };
    let (mut load, mut halving) = (Load::new(costs), Halving::default());
    for access in requests() {
        let file = file_of(files, &access)?;
        let chosen = &unseen[halving.half(access.rank)];
        let parts = gain_table::parts(access.range, file.whole_pages());
        load.add(&access, parts.map(|(number, part)| (part, chosen.contains(&(access.file, number)))));
    }
    let files =
        (0u32..).zip(files).map(|(number, file)| plan_file(number, file, sizes[number as usize], &table, &chosen));
    Ok(Plan { capacity_bytes, choice: options.choice, prediction: load.predict(), files: files.collect() })
}

/// The file a request is for.
fn file_of<'a>(files: &'a [TracedFile], access: &Access) -> Result<&'a TracedFile, PlanningError> {
    let file = files.get(access.file as usize);
    file.ok_or(PlanningError::UnknownFile { file: access.file, files: files.len() })
}

/// Divides the requests of each rank in two, by a hash of their number, so that no pattern of the program's falls together with it.
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

/// The gain tables of both halves of the requests, the files, and the end of each file's last request.
type FirstPass = ([Table; 2], Vec<TracedFile>, Vec<u64>);

fn fill_tables(
    requests: impl Iterator<Item = Access>,
    mut file: impl FnMut(u32) -> Option<TracedFile>,
    costs: &Costs,
) -> Result<FirstPass, PlanningError> {
    let mut tables = [GainTable::new(costs.clone()), GainTable::new(costs.clone())];
    let mut halving = Halving::default();
    let (mut files, mut ends): (Vec<TracedFile>, Vec<u64>) = (Vec::new(), Vec::new());
    for access in requests {
        while files.len() <= access.file as usize {
            let unknown = PlanningError::UnknownFile { file: access.file, files: files.len() };
            let next = file(files.len() as u32).ok_or(unknown)?;
            if next.region_bytes < PAGE_BYTES {
                return Err(PlanningError::RegionTooSmall { region_bytes: next.region_bytes });
            }
            files.push(next);
            ends.push(0);
        }
        let file = file_of(&files, &access)?;
        let Range { offset, length } = access.range;
        if offset.saturating_add(length) > i64::MAX as u64 {
            return Err(PlanningError::ImpossibleRange { path: file.path.clone(), offset, length });
        }
        let regions = tables.iter().map(|table| table.count() as u64).max().unwrap_or(0) + length / file.whole_pages();
        if regions > REGIONS_MAX {
            return Err(PlanningError::TooManyRegions { path: file.path.clone(), region_bytes: file.region_bytes });
        }
        let table = &mut tables[halving.half(access.rank)];
        table.add(access.file, file.whole_pages(), access.direction, access.range);
        ends[access.file as usize] = access.range.end().max(ends[access.file as usize]);
    }
    Ok((tables.map(GainTable::into_regions), files, ends))
}

fn check_count(files: &[TracedFile], sizes: &[FileRegions]) -> Result<(), PlanningError> {
    let mut count = 0u64;
    for (file, size) in files.iter().zip(sizes) {
        count = count.saturating_add(size.count());
        if count > REGIONS_MAX {
            return Err(PlanningError::TooManyRegions { path: file.path.clone(), region_bytes: file.region_bytes });
        }
    }
    Ok(())
}

fn plan_file(
    number: u32,
    file: &TracedFile,
    size: FileRegions,
    table: &Table,
    chosen: &BTreeSet<RegionId>,
) -> PlanFile {
    let own = (number, 0)..=(number, u64::MAX);
    let mut ids: BTreeSet<RegionId> = table.range(own.clone()).map(|(id, _)| *id).collect();
    ids.extend(chosen.range(own));
    let region = |id: &RegionId| {
        let gain = table.get(id).copied().unwrap_or_default();
        PlanRegion {
            range: size.range(id.1),
            gain_ns: gain.gain_ns(),
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
