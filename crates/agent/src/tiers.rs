//! Overlay and store together: carries out what the overlay wants done to files, and tells it what was done.
//!
//! The event loop and the crash tests both drive this. Jobs that wait for storage are handed back, to be run
//! by threads.

use std::io;
use std::sync::atomic::Ordering;

use headstart_overlay::journal::Identity;
use headstart_overlay::{Answer, CopyKind, CopyOrder, CopyPiece, Fingerprint, Growth, Opening, Output, Overlay};
use headstart_protocol::message::Envelope;
use headstart_protocol::shared::Shared;

use crate::copier::CopyJob;
use crate::error::{Result, errno_of};
use crate::jobs::Completion;
use crate::slow_file::SlowFile;
use crate::storage::{Access, FileRef};
use crate::store::{self, Store, SyncJob, as_path};

/// The file that agent and threads share, or what stands in for it.
pub(crate) trait SharedMemory {
    /// Its parts.
    fn view(&self) -> Shared<'_>;

    /// Has memory behind a listing; false if there is none.
    fn reserve_listing(&mut self, index: u32) -> bool;
}

/// Both tiers.
pub(crate) struct Tiers<M> {
    /// What decides.
    pub overlay: Overlay,
    /// The files.
    pub store: Store,
    /// The shared file.
    pub shared: M,
    growth: JournalGrowth,
}

/// When a journal that has grown is replaced.
#[derive(Clone, Copy, Debug)]
struct JournalGrowth {
    bytes_max: u64,
    /// The position at which it is.
    replaced_at: u64,
}

/// What is left to do of an output.
#[derive(Debug)]
pub(crate) enum Due {
    /// An answer to send.
    Reply(Envelope, Answer),
    /// A copy to make.
    Copy(CopyJob),
    /// Files to sync.
    Sync(SyncJob),
    /// It ended at once.
    Ended(Completion),
}

impl<M: SharedMemory> Tiers<M> {
    /// Tiers whose journal is replaced when it has grown by more than this.
    pub(crate) fn new(overlay: Overlay, store: Store, shared: M, journal_bytes_max: u64) -> Tiers<M> {
        let growth = JournalGrowth { bytes_max: journal_bytes_max, replaced_at: journal_bytes_max };
        Tiers { overlay, store, shared, growth }
    }

    /// Gives up what is waited for, as far as time and slots say, and goes on.
    pub(crate) fn poll(&mut self) {
        self.overlay.poll(self.shared.view());
    }

    /// Stores the records of what happened, and returns what is to be done: no output may be carried out before.
    pub(crate) fn store_records(&mut self) -> Result<Vec<Output>> {
        let (records, outputs) = (self.overlay.take_journal(), self.overlay.take_outputs());
        self.append(&records)?;
        Ok(outputs)
    }

    fn append(&mut self, records: &[u8]) -> Result<()> {
        self.store.append(records)?;
        self.overlay.on_appended(self.shared.view());
        Ok(())
    }

    /// Carries out one output.
    pub(crate) fn carry_out(&mut self, output: Output) -> Result<Option<Due>> {
        match output {
            Output::Reply(envelope, answer) => return Ok(Some(Due::Reply(envelope, answer))),
            Output::Copy(order) => return Ok(Some(self.copy(order))),
            Output::Extend { file, size, growth } => {
                let result = match self.store.slow_mut(file) {
                    Some(slow) => {
                        slow.may_be_written();
                        extend(slow, size, growth)
                    }
                    None => Err(libc::EIO),
                };
                self.overlay.on_extended(self.shared.view(), file, result);
                self.take_fingerprint(file);
            }
            Output::Show { slot, at, page } => {
                // Without memory for records a thread is to ask, and is told so.
                if !self.store.is_short_of_memory() {
                    self.overlay.show_slab(self.shared.view(), slot, at, page);
                }
            }
            Output::List(index) => {
                // Without memory there are fewer listings.
                if self.shared.reserve_listing(index) {
                    self.overlay.list(self.shared.view(), index);
                }
            }
            Output::Barrier { data_files, slow_files, directories } => {
                let is_written = |file| self.overlay.is_open_for_writing(file);
                let job = self.store.barrier_job(&data_files, slow_files, &directories, is_written);
                return Ok(Some(Due::Sync(job)));
            }
            Output::SyncJournal => {
                let records = self.overlay.take_journal();
                self.append(&records)?;
                return Ok(Some(Due::Sync(SyncJob::Journal(self.store.journal_job()))));
            }
            Output::Grow { data_file, size } => {
                if let Err(error) = self.store.grow(data_file, size) {
                    tracing::error!(%error, "the fast directory gives no space");
                }
            }
            Output::Unsynced(data_file) => self.store.data_written(data_file),
            Output::Punch(run) => self.store.punch(run),
            Output::RemoveDataFile(data_file) => self.store.remove_data_file(data_file),
            Output::Forget(file) => self.store.forget_slow(file),
            Output::Send(_) | Output::Deadline(_) | Output::ReadLog(_) | Output::Salvage { .. } | Output::Expelled => {
                unreachable!("these are the event loop's")
            }
        }
        Ok(None)
    }

