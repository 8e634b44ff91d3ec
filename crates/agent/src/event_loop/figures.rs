//! What `status` and the metrics see.

use std::collections::BTreeSet;

use crate::status::{self, FileStatus, HeldUpFile, RequestCounters, Status};
use crate::store::as_path;

use super::{EventLoop, STATUS_FILES_MAX, STATUS_PATHS_MAX};

/// Processes named that hold something up.
const HELD_UP_MAX: usize = 4;
/// Slow files looked at for one answer: each is a call on the slow file system.
const EXAMINED_MAX: usize = 1024;

/// A known file: number, path, dirty bytes, and why the last write-back failed.
pub(super) type ListedFile<'f> = (u32, &'f [u8], u64, Option<i32>);

impl EventLoop<'_> {
    pub(super) fn status(&self) -> status::Answer {
        let (files, file_placements) = (self.file_statuses(self.tiers.overlay.file_list()), self.file_placements());
        let held_up = self.held_up();
        status::Answer::Status(Box::new(Status { files, file_placements, held_up, ..self.figures() }))
    }

    /// Whose threads take part, as far as that is known here.
    pub(super) fn whose(&self) -> String {
        let seen = self
            .tiers
            .overlay
            .slots()
            .filter_map(|slot| self.tiers.overlay.owner(slot))
            .filter(|owner| !owner.is_unseen());
        let pids: BTreeSet<u32> = seen.map(|owner| owner.pid).collect();
        let named: Vec<String> = pids.iter().take(HELD_UP_MAX).map(u32::to_string).collect();
        match (named.len(), pids.len()) {
            (0, _) => String::new(),
            (named_count, count) if named_count < count => format!(" (processes {} and others)", named.join(", ")),
            _ => format!(" (processes {})", named.join(", ")),
        }
    }

    fn held_up(&self) -> Vec<HeldUpFile> {
        let named = self.tiers.overlay.writers_above_dirty().take(HELD_UP_MAX).map(|held| HeldUpFile {
            path: as_path(self.tiers.overlay.path(held.file).unwrap_or(b"")).display().to_string(),
            pid: held.process.pid,
            for_ms: held.age_ns / 1_000_000,
        });
        named.collect()
    }

    /// With the files alone of which bytes cannot be written back.
    pub(super) fn examine(&self) -> status::Answer {
        let dirty = self.tiers.overlay.file_list().filter(|(_, _, dirty_bytes, _)| *dirty_bytes > 0);
        let examined = dirty.enumerate().filter_map(|(k, file)| self.examine_file(file, k < EXAMINED_MAX));
        let files: Vec<_> = examined.collect();
        let files_failed = files.len() as u64;
        let files = self.file_statuses(files.into_iter());
        status::Answer::Status(Box::new(Status { files, files_failed, ..self.figures() }))
    }

    /// The file with why its bytes cannot be written back, if so; `looks` at it where nothing is known.
    fn examine_file<'f>(
        &self,
        (file, path, dirty_bytes, error): ListedFile<'f>,
        looks: bool,
    ) -> Option<ListedFile<'f>> {
        let missing = || self.tiers.store.slow(file).is_none().then_some(libc::ENOENT);
        let changed = || {
            let slow = self.tiers.store.slow(file).filter(|_| looks && !self.tiers.overlay.is_open(file))?;
            slow.is_changed().then_some(libc::ESTALE)
        };
        let error = error.or_else(missing).or_else(changed)?;
        Some((file, path, dirty_bytes, Some(error)))
    }

    /// The same without files, where thousands of answers follow one another.
    pub(super) fn short_status(&self) -> status::Answer {
        status::Answer::Status(Box::new(self.figures()))
    }

    /// A status without files.
    pub(super) fn figures(&self) -> Status {
        let shared = self.shared();
        let mut requests = RequestCounters::default();
        requests.add(shared.ended);
        self.tiers.overlay.slots().for_each(|slot| requests.add(&shared.slots[slot as usize].counters));
        let dirty = || self.tiers.overlay.file_list().filter(|(_, _, dirty_bytes, _)| *dirty_bytes > 0);
        Status {
            pid: std::process::id(),
            slow: self.site.slow().display().to_string(),
            fast: self.site.fast().display().to_string(),
            capacity: self.site.capacity().to_string(),
            include: self.site.site().include.clone(),
            exclude: self.site.site().exclude.clone(),
            capacity_bytes: self.tiers.overlay.capacity_bytes(),
            mapped_bytes: self.tiers.overlay.mapped_bytes(),
            dirty_bytes: self.tiers.overlay.dirty_bytes(),
            extents: self.tiers.overlay.extents() as u64,
            threads: self.tiers.overlay.threads() as u64,
            durable: self.tiers.overlay.is_durable(),
            draining: self.commands.is_draining,
            strangers: self.strangers.count(self.tiers.overlay.is_kept_off()),
            placement: self.placement_status(),
            file_placements: Vec::new(),
            files: Vec::new(),
            held_up: Vec::new(),
            other_ranks: 0,
            files_known: self.tiers.overlay.file_list().count() as u64,
            files_dirty: dirty().count() as u64,
            files_failed: dirty().filter(|(_, _, _, error)| error.is_some()).count() as u64,
            agent: self.tiers.overlay.counters(),
            service: self.service,
            requests,
            journal_bytes: self.tiers.overlay.journal_end(),
            cluster: self.cluster_status(),
        }
    }

    /// The files worth naming first: those that cannot be written back, then those with dirty bytes.
    fn file_statuses<'f>(&self, files: impl Iterator<Item = ListedFile<'f>>) -> Vec<FileStatus> {
        let mut files: Vec<_> = files.collect();
        let rank = |(_, _, dirty_bytes, error): &ListedFile<'_>| match dirty_bytes {
            0 => 2,
            _ => u32::from(error.is_none()),
        };
        files.sort_by_key(rank);
        let mut room = STATUS_PATHS_MAX;
        let named = files.into_iter().take(STATUS_FILES_MAX).map_while(|(_, path, dirty_bytes, error)| {
            let path_bytes = std::str::from_utf8(path).is_err().then(|| path.to_vec());
            let path = as_path(path).display().to_string();
            // JSON may take six characters for one, and four for a byte.
            room = room.checked_sub(path.len() + path_bytes.as_ref().map_or(0, Vec::len))?;
            let error = error.map(|errno| match errno {
                libc::ESTALE => {
                    "another program changed the file since; 'headstart drain FILE' writes them over it".into()
                }
                errno => std::io::Error::from_raw_os_error(errno).to_string(),
            });
            Some(FileStatus { path, path_bytes, dirty_bytes, error })
        });
        named.collect()
    }
}
