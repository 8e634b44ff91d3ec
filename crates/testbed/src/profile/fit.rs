//! Rates for S4D's equations that agree with what was measured.
//!
//! First guess: the rates that price the largest random request exactly. Then a grid of factors around it is searched for the pair that
//! names the faster directory in most cells; of equals the nearest to the first guess.

use headstart_model::cluster::local_range;

use super::{Cell, FILE_BYTES, Pattern, Rates, SiteParameters};

/// Grid: factors of two to the power of (index / STEPS_PER_OCTAVE) for indices up to +-STEPS.
const STEPS: i32 = 24;
const STEPS_PER_OCTAVE: f64 = 8.0;

/// Measured latencies this near each other count as equal.
const TIE: f64 = 0.05;

/// A cell as the equations see it: T_D = startup + disk bytes * beta_D, T_C = flash bytes * beta_C.
struct Terms {
    startup_s: f64,
    disk_bytes: f64,
    flash_bytes: f64,
}

/// Number of servers a request involves (equation 6) and the bytes of its largest sub-request, averaged over the offsets that the
/// measured workloads use. Like the paper, the count includes the empty stripe after a request that ends on a stripe boundary.
fn largest_part(size: u64, stripe: u64, servers: u64) -> (f64, f64) {
    const OFFSETS: u64 = 64;
    let (mut count, mut bytes) = (0, 0);
    for index in 0..OFFSETS {
        let offset = index * size;
        let stripes = (offset + size) / stripe - offset / stripe + 1;
        count += stripes.min(servers);
        let parts = (0..servers).filter_map(|server| local_range(servers, stripe, server, offset, size));
        bytes += parts.map(|(_, length)| length).max().unwrap_or(0);
    }
    (count as f64 / OFFSETS as f64, bytes as f64 / OFFSETS as f64)
}

fn terms(site: &SiteParameters, cell: &Cell) -> Terms {
    let (m, disk_bytes) = largest_part(cell.size_bytes, site.stripe_bytes, u64::from(site.hdd_servers));
    let (_, flash_bytes) = largest_part(cell.size_bytes, site.stripe_bytes, u64::from(site.ssd_servers));
    let distance = match cell.pattern {
        // The mean distance of two uniform places is a third of the file.
        Pattern::Random => FILE_BYTES / 3,
        Pattern::Sequential => 0,
    };
    let seek_s = site.seek_s(distance);
    let startup_s = seek_s + site.rotation_s + m / (m + 1.0) * (site.seek_max_s - seek_s).max(0.0);
    Terms { startup_s, disk_bytes, flash_bytes }
}

fn benefit_s(terms: &Terms, rates: &Rates) -> f64 {
    terms.startup_s + terms.disk_bytes * rates.beta_d_s_per_byte - terms.flash_bytes * rates.beta_c_s_per_byte
}

fn agrees(cell: &Cell, benefit_s: f64) -> bool {
    let (disk, flash) = (cell.hdd_latency_s, cell.ssd_latency_s);
    (disk - flash).abs() <= TIE * disk.max(flash) || (disk > flash) == (benefit_s > 0.0)
}

/// The rates of reads or writes.
pub(super) fn rates(site: &SiteParameters, is_read: bool) -> Rates {
    let cells: Vec<_> = site.cells.iter().filter(|cell| cell.is_read == is_read).collect();
    let cells: Vec<_> = cells.into_iter().map(|cell| (cell, terms(site, cell))).collect();
    let random = cells.iter().filter(|(cell, _)| cell.pattern == Pattern::Random);
    let (largest, its) = random.max_by_key(|(cell, _)| cell.size_bytes).expect("random requests were measured");
    // A tenth of the latency at least, should the start-up alone exceed it.
    let transfer_s = (largest.hdd_latency_s - its.startup_s).max(0.1 * largest.hdd_latency_s);
    let guess = Rates {
        beta_d_s_per_byte: transfer_s / its.disk_bytes,
        beta_c_s_per_byte: largest.ssd_latency_s / its.flash_bytes,
    };
    let factor = |step: i32| 2f64.powf(f64::from(step) / STEPS_PER_OCTAVE);
    let mut best = (0, i32::MIN, guess);
    for disk_step in -STEPS..=STEPS {
        for flash_step in -STEPS..=STEPS {
            let rates = Rates {
                beta_d_s_per_byte: guess.beta_d_s_per_byte * factor(disk_step),
                beta_c_s_per_byte: guess.beta_c_s_per_byte * factor(flash_step),
            };
            let count = cells.iter().filter(|(cell, terms)| agrees(cell, benefit_s(terms, &rates))).count();
            let nearness = -(disk_step * disk_step + flash_step * flash_step);
            if (count, nearness) > (best.0, best.1) {
                best = (count, nearness, rates);
            }
        }
    }
    best.2
}

/// Enters into each cell what the fitted model says of it.
pub(super) fn judge(site: &mut SiteParameters) {
    let mut cells = std::mem::take(&mut site.cells);
    for cell in &mut cells {
        let rates = if cell.is_read { &site.read } else { &site.write };
        cell.model_benefit_s = benefit_s(&terms(site, cell), rates);
        cell.agrees = agrees(cell, cell.model_benefit_s);
    }
    site.cells = cells;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_64_stripes_puts_eight_on_each_of_eight_servers() {
        let (m, bytes) = largest_part(4 << 20, 64 << 10, 8);
        assert_eq!((m, bytes), (8.0, (512 << 10) as f64));
        assert_eq!(largest_part(16 << 10, 64 << 10, 8).1, (16 << 10) as f64);
    }
}
