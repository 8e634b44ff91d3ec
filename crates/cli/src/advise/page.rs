//! The page: one file, XHTML with SVG in it and no script, that needs nothing else. Colours follow the
//! reader's preference for light or dark; it is laid out for a phone and for a desk.

mod charts;
mod escape;
mod svg;

use std::fmt::Write;
use std::path::Path;

use headstart_insight::advice::Policy;
use headstart_units::ByteSize;

use super::figures::{advised, speedup, top_files};
use super::names::{name, option};
use super::summary::{SHOWN, seconds, share};
use super::told::{Told, unknowns};
use escape::escape;

const STYLE: &str = include_str!("page/style.css");

/// Regions and files in tables.
const ROWS: usize = 12;

/// See the module.
pub fn page(told: &Told) -> String {
    let advice = told.advice;
    let title = format!("Advice for {}", told.trace.display());
    let mut out = String::new();
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/><title>{}</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n",
        escape(&title)
    );
    head(&mut out, told);
    out.push_str("<div class=\"grid wide\">\n");
    section(&mut out, "How much flash, and which policy", &charts::capacity(told));
    policies(&mut out, told);
    out.push_str("</div>\n<div class=\"grid\">\n");
    for chart in
        [charts::gains(told), charts::heat(told), charts::addresses(told), charts::sizes(told), charts::latencies(told)]
    {
        section(&mut out, chart.title, &chart.content);
    }
    out.push_str("</div>\n");
    regions(&mut out, told);
    if advice.files.len() > 1 {
        files(&mut out, told);
    }
    out.push_str("<section><h2>What these predictions do not know</h2><ul>\n");
    for unknown in unknowns(advice) {
        let _ = writeln!(out, "<li>{}</li>", escape(&unknown));
    }
    out.push_str("</ul></section>\n");
    let _ = write!(
        out,
        "<footer>headstart advise {}; how it predicts is in docs/internals/models.md, section 4.</footer>\n</main></body></html>\n",
        env!("CARGO_PKG_VERSION")
    );
    out
}

fn section(out: &mut String, title: &str, content: &str) {
    let _ = writeln!(out, "<section><h2>{}</h2>\n{content}</section>", escape(title));
}

fn head(out: &mut String, told: &Told) {
    let advice = told.advice;
    let _ = write!(
        out,
        "<header><h1>What flash would do for this run</h1>\n<p class=\"what\"><b class=\"path\">{}</b>: {} requests of {} ranks on {} files \
         of {} below <span class=\"path\">{}</span>.</p>\n",
        escape(&told.trace.display().to_string()),
        grouped(advice.run.requests),
        grouped(advice.run.ranks),
        grouped(advice.files.len() as u64),
        ByteSize(advice.run.total_bytes),
        escape(&told.slow.display().to_string())
    );
    let measured =
        if advice.run.measured_s.is_some() { "measured, on the disks" } else { "on the disks, by the cost model" };
    let mut cards = vec![(seconds(advice.disk_s), "run time today".to_string(), measured.to_string())];
    if let (Some(point), Some(found)) = (advised(told), advice.recommendation) {
        let with = format!("with {} of flash", ByteSize(point.capacity_bytes));
        let faster = format!("predicted, {:.2} times as fast", speedup(advice.disk_s, point.run_s));
        cards.push((seconds(point.run_s), with, faster));
        let of = format!("{} of the files; more buys little", share(found.point));
        cards.push((ByteSize(point.capacity_bytes).to_string(), "flash worth having".into(), of));
        cards.push((option(found.policy).to_string(), "policy".into(), policy_in_words(found.policy).into()));
    }
    out.push_str("<div class=\"cards\">\n");
    for (value, what, note) in cards {
        let _ = writeln!(
            out,
            "<div><strong>{}</strong><span>{}</span><small>{}</small></div>",
            escape(&value),
            escape(&what),
            escape(&note)
        );
    }
    out.push_str("</div>\n");
    let commands = told.commands.next(advice);
    if commands.is_empty() {
        out.push_str("<p>Flash would save this run less than a 20th of its time: there is nothing to do.</p>\n");
    } else {
        let _ = writeln!(
            out,
            "<h2>Run next</h2>\n<pre>{}</pre>",
            commands.iter().map(|one| format!("<code>{}</code>", escape(one))).collect::<String>()
        );
    }
    out.push_str("</header>\n");
}

fn policy_in_words(policy: Policy) -> &'static str {
    match policy {
        Policy::Off => "everything stays on disk",
        Policy::Carl => "regions chosen from this trace",
        Policy::S4d => "each request by the cost model; run again for the same bytes",
        Policy::S4dFirst => "the same, on empty flash or for other bytes",
        Policy::CarlS4d => "chosen regions, then each request",
        Policy::Random => "regions drawn at random, to compare",
    }
}

