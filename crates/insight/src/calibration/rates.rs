//! Effective rates: β_D and β_C with which the sign of S4D's benefit agrees with the tier that was measured
//! to be faster.
//!
//! First guess: the rates that price the largest random request exactly. Then a grid of factors around it is
//! searched for the pair that names the faster tier in most cells; of equals the nearest to the first guess.

use serde::Serialize;

use headstart_policy::cost::benefit::Parameters;
use headstart_units::request::{Direction, Range};
use headstart_units::stripe::spread;

/// Grid: factors of two to the power of (index / STEPS_PER_OCTAVE) for indices up to +-STEPS.
const STEPS: i32 = 24;
const STEPS_PER_OCTAVE: f64 = 8.0;

/// Measured latencies this near each other count as equal.
const TIE: f64 = 0.05;

/// Requests of one kind, measured in both tiers at the site's concurrency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Bytes of each request.
    pub size_bytes: u64,
    /// Random rather than sequential.
    pub is_random: bool,
    /// Mean latency on the disks, seconds.
    pub hdd_latency_s: f64,
    /// Mean latency on flash, seconds.
    pub ssd_latency_s: f64,
}

/// Effective costs of a byte of the largest sub-request, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// β_D.
    pub hdd_s_per_byte: f64,
    /// β_C.
    pub ssd_s_per_byte: f64,
}

/// What takes writes nearby, in order or not, was found to take up to seven times as long where they leave
/// gaps, and what joins neighbours thirty to a hundred times (simulated: iTransformer beneath eight servers;
/// eight servers that sort 104 requests each).
const GAPS_COST_MAX: f64 = 15.0;

/// A cell as the equations see it: T_D = startup + disk bytes * β_D, T_C = flash bytes * β_C.
struct Terms {
    startup_s: f64,
    disk_bytes: f64,
    flash_bytes: f64,
}

/// Number of servers a request involves (equation 6) and the bytes of its largest sub-request, averaged over
/// the offsets that the measured loads use. Like the paper, the count includes the empty stripe after a
/// request that ends on a stripe boundary.
fn largest_part(size: u64, stripe: u64, servers: u32) -> (f64, f64) {
    const OFFSETS: u64 = 64;
    let spreads = (0..OFFSETS).map(|index| spread(Range::new(index * size, size), stripe, servers.into()));
    let (count, bytes) = spreads.fold((0, 0), |sum, found| (sum.0 + found.servers, sum.1 + found.bytes_max));
    (count as f64 / OFFSETS as f64, bytes as f64 / OFFSETS as f64)
}

fn terms(site: &Parameters, file_bytes: u64, cell: &Cell) -> Terms {
    let (m, disk_bytes) = largest_part(cell.size_bytes, site.stripe_bytes, site.hdd_servers);
    let (_, flash_bytes) = largest_part(cell.size_bytes, site.stripe_bytes, site.ssd_servers);
    // The mean distance of two uniform places is a third of the file.
    let seek_s = site.seek_s(if cell.is_random { file_bytes / 3 } else { 0 });
    let startup_s = seek_s + site.rotation_s + m / (m + 1.0) * (site.seek_s_max - seek_s).max(0.0);
    Terms { startup_s, disk_bytes, flash_bytes }
}

impl Terms {
    fn benefit_s(&self, rates: &Rates) -> f64 {
        self.startup_s + self.disk_bytes * rates.hdd_s_per_byte - self.flash_bytes * rates.ssd_s_per_byte
    }
}

impl Cell {
    /// T_D - T_C of this cell's requests, spread over `file_bytes`, with the rates of `site`: positive means flash.
    pub fn benefit_s(&self, site: &Parameters, file_bytes: u64) -> f64 {
        let rates = Rates { hdd_s_per_byte: site.hdd_s_per_byte, ssd_s_per_byte: site.ssd_s_per_byte };
        terms(site, file_bytes, self).benefit_s(&rates)
    }

    /// Whether a benefit of this sign names the faster tier; measured ties agree with both.
    pub fn agrees(&self, benefit_s: f64) -> bool {
        let (disk, flash) = (self.hdd_latency_s, self.ssd_latency_s);
        (disk - flash).abs() <= TIE * disk.max(flash) || (disk > flash) == (benefit_s > 0.0)
    }
}

