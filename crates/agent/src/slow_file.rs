//! A slow file the agent has open: what it looks like, and its time of last write.
//!
//! Our own write-backs change neither of the two that people see. While nobody has the file open, its
//! *fingerprint* tells a change behind our back; while write-backs are under way the time in it means
//! nothing, and it is taken anew when they have ended. Then the time of last write is put back to what it
//! was, or to that of the last absorbed write if that is later. If a program could write the file at the same
//! time it stays as it is, because it may be the program's; only one that a program has set is put back for
//! whoever has the file open, too.

mod handle;

use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use headstart_overlay::Fingerprint;

use crate::storage::{File, FileRef, modified_ns};

pub(crate) use handle::Handle;

/// See the module.
#[derive(Debug)]
pub(crate) struct SlowFile {
    handle: Arc<Handle>,
    /// It may have been written since a sync began that succeeded.
    unsynced: bool,
    fingerprint: Option<Fingerprint>,
    /// One of ours may have written it since the fingerprint was taken.
    written: bool,
    write_backs: u32,
    /// The time of last write that outlasts write-backs; none if a program may write too.
    kept: Option<Kept>,
    /// The time of last write when the last write-backs had ended.
    ours_ns: Option<u64>,
    /// The time of last write that [`SlowFile::show`] set.
    shown_ns: Option<u64>,
}

/// A time of last write that outlasts write-backs.
#[derive(Clone, Copy, Debug)]
struct Kept {
    ns: u64,
    /// A program has set it: what was absorbed since is later, whatever the time.
    is_set: bool,
}

impl SlowFile {
    /// A file just opened; `fingerprint` if it is known how it looked when nobody had it open.
    pub(crate) fn new(file: FileRef, fingerprint: Option<Fingerprint>) -> SlowFile {
        let (unsynced, handle) = (file.is_writable(), Arc::new(Handle::new(file)));
        SlowFile {
            handle,
            unsynced,
            fingerprint,
            written: fingerprint.is_none(),
            write_backs: 0,
            kept: None,
            ours_ns: None,
            shown_ns: None,
        }
    }

    /// The file as it is open now; not to be kept.
    pub(crate) fn file(&self) -> FileRef {
        self.handle.file()
    }

    /// The file, to be kept.
    pub(crate) fn handle(&self) -> Arc<Handle> {
        self.handle.clone()
    }

    /// The file, which a barrier is about to sync; `written` if a program may write it at any moment.
    pub(crate) fn begin_sync(&mut self, written: bool) -> FileRef {
        self.unsynced = written || self.write_backs > 0;
        self.file()
    }

    /// The barrier failed.
    pub(crate) fn not_synced(&mut self) {
        self.unsynced = true;
    }

    /// Whether the agent has it open for reading alone.
    pub(crate) fn is_released(&self) -> bool {
        self.handle.is_released()
    }

    /// Everything is synced, and nothing is to be written: it may be executed from now on.
    pub(crate) fn release(&mut self) {
        if self.unsynced || self.write_backs > 0 {
            return;
        }
        if let Err(error) = self.handle.make_readable() {
            tracing::debug!(%error, file = ?self.handle, "it stays open for writing");
        }
    }

    /// A process opens it: how it looks, for comparison with the fingerprint.
    pub(crate) fn look(&self) -> io::Result<Fingerprint> {
        let found = fingerprint(&*self.file())?;
        let known = self.fingerprint.filter(|_| self.write_backs > 0);
        Ok(Fingerprint { modified_ns: known.map_or(found.modified_ns, |known| known.modified_ns), ..found })
    }

    /// Nobody had it open, and the overlay has drawn its conclusions from how it looks: from now on that is
    /// what a change is told by.
    pub(crate) fn looked(&mut self, found: Fingerprint) {
        if self.write_backs == 0 {
            self.fingerprint = self.fingerprint.map(|_| found);
        }
    }

    /// A program, or the agent for one, may write it from now on.
    pub(crate) fn may_be_written(&mut self) {
        self.written = true;
        self.unsynced = true;
        self.kept = None;
    }

