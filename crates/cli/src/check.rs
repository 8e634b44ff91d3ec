//! `headstart check`: how a managed directory stands.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use headstart_agent::Error;
use headstart_agent::inspection::{FileReport, Inspection, JournalState, OtherNode, SlowState, Verdict, inspect};
use headstart_agent::site::Site;
use headstart_cli::command::EXIT_DIRTY;
use headstart_units::ByteSize;

/// Ranges printed of one file; `--json` has all that are known.
const RANGES_PRINTED: usize = 8;

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 everything is on disk; 75 dirty bytes wait on flash; 76 they cannot be written back \
    before you decide; 77 bytes are lost; 78 another user or node owns the directory; 125 it could not be looked at."
)]
pub struct Check {
    /// A managed directory; that of the site file if absent
    directory: Option<PathBuf>,

    /// Look at the attributes of all files too: for a directory whose list of dirty files is gone
    #[arg(long)]
    scan: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        let (slow, fast, site) = directories(self.directory.as_deref(), site)?;
        let found = inspect(&slow, fast.as_deref(), site.as_ref(), self.scan)?;
        if self.json {
            let mut value = serde_json::to_value(&found)?;
            value["exit_status"] = exit_status(found.verdict).into();
            println!("{}", serde_json::to_string_pretty(&value)?);
        } else {
            print(&found);
        }
        Ok(ExitCode::from(exit_status(found.verdict)))
    }
}

/// A slow directory, its fast one, and the site of both, as far as they are known.
pub type Directories = (PathBuf, Option<PathBuf>, Option<Site>);

/// The slow directory meant, and the fast one and the site if the site file speaks of it. A fast directory that is gone
/// is no error here.
pub fn directories(directory: Option<&Path>, site: Option<&Path>) -> Result<Directories> {
    let of_site = match Site::load(&Site::locate(site)) {
        Ok(site) => Ok((site.slow.clone(), Some(site.fast.clone()), Some(site))),
        Err(Error::FastDirectory { slow, fast, .. }) => Ok((slow, Some(fast), None)),
        Err(error) => Err(error),
    };
    let Some(directory) = directory else { return Ok(of_site?) };
    let slow = directory.canonicalize().with_context(|| format!("cannot find {}", directory.display()))?;
    let known = of_site.ok().filter(|(known, ..)| *known == slow);
    Ok(known.unwrap_or((slow, None, None)))
}

fn exit_status(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Clean => 0,
        Verdict::Dirty => EXIT_DIRTY,
        Verdict::Attention => 76,
        Verdict::Lost => 77,
        Verdict::OwnedElsewhere => 78,
    }
}

fn print(found: &Inspection) {
    println!("directory  {}", found.directory);
    println!("fast       {}", found.fast.as_deref().unwrap_or("not known"));
    match &found.owner {
        None => println!("owner      nobody"),
        Some(owner) if found.agent_runs => println!("owner      {owner}; its agent, process {}, runs", owner.pid),
        Some(owner) => println!("owner      {owner}; no agent of it runs on this node"),
    }
    let journal = match found.journal {
        JournalState::Absent => "there is none",
        JournalState::Usable => "whole",
        JournalState::Older => "older than the list of dirty files: not the flash that is meant, or a copy of before",
        JournalState::Unusable => "cannot be used",
        JournalState::GivenUp => "its bytes were given up; it is moved away when an agent starts",
        JournalState::Elsewhere => "kept by the owner",
    };
    println!("journal    {journal}");
    found.problems.iter().for_each(|problem| println!("problem    {problem}"));
    found.files.iter().for_each(print_file);
    for other in &found.others {
        println!("node       {} (number {}, {}): {}", other.name, other.number, other.is, of_other(other));
        other.problems.iter().for_each(|problem| println!("problem    {problem}"));
        other.files.iter().for_each(print_file);
    }
    if found.verdict_here > Verdict::Clean || found.verdict == Verdict::Clean {
        println!("{}", advice(found));
    }
}

