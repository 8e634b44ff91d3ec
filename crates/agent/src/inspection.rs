//! `headstart check`: how a managed directory stands, with or without an agent, with or without its flash.
//!
//! | journal | dirty files and ranges come from | lost is |
//! |---|---|---|
//! | usable, the list no newer | the journal | ranges whose data file is missing or too short |
//! | absent, older than the list, damaged, unreadable | the list; the attributes if there is no list | all of them |
//! | of another user or node | the list | nothing that can be told from here |
//!
//! Where several nodes share the directory that is said of this one; what others have is in `inspection/nodes.rs`.
//!
//! It changes nothing and takes no lock. What moves meanwhile cannot be seen at one moment: whatever is worse than
//! dirty counts only if a second look finds the same on the same grounds. So a data file that the second replay still
//! names, though the first look did not find it, is missing: an agent removes one only after the record that it is not
//! needed. Of slow files a running agent knows more than can be seen, and is asked.

mod look;
mod nodes;

use std::path::{Path, PathBuf};
use std::time::Duration;

use headstart_protocol::FLASH_DIRECTORY;
use serde::Serialize;

use crate::claim;
use crate::client::Client;
use crate::cluster::entry;
use crate::dirty_list;
use crate::discarded;
use crate::error::{Error, Result};
use crate::owner::{Owner, Relation};
use crate::site::Site;
use crate::status::{Command, Status};

use look::{Evidence, look};
use nodes::Nodes;
pub use nodes::OtherNode;

/// Between two looks: an agent that follows one that died has begun by then, most of the time.
const PAUSE: Duration = Duration::from_millis(100);
/// The same where the list alone says how things stand, which is as old as its period.
const PAUSE_OF_LIST: Duration = Duration::from_millis(1000);
/// Looks after the first, where somebody is at work.
const LOOKS: u32 = 3;
/// How long an agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What it comes to; later ones are worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything is on disk.
    #[default]
    Clean,
    /// Dirty bytes wait on flash, all there.
    Dirty,
    /// Somebody else owns the directory; only they can tell.
    OwnedElsewhere,
    /// Dirty bytes cannot be written back before the user has decided.
    Attention,
    /// Bytes are lost.
    Lost,
}

/// The journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalState {
    /// There is none.
    #[default]
    Absent,
    /// It can be replayed.
    Usable,
    /// It is older than the list in the slow directory: another flash, or a copy of before.
    Older,
    /// It cannot be read or understood.
    Unusable,
    /// Its bytes were given up.
    GivenUp,
    /// Somebody else's.
    Elsewhere,
}

/// The slow file under dirty bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowState {
    /// As it was left.
    #[default]
    Found,
    /// It has no name any more.
    Missing,
    /// Another file has its name.
    Replaced,
    /// Another program changed it.
    Changed,
}

/// One file with dirty bytes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FileReport {
    /// Absolute path.
    pub path: String,
    /// Bytes that only flash has.
    pub dirty_bytes: u64,
    /// First byte and length of each dirty range.
    pub ranges: Vec<(u64, u64)>,
    /// Whether the ranges are exact; else the last one covers clean bytes too.
    pub exact: bool,
    /// More may have become dirty before the agent died.
    pub open_for_writing: bool,
    /// The slow file.
    pub slow: SlowState,
    /// Data files that are missing, too short or unreadable.
    pub missing_data: Vec<String>,
    /// The ranges that are lost.
    pub lost: Vec<(u64, u64)>,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Why the agent cannot write it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What that rests on.
    #[serde(skip)]
    evidence: Evidence,
}

/// How a directory stands.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Inspection {
    /// The managed directory.
    pub directory: String,
    /// The fast directory.
    pub fast: Option<String>,
    /// What it comes to.
    pub verdict: Verdict,
    /// Who owns it.
    pub owner: Option<Owner>,
    /// What the owner is to this process.
    pub owner_is: Option<Relation>,
    /// The owner's agent is a living process of this node.
    pub agent_runs: bool,
    /// A process of this user that takes part, with an agent or while it waits for one.
    pub program_runs: Option<u32>,
    /// The journal.
    pub journal: JournalState,
    /// Epoch of the agent that wrote it.
    pub journal_epoch: u64,
    /// Whether the directory shows a list of dirty files.
    pub listed: bool,
    /// Epoch of the agent that wrote the list.
    pub listed_epoch: u64,
    /// Files with dirty bytes.
    pub files: Vec<FileReport>,
    /// Sum of their dirty bytes.
    pub dirty_bytes: u64,
    /// Sum of their lost bytes.
    pub lost_bytes: u64,
    /// What else is wrong, in words.
    pub problems: Vec<String>,
    /// What it comes to on this node alone.
    pub verdict_here: Verdict,
    /// Other nodes that share the directory, or whose lists are there.
    pub others: Vec<OtherNode>,
    /// What it comes to but for the files.
    #[serde(skip)]
    whole: Verdict,
}