/// Whether requests that follow one another are, in half of the sizes, served by the disks no later than by
/// flash; or, writes, by flash and then by the disks, as a part of the largest. (A log beneath the disks may
/// still be at work for what was measured before: a size or two come out far too slow. Without one, small
/// writes are ten times as slow.)
///
/// And those that leave `gapped` room between them must not be [`GAPS_COST_MAX`] times slower in most sizes:
/// a process cannot tell whether others write what it leaves out, and a cache that joins neighbours takes no
/// seek away where there are none.
pub(crate) fn nears_stay(direction: Direction, cells: &[Cell], gapped: &[Cell]) -> bool {
    let near: Vec<Cell> = cells.iter().filter(|cell| !cell.is_random).copied().collect();
    let without_gaps = |gapped: &Cell| near.iter().find(|cell| cell.size_bytes == gapped.size_bytes);
    let is_taken = |gapped: &&Cell| {
        without_gaps(gapped).is_some_and(|cell| gapped.hdd_latency_s < GAPS_COST_MAX * cell.hdd_latency_s)
    };
    let taken = gapped.iter().filter(is_taken).count();
    half_stay(direction, cells, &near) && taken * 2 > gapped.len()
}

/// The same of requests with which all ranks go through a file together: `interleaved`, beside those in
/// `cells` that are in order. Who writes what a process leaves out is known there, so that gaps say nothing.
pub(crate) fn interleaved_stay(direction: Direction, cells: &[Cell], interleaved: &[Cell]) -> bool {
    half_stay(direction, cells, interleaved)
}

/// Whether, in half of the sizes of these, the disks serve them no later than flash; or, writes, flash and
/// then the disks, as a part of the largest in order.
fn half_stay(direction: Direction, cells: &[Cell], these: &[Cell]) -> bool {
    let in_order = cells.iter().filter(|cell| !cell.is_random);
    let Some(largest) = in_order.max_by_key(|cell| cell.size_bytes) else { return false };
    let back_s = |cell: &Cell| match direction {
        Direction::Read => 0.0,
        Direction::Write => largest.hdd_latency_s * cell.size_bytes as f64 / largest.size_bytes as f64,
    };
    let stay = these.iter().filter(|cell| cell.hdd_latency_s <= cell.ssd_latency_s + back_s(cell)).count();
    !these.is_empty() && stay * 2 >= these.len()
}

