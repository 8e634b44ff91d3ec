//! D-CARL: CARL for programs that were never traced. The gain table is kept over a sliding window of the
//! running program, and regions are moved in the background as it changes.
//!
//! Not in the paper, whose placement is fixed before a run. Old requests count less with every half-life, so
//! that the table needs no log of them. A region is placed when what it will gain within the horizon, if it
//! goes on as in the window, is more than its copy costs; one that must make room first is displaced only by
//! one that gains clearly more. The window is short: a program that has moved on is slow while it misses, so
//! that what it left would outweigh what it needs for long. What few requests say is uncertain then, so that
//! of a region to be placed counts what it gains less the standard deviation of chance, and of one to be
//! displaced what it gains and as much more.
//!
//! ```text
//!             Place                on_completion
//!   on disk ---------> placing ------------------> on flash
//!      ^                  | failed                     | Unplace
//!      |<-----------------'                            v
//!      '----------------- on_completion ----------- leaving      (failed: on flash again)
//! ```
//!
//! The caller feeds every request, calls [`DCarl::on_timer`] when [`DCarl::next_timer`] says, carries out the
//! moves in any order and reports each. What is placed, being placed and leaving never takes more than the
//! capacity, but where that was lowered.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::cost::region::Costs;
use crate::cost::region::gain_table::{FileRegions, RegionId, flash_bytes, parts};
use headstart_units::request::{Direction, Range};
use headstart_units::{MIB, Nanos};

/// What D-CARL goes by.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What requests cost on disk and on flash.
    pub costs: Costs,
    /// Length of regions, at least a page.
    pub region_bytes: u64,
    /// After this time a request counts half.
    pub half_life: Nanos,
    /// Between two decisions.
    pub interval: Nanos,
    /// How long a region is expected to go on as it does.
    pub horizon: Nanos,
    /// How many times what it displaces a region must gain, at least 1.
    pub hysteresis: f64,
    /// What moving a byte to flash costs the program, seconds: disk time that it does not get.
    pub copy_s_per_byte: f64,
    /// Bytes on their way to flash at once.
    pub moving_bytes_max: u64,
    /// Regions remembered at once.
    pub regions_max: usize,
}

impl Settings {
    /// Assumed figures: moves follow within seconds and copies pay off within ten.
    pub fn new(costs: Costs) -> Settings {
        let copy_s_per_byte = costs.read.hdd_s_per_byte;
        Settings {
            costs,
            region_bytes: 4 * MIB,
            half_life: Nanos::from_seconds(0.5),
            interval: Nanos::from_seconds(0.25),
            horizon: Nanos::from_seconds(10.0),
            hysteresis: 1.5,
            copy_s_per_byte,
            moving_bytes_max: 64 * MIB,
            regions_max: 16384,
        }
    }
}

/// What to do with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Copy it to flash and keep it there.
    Place,
    /// Let it go; what is dirty of it goes back to disk.
    Unplace,
}

/// One move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Which way.
    pub verb: Verb,
    /// Which region.
    pub id: RegionId,
    /// Its bytes.
    pub range: Range,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Disk,
    Placing,
    Flash,
    Leaving,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    /// Gains of the window, seconds, as of `at`.
    gain_s: f64,
    /// Their variance if requests come by chance (Poisson's law), seconds squared.
    variance_s2: f64,
    at: Nanos,
    place: Place,
    /// What it takes on flash: fixed while it is not on disk.
    flash_bytes: u64,
}

/// The gain table of the window and where regions are.
#[derive(Clone, Debug)]
pub struct DCarl {
    settings: Settings,
    sizes: BTreeMap<u32, u64>,
    regions: BTreeMap<RegionId, Region>,
    due: Nanos,
    occupied_bytes: u64,
    placing_bytes: u64,
    leaving_bytes: u64,
}

/// No file is longer.
const FILE_BYTES: u64 = i64::MAX as u64;

impl DCarl {
    /// Nothing known yet; the first decision is due an interval after `now`.
    pub fn new(now: Nanos, settings: Settings) -> DCarl {
        let due = now + settings.interval;
        let (sizes, regions) = (BTreeMap::new(), BTreeMap::new());
        DCarl { settings, sizes, regions, due, occupied_bytes: 0, placing_bytes: 0, leaving_bytes: 0 }
    }

    /// A file's size became known, or another.
    pub fn on_size(&mut self, file: u32, size_bytes: u64) {
        self.sizes.insert(file, size_bytes);
    }

    /// The file is gone, and what of it was on flash.
    pub fn remove_file(&mut self, file: u32) {
        self.sizes.remove(&file);
        let ids: Vec<RegionId> = self.regions.range((file, 0)..=(file, u64::MAX)).map(|(id, _)| *id).collect();
        for id in ids {
            self.become_place(id, Place::Disk);
            self.regions.remove(&id);
        }
    }

