//! The curves of `headstart-lab scale` as an SVG: what is written and read, and how busy the busiest agent's loop is,
//! over the number of nodes.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Line, Storage, name};
use crate::canvas::{COLOURS, Drawn};

const PIXELS: (u32, u32) = (1500, 560);
const LEGEND_WIDTH: i32 = 180;

/// What is drawn of a run, if it has that.
type Figure = fn(&Line) -> Option<f64>;
const FIGURES: [(&str, &str, Figure); 3] = [
    ("written", "MB/s", |line| Some(line.write_mb_per_s)),
    ("read", "MB/s", |line| Some(line.read_mb_per_s)),
    ("the busiest agent's loop", "share of its time, %", |line| line.agents.map(|agents| agents.busiest.busy * 100.0)),
];

/// Runs of one workload on one storage, by the number of nodes.
struct Curve<'a> {
    name: String,
    colour: RGBColor,
    /// Of so many pixels: the storage.
    stroke: u32,
    lines: Vec<&'a Line>,
}

impl Curve<'_> {
    /// What can be drawn on a logarithmic axis.
    fn points(&self, figure: Figure) -> Vec<(f64, f64)> {
        let of = self.lines.iter().filter_map(|line| Some((f64::from(line.nodes), figure(line)?)));
        of.filter(|(_, value)| *value > 0.0).collect()
    }
}

fn curves(lines: &[Line]) -> Vec<Curve<'_>> {
    let mut curves: Vec<Curve<'_>> = Vec::new();
    for line in lines {
        let of = format!("{}, {}", name(&line.workload), name(&line.storage));
        match curves.iter_mut().find(|curve| curve.name == of) {
            Some(curve) => curve.lines.push(line),
            None => curves.push(Curve {
                name: of,
                colour: COLOURS[line.workload as usize % COLOURS.len()],
                stroke: match line.storage {
                    Storage::Stock => 1,
                    Storage::Headstart => 4,
                    Storage::AllFlash => 2,
                },
                lines: vec![line],
            }),
        }
    }
    curves.iter_mut().for_each(|curve| curve.lines.sort_by_key(|line| line.nodes));
    curves
}

/// Writes the drawing, on a white ground of its own, so that it reads the same on a dark page.
pub fn draw(lines: &[Line], path: &Path) -> Drawn<()> {
    let curves = curves(lines);
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, PIXELS).into_drawing_area();
        area.fill(&WHITE).map_err(|error| error.to_string())?;
        let (charts, legend) = area.split_horizontally(PIXELS.0 as i32 - LEGEND_WIDTH);
        for (area, (title, unit, figure)) in charts.split_evenly((1, FIGURES.len())).iter().zip(FIGURES) {
            draw_chart(area, title, unit, figure, &curves)?;
        }
        draw_legend(&legend, &curves)?;
        area.present().map_err(|error| error.to_string())?;
    }
    Ok(std::fs::write(path, text)?)
}

/// The least and the most, with room for a line at either; none of nothing.
fn around(values: impl Iterator<Item = f64> + Clone) -> Option<std::ops::Range<f64>> {
    let most = values.clone().reduce(f64::max)?;
    let least = values.reduce(f64::min)?;
    Some(least * 0.7..most * 1.4)
}

fn draw_chart<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    title: &str,
    unit: &str,
    figure: Figure,
    curves: &[Curve<'_>],
) -> Drawn<()>
where
    DB::ErrorType: 'static,
{
    let points: Vec<(f64, f64)> = curves.iter().flat_map(|curve| curve.points(figure)).collect();
    let (Some(across), Some(up)) = (around(points.iter().map(|at| at.0)), around(points.iter().map(|at| at.1))) else {
        return Ok(());
    };
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 17))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(across.log_scale(), up.log_scale())
        .map_err(|error| error.to_string())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_desc("nodes")
        .y_desc(unit)
        .label_style(("sans-serif", 13))
        .draw()
        .map_err(|error| error.to_string())?;
    for curve in curves {
        let line = LineSeries::new(curve.points(figure), curve.colour.stroke_width(curve.stroke)).point_size(3);
        chart.draw_series(line).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn draw_legend<DB: DrawingBackend>(area: &DrawingArea<DB, Shift>, curves: &[Curve<'_>]) -> Drawn<()>
where
    DB::ErrorType: 'static,
{
    for (at, curve) in (0..).zip(curves) {
        let y = 60 + at * 22;
        let key = PathElement::new([(0, y), (22, y)], curve.colour.stroke_width(curve.stroke));
        area.draw(&key).map_err(|error| error.to_string())?;
        let label = Text::new(curve.name.clone(), (28, y - 7), ("sans-serif", 13));
        area.draw(&label).map_err(|error| error.to_string())?;
    }
    Ok(())
}
