//! When the managed directory shows what is dirty.
//!
//! ```text
//! nothing shown --a writable open: held until the list is durable--> shown --refreshed, at most once a period--.
//!       ^                                                              | ^____________________________________/
//!       '------ nothing dirty, no writer, for a period or at a sync ---'
//! ```
//!
//! Without the list nothing is absorbed: a question for space is answered with "none".

use std::time::{Duration, Instant};

use headstart_overlay::journal::Identity;
use headstart_protocol::message::Envelope;

use crate::dirty_list::Shown;
use crate::marker::MarkJob;
use crate::slow_file::SlowFile;

use super::EventLoop;

/// How often the list is refreshed at most, and how long it outlasts the last dirty byte.
const PERIOD: Duration = Duration::from_millis(800);
/// Dirty extents looked at for one list: what an event loop can do in a few milliseconds.
const STEPS_MAX: usize = 64 << 10;
/// of these at least for every file.
const FILE_STEPS_MIN: usize = 16;

/// An open that waits for the list.
struct HeldOpen {
    token: u64,
    envelope: Envelope,
    identity: Identity,
    path: Vec<u8>,
}

/// How far the directory shows what is dirty.
pub(super) struct Marks {
    /// The list is there, durably.
    shown: bool,
    /// A job is under way.
    busy: bool,
    /// It is to show, not to remove.
    showing: bool,
    /// The journal's end that the list and all attributes speak of; none if attributes were spared.
    journal_end: Option<u64>,
    last: Instant,
    /// The last look found nothing to show.
    idle: bool,
    held: Vec<HeldOpen>,
    /// Opens that the job under way answers.
    answered: Vec<HeldOpen>,
    /// Commands answered once the directory shows how things stand.
    waiting: Vec<u64>,
    told: Vec<u64>,
}

impl Marks {
    pub(super) fn new(shown: bool) -> Marks {
        Marks {
            shown,
            busy: false,
            showing: false,
            journal_end: None,
            last: Instant::now(),
            idle: false,
            held: Vec::new(),
            answered: Vec::new(),
            waiting: Vec::new(),
            told: Vec::new(),
        }
    }

    /// Whether bytes may be absorbed.
    pub(super) fn are_shown(&self) -> bool {
        self.shown
    }
}

