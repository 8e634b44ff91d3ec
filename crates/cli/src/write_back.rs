//! `headstart drain` and `headstart stop`, and the drain at the end of `run`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use headstart_agent::Error;
use headstart_agent::client::Client;
use headstart_agent::process::is_stopped;
use headstart_agent::site::Site;
use headstart_agent::status::{Command, HeldUpFile, Status};
use headstart_units::ByteSize;

use crate::durable::make_durable;
use crate::interrupts::Interrupts;
use crate::others::Others;
use crate::progress;
use crate::service::Service;
use crate::start::Start;
use headstart_cli::ending::{refuse_dirty, stop};

/// A drain waits so long for a write of a process that is stopped: whoever continues it at once is in time.
const STOPPED_PATIENCE: Duration = Duration::from_secs(2);
/// The same of one that is not: no single request of a disk takes so long (assumed).
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub struct Drain {
    /// Files, over what other programs changed in them meanwhile; everything but such changed files if absent
    paths: Vec<PathBuf>,

    /// Write changed files back as well: what other programs wrote there meanwhile is overwritten
    #[arg(long, conflicts_with = "discard")]
    over_changes: bool,

    /// Give dirty bytes up instead: they are lost. Says first what is lost, and asks
    #[arg(long)]
    discard: bool,

    /// With --discard: do not ask
    #[arg(long, requires = "discard")]
    yes: bool,

    /// What is dirty on this node's flash alone, not on that of other nodes that share the directory
    #[arg(long, conflicts_with = "discard")]
    this_node: bool,
}

impl Drain {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        if self.discard {
            return crate::discard::discard(site, &self.paths, self.yes);
        }
        let site_path = Site::locate(site);
        let site = Site::load(&site_path)?;
        let start = Start::for_command(&site, &site_path);
        let service = Service::connect(start.clone())?;
        let others = if self.this_node { Others::none() } else { Others::find(&start)? };
        for path in &self.paths {
            let path = path.canonicalize().with_context(|| format!("cannot find {}", path.display()))?;
            if !path.starts_with(&site.slow) {
                bail!("{} does not lie in the slow directory {}", path.display(), site.slow.display());
            }
            if path.is_dir() {
                bail!("{} is a directory; name a file, or nothing to drain everything", path.display());
            }
            let path = path.to_str().with_context(|| {
                format!("{} is not UTF-8; drain everything, with --over-changes if it was changed", path.display())
            })?;
            let drain = Command::Drain { path: Some(path.to_string()), over_changes: true };
            service.ask(&drain)?;
            others.each("drain", |other| other.ask(&drain).map(drop).map_err(Into::into));
        }
        let interrupts = Interrupts::listen()?;
        if !self.paths.is_empty() {
            make_durable(&service, &interrupts)?;
            others.each("drain", |other| make_durable(other, &interrupts).map(drop));
            return Ok(others.exit_code(true));
        }
        // All at once: each has its own way to the disks.
        let drain = Command::Drain { path: None, over_changes: self.over_changes };
        others.each("drain", |other| other.ask(&drain).map(drop).map_err(Into::into));
        if others.any_gone() {
            service.ask(&Command::DrainGone)?;
        }
        let drained = drain_all(&service, &interrupts, self.over_changes)?;
        if drained.is_whole && drained.status.dirty_bytes > 0 {
            eprintln!(
                "headstart: {} were written by programs meanwhile, and stay on flash",
                ByteSize(drained.status.dirty_bytes)
            );
        }
        others.each("drain", |other| match drain_all(other, &interrupts, self.over_changes)?.is_whole {
            true => Ok(()),
            false => bail!("not all of it is on disk"),
        });
        others.name_gone()?;
        Ok(others.exit_code(drained.is_whole))
    }
}

/// The end of a drain.
pub struct Drained {
    /// What there is then.
    pub status: Status,
    /// All that was dirty when it was asked for is on disk. What other programs write meanwhile is for their
    /// own run to drain.
    pub is_whole: bool,
}

