//! A row as an SVG: what we find as lines, or bars where there are few points, and what the paper prints as
//! crosses, a printed range as a grey bar. Series of another unit than the first one are in the tables alone.
//! Rows with panels are drawn by `scatter`.

use std::path::Path;

use plotters::prelude::*;

use super::figure::{Class, Printed};
use super::row::{Row, Values};
use super::scatter;
use crate::canvas::{COLOURS, Drawn};

/// The chart, and the legend to its right.
const PIXELS: (u32, u32) = (1080, 500);
const CHART_WIDTH: i32 = 780;
/// Fewer points are bars.
const LINE_POINTS_MIN: usize = 3;

/// Writes the row's drawing. It has a white ground of its own, so that it reads the same on a dark page.
pub fn draw(row: &Row<'_>, path: &Path) -> Drawn<()> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, PIXELS).into_drawing_area();
        area.fill(&WHITE).map_err(|error| error.to_string())?;
        if row.figure.panel.is_empty() {
            draw_on(row, &area)?;
        } else {
            scatter::draw_on(row, &area)?;
        }
        area.present().map_err(|error| error.to_string())?;
    }
    Ok(std::fs::write(path, text)?)
}

fn ends(printed: Option<&Printed>) -> Option<(f64, f64)> {
    match printed? {
        Printed::Value(value) => Some((*value, *value)),
        Printed::Range([low, high]) => Some((*low, *high)),
        Printed::Not(_) => None,
    }
}

fn draw_on<DB: DrawingBackend>(row: &Row<'_>, area: &DrawingArea<DB, plotters::coord::Shift>) -> Drawn<()>
where
    DB::ErrorType: 'static,
{
    let form = row.series.first().map(|values| values.form);
    let series: Vec<&Values> = row.series.iter().filter(|values| Some(values.form) == form).collect();
    let names: Vec<String> =
        series.first().map(|values| values.cells.iter().map(|cell| cell.point.clone()).collect()).unwrap_or_default();
    let cells = || series.iter().flat_map(|values| &values.cells);
    let shown = cells().flat_map(|cell| [Some(cell.ours), ends(cell.printed.as_ref()).map(|(_, high)| high)]);
    let lowest = cells().flat_map(|cell| [Some(cell.ours), ends(cell.printed.as_ref()).map(|(low, _)| low)]);
    let high = shown.flatten().fold(0.0, f64::max);
    let low = lowest.flatten().fold(0.0, f64::min);
    let pad = ((high - low) * 0.08).max(1e-6);
    let bottom = if low < 0.0 { low - pad } else { 0.0 };
    let count = names.len() as f64;
    let (left_side, right_side) = area.split_horizontally(CHART_WIDTH);
    let mut chart = ChartBuilder::on(&left_side)
        .caption(format!("{}: {}", row.figure.id, row.figure.what), ("sans-serif", 17))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(68)
        .build_cartesian_2d(-0.5..count - 0.5, bottom..high + 2.5 * pad)
        .map_err(|error| error.to_string())?;
    let label = |x: &f64| {
        let is_point = (x - x.round()).abs() < 1e-6;
        if is_point { names.get(x.round() as usize).cloned().unwrap_or_default() } else { String::new() }
    };
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_labels(2 * names.len() + 1)
        .x_desc(&row.figure.x)
        .y_desc(&row.figure.y)
        .x_label_formatter(&label)
        .label_style(("sans-serif", 13))
        .draw()
        .map_err(|error| error.to_string())?;
    let is_line = names.len() >= LINE_POINTS_MIN;
    let width = 0.8 / series.len().max(1) as f64;
    let mut entries = Vec::new();
    for (index, (values, colour)) in series.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let place = |k: usize| k as f64 + if is_line { 0.0 } else { -0.4 + width * (index as f64 + 0.5) };
        let points = || values.cells.iter().enumerate().map(|(k, cell)| (place(k), cell.ours));
        entries.push((format!("{}, ours", values.name), *colour, false));
        if is_line {
            let line = LineSeries::new(points(), colour.stroke_width(2)).point_size(3);
            chart.draw_series(line).map_err(|error| error.to_string())?;
        } else {
            let bar = |(x, y): (f64, f64)| {
                Rectangle::new([(x - width * 0.45, 0.0), (x + width * 0.45, y)], colour.mix(0.75).filled())
            };
            chart.draw_series(points().map(bar)).map_err(|error| error.to_string())?;
        }
        // Variants that are shown for comparison may have the same paper values as the series that is judged.
        let is_same = |other: &&Values| printed_of(other) == printed_of(values);
        let is_own = values.class != Class::Shown || !series[..index].iter().any(is_same);
        if is_own && draw_printed(&mut chart, values, *colour, &place)? {
            entries.push((format!("{}, paper", values.name), *colour, true));
        }
    }
    draw_legend(&right_side, &entries)
}

fn printed_of(values: &Values) -> Vec<Option<&Printed>> {
    values.cells.iter().map(|cell| cell.printed.as_ref()).collect()
}

/// Names of the series, and whether each is the paper's.
fn draw_legend<DB: DrawingBackend>(
    area: &DrawingArea<DB, plotters::coord::Shift>,
    entries: &[(String, RGBColor, bool)],
) -> Drawn<()>
where
    DB::ErrorType: 'static,
{
    let mut y = 50;
    for (text, colour, is_paper) in entries {
        if *is_paper {
            area.draw(&Cross::new((9, y), 5, colour.stroke_width(3))).map_err(|error| error.to_string())?;
        } else {
            let key = Rectangle::new([(0, y - 2), (18, y + 2)], colour.filled());
            area.draw(&key).map_err(|error| error.to_string())?;
        }
        let label = Text::new(text.clone(), (26, y - 7), ("sans-serif", 13));
        area.draw(&label).map_err(|error| error.to_string())?;
        y += 22;
    }
    Ok(())
}

type Chart<'a, DB> =
    ChartContext<'a, DB, Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>>;

/// False if nothing was printed.
fn draw_printed<DB: DrawingBackend>(
    chart: &mut Chart<'_, DB>,
    values: &Values,
    colour: RGBColor,
    place: &dyn Fn(usize) -> f64,
) -> Drawn<bool>
where
    DB::ErrorType: 'static,
{
    let printed: Vec<(f64, f64, f64)> = (values.cells.iter().enumerate())
        .filter_map(|(k, cell)| ends(cell.printed.as_ref()).map(|(low, high)| (place(k), low, high)))
        .collect();
    if printed.is_empty() {
        return Ok(false);
    }
    let crosses = printed.iter().filter(|(_, low, high)| low == high);
    let crosses = crosses.map(|(x, y, _)| Cross::new((*x, *y), 6, colour.stroke_width(3)));
    chart.draw_series(crosses).map_err(|error| error.to_string())?;
    let ranges = printed.iter().filter(|(_, low, high)| low < high);
    let bars = ranges.map(|(x, low, high)| {
        PathElement::new([(*x, *low), (*x, *high)], RGBColor(120, 120, 120).mix(0.4).stroke_width(7))
    });
    chart.draw_series(bars).map_err(|error| error.to_string())?;
    Ok(true)
}
