//! `headstart drain --discard` and `headstart disown`: giving dirty bytes up, after saying which.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use headstart_agent::inspection::{FileReport, Inspection, JournalState, Verdict, give_up, inspect};
use headstart_agent::site::Site;
use headstart_agent::status::Command;
use headstart_units::ByteSize;

use crate::check::{directories, print_file};
use crate::confirming;
use crate::durable::make_durable;
use crate::interrupts::Interrupts;
use crate::service::Service;
use crate::start::Start;

#[derive(Debug, Args)]
pub struct Disown {
    /// A managed directory; that of the site file if absent
    directory: Option<PathBuf>,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Disown {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        let (slow, fast, site) = directories(self.directory.as_deref(), site)?;
        let found = inspect(&slow, fast.as_deref(), site.as_ref(), false)?;
        if found.owner.is_none() && !found.listed && found.problems.is_empty() {
            // A list of nodes may name one all the same, where somebody removed the claim by hand.
            give_up(&slow, &found)?;
            println!("nobody owns {}", slow.display());
            return Ok(ExitCode::SUCCESS);
        }
        refuse_living(&found)?;
        if found.journal == JournalState::Usable && found.dirty_bytes > 0 {
            bail!(
                "the flash of {} is there: 'headstart drain' writes {} back, 'headstart drain --discard' gives them up",
                slow.display(),
                ByteSize(found.dirty_bytes)
            );
        }
        if let Some(owner) = &found.owner {
            println!("{} is given up by {owner}", slow.display());
        }
        confirm(&found.files.iter().collect::<Vec<_>>(), self.yes)?;
        give_up(&slow, &found)?;
        println!("{} belongs to nobody now", slow.display());
        Ok(ExitCode::SUCCESS)
    }
}

fn refuse_living(found: &Inspection) -> Result<()> {
    if let Some(other) = found.others.iter().find(|other| other.is == "member") {
        bail!("node {} has the directory too, and is there: 'headstart stop' on it ends its agent first", other.name);
    }
    if let Some(owner) = found.owner.as_ref().filter(|_| found.agent_runs) {
        bail!("the agent of {owner} runs (process {}): 'headstart stop' ends it first", owner.pid);
    }
    match found.program_runs {
        Some(pid) => bail!("process {pid} takes part and may have newer bytes: end it first, or let an agent serve it"),
        None => Ok(()),
    }
}

/// `drain --discard`.
pub fn discard(site: Option<&Path>, paths: &[PathBuf], yes: bool) -> Result<ExitCode> {
    let (slow, fast, of_site) = directories(None, site)?;
    let found = inspect(&slow, fast.as_deref(), of_site.as_ref(), false)?;
    if found.verdict_here == Verdict::OwnedElsewhere {
        let owner = found.owner.expect("somebody owns it");
        bail!("{} belongs to {owner}; discard there, or 'headstart disown' if it is gone for good", slow.display());
    }
    let chosen = chosen(&found, paths)?;
    let usable = matches!(found.journal, JournalState::Usable);
    if chosen.is_empty() && (usable || !found.listed) {
        println!("nothing of {} is only on flash", slow.display());
        return Ok(ExitCode::SUCCESS);
    }
    if !usable {
        if !paths.is_empty() {
            bail!("the flash of {} is gone with all it held; discard all, without naming files", slow.display());
        }
        refuse_living(&found)?;
        confirm(&chosen, yes)?;
        give_up(&slow, &found)?;
    } else {
        confirm(&chosen, yes)?;
        by_agent(site, &chosen)?;
    }
    let bytes: u64 = chosen.iter().map(|file| file.dirty_bytes).sum();
    println!("{} given up", ByteSize(bytes));
    Ok(ExitCode::SUCCESS)
}

fn by_agent(site: Option<&Path>, files: &[&FileReport]) -> Result<()> {
    let site_path = Site::locate(site);
    let site = Site::load(&site_path)?;
    let service = Service::connect(Start::for_command(&site, &site_path))?;
    if files.iter().any(|file| file.path.contains(char::REPLACEMENT_CHARACTER)) {
        // A name that is no UTF-8 cannot be told to the agent; it is only among these if all are meant.
        service.ask(&Command::Discard { path: None })?;
    } else {
        for file in files {
            service.ask(&Command::Discard { path: Some(file.path.clone()) })?;
        }
    }
    make_durable(&service, &Interrupts::listen()?)?;
    Ok(())
}

/// The files named, by what the journal or the list calls them; all if none is named.
fn chosen<'a>(found: &'a Inspection, paths: &[PathBuf]) -> Result<Vec<&'a FileReport>> {
    if paths.is_empty() {
        return Ok(found.files.iter().collect());
    }
    let named = |path: &PathBuf| {
        if path.to_str().is_none_or(|text| text.contains(char::REPLACEMENT_CHARACTER)) {
            bail!("{} is not UTF-8; discard everything, or drain it", path.display());
        }
        // The file itself may be gone.
        let absolute = path.canonicalize().or_else(|_| {
            let absolute = std::path::absolute(path)?;
            let parent = absolute.parent().unwrap_or(&absolute).canonicalize()?;
            Ok::<PathBuf, std::io::Error>(parent.join(absolute.file_name().unwrap_or_default()))
        });
        let absolute = absolute.with_context(|| format!("cannot find {}", path.display()))?;
        let report = found.files.iter().find(|file| file.path == absolute.display().to_string());
        report.with_context(|| format!("nothing of {} is only on flash", path.display()))
    };
    paths.iter().map(named).collect()
}

/// Says what is lost, and asks unless told not to.
fn confirm(files: &[&FileReport], yes: bool) -> Result<()> {
    let bytes: u64 = files.iter().map(|file| file.dirty_bytes).sum();
    files.iter().for_each(|file| print_file(file));
    println!("{} of {} files are lost for good: the disk keeps what it has", ByteSize(bytes), files.len());
    confirming::confirm(yes, "Give them up?", "given up")
}