    fn copy(&mut self, order: CopyOrder) -> Due {
        let open_for_writing = self.overlay.is_open_for_writing(order.file);
        let CopyOrder { id, file, kind, .. } = order;
        let changed = |slow: &SlowFile| kind == CopyKind::WriteBack && !self.overlay.is_open(file) && slow.is_changed();
        if self.store.slow(file).is_some_and(changed) {
            // Nothing is overwritten until the user says so: with `headstart drain FILE`.
            return Due::Ended(Completion::Refused { id, errno: libc::ESTALE });
        }
        self.look_for_slow(file);
        let refused = |error: io::Error| {
            tracing::warn!(file, ?kind, %error, "a copy cannot begin");
            Due::Ended(Completion::Refused { id, errno: errno_of(&error) })
        };
        let data = match self.open_data(&order) {
            Ok(data) => data,
            Err(error) => return refused(error),
        };
        let Some(slow) = self.store.slow_mut(file) else {
            return Due::Ended(Completion::Refused { id, errno: libc::EIO });
        };
        if kind == CopyKind::WriteBack {
            if let Err(error) = slow.handle().make_writable(|| None) {
                return refused(error);
            }
            slow.begin_write_back(open_for_writing);
        }
        Due::Copy(CopyJob { slow: slow.file(), order, data })
    }

    /// The data files of a copy's pieces.
    fn open_data(&mut self, order: &CopyOrder) -> io::Result<Vec<FileRef>> {
        let open = |piece: &CopyPiece| match order.kind {
            CopyKind::WriteBack => self.store.data(piece.data_file),
            CopyKind::Fetch => self.store.begin_fetch(order.id, piece.data_file),
        };
        order.pieces.iter().map(open).collect()
    }

    /// Opens a slow file that could not be opened when the agent started: it may have been renamed while
    /// there was none.
    fn look_for_slow(&mut self, file: u32) {
        let (Some(path), Some(identity)) = (self.overlay.path(file), self.overlay.identity(file)) else { return };
        if self.store.slow(file).is_none()
            && let Ok(opened) = store::open_slow(&**self.store.storage(), path, identity, Access::Slow)
        {
            self.store.put_slow(file, SlowFile::new(opened, None));
        }
    }

    /// A job ended. If it was the last of a barrier: whether that is durable.
    pub(crate) fn complete(&mut self, completion: Completion) -> Option<bool> {
        match completion {
            Completion::Copied { id, file, kind, result } => {
                self.store.end_fetch(id);
                if let Some(slow) = self.store.slow_mut(file).filter(|_| kind == CopyKind::WriteBack) {
                    slow.end_write_back();
                }
                self.overlay.on_copy_done(self.shared.view(), id, result);
                self.take_fingerprint(file);
                None
            }
            Completion::Marked(_) | Completion::Salvaged { .. } | Completion::Scrape(_) => {
                unreachable!("these are the event loop's")
            }
            Completion::Refused { id, errno } => {
                self.store.end_fetch(id);
                self.overlay.on_copy_done(self.shared.view(), id, Err(errno));
                None
            }
            Completion::BarrierSynced(result) => {
                let failed = result.clone().err();
                self.overlay.on_barrier_synced(self.shared.view(), result);
                let is_written = |file| self.overlay.may_write_slow(file);
                self.store.barrier_synced(failed.as_ref().map_or(Ok(()), Err), is_written);
                failed.map(|_| false)
            }
            Completion::JournalDurable(result) => {
                self.store.journal_done(result.is_ok());
                self.overlay.on_journal_durable(self.shared.view(), result);
                Some(result.is_ok())
            }
        }
    }

