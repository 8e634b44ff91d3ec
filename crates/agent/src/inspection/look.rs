//! One look at a managed directory: what journal, list, data files and slow files say at that moment. Beside a running
//! agent each of them may be of another moment than the others.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use headstart_overlay::Fingerprint;
use headstart_overlay::journal::Identity;
use headstart_overlay::recovery::RecoveredFile;
use headstart_protocol::{FLASH_DIRECTORY, data_file_name};

use super::{FileReport, Inspection, JournalState, SlowState, Verdict};
use crate::claim;
use crate::client::Client;
use crate::dirty_list::{self, Entry, Listed};
use crate::error::{Error, Result};
use crate::identity::ManagedDevice;
use crate::node_files::NodeFiles;
use crate::origin::Origin;
use crate::owner::{Owner, Relation};
use crate::slow_file::fingerprint_of;
use crate::storage::RealStorage;
use crate::store::{self, Found, as_path};
use crate::{discarded, process, renamed, runtime_directory, shared_file, survivors};

/// What the findings of one file rest on: a later look confirms them only by the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    identity: Option<Identity>,
    fingerprint: Option<Fingerprint>,
    /// Offset, data file, place and length of each extent whose bytes are not there.
    lost: BTreeSet<[u64; 4]>,
}

/// What the shared file of the agent says, if it is one of this version and boot.
#[derive(Default)]
pub(super) struct Taking {
    /// A process that takes part.
    program: Option<u32>,
    /// Files that the agent was writing back.
    written_back: BTreeSet<u32>,
}

impl Taking {
    fn look(runtime: &Path, boot_id: [u8; 16]) -> Taking {
        let Some(shared) = shared_file::look(runtime, boot_id) else { return Taking::default() };
        let written_back = shared.copies.iter().filter_map(|copy| copy.write_back()).map(|(file, _)| file);
        Taking {
            program: survivors::Survivors::find(shared).processes.keys().next().map(|process| process.pid),
            written_back: written_back.collect(),
        }
    }
}

/// Looks once.
pub(super) fn look(slow: &Path, fast: Option<&Path>, place: Option<u16>, scan: bool) -> Result<Inspection> {
    let mut report = Inspection { directory: slow.display().to_string(), ..Inspection::default() };
    if let Err(error) = std::fs::read_dir(slow) {
        return Err(Error::file("read", slow, error));
    }
    let owner = claim::read(slow).unwrap_or_else(|error| report.worse(Verdict::Attention, error.to_string()));
    let files = |fast: &Path| NodeFiles::of(fast, place.unwrap_or(0));
    let list = slow.join(files(Path::new("")).list());
    let listed = dirty_list::read_at(&list).unwrap_or_else(|error| report.worse(Verdict::Attention, error.to_string()));
    report.listed = dirty_list::is_at(&list);
    report.listed_epoch = listed.as_ref().map_or(0, |listed| listed.heading.epoch);
    let named = owner.as_ref().map(|owner| owner.fast.clone());
    let named = named.or_else(|| listed.as_ref().map(|listed| listed.heading.fast.clone()));
    let fast = named.map(PathBuf::from).or_else(|| fast.map(Path::to_path_buf));
    report.fast = fast.as_ref().map(|fast| fast.display().to_string());
    report.owner_is = owner.as_ref().map(Owner::relation);
    report.agent_runs = owner.as_ref().is_some_and(Owner::is_alive);
    report.owner = owner;
    // One node has made the claim for all that share the directory.
    let shares = report.owner_is == Some(Relation::OtherNode) && place.is_some();
    if shares {
        report.agent_runs = Client::of_directory(slow).is_ok();
    } else if report.owner_is.is_some_and(|relation| relation != Relation::Own) {
        report.journal = JournalState::Elsewhere;
        report.whole = report.whole.max(Verdict::OwnedElsewhere);
        report.take_listed(slow, listed, false);
        report.conclude();
        return Ok(report);
    }
    let runtime = runtime_directory::path(slow);
    let boot_id = process::boot_id().unwrap_or_default();
    let taking = Taking::look(&runtime, boot_id);
    report.program_runs = taking.program;
    let found = fast.as_deref().and_then(|fast| report.replay(slow, &files(fast), &runtime, boot_id));
    match (found, fast) {
        (Some(found), Some(fast)) if report.journal == JournalState::Usable => {
            report.take_journal(ManagedDevice::of(slow)?, &fast, &found, &taking);
        }
        _ => {
            let scanned = scan || (listed.is_none() && (report.listed || report.journal == JournalState::Unusable));
            if listed.as_ref().is_some_and(Listed::owes) {
                report.whole = Verdict::Lost;
            }
            report.take_listed(slow, listed, true);
            if scanned {
                report.take_attributes(slow);
            }
        }
    }
    report.conclude();
    Ok(report)
}

impl Inspection {
    pub(super) fn worse<T: Default>(&mut self, verdict: Verdict, problem: String) -> T {
        self.whole = self.whole.max(verdict);
        self.problems.push(problem);
        T::default()
    }

