//! The panels of a row beside each other: disk or flash addresses, or latencies, against time. Panels that
//! show the same have the same scale. What the paper prints of them is drawn across.

use plotters::coord::Shift;
use plotters::prelude::*;

use headstart_sim::{Access, Operation};

use super::measure::server_ms;
use super::row::Row;
use super::window::{Outcome, Panel, Shows, Window};
use crate::canvas::{COLOURS, Drawn};

/// A point: seconds, and sectors in millions or milliseconds; whether it is a write.
type Dot = (f64, f64, bool);

fn dots(window: Window, panel: &Panel, outcome: &Outcome) -> Vec<Dot> {
    let value = |access: &Access| match panel.shows {
        Shows::Disk | Shows::Flash => Some(access.address as f64 / 512e6),
        Shows::Latency => server_ms(access),
    };
    let within = outcome.within(window, panel.shows);
    let dot = |(at, access): (f64, &Access)| Some((at, value(access)?, access.operation == Operation::Write));
    within.into_iter().filter_map(dot).collect()
}

/// The least and the greatest, with some air; latencies begin at zero.
fn ends(shows: Shows, values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let (low, high) = (values.clone().fold(f64::MAX, f64::min), values.fold(f64::MIN, f64::max));
    if low > high {
        return (0.0, 1.0);
    }
    let air = ((high - low) * 0.04).max(1e-3);
    (if shows == Shows::Latency { 0.0 } else { low - air }, high + air)
}

pub fn draw_on<DB: DrawingBackend>(row: &Row<'_>, area: &DrawingArea<DB, Shift>) -> Drawn<()>
where
    DB::ErrorType: 'static,
{
    let title = format!("{}: {}", row.figure.id, row.figure.what);
    let area = area.titled(&title, ("sans-serif", 17)).map_err(|error| error.to_string())?;
    let panels = &row.figure.panel;
    let window = row.figure.window.expect("rows with panels have a window");
    let all: Vec<Vec<Dot>> =
        panels.iter().zip(&row.shown).map(|(panel, outcome)| dots(window, panel, outcome)).collect();
    for ((panel, dots), place) in panels.iter().zip(&all).zip(area.split_evenly((1, panels.len()))) {
        let alike = panels.iter().zip(&all).filter(|(other, _)| other.shows == panel.shows);
        let values = alike
            .clone()
            .flat_map(|(other, dots)| dots.iter().map(|(_, value, _)| *value).chain(other.marks.iter().copied()));
        let (low, high) = ends(panel.shows, values);
        let end = window.seconds.unwrap_or_else(|| dots.iter().fold(0.0, |end, (at, ..)| end.max(*at)));
        draw_panel(panel, dots, (end.max(1e-6), low, high), &place)?;
    }
    Ok(())
}

fn draw_panel<DB: DrawingBackend>(
    panel: &Panel,
    dots: &[Dot],
    (end, low, high): (f64, f64, f64),
    area: &DrawingArea<DB, Shift>,
) -> Drawn<()>
where
    DB::ErrorType: 'static,
{
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 14))
        .margin(8)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, low..high)
        .map_err(|error| error.to_string())?;
    let unit = match panel.shows {
        Shows::Disk => "disk address, millions of sectors",
        Shows::Flash => "flash address, millions of sectors",
        Shows::Latency => "latency at the server, ms",
    };
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_labels(5)
        .x_desc("seconds (reads blue, writes orange)")
        .y_desc(unit)
        .label_style(("sans-serif", 12))
        .draw()
        .map_err(|error| error.to_string())?;
    for mark in &panel.marks {
        let line = LineSeries::new([(0.0, *mark), (end, *mark)], RGBColor(120, 120, 120).stroke_width(2));
        chart.draw_series(line).map_err(|error| error.to_string())?;
    }
    let colour = |is_write: bool| COLOURS[usize::from(is_write)];
    let points = dots.iter().map(|(at, value, is_write)| Circle::new((*at, *value), 2, colour(*is_write).filled()));
    chart.draw_series(points).map_err(|error| error.to_string())?;
    Ok(())
}
