//! What a member that is gone left in the fast directory, and what others make of it.
//!
//! ```text
//! FAST/.headstart/cut.NODE.LIFE.NODE.LIFE        what a barrier had covered of its journal, and who copied that
//! FAST/.headstart/salvaged.NODE.LIFE.NODE.LIFE   files whose bytes are in the slow directory now, and who brought them there
//! ```
//!
//! A cut is made once its agent can change nothing any more: its lock on the slow directory was given up, and the lock
//! of its files is the copier's meanwhile. Its data files stay until nobody needs them. Lines of the second kind are
//! inode numbers of 20 digits, durable before anybody else may touch the file: who becomes its owner later looks there
//! first, so that bytes are brought back once.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headstart_cluster::{FileId, Log};
use headstart_overlay::journal::{HEADER_BYTES, Header};
use headstart_overlay::member_log::{durable_bytes, log_of, maps_of, member_of, position_told};
use headstart_overlay::recovery::Recovered;
use headstart_protocol::FLASH_DIRECTORY;
use headstart_units::request::Range;

use crate::cluster::roster::{Cut, Place};
use crate::cluster::views;
use crate::dirty_list::{self, Entry};
use crate::error::{Error, Result};
use crate::node_files::NodeFiles;
use crate::store::{self, Claim};
use crate::text_file;

/// For how long a member's lock has to be found given up before others act on that: an agent that is started anew takes
/// another one before its record says so. Assumed: some swaps of the register.
pub(crate) const GIVEN_UP: Duration = Duration::from_secs(1);
/// Digits of an inode's number.
const DIGITS: usize = 20;
/// How long one waits for the lock of a node's files; assumed: nobody else wants it but a living agent and other members.
pub(crate) const CLAIM_PATIENCE: Duration = Duration::from_millis(20);

fn name(kind: &str, of: Place, by: Place) -> String {
    format!("{kind}.{:03}.{}.{:03}.{}", of.node, of.life, by.node, by.life)
}

/// Where a cut lies.
fn cut_path(fast: &Path, of: Place, by: Place) -> PathBuf {
    fast.join(FLASH_DIRECTORY).join(name("cut", of, by))
}

/// Where somebody notes what it brought back.
fn salvaged_path(fast: &Path, of: Place, by: Place) -> PathBuf {
    fast.join(FLASH_DIRECTORY).join(name("salvaged", of, by))
}

/// A cut that was made, and its place among the positions that others were told.
pub(crate) struct Made {
    pub(crate) cut: Cut,
    pub(crate) position: u64,
    /// No agent of that node uses its files before the cut is in the register.
    pub(crate) claim: Claim,
}

/// Copies what counts of a member's journal; nothing while an agent of its node uses it.
///
/// # Errors
/// Its journal cannot be read, or is not the one that belongs to its list of dirty files in the slow directory: it may
/// still come to be there, and until then nobody must go on with the disks alone.
pub(crate) fn cut(fast: &Path, slow: &Path, of: Place, by: Place) -> Result<Option<Made>> {
    let files = NodeFiles::of(fast, of.node);
    let claim = match store::claim_within(&files, CLAIM_PATIENCE) {
        Err(Error::FlashInUse { .. }) => return Ok(None),
        claimed => claimed?,
    };
    let journal = journal_of(&files)?;
    refuse_another(&slow.join(files.list()), &files.journal(), &journal)?;
    let body = journal.get(HEADER_BYTES..).unwrap_or_default();
    let is_its = member_of(body).is_none_or(|member| member == views::id(of));
    let counts = if is_its { durable_bytes(body) } else { 0 };
    let bytes = if counts > 0 { HEADER_BYTES + counts } else { 0 };
    let path = cut_path(fast, of, by);
    let write = || {
        let fresh = path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(&journal[..bytes])?;
        file.sync_all()?;
        std::fs::rename(&fresh, &path)?;
        text_file::sync_directory(&fast.join(FLASH_DIRECTORY))
    };
    write().map_err(|error: io::Error| Error::file("write", &path, error))?;
    let position = position_told(&body[..counts]);
    Ok(Some(Made { cut: Cut { by, bytes: bytes as u64 }, position, claim }))
}

