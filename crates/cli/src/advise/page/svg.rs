//! Plots as inline SVG. Colours are classes, so that they follow the page's; plotters, which draws the curves
//! of a calibration, writes colours into each element.

use std::fmt::Write;

use headstart_units::ByteSize;

use super::super::summary::seconds;
use super::escape::escape;

/// One axis: what it spans, and where it is labelled.
pub struct Axis {
    pub label: String,
    low: f64,
    high: f64,
    is_logarithmic: bool,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From zero to a round number not below `high`, labelled by `text`.
    pub fn linear(label: &str, high: f64, text: impl Fn(f64) -> String) -> Axis {
        let high = if high > 0.0 { high } else { 1.0 };
        let step = round_up(high / 5.0);
        let count = (high / step).ceil().max(1.0) as u32;
        let ticks = (0..=count).map(|k| (f64::from(k) * step, text(f64::from(k) * step))).collect();
        Axis { label: label.into(), low: 0.0, high: f64::from(count) * step, is_logarithmic: false, ticks }
    }

    /// From zero to exactly `high`, labelled at round numbers.
    pub fn exact(label: &str, high: f64, text: impl Fn(f64) -> String) -> Axis {
        let mut axis = Axis::linear(label, high, text);
        axis.high = if high > 0.0 { high } else { 1.0 };
        axis.ticks.retain(|(at, _)| *at <= axis.high * 1.0001);
        axis
    }

    /// The same for bytes, labelled at powers of two.
    pub fn bytes(label: &str, high: f64) -> Axis {
        let high = high.max(1.0);
        let step = (high / 4.0).log2().ceil().max(0.0).exp2();
        let count = (high / step).floor() as u32;
        let ticks =
            (0..=count).map(|k| (f64::from(k) * step, ByteSize((f64::from(k) * step) as u64).to_string())).collect();
        Axis { label: label.into(), low: 0.0, high, is_logarithmic: false, ticks }
    }

    /// Logarithmic from `low` to `high`, both above zero, labelled at these places.
    pub fn logarithmic(label: &str, low: f64, high: f64, ticks: Vec<(f64, String)>) -> Axis {
        let high = if high > low { high } else { low * 2.0 };
        let ticks = ticks.into_iter().filter(|(at, _)| *at >= low * 0.999 && *at <= high * 1.001).collect();
        Axis { label: label.into(), low, high, is_logarithmic: true, ticks }
    }

    /// Logarithmic seconds, labelled at powers of ten.
    pub fn seconds(label: &str, low: f64, high: f64) -> Axis {
        let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let every = ((to - from) / 5).max(1) as usize;
        let text = |exponent: i32| (10f64.powi(exponent), short_seconds(10f64.powi(exponent)));
        Axis::logarithmic(label, 10f64.powi(from), 10f64.powi(to), (from..=to).step_by(every).map(text).collect())
    }

    /// Where a value is: 0 at the low end, 1 at the high one.
    fn place(&self, value: f64) -> f64 {
        let share = if self.is_logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }
}

fn short_seconds(value: f64) -> String {
    match value {
        s if s >= 0.999 => format!("{s:.0} s"),
        s if s >= 0.999e-3 => format!("{:.0} ms", s * 1e3),
        s if s >= 0.999e-6 => format!("{:.0} µs", s * 1e6),
        s => format!("{:.0} ns", s * 1e9),
    }
}

/// The next of 1, 2, 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= value * 0.999)
        .unwrap_or(10.0 * power)
}

/// Seconds of an axis from zero: all ticks in one unit.
pub fn linear_seconds(label: &str, high: f64, is_exact: bool) -> Axis {
    let (unit, factor) = match high {
        s if s >= 1.0 => ("s", 1.0),
        s if s >= 1e-3 => ("ms", 1e3),
        _ => ("µs", 1e6),
    };
    let label = format!("{label} [{unit}]");
    let text = move |s: f64| plain(s * factor);
    if is_exact { Axis::exact(&label, high, text) } else { Axis::linear(&label, high, text) }
}

