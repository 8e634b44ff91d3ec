//! What the measurements of a tier say of it, and what the models of both say then.

use serde::Serialize;

use super::fit_error::FitError;
use super::latencies::StartupRange;
use super::load::{BLOCK_BYTES, Load, Measured, Pattern};
use super::rates::{self, Cell, Rates};
use super::schedule::{LEAP_BYTES, LEAP_STRIDE_BYTES, PIECE_STRIDE_BYTES};
use super::seek::Seek;
use super::transfer::Transfer;
use headstart_policy::cost::{benefit, region};
use headstart_units::request::Direction;
use headstart_units::{KIB, MIB};

/// LiU's share of latencies that a head must outlast.
pub const POSITIONING_SHARE: f64 = 0.8;

/// How a tier's file system spreads files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Striping {
    /// Servers of a file.
    pub servers: u32,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
}

/// What requests of one direction cost a tier that serves nothing else.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// Latency by request size, one request at a time.
    pub transfer: Transfer,
    /// CARL's [a, b].
    pub startup: StartupRange,
    /// β of CARL, seconds of a byte of the largest sub-request.
    pub s_per_byte: f64,
    /// Of CARL's prediction of latencies by size.
    pub error: FitError,
    /// The fastest stream, bytes per second.
    pub sequential_bytes_per_s: f64,
    /// The most that any load got, bytes per second.
    pub peak_bytes_per_s: f64,
}

/// The disks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disk {
    /// The latency that four fifths of small random reads over all that was measured do not exceed, seconds.
    pub p80_s: f64,
    /// Arm and spindle.
    pub seek: Seek,
    /// Reads.
    pub read: Costs,
    /// Writes, if any were measured.
    pub write: Option<Costs>,
}

/// Flash.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flash {
    /// The median latency of small random reads, seconds.
    pub p50_s: f64,
    /// Reads.
    pub read: Costs,
    /// Writes, if any were measured.
    pub write: Option<Costs>,
}

/// LiU's segment: a head on flash, a body on disk.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Segment {
    /// Peak rate times the latency of [`POSITIONING_SHARE`], bytes.
    pub head_bytes_least: f64,
    /// That, up to the next 256 KiB.
    pub head_bytes: u64,
    /// The knee of throughput by request size, up to the next MiB.
    pub body_bytes: u64,
    /// How long flash takes for a head, seconds.
    pub flash_head_s: f64,
    /// How long the disk takes to begin, seconds.
    pub positioning_s: f64,
}

impl Segment {
    /// Whether flash is done with a head when the disk begins.
    pub fn hides_positioning(&self) -> bool {
        self.flash_head_s < self.positioning_s
    }
}

