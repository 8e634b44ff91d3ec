//! The plots of the page, each with its key and what to see in it.

use std::collections::{BTreeMap, BTreeSet};

use headstart_insight::advice::pictures::{OFFSET_BINS, TIME_BINS, latency_s};
use headstart_insight::advice::{Curve, Policy};
use headstart_units::ByteSize;
use headstart_units::request::Direction;

use super::super::figures::{advised, top_files};
use super::super::names::name;
use super::super::summary::share;
use super::super::told::Told;
use super::svg::{Axis, Corners, Plot, caption, in_words, key, linear_seconds, plain};
use super::{grouped, shown};

/// A plot in the grid.
pub struct Chart {
    pub title: &'static str,
    pub content: String,
}

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 260.0;

/// Shades of the heat map.
const SHADES: usize = 8;

fn class(policy: Policy) -> &'static str {
    match policy {
        Policy::Off => "off",
        Policy::Carl => "carl",
        Policy::S4d => "s4d",
        Policy::S4dFirst => "first",
        Policy::CarlS4d => "both",
        Policy::Random => "random",
    }
}

/// Run time by capacity.
pub fn capacity(told: &Told) -> String {
    let advice = told.advice;
    let total = advice.run.total_bytes.max(1) as f64;
    let all = advice.curves.iter().flat_map(|curve| &curve.points).map(|point| point.run_s);
    let y = linear_seconds("run time", all.fold(0.0, f64::max), false);
    let x =
        Axis::exact(&format!("flash, share of the files ({} in all)", ByteSize(advice.run.total_bytes)), 100.0, |v| {
            format!("{v:.0}%")
        });
    let mut plot = Plot::new(WIDTH, HEIGHT, x, y);
    let points = |curve: &Curve| -> Vec<(f64, f64)> {
        curve.points.iter().map(|point| (100.0 * point.capacity_bytes as f64 / total, point.run_s)).collect()
    };
    for curve in &advice.curves {
        plot.curve(class(curve.policy), points(curve));
    }
    let mut said = "Predicted run time by flash capacity. Lower is better.".to_string();
    if let (Some(found), Some(point)) = (advice.recommendation, advised(told)) {
        let x = 100.0 * point.capacity_bytes as f64 / total;
        plot.mark(x, &format!("knee {}", share(found.point)));
        plot.ring(class(found.policy), x, point.run_s);
        said = format!(
            "Lower is better. The knee, at {} of flash, is where the curve of the best policy lies farthest below the straight line from no \
             flash to all that helps (Kneedle): beyond it a byte of flash buys less. There {} takes {} (ring).",
            ByteSize(point.capacity_bytes),
            name(found.policy),
            in_words(point.run_s)
        );
    }
    let entries: Vec<(&str, &str, bool)> =
        advice.curves.iter().map(|curve| (class(curve.policy), name(curve.policy), true)).collect();
    format!("{}{}{}", key(&entries), plot.finish(&said), caption(&said))
}

/// Gains of the best regions, summed.
pub fn gains(told: &Told) -> Chart {
    let advice = told.advice;
    let title = "Where the gain is";
    if advice.gains.gaining_regions == 0 {
        return Chart { title, content: caption("No region would gain on flash.") };
    }
    let most = advice.gains.gain_steps.last().map_or(1.0, |(_, gain_s)| *gain_s).max(f64::MIN_POSITIVE);
    let bytes = advice.gains.gain_steps.last().map_or(1, |(bytes, _)| *bytes) as f64;
    let x = Axis::bytes("flash for the best regions, bytes", bytes);
    let mut plot = Plot::new(WIDTH, HEIGHT, x, Axis::exact("share of the gain [%]", 100.0, plain));
    plot.curve("carl", advice.gains.gain_steps.iter().map(|(bytes, gain_s)| (*bytes as f64, 100.0 * gain_s / most)));
    let half = advice.gains.gain_steps.iter().find(|(_, gain_s)| *gain_s >= most / 2.0).map_or(0, |(bytes, _)| *bytes);
    let of_all = 100.0 * half as f64 / advice.run.total_bytes.max(1) as f64;
    let text = format!(
        "Regions sorted by gain, the best first, and what they gain together (CARL, eq. 9). Half of the gain is in {}, {of_all:.1}% of the \
         files. A steep start means that little flash does much; a straight line, that all regions are alike.",
        ByteSize(half)
    );
    Chart { title, content: format!("{}{}", plot.finish(&text), caption(&text)) }
}