/// A number without digits that say nothing.
pub fn plain(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{} G", trimmed(v / 1e9)),
        v if v >= 1e6 => format!("{} M", trimmed(v / 1e6)),
        v if v >= 1e4 => format!("{} k", trimmed(v / 1e3)),
        v => trimmed(v),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A box from one corner to the other.
pub type Corners = ((f64, f64), (f64, f64));

/// A plot that is drawn into.
pub struct Plot {
    width: f64,
    height: f64,
    left: f64,
    x: Axis,
    y: Axis,
    body: String,
}

const TOP: f64 = 24.0;
const BOTTOM: f64 = 40.0;
const RIGHT: f64 = 14.0;

impl Plot {
    /// An empty one, so wide and high in units in which text is 12 high.
    pub fn new(width: f64, height: f64, x: Axis, y: Axis) -> Plot {
        let longest = y.ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0) as f64;
        Plot { width, height, left: 12.0 + 8.0 * longest, x, y, body: String::new() }
    }

    /// Where a point is.
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let (wide, high) = (self.width - self.left - RIGHT, self.height - TOP - BOTTOM);
        (self.left + wide * self.x.place(x), TOP + high * (1.0 - self.y.place(y)))
    }

    /// A line through points.
    pub fn curve(&mut self, class: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let mut path = String::new();
        for (x, y) in points {
            let (x, y) = self.at(x, y);
            let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { "M" } else { "L" });
        }
        if !path.is_empty() {
            let _ = writeln!(self.body, "<path class=\"curve {class}\" d=\"{path}\"/>");
        }
    }

    /// Dots.
    pub fn dots(&mut self, class: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let mut path = String::new();
        for (x, y) in points {
            let (x, y) = self.at(x, y);
            let _ = write!(path, "M{x:.1} {y:.1}h0");
        }
        if !path.is_empty() {
            let _ = writeln!(self.body, "<path class=\"dots {class}\" d=\"{path}\"/>");
        }
    }

    /// Filled boxes, each from one corner to the other.
    pub fn boxes(&mut self, class: &str, opacity: f64, boxes: impl IntoIterator<Item = Corners>) {
        let mut path = String::new();
        for (low, high) in boxes {
            let ((x, y), (to_x, to_y)) = (self.at(low.0, low.1), self.at(high.0, high.1));
            let _ = write!(path, "M{x:.1} {y:.1}H{to_x:.1}V{to_y:.1}H{x:.1}z");
        }
        if !path.is_empty() {
            let _ = writeln!(self.body, "<path class=\"{class}\" fill-opacity=\"{opacity:.2}\" d=\"{path}\"/>");
        }
    }

    /// An upright line with a word on it.
    pub fn mark(&mut self, x: f64, word: &str) {
        let ((x, bottom), (_, top)) = (self.at(x, self.y.low), self.at(x, self.y.high));
        let is_right = x > self.width * 0.6;
        let (at, anchor) = if is_right { (x - 5.0, "end") } else { (x + 5.0, "start") };
        let _ = writeln!(
            self.body,
            "<path class=\"mark\" d=\"M{x:.1} {bottom:.1}V{top:.1}\"/>\
             <text class=\"marked\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            top + 12.0,
            escape(word)
        );
    }

    /// A ring around a point.
    pub fn ring(&mut self, class: &str, x: f64, y: f64) {
        let (x, y) = self.at(x, y);
        let _ = writeln!(self.body, "<circle class=\"curve {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>");
    }

    /// The SVG; `said` is for those who do not see it.
    pub fn finish(self, said: &str) -> String {
        let (left, bottom) = self.at(self.x.low, self.y.low);
        let (right, top) = self.at(self.x.high, self.y.high);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n",
            self.width,
            self.height,
            escape(said)
        );
        for (value, text) in &self.y.ticks {
            let (_, y) = self.at(self.x.low, *value);
            let _ = writeln!(
                out,
                "<path class=\"tick\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>\
                 <text class=\"dim\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 5.0,
                y + 4.0,
                escape(text)
            );
        }
        for (value, text) in &self.x.ticks {
            let (x, _) = self.at(*value, self.y.low);
            // The outermost labels stay within the picture.
            let half = 5.5 * text.chars().count() as f64;
            let at = x.clamp(half, self.width - half - 1.0);
            let _ = writeln!(
                out,
                "<path class=\"tick\" d=\"M{x:.1} {bottom:.1}V{top:.1}\"/>\
                 <text class=\"dim\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 15.0,
                escape(text)
            );
        }
        out.push_str(&self.body);
        let _ = writeln!(
            out,
            "<path class=\"axis\" d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\"/>\
             <text x=\"2\" y=\"13\">{}</text>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text></svg>",
            escape(&self.y.label),
            right,
            self.height - 6.0,
            escape(&self.x.label)
        );
        out
    }
}

/// A key: what looks how. `shape`: a line, or a patch of colour.
pub fn key(entries: &[(&str, &str, bool)]) -> String {
    let mut out = String::from("<ul class=\"key\">");
    for (class, text, is_line) in entries {
        let shape = if *is_line {
            format!("<path class=\"curve {class}\" d=\"M1 5H25\"/>")
        } else {
            format!("<rect class=\"{class}\" x=\"7\" y=\"0\" width=\"12\" height=\"10\"/>")
        };
        let _ = write!(
            out,
            "<li><svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 26 10\" aria-hidden=\"true\">{shape}</svg>{}</li>",
            escape(text)
        );
    }
    out.push_str("</ul>\n");
    out
}

/// What to see in a plot.
pub fn caption(text: &str) -> String {
    format!("<p class=\"caption\">{}</p>\n", escape(text))
}

/// Seconds within a sentence.
pub fn in_words(value: f64) -> String {
    seconds(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers_and_their_ticks_are_short() {
        let axis = Axis::linear("t [s]", 43.0, plain);
        assert_eq!(
            axis.ticks.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
            ["0", "10", "20", "30", "40", "50"]
        );
        assert_eq!(linear_seconds("t", 0.0123, false).label, "t [ms]");
        assert_eq!((plain(0.1 + 0.2), plain(1_500_000.0), plain(0.0)), ("0.3".into(), "1.5 M".into(), "0".into()));
        let bytes = Axis::bytes("offset", 190.0 * 1048576.0);
        assert_eq!(bytes.ticks.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["0B", "64MiB", "128MiB"]);
    }

    #[test]
    fn no_value_draws_outside_of_the_plot() {
        for axis in [Axis::linear("a", 0.0, plain), Axis::bytes("b", 0.0), Axis::seconds("c", 1e-5, 1e-5)] {
            for value in [-1.0, 0.0, f64::NAN, f64::INFINITY, 1e300] {
                assert!((0.0..=1.0).contains(&axis.place(value)));
            }
        }
    }
}
