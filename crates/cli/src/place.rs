//! `headstart place` and `headstart unplace`: regions that a plan chose, copied to flash, or given back.
//!
//! ```text
//! plan file -> look at its files -> the agent knows the regions -> copy -> barrier -> compare flash with disk
//!                                                                 `- no room beside dirty bytes: drain -> copy
//! ```
//!
//! Each step may be interrupted and done again: what the agent knows is in its journal, and what is on flash
//! is not copied twice.

mod verifying;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use headstart_agent::plan;
use headstart_agent::site::Site;
use headstart_agent::status::{Command, Status};
use headstart_cli::command::{EXIT_DIRTY, EXIT_FAILED};
use headstart_units::ByteSize;

use crate::following::{Followed, Purpose, follow, path_of};
use verifying::{Verified, verify};

use crate::durable::make_durable;
use crate::interrupts::Interrupts;
use crate::progress;
use crate::service::Service;
use crate::start::Start;
use crate::write_back::drain_all;

/// Between two questions to the agent how far it is: at first, and at most. It looks at every extent for an answer.
const POLL_MIN: Duration = Duration::from_millis(2);
const POLL_MAX: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub struct Place {
    /// The plan, as 'headstart plan' makes it
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
}

#[derive(Debug, Args)]
pub struct Unplace {
    /// The regions of the files in this plan; those of all files if absent
    #[arg(value_name = "PLAN.toml")]
    plan: Option<PathBuf>,
}

impl Place {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        let plan = plan::load(&self.plan)?;
        let site_path = Site::locate(site);
        let site = Site::load(&site_path)?;
        let service = Service::connect(Start::for_command(&site, &site_path))?;
        let interrupts = Interrupts::listen()?;
        let followed = follow(&|commands| service.ask_all(commands), &site, &plan, Purpose::Placing)?;
        followed.problems.iter().for_each(|problem| eprintln!("headstart: {problem}"));
        let status = service.ask(&Command::Status)?;
        say_capacity(&plan, &followed, &status, &site);
        let copied = place(&service, &interrupts)?;
        make_durable(&service, &interrupts)?;
        if !copied {
            eprintln!("headstart: stopped; what is on flash stays there, and 'headstart place' goes on from it");
            return Ok(ExitCode::from(EXIT_FAILED));
        }
        let Some(verified) = verify(&site, &followed, &interrupts)? else {
            eprintln!("headstart: stopped before all was compared; the regions stay on flash");
            return Ok(ExitCode::from(EXIT_FAILED));
        };
        let status = service.ask(&Command::Status)?;
        report(&followed, &verified, &status);
        let failed = !followed.problems.is_empty() || !verified.mismatches.is_empty() || status.placement.failed > 0;
        Ok(if failed { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
    }
}

impl Unplace {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        let plan = self.plan.as_deref().map(plan::load).transpose()?;
        let site_path = Site::locate(site);
        let site = Site::load(&site_path)?;
        let service = Service::connect(Start::for_command(&site, &site_path))?;
        let interrupts = Interrupts::listen()?;
        let before = service.ask(&Command::Status)?.placement;
        // What is clean leaves flash at once; what were dirty would stay as long as there is room.
        let so_far = interrupts.so_far();
        let drained = drain_all(&service, &interrupts, false)?;
        if interrupts.so_far() > so_far {
            return Ok(ExitCode::from(EXIT_DIRTY));
        }
        match &plan {
            None => drop(service.ask(&Command::Unplace { path: None })?),
            Some(plan) => {
                for file in &plan.files {
                    let path = path_of(&file.path);
                    service.ask(&Command::Unplace { path: Some(path.to_str().unwrap_or(&file.path).to_string()) })?;
                }
            }
        }
        let status = make_durable(&service, &interrupts)?;
        let size = |bytes| ByteSize(bytes).to_string();
        println!(
            "unplaced   {} of {} files",
            size(before.wanted_bytes.saturating_sub(status.placement.wanted_bytes)),
            before.files.saturating_sub(status.placement.files)
        );
        println!("on flash   {} of {}", size(status.mapped_bytes), size(status.capacity_bytes));
        Ok(if drained.is_whole { ExitCode::SUCCESS } else { ExitCode::from(EXIT_DIRTY) })
    }
}