/// The rates of one direction: what `site` says of rates does not count, all else does. None if no random
/// requests were measured.
pub fn effective(site: &Parameters, file_bytes: u64, cells: &[Cell]) -> Option<Rates> {
    let cells: Vec<_> = cells.iter().map(|cell| (cell, terms(site, file_bytes, cell))).collect();
    let random = cells.iter().filter(|(cell, _)| cell.is_random);
    let (largest, its) = random.max_by_key(|(cell, _)| cell.size_bytes)?;
    // A tenth of the latency at least, should the start-up alone exceed it.
    let transfer_s = (largest.hdd_latency_s - its.startup_s).max(0.1 * largest.hdd_latency_s);
    let guess =
        Rates { hdd_s_per_byte: transfer_s / its.disk_bytes, ssd_s_per_byte: largest.ssd_latency_s / its.flash_bytes };
    let factor = |step: i32| 2f64.powf(f64::from(step) / STEPS_PER_OCTAVE);
    let mut best = (0, i32::MIN, guess);
    for disk_step in -STEPS..=STEPS {
        for flash_step in -STEPS..=STEPS {
            let rates = Rates {
                hdd_s_per_byte: guess.hdd_s_per_byte * factor(disk_step),
                ssd_s_per_byte: guess.ssd_s_per_byte * factor(flash_step),
            };
            let count = cells.iter().filter(|(cell, terms)| cell.agrees(terms.benefit_s(&rates))).count();
            let nearness = -(disk_step * disk_step + flash_step * flash_step);
            if (count, nearness) > (best.0, best.1) {
                best = (count, nearness, rates);
            }
        }
    }
    Some(best.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_64_stripes_puts_eight_on_each_of_eight_servers() {
        assert_eq!(largest_part(4 << 20, 64 << 10, 8), (8.0, (512 << 10) as f64));
        assert_eq!(largest_part(16 << 10, 64 << 10, 8).1, (16 << 10) as f64);
    }

    #[test]
    fn nears_stay_where_no_more_than_half_of_the_sizes_are_sooner_on_flash_and_back() {
        let cell = |is_random, size_bytes, hdd_latency_s, ssd_latency_s| Cell {
            size_bytes,
            is_random,
            hdd_latency_s,
            ssd_latency_s,
        };
        let random = cell(true, 4096, 0.014, 0.001);
        let (small, large) = (cell(false, 65536, 0.003, 0.002), cell(false, 4 << 20, 0.16, 0.17));
        let gapped = |hdd_latency_s| [cell(false, 65536, hdd_latency_s, 0.002)];
        let all = [random, small, large];
        assert!(nears_stay(Direction::Write, &all, &gapped(0.01)), "2 ms and a 64th of 160 are more than 3");
        let slow = |size_bytes| cell(false, size_bytes, 0.039, 0.001);
        assert!(
            nears_stay(Direction::Write, &[random, small, large, slow(4096), slow(16384)], &gapped(0.01)),
            "two of four"
        );
        assert!(
            !nears_stay(Direction::Write, &[random, small, slow(4096), slow(16384)], &gapped(0.01)),
            "two of three"
        );
        assert!(!nears_stay(Direction::Write, &all, &gapped(0.06)), "with gaps they seek");
        let sizes = [random, small, large, cell(false, 262_144, 0.008, 0.006)];
        assert!(!nears_stay(Direction::Read, &sizes, &gapped(0.01)), "reads do not go back: one of three");
        assert!(nears_stay(Direction::Write, &sizes, &gapped(0.01)), "writes do");
        assert!(
            !nears_stay(Direction::Write, &[random], &[]) && !nears_stay(Direction::Write, &all, &[]),
            "nothing was measured"
        );
    }

    #[test]
    fn interleaved_requests_stay_where_half_of_their_sizes_are_no_sooner_on_flash_and_back() {
        let cell = |size_bytes, hdd_latency_s, ssd_latency_s| Cell {
            size_bytes,
            is_random: false,
            hdd_latency_s,
            ssd_latency_s,
        };
        let in_order = [cell(4096, 0.002, 0.001), cell(4 << 20, 0.16, 0.17)];
        let (sooner, later) = (cell(16384, 0.001, 0.0009), cell(65536, 0.03, 0.002));
        let stay = |direction, interleaved: &[Cell]| interleaved_stay(direction, &in_order, interleaved);
        assert!(
            stay(Direction::Write, &[sooner, later]),
            "0.9 and 0.6 ms, which a 256th of 160 takes, are more than 1"
        );
        assert!(!stay(Direction::Write, &[sooner, later, later]), "one of three");
        assert!(!stay(Direction::Read, &[sooner, later]), "reads do not go back");
        assert!(
            !stay(Direction::Write, &[]) && !interleaved_stay(Direction::Write, &[], &[sooner]),
            "nothing was measured"
        );
    }

    #[test]
    fn small_requests_go_to_flash_and_large_ones_to_the_disks_where_these_were_faster() {
        let site = Parameters { hdd_servers: 8, ssd_servers: 4, ..Parameters::default() };
        let cell = |size_bytes, hdd_latency_s, ssd_latency_s| Cell {
            size_bytes,
            is_random: true,
            hdd_latency_s,
            ssd_latency_s,
        };
        let cells = [cell(4096, 0.02, 0.001), cell(65536, 0.022, 0.004), cell(4 << 20, 0.2, 0.3)];
        let rates = effective(&site, 1 << 30, &cells).unwrap();
        let site = Parameters { hdd_s_per_byte: rates.hdd_s_per_byte, ssd_s_per_byte: rates.ssd_s_per_byte, ..site };
        assert!(cells.iter().all(|cell| cell.agrees(cell.benefit_s(&site, 1 << 30))), "{rates:?}");
        assert_eq!(effective(&site, 1 << 30, &[]), None);
    }
}