    /// A request, wherever it was served.
    pub fn on_request(&mut self, now: Nanos, file: u32, direction: Direction, range: Range) {
        for (number, part) in parts(range, self.settings.region_bytes) {
            let gain_s = self.settings.costs.gain_ns(direction, part.length) as f64 * 1e-9;
            if self.regions.len() >= self.settings.regions_max && !self.regions.contains_key(&(file, number)) {
                self.forget(now);
                if self.regions.len() >= self.settings.regions_max {
                    return;
                }
            }
            match self.regions.entry((file, number)) {
                Entry::Vacant(entry) => {
                    let variance_s2 = gain_s * gain_s;
                    entry.insert(Region { gain_s, variance_s2, at: now, place: Place::Disk, flash_bytes: 0 });
                }
                Entry::Occupied(mut entry) => {
                    let region = entry.get_mut();
                    let left = left(region, now, self.settings.half_life);
                    region.gain_s = region.gain_s * left + gain_s;
                    region.variance_s2 = region.variance_s2 * left * left + gain_s * gain_s;
                    region.at = now;
                }
            }
        }
    }

    /// When [`DCarl::on_timer`] should be called.
    pub fn next_timer(&self) -> Nanos {
        self.due
    }

    /// Decides what moves, given how much flash there is for it. Before its time nothing does.
    pub fn on_timer(&mut self, now: Nanos, capacity_bytes: u64) -> Vec<Move> {
        if now < self.due {
            return Vec::new();
        }
        self.due = now + self.settings.interval;
        let mut moves = Vec::new();
        let (mut newcomers, mut incumbents) = (Vec::new(), Vec::new());
        for (id, region) in &self.regions {
            let (gain_s, deviation_s) = self.expected_s(region, now);
            let sure_s = gain_s - deviation_s;
            let bytes = if region.place == Place::Disk { flash_bytes(self.range(*id)) } else { region.flash_bytes };
            let copy_s = bytes as f64 * self.settings.copy_s_per_byte;
            match region.place {
                Place::Disk if bytes > 0 && sure_s > copy_s => newcomers.push(Rival { id: *id, gain_s: sure_s, bytes }),
                Place::Flash if gain_s < -copy_s => moves.push((*id, Verb::Unplace)),
                Place::Flash => incumbents.push(Rival { id: *id, gain_s: gain_s + deviation_s, bytes }),
                _ => {}
            }
        }
        newcomers.sort_by(|a, b| b.per_byte().total_cmp(&a.per_byte()).then(a.id.cmp(&b.id)));
        // The least worth last, to be taken from the end.
        incumbents.sort_by(|a, b| b.per_byte().total_cmp(&a.per_byte()).then(a.id.cmp(&b.id)));
        let going: u64 = moves.iter().map(|(id, _)| self.regions[id].flash_bytes).sum();
        let staying = self.occupied_bytes - self.leaving_bytes - going;
        self.make_room(staying.saturating_sub(capacity_bytes), &mut incumbents, &mut moves);
        self.admit(capacity_bytes, newcomers, incumbents, &mut moves);
        for (id, verb) in &moves {
            self.become_place(*id, if *verb == Verb::Place { Place::Placing } else { Place::Leaving });
        }
        let range = |id, verb| match verb {
            Verb::Place => self.range(id),
            // All that there may be of it: the file may be shorter now.
            Verb::Unplace => self.range_within(id, FILE_BYTES),
        };
        moves.into_iter().map(|(id, verb)| Move { verb, id, range: range(id, verb) }).collect()
    }

    /// A move was carried out, or could not be.
    pub fn on_completion(&mut self, now: Nanos, done: Move, carried_out: bool) {
        let place = match (self.regions.get(&done.id).map(|region| region.place), done.verb, carried_out) {
            (Some(Place::Placing), Verb::Place, true) | (Some(Place::Leaving), Verb::Unplace, false) => Place::Flash,
            (Some(Place::Placing), Verb::Place, false) | (Some(Place::Leaving), Verb::Unplace, true) => Place::Disk,
            // The file was removed meanwhile.
            _ => return,
        };
        self.become_place(done.id, place);
        // Room that others wait for; what failed has its next try with the next decision.
        if done.verb == Verb::Unplace && carried_out {
            self.due = now.min(self.due);
        }
    }

    /// Lets the incumbents of least worth go until `bytes` are free.
    fn make_room(&self, bytes: u64, incumbents: &mut Vec<Rival>, moves: &mut Vec<(RegionId, Verb)>) {
        let mut freed = 0;
        while freed < bytes {
            let Some(victim) = incumbents.pop() else { return };
            freed += victim.bytes;
            moves.push((victim.id, Verb::Unplace));
        }
    }

