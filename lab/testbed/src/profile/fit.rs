//! Rates for S4D's equations that agree with what was measured: `calibration::rates` of `core`, on the
//! modelled servers' latencies.

use headstart_insight::calibration::rates;
use headstart_policy::cost::benefit::{Parameters, SeekPoint};

use super::{Cell, FILE_BYTES, Pattern, Rates, SiteParameters};

/// The equations' parameters with these rates.
fn equations(site: &SiteParameters, rates: Option<&Rates>) -> Parameters {
    let point = |&(distance_bytes, seek_s): &(u64, f64)| SeekPoint { distance_bytes, seek_s };
    Parameters {
        hdd_servers: site.hdd_servers,
        ssd_servers: site.ssd_servers,
        stripe_bytes: site.stripe_bytes,
        rotation_s: site.rotation_s,
        seek_s_max: site.seek_max_s,
        hdd_s_per_byte: rates.map_or(0.0, |rates| rates.beta_d_s_per_byte),
        ssd_s_per_byte: rates.map_or(0.0, |rates| rates.beta_c_s_per_byte),
        seek_curve: site.seek_curve.iter().map(point).collect(),
        ..Parameters::default()
    }
}

fn measured(cell: &Cell) -> rates::Cell {
    rates::Cell {
        size_bytes: cell.size_bytes,
        is_random: cell.pattern == Pattern::Random,
        hdd_latency_s: cell.hdd_latency_s,
        ssd_latency_s: cell.ssd_latency_s,
    }
}

/// The rates of reads or writes.
pub(super) fn rates(site: &SiteParameters, is_read: bool) -> Rates {
    let cells: Vec<_> = site.cells.iter().filter(|cell| cell.is_read == is_read).map(measured).collect();
    let found = rates::effective(&equations(site, None), FILE_BYTES, &cells).expect("random requests were measured");
    Rates { beta_d_s_per_byte: found.hdd_s_per_byte, beta_c_s_per_byte: found.ssd_s_per_byte }
}

/// Enters into each cell what the fitted model says of it.
pub(super) fn judge(site: &mut SiteParameters) {
    let models = [&site.read, &site.write].map(|rates| equations(site, Some(rates)));
    for cell in &mut site.cells {
        let same = measured(cell);
        cell.model_benefit_s = same.benefit_s(&models[usize::from(!cell.is_read)], FILE_BYTES);
        cell.agrees = same.agrees(cell.model_benefit_s);
    }
}