/// Looks at a managed directory. `fast` is asked for where no claim and no list names it; `site`, if it is that of the
/// directory, says how its nodes list themselves; `scan` looks for attributes on all files.
pub fn inspect(slow: &Path, fast: Option<&Path>, site: Option<&Site>, scan: bool) -> Result<Inspection> {
    // The claim knows best which flash is meant.
    let claimed = claim::read(slow).ok().flatten().map(|owner| PathBuf::from(owner.fast));
    let fast = claimed.as_deref().or(fast);
    let site = site.filter(|site| Some(site.fast.as_path()) == fast);
    let nodes = Nodes::find(fast, site);
    let mut report = inspect_here(slow, fast, nodes.own, scan)?;
    let (others, problem) = nodes.look(slow, fast)?;
    report.others = others;
    report.problems.extend(problem);
    report.verdict_here = report.verdict;
    report.verdict = report.others.iter().map(|other| other.verdict).fold(report.verdict, Verdict::max);
    Ok(report)
}

fn inspect_here(slow: &Path, fast: Option<&Path>, own: Option<u16>, scan: bool) -> Result<Inspection> {
    let mut report = look(slow, fast, own, scan)?;
    let mut looks = 0;
    while report.is_doubtful() && looks < if report.is_in_use() { LOOKS } else { 1 } {
        std::thread::sleep(if report.journal == JournalState::Elsewhere { PAUSE_OF_LIST } else { PAUSE });
        report = look(slow, fast, own, scan)?.confirmed_by(&report);
        looks += 1;
    }
    if report.agent_runs && report.journal == JournalState::Usable {
        report.ask_agent(slow);
    }
    Ok(report)
}

impl Inspection {
    /// Whether its agent or a program is at work, so that nothing must be given up behind their back.
    pub(crate) fn is_in_use(&self) -> bool {
        self.agent_runs || self.program_runs.is_some()
    }

    /// Whether a look at another moment may find less.
    fn is_doubtful(&self) -> bool {
        let clean = matches!(self.verdict, Verdict::Clean | Verdict::Dirty);
        !clean && (self.whole != Verdict::OwnedElsewhere || self.files.iter().any(|file| file.slow != SlowState::Found))
    }

    /// Of slow files: what the agent says of them, which has them open and knows what it has written itself.
    fn ask_agent(&mut self, slow: &Path) {
        if self.files.is_empty() {
            return;
        }
        let client = Client::of_directory(slow).map(|client| client.with_patience(PATIENCE));
        match client.and_then(|client| client.ask(&Command::Examine)) {
            Ok(status) => self.take_status(status),
            // One that is on its way in or out.
            Err(Error::NoAgent { .. }) => {}
            Err(error) => self.problems.push(error.to_string()),
        }
        self.conclude();
    }

    fn take_status(&mut self, status: Status) {
        // All are named, or those that are not keep what was seen of them.
        let all = status.files_failed <= status.files.len() as u64;
        for file in &mut self.files {
            file.error =
                status.files.iter().find(|named| named.path == file.path).and_then(|named| named.error.clone());
            if file.error.is_none() && all {
                file.slow = SlowState::Found;
            }
        }
        let is_new = |path: &String| self.files.iter().all(|file| file.path != *path);
        let others = status.files.into_iter().filter(|named| is_new(&named.path));
        let others: Vec<String> =
            others.filter_map(|named| Some(format!("{}: {}", named.path, named.error?))).collect();
        if !others.is_empty() {
            self.whole = self.whole.max(Verdict::Attention);
            self.problems.extend(others);
        }
    }

    /// Adds up what the files come to.
    fn conclude(&mut self) {
        let sum = |bytes: fn(&FileReport) -> u64| self.files.iter().map(bytes).fold(0, u64::saturating_add);
        (self.dirty_bytes, self.lost_bytes) = (sum(|file| file.dirty_bytes), sum(|file| file.lost_bytes));
        let in_use = self.is_in_use();
        let verdict = |file: &FileReport| match self.journal {
            JournalState::Elsewhere => Verdict::Clean,
            _ if file.lost_bytes > 0 => Verdict::Lost,
            JournalState::Usable => {
                let stranger = file.slow != SlowState::Found && !(in_use && file.open_for_writing);
                if stranger || file.error.is_some() { Verdict::Attention } else { Verdict::Dirty }
            }
            _ => Verdict::Clean,
        };
        self.verdict = self.files.iter().map(verdict).fold(self.whole, Verdict::max);
    }
}

/// Gives up everything that a directory owes, without an agent: what is listed is lost, and flash of before
/// is not trusted any more. The caller has told the user and made sure that no agent serves the directory.
pub fn give_up(slow: &Path, inspection: &Inspection) -> Result<()> {
    if inspection.listed || inspection.dirty_bytes > 0 {
        discarded::remember(slow, inspection.listed_epoch.max(inspection.journal_epoch))?;
    }
    if let Some(fast) = inspection.fast.as_deref().filter(|_| inspection.journal == JournalState::Unusable) {
        let fast = Path::new(fast);
        if fast.join(FLASH_DIRECTORY).exists() {
            discarded::move_away(fast)?;
        }
    }
    for file in &inspection.files {
        let _ = xattr::remove(&file.path, dirty_list::ATTRIBUTE);
    }
    dirty_list::remove(slow).map_err(|error| Error::file("remove the list of dirty files in", slow, error))?;
    if let Some(fast) = &inspection.fast {
        entry::forget_all(Path::new(fast))?;
    }
    claim::remove(slow)
}
