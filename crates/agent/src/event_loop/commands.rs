//! The command line's side: status, drains, capacity, stop.

use std::os::unix::fs::MetadataExt;

use headstart_overlay::Answer;
use headstart_overlay::journal::Identity;
use headstart_protocol::message::{Envelope, Reply, Request};

use crate::error::Error;
use crate::identity::birth_ns;
use crate::runtime_directory;
use crate::status::{self, Command, Status};
use crate::store::as_path;

use super::figures::ListedFile;
use super::life::Ending;
use super::{EventLoop, NO_SLOT};

impl EventLoop<'_> {
    /// A command came.
    pub(super) fn control(&mut self, token: u64, text: &[u8]) {
        let answer = match serde_json::from_slice(text) {
            Err(error) => Some(status::Answer::Error { error: format!("no such command: {error}") }),
            Ok(command) => self.obey(token, command),
        };
        if let Some(answer) = answer {
            self.send_status(token, &answer);
        }
    }

    /// Does what the command says; its answer, unless that comes later.
    pub(super) fn obey(&mut self, token: u64, command: Command) -> Option<status::Answer> {
        Some(match command {
            Command::Status => self.status(),
            Command::Examine => self.examine(),
            Command::Drain { path: None, over_changes } => self.drain_all(over_changes),
            Command::Drain { path: Some(path), .. } => return self.drain_file(token, &path),
            Command::DrainGone => {
                self.drain_gone();
                self.status()
            }
            Command::Discard { path } => self.discard(path.as_deref()),
            Command::KeepDirty => {
                self.stop_draining();
                self.status()
            }
            Command::Sync => {
                let barriers = 1 + u32::from(self.tiers.overlay.is_barrier_running());
                self.commands.sync(token, barriers);
                self.tiers.overlay.request_barrier();
                self.tiers.poll();
                return None;
            }
            Command::Configure { capacity } => self.configure(capacity),
            Command::Select { include, exclude } => match self.site.select(include, exclude) {
                Ok(()) => self.status(),
                Err(error) => status::Answer::Error { error },
            },
            Command::Want(wanted) => self.want(token, wanted),
            Command::Place { on } => self.place(token, on),
            Command::Unplace { path } => self.unplace(path.as_deref()),
            Command::Follow => self.follow(token),
            Command::Join(part) => {
                self.commands.runs.join(token, part);
                self.short_status()
            }
            Command::Leave(part) => {
                let other_ranks = self.commands.runs.leave(&part);
                status::Answer::Status(Box::new(Status { other_ranks, ..self.figures() }))
            }
            Command::Stranger { pid, path } => {
                self.stranger(token, pid, &path);
                return None;
            }
            Command::StrangerStarted { pid } => {
                self.stranger_started(pid);
                self.short_status()
            }
            Command::NoStranger { pid } => self.no_stranger(pid),
            Command::Stop => return self.stop(token),
            Command::At { node, what } => return self.pass_on(token, &node, *what),
        })
    }

    /// Begins writing everything back.
    fn drain_all(&mut self, over_changes: bool) -> status::Answer {
        self.sweep(usize::MAX);
        if over_changes {
            self.tiers.store.accept_changes(..);
        }
        self.commands.is_draining = true;
        self.tiers.overlay.drain(true);
        self.tiers.poll();
        self.status()
    }

    /// Uses so much flash from now on.
    fn configure(&mut self, capacity: String) -> status::Answer {
        match capacity.parse() {
            Ok(parsed) => {
                self.tiers.overlay.set_capacity(parsed);
                self.site.set_capacity(capacity);
                self.commands.is_shrinking = true;
                self.tiers.poll();
                self.status()
            }
            Err(error) => status::Answer::Error { error },
        }
    }

    /// Ends once all is durable; refuses while programs take part.
    fn stop(&mut self, token: u64) -> Option<status::Answer> {
        let threads = self.tiers.overlay.threads();
        if threads > 0 {
            let error = format!("{threads} threads of programs take part{}; let them end first", self.whose());
            return Some(status::Answer::Error { error });
        }
        let status = self.status();
        self.send_status(token, &status);
        self.end();
        None
    }

    pub(super) fn send_status(&mut self, token: u64, answer: &status::Answer) {
        if self.answer_member(token, answer) {
            return;
        }
        let text = serde_json::to_vec(answer).expect("a status has a JSON form");
        self.send(token, Envelope { slot: NO_SLOT, seq: 0 }, &Reply::Control { text: &text });
    }

    /// Begins writing one file back; answers at once only if there is nothing to do.
    pub(super) fn drain_file(&mut self, token: u64, path: &str) -> Option<status::Answer> {
        let by_path =
            || self.tiers.overlay.file_list().find(|(_, known, ..)| *known == path.as_bytes()).map(|(file, ..)| file);
        let found = self.identity_of(path).and_then(|identity| self.tiers.overlay.find(identity)).or_else(by_path);
        let Some(file) = found else { return Some(self.status()) };
        self.tiers.store.accept_changes(file..=file);
        let command = self.commands.drain(token, path);
        let request = Request::WriteBack { file, offset: 0, length: u64::MAX };
        self.tiers.overlay.on_request(self.tiers.shared.view(), 0, Envelope { slot: NO_SLOT, seq: command }, &request);
        None
    }

    /// Who the file at `path` is, as the library says it; nobody if it is gone or lies on another file system.
    pub(super) fn identity_of(&self, path: &str) -> Option<Identity> {
        let found = std::fs::metadata(path).ok()?;
        let is_managed = self.tiers.store.storage().is_managed(found.dev());
        is_managed.then(|| Identity { inode: found.ino(), birth_ns: birth_ns(&found) })
    }

    /// Gives up what flash holds of one file or of all.
    fn discard(&mut self, path: Option<&str>) -> status::Answer {
        // A file that was renamed meanwhile has another name here until somebody opens it.
        let by_identity =
            path.and_then(|path| self.identity_of(path)).and_then(|identity| self.tiers.overlay.find(identity));
        let is_named =
            |file: u32, known: &[u8]| path.is_none_or(|path| known == path.as_bytes()) || by_identity == Some(file);
        if let Some(path) = path
            && !self.tiers.overlay.file_list().any(|(file, known, ..)| is_named(file, known))
        {
            return status::Answer::Error { error: format!("{path}: flash holds nothing of it") };
        }
        let dirty =
            self.tiers.overlay.dirty_files().filter(|known| known.dirty_bytes > 0 && is_named(known.file, known.path));
        let files: Vec<(u32, String)> =
            dirty.map(|known| (known.file, as_path(known.path).display().to_string())).collect();
        if let Some((_, open)) = files.iter().find(|(file, _)| self.tiers.overlay.is_open(*file)) {
            return status::Answer::Error { error: format!("{open}: a program has it open; end that first") };
        }
        for (file, path) in files {
            let given_up = self.tiers.overlay.discard(self.tiers.shared.view(), file);
            tracing::warn!(path, bytes = given_up, "dirty bytes were given up, as the user asked");
        }
        self.tiers.overlay.request_barrier();
        self.tiers.poll();
        self.status()
    }

    pub(super) fn answer_command(&mut self, command: u64, answer: &Answer) {
        let Some((token, path)) = self.commands.drained(command) else {
            return self.left_flash(command, answer);
        };
        let answer = match answer {
            Answer::Error { errno, text } => {
                let error = std::io::Error::from_raw_os_error(*errno);
                status::Answer::Error { error: format!("{path}: {text}: {error}; the bytes stay on flash") }
            }
            _ => {
                self.tiers.overlay.request_barrier();
                self.status()
            }
        };
        self.send_status(token, &answer);
    }

    /// Whether flash holds more than the capacity, and that may still change.
    pub(super) fn holds_too_much(&self) -> bool {
        let stuck = |(_, _, dirty_bytes, error): ListedFile<'_>| dirty_bytes > 0 && error.is_some();
        self.tiers.overlay.mapped_bytes() > self.tiers.overlay.capacity_bytes()
            && !self.tiers.overlay.file_list().any(stuck)
    }

    /// While everything is being written back: once that is on disk which was dirty when it was asked for, a
    /// barrier, so that nothing of it depends on the journal any more.
    pub(super) fn keep_draining(&mut self) {
        if self.commands.is_draining && self.tiers.overlay.has_drained() && !self.drains_others() {
            self.service.drains_total += 1;
            self.stop_draining();
        }
    }

    /// No longer insists on writing everything back, and makes durable what there is.
    pub(super) fn stop_draining(&mut self) {
        self.commands.is_draining = false;
        self.end_drain_of_others();
        self.tiers.overlay.drain(false);
        self.tiers.overlay.request_barrier();
        self.tiers.poll();
    }

    pub(super) fn barrier_ended(&mut self, durable: bool) {
        if !durable && self.life.ending() == Ending::Syncing {
            self.life.end_now(false);
        }
        self.executed.barrier_ended();
        self.strangers.barrier_ended();
        for token in self.commands.barrier_ended() {
            if durable {
                self.answer_shown(token);
                continue;
            }
            let answer = status::Answer::Error { error: self.not_durable().to_string() };
            self.send_status(token, &answer);
        }
    }

    pub(super) fn not_durable(&self) -> Error {
        let runtime = runtime_directory::path(self.site.slow());
        Error::NotDurable { fast: self.site.fast().to_path_buf(), log: runtime_directory::log(&runtime) }
    }
}