    /// Whether a stranger changed the file since nobody had it open; not known while write-backs are under way.
    pub(crate) fn is_changed(&self) -> bool {
        let known = self.fingerprint.filter(|_| !self.written && self.write_backs == 0);
        known.is_some_and(|known| fingerprint(&*self.file()).is_ok_and(|found| found != known))
    }

    /// The user wants what is on flash whatever a stranger did.
    pub(crate) fn accept_changes(&mut self) {
        self.written = true;
    }

    /// Whether write-backs are under way.
    pub(crate) fn is_written_back(&self) -> bool {
        self.write_backs > 0
    }

    /// A program set the time of last write. Whether it is the one that [`SlowFile::show`] has set, by chance or since.
    pub(crate) fn times_set(&mut self) -> bool {
        let found = self.modified_ns();
        let is_ours = found.is_some() && found == self.shown_ns.take();
        self.kept = found.map(|ns| Kept { ns, is_set: true });
        self.written = true;
        is_ours
    }

    /// Sets the time of last write to what it is to be, for who sees the slow file alone, while programs have
    /// it open; false while write-backs are under way, which are about to change it.
    pub(crate) fn show(&mut self, absorbed_ns: u64) -> bool {
        if self.write_backs > 0 {
            return false;
        }
        let Some(found) = self.modified_ns() else { return true };
        let wanted = self.wanted(found, absorbed_ns);
        if wanted != found && self.file().set_modified(wanted).is_ok() {
            self.shown_ns = Some(wanted);
            self.written = true;
            // One that was set, or was kept before, has ended with the absorbed write.
            self.kept = self.kept.filter(|kept| kept.ns == wanted);
        }
        true
    }

    /// What the time of last write is to be, that is `found` now.
    fn wanted(&self, found: u64, absorbed_ns: u64) -> u64 {
        match self.kept_from(found) {
            Some(Kept { is_set: true, .. }) if absorbed_ns > 0 => absorbed_ns,
            kept => later(kept.map_or(found, |kept| kept.ns), absorbed_ns, unix_ns()),
        }
    }

    fn modified_ns(&self) -> Option<u64> {
        fingerprint(&*self.file()).ok().map(|found| found.modified_ns)
    }

    /// The time that is kept, unless a program has written the file since, which now has this one.
    fn kept_from(&self, found_ns: u64) -> Option<Kept> {
        self.kept.filter(|kept| kept.ns == found_ns || self.ours_ns == Some(found_ns))
    }

    /// A write-back is about to begin.
    pub(crate) fn begin_write_back(&mut self, open_for_writing: bool) {
        if self.write_backs == 0 && (self.kept.is_some() || !open_for_writing) {
            let found = self.modified_ns();
            let new = found.filter(|_| !open_for_writing).map(|ns| Kept { ns, is_set: false });
            self.kept = found.and_then(|found| self.kept_from(found)).or(new);
        }
        self.write_backs += 1;
        self.written = true;
        self.unsynced = true;
    }

    /// A write-back has ended. A time that was set is put back at once, for programs that have the file open.
    pub(crate) fn end_write_back(&mut self) {
        self.write_backs = self.write_backs.saturating_sub(1);
        // Nothing else asks for it.
        let Some(kept) = self.kept.filter(|_| self.write_backs == 0) else { return };
        if kept.is_set {
            // A file of somebody else's: its time stays that of the write-back.
            let _ = self.file().set_modified(kept.ns);
        }
        self.ours_ns = self.modified_ns();
    }

    /// Nobody has it open: sets the time of last write, and returns the fingerprint. Nothing while
    /// write-backs are under way. What was not written by ours since the last time keeps its fingerprint, so
    /// that a change meanwhile is noticed.
    pub(crate) fn settle(&mut self, absorbed_ns: u64) -> Option<io::Result<Fingerprint>> {
        if self.write_backs > 0 {
            return None;
        }
        let known = self.fingerprint.filter(|_| !self.written);
        let settled = known.map_or_else(|| self.set_modified(absorbed_ns), Ok);
        if let Ok(found) = settled {
            self.fingerprint = Some(found);
            self.written = false;
        }
        Some(settled)
    }