    pub(super) fn replay(
        &mut self,
        slow: &Path,
        files: &NodeFiles,
        runtime: &Path,
        boot_id: [u8; 16],
    ) -> Option<Found> {
        let (given_up, fast) = (discarded::epoch(slow), files.fast());
        let given_up = given_up.unwrap_or_else(|error| self.worse(Verdict::Attention, error.to_string()));
        let recovered = RealStorage::below(slow).and_then(|storage| {
            let mut found = store::recover(&storage, files, runtime, boot_id)?;
            let origin = Origin::translate(slow, files, &mut found.recovered);
            Ok((found, origin))
        });
        match recovered {
            Err(error) => {
                self.journal = JournalState::Unusable;
                self.problems.push(error.to_string());
                None
            }
            Ok((found, Err(error @ Error::Journal { .. }))) => {
                self.journal_epoch = found.epoch;
                self.journal = JournalState::Unusable;
                self.problems.push(error.to_string());
                None
            }
            Ok((mut found, origin)) => {
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
                if let Err(error) = origin {
                    self.worse::<()>(Verdict::Attention, error.to_string());
                }
                renamed::find(slow, &files.list(), &mut found.recovered);
                Some(found)
            }
        }
    }

    pub(super) fn take_journal(&mut self, device: ManagedDevice, fast: &Path, found: &Found, taking: &Taking) {
        for (number, file) in &found.recovered.files {
            let Some(mut report) = inspect_file(device, fast, file) else { continue };
            // What an agent that was killed had begun to write back it may have written: the time alone tells of no
            // stranger.
            let size = file.fingerprint.map(|known| known.size);
            let by_agent = taking.written_back.contains(number)
                && size.is_some_and(|size| as_path(&file.path).metadata().is_ok_and(|found| found.len() == size));
            if report.slow == SlowState::Changed && by_agent {
                report.slow = SlowState::Found;
            }
            self.files.push(report);
        }
    }

    pub(super) fn take_listed(&mut self, slow: &Path, listed: Option<Listed>, lost: bool) {
        for entry in listed.into_iter().flat_map(|listed| listed.entries) {
            let path = slow.join(OsStr::from_bytes(&entry.path_bytes()));
            self.files.push(listed_file(&path, &entry, lost));
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
                        Ok(Some(entry)) => {
                            self.whole = Verdict::Lost;
                            self.files.push(listed_file(&path, &entry, true));
                        }
                        Ok(None) => {}
                        Err(error) => self.worse(Verdict::Attention, error.to_string()),
                    }
                }
            }
        }
    }

    /// Of what this look found, only that which the look `before` found on the same grounds: what moved meanwhile
    /// proves nothing.
    pub(super) fn confirmed_by(mut self, before: &Inspection) -> Inspection {
        for file in &mut self.files {
            let known = before.files.iter().find(|known| {
                known.path == file.path
                    && (known.evidence.identity, known.evidence.fingerprint)
                        == (file.evidence.identity, file.evidence.fingerprint)
            });
            if known.is_none_or(|known| known.slow != file.slow) {
                file.slow = SlowState::Found;
            }
            if self.journal == JournalState::Usable {
                file.keep_lost(known.map(|known| &known.evidence.lost).unwrap_or(&BTreeSet::new()));
            }
        }
        self.conclude();
        self
    }
}

impl FileReport {
    /// Calls lost what is in `known` as well.
    fn keep_lost(&mut self, known: &BTreeSet<[u64; 4]>) {
        self.evidence.lost.retain(|extent| known.contains(extent));
        (self.lost, self.lost_bytes) = (Vec::new(), 0);
        for [offset, .., length] in &self.evidence.lost {
            self.lost_bytes += length;
            join(&mut self.lost, *offset, *length);
        }
        if self.lost_bytes == 0 {
            self.missing_data.clear();
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
        lost: if lost { entry.ranges.clone() } else { Vec::new() },
        lost_bytes: if lost { entry.dirty_bytes } else { 0 },
        ..FileReport::default()
    }
}

/// A file of the journal; none if nothing of it is dirty.
fn inspect_file(device: ManagedDevice, fast: &Path, file: &RecoveredFile) -> Option<FileReport> {
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
            report.evidence.lost.insert([offset, mapped.data_file.into(), mapped.place, length]);
            let name = data.display().to_string();
            if report.missing_data.last() != Some(&name) {
                report.missing_data.push(name);
            }
        }
    }
    report.slow = slow_state(device, file);
    (report.evidence.identity, report.evidence.fingerprint) = (Some(file.identity), file.fingerprint);
    (report.dirty_bytes > 0).then_some(report)
}

fn slow_state(device: ManagedDevice, file: &RecoveredFile) -> SlowState {
    let Ok(found) = std::fs::symlink_metadata(as_path(&file.path)) else { return SlowState::Missing };
    if !device.finds(&found, file.identity) {
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