/// A journal's bytes; none where there is none.
fn journal_of(files: &NodeFiles) -> Result<Vec<u8>> {
    let path = files.journal();
    let bytes = match std::fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(|error| Error::file("read the journal", &path, error))?,
    };
    match Header::decode(&bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(Error::Journal { path, problem: error.to_string() }),
    }
}

/// Refuses a journal that does not belong to the list of dirty files, which is as new or newer.
fn refuse_another(list: &Path, path: &Path, journal: &[u8]) -> Result<()> {
    let epoch = Header::decode(journal).map_or(0, |header| header.epoch);
    match dirty_list::read_at(list)? {
        Some(listed) if listed.owes() && listed.heading.epoch > epoch => Err(Error::Journal {
            path: path.to_path_buf(),
            problem: format!(
                "it is not there, or an older one, and {} lists {} bytes of {} files that lie on that node's flash alone: \
                 make its flash readable here, or 'headstart cluster forget' gives them up",
                list.display(),
                listed.heading.dirty_bytes,
                listed.heading.files,
            ),
        }),
        _ => Ok(()),
    }
}

/// Files of which a member that is gone listed bytes that its journal does not have, as far as the list says which: what
/// it had not synced, unless it had written that back.
pub(crate) fn unsynced(list: &Path, maps: &Recovered) -> Vec<(PathBuf, u64)> {
    let Ok(Some(listed)) = dirty_list::read_at(list) else { return Vec::new() };
    let lacks = |entry: &Entry| {
        let has = |range: Range| -> u64 {
            let known = maps.files.values().filter(|known| known.identity.inode == entry.inode);
            let dirty = known.flat_map(|known| known.map.overlapping(range)).filter(|mapped| mapped.dirty);
            dirty.map(|mapped| mapped.range.intersection(range).length).sum()
        };
        let ranges = entry.ranges.iter().map(|(offset, length)| Range::new(*offset, *length));
        ranges.map(|range| range.length.saturating_sub(has(range))).sum::<u64>()
    };
    let exact = listed.entries.iter().filter(|entry| entry.exact).map(|entry| (entry, lacks(entry)));
    exact.filter(|(_, bytes)| *bytes > 0).map(|(entry, bytes)| (PathBuf::from(&entry.path), bytes)).collect()
}

/// What a member that is gone left.
pub(crate) struct Left {
    /// For the protocol.
    pub(crate) log: Log,
    /// For who brings it back.
    pub(crate) maps: Recovered,
}

/// Reads a cut, without what was brought back since.
pub(crate) fn read(fast: &Path, of: Place, cut: &Cut) -> Result<Left> {
    let path = cut_path(fast, of, cut.by);
    let journal = std::fs::read(&path).map_err(|error| Error::file("read", &path, error))?;
    let bytes = usize::try_from(cut.bytes).unwrap_or(usize::MAX);
    let Some(counts) = journal.get(..bytes) else {
        return Err(Error::file("read", &path, io::Error::other("it is shorter than the list of nodes says")));
    };
    let body = counts.get(HEADER_BYTES..).unwrap_or_default();
    let (mut log, maps) = (log_of(body), maps_of(body));
    for file in salvaged(fast, of)? {
        log.forget_file(file);
    }
    Ok(Left { log, maps })
}

/// Files of a member that is gone whose bytes are in the slow directory.
pub(crate) fn salvaged(fast: &Path, of: Place) -> Result<BTreeSet<FileId>> {
    let directory = fast.join(FLASH_DIRECTORY);
    let prefix = format!("salvaged.{:03}.{}.", of.node, of.life);
    let mut files = BTreeSet::new();
    for path in named(&directory, &prefix)? {
        let text = std::fs::read(&path).map_err(|error| Error::file("read", &path, error))?;
        files.extend(noted(&text));
    }
    Ok(files)
}