/// What cannot fit is said beforehand; what fits is placed all the same.
fn say_capacity(plan: &headstart_insight::plan::Plan, followed: &Followed, status: &Status, site: &Site) {
    let size = |bytes| ByteSize(bytes).to_string();
    let wanted_bytes = status.placement.wanted_bytes;
    if wanted_bytes > status.capacity_bytes {
        let others = wanted_bytes.saturating_sub(followed.bytes());
        let others = if others > 0 { format!(" ({} of them of other plans)", size(others)) } else { String::new() };
        eprintln!(
            "headstart: regions of {}{others} do not fit into the capacity, {} ({}); the plan was made for {}. Those of most gain are \
             placed; 'headstart capacity' gives more, 'headstart unplace' frees some",
            size(wanted_bytes),
            status.capacity,
            size(status.capacity_bytes),
            size(plan.capacity_bytes)
        );
    }
    let Ok(found) = nix::sys::statvfs::statvfs(&site.fast) else { return };
    let free_bytes = found.blocks_available() * found.fragment_size();
    let missing_bytes = wanted_bytes.min(status.capacity_bytes).saturating_sub(status.mapped_bytes);
    if missing_bytes > free_bytes {
        eprintln!(
            "headstart: {} has {} free, and {} are to come; what fits is placed",
            site.fast.display(),
            size(free_bytes),
            size(missing_bytes)
        );
    }
}

/// Copies what is missing. Clean bytes make way by themselves; where there was no room, dirty ones are
/// written back, and then it goes on: those that kept it from going on may be clean by now. False if
/// interrupted.
fn place(service: &Service, interrupts: &Interrupts) -> Result<bool> {
    let so_far = interrupts.so_far();
    if !copy(service, interrupts)? {
        return Ok(false);
    }
    let status = service.ask(&Command::Status)?;
    if status.placement.placed_bytes >= status.placement.wanted_bytes {
        return Ok(true);
    }
    drain_all(service, interrupts, false)?;
    Ok(interrupts.so_far() == so_far && copy(service, interrupts)?)
}

/// Waits while the agent copies; false if interrupted.
fn copy(service: &Service, interrupts: &Interrupts) -> Result<bool> {
    let so_far = interrupts.so_far();
    let mut status = service.ask(&Command::Place { on: true })?;
    let mut lives = service.lives();
    let bar = progress::of_bytes("placing", status.placement.wanted_bytes);
    let mut pause = POLL_MIN;
    while status.placement.running {
        bar.set_position(status.placement.placed_bytes);
        if interrupts.so_far() > so_far {
            bar.finish_and_clear();
            service.ask(&Command::Place { on: false })?;
            return Ok(false);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(POLL_MAX);
        status = service.ask(&Command::Status)?;
        while lives != service.lives() {
            // The next agent knows the regions, and copies for whoever asks.
            lives = service.lives();
            status = service.ask(&Command::Place { on: true })?;
        }
    }
    bar.finish_and_clear();
    Ok(true)
}

fn report(followed: &Followed, verified: &Verified, status: &Status) {
    let size = |bytes| ByteSize(bytes).to_string();
    println!(
        "placed     {} of {} regions, {} of {}, in {} files; compared with the disk",
        verified.regions,
        followed.regions(),
        size(verified.bytes),
        size(followed.bytes()),
        followed.files.len()
    );
    let missing_bytes = followed.bytes().saturating_sub(verified.bytes);
    if missing_bytes > 0 {
        println!(
            "left out   {} regions, {}: flash has no room for them, or files are in use (a part of the capacity is kept for writes)",
            followed.regions().saturating_sub(verified.regions),
            size(missing_bytes)
        );
    }
    if verified.newer_bytes > 0 {
        println!("newer      {} are dirty or in use, and were not compared", size(verified.newer_bytes));
    }
    for file in status.file_placements.iter().filter(|file| file.error.is_some()) {
        eprintln!("headstart: {}: {}", file.path, file.error.as_deref().unwrap_or_default());
    }
    for (path, offset) in &verified.mismatches {
        eprintln!(
            "headstart: {}: byte {offset} on flash is not what the disk has; 'headstart unplace' gives it back",
            path.display()
        );
    }
    println!("on flash   {} of {}", size(status.mapped_bytes), size(status.capacity_bytes));
}

/// The regions of a plan for a run, made known without copying anything.
pub fn follow_for_run(service: &Service, site: &Site, path: &Path) -> Result<()> {
    let plan = plan::load(path)?;
    let followed = follow(&|commands| service.ask_all(commands), site, &plan, Purpose::Running)?;
    let without = |problem| eprintln!("headstart: {problem}; the program runs without its regions");
    followed.problems.iter().for_each(without);
    Ok(())
}
