//! The page that shows all drawings with their tables, as Markdown.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, anyhow};

use super::calibration::Calibration;
use super::drawing::draw;
use super::output::{HEADINGS, lines, passed};
use super::row::Row;
use headstart_cli::printing::refuse_unwritable;

/// Of the page, in the directory of the drawings.
const PAGE: &str = "index.md";

/// Finds out whether the page can be written, before the minutes of work that it shows.
pub fn prepare(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    refuse_unwritable(&directory.join(PAGE))
}

/// Draws each row and writes the page beside the drawings, in a directory that is there.
pub fn write(rows: &[Row<'_>], calibration: &Calibration, full: bool, directory: &Path) -> Result<()> {
    let mut text = String::from("# What the papers print and what the simulator finds\n\n");
    let scale = if full { "Paper scale." } else { "The reduced set; `--full` simulates at paper scale." };
    text += &format!("{scale} Crosses and grey bars are the papers', lines and bars ours.\n\n");
    text += "Fitted:\n\n| knob | value | range | to row | why |\n|---|---|---|---|---|\n";
    for knob in &calibration.knob {
        let [low, high] = knob.range;
        let unit = &knob.unit;
        text +=
            &format!("| {} | {} {unit} | {low} to {high} | {} | {} |\n", knob.name, knob.value, knob.row, knob.reason);
    }
    for row in rows {
        let file = format!("{}.svg", row.figure.id);
        let path = directory.join(&file);
        draw(row, &path).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))?;
        section(&mut text, row, &file, full);
    }
    let path = directory.join(PAGE);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn section(text: &mut String, row: &Row<'_>, file: &str, full: bool) {
    let figure = row.figure;
    let _ = write!(
        text,
        "\n## {}: {}\n\n{} · {} · {} · pass: {}\n\n![{}]({file})\n\n",
        figure.id,
        figure.what,
        figure.source,
        figure.class.name(),
        figure.role.name(),
        passed(row.pass()),
        figure.what
    );
    if !figure.note.is_empty() {
        let _ = writeln!(text, "{}\n", figure.note);
    }
    if !full {
        let _ = writeln!(text, "Reduced: {}.\n", figure.reduced);
    }
    let columns = &HEADINGS[2..];
    let _ = writeln!(text, "| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
    for line in lines(row) {
        let _ = writeln!(text, "| {} |", line[2..].join(" | "));
    }
}
