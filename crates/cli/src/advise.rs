//! `headstart advise`: what flash would do for a run that was traced, how much of it, and what to run next.

mod commands;
mod figures;
mod names;
mod page;
mod summary;
mod told;

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use headstart_agent::site::Site;
use headstart_insight::advice::{CriticalCosts, advise};
use headstart_insight::plan::TracedFile;
use headstart_policy::cost::region::gain_table::REGION_BYTES;
use headstart_units::ByteSize;
use headstart_units::PAGE_BYTES;

use crate::plan::files::PlannedFiles;
use crate::plan::requests::{Passes, pass};
use crate::plan::say_left_out;
use commands::Commands;
use figures::Figures;
use headstart_cli::trace::{LayerName, warn};
use told::Told;

/// Regions that the files are divided into if nobody says otherwise: as many as D-CARL's.
const REGIONS: u64 = 512;

#[derive(Debug, Args)]
pub struct Advise {
    /// A directory that `headstart trace` made, or what another tool wrote: see `headstart convert`
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// Length of a region [default: 64MiB, or less where the files are small]
    #[arg(long, value_name = "SIZE")]
    region: Option<ByteSize>,

    /// Which requests of Darshan's traces: those that reached the file system, or those of MPI-IO above
    #[arg(long, value_enum, default_value = "posix")]
    layer: LayerName,

    /// Where to write a page with all of it and its plots, for a browser: one file that needs no other, in
    /// place of one that is there
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Advise {
    pub fn execute(&self, site_file: Option<&Path>) -> Result<ExitCode> {
        let site = Site::read(&Site::locate(site_file))?;
        let selection = site.selection().map_err(anyhow::Error::msg)?;
        let region = self.region.unwrap_or(ByteSize(REGION_BYTES));
        if region.0 < PAGE_BYTES {
            bail!("--region {region}: it is at least {}, the page of flash", ByteSize(PAGE_BYTES));
        }
        let files = PlannedFiles::new(site.slow.clone(), selection, region.0);
        let passes = RefCell::new(Passes::new(&self.trace, self.layer.into(), files));
        let file = |number: u32| -> Option<TracedFile> {
            let passes = passes.borrow();
            passes.files.get(number).map(|file| self.with_regions(file, passes.ends.get(number as usize).copied()))
        };
        let critical = CriticalCosts { read: site.s4d.read.clone(), write: site.s4d.write.clone() };
        let (costs, software) = (site.region_costs(), site.software.unwrap_or_default());
        let mut advice = advise(pass(&passes), file, &costs, &critical, software);
        if self.region.is_none() && has_unknown_sizes(&passes.borrow()) {
            // Only the end of the pass has told how long they are, and so what regions fit them.
            advice = advise(pass(&passes), file, &costs, &critical, software);
        }
        let mut passes = passes.into_inner();
        passes.check()?;
        let advice = advice.with_context(|| format!("no advice from {}", self.trace.display()))?;
        warn(&passes.losses);
        say_left_out(passes.files.left_out(), &site.slow);
        if passes.planned_requests == 0 {
            bail!(
                "the trace {} has {}: there is nothing to advise",
                self.trace.display(),
                match passes.requests {
                    0 => "no request (record one that has with 'headstart trace -- PROGRAM')".to_string(),
                    count => format!(
                        "{count} requests, and none on a file below {} that may come to flash",
                        site.slow.display()
                    ),
                }
            );
        }
        let commands = Commands { trace: self.trace.clone(), site: site_file.map(Path::to_path_buf) };
        let told = Told { trace: &self.trace, slow: &site.slow, advice: &advice, commands };
        if let Some(path) = &self.output {
            fs::write(path, page::page(&told)).with_context(|| format!("cannot write the page {}", path.display()))?;
        }
        if self.json {
            println!("{}", serde_json::to_string(&Figures::of(&told))?);
        } else {
            print!("{}", summary::text(&told));
        }
        if let Some(path) = &self.output {
            eprintln!("headstart: the page is {}; open it in a browser", path.display());
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The file with regions as asked for; else such that a small file, too, has enough of them to choose
    /// from. `end` is that of its last request, if a pass has found it.
    fn with_regions(&self, file: &TracedFile, end: Option<u64>) -> TracedFile {
        let file = file.clone();
        let (None, Some(size_bytes)) = (self.region, file.size_bytes.or(end)) else { return file };
        let share = (size_bytes / REGIONS).next_power_of_two();
        TracedFile { region_bytes: share.clamp(64 << 10, REGION_BYTES), ..file }
    }
}

fn has_unknown_sizes(passes: &Passes<'_>) -> bool {
    (0..).map_while(|number| passes.files.get(number)).any(|file| file.size_bytes.is_none())
}