/// Bytes by offset and time of the file that gains most.
pub fn heat(told: &Told) -> Chart {
    let (advice, title) = (told.advice, "Which part of the file, when");
    let pictures = &advice.pictures;
    let best = top_files(told).into_iter().find_map(|number| Some((number, pictures.maps.get(&(number as u32))?)));
    let Some((number, map)) = best else { return Chart { title, content: caption("There is nothing to see.") } };
    let rows = (0..OFFSET_BINS).filter(|row| map.bytes[*row].iter().any(|bytes| *bytes > 0)).max().unwrap_or(0) + 1;
    let columns = (0..TIME_BINS).filter(|bin| map.bytes.iter().any(|row| row[*bin] > 0)).max().unwrap_or(0) + 1;
    let bin_s = pictures.bin_ns as f64 * 1e-9;
    let x = linear_seconds("time", columns as f64 * bin_s, true);
    let y = Axis::bytes("offset in the file", rows as f64 * map.bin_bytes as f64);
    let mut plot = Plot::new(WIDTH, HEIGHT, x, y);
    let most = map.bytes.iter().flatten().copied().max().unwrap_or(1).max(1);
    let mut shades: BTreeMap<usize, Vec<Corners>> = BTreeMap::new();
    for (row, bins) in map.bytes.iter().enumerate() {
        for (bin, bytes) in bins.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
            // Linear: twice as dark is twice as many bytes.
            let shade = (*bytes as f64 / most as f64 * SHADES as f64).ceil().max(1.0) as usize;
            let (x, y) = (bin as f64 * bin_s, row as f64 * map.bin_bytes as f64);
            shades.entry(shade).or_default().push(((x, y), (x + bin_s, y + map.bin_bytes as f64)));
        }
    }
    for (shade, boxes) in shades {
        plot.boxes("heat", 0.1 + 0.9 * (shade as f64 / SHADES as f64), boxes);
    }
    let text = format!(
        "{}: bytes asked for, by where and when. The strongest shade is {} in {} and {}. Bands that stay belong on flash; what moves on \
         and never comes back need not.",
        shown(told, &advice.files[number].path),
        ByteSize(most),
        ByteSize(map.bin_bytes),
        in_words(bin_s)
    );
    let timeless = advice.run.timed_requests == 0 && columns == 1;
    let text = if timeless { format!("{text} The trace has no times: all is in one column.") } else { text };
    Chart { title, content: format!("{}{}", plot.finish(&text), caption(&text)) }
}

/// A sample of requests: where they were when.
pub fn addresses(told: &Told) -> Chart {
    let (advice, title) = (told.advice, "Address by time");
    let sample = &advice.pictures.sample;
    // Files end to end, those that are in the sample.
    let used: BTreeSet<u32> = sample.iter().map(|one| one.file).collect();
    let (mut bases, mut end) = (BTreeMap::new(), 0.0);
    for file in used {
        bases.insert(file, end);
        let reached = sample.iter().filter(|one| one.file == file).map(|one| one.offset + 1).max().unwrap_or(1);
        end += advice.files[file as usize].size_bytes.max(reached) as f64;
    }
    let begin = advice.pictures.begin;
    let time_s = |one: &headstart_insight::advice::pictures::Sampled| one.start.since(begin).seconds();
    let x = linear_seconds("time", sample.iter().map(time_s).fold(0.0, f64::max), true);
    let mut plot = Plot::new(WIDTH, HEIGHT, x, Axis::bytes("address", end));
    for (class, direction) in [("read-curve", Direction::Read), ("writes-dots", Direction::Write)] {
        let dots = sample.iter().filter(|one| one.direction == direction);
        plot.dots(class, dots.map(|one| (time_s(one), bases[&one.file] + one.offset as f64)));
    }
    let files = if bases.len() > 1 { format!("; {} files end to end", bases.len()) } else { String::new() };
    let text = format!(
        "{} of {} requests, evenly drawn{files}. Offsets in files stand for addresses on the disks, which a trace does not know. Lines are \
         streams, which disks serve well; clouds are what makes them seek.",
        grouped(sample.len() as u64),
        grouped(advice.run.requests)
    );
    let content = format!("{}{}{}", directions(), plot.finish(&text), caption(&text));
    Chart { title, content }
}

