//! One plot: curves over two axes, drawn by `plotters`.

use std::ops::Range;
use std::path::Path;

use plotters::coord::combinators::IntoLogRange;
use plotters::coord::ranged1d::{AsRangedCoord, DefaultFormatting, KeyPointHint, ValueFormatter};
use plotters::prelude::*;

const PIXELS: (u32, u32) = (800, 500);

/// Okabe and Ito's colours, which everybody can tell apart.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(80, 80, 80),
];

/// One curve of a plot.
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// A dot for each measured point; without, a line of a model.
    pub is_measured: bool,
}

/// How an axis counts.
#[derive(Clone, Copy, PartialEq)]
pub enum Scale {
    Linear,
    Logarithmic,
}

/// One plot.
pub struct Plot {
    pub file: String,
    pub title: String,
    pub x: (&'static str, Scale, fn(f64) -> String),
    pub y: (&'static str, Scale, fn(f64) -> String),
    /// Where no curve runs.
    pub legend: SeriesLabelPosition,
    pub curves: Vec<Curve>,
}

/// A logarithmic axis whose marks are powers of two, as sizes and depths are.
struct Doublings(Range<f64>);

impl Ranged for Doublings {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value / self.0.start).ln() / (self.0.end / self.0.start).ln();
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let (low, high) = (self.0.start.log2().ceil() as i32, self.0.end.log2().floor() as i32);
        let step = ((high - low) as usize / hint.max_num_points().clamp(1, 8)).max(1);
        (low..=high).step_by(step).map(|power| 2f64.powi(power)).collect()
    }

    fn range(&self) -> Range<f64> {
        self.0.clone()
    }
}

impl Plot {
    /// Writes the plot as an SVG.
    pub fn draw(&self, path: &Path) -> Result<(), Box<dyn std::error::Error + '_>> {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let bounds = |values: &mut dyn Iterator<Item = f64>, scale| {
            let (low, high) = values.fold((f64::MAX, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
            match scale {
                Scale::Linear => 0.0..(high * 1.08).max(1e-6),
                Scale::Logarithmic => low.max(1e-6) / 1.15..high.max(2e-6) * 1.15,
            }
        };
        let x = bounds(&mut points().map(|point| point.0), self.x.1);
        let y = bounds(&mut points().map(|point| point.1), self.y.1);
        match (self.x.1, self.y.1) {
            (Scale::Linear, _) => self.draw_on(path, x, y),
            (Scale::Logarithmic, Scale::Linear) => self.draw_on(path, Doublings(x), y),
            (Scale::Logarithmic, Scale::Logarithmic) => self.draw_on(path, Doublings(x), y.log_scale()),
        }
    }

    fn draw_on<X, Y>(&self, path: &Path, x: X, y: Y) -> Result<(), Box<dyn std::error::Error + '_>>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        // Drawn into memory, so that a full disk is an error and no half picture.
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, PIXELS).into_drawing_area();
            area.fill(&WHITE).map_err(|error| error.to_string())?;
            let mut chart = ChartBuilder::on(&area)
                .caption(&self.title, ("sans-serif", 18))
                .margin(12)
                .x_label_area_size(42)
                .y_label_area_size(64)
                .build_cartesian_2d(x, y)
                .map_err(|error| error.to_string())?;
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(RGBColor(225, 225, 225))
                .x_desc(self.x.0)
                .y_desc(self.y.0)
                .x_label_formatter(&|value| self.x.2(*value))
                .y_label_formatter(&|value| self.y.2(*value))
                .label_style(("sans-serif", 13))
                .draw()
                .map_err(|error| error.to_string())?;
            for (curve, colour) in self.curves.iter().zip(COLOURS.iter().cycle()) {
                let width = if curve.is_measured { 2 } else { 1 };
                let line = LineSeries::new(curve.points.iter().copied(), colour.stroke_width(width));
                let drawn = chart.draw_series(line).map_err(|error| error.to_string())?;
                drawn
                    .label(&curve.name)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
                if curve.is_measured {
                    let dots = curve.points.iter().map(|&point| Circle::new(point, 3, colour.filled()));
                    chart.draw_series(dots).map_err(|error| error.to_string())?;
                }
            }
            chart
                .configure_series_labels()
                .position(self.legend.clone())
                .background_style(WHITE.mix(0.85))
                .border_style(RGBColor(200, 200, 200))
                .label_font(("sans-serif", 13))
                .draw()
                .map_err(|error| error.to_string())?;
            area.present().map_err(|error| error.to_string())?;
        }
        Ok(std::fs::write(path, text)?)
    }
}
