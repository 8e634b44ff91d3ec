//! Programs that the library is not in. Before one starts, whoever starts it asks: what is dirty goes back,
//! all bytes leave flash, and nothing comes there until it has ended, and what it started as well. Then the
//! question is answered.
//!
//! Two things tell that one lives. Its process, which is known by number: one that closes all its descriptors
//! counts too. And a fifo in the runtime directory, which whoever starts it opens and hands down: that of its
//! descendants. Both outlive an agent that is killed: a file in the runtime directory names each process, and
//! the fifo says by itself whether somebody has it open.
//!
//! What other nodes have on flash leaves it too ([`elsewhere`]).
//!
//! Nobody waits for ever: where bytes cannot go back, or none did for [`STALL`], the answer says so.

mod elsewhere;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use headstart_cluster::{MemberId, Note};
use headstart_overlay::Answer;
use headstart_protocol::message::Envelope;
use headstart_protocol::{STRANGER_PREFIX, STRANGERS_FILE};

use crate::error::{Error, Result};
use crate::process::ProcessHandle;
use crate::process::start_time;
use crate::status;
use crate::store::as_path;

use super::{EventLoop, FIRST_STRANGER, NO_SLOT, STRANGERS};
use elsewhere::Elsewhere;

/// How long no dirty byte may have gone back before a question is answered nevertheless (assumed: a copy
/// takes a second at most).
const STALL: Duration = Duration::from_secs(10);

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// Somebody who is about to start one.
    Connection(u64),
    /// Another node, where one is about to start, with its question.
    Member(MemberId, u64),
}

/// Somebody who waits to start one.
struct Waiting {
    who: Who,
    since: Instant,
    /// What other members were asked by.
    question: u64,
    /// Those that have not answered.
    members: BTreeSet<MemberId>,
    /// Files that have not left flash.
    files: BTreeMap<u64, u32>,
    /// Barriers that have to end, the last of which began after the last file left; none: files are waited for.
    barriers: Option<u32>,
    /// What could not go back.
    problems: Vec<String>,
}

/// A process.
struct Living {
    pid: u32,
    handle: ProcessHandle,
    mark: PathBuf,
}

/// See the module.
pub(super) struct Strangers {
    runtime: PathBuf,
    /// The end of the fifo that tells when the last of those who have the other one has closed it.
    fifo: Option<File>,
    living: BTreeMap<u64, Living>,
    next: u64,
    waiting: Vec<Waiting>,
    /// Some live here, or are about to.
    are_here: bool,
    elsewhere: Elsewhere,
    /// Dirty bytes when some last went back, and when that was.
    progress: (u64, Instant),
}

