//! `headstart check`: how a managed directory stands, with or without an agent, with or without its flash.
//!
//! | journal | dirty files and ranges come from | lost is |
//! |---|---|---|
//! | usable, the list no newer | the journal | ranges whose data file is missing or too short |
//! | absent, older than the list, damaged, unreadable | the list; the attributes if there is no list | all of them |
//! | of another user or node | the list | nothing that can be told from here |
//!
//! It changes nothing and takes no lock.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use headstart_core::overlay::Fingerprint;
use headstart_core::overlay::recovery::RecoveredFile;
use headstart_core::protocol::{FLASH_DIRECTORY, data_file_name};
use serde::Serialize;

use crate::claim::{self, Owner, Relation};
use crate::dirty_list::{self, Entry, Listed};
use crate::error::{Error, Result};
use crate::origin::{Origin, birth_ns};
use crate::slow_file::fingerprint_of;
use crate::storage::RealStorage;
use crate::store::{self, Found, as_path};
use crate::{discarded, renamed, runtime_directory};

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
}

/// Looks at a managed directory. `fast` is asked for where no claim and no list names it; `scan` looks for attributes on all files.
pub fn inspect(slow: &Path, fast: Option<&Path>, scan: bool) -> Result<Inspection> {
    let mut report = Inspection { directory: slow.display().to_string(), ..Inspection::default() };
    if let Err(error) = std::fs::read_dir(slow) {
        return Err(Error::file("read", slow, error));
    }
    let owner = claim::read(slow).unwrap_or_else(|error| report.worse(Verdict::Attention, error.to_string()));
    let listed = dirty_list::read(slow).unwrap_or_else(|error| report.worse(Verdict::Attention, error.to_string()));
    report.listed = dirty_list::is_there(slow);
    report.listed_epoch = listed.as_ref().map_or(0, |listed| listed.heading.epoch);
    let named = owner.as_ref().map(|owner| owner.fast.clone());
    let named = named.or_else(|| listed.as_ref().map(|listed| listed.heading.fast.clone()));
    let fast = named.map(PathBuf::from).or_else(|| fast.map(Path::to_path_buf));
    report.fast = fast.as_ref().map(|fast| fast.display().to_string());
    report.owner_is = owner.as_ref().map(Owner::relation);
    report.agent_runs = owner.as_ref().is_some_and(Owner::is_alive);
    report.owner = owner;
    if report.owner_is.is_some_and(|relation| relation != Relation::Own) {
        report.journal = JournalState::Elsewhere;
        report.verdict = report.verdict.max(Verdict::OwnedElsewhere);
        report.take_listed(slow, listed, false);
        return Ok(report);
    }
    let found = fast.as_deref().and_then(|fast| report.replay(slow, fast));
    match (found, fast) {
        (Some(found), Some(fast)) if report.journal == JournalState::Usable => report.take_journal(&fast, &found),
        _ => {
            let scanned = scan || (listed.is_none() && (report.listed || report.journal == JournalState::Unusable));
            let owed = listed.as_ref().is_some_and(Listed::owes);
            report.take_listed(slow, listed, true);
            if scanned {
                report.take_attributes(slow);
            }
            if owed || report.lost_bytes > 0 {
                report.verdict = Verdict::Lost;
            }
        }
    }
    Ok(report)
}

impl Inspection {
    fn worse<T: Default>(&mut self, verdict: Verdict, problem: String) -> T {
        self.verdict = self.verdict.max(verdict);
        self.problems.push(problem);
        T::default()
    }

    fn replay(&mut self, slow: &Path, fast: &Path) -> Option<Found> {
        let runtime = runtime_directory::path(slow);
        let boot_id = runtime_directory::boot_id().unwrap_or_default();
        let given_up = discarded::epoch(slow).unwrap_or_else(|error| self.worse(Verdict::Attention, error.to_string()));
        match store::recover(&RealStorage, fast, &runtime, boot_id) {
            Err(error) => {
                self.journal = JournalState::Unusable;
                self.problems.push(error.to_string());
                None
            }
            Ok(mut found) => {
                self.journal_epoch = found.epoch;
                self.journal = match found.epoch {
                    0 => JournalState::Absent,
                    epoch if epoch <= given_up => JournalState::GivenUp,
                    epoch if epoch < self.listed_epoch => JournalState::Older,
                    _ => JournalState::Usable,
                };
                if self.journal == JournalState::Absent && !fast.is_dir() {
                    self.problems.push(format!("the fast directory {} is not there", fast.display()));
                }
                if let Err(error) = Origin::look(slow, fast, &mut found.recovered) {
                    self.worse::<()>(Verdict::Attention, error.to_string());
                }
                renamed::find(slow, &mut found.recovered);
                Some(found)
            }
        }
    }

