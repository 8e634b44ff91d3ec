//! `headstart-lab paper`: simulates what the papers measured and prints their figures beside ours.
//!
//! ```text
//! lab/scenarios/paper --> catalogue --> simulations (each distinct one once) --> measure --> judgement --> row --> table | JSON | SVG
//! ```

mod calibration;
mod catalogue;
mod drawing;
mod figure;
mod index;
mod judgement;
mod measure;
mod output;
mod overrides;
mod quantity;
mod row;
mod scatter;
mod simulations;
mod window;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::available_parallelism;

use anyhow::Result;
use clap::Args;
use headstart_sim::Scenario;
use indicatif::{ProgressBar, ProgressStyle};

use catalogue::Catalogue;
use figure::Figure;
use row::Row;
use simulations::Simulations;
use window::Outcome;

/// Simulate what the papers of CARL, S4D-Cache, LiU and iTransformer measured, and compare
///
/// A row is a figure or table of a paper. What was fitted, and to which rows, is in
/// lab/scenarios/paper/calibration.toml; everything else is found as it falls. docs/internals/models.md explains each
/// miss.
#[derive(Debug, Args)]
pub struct PaperArguments {
    /// Rows, such as L19,C3 [default: all]
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    id: Vec<String>,

    /// At the papers' scale, which takes minutes; else fewer requests and points
    #[arg(long)]
    full: bool,

    /// Draw each row as SVG there, with an index
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Rows of this directory instead of those that came with the program
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,

    /// Simulations at a time; results do not depend on it [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl PaperArguments {
    pub fn execute(&self) -> Result<ExitCode> {
        let catalogue = match &self.from {
            Some(directory) => Catalogue::in_directory(directory)?,
            None => Catalogue::built_in()?,
        };
        let figures = catalogue.select(&self.id)?;
        if let Some(directory) = &self.output {
            index::prepare(directory)?;
        }
        let (simulations, places) = self.plan(&catalogue, &figures)?;
        let progress = ProgressBar::new(simulations.len() as u64).with_style(style());
        let threads = self.threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
        let outcomes = simulations.run(threads, &progress)?;
        progress.finish_and_clear();
        let rows: Vec<Row<'_>> = (figures.iter().zip(&places))
            .map(|(figure, places)| {
                let found = |run: &str, point: &str| -> Vec<&Outcome> {
                    places[&(run.into(), point.into())].iter().map(|number| &outcomes[*number]).collect()
                };
                Row::new(figure, self.full, &found)
            })
            .collect();
        if self.json {
            println!("{}", output::json(&rows, &catalogue.calibration, self.full));
        } else {
            output::print(&rows);
        }
        if let Some(directory) = &self.output {
            index::write(&rows, &catalogue.calibration, self.full, directory)?;
            eprintln!("drawings in {}", directory.display());
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What is to be simulated, and which simulation is that of which run and point of each row.
    fn plan(&self, catalogue: &Catalogue, figures: &[&Figure]) -> Result<(Simulations, Vec<Places>)> {
        let mut simulations = Simulations::default();
        let mut places = Vec::new();
        for figure in figures {
            let mut of_figure = Places::new();
            for point in figure.point.iter().filter(|point| self.full || !point.full_only) {
                for run in &figure.run {
                    let scenario = catalogue.scenario(figure, run, point, self.full)?;
                    let traced = figure.window.map(|window| window.server);
                    let count = if self.full { figure.seeds } else { 1 };
                    let seeds = (0..count).map(|seed| scenario.seed.wrapping_add(seed.into()));
                    let numbers = seeds.map(|seed| simulations.add(Scenario { seed, ..scenario.clone() }, traced));
                    of_figure.insert((run.name.clone(), point.name.clone()), numbers.collect());
                }
            }
            places.push(of_figure);
        }
        Ok((simulations, places))
    }
}

/// Numbers of simulations by run and point, one a seed.
type Places = BTreeMap<(String, String), Vec<usize>>;

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} simulations, {elapsed} ({eta} to go)");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}
