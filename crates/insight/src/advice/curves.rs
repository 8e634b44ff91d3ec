//! Run times by policy and capacity, from what was collected.

use std::collections::{BTreeMap, BTreeSet};

use super::cells::{CellId, Crossing, CrossingId};
use super::collector::Collected;
use super::gains::{Gains, RegionSummary};
use super::knee::knee;
use super::recommendation::{columns, recommend};
use super::report::{Advice, Curve, FileSummary, POINTS, Point, Policy, Recommendation, TracedRun};
use super::reuse::Flash;
use super::room::{OnFlash, Room};
use crate::plan::planning::Chosen;
use crate::plan::prediction::{Fitted, Load, Portion, Prediction, Rank};
use crate::plan::{Choice, PlanningError};
use crate::software::Software;
use headstart_policy::client::carl::selection::Candidate;
use headstart_policy::cost::region::gain_table::{RegionId, flash_bytes, parts};
use headstart_units::request::{Direction, Range};

/// Flash that S4D keeps free, at least: a 32nd (`overlay/src/parts/reserve.rs`).
const RESERVE: f64 = 1.0 / 32.0;

/// Share of flash that is dirty while write-back is behind: `dirty_full`.
const DIRTY: f64 = 0.9;

/// Of the time for which a read keeps a flash server, what writes lose by it, since a link carries both ways
/// at once (assumed: of 0 to 0.5 nearest to runs on emulated servers).
const READS_DELAY: f64 = 0.3;

/// Share of the pieces written back for which a disk starts anew, although the gap before them would pass
/// sooner (assumed: of 0.2 to 0.5 it is nearest to simulated runs).
const STARTS: f64 = 0.3;

/// A group of ranks and a kind of request: writes or reads, critical or not.
type Kinds<T> = BTreeMap<(u32, bool, bool), T>;

/// Requests by what a plan does with them.
#[derive(Default)]
struct Split {
    /// Those to its regions, by group.
    placed: BTreeMap<u32, Portion>,
    /// The others.
    rest: Kinds<Portion>,
}

/// Shares of the requests that a plan leaves that move to flash.
#[derive(Clone, Copy, Default)]
struct Moved {
    /// Of reads, not critical and critical.
    reads: [f64; 2],
    /// Of critical writes.
    writes: f64,
}

impl Moved {
    fn share(&self, is_write: bool, is_critical: bool) -> f64 {
        match (is_write, is_critical) {
            (true, critical) => {
                if critical {
                    self.writes
                } else {
                    0.0
                }
            }
            (false, critical) => self.reads[usize::from(critical)],
        }
    }
}

impl Collected {
    /// The advice.
    pub(crate) fn advice(self, software: Software) -> Result<Advice, PlanningError> {
        let unplaced = self.split(None);
        let load = self.load(&unplaced, Moved::default());
        let fitted = load.fit();
        let Prediction { measured_s, before_s, .. } = load.predict_fitted(&fitted);
        let mut curves: Vec<Curve> = Policy::ALL.map(|policy| Curve { policy, points: Vec::new(), knee: None }).into();
        for number in 0..POINTS {
            let share = number as f64 / (POINTS - 1) as f64;
            let capacity_bytes = (self.surveyed.total_bytes as f64 * share) as u64;
            let off = Point { capacity_bytes, run_s: before_s, flash_share: 0.0, used_bytes: 0 };
            let at = At { all: &self, fitted: &fitted, software, off };
            let chosen = self.surveyed.choose(capacity_bytes, Choice::Gain)?;
            let carl = self.split(Some(&chosen));
            let beside = self.surveyed.choose(capacity_bytes, Choice::BesideS4d)?;
            // Where bytes are only read, or written again and again, it is the same choice.
            let other_split = (beside != chosen).then(|| self.split(Some(&beside)));
            for curve in &mut curves {
                curve.points.push(match curve.policy {
                    _ if capacity_bytes == 0 => off,
                    Policy::Off => off,
                    Policy::Carl => at.placed(&carl, &chosen),
                    Policy::S4d => at.s4d(&unplaced, None, true),
                    Policy::S4dFirst => at.s4d(&unplaced, None, false),
                    Policy::CarlS4d => at.s4d(other_split.as_ref().unwrap_or(&carl), Some(&beside), false),
                    Policy::Random => match self.surveyed.choose(capacity_bytes, Choice::Random(0)) {
                        Ok(drawn) => at.placed(&self.split(Some(&drawn)), &drawn),
                        // Too many untouched regions to draw from.
                        Err(_) => continue,
                    },
                });
            }
        }
        curves.retain(|curve| curve.points.len() == POINTS);
        for curve in &mut curves {
            let (capacities, run_s) = columns(&curve.points);
            curve.knee = knee(&capacities, &run_s);
        }
        let recommendation = recommend(&curves);
        Ok(self.summary(curves, recommendation, measured_s, before_s))
    }