/// What a file of such notes says. A line that is cut says nothing.
pub fn noted(text: &[u8]) -> BTreeSet<FileId> {
    let whole = |line: &[u8]| {
        let digits = std::str::from_utf8(line.strip_suffix(b"\n")?).ok().filter(|text| text.len() == DIGITS)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    };
    text.split_inclusive(|byte| *byte == b'\n').filter_map(whole).map(FileId).collect()
}

/// Notes durably that the bytes of a file are in the slow directory.
pub(crate) fn note(fast: &Path, of: Place, by: Place, file: FileId) -> io::Result<()> {
    let path = salvaged_path(fast, of, by);
    let is_new = !path.exists();
    let mut notes = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
    // The line before may have been cut.
    notes.write_all(format!("\n{:0DIGITS$}\n", file.0).as_bytes())?;
    notes.sync_all()?;
    if is_new { text_file::sync_directory(&fast.join(FLASH_DIRECTORY)) } else { Ok(()) }
}

/// Nobody needs the log of that member any more: gives back what its data files took. Not while an agent has them.
pub(crate) fn wipe(fast: &Path, of: Place) -> Result<()> {
    let files = NodeFiles::of(fast, of.node);
    let _claim = store::claim_within(&files, CLAIM_PATIENCE)?;
    store::wipe(&files)
}

/// Removes what spoke of a member that the view names no more.
pub(crate) fn remove(fast: &Path, slow: &Path, of: Place) -> Result<()> {
    let directory = fast.join(FLASH_DIRECTORY);
    let mut paths = vec![slow.join(NodeFiles::of(fast, of.node).list())];
    for kind in ["cut", "salvaged"] {
        paths.extend(named(&directory, &format!("{kind}.{:03}.{}.", of.node, of.life))?);
    }
    for path in paths {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::file("remove", &path, error)),
            _ => {}
        }
    }
    Ok(())
}

fn named(directory: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    let list = || -> io::Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
        let is_meant = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
        Ok(entries.into_iter().map(|entry| entry.path()).filter(is_meant).collect())
    };
    list().map_err(|error| Error::file("list", directory, error))
}

/// Opens a data file of a member that is gone.
pub(crate) fn open_data(fast: &Path, number: u32) -> io::Result<File> {
    File::open(NodeFiles::first(fast).data_file(number))
}

#[cfg(test)]
mod tests {
    use headstart_cluster::MemberId;
    use headstart_overlay::journal::{Identity, Journal, Record};

    use crate::dirty_list::{Heading, Listed};

    use super::*;

    const DEAD: Place = Place { node: 1, life: 2 };
    const BY: Place = Place { node: 0, life: 0 };

    fn fast(member: MemberId) -> tempfile::TempDir {
        let fast = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(NodeFiles::of(fast.path(), 1).own()).unwrap();
        let mut journal = Journal::behind(HEADER_BYTES as u64, 500);
        let map = |offset| Record::Map { file: 1, offset, length: 10, data_file: 1, place: offset, slot: 0, seq: 1 };
        let file = Record::File { file: 1, identity: Identity { inode: 9, birth_ns: 0 }, path: b"/slow/a".to_vec() };
        [Record::Origin { member, before: 500 }, file, map(0)].iter().for_each(|record| journal.append(record));
        let end = journal.end();
        journal.append(&Record::Barrier { end });
        journal.append(&map(100));
        let bytes = [&Header { boot_id: [1; 16], epoch: 1 }.encode()[..], &journal.take()].concat();
        std::fs::write(NodeFiles::of(fast.path(), 1).journal(), bytes).unwrap();
        fast
    }