    fn take_journal(&mut self, fast: &Path, found: &Found) {
        for file in found.recovered.files.values() {
            let Some(report) = inspect_file(fast, file) else { continue };
            let stranger = matches!(report.slow, SlowState::Missing | SlowState::Replaced | SlowState::Changed);
            let verdict = match () {
                () if report.lost_bytes > 0 => Verdict::Lost,
                () if stranger && !(self.agent_runs && file.intent) => Verdict::Attention,
                () => Verdict::Dirty,
            };
            self.add(verdict, report);
        }
    }

    fn add(&mut self, verdict: Verdict, report: FileReport) {
        self.verdict = self.verdict.max(verdict);
        self.dirty_bytes = self.dirty_bytes.saturating_add(report.dirty_bytes);
        self.lost_bytes = self.lost_bytes.saturating_add(report.lost_bytes);
        self.files.push(report);
    }

    fn take_listed(&mut self, slow: &Path, listed: Option<Listed>, lost: bool) {
        for entry in listed.into_iter().flat_map(|listed| listed.entries) {
            let path = slow.join(OsStr::from_bytes(&entry.path_bytes()));
            self.add(self.verdict, listed_file(&path, &entry, lost));
        }
    }

    /// What the attributes say of files that the list does not name.
    fn take_attributes(&mut self, slow: &Path) {
        let mut directories = vec![slow.to_path_buf()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
                let path = entry.path();
                let kind = entry.file_type().ok();
                if kind.is_some_and(|kind| kind.is_dir()) {
                    directories.push(path);
                } else if kind.is_some_and(|kind| kind.is_file())
                    && self.files.iter().all(|known| known.path != path.display().to_string())
                {
                    match dirty_list::attribute_of(&path) {
                        Ok(Some(entry)) => self.add(Verdict::Lost, listed_file(&path, &entry, true)),
                        Ok(None) => {}
                        Err(error) => self.worse(Verdict::Attention, error.to_string()),
                    }
                }
            }
        }
    }
}

fn listed_file(path: &Path, entry: &Entry, lost: bool) -> FileReport {
    let slow = match std::fs::symlink_metadata(path) {
        Err(_) => SlowState::Missing,
        Ok(found) if entry.inode != 0 && found.ino() != entry.inode => SlowState::Replaced,
        Ok(_) => SlowState::Found,
    };
    FileReport {
        path: path.display().to_string(),
        dirty_bytes: entry.dirty_bytes,
        ranges: entry.ranges.clone(),
        exact: entry.exact,
        open_for_writing: entry.open_for_writing,
        slow,
        missing_data: Vec::new(),
        lost: if lost { entry.ranges.clone() } else { Vec::new() },
        lost_bytes: if lost { entry.dirty_bytes } else { 0 },
    }
}

/// A file of the journal; none if nothing of it is dirty.
fn inspect_file(fast: &Path, file: &RecoveredFile) -> Option<FileReport> {
    let mut report =
        FileReport { path: as_path(&file.path).display().to_string(), exact: true, ..FileReport::default() };
    report.open_for_writing = file.intent;
    for mapped in file.map.iter().filter(|mapped| mapped.dirty) {
        let (offset, length) = (mapped.range.offset, mapped.range.length);
        report.dirty_bytes += length;
        join(&mut report.ranges, offset, length);
        let data = fast.join(FLASH_DIRECTORY).join(data_file_name(mapped.data_file));
        let there = std::fs::metadata(&data).is_ok_and(|found| found.len() >= mapped.place + length);
        if !there {
            report.lost_bytes += length;
            join(&mut report.lost, offset, length);
            let name = data.display().to_string();
            if report.missing_data.last() != Some(&name) {
                report.missing_data.push(name);
            }
        }
    }
    report.slow = slow_state(file);
    (report.dirty_bytes > 0).then_some(report)
}

fn slow_state(file: &RecoveredFile) -> SlowState {
    let Ok(found) = std::fs::symlink_metadata(as_path(&file.path)) else { return SlowState::Missing };
    let identity = file.identity;
    let another = identity.birth_ns != 0 && birth_ns(&found) != identity.birth_ns;
    if another || (found.dev(), found.ino()) != (identity.device, identity.inode) {
        return SlowState::Replaced;
    }
    let now: Fingerprint = fingerprint_of(&found);
    match file.fingerprint {
        Some(known) if !file.intent && known != now => SlowState::Changed,
        _ => SlowState::Found,
    }
}

fn join(ranges: &mut Vec<(u64, u64)>, offset: u64, length: u64) {
    match ranges.last_mut().filter(|(last, length)| last + length == offset) {
        Some((_, joined)) => *joined += length,
        None => ranges.push((offset, length)),
    }
}

/// Gives up everything that a directory owes, without an agent: what is listed is lost, and flash of before is not trusted any
/// more. The caller has told the user and made sure that no agent serves the directory.
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
    claim::remove(slow)
}
