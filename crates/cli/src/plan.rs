//! `headstart plan`: which regions of which files belong on flash, from a trace of an earlier run (CARL).

mod figures;
pub mod files;
pub mod requests;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use headstart_agent::plan::save;
use headstart_agent::site::Site;
use headstart_insight::plan::{Choice, Options, Plan, TracedFile, plan};
use headstart_policy::cost::region::gain_table::REGION_BYTES;
use headstart_units::ByteSize;
use headstart_units::Capacity;
use headstart_units::PAGE_BYTES;
use nix::errno::Errno;

use crate::agent::parse_capacity;
use figures::Figures;
use files::{LeftOut, PlannedFiles};
use headstart_cli::trace::{LayerName, warn};
use requests::{Passes, pass};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ChoiceName {
    /// Those that gain most (CARL)
    Gain,
    /// The same beside S4D, which absorbs what is written for the first time: for runs with --policy carl,s4d or auto
    #[value(name = "beside-s4d")]
    BesideS4d,
    /// Any, for comparison (RANDOM)
    Random,
}

#[derive(Debug, Args)]
pub struct PlanArguments {
    /// A directory that `headstart trace` made, or what another tool wrote: see `headstart convert`
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// Flash to plan for: 20% of the files with requests, or a size [default: the site's capacity]
    #[arg(long, value_name = "20%|SIZE", allow_hyphen_values = true)]
    capacity: Option<String>,

    /// Length of a region
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(REGION_BYTES))]
    region: ByteSize,

    /// How regions are chosen
    #[arg(long, value_enum, default_value = "gain")]
    choice: ChoiceName,

    /// Draws other regions, with --choice random [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Which requests of Darshan's traces: those that reached the file system, or those of MPI-IO above
    #[arg(long, value_enum, default_value = "posix")]
    layer: LayerName,

    /// Where to write the plan, in place of one that is there [default: nowhere, only its figures are printed]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl PlanArguments {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        let site = Site::read(&Site::locate(site))?;
        let options = Options {
            capacity: self.capacity(&site)?,
            choice: self.choice()?,
            software: site.software.unwrap_or_default(),
        };
        if self.region.0 < PAGE_BYTES {
            bail!("--region {}: it is at least {}, the page of flash", self.region, ByteSize(PAGE_BYTES));
        }
        let selection = site.selection().map_err(anyhow::Error::msg)?;
        let files = PlannedFiles::new(site.slow.clone(), selection, self.region.0);
        let passes = RefCell::new(Passes::new(&self.trace, self.layer.into(), files));
        let file = |number: u32| -> Option<TracedFile> { passes.borrow().files.get(number).cloned() };
        let made = plan(|| pass(&passes), file, &site.region_costs(), options);
        let mut passes = passes.into_inner();
        passes.check()?;
        let made = made.with_context(|| format!("no plan from {}", self.trace.display()))?;
        warn(&passes.losses);
        say_left_out(passes.files.left_out(), &site.slow);
        if passes.planned_requests == 0 {
            bail!(
                "the trace {} has {}: there is nothing to plan",
                self.trace.display(),
                match passes.requests {
                    0 => "no request".to_string(),
                    count => format!(
                        "{count} requests, and none on a file below {} that may come to flash",
                        site.slow.display()
                    ),
                }
            );
        }
        say_shrunk(&made, &passes.ends);
        refuse_too_large(made.capacity_bytes, &site.fast)?;
        if let Some(path) = &self.output {
            save(path, &made)?;
        }
        let figures = Figures::of(&made, self.region.0);
        if self.json {
            println!("{}", serde_json::to_string(&figures)?);
        } else {
            figures.print();
        }
        if figures.flash_regions == 0 {
            eprintln!("headstart: warning: {}", why_nothing(&made));
        }
        if let Some(path) = &self.output {
            eprintln!("headstart: the plan is in {}; its regions may be changed by hand", path.display());
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The capacity, if flash can have it.
    fn capacity(&self, site: &Site) -> Result<Capacity> {
        let site_capacity = || site.settings().map(|settings| settings.capacity).map_err(anyhow::Error::msg);
        let capacity = parse_capacity(self.capacity.as_deref())?.map_or_else(site_capacity, Ok)?;
        match capacity {
            Capacity::Bytes(0) => bail!("a capacity of 0 has room for nothing: name a size or a share with --capacity"),
            Capacity::Share(share) if share <= 0.0 => {
                bail!("a capacity of 0% has room for nothing: name a size or a share with --capacity")
            }
            Capacity::Bytes(bytes) => refuse_too_large(bytes, &site.fast)?,
            Capacity::Share(_) => {}
        }
        Ok(capacity)
    }

    fn choice(&self) -> Result<Choice> {
        match (self.choice, self.seed) {
            (ChoiceName::Gain, None) => Ok(Choice::Gain),
            (ChoiceName::BesideS4d, None) => Ok(Choice::BesideS4d),
            (ChoiceName::Gain | ChoiceName::BesideS4d, Some(_)) => {
                bail!("--seed is for --choice random: the regions that gain most need none")
            }
            (ChoiceName::Random, seed) => Ok(Choice::Random(seed.unwrap_or(0))),
        }
    }
}

