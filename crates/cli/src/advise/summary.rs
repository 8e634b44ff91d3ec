//! The answer in a few lines, for a terminal.

use std::fmt::Write;
use std::path::Path;

use headstart_insight::advice::{POINTS, Policy};
use headstart_units::ByteSize;

use super::figures::{advised, speedup, top_files};
use super::names::{name, option};
use super::told::{Told, unknowns};

/// Files and regions that are named.
const TOP: usize = 3;

/// Points of curves that are shown beside the knee: a tenth, a fifth.
pub const SHOWN: [usize; 2] = [2, 4];

/// See the module.
pub fn text(told: &Told) -> String {
    let mut text = String::new();
    write(&mut text, told).expect("a text takes what is written to it");
    text
}

fn write(out: &mut String, told: &Told) -> std::fmt::Result {
    let advice = told.advice;
    let files = |count: usize| if count == 1 { "1 file".to_string() } else { format!("{count} files") };
    writeln!(
        out,
        "{}: {} requests of {} ranks, {} of {}",
        told.trace.display(),
        advice.run.requests,
        advice.run.ranks,
        files(advice.files.len()),
        ByteSize(advice.run.total_bytes)
    )?;
    let how = if advice.run.measured_s.is_some() { "measured" } else { "by the cost model; the trace has no times" };
    writeln!(out, "run time on the disks {} ({how})\n", seconds(advice.disk_s))?;

    let mut columns: Vec<(String, usize)> = SHOWN.iter().map(|point| (share(*point), *point)).collect();
    if let Some(advised) = advice.recommendation {
        columns.retain(|(_, point)| *point != advised.point);
        columns.push((format!("{}, knee", share(advised.point)), advised.point));
        columns.sort_by_key(|(_, point)| *point);
    }
    let capacity = |point: usize| ByteSize(advice.curves[0].points[point].capacity_bytes).to_string();
    write!(out, "{:<16}", "flash")?;
    for (title, point) in &columns {
        write!(out, "{:>24}", format!("{} ({title})", capacity(*point)))?;
    }
    writeln!(out)?;
    for curve in advice.curves.iter().filter(|curve| curve.policy != Policy::Off) {
        write!(out, "{:<16}", name(curve.policy))?;
        for (_, point) in &columns {
            let run_s = curve.points[*point].run_s;
            let faster = format!("{:.2}x", speedup(advice.disk_s, run_s));
            write!(out, "{:>24}", format!("{}{faster:>9}", seconds(run_s)))?;
        }
        writeln!(out)?;
    }
    writeln!(out)?;
    match (advice.recommendation, advised(told)) {
        (Some(advised), Some(point)) => writeln!(
            out,
            "advice: {} of flash and policy {}: {}, {:.2} times as fast; more flash buys little",
            ByteSize(point.capacity_bytes),
            option(advised.policy),
            seconds(point.run_s),
            speedup(advice.disk_s, point.run_s)
        )?,
        _ => writeln!(out, "advice: none. Flash would save this run less than a 20th of its time")?,
    }
    for command in told.commands.next(advice) {
        writeln!(out, "  {command}")?;
    }
    write_gains(out, told)?;
    writeln!(out, "\nnot in these predictions:")?;
    unknowns(advice).iter().try_for_each(|unknown| writeln!(out, "- {unknown}"))
}

fn write_gains(out: &mut String, told: &Told) -> std::fmt::Result {
    let advice = told.advice;
    if advice.gains.gaining_regions == 0 {
        return writeln!(out, "\nno region would gain on flash: the disks serve these requests as soon");
    }
    let percent = |gain_s: f64| 100.0 * gain_s / advice.gains.gain_s.max(f64::MIN_POSITIVE);
    writeln!(out, "\nwhat gains most, of {} regions that gain:", advice.gains.gaining_regions)?;
    let shown = |path: &str| {
        let short = Path::new(path).strip_prefix(told.slow).unwrap_or(Path::new(path)).display().to_string();
        // A name may hold what a terminal takes for a command.
        short.replace(char::is_control, "\u{fffd}")
    };
    if advice.files.len() > 1 {
        for number in top_files(told).into_iter().take(TOP) {
            let file = &advice.files[number];
            writeln!(out, "{:5.1}%  {}, {}", percent(file.gain_s), shown(&file.path), ByteSize(file.size_bytes))?;
        }
    }
    for region in advice.gains.regions.iter().take(TOP).filter(|region| region.gain_s > 0.0) {
        let (from, length) = (ByteSize(region.range.offset), ByteSize(region.range.length));
        let (path, count) = (shown(&advice.files[region.file].path), region.reads + region.writes);
        writeln!(out, "{:5.1}%  {path}, {length} from {from}: {count} requests", percent(region.gain_s))?;
    }
    Ok(())
}

/// A point as a share of the files.
pub fn share(point: usize) -> String {
    format!("{}%", point * 100 / (POINTS - 1))
}

/// A time with three digits.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s >= 100.0 => format!("{s:.0} s"),
        s if s >= 10.0 => format!("{s:.1} s"),
        s if s >= 1.0 || s == 0.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.*} ms", if s >= 0.1 { 0 } else { 1 }, s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}