/// What another node has, and what to do.
fn of_other(other: &OtherNode) -> String {
    let (size, name) = (|bytes| ByteSize(bytes).to_string(), &other.name);
    let dirty = size(other.dirty_bytes);
    match other.verdict {
        Verdict::Clean => "it keeps nothing that is not on disk".into(),
        Verdict::Lost => format!(
            "{} are lost unless its flash comes back as it was. 'headstart cluster forget {name}' gives them up",
            size(other.lost_bytes)
        ),
        _ if other.is == "member" => format!("{dirty} wait on its flash: 'headstart drain' writes them back"),
        Verdict::Attention => format!(
            "{dirty} wait on its flash, but not all can go back: mend the files named below; 'headstart cluster forget \
             {name}' gives them up"
        ),
        _ => format!("{dirty} that it had synced wait on its flash: 'headstart drain' on any node writes them back"),
    }
}

/// What it comes to, and what to do. Nobody is told to give bytes up while an agent or a program may still need them.
fn advice(found: &Inspection) -> String {
    let size = |bytes| ByteSize(bytes).to_string();
    let dirty = size(found.dirty_bytes);
    let in_use = match (&found.owner, found.program_runs) {
        (Some(owner), _) if found.agent_runs => Some(format!(
            "The agent (process {}) runs: nothing is to be given up before programs have ended and \
             'headstart stop --keep-dirty' has ended it; look again then",
            owner.pid
        )),
        (_, Some(pid)) => Some(format!(
            "A program (process {pid}) takes part and waits for an agent where it needs one: 'headstart agent' \
             starts it, if no 'headstart run' does"
        )),
        _ => None,
    };
    let else_say = |otherwise: &str| in_use.clone().unwrap_or_else(|| otherwise.to_string());
    match found.verdict {
        Verdict::Clean => "everything is on disk".into(),
        Verdict::Dirty => format!("{dirty} wait on flash, all there: 'headstart drain' writes them back"),
        Verdict::OwnedElsewhere if found.agent_runs => {
            format!("{dirty} wait on flash of the owner, whose agent runs: 'headstart drain' there writes them back")
        }
        Verdict::OwnedElsewhere => format!(
            "{dirty} wait on flash of the owner: 'headstart drain' there writes them back; if that node or flash is \
             gone for good, 'headstart disown {}' gives them up",
            found.directory
        ),
        Verdict::Attention => format!(
            "{dirty} wait on flash, but not all can go back: mend the files named above, or 'headstart drain FILE' \
             over what changed. {}",
            else_say("'headstart drain --discard FILE' gives bytes up")
        ),
        Verdict::Lost => format!(
            "{} are lost unless the flash comes back as it was. {}",
            size(found.lost_bytes),
            else_say("'headstart drain --discard' gives them up")
        ),
    }
}

/// What a file has on flash alone, and what of it is lost.
pub fn print_file(file: &FileReport) {
    let about = if file.exact { "" } else { " (the last range covers clean bytes too)" };
    println!("dirty      {} in {}: bytes {}{about}", ByteSize(file.dirty_bytes), file.path, ranges(&file.ranges));
    if file.open_for_writing {
        println!("           open for writing: more of it may be dirty");
    }
    match file.slow {
        SlowState::Found => {}
        SlowState::Missing => println!("           the slow file is missing"),
        SlowState::Replaced => println!("           another file has its name now"),
        SlowState::Changed => println!("           another program changed the slow file since"),
    }
    if let Some(error) = &file.error {
        println!("           cannot be written back: {error}");
    }
    if file.lost_bytes > 0 {
        println!("lost       {} of {}: bytes {}", ByteSize(file.lost_bytes), file.path, ranges(&file.lost));
    }
    file.missing_data.iter().for_each(|data| println!("           missing or too short: {data}"));
}

fn ranges(ranges: &[(u64, u64)]) -> String {
    let named = ranges.iter().take(RANGES_PRINTED).map(|(offset, length)| format!("{offset}-{}", offset + length));
    let mut text = named.collect::<Vec<_>>().join(", ");
    if ranges.len() > RANGES_PRINTED {
        text.push_str(&format!(" and {} more ranges", ranges.len() - RANGES_PRINTED));
    }
    if text.is_empty() { "not known".into() } else { text }
}