/// A plan for more than the flash can ever hold would only be found out when it is placed; flash that is not
/// here is not asked.
fn refuse_too_large(capacity_bytes: u64, fast: &Path) -> Result<()> {
    let found = match nix::sys::statvfs::statvfs(fast) {
        Err(Errno::ENOENT) => return Ok(()),
        found => found.with_context(|| format!("cannot look at {}", fast.display()))?,
    };
    let bytes = found.blocks().saturating_mul(found.fragment_size());
    if capacity_bytes > bytes {
        bail!(
            "a capacity of {} is more than the file system of {} has, {}: name less with --capacity",
            ByteSize(capacity_bytes),
            fast.display(),
            ByteSize(bytes)
        );
    }
    Ok(())
}

/// Says why files are left out.
pub fn say_left_out(left_out: &LeftOut, slow: &Path) {
    let LeftOut { outside, excluded, irregular, unnameable, vanished } = left_out;
    for (count, why) in [
        (*outside, format!("do not lie below {}", slow.display())),
        (*excluded, "are excluded by the site's patterns".to_string()),
        (*irregular, "are no regular files".to_string()),
    ] {
        if count > 0 {
            eprintln!("headstart: {count} files {why}: left out");
        }
    }
    for path in unnameable {
        eprintln!("headstart: warning: {path:?} is no UTF-8, as a plan is: left out");
    }
    if *vanished > 0 {
        eprintln!("headstart: {vanished} files are not there any more: taken as long as their requests say");
    }
}

fn say_shrunk(plan: &Plan, ends: &[u64]) {
    for (file, end) in plan.files.iter().zip(ends) {
        if *end > file.size_bytes {
            eprintln!(
                "headstart: warning: {} has {} bytes now, and the trace has requests up to {end}: what lies beyond is left out",
                file.path, file.size_bytes
            );
        }
    }
}

fn why_nothing(plan: &Plan) -> String {
    let regions = plan.files.iter().flat_map(|file| &file.regions);
    let gaining = regions.filter(|region| region.gain_ns > 0);
    match gaining.map(|region| region.range.length).min() {
        Some(smallest) => format!(
            "nothing goes to flash: the smallest region that gains has {}, the capacity is {}; choose smaller ones with --region",
            ByteSize(smallest),
            ByteSize(plan.capacity_bytes)
        ),
        None if plan.choice == Choice::BesideS4d => {
            "nothing goes to flash: no region would gain beside S4D, which absorbs what is written once".to_string()
        }
        None => "nothing goes to flash: no region would gain".to_string(),
    }
}