    /// Asks for a barrier before so many data files are unsynced that the agent must sync one itself.
    pub(crate) fn keep_descriptors(&mut self) {
        if self.store.wants_barrier() && !self.overlay.is_barrier_running() {
            self.overlay.request_short_barrier();
            self.poll();
        }
    }

    /// Replaces the journal if it has grown; nothing if it has not, or while a barrier is under way: the next
    /// one is held back until then. False if there is no room for it.
    pub(crate) fn replace_grown_journal(&mut self) -> Result<Option<bool>> {
        if self.overlay.journal_end() <= self.growth.replaced_at {
            return Ok(None);
        }
        self.overlay.hold_barriers(true);
        if self.overlay.is_barrier_running() {
            return Ok(None);
        }
        let replaced = self.store.rotate(&mut self.overlay)?;
        self.overlay.hold_barriers(false);
        self.poll();
        self.growth.replaced_at = self.growth.bytes_max + 2 * self.overlay.journal_end();
        Ok(Some(replaced))
    }

    /// A process opens a slow file: looks at it, and keeps it open. Its number if it has one now, or the
    /// answer if it cannot be opened; else the overlay answers.
    pub(crate) fn open(
        &mut self,
        envelope: Envelope,
        identity: Identity,
        writable: bool,
        path: &[u8],
    ) -> std::result::Result<Option<u32>, Answer> {
        let known = self.known(identity);
        let storage = self.store.storage();
        let pid = self.overlay.owner(envelope.slot).map_or(0, |process| process.pid);
        let held = || storage.open_held(identity, &[pid]);
        let opened = match known.and_then(|file| self.store.slow(file)) {
            Some(slow) if writable => permitted(slow.handle().make_writable(held)).map(|()| None),
            Some(_) => Ok(None),
            None => {
                let access = if writable { Access::Slow } else { Access::SlowRead };
                let opened = store::open_slow(&**storage, path, identity, access);
                let opened = opened.or_else(|error| held().ok_or(error));
                opened.map(|file| Some(SlowFile::new(file, None)))
            }
        };
        let (observed, new) = self.look(known, opened).map_err(|error| cannot_open(path, &error))?;
        let was_open = known.is_some_and(|file| self.overlay.is_open(file));
        self.overlay.on_open(self.shared.view(), envelope, Opening { identity, observed, writable, path });
        let Some(number) = self.overlay.find(identity) else { return Ok(None) };
        self.keep(number, known, new);
        if !was_open && self.overlay.is_open(number) {
            self.looked(number, observed);
        }
        if let Some(slow) = self.store.slow_mut(number).filter(|_| writable) {
            slow.may_be_written();
        }
        if self.store.slow(number).is_some_and(|slow| !slow.has_name()) {
            self.overlay.disown(self.shared.view(), number);
        }
        Ok(Some(number))
    }

    /// Nobody opens it, but the agent is to know of it: looks at the slow file, keeps it open for reading,
    /// and remembers how it looks. Its number.
    pub(crate) fn know(&mut self, identity: Identity, path: &[u8]) -> std::result::Result<u32, Answer> {
        let known = self.known(identity);
        let opened = match known {
            Some(_) => Ok(None),
            None => store::open_slow(&**self.store.storage(), path, identity, Access::SlowRead)
                .map(|file| Some(SlowFile::new(file, None))),
        };
        let (observed, new) = self.look(known, opened).map_err(|error| cannot_open(path, &error))?;
        let number = self.overlay.know(self.shared.view(), identity, path, observed)?;
        self.keep(number, known, new);
        if !self.overlay.is_open(number) {
            self.looked(number, observed);
        }
        self.take_fingerprint(number);
        Ok(number)
    }

