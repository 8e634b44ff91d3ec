//! The curves of a calibration, each an SVG.

mod chart;

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use headstart_insight::calibration::findings::{Costs, POSITIONING_SHARE};
use headstart_insight::calibration::schedule::{DEPTHS, SIZES};
use headstart_insight::calibration::{BLOCK_BYTES, Load, Measured, Pattern};
use headstart_units::ByteSize;
use headstart_units::request::Direction;
use plotters::chart::SeriesLabelPosition;

use super::results::{Calibration, TierResult, span};
use chart::{Curve, Plot, Scale};

/// Draws all curves.
pub fn draw(calibration: &Calibration, directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let mut plots = Vec::new();
    for (tier, name) in [(&calibration.slow, "slow"), (&calibration.fast, "fast")] {
        plots.extend(of_tier(calibration, tier, name));
    }
    plots.push(seeks(calibration));
    for plot in plots.iter().filter(|plot| plot.curves.iter().any(|curve| curve.points.len() > 1)) {
        let path = directory.join(&plot.file);
        plot.draw(&path).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))?;
    }
    println!("plots in {}", directory.display());
    Ok(())
}

/// A table: what each plot of a tier shows.
fn of_tier(calibration: &Calibration, tier: &TierResult, name: &str) -> Vec<Plot> {
    let is_slow = name == "slow";
    let title = |what: &str| format!("{what}, {name} tier");
    let file = |what: &str| format!("{name}-{what}.svg");
    let rate = ("MB/s", Scale::Linear, plain as fn(f64) -> String);
    let size = ("request size", Scale::Logarithmic, bytes as fn(f64) -> String);
    let depth = ("requests under way", Scale::Logarithmic, plain as fn(f64) -> String);
    let costs = if is_slow {
        (&calibration.disk.read, calibration.disk.write.as_ref())
    } else {
        (&calibration.flash.read, calibration.flash.write.as_ref())
    };
    vec![
        Plot {
            file: file("latency"),
            title: title("Latency of random reads of 4 KiB, one at a time"),
            x: ("ms", Scale::Linear, plain),
            y: ("share of reads", Scale::Linear, plain),
            legend: SeriesLabelPosition::UpperLeft,
            curves: distributions(tier),
        },
        Plot {
            file: file("reads-by-size"),
            title: title("Random reads"),
            x: size,
            y: rate,
            legend: SeriesLabelPosition::LowerRight,
            curves: by_size(tier, Direction::Read, calibration.ranks),
        },
        Plot {
            file: file("writes-by-size"),
            title: title("Random writes"),
            x: size,
            y: rate,
            legend: SeriesLabelPosition::LowerRight,
            curves: by_size(tier, Direction::Write, calibration.ranks),
        },
        Plot {
            file: file("streams"),
            title: title("One stream of 1 MiB requests"),
            x: depth,
            y: rate,
            legend: SeriesLabelPosition::LowerRight,
            curves: by_depth(tier, Pattern::Sequential, 1 << 20, 1e6),
        },
        Plot {
            file: file("small-requests"),
            title: title("Random requests of 4 KiB"),
            x: depth,
            y: ("requests a second", Scale::Linear, plain),
            legend: SeriesLabelPosition::UpperLeft,
            curves: by_depth(tier, Pattern::Random, BLOCK_BYTES, BLOCK_BYTES as f64),
        },
        Plot {
            file: file("transfer"),
            title: title("Latency by size, one at a time, and its fit"),
            x: size,
            y: ("ms", Scale::Logarithmic, plain),
            legend: SeriesLabelPosition::UpperLeft,
            curves: transfers(tier, costs),
        },
        Plot {
            file: file("latency-by-depth"),
            title: title("Latency of random reads of 4 KiB by depth"),
            x: depth,
            y: ("ms", Scale::Logarithmic, plain),
            legend: SeriesLabelPosition::UpperLeft,
            curves: percentiles(tier),
        },
    ]
}

fn matching(tier: &TierResult, pattern: Pattern, direction: Direction) -> impl Iterator<Item = &Measured> {
    let widest = tier.span_bytes;
    tier.measured.iter().filter(move |found| {
        let Load { pattern: its, direction: way, span_bytes, .. } = found.load;
        (its, way, span_bytes) == (pattern, direction, widest) && found.latencies.count() > 0
    })
}