impl Strangers {
    /// Those that an agent before left.
    pub(super) fn new(runtime: &Path) -> Result<Strangers> {
        let path = runtime.join(STRANGERS_FILE);
        match nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)) {
            Ok(()) | Err(nix::errno::Errno::EEXIST) => {}
            Err(error) => return Err(Error::file("make the fifo", &path, error)),
        }
        let mut strangers = Strangers {
            runtime: runtime.to_path_buf(),
            fifo: None,
            living: BTreeMap::new(),
            next: FIRST_STRANGER,
            waiting: Vec::new(),
            are_here: false,
            elsewhere: Elsewhere::default(),
            progress: (0, Instant::now()),
        };
        for entry in fs::read_dir(runtime).map_err(|error| Error::file("read", runtime, error))?.flatten() {
            let name = entry.file_name();
            let Some(numbers) = name.to_str().and_then(|name| name.strip_prefix(STRANGER_PREFIX)) else { continue };
            let process =
                numbers.split_once('.').and_then(|(pid, start)| Some((pid.parse().ok()?, start.parse().ok()?)));
            let living = process.and_then(|(pid, start)| Some((pid, ProcessHandle::open(pid, start)?)));
            match living.filter(|(_, handle)| !handle.wait(Duration::ZERO)) {
                Some((pid, handle)) => strangers.add(Living { pid, handle, mark: entry.path() }),
                // One that stays is looked at again by the next agent.
                None => drop(fs::remove_file(entry.path())),
            }
        }
        Ok(strangers)
    }

    fn add(&mut self, living: Living) {
        self.living.insert(self.next, living);
        self.next += 1;
    }

    /// Whether anybody has the fifo open for writing.
    fn are_tokens_held(&mut self) -> bool {
        let read = self.fifo.as_mut().map(|fifo| fifo.read(&mut [0; 1]));
        matches!(read, Some(Err(error)) if error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// How many live, as far as that is known: descendants count as one, and so do those of other nodes.
    pub(super) fn count(&self, is_kept_off: bool) -> u64 {
        (self.living.len() as u64).max(u64::from(is_kept_off))
    }

    /// Whether some live here, or are about to.
    fn live_here(&mut self) -> bool {
        let is_connection = |waiting: &Waiting| matches!(waiting.who, Who::Connection(_));
        !self.living.is_empty() || self.waiting.iter().any(is_connection) || self.are_tokens_held()
    }

    /// Whether somebody waits to start one.
    pub(super) fn are_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A barrier has ended.
    pub(super) fn barrier_ended(&mut self) {
        for left in self.waiting.iter_mut().filter_map(|waiting| waiting.barriers.as_mut()) {
            *left = left.saturating_sub(1);
        }
    }
}

impl EventLoop<'_> {
    /// Goes on with what the agent before knew.
    pub(super) fn know_strangers(&mut self) -> Result<()> {
        self.open_fifo()?;
        for token in self.strangers.living.keys().copied().collect::<Vec<_>>() {
            self.watch_stranger(token);
        }
        if !self.strangers.living.is_empty() || self.strangers.are_tokens_held() {
            tracing::info!(count = self.strangers.count(true), "programs that the library is not in live");
            self.strangers.are_here = true;
            self.tiers.overlay.keep_off(self.tiers.shared.view(), true);
            self.take_all_off(None);
        }
        Ok(())
    }

    /// Opens the fifo anew: of what happened to it before its end says nothing then.
    fn open_fifo(&mut self) -> Result<()> {
        let path = self.strangers.runtime.join(STRANGERS_FILE);
        if let Some(before) = self.strangers.fifo.take() {
            self.poller.leave(&before);
        }
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let fifo = opened.map_err(|error| Error::file("open", &path, error))?;
        let watched = self.poller.watch_end(&fifo, STRANGERS);
        watched.map_err(|error| Error::system("watch the fifo of programs", error))?;
        self.strangers.fifo = Some(fifo);
        Ok(())
    }

    fn watch_stranger(&mut self, token: u64) {
        let Some(living) = self.strangers.living.get(&token) else { return };
        if let Err(error) = self.poller.watch(&living.handle, token) {
            tracing::error!(%error, pid = living.pid, "a program's end cannot be watched");
            self.forget_stranger(token);
        }
    }

    /// A program that the library is not in is about to start, as process `pid` if that is known.
    pub(super) fn stranger(&mut self, token: u64, pid: Option<u32>, path: &str) {
        if let Some(pid) = pid {
            self.stranger_started(pid);
        }
        if !self.tiers.overlay.is_kept_off() {
            tracing::info!(path, "a program starts that the library is not in: flash is emptied");
            self.tiers.overlay.keep_off(self.tiers.shared.view(), true);
        }
        self.strangers.are_here = true;
        self.take_all_off(Some(Who::Connection(token)));
    }

    /// A process is such a program, or will be.
    pub(super) fn stranger_started(&mut self, pid: u32) {
        // One that has ended already is none.
        let (Ok(handle), Some(start)) = (ProcessHandle::of_number(pid), start_time(pid)) else { return };
        let mark = self.strangers.runtime.join(format!("{STRANGER_PREFIX}{pid}.{start}"));
        if let Err(error) = fs::write(&mark, "") {
            tracing::warn!(%error, "the next agent may not know of a program");
        }
        let watched = self.strangers.next;
        self.strangers.add(Living { pid, handle, mark });
        self.watch_stranger(watched);
    }

    /// The program that process `pid` was about to be did not start.
    pub(super) fn no_stranger(&mut self, pid: u32) -> status::Answer {
        let tokens: Vec<u64> =
            self.strangers.living.iter().filter(|(_, one)| one.pid == pid).map(|(at, _)| *at).collect();
        tokens.into_iter().for_each(|token| self.forget_stranger(token));
        self.may_come_back();
        self.short_status()
    }

    /// A process, or the last holder of the fifo, is gone.
    pub(super) fn stranger_ended(&mut self, token: u64) -> Result<()> {
        if token == STRANGERS {
            self.open_fifo()?;
        } else {
            self.forget_stranger(token);
        }
        self.may_come_back();
        Ok(())
    }

    /// A connection is gone: nobody waits there any more.
    pub(super) fn forget_waiting(&mut self, token: u64) {
        let waiting = &mut self.strangers.waiting;
        let before = waiting.len();
        waiting.retain(|waiting| waiting.who != Who::Connection(token));
        if waiting.len() < before {
            self.may_come_back();
        }
    }

    fn forget_stranger(&mut self, token: u64) {
        let Some(living) = self.strangers.living.remove(&token) else { return };
        self.poller.leave(&living.handle);
        // The next agent finds that no such process lives.
        let _ = fs::remove_file(&living.mark);
    }

    /// Once none lives, and nobody is about to start one.
    fn may_come_back(&mut self) {
        let live = self.strangers.live_here();
        if std::mem::replace(&mut self.strangers.are_here, live) && !live {
            self.tell_all(&Note::KeepOff { on: false, question: 0 });
        }
        if self.tiers.overlay.is_kept_off() && !live && !self.strangers.elsewhere.live() {
            tracing::info!("no program lives any more that the library is not in: flash is used again");
            self.tiers.overlay.keep_off(self.tiers.shared.view(), false);
        }
    }

    /// Everything leaves flash, for whoever waits for that.
    fn take_all_off(&mut self, who: Option<Who>) {
        let files: Vec<u32> = self.tiers.overlay.files_on_flash().collect();
        self.strangers.progress = (self.tiers.overlay.dirty_bytes(), Instant::now());
        let first = self.commands.number(files.len() as u64);
        let numbered: BTreeMap<u64, u32> = (first..).zip(files).collect();
        if let Some(who) = who {
            let (question, members) = match who {
                Who::Connection(_) => self.ask_others(),
                Who::Member(..) => (0, BTreeSet::new()),
            };
            self.strangers.waiting.push(Waiting {
                who,
                since: Instant::now(),
                question,
                members,
                files: numbered.clone(),
                barriers: None,
                problems: Vec::new(),
            });
        }
        for (seq, file) in numbered {
            self.tiers.overlay.take_off(self.tiers.shared.view(), Envelope { slot: NO_SLOT, seq }, file);
        }
    }

    /// A file has left flash, or cannot.
    pub(super) fn left_flash(&mut self, command: u64, answer: &Answer) {
        let waiting = self.strangers.waiting.iter_mut().find_map(|one| Some((one.files.remove(&command)?, one)));
        let Some((file, waiting)) = waiting else { return };
        if let Answer::Error { errno, .. } = answer {
            let path =
                self.tiers.overlay.path(file).map(|path| as_path(path).display().to_string()).unwrap_or_default();
            waiting.problems.push(format!("{path}: {}", std::io::Error::from_raw_os_error(*errno)));
        }
    }

    /// Answers those for whom all is done that can be. Called after events, and now and then while somebody waits.
    pub(super) fn answer_strangers(&mut self) {
        if !self.strangers.are_awaited() {
            return;
        }
        let dirty_bytes = self.tiers.overlay.dirty_bytes();
        if dirty_bytes != self.strangers.progress.0 {
            self.strangers.progress = (dirty_bytes, Instant::now());
        }
        let is_stalled = self.strangers.progress.1.elapsed() >= STALL;
        let is_running = self.tiers.overlay.is_barrier_running();
        let is_durable = self.tiers.overlay.is_durable() && !is_running;
        self.ask_again();
        let mut asks_barrier = false;
        let mut answered = Vec::new();
        self.strangers.waiting.retain_mut(|waiting| {
            let left = waiting.files.len();
            if left > 0 && is_stalled {
                waiting.problems.push(format!("{left} files do not go back to disk"));
                waiting.files.clear();
            }
            if waiting.files.is_empty() && waiting.barriers.is_none() {
                // The records that took bytes off flash must be durable before somebody unseen makes newer ones so.
                asks_barrier |= !is_durable;
                waiting.barriers = Some(if is_durable { 0 } else { 1 + u32::from(is_running) });
            }
            let is_done =
                waiting.members.is_empty() && (waiting.barriers == Some(0) || is_stalled && waiting.files.is_empty());
            if is_done {
                answered.push((waiting.who, std::mem::take(&mut waiting.problems)));
            }
            !is_done
        });
        if asks_barrier {
            self.tiers.overlay.request_barrier();
            self.tiers.poll();
        }
        for (who, problems) in answered {
            let token = match who {
                Who::Connection(token) => token,
                Who::Member(member, question) => {
                    self.tell_member(member, Note::Off { question, problem: problems.join("; ").into_bytes() });
                    continue;
                }
            };
            self.service.strangers_total += 1;
            let answer = match problems.is_empty() {
                true => self.short_status(),
                false => status::Answer::Error { error: problems.join("; ") },
            };
            self.send_status(token, &answer);
        }
    }
}