    #[test]
    fn what_a_barrier_covered_is_cut_while_no_agent_has_the_files_and_read_without_what_was_brought_back() {
        let fast = fast(views::id(DEAD));
        let fast = fast.path();
        let living = store::claim(&NodeFiles::of(fast, 1)).unwrap();
        assert!(cut(fast, fast, DEAD, BY).unwrap().is_none(), "its agent lives");
        drop(living);
        let made = cut(fast, fast, DEAD, BY).unwrap().unwrap();
        assert!(store::claim_within(&NodeFiles::of(fast, 1), CLAIM_PATIENCE).is_err(), "no agent begins meanwhile");
        assert_eq!(made.position, 500 + made.cut.bytes - HEADER_BYTES as u64);
        let left = read(fast, DEAD, &made.cut).unwrap();
        assert_eq!((left.maps.dirty_bytes(), left.log.of_file(FileId(9)).len()), (10, 1));
        note(fast, DEAD, BY, FileId(9)).unwrap();
        assert!(read(fast, DEAD, &made.cut).unwrap().log.of_file(FileId(9)).is_empty());
        drop(made.claim);
        wipe(fast, DEAD).unwrap();
        assert_eq!(salvaged(fast, DEAD).unwrap().len(), 1);
        remove(fast, fast, DEAD).unwrap();
        assert!(salvaged(fast, DEAD).unwrap().is_empty() && read(fast, DEAD, &made.cut).is_err());
    }

    #[test]
    fn a_journal_that_is_missing_or_older_than_its_list_is_waited_for() {
        let fast = fast(views::id(DEAD));
        let slow = tempfile::tempdir().unwrap();
        let entry = |inode, ranges: Vec<(u64, u64)>| Entry {
            path: format!("{inode}"),
            inode,
            dirty_bytes: ranges.iter().map(|(_, length)| length).sum(),
            ranges,
            exact: true,
            ..Entry::default()
        };
        let list = |epoch| {
            let entries = vec![entry(9, vec![(0, 10), (100, 10)]), entry(8, vec![(5, 7)])];
            let heading = Heading { epoch, dirty_bytes: 27, files: 2, ..Heading::default() };
            let path = slow.path().join(NodeFiles::of(fast.path(), 1).list());
            std::fs::write(&path, Listed { heading, entries }.to_lines()).unwrap();
            path
        };
        list(2);
        let error = cut(fast.path(), slow.path(), DEAD, BY).err().unwrap().to_string();
        assert!(error.contains("27 bytes of 2 files") && error.contains("cluster forget"), "{error}");
        let path = list(1);
        let made = cut(fast.path(), slow.path(), DEAD, BY).unwrap().unwrap();
        let maps = read(fast.path(), DEAD, &made.cut).unwrap().maps;
        assert_eq!(unsynced(&path, &maps), [("9".into(), 10), ("8".into(), 7)]);
        let journal = NodeFiles::of(fast.path(), 1).journal();
        std::fs::rename(&journal, fast.path().join("aside")).unwrap();
        drop(made.claim);
        assert!(cut(fast.path(), slow.path(), DEAD, BY).is_err(), "its flash may not be mounted here");
        std::fs::rename(fast.path().join("aside"), &journal).unwrap();
        assert!(cut(fast.path(), slow.path(), DEAD, BY).unwrap().is_some());
        // One that never had anything has no journal.
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(&journal).unwrap();
        assert_eq!(cut(fast.path(), slow.path(), DEAD, BY).unwrap().unwrap().cut.bytes, 0);
    }

    #[test]
    fn nothing_counts_of_a_journal_that_another_life_wrote() {
        let fast = fast(MemberId { node: 1, life: 1 });
        let made = cut(fast.path(), fast.path(), DEAD, BY).unwrap().unwrap();
        assert_eq!(read(fast.path(), DEAD, &made.cut).unwrap().maps.dirty_bytes(), 0);
    }

    #[test]
    fn a_note_that_was_cut_says_nothing_and_spoils_none() {
        let whole = format!("\n{:020}\n\n{:020}\n", 7, u64::MAX).into_bytes();
        assert_eq!(noted(&whole), BTreeSet::from([FileId(7), FileId(u64::MAX)]));
        for cut in 0..whole.len() {
            let torn = [&whole[..cut], format!("\n{:020}\n", 3).as_bytes()].concat();
            // Of one that has all its digits the end may be missing.
            assert!(noted(&torn).is_subset(&[7, 3, u64::MAX].map(FileId).into()), "cut at {cut}");
        }
        assert!(noted(b"99999999999999999999\n+0000000000000000001\n").is_empty());
    }
}