    fn set_modified(&mut self, absorbed_ns: u64) -> io::Result<Fingerprint> {
        let found = fingerprint(&*self.file())?;
        let wanted = self.wanted(found.modified_ns, absorbed_ns);
        self.kept = None;
        if wanted == found.modified_ns {
            return Ok(found);
        }
        match self.file().set_modified(wanted) {
            Ok(()) => fingerprint(&*self.file()),
            // A file of somebody else's: its time stays that of the write-back.
            Err(_) => Ok(found),
        }
    }

    /// Whether a directory still names the file.
    pub(crate) fn has_name(&self) -> bool {
        self.names() > 0
    }

    /// How many names it has, as far as that can be seen.
    pub(crate) fn names(&self) -> u64 {
        match self.file().attributes() {
            Ok(found) => found.links,
            Err(error) => u64::from(error.raw_os_error() != Some(libc::ESTALE)),
        }
    }
}

/// Of two times of last write the later one; `absorbed_ns` is zero where nothing was absorbed. No write is
/// later than `now_ns`: such a time was set, and the absorbed one ends it. Times before 1970 are negative
/// numbers.
fn later(found_ns: u64, absorbed_ns: u64, now_ns: u64) -> u64 {
    let (found, absorbed, now) = (found_ns as i64, absorbed_ns as i64, now_ns as i64);
    if absorbed != 0 && (found < absorbed || found > now) { absorbed_ns } else { found_ns }
}

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

/// Size and time of last write now.
pub(crate) fn fingerprint(file: &dyn File) -> io::Result<Fingerprint> {
    let found = file.attributes()?;
    Ok(Fingerprint { size: found.size, modified_ns: found.modified_ns })
}