impl EventLoop<'_> {
    /// Holds a writable open until the list is there; false if it is.
    pub(super) fn hold_open(&mut self, token: u64, envelope: Envelope, identity: Identity, path: &[u8]) -> bool {
        if self.marks.shown {
            return false;
        }
        self.marks.held.push(HeldOpen { token, envelope, identity, path: path.to_vec() });
        true
    }

    /// Answers a command with the status once the directory shows it.
    pub(super) fn answer_shown(&mut self, token: u64) {
        self.marks.waiting.push(token);
    }

    /// Begins what is due.
    pub(super) fn mark(&mut self) {
        let marks = &self.marks;
        let urgent = !marks.held.is_empty() || !marks.waiting.is_empty();
        let due = urgent || ((marks.shown || self.tiers.overlay.dirty_bytes() > 0) && marks.last.elapsed() >= PERIOD);
        if marks.busy || !due {
            return;
        }
        let wanted = !marks.held.is_empty() || self.tiers.overlay.dirty_files().next().is_some();
        let was_idle = std::mem::replace(&mut self.marks.idle, !wanted);
        self.marks.last = Instant::now();
        if !wanted && self.marks.shown && !self.tiers.overlay.is_on_disk() {
            // The list stays until the disks have everything for good.
            self.tiers.overlay.request_barrier();
            self.tiers.poll();
        }
        let journal_end = Some(self.tiers.overlay.journal_end());
        let marks = &self.marks;
        let job = match (wanted, marks.shown) {
            (true, true) if marks.journal_end == journal_end && marks.held.is_empty() => None,
            (true, _) => Some(MarkJob::Show(self.shown_files())),
            (false, true) if self.tiers.overlay.is_on_disk() && (was_idle || !marks.waiting.is_empty()) => {
                Some(MarkJob::Remove)
            }
            (false, _) => None,
        };
        let marks = &mut self.marks;
        marks.told.append(&mut marks.waiting);
        let Some(job) = job else { return self.tell() };
        marks.busy = true;
        marks.answered.append(&mut marks.held);
        marks.showing = matches!(job, MarkJob::Show(_));
        match &job {
            MarkJob::Show(files) => {
                marks.journal_end = journal_end.filter(|_| files.iter().all(|file| !file.written_back));
            }
            MarkJob::Remove => marks.shown = false,
        }
        self.workers.marker.jobs.push(job);
    }

    /// How long until something is due; none if nothing will be by time alone.
    pub(super) fn mark_after(&self) -> Option<Duration> {
        let stale =
            self.marks.journal_end != Some(self.tiers.overlay.journal_end()) || self.tiers.overlay.dirty_bytes() == 0;
        let waits = !self.marks.busy && stale && (self.marks.shown || self.tiers.overlay.dirty_bytes() > 0);
        waits.then(|| PERIOD.saturating_sub(self.marks.last.elapsed()).max(Duration::from_millis(1)))
    }

    pub(super) fn marked(&mut self, result: Result<(), i32>) -> crate::error::Result<()> {
        self.marks.busy = false;
        if self.marks.showing {
            self.marks.shown = result.is_ok();
        }
        for held in std::mem::take(&mut self.marks.answered) {
            // What was forgotten before goes first: the file may be given its number.
            self.carry_out_all()?;
            // Its thread may be gone.
            if self.clients.slot(held.token) == Some(held.envelope.slot) {
                self.open(held.envelope, held.identity, true, &held.path);
            }
        }
        self.tell();
        Ok(())
    }

    fn tell(&mut self) {
        for token in std::mem::take(&mut self.marks.told) {
            let status = self.status();
            self.send_status(token, &status);
        }
    }

    /// What the list is to say now.
    pub(super) fn shown_files(&self) -> Vec<Shown> {
        let steps = (STEPS_MAX / self.tiers.overlay.dirty_files().count().max(1)).max(FILE_STEPS_MIN);
        // Whoever asked how things stand may look at attributes next.
        let spares = self.marks.waiting.is_empty();
        let dirty = self.tiers.overlay.dirty_files().map(|known| {
            let slow = self.tiers.store.slow(known.file);
            let (ranges, exact) = match known.dirty_bytes {
                0 => (Vec::new(), true),
                _ => self.tiers.overlay.dirty_ranges(known.file, steps),
            };
            Shown {
                path: known.path.to_vec(),
                inode: known.identity.inode,
                dirty_bytes: known.dirty_bytes,
                ranges,
                exact,
                open_for_writing: known.open_for_writing,
                written_back: spares && slow.is_some_and(SlowFile::is_written_back),
                file: slow.map(SlowFile::handle),
            }
        });
        let opening = self.marks.held.iter().map(|held| Shown {
            path: held.path.clone(),
            inode: held.identity.inode,
            dirty_bytes: 0,
            ranges: Vec::new(),
            exact: true,
            open_for_writing: true,
            written_back: false,
            file: None,
        });
        dirty.chain(opening).collect()
    }

    /// What the directory shows when this agent has ended: nothing, if it `ended_well` and nothing is owed.
    pub(crate) fn last_marks(&self, ended_well: bool) -> MarkJob {
        if ended_well && self.owes_nothing() {
            return MarkJob::Remove;
        }
        let files = self.shown_files().into_iter();
        MarkJob::Show(files.map(|file| Shown { written_back: false, ..file }).collect())
    }

    /// Whether the directory can be given back: everything is on disk, and no program takes part.
    pub(crate) fn owes_nothing(&self) -> bool {
        self.tiers.overlay.dirty_bytes() == 0 && self.clients.have_no_threads()
    }
}
