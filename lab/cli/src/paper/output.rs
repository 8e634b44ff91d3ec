//! Rows as text and as JSON.

use serde_json::{Map, Value, json};

use super::calibration::Calibration;
use super::figure::{Form, Printed, number};
use super::row::Row;

pub fn printed(form: Form, value: Option<&Printed>) -> String {
    match value {
        Some(Printed::Value(value)) => number(form, *value),
        Some(Printed::Range([low, high])) => format!("{} ... {}", number(form, *low), number(form, *high)),
        Some(Printed::Not(_)) | None => "n.p.".into(),
    }
}

pub fn passed(pass: Option<bool>) -> &'static str {
    match pass {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "-",
    }
}

pub const HEADINGS: [&str; 9] = ["id", "where", "point", "series", "paper", "ours", "deviation", "class", "pass"];

/// The lines of a row: points, then claims.
pub fn lines(row: &Row<'_>) -> Vec<[String; 9]> {
    let mut lines = Vec::new();
    let (id, source) = (&row.figure.id, &row.figure.source);
    for values in &row.series {
        for cell in &values.cells {
            lines.push([
                id.clone(),
                source.clone(),
                cell.point.clone(),
                values.name.clone(),
                printed(values.form, cell.printed.as_ref()),
                number(values.form, cell.ours),
                cell.deviation.map_or("-".into(), |deviation| format!("{:+.1} %", deviation * 100.0)),
                values.class.name().into(),
                passed(cell.pass).into(),
            ]);
        }
    }
    for held in &row.claims {
        let empty = String::new;
        let class = held.class.name().into();
        let text = held.text.clone();
        lines.push([
            id.clone(),
            source.clone(),
            text,
            empty(),
            empty(),
            empty(),
            empty(),
            class,
            passed(held.pass).into(),
        ]);
    }
    lines
}

/// Prints all rows, and how many pass.
pub fn print(rows: &[Row<'_>]) {
    let all: Vec<[String; 9]> = rows.iter().flat_map(lines).collect();
    let width = |column: usize| {
        // Claims reach over the columns behind them.
        let cells =
            all.iter().filter(|line| column != 2 || !line[3].is_empty()).map(|line| line[column].chars().count());
        cells.chain([HEADINGS[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    let middle: usize = widths[2..7].iter().sum::<usize>() + 2 * 4;
    let line = |cells: &[String]| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        println!("{}", padded.join("  ").trim_end());
    };
    line(&HEADINGS.map(String::from));
    for cells in &all {
        if cells[3].is_empty() {
            let [id, source, text, .., class, pass] = cells;
            let (first, second, class_width) = (widths[0], widths[1], widths[7]);
            println!("{id:first$}  {source:second$}  {text:middle$}  {class:class_width$}  {pass}");
        } else {
            line(cells);
        }
    }
    let (passed, all) = count(rows.iter().filter_map(Row::pass));
    let (cells_passed, cells) = count(rows.iter().flat_map(Row::judged));
    println!("{passed} of {all} rows pass, {cells_passed} of {cells} figures and claims");
}

/// How many are true, of how many.
fn count(judged: impl Iterator<Item = bool>) -> (usize, usize) {
    judged.fold((0, 0), |(passed, all), pass| (passed + usize::from(pass), all + 1))
}

fn json_printed(value: Option<&Printed>) -> Value {
    match value {
        Some(Printed::Value(value)) => json!(value),
        Some(Printed::Range(range)) => json!(range),
        Some(Printed::Not(_)) | None => Value::Null,
    }
}

/// Figures that a reader can tell apart, not the last bit.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn json_row(row: &Row<'_>) -> Value {
    let mut series = Map::new();
    for values in &row.series {
        let cells = values.cells.iter().map(|cell| {
            let found = json!({
                "paper": json_printed(cell.printed.as_ref()),
                "ours": rounded(cell.ours),
                "deviation": cell.deviation.map(rounded),
                "class": values.class.name(),
                "pass": cell.pass,
            });
            (cell.point.clone(), found)
        });
        series.insert(values.name.clone(), Value::Object(cells.collect()));
    }
    let claims: Vec<Value> = row
        .claims
        .iter()
        .map(|held| json!({"text": held.text, "class": held.class.name(), "pass": held.pass}))
        .collect();
    let figure = row.figure;
    json!({
        "where": figure.source,
        "what": figure.what,
        "class": figure.class.name(),
        "role": figure.role.name(),
        "series": series,
        "claims": claims,
        "pass": row.pass(),
    })
}

/// All rows as one object.
pub fn json(rows: &[Row<'_>], calibration: &Calibration, full: bool) -> Value {
    let (passed, all) = count(rows.iter().filter_map(Row::pass));
    let (cells_passed, cells) = count(rows.iter().flat_map(Row::judged));
    let knobs: Vec<Value> = calibration
        .knob
        .iter()
        .map(|knob| json!({"name": knob.name, "value": knob.value, "unit": knob.unit, "range": knob.range, "row": knob.row}))
        .collect();
    json!({
        "full": full,
        "rows": all,
        "passed": passed,
        "cells": cells,
        "cells_passed": cells_passed,
        "calibration": knobs,
        "row": rows.iter().map(|row| (row.figure.id.clone(), json_row(row))).collect::<Map<_, _>>(),
    })
}
