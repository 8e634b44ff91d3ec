//! The command line's side: status, drains, capacity, stop.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;

use headstart_overlay::Answer;
use headstart_overlay::journal::Identity;
use headstart_protocol::message::{Envelope, Reply, Request};

use crate::error::Error;
use crate::identity::birth_ns;
use crate::runtime_directory;
use crate::selection::Selection;
use crate::status::{self, Command, FileStatus, HeldUpFile, RequestCounters, Status};
use crate::store::as_path;

use super::{Ending, EventLoop, NO_SLOT, STATUS_FILES_MAX, STATUS_PATHS_MAX, SyncCommand};

/// Processes named that hold something up.
const HELD_UP_MAX: usize = 4;
/// Slow files looked at for one answer: each is a call on the slow file system.
const EXAMINED_MAX: usize = 1024;

/// A known file: number, path, dirty bytes, and why the last write-back failed.
type ListedFile<'f> = (u32, &'f [u8], u64, Option<i32>);

impl EventLoop<'_> {
    pub(super) fn control(&mut self, token: u64, text: &[u8]) {
        let answer = match serde_json::from_slice::<Command>(text) {
            Err(error) => status::Answer::Error { error: format!("no such command: {error}") },
            Ok(Command::Status) => self.status(),
            Ok(Command::Examine) => self.examine(),
            Ok(Command::Drain { path: None, over_changes }) => {
                self.sweep(usize::MAX);
                if over_changes {
                    self.store.accept_changes(..);
                }
                self.draining = true;
                self.overlay.drain(true);
                self.overlay.poll(self.shared.view());
                self.status()
            }
            Ok(Command::Drain { path: Some(path), .. }) => match self.drain_file(token, &path) {
                Some(answer) => answer,
                None => return,
            },
            Ok(Command::Discard { path }) => self.discard(path.as_deref()),
            Ok(Command::KeepDirty) => {
                self.stop_draining();
                self.status()
            }
            Ok(Command::Sync) => {
                let barriers = 1 + u32::from(self.overlay.is_barrier_running());
                self.syncs.push(SyncCommand { token, barriers });
                self.overlay.request_barrier();
                return self.overlay.poll(self.shared.view());
            }
            Ok(Command::Configure { capacity }) => match capacity.parse() {
                Ok(parsed) => {
                    self.overlay.set_capacity(parsed);
                    self.capacity = capacity;
                    self.shrinking = true;
                    self.overlay.poll(self.shared.view());
                    self.status()
                }
                Err(error) => status::Answer::Error { error },
            },
            Ok(Command::Select { include, exclude }) => match Selection::new(&include, &exclude) {
                Ok(selection) => {
                    self.selection = selection;
                    (self.options.site.include, self.options.site.exclude) = (include, exclude);
                    self.status()
                }
                Err(error) => status::Answer::Error { error },
            },
            Ok(Command::Want(wanted)) => self.want(token, wanted),
            Ok(Command::Place { on }) => self.place(token, on),
            Ok(Command::Unplace { path }) => self.unplace(path.as_deref()),
            Ok(Command::Follow) => self.follow(token),
            Ok(Command::Stranger { pid, path }) => return self.stranger(token, pid, &path),
            Ok(Command::StrangerStarted { pid }) => {
                self.stranger_started(pid);
                self.short_status()
            }
            Ok(Command::NoStranger { pid }) => self.no_stranger(pid),
            Ok(Command::Stop) => {
                let threads = self.overlay.threads();
                if threads > 0 {
                    status::Answer::Error {
                        error: format!("{threads} threads of programs take part{}; let them end first", self.whose()),
                    }
                } else {
                    let status = self.status();
                    self.send_status(token, &status);
                    return self.end();
                }
            }
        };
        self.send_status(token, &answer);
    }

    pub(super) fn send_status(&mut self, token: u64, answer: &status::Answer) {
        let text = serde_json::to_vec(answer).expect("a status has a JSON form");
        self.send(token, Envelope { slot: NO_SLOT, seq: 0 }, &Reply::Control { text: &text });
    }

    /// Begins writing one file back; answers at once only if there is nothing to do.
    pub(super) fn drain_file(&mut self, token: u64, path: &str) -> Option<status::Answer> {
        let by_path =
            || self.overlay.file_list().find(|(_, known, ..)| *known == path.as_bytes()).map(|(file, ..)| file);
        let found = self.identity_of(path).and_then(|identity| self.overlay.find(identity)).or_else(by_path);
        let Some(file) = found else { return Some(self.status()) };
        self.store.accept_changes(file..=file);
        let command = self.next_command;
        self.next_command += 1;
        self.commands.insert(command, (token, path.to_string()));
        let request = Request::WriteBack { file, offset: 0, length: u64::MAX };
        self.overlay.on_request(self.shared.view(), 0, Envelope { slot: NO_SLOT, seq: command }, &request);
        None
    }

    /// Who the file at `path` is, as the library says it; nobody if it is gone or lies on another file system.
    pub(super) fn identity_of(&self, path: &str) -> Option<Identity> {
        let found = std::fs::metadata(path).ok()?;
        let is_managed = self.store.storage().is_managed(found.dev());
        is_managed.then(|| Identity { inode: found.ino(), birth_ns: birth_ns(&found) })
    }

    /// Gives up what flash holds of one file or of all.
    fn discard(&mut self, path: Option<&str>) -> status::Answer {
        // A file that was renamed meanwhile has another name here until somebody opens it.
        let by_identity = path.and_then(|path| self.identity_of(path)).and_then(|identity| self.overlay.find(identity));
        let is_named =
            |file: u32, known: &[u8]| path.is_none_or(|path| known == path.as_bytes()) || by_identity == Some(file);
        if let Some(path) = path
            && !self.overlay.file_list().any(|(file, known, ..)| is_named(file, known))
        {
            return status::Answer::Error { error: format!("{path}: flash holds nothing of it") };
        }
        let dirty =
            self.overlay.dirty_files().filter(|known| known.dirty_bytes > 0 && is_named(known.file, known.path));
        let files: Vec<(u32, String)> =
            dirty.map(|known| (known.file, as_path(known.path).display().to_string())).collect();
        if let Some((_, open)) = files.iter().find(|(file, _)| self.overlay.is_open(*file)) {
            return status::Answer::Error { error: format!("{open}: a program has it open; end that first") };
        }
        for (file, path) in files {
            let given_up = self.overlay.discard(self.shared.view(), file);
            tracing::warn!(path, bytes = given_up, "dirty bytes were given up, as the user asked");
        }
        self.overlay.request_barrier();
        self.overlay.poll(self.shared.view());
        self.status()
    }

    pub(super) fn answer_command(&mut self, command: u64, answer: &Answer) {
        let Some((token, path)) = self.commands.remove(&command) else {
            return self.left_flash(command, answer);
        };
        let answer = match answer {
            Answer::Error { errno, text } => {
                let error = std::io::Error::from_raw_os_error(*errno);
                status::Answer::Error { error: format!("{path}: {text}: {error}; the bytes stay on flash") }
            }
            _ => {
                self.overlay.request_barrier();
                self.status()
            }
        };
        self.send_status(token, &answer);
    }

    /// Whether flash holds more than the capacity, and that may still change.
    pub(super) fn holds_too_much(&self) -> bool {
        let stuck = |(_, _, dirty_bytes, error): ListedFile<'_>| dirty_bytes > 0 && error.is_some();
        self.overlay.mapped_bytes() > self.overlay.capacity_bytes() && !self.overlay.file_list().any(stuck)
    }

    /// While everything is being written back: once that is on disk which was dirty when it was asked for, a
    /// barrier, so that nothing of it depends on the journal any more.
    pub(super) fn keep_draining(&mut self) {
        if self.draining && self.overlay.has_drained() {
            self.service.drains_total += 1;
            self.stop_draining();
        }
    }

    /// No longer insists on writing everything back, and makes durable what there is.
    pub(super) fn stop_draining(&mut self) {
        self.draining = false;
        self.overlay.drain(false);
        self.overlay.request_barrier();
        self.overlay.poll(self.shared.view());
    }

    pub(super) fn status(&self) -> status::Answer {
        let (files, file_placements) = (self.file_statuses(self.overlay.file_list()), self.file_placements());
        let held_up = self.held_up();
        status::Answer::Status(Box::new(Status { files, file_placements, held_up, ..self.figures() }))
    }

    /// Whose threads take part, as far as that is known here.
    fn whose(&self) -> String {
        let seen = self.overlay.slots().filter_map(|slot| self.overlay.owner(slot)).filter(|owner| !owner.is_unseen());
        let pids: BTreeSet<u32> = seen.map(|owner| owner.pid).collect();
        let named: Vec<String> = pids.iter().take(HELD_UP_MAX).map(u32::to_string).collect();
        match (named.len(), pids.len()) {
            (0, _) => String::new(),
            (named_count, count) if named_count < count => format!(" (processes {} and others)", named.join(", ")),
            _ => format!(" (processes {})", named.join(", ")),
        }
    }

    fn held_up(&self) -> Vec<HeldUpFile> {
        let named = self.overlay.writers_above_dirty().take(HELD_UP_MAX).map(|held| HeldUpFile {
            path: as_path(self.overlay.path(held.file).unwrap_or(b"")).display().to_string(),
            pid: held.process.pid,
            for_ms: held.age_ns / 1_000_000,
        });
        named.collect()
    }

    /// With the files alone of which bytes cannot be written back.
    fn examine(&self) -> status::Answer {
        let dirty = self.overlay.file_list().filter(|(_, _, dirty_bytes, _)| *dirty_bytes > 0);
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
        let missing = || self.store.slow(file).is_none().then_some(libc::ENOENT);
        let changed = || {
            let slow = self.store.slow(file).filter(|_| looks && !self.overlay.is_open(file))?;
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
        self.overlay.slots().for_each(|slot| requests.add(&shared.slots[slot as usize].counters));
        let dirty = || self.overlay.file_list().filter(|(_, _, dirty_bytes, _)| *dirty_bytes > 0);
        Status {
            pid: std::process::id(),
            slow: self.options.site.slow.display().to_string(),
            fast: self.options.site.fast.display().to_string(),
            capacity: self.capacity.clone(),
            include: self.options.site.include.clone(),
            exclude: self.options.site.exclude.clone(),
            capacity_bytes: self.overlay.capacity_bytes(),
            mapped_bytes: self.overlay.mapped_bytes(),
            dirty_bytes: self.overlay.dirty_bytes(),
            extents: self.overlay.extents() as u64,
            threads: self.overlay.threads() as u64,
            durable: self.overlay.is_durable(),
            draining: self.draining,
            strangers: self.strangers.count(self.overlay.is_kept_off()),
            placement: self.placement_status(),
            file_placements: Vec::new(),
            files: Vec::new(),
            held_up: Vec::new(),
            files_known: self.overlay.file_list().count() as u64,
            files_dirty: dirty().count() as u64,
            files_failed: dirty().filter(|(_, _, _, error)| error.is_some()).count() as u64,
            agent: self.overlay.counters(),
            service: self.service,
            requests,
            journal_bytes: self.overlay.journal_end(),
        }
    }

    /// The files worth naming first: those that cannot be written back, then those with dirty bytes.
    pub(super) fn file_statuses<'f>(&self, files: impl Iterator<Item = ListedFile<'f>>) -> Vec<FileStatus> {
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

    pub(super) fn barrier_ended(&mut self, durable: bool) {
        if !durable && self.ending == Ending::Syncing {
            self.ending = Ending::Now { durable: false };
        }
        self.executed.barrier_ended();
        self.strangers.barrier_ended();
        let mut answered = Vec::new();
        self.syncs.retain_mut(|sync| {
            sync.barriers -= 1;
            if sync.barriers == 0 {
                answered.push(sync.token);
            }
            sync.barriers > 0
        });
        for token in answered {
            if durable {
                self.answer_shown(token);
                continue;
            }
            let answer = status::Answer::Error { error: self.not_durable().to_string() };
            self.send_status(token, &answer);
        }
    }

    pub(super) fn not_durable(&self) -> Error {
        let runtime = runtime_directory::path(&self.options.site.slow);
        Error::NotDurable { fast: self.options.site.fast.clone(), log: runtime_directory::log(&runtime) }
    }
}