fn directions() -> String {
    key(&[("reads", "reads", false), ("writes", "writes", false)])
}

/// Requests by size.
pub fn sizes(told: &Told) -> Chart {
    let (sizes, title) = (&told.advice.pictures.sizes, "Request sizes");
    let octaves = || sizes.iter().flat_map(|sizes| sizes.counts.keys().copied());
    let (low, high) = (octaves().min().unwrap_or(0), octaves().max().unwrap_or(0) + 1);
    let every = (high - low).div_ceil(5).max(1) as usize;
    let at = |octave: f64| octave.exp2();
    let ticks =
        (low..=high).step_by(every).map(|octave| (at(octave.into()), ByteSize(1 << octave.min(62)).to_string()));
    let x = Axis::logarithmic("bytes of a request", at(low.into()), at(high.into()), ticks.collect());
    let most = sizes.iter().flat_map(|sizes| sizes.counts.values()).copied().max().unwrap_or(0);
    let mut plot = Plot::new(WIDTH, HEIGHT, x, Axis::linear("requests", most as f64, plain));
    for (number, class) in ["reads", "writes"].into_iter().enumerate() {
        let from = 0.08 + 0.42 * number as f64;
        let bar = |(octave, count): (&u32, &u64)| {
            let octave = f64::from(*octave);
            ((at(octave + from), 0.0), (at(octave + from + 0.4), *count as f64))
        };
        plot.boxes(class, 1.0, sizes[number].counts.iter().map(bar));
    }
    let said = |number: usize, what: &str| {
        let found = &sizes[number];
        let mean = ByteSize(found.bytes / found.requests.max(1));
        if found.requests == 0 {
            format!("no {what}")
        } else {
            format!("{} {what} of {mean} on average", grouped(found.requests))
        }
    };
    let text = format!(
        "{} and {}, by powers of two. Small requests gain most on flash: of a large one a disk spends little of its time seeking.",
        said(0, "reads"),
        said(1, "writes")
    );
    Chart { title, content: format!("{}{}{}", directions(), plot.finish(&text), caption(&text)) }
}

/// Share of requests by latency.
pub fn latencies(told: &Told) -> Chart {
    let (latencies, title) = (&told.advice.pictures.latencies, "Latency today");
    let steps = || latencies.iter().flat_map(|found| found.keys().copied());
    let (Some(low), Some(high)) = (steps().min(), steps().max()) else {
        return Chart { title, content: caption("The trace does not say when requests ended.") };
    };
    let x = Axis::seconds("latency of a request", latency_s(low) * 0.85, latency_s(high));
    let mut plot = Plot::new(WIDTH, HEIGHT, x, Axis::exact("requests that took no longer [%]", 100.0, plain));
    let mut said = Vec::new();
    for (number, (class, what)) in [("read-curve", "reads"), ("write-curve", "writes")].into_iter().enumerate() {
        let all: u64 = latencies[number].values().sum();
        let mut below = 0;
        let mut points = Vec::new();
        let (mut median, mut p99) = (None, None);
        for (step, count) in &latencies[number] {
            if points.is_empty() {
                points.push((latency_s(step.saturating_sub(1)), 0.0));
            }
            below += count;
            points.push((latency_s(*step), 100.0 * below as f64 / all as f64));
            let reaches = |share: f64| below as f64 >= share * all as f64;
            median = median.or(reaches(0.5).then_some(latency_s(*step)));
            p99 = p99.or(reaches(0.99).then_some(latency_s(*step)));
        }
        plot.curve(class, points);
        if let (Some(median), Some(p99)) = (median, p99) {
            said.push(format!("half of the {what} took up to {}, 99% up to {}", in_words(median), in_words(p99)));
        }
    }
    let text = format!(
        "As measured in the traced run: {}. A step at some milliseconds is a disk's arm and turn; what lies beyond is waiting for others.",
        said.join("; ")
    );
    let keys = key(&[("read-curve", "reads", true), ("write-curve", "writes", true)]);
    Chart { title, content: format!("{keys}{}{}", plot.finish(&text), caption(&text)) }
}