fn distributions(tier: &TierResult) -> Vec<Curve> {
    let small = tier.measured.iter().filter(|found| {
        let Load { pattern, direction, size_bytes, depth, .. } = found.load;
        (pattern, direction, size_bytes, depth) == (Pattern::Random, Direction::Read, BLOCK_BYTES, 1)
    });
    let curve = |found: &Measured| {
        // The last half percent is what a busy machine adds, and would be most of the axis.
        let inner = found.latencies.cdf().into_iter().filter(|(_, share)| *share < 0.997);
        Curve {
            name: format!("over {}", span(found.load.span_bytes)),
            points: inner.map(|(s, share)| (s * 1e3, share)).collect(),
            is_measured: false,
        }
    };
    let mut curves: Vec<Curve> = small.map(curve).collect();
    let longest = curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).fold(0.0, f64::max);
    curves.push(Curve {
        name: "four fifths".into(),
        points: vec![(0.0, POSITIONING_SHARE), (longest, POSITIONING_SHARE)],
        is_measured: false,
    });
    curves
}

fn by_size(tier: &TierResult, direction: Direction, ranks: u32) -> Vec<Curve> {
    let mut depths = DEPTHS.to_vec();
    depths.push(ranks);
    depths.sort_unstable();
    depths.dedup();
    let curve = |&depth: &u32| {
        let found = matching(tier, Pattern::Random, direction).filter(|found| found.load.depth == depth);
        let points = found.filter_map(|found| Some((found.load.size_bytes as f64, found.bytes_per_s()? / 1e6)));
        Curve { name: format!("{depth} at a time"), points: points.collect(), is_measured: true }
    };
    depths.iter().map(curve).filter(|curve| curve.points.len() > 1).collect()
}

fn by_depth(tier: &TierResult, pattern: Pattern, size_bytes: u64, unit: f64) -> Vec<Curve> {
    let curve = |(direction, name): (Direction, &str)| {
        let found = matching(tier, pattern, direction).filter(|found| found.load.size_bytes == size_bytes);
        let points = found.filter_map(|found| Some((f64::from(found.load.depth), found.bytes_per_s()? / unit)));
        Curve { name: name.into(), points: points.collect(), is_measured: true }
    };
    let both = [(Direction::Read, "reads"), (Direction::Write, "writes")];
    both.into_iter().map(curve).filter(|curve| !curve.points.is_empty()).collect()
}

fn transfers(tier: &TierResult, (read, write): (&Costs, Option<&Costs>)) -> Vec<Curve> {
    let both = [(Direction::Read, "reads", Some(read)), (Direction::Write, "writes", write)];
    let curves = both.into_iter().filter_map(|(direction, name, costs)| {
        let costs = costs?;
        let found = matching(tier, Pattern::Random, direction).filter(|found| found.load.depth == 1);
        let points =
            found.filter_map(|found| Some((found.load.size_bytes as f64, found.latencies.trimmed_mean_s()? * 1e3)));
        let fitted = SIZES.map(|size| (size as f64, costs.transfer.seconds(size) * 1e3)).to_vec();
        Some([
            Curve { name: name.into(), points: points.collect(), is_measured: true },
            Curve { name: format!("{name}, fit"), points: fitted, is_measured: false },
        ])
    });
    curves.flatten().collect()
}

fn percentiles(tier: &TierResult) -> Vec<Curve> {
    let curve = |(q, name): (f64, &str)| {
        let found =
            matching(tier, Pattern::Random, Direction::Read).filter(|found| found.load.size_bytes == BLOCK_BYTES);
        let points =
            found.filter_map(|found| Some((f64::from(found.load.depth), found.latencies.quantile_s(q)? * 1e3)));
        Curve { name: name.into(), points: points.collect(), is_measured: true }
    };
    [(0.5, "median"), (0.8, "80 %"), (0.99, "99 %")].map(curve).into()
}

fn seeks(calibration: &Calibration) -> Plot {
    let seek = &calibration.disk.seek;
    let measured = seek.curve.iter().skip(1).map(|point| (point.distance_bytes as f64, point.seek_s * 1e3));
    let mut curves = vec![Curve { name: "F, measured".into(), points: measured.collect(), is_measured: true }];
    if let Some(form) = &seek.form {
        let fitted = seek
            .curve
            .iter()
            .skip(1)
            .map(|point| (point.distance_bytes as f64, form.seconds(point.distance_bytes) * 1e3));
        curves.push(Curve {
            name: "a + b root of d, then a line".into(),
            points: fitted.collect(),
            is_measured: false,
        });
    }
    Plot {
        file: "slow-seeks.svg".into(),
        title: "Seek time by distance".into(),
        x: ("distance", Scale::Logarithmic, bytes),
        y: ("ms", Scale::Linear, plain),
        legend: SeriesLabelPosition::LowerRight,
        curves,
    }
}

/// A size on an axis.
fn bytes(value: f64) -> String {
    ByteSize(value.round() as u64).to_string()
}

/// A number on an axis, with three digits.
fn plain(value: f64) -> String {
    let text = match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}