/// Writes back all that is dirty, over files that another program changed only if told to, makes that
/// durable, and shows progress. An interrupt ends the wait: the bytes stay on flash and the user is told. An
/// agent that dies meanwhile is followed by another, which writes back the rest.
pub fn drain_all(service: &Service, interrupts: &Interrupts, over_changes: bool) -> Result<Drained> {
    let drain = Command::Drain { path: None, over_changes };
    let interrupted_before = interrupts.so_far();
    let mut status = service.ask(&drain)?;
    let (mut lives, mut drains_before) = (service.lives(), status.service.drains_total);
    let total = status.dirty_bytes;
    let bar = progress::of_bytes("writing back", total);
    let mut progress = (status.dirty_bytes, Instant::now());
    while (status.dirty_bytes > 0 || status.draining) && status.service.drains_total == drains_before {
        bar.set_position(total.saturating_sub(status.dirty_bytes));
        if interrupts.so_far() > interrupted_before {
            bar.finish_and_clear();
            service.ask(&Command::KeepDirty)?;
            status = make_durable(service, interrupts)?;
            eprintln!(
                "headstart: stopped; {} stay on flash and are not lost: write them back with 'headstart drain'",
                ByteSize(status.dirty_bytes)
            );
            return Ok(Drained { status, is_whole: false });
        }
        if status.files_failed >= status.files_dirty
            && let Some(stuck) = stuck(&status)
        {
            bar.finish_and_clear();
            service.ask(&Command::KeepDirty)?;
            eprintln!("headstart: {stuck}");
            return Ok(Drained { status, is_whole: false });
        }
        if progress.0 != status.dirty_bytes {
            progress = (status.dirty_bytes, Instant::now());
        }
        if let Some(held) = status.held_up.iter().find(|held| is_stuck(service, held, progress.1.elapsed())) {
            bar.finish_and_clear();
            service.ask(&Command::KeepDirty)?;
            eprintln!("headstart: {}", held_up(service, held, status.dirty_bytes));
            status = make_durable(service, interrupts)?;
            return Ok(Drained { status, is_whole: false });
        }
        std::thread::sleep(Duration::from_millis(if status.dirty_bytes > 0 { 5 } else { 2 }));
        // Somebody else's command may have ended the drain meanwhile.
        status = service.ask(if status.draining { &Command::Status } else { &drain })?;
        while lives != service.lives() {
            // The next agent knows of no drain, and counts its own.
            lives = service.lives();
            status = service.ask(&drain)?;
            drains_before = status.service.drains_total;
        }
    }
    bar.finish_and_clear();
    make_durable(service, interrupts)?;
    let stuck = stuck(&status);
    if let Some(stuck) = &stuck {
        eprintln!("headstart: {stuck}");
    }
    Ok(Drained { status, is_whole: stuck.is_none() })
}

/// Whether there is no use in waiting for a process in the middle of a write, beside which nothing has been
/// written back for so long.
fn is_stuck(service: &Service, held: &HeldUpFile, without_progress: Duration) -> bool {
    let limit = if is_seen_stopped(service, held) { STOPPED_PATIENCE } else { PATIENCE };
    without_progress >= limit && Duration::from_millis(held.for_ms) >= limit
}

/// Whether the process is one of this node, and stopped.
fn is_seen_stopped(service: &Service, held: &HeldUpFile) -> bool {
    !service.is_elsewhere() && is_stopped(held.pid)
}

fn held_up(service: &Service, held: &HeldUpFile, dirty_bytes: u64) -> String {
    let what = if is_seen_stopped(service, held) { "is stopped" } else { "does not go on" };
    format!(
        "process {} {what} in the middle of a write to {}: {} stay on flash and are not lost; let it go on or end it, then \
         'headstart drain'",
        held.pid,
        held.path,
        ByteSize(dirty_bytes)
    )
}

/// What cannot be written back, if anything.
fn stuck(status: &Status) -> Option<String> {
    let failed = status.files.iter().find(|file| file.error.is_some() && file.dirty_bytes > 0)?;
    Some(format!(
        "{}: {} cannot be written back: {}; the bytes stay on flash: make room or mend the file, then 'headstart drain'",
        failed.path,
        ByteSize(failed.dirty_bytes),
        failed.error.as_deref().unwrap_or("unknown error")
    ))
}

#[derive(Debug, Args)]
pub struct Stop {
    /// Stop even if dirty bytes stay on flash
    #[arg(long)]
    keep_dirty: bool,

    /// Stop the agents of other nodes that share the directory as well, theirs first
    #[arg(long)]
    all_nodes: bool,
}

impl Stop {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        let site_path = Site::locate(site);
        let site = Site::load(&site_path)?;
        let Ok(client) = Client::connect(&site) else {
            eprintln!("headstart: no agent runs for {}", site.slow.display());
            return Ok(ExitCode::SUCCESS);
        };
        let start = Start::for_command(&site, &site_path);
        if self.all_nodes {
            let others = Others::find(&start)?;
            others.each("stop", |other| {
                refuse_dirty(&other.ask(&Command::Status)?, self.keep_dirty)?;
                Ok(other.ask(&Command::Stop).map(drop)?)
            });
            if !others.are_whole() {
                bail!("not all other nodes' agents have ended; this one goes on");
            }
            others.wait_for_leaving()?;
        }
        stop(&client, self.keep_dirty).or_else(|error| match error.downcast_ref() {
            // What it left is taken up by another, which then ends in order.
            Some(Error::NoAgent { .. }) if start.socket().exists() => {
                eprintln!("headstart: the agent died before it had ended; starting another one to end in order");
                stop(&start.connect()?, self.keep_dirty)
            }
            _ => Err(error),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