/// The same of what was found.
pub(crate) fn fingerprint_of(found: &std::fs::Metadata) -> Fingerprint {
    Fingerprint { size: found.len(), modified_ns: modified_ns(found) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use super::*;

    fn file() -> (tempfile::NamedTempFile, SlowFile) {
        let named = tempfile::NamedTempFile::new().unwrap();
        File::set_modified(named.as_file(), 1000 * SECOND).unwrap();
        let slow = SlowFile::new(Arc::new(named.reopen().unwrap()), None);
        (named, slow)
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_write_back_leaves_the_time_of_last_write_as_it_was() {
        let (mut named, mut slow) = file();
        assert_eq!(slow.settle(0).unwrap().unwrap().modified_ns, 1000 * SECOND);
        slow.begin_write_back(false);
        named.write_all(b"written back").unwrap();
        assert!(slow.settle(0).is_none(), "it is still under way");
        assert_eq!(slow.look().unwrap().modified_ns, 1000 * SECOND, "no foreign change");
        slow.end_write_back();
        assert_eq!(slow.settle(0).unwrap().unwrap(), Fingerprint { size: 12, modified_ns: 1000 * SECOND });
        assert_eq!(slow.look().unwrap().modified_ns, 1000 * SECOND);
    }

    #[test]
    fn the_time_of_the_last_absorbed_write_is_set_when_the_file_is_closed() {
        let (_named, mut slow) = file();
        slow.may_be_written();
        assert_eq!(slow.settle(2000 * SECOND + 5).unwrap().unwrap().modified_ns, 2000 * SECOND + 5);
    }

    #[test]
    fn times_before_1970_are_early_and_those_to_come_are_ended_by_a_write() {
        let before_1970 = (-5_000 * SECOND as i64 - 7) as u64;
        let named = tempfile::NamedTempFile::new().unwrap();
        File::set_modified(named.as_file(), before_1970).unwrap();
        let mut slow = SlowFile::new(Arc::new(named.reopen().unwrap()), None);
        assert_eq!(slow.settle(0).unwrap().unwrap().modified_ns, before_1970);
        slow.may_be_written();
        slow.times_set();
        slow.begin_write_back(true);
        slow.end_write_back();
        assert_eq!(slow.settle(0).unwrap().unwrap().modified_ns, before_1970, "a program set it");
        slow.may_be_written();
        assert_eq!(slow.settle(1000 * SECOND).unwrap().unwrap().modified_ns, 1000 * SECOND);
        File::set_modified(named.as_file(), unix_ns() + 1000 * SECOND).unwrap();
        slow.may_be_written();
        assert_eq!(slow.settle(2000 * SECOND).unwrap().unwrap().modified_ns, 2000 * SECOND);
    }

    #[test]
    fn a_time_is_shown_while_a_program_has_the_file_open_and_one_that_it_sets_at_that_moment_is_asked_for_again() {
        let (named, mut slow) = file();
        slow.may_be_written();
        slow.begin_write_back(true);
        assert!(!slow.show(2000 * SECOND), "a write-back is under way");
        slow.end_write_back();
        assert!(slow.show(2000 * SECOND));
        assert_eq!(slow.look().unwrap().modified_ns, 2000 * SECOND);
        assert!(slow.show(1500 * SECOND) && slow.show(0), "neither an earlier one nor none changes anything");
        assert_eq!(slow.look().unwrap().modified_ns, 2000 * SECOND);
        // The program's own was set before the agent set this.
        assert!(slow.times_set());
        File::set_modified(named.as_file(), 1000 * SECOND).unwrap();
        assert!(!slow.times_set());
        assert_eq!(slow.settle(0).unwrap().unwrap().modified_ns, 1000 * SECOND);
        // One that nobody may write has the time of before as soon as it is written back.
        slow.begin_write_back(false);
        File::set_modified(named.as_file(), 3000 * SECOND).unwrap();
        slow.end_write_back();
        assert!(slow.show(0));
        assert_eq!(slow.look().unwrap().modified_ns, 1000 * SECOND);
    }

    #[test]
    fn a_time_that_may_be_a_programs_is_not_put_back() {
        let (mut named, mut slow) = file();
        slow.begin_write_back(false);
        slow.may_be_written();
        named.write_all(b"by a program").unwrap();
        slow.end_write_back();
        assert!(slow.settle(0).unwrap().unwrap().modified_ns > 1000 * SECOND);
    }

    #[test]
    fn a_time_that_was_set_stands_until_a_program_writes() {
        // Through write-backs, for whoever has the file open.
        let (mut named, mut slow) = file();
        slow.may_be_written();
        slow.times_set();
        for _ in 0..2 {
            slow.begin_write_back(true);
            named.write_all(b"written back").unwrap();
            slow.end_write_back();
            assert_eq!(slow.look().unwrap().modified_ns, 1000 * SECOND, "while it is open");
        }
        assert_eq!(slow.settle(0).unwrap().unwrap().modified_ns, 1000 * SECOND);
        // Not through a write that is not absorbed: of a mapping, for one.
        for write_backs in 0..3 {
            let (mut named, mut slow) = file();
            slow.may_be_written();
            slow.times_set();
            if write_backs > 0 {
                slow.begin_write_back(true);
                named.write_all(b"written back").unwrap();
                slow.end_write_back();
            }
            let by_program = 2000 * SECOND;
            File::set_modified(named.as_file(), by_program).unwrap();
            if write_backs > 1 {
                slow.begin_write_back(true);
                slow.end_write_back();
            }
            assert_eq!(slow.settle(0).unwrap().unwrap().modified_ns, by_program, "{write_backs}");
        }
        // Nor through absorbed ones, be it as late as it may.
        let (_named, mut slow) = file();
        slow.may_be_written();
        slow.times_set();
        assert_eq!(slow.settle(900 * SECOND).unwrap().unwrap().modified_ns, 900 * SECOND);
    }

    #[test]
    fn a_change_that_was_seen_when_nobody_had_the_file_open_is_none_the_next_time() {
        let (mut named, mut slow) = file();
        slow.settle(0).unwrap().unwrap();
        named.write_all(b"by a stranger").unwrap();
        let seen = slow.look().unwrap();
        slow.looked(seen);
        assert_eq!(slow.settle(0).unwrap().unwrap(), seen);
        named.write_all(b"once more").unwrap();
        assert_eq!(slow.settle(0).unwrap().unwrap(), seen, "not by ours");
    }

    #[test]
    fn a_change_while_only_readers_had_the_file_open_is_not_taken_for_ours() {
        let (mut named, mut slow) = file();
        let before = slow.settle(0).unwrap().unwrap();
        named.write_all(b"by a stranger").unwrap();
        assert_eq!(slow.settle(0).unwrap().unwrap(), before);
        assert_ne!(slow.look().unwrap(), before);
    }
}