    fn looked(&mut self, number: u32, observed: Fingerprint) {
        if let Some(slow) = self.store.slow_mut(number) {
            slow.looked(observed);
        }
    }

    /// A known file whose slow file is open.
    fn known(&self, identity: Identity) -> Option<u32> {
        self.overlay.find(identity).filter(|file| self.store.slow(*file).is_some())
    }

    /// How a file looks that is `known`, or was just `opened`.
    fn look(
        &self,
        known: Option<u32>,
        opened: io::Result<Option<SlowFile>>,
    ) -> io::Result<(Fingerprint, Option<SlowFile>)> {
        let new = opened?;
        let slow = new.as_ref().or_else(|| known.and_then(|file| self.store.slow(file)));
        Ok((slow.expect("it was found or opened").look()?, new))
    }

    /// Keeps the slow file of `number`: a `new` one, or the one that was `known` before.
    fn keep(&mut self, number: u32, known: Option<u32>, new: Option<SlowFile>) {
        if let Some(slow) = new {
            self.store.put_slow(number, slow);
        } else if known != Some(number) {
            // The identity now belongs to another file of the same number in the file system.
            let file = known.and_then(|known| self.store.slow(known)).map(SlowFile::file);
            let file = file.expect("it was found");
            self.store.put_slow(number, SlowFile::new(file, None));
        }
    }

    /// The thread behind `slot` is gone. What became of a truncation of its own, the slow file's size says.
    pub(crate) fn hang_up(&mut self, slot: u32) {
        let open: Vec<u32> =
            self.overlay.file_list().map(|(file, ..)| file).filter(|file| self.overlay.is_open(*file)).collect();
        let cut = self.overlay.truncates(slot).and_then(|file| self.store.slow(file));
        let size = cut.and_then(|slow| slow.look().ok()).map(|found| found.size);
        self.overlay.on_hang_up(self.shared.view(), slot, size);
        open.into_iter().for_each(|file| self.take_fingerprint(file));
    }

    /// Nobody may have the file open any more: remembers how it looks, so that a change behind our back is
    /// noticed; forgets it if it has lost its name.
    pub(crate) fn take_fingerprint(&mut self, file: u32) {
        if !self.overlay.is_at_rest(file) || self.overlay.path(file).is_none() {
            return;
        }
        let Some(slow) = self.store.slow_mut(file).filter(|slow| !slow.is_written_back()) else { return };
        if !slow.has_name() {
            return self.overlay.disown(self.shared.view(), file);
        }
        let absorbed = &self.shared.view().files[file as usize].modified_ns;
        if let Some(Ok(found)) = slow.settle(absorbed.load(Ordering::Relaxed)) {
            absorbed.store(0, Ordering::Relaxed);
            self.overlay.set_fingerprint(file, found);
        }
    }
}

fn cannot_open(path: &[u8], error: &io::Error) -> Answer {
    let text = format!("{}: the agent cannot open it: {error}", as_path(path).display());
    Answer::Error { errno: errno_of(error), text }
}

/// A file that the user may not write is open for reading; that writing it fails is told when it is tried.
fn permitted(made_writable: io::Result<()>) -> io::Result<()> {
    made_writable.or_else(|error| match error.raw_os_error() {
        Some(libc::EACCES | libc::EROFS | libc::EPERM | libc::ETXTBSY) => Ok(()),
        _ => Err(error),
    })
}

fn extend(slow: &SlowFile, size: u64, growth: Growth) -> std::result::Result<u64, i32> {
    let now = slow.file().attributes().map_err(|error| errno_of(&error))?.size;
    if now >= size {
        return Ok(now);
    }
    slow.handle().make_writable(|| None).map_err(|error| errno_of(&error))?;
    let grown = match growth {
        Growth::Sized => slow.file().set_size(size),
        Growth::LastByte => slow.file().write_at(&[0], size - 1),
        Growth::Found => return Err(libc::EBUSY),
    };
    grown.map_err(|error| errno_of(&error))?;
    Ok(size)
}