    /// Requests by what the choice does with them; all are left without one.
    fn split(&self, chosen: Option<&Chosen>) -> Split {
        let mut split = Split::default();
        // Cells come by group, then region: a region's name is looked up once for each.
        let mut last: Option<((RegionId, u8), bool)> = None;
        for (CellId { group, region, kind }, portion) in &self.cells {
            let key = (*region, kind.half);
            let is_placed = match last {
                Some((last, found)) if last == key => found,
                _ => chosen.is_some_and(|chosen| chosen.unseen[usize::from(kind.half)].contains(region)),
            };
            last = Some((key, is_placed));
            let sum = if is_placed {
                split.placed.entry(*group).or_default()
            } else {
                split.rest.entry((*group, kind.direction == Direction::Write, kind.is_critical)).or_default()
            };
            sum.add_share(portion, 1.0);
        }
        for (id, crossing) in &self.crossings {
            self.split_crossing(
                &mut split,
                chosen.map(|chosen| &chosen.unseen[usize::from(id.kind.half)]),
                id,
                crossing,
            );
        }
        split
    }

    /// Adds a request over several regions, cut where the choice differs.
    fn split_crossing(
        &self,
        split: &mut Split,
        chosen: Option<&BTreeSet<RegionId>>,
        id: &CrossingId,
        crossing: &Crossing,
    ) {
        let region_bytes = self.surveyed.sizes[id.file as usize].region_bytes;
        let mut runs: Vec<(Range, bool)> = Vec::new();
        match chosen {
            None => runs.push((id.range, false)),
            Some(chosen) => {
                for (number, part) in parts(id.range, region_bytes) {
                    let is_placed = chosen.contains(&(id.file, number));
                    match runs.last_mut() {
                        Some((run, same)) if *same == is_placed => run.length += part.length,
                        _ => runs.push((part, is_placed)),
                    }
                }
            }
        }
        let parameters = self.costs.of(id.kind.direction);
        let priced_s: f64 = runs.iter().map(|(run, _)| parameters.disk_s(run.length)).sum();
        for (run, is_placed) in runs {
            let run_s = parameters.disk_s(run.length);
            let latency_s = crossing.latency_s * run_s / priced_s.max(1e-12) + crossing.untimed as f64 * run_s;
            let mut one = Portion::default();
            one.add_disk(run, parameters, 0.0);
            one.add_flash(id.kind.direction, run, parameters);
            let sum = if is_placed {
                split.placed.entry(id.group).or_default()
            } else {
                split.rest.entry((id.group, id.kind.direction == Direction::Write, id.kind.is_critical)).or_default()
            };
            sum.add_share(&one, (crossing.timed + crossing.untimed) as f64);
            sum.latency_s += latency_s;
        }
    }