/// What was not measured, so that nothing can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too little was measured of {0}")]
pub struct Missing(pub &'static str);

/// The one of these with the widest span, among equals the first.
fn widest(measured: &[Measured], matches: impl Fn(&Load) -> bool) -> Option<&Measured> {
    let found = measured.iter().filter(|found| found.latencies.count() > 0 && matches(&found.load));
    found.fold(None, |best, found| match best {
        Some(best) if best.load.span_bytes >= found.load.span_bytes => Some(best),
        _ => Some(found),
    })
}

/// Random requests of a size, one at a time, over all that was measured.
pub fn random(measured: &[Measured], direction: Direction, size_bytes: u64, depth: u32) -> Option<&Measured> {
    widest(measured, |load| {
        (load.pattern, load.direction, load.size_bytes, load.depth) == (Pattern::Random, direction, size_bytes, depth)
    })
}

/// (bytes, mean seconds) of random requests, `depth` at a time.
pub(crate) fn by_size(measured: &[Measured], direction: Direction, depth: u32) -> Vec<(u64, f64)> {
    let sizes = super::schedule::SIZES.into_iter();
    sizes
        .filter_map(|size| Some((size, random(measured, direction, size, depth)?.latencies.trimmed_mean_s()?)))
        .collect()
}

impl Costs {
    /// From all loads of a tier.
    fn of(measured: &[Measured], direction: Direction, striping: Striping) -> Option<Costs> {
        let points = by_size(measured, direction, 1);
        let transfer = Transfer::fit(&points)?;
        let small = random(measured, direction, BLOCK_BYTES, 1)?;
        let startup = small.latencies.startup_range(BLOCK_BYTES as f64 * transfer.s_per_byte)?;
        let ours = measured.iter().filter(|found| found.load.direction == direction);
        let paired = |found: &&Measured| matches!(found.load.pattern, Pattern::Again | Pattern::Seek { .. });
        let ours = ours.filter(|found| !paired(found));
        let peak_bytes_per_s = ours.clone().filter_map(Measured::bytes_per_s).reduce(f64::max)?;
        let streams = ours.filter(|found| found.load.pattern == Pattern::Sequential);
        let sequential_bytes_per_s = streams.filter_map(Measured::bytes_per_s).reduce(f64::max)?;
        let mut model = region::Parameters {
            hdd_servers: striping.servers,
            ssd_servers: 1,
            stripe_bytes: striping.stripe_bytes,
            hdd_startup_s_min: startup.min_s,
            hdd_startup_s_max: startup.max_s,
            hdd_s_per_byte: 0.0,
            ssd_s_per_byte: 0.0,
            ssd_startup_s: 0.0,
            ssd_busy_s_per_byte: None,
            near_stays: false,
            interleaved_stays: false,
        };
        // Least squares of the relative error, through each size's startup.
        let terms = points.iter().map(|&(size, seconds)| {
            let bytes = region::largest_part(size, striping.stripe_bytes, striping.servers) as f64;
            (bytes / seconds, 1.0 - model.disk_s(size) / seconds)
        });
        let (product, square) = terms.fold((0.0, 0.0), |sum, (x, y)| (sum.0 + x * y, sum.1 + x * x));
        model.hdd_s_per_byte = (product / square).max(0.0);
        let error = FitError::of(points.iter().map(|&(size, seconds)| (seconds, model.disk_s(size))));
        let s_per_byte = model.hdd_s_per_byte;
        Some(Costs { transfer, startup, s_per_byte, error, sequential_bytes_per_s, peak_bytes_per_s })
    }
}

impl Disk {
    /// From all loads of the slow tier.
    pub fn of(measured: &[Measured], striping: Striping) -> Result<Disk, Missing> {
        let read = Costs::of(measured, Direction::Read, striping).ok_or(Missing("random reads of the slow tier"))?;
        let small = random(measured, Direction::Read, BLOCK_BYTES, 1).ok_or(Missing("small reads of the slow tier"))?;
        let p80_s = small.latencies.quantile_s(POSITIONING_SHARE).ok_or(Missing("small reads of the slow tier"))?;
        let again = widest(measured, |load| load.pattern == Pattern::Again).ok_or(Missing("repeated reads"))?;
        let seeks: Vec<_> = measured
            .iter()
            .filter_map(|found| match found.load.pattern {
                Pattern::Seek { distance_bytes } => Some((distance_bytes, &found.latencies)),
                _ => None,
            })
            .collect();
        let seek = Seek::of(&again.latencies, &seeks).ok_or(Missing("seeks"))?;
        Ok(Disk { p80_s, seek, read, write: Costs::of(measured, Direction::Write, striping) })
    }
}

impl Flash {
    /// From all loads of the fast tier.
    pub fn of(measured: &[Measured], striping: Striping) -> Result<Flash, Missing> {
        let read = Costs::of(measured, Direction::Read, striping).ok_or(Missing("random reads of the fast tier"))?;
        let small = random(measured, Direction::Read, BLOCK_BYTES, 1).and_then(|found| found.latencies.quantile_s(0.5));
        let p50_s = small.ok_or(Missing("small reads of the fast tier"))?;
        Ok(Flash { p50_s, read, write: Costs::of(measured, Direction::Write, striping) })
    }
}

/// LiU's segment (MASCOTS'13, §II-B), on one of the data servers: LiU works beneath the striping.
pub fn segment(disk: &Disk, slow: Striping, flash: &Flash) -> Segment {
    let share = |bytes: f64| bytes / f64::from(slow.servers);
    let head_bytes_least = share(disk.read.sequential_bytes_per_s) * disk.p80_s;
    let up = |bytes: f64, unit: u64| (bytes / unit as f64).ceil().max(1.0) as u64 * unit;
    let head_bytes = up(head_bytes_least, 256 * KIB);
    Segment {
        head_bytes_least,
        head_bytes,
        body_bytes: up(share(disk.read.transfer.knee_bytes()), MIB),
        flash_head_s: flash.read.transfer.startup_s + head_bytes as f64 * flash.read.s_per_byte,
        positioning_s: disk.p80_s,
    }
}

/// Requests measured in both tiers with all ranks at work.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    /// Random and in order: what S4D's rates are fitted to.
    pub priced: Vec<Cell>,
    /// In order with gaps, which the equations do not tell from those without.
    pub gapped: Vec<Cell>,
    /// Of all ranks together in order, which look to each of them like gaps.
    pub interleaved: Vec<Cell>,
}

/// The cells of one direction.
pub fn cells(slow: &[Measured], fast: &[Measured], direction: Direction, ranks: u32) -> Cells {
    let of = |patterns: &[Pattern]| cells_of(patterns, slow, fast, direction, ranks);
    Cells {
        priced: of(&[Pattern::Random, Pattern::Parts]),
        gapped: of(&[Pattern::Gapped]),
        interleaved: of(&[Pattern::Sequential]),
    }
}