    /// Places newcomers where there is room, and lets incumbents go for those that gain clearly more.
    fn admit(
        &self,
        capacity_bytes: u64,
        newcomers: Vec<Rival>,
        mut incumbents: Vec<Rival>,
        moves: &mut Vec<(RegionId, Verb)>,
    ) {
        let leaving: u64 = moves.iter().map(|(id, _)| self.regions[id].flash_bytes).sum();
        let mut free = capacity_bytes.saturating_sub(self.occupied_bytes);
        // Room that will be free once what is leaving has left.
        let mut promised = (self.leaving_bytes + leaving).min(capacity_bytes);
        let mut on_their_way = self.placing_bytes;
        for newcomer in newcomers {
            if on_their_way + newcomer.bytes > self.settings.moving_bytes_max.max(newcomer.bytes) {
                return;
            }
            on_their_way += newcomer.bytes;
            if newcomer.bytes <= free {
                free -= newcomer.bytes;
                moves.push((newcomer.id, Verb::Place));
                continue;
            }
            let mut room = free + promised;
            let (mut victims, mut loss_s) = (0, 0.0);
            for victim in incumbents.iter().rev() {
                if room >= newcomer.bytes {
                    break;
                }
                room += victim.bytes;
                loss_s += victim.gain_s.max(0.0);
                victims += 1;
            }
            let net_s = newcomer.gain_s - newcomer.bytes as f64 * self.settings.copy_s_per_byte;
            if room < newcomer.bytes || (victims > 0 && net_s <= loss_s * self.settings.hysteresis) {
                return;
            }
            for victim in incumbents.split_off(incumbents.len() - victims) {
                moves.push((victim.id, Verb::Unplace));
            }
            // The newcomer is placed by a later decision, when they have left.
            promised = room - newcomer.bytes;
            free = 0;
        }
    }

    /// What a region gains within the horizon, seconds, if it goes on as in the window, and the standard
    /// deviation of that.
    fn expected_s(&self, region: &Region, now: Nanos) -> (f64, f64) {
        let half_life = self.settings.half_life.seconds().max(1e-9);
        let left = left(region, now, self.settings.half_life);
        let windows = self.settings.horizon.seconds() * std::f64::consts::LN_2 / half_life;
        (region.gain_s * left * windows, region.variance_s2.sqrt() * left * windows)
    }

    /// As far as the file is known to go.
    fn range(&self, id: RegionId) -> Range {
        self.range_within(id, self.sizes.get(&id.0).copied().unwrap_or(FILE_BYTES))
    }

    fn range_within(&self, (_, number): RegionId, size_bytes: u64) -> Range {
        FileRegions { size_bytes, region_bytes: self.settings.region_bytes }.range(number)
    }

    fn become_place(&mut self, id: RegionId, place: Place) {
        let bytes = flash_bytes(self.range(id));
        let Some(region) = self.regions.get_mut(&id) else { return };
        match region.place {
            Place::Disk => {}
            Place::Placing => self.placing_bytes -= region.flash_bytes,
            Place::Leaving => self.leaving_bytes -= region.flash_bytes,
            Place::Flash => {}
        }
        if region.place != Place::Disk {
            self.occupied_bytes -= region.flash_bytes;
        }
        if region.place == Place::Disk {
            region.flash_bytes = bytes;
        }
        region.place = place;
        match place {
            Place::Disk => return,
            Place::Placing => self.placing_bytes += region.flash_bytes,
            Place::Leaving => self.leaving_bytes += region.flash_bytes,
            Place::Flash => {}
        }
        self.occupied_bytes += region.flash_bytes;
    }

    /// Forgets the half of the regions on disk that gained least, so that the table stays bounded.
    fn forget(&mut self, now: Nanos) {
        let on_disk = self.regions.iter().filter(|(_, region)| region.place == Place::Disk);
        let mut gains: Vec<(f64, RegionId)> =
            on_disk.map(|(id, region)| (region.gain_s * left(region, now, self.settings.half_life), *id)).collect();
        gains.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (_, id) in &gains[..gains.len().div_ceil(2)] {
            self.regions.remove(id);
        }
    }
}

/// A region that competes for flash.
#[derive(Clone, Copy, Debug)]
struct Rival {
    id: RegionId,
    gain_s: f64,
    bytes: u64,
}

impl Rival {
    fn per_byte(&self) -> f64 {
        self.gain_s / self.bytes as f64
    }
}

/// How much of what a region gained counts at `now`.
fn left(region: &Region, now: Nanos, half_life: Nanos) -> f64 {
    let halves = now.since(region.at).seconds() / half_life.seconds().max(1e-9);
    (-halves).exp2()
}

#[cfg(test)]
mod tests;