    fn load(&self, split: &Split, moved: Moved) -> Load<'_> {
        let mut ranks: BTreeMap<u32, Rank> = BTreeMap::new();
        for (group, presence) in &self.presences {
            ranks.insert(*group, Rank { presence: *presence, ..Rank::default() });
        }
        for (group, portion) in &split.placed {
            ranks.entry(*group).or_default().add(portion, 1.0);
        }
        for ((group, is_write, is_critical), portion) in &split.rest {
            ranks.entry(*group).or_default().add(portion, moved.share(*is_write, *is_critical));
        }
        Load::of(&self.costs, ranks, self.requests, self.timed)
    }

    fn summary(
        self,
        curves: Vec<Curve>,
        recommendation: Option<Recommendation>,
        measured_s: Option<f64>,
        disk_s: f64,
    ) -> Advice {
        let mut files: Vec<FileSummary> = (self.surveyed.files.iter().zip(&self.surveyed.sizes))
            .map(|(file, size)| FileSummary {
                path: file.path.clone(),
                size_bytes: size.size_bytes,
                region_bytes: size.region_bytes,
                gain_s: 0.0,
                requests: 0,
                bytes: 0,
            })
            .collect();
        let mut regions: Vec<(Candidate, RegionSummary)> = Vec::new();
        for (id, gain) in &self.surveyed.table {
            let size = self.surveyed.sizes[id.0 as usize];
            let (range, gain_ns) = (size.range(id.1), gain.gain_ns(size.region_bytes));
            let gain_s = gain_ns as f64 * 1e-9;
            let file = &mut files[id.0 as usize];
            file.requests += gain.reads + gain.writes;
            file.bytes = file.bytes.saturating_add(gain.bytes);
            if range.is_empty() {
                continue;
            }
            file.gain_s += gain_s.max(0.0);
            let (reads, writes, bytes) = (gain.reads, gain.writes, gain.bytes);
            let summary = RegionSummary { file: id.0 as usize, range, gain_s, reads, writes, bytes };
            regions.push((Candidate { id: *id, gain_ns, flash_bytes: flash_bytes(range) }, summary));
        }
        let run = TracedRun {
            requests: self.requests,
            timed_requests: self.timed,
            ranks: self.ranks,
            groups: self.presences.len() as u64,
            rounded_requests: self.rounded,
            measured_s,
            total_bytes: self.surveyed.total_bytes,
        };
        Advice { run, disk_s, curves, recommendation, files, gains: Gains::of(regions), pictures: self.pictures }
    }
}

/// One capacity.
struct At<'a> {
    all: &'a Collected,
    fitted: &'a Fitted,
    software: Software,
    off: Point,
}