fn policies(out: &mut String, told: &Told) {
    let advice = told.advice;
    let mut points: Vec<usize> = SHOWN.to_vec();
    points.extend(advice.recommendation.map(|advised| advised.point));
    points.sort_unstable();
    points.dedup();
    let is_knee = |point: usize| advice.recommendation.is_some_and(|advised| advised.point == point);
    out.push_str(
        "<section><h2>Run time by policy and flash</h2>\n<div class=\"scroll\"><table><thead><tr><th>policy</th>",
    );
    for point in &points {
        let mark = if is_knee(*point) { " knee" } else { "" };
        let bytes = ByteSize(advice.curves[0].points[*point].capacity_bytes);
        let _ = write!(out, "<th class=\"number\">{}<br/>({}{mark})</th>", bytes, share(*point));
    }
    out.push_str("</tr></thead><tbody>\n");
    for curve in &advice.curves {
        let words = policy_in_words(curve.policy);
        let _ = write!(out, "<tr><td><b>{}</b><small class=\"words\"><br/>{words}</small></td>", name(curve.policy));
        for point in &points {
            let found = &curve.points[*point];
            let faster = speedup(advice.disk_s, found.run_s);
            let class = if is_knee(*point) { "number knee" } else { "number" };
            let _ = write!(out, "<td class=\"{class}\">{}<br/><small>{faster:.2}×</small></td>", seconds(found.run_s));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div></section>\n");
}

fn regions(out: &mut String, told: &Told) {
    let advice = told.advice;
    let rows: Vec<_> = advice.gains.regions.iter().filter(|region| region.gain_s > 0.0).take(ROWS).collect();
    if rows.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<section><h2>Regions that gain most</h2>\n<p>{} of {} regions with requests gain; of most gain for each byte of flash first. The \
         gain is what the disks would be spared, summed over all requests.</p>\n<div class=\"scroll\"><table><thead><tr><th>file</th>\
         <th class=\"number\">from</th><th class=\"number\">bytes</th><th class=\"number wide-only\">reads</th><th class=\"number wide-only\">writes</th>\
         <th class=\"number\">gain</th><th class=\"number\">share</th></tr></thead><tbody>\n",
        grouped(advice.gains.gaining_regions),
        grouped(advice.gains.touched_regions)
    );
    for region in rows {
        let _ = writeln!(
            out,
            "<tr><td class=\"path\">{}</td>{}</tr>",
            escape(&shown(told, &advice.files[region.file].path)),
            cells(&[ByteSize(region.range.offset).to_string(), ByteSize(region.range.length).to_string(),])
                + &wide_only(&[grouped(region.reads), grouped(region.writes)])
                + &cells(&[seconds(region.gain_s), format!("{:.1}%", 100.0 * region.gain_s / advice.gains.gain_s)])
        );
    }
    out.push_str("</tbody></table></div></section>\n");
}

fn files(out: &mut String, told: &Told) {
    let advice = told.advice;
    let top = top_files(told);
    let _ = write!(
        out,
        "<section><h2>Files that gain most</h2>\n<p>{} of {} files.</p>\n<div class=\"scroll\"><table><thead><tr><th>file</th>\
         <th class=\"number\">size</th><th class=\"number\">requests</th><th class=\"number\">gain</th><th class=\"number\">share</th></tr>\
         </thead><tbody>\n",
        top.len().min(ROWS),
        grouped(advice.files.len() as u64)
    );
    for file in top.iter().take(ROWS).map(|number| &advice.files[*number]) {
        let _ = writeln!(
            out,
            "<tr><td class=\"path\">{}</td>{}</tr>",
            escape(&shown(told, &file.path)),
            cells(&[
                ByteSize(file.size_bytes).to_string(),
                grouped(file.requests),
                seconds(file.gain_s),
                format!("{:.1}%", 100.0 * file.gain_s / advice.gains.gain_s.max(f64::MIN_POSITIVE)),
            ])
        );
    }
    out.push_str("</tbody></table></div></section>\n");
}

fn cells(values: &[String]) -> String {
    values.iter().map(|value| format!("<td class=\"number\">{}</td>", escape(value))).collect()
}

/// Cells for which a phone has no room.
fn wide_only(values: &[String]) -> String {
    values.iter().map(|value| format!("<td class=\"number wide-only\">{}</td>", escape(value))).collect()
}

/// A path as short as it is clear.
pub fn shown(told: &Told, path: &str) -> String {
    Path::new(path).strip_prefix(told.slow).unwrap_or(Path::new(path)).display().to_string()
}

/// A number in groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}