fn cells_of(patterns: &[Pattern], slow: &[Measured], fast: &[Measured], direction: Direction, ranks: u32) -> Vec<Cell> {
    let at_work = |load: &Load| load.direction == direction && load.depth == ranks && patterns.contains(&load.pattern);
    let pairs = slow.iter().filter(|found| at_work(&found.load)).filter_map(|disk| {
        let Load { pattern, size_bytes, .. } = disk.load;
        let same = |load: &Load| at_work(load) && load.pattern == pattern && load.size_bytes == size_bytes;
        Some(Cell {
            size_bytes,
            is_random: pattern == Pattern::Random,
            hdd_latency_s: disk.mean_s()?,
            ssd_latency_s: widest(fast, same)?.mean_s()?,
        })
    });
    pairs.collect()
}

/// S4D's parameters of one direction (Table I); in how many of the priced cells they name the faster tier.
pub fn s4d(
    direction: Direction,
    disk: &Disk,
    slow: Striping,
    fast: Striping,
    span_bytes: u64,
    cells: &Cells,
) -> Result<(benefit::Parameters, usize), Missing> {
    let mut parameters = benefit::Parameters {
        hdd_servers: slow.servers,
        ssd_servers: fast.servers,
        stripe_bytes: slow.stripe_bytes,
        rotation_s: disk.seek.rotation_s,
        seek_s_max: disk.seek.longest_s(),
        seek_curve: disk.seek.curve.clone(),
        ..benefit::Parameters::default()
    };
    let rates =
        rates::effective(&parameters, span_bytes, &cells.priced).ok_or(Missing("requests of all ranks at once"))?;
    let Rates { hdd_s_per_byte, ssd_s_per_byte } = rates;
    (parameters.hdd_s_per_byte, parameters.ssd_s_per_byte) = (hdd_s_per_byte, ssd_s_per_byte);
    parameters.near_stays = rates::nears_stay(direction, &cells.priced, &cells.gapped);
    parameters.interleaved_stays = rates::interleaved_stay(direction, &cells.priced, &cells.interleaved);
    let agree = cells.priced.iter().filter(|cell| cell.agrees(cell.benefit_s(&parameters, span_bytes))).count();
    Ok((parameters, agree))
}

/// Short pieces with gaps, written one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pieces {
    /// Mean latency with a block between them, seconds.
    pub in_order_s: f64,
    /// With leaps of [`LEAP_BYTES`], which cost another round for what is leapt over.
    pub with_leaps_s: f64,
}

impl Pieces {
    /// What was found of the disks, if writes were measured.
    pub fn of(slow: &[Measured]) -> Option<Pieces> {
        let mean_s = |stride_bytes| {
            let pattern = Pattern::Pieces { stride_bytes };
            slow.iter().find(|found| found.load.pattern == pattern).and_then(Measured::mean_s)
        };
        Some(Pieces { in_order_s: mean_s(PIECE_STRIDE_BYTES)?, with_leaps_s: mean_s(LEAP_STRIDE_BYTES)? })
    }

    /// What write-back leaps over: nothing unless it saves much.
    pub fn leap_bytes(self) -> u32 {
        match self.with_leaps_s < LEAPS_TIME_MAX * self.in_order_s {
            true => LEAP_BYTES,
            false => 0,
        }
    }
}

/// Of the time in order; assumed: enough for leaps to be worth it also where caches beneath the disks are
/// larger than what was measured.
const LEAPS_TIME_MAX: f64 = 0.5;

/// CARL's parameters of one direction (Table II), with what was found for S4D of requests that follow each other.
pub fn carl(
    disk: &Costs,
    slow: Striping,
    flash: &Costs,
    fast: Striping,
    s4d: &benefit::Parameters,
) -> region::Parameters {
    region::Parameters {
        hdd_servers: slow.servers,
        ssd_servers: fast.servers,
        stripe_bytes: slow.stripe_bytes,
        hdd_startup_s_min: disk.startup.min_s,
        hdd_startup_s_max: disk.startup.max_s,
        hdd_s_per_byte: disk.s_per_byte,
        ssd_s_per_byte: flash.s_per_byte,
        ssd_startup_s: flash.transfer.startup_s,
        ssd_busy_s_per_byte: Some((f64::from(fast.servers) / flash.peak_bytes_per_s).min(flash.s_per_byte)),
        near_stays: s4d.near_stays,
        interleaved_stays: s4d.interleaved_stays,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_back_leaps_where_that_halves_the_time_of_a_piece() {
        let leap_bytes = |with_leaps_s| Pieces { in_order_s: 0.02, with_leaps_s }.leap_bytes();
        assert_eq!([0.004, 0.009, 0.011, 0.05].map(leap_bytes), [LEAP_BYTES, LEAP_BYTES, 0, 0]);
    }
}