impl At<'_> {
    /// With the regions of a plan on flash and nothing else.
    fn placed(&self, split: &Split, chosen: &Chosen) -> Point {
        let used = self.placed_bytes(chosen) as f64;
        let load = self.all.load(split, Moved::default()).with(self.software);
        if self.all.crossings.is_empty() {
            self.point(&load, used)
        } else {
            // Requests are cut by the plan, and the network is fitted with their parts.
            At { fitted: &load.fit(), ..*self }.point(&load, used)
        }
    }

    /// With S4D for what a plan leaves, on the flash that it leaves.
    fn s4d(&self, split: &Split, chosen: Option<&Chosen>, is_filled: bool) -> Point {
        let placed_bytes = chosen.map_or(0, |chosen| self.placed_bytes(chosen));
        let bytes = (self.off.capacity_bytes - placed_bytes) as f64 * (1.0 - RESERVE);
        let sizes = &self.all.surveyed.sizes;
        let is_left = |file: u32, offset: u64| {
            chosen.is_none_or(|chosen| !chosen.regions.contains(&(file, offset / sizes[file as usize].region_bytes)))
        };
        let residence = &self.all.residence;
        let written_bytes = residence.written_bytes(is_left);
        let room = self.room(bytes, written_bytes);
        let point = |absorbed: f64| {
            let hits = residence.hits(Flash { bytes, absorbed, is_filled }, is_left);
            let used = placed_bytes as f64 + (written_bytes * absorbed).min(bytes) + hits.fetched_bytes;
            let load = self.all.load(split, Moved { reads: hits.reads, writes: absorbed }).with(self.software);
            let point = self.point(&load, used);
            let copying = self.software.with_copies(room.copies(absorbed), load.flash_requests());
            let on_flash = self.on_flash(&point, load, copying);
            Point { run_s: room.run_s(absorbed, &on_flash, &self.software), ..point }
        };
        let all = point(1.0);
        if room.turns_s(1.0) <= all.run_s {
            return all;
        }
        // Of little flash each place is used again and again, and what comes too soon for that goes to the disks.
        let (mut fits, mut waits) = (0.0, 1.0);
        for _ in 0..12 {
            let middle = (fits + waits) / 2.0;
            if room.turns_s(middle) <= point(middle).run_s { fits = middle } else { waits = middle }
        }
        point(fits)
    }

    /// What write-back has to do for critical writes that bring `written_bytes`, each page once.
    fn room(&self, bytes: f64, written_bytes: f64) -> Room {
        let residence = &self.all.residence;
        let dirty = bytes * DIRTY;
        let Some(run_bytes) = residence.run_bytes(dirty) else {
            return Room::default();
        };
        let density = (dirty / residence.span_bytes()).clamp(1e-6, 1.0);
        let share_left = written_bytes / residence.written_bytes(|_, _| true);
        let written_bytes = written_bytes + share_left * residence.written_again_bytes(dirty);
        let disks = f64::from(self.all.costs.write.hdd_servers);
        let s_per_byte = self.write_back_s_per_byte(run_bytes, density) / disks;
        Room { bytes, written_bytes, s_per_byte, piece_bytes: run_bytes }
    }

    /// What a byte of write-back keeps a disk busy: each piece has the shortest startup, that of a deep
    /// sorted queue (`STARTS`), or the time in which the gap to the next one passes under the head, if that
    /// is shorter; gaps are as long as they happen to be. A piece of several stripes is of several disks.
    /// `density`: bytes of pieces for each byte from the first to the last.
    fn write_back_s_per_byte(&self, run_bytes: f64, density: f64) -> f64 {
        let parameters = &self.all.costs.write;
        let (stripe, disks) = (parameters.stripe_bytes as f64, f64::from(parameters.hdd_servers));
        let piece = (run_bytes / disks).max(run_bytes.min(stripe));
        let medium_s = (parameters.hdd_s_per_byte - parameters.ssd_busy_s_per_byte.unwrap_or(0.0)).max(0.0);
        let startup_s = parameters.hdd_startup_s_min;
        let gap_s = (medium_s * piece * (1.0 / density - 1.0)).max(1e-9);
        let passing_s = gap_s * (1.0 - (-startup_s / gap_s).exp());
        (STARTS * startup_s + (1.0 - STARTS) * passing_s) / piece + medium_s
    }

    fn on_flash(&self, point: &Point, load: Load, copying: Software) -> OnFlash {
        let parameters = &self.all.costs.read;
        let busy_s_per_byte = parameters.ssd_busy_s_per_byte.unwrap_or(parameters.ssd_s_per_byte);
        let busy = (load.flash_busy_s() / point.run_s.max(f64::MIN_POSITIVE)).min(1.0);
        OnFlash {
            run_s: point.run_s,
            copying_s: if copying == self.software { point.run_s } else { self.point(&load.with(copying), 0.0).run_s },
            // As much as flash is busy anyway.
            delay_s_per_byte: busy * READS_DELAY * busy_s_per_byte / f64::from(parameters.ssd_servers),
        }
    }

    fn point(&self, load: &Load, used: f64) -> Point {
        let prediction = load.predict_fitted(self.fitted);
        let flash_share = (prediction.flash_requests as f64 / prediction.requests.max(1) as f64).min(1.0);
        Point { run_s: prediction.after_s, flash_share, used_bytes: used as u64, ..self.off }
    }

    fn placed_bytes(&self, chosen: &Chosen) -> u64 {
        let sizes = &self.all.surveyed.sizes;
        chosen.regions.iter().map(|(file, number)| flash_bytes(sizes[*file as usize].range(*number))).sum()
    }
}
