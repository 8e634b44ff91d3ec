//! Carrying out what the overlay wants done, and hearing of what was.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use headstart_core::overlay::journal::Identity;
use headstart_core::overlay::{CopyKind, CopyOrder, Output};

use crate::copier::CopyJob;
use crate::error::{Result, errno_of};
use crate::jobs::Completion;
use crate::runtime::SyncJob;
use crate::slow_file::SlowFile;
use crate::store;

use super::{Ending, EventLoop, SWEEP_PERIOD};

impl EventLoop<'_> {
    /// Stores records and carries out outputs until none is left.
    pub(super) fn carry_out_all(&mut self) -> Result<()> {
        loop {
            let (records, outputs) = (self.overlay.take_journal(), self.overlay.take_outputs());
            self.append(records)?;
            for output in outputs {
                self.carry_out(output)?;
            }
            if self.overlay.is_settled() {
                return Ok(());
            }
        }
    }

    fn append(&mut self, records: Vec<u8>) -> Result<()> {
        self.service.journal_appended_bytes_total += records.len() as u64;
        self.store.append(records)?;
        self.overlay.on_appended(self.shared.view());
        Ok(())
    }

    pub(super) fn carry_out(&mut self, output: Output) -> Result<()> {
        match output {
            Output::Reply(envelope, answer) => self.send_answer(envelope, &answer),
            Output::Copy(_) if self.ending != Ending::No => {}
            Output::Copy(order) => self.copy(order),
            Output::Extend { file, size } => {
                let result = match self.store.slow_mut(file) {
                    Some(slow) => {
                        slow.may_be_written();
                        extend(&slow.file, size)
                    }
                    None => Err(libc::EIO),
                };
                self.overlay.on_extended(self.shared.view(), file, result);
                self.take_fingerprint(file);
            }
            Output::Barrier { data_files, slow_files } => {
                let data = data_files.iter().filter_map(|file| self.store.data(*file)).collect();
                let slow =
                    slow_files.iter().filter_map(|file| self.store.slow(*file)).map(|slow| slow.file.clone()).collect();
                self.workers.syncs.push(SyncJob::Barrier { data, slow });
            }
            Output::SyncJournal => {
                let records = self.overlay.take_journal();
                self.append(records)?;
                let job = self.store.journal_job();
                self.workers.syncs.push(SyncJob::Journal(job));
            }
            Output::Grow { data_file, size } => {
                if let Err(error) = self.store.grow(data_file, size) {
                    tracing::error!(%error, "the fast directory gives no space");
                }
            }
            Output::Punch(run) => self.store.punch(run),
            Output::RemoveDataFile(data_file) => self.store.remove_data_file(data_file),
            Output::Forget(file) => self.store.forget_slow(file),
        }
        Ok(())
    }

    pub(super) fn copy(&mut self, order: CopyOrder) {
        let data: Option<Vec<_>> = order.pieces.iter().map(|piece| self.store.data(piece.data_file)).collect();
        let open_for_writing = self.overlay.is_open_for_writing(order.file);
        let CopyOrder { id, file, kind, .. } = order;
        let changed = |slow: &SlowFile| kind == CopyKind::WriteBack && !self.overlay.is_open(file) && slow.is_changed();
        if self.store.slow(file).is_some_and(changed) {
            // Nothing is overwritten until the user says so: with `headstart drain`.
            return self.workers.mailbox.post(Completion::Copied { id, file, kind, result: Err(libc::ESTALE) });
        }
        self.look_for_slow(file);
        let slow = self.store.slow_mut(order.file).map(|slow| {
            if order.kind == CopyKind::WriteBack {
                slow.begin_write_back(open_for_writing);
            }
            slow.file.clone()
        });
        if let (Some(slow), Some(data)) = (slow, data) {
            return self.workers.copies.push(CopyJob { order, slow, data });
        }
        self.workers.mailbox.post(Completion::Copied { id, file, kind, result: Err(libc::EIO) });
    }

    /// Opens a slow file that could not be opened when the agent started: it may have been renamed while there was none.
    fn look_for_slow(&mut self, file: u32) {
        let (Some(path), Some(identity)) = (self.overlay.path(file), self.overlay.identity(file)) else { return };
        if self.store.slow(file).is_none()
            && let Ok(opened) = store::open_slow(path, identity)
        {
            self.store.put_slow(file, SlowFile::new(Arc::new(opened), None));
        }
    }

    pub(super) fn complete(&mut self) {
        for completion in self.workers.mailbox.collect() {
            let shared = self.shared.view();
            match completion {
                Completion::Copied { .. } if self.ending != Ending::No => {}
                Completion::Copied { id, file, kind, result } => {
                    if let Some(slow) = self.store.slow_mut(file).filter(|_| kind == CopyKind::WriteBack) {
                        slow.end_write_back();
                    }
                    self.overlay.on_copy_done(shared, id, result);
                    self.take_fingerprint(file);
                }
                Completion::Marked(result) => self.marked(result),
                Completion::Scrape(to) => {
                    // Whoever asked may have given up.
                    let _ = to.try_send(Box::new(self.figures()));
                }
                Completion::BarrierSynced(result) => {
                    self.overlay.on_barrier_synced(shared, result);
                    if result.is_err() {
                        self.barrier_ended(false);
                    }
                }
                Completion::JournalDurable(result) => {
                    self.store.journal_done(result.is_ok());
                    self.overlay.on_journal_durable(shared, result);
                    self.barrier_ended(result.is_ok());
                }
            }
        }
    }

    /// Nobody may have the file open any more: remembers how it looks, so that a change behind our back is noticed; forgets it
    /// if it has lost its name.
    pub(super) fn take_fingerprint(&mut self, file: u32) {
        if self.overlay.is_open(file) || self.overlay.path(file).is_none() {
            return;
        }
        let shared = self.shared();
        let Some(slow) = self.store.slow_mut(file).filter(|slow| !slow.is_written_back()) else { return };
        if !slow.has_name() {
            return self.overlay.disown(shared, file);
        }
        let absorbed = &shared.files[file as usize].modified_ns;
        if let Some(Ok(found)) = slow.settle(absorbed.load(Ordering::Relaxed)) {
            absorbed.store(0, Ordering::Relaxed);
            self.overlay.set_fingerprint(file, found);
        }
    }

    /// A program set the time of last write: it stands until bytes are written, through write-backs too.
    pub(super) fn times_set(&mut self, identity: Identity) {
        let Some(file) = self.overlay.find(identity) else { return };
        if let Some(slow) = self.store.slow_mut(file) {
            slow.times_set();
        }
        self.shared().files[file as usize].modified_ns.store(0, Ordering::Relaxed);
        self.take_fingerprint(file);
    }

    /// Forgets files that a program without the library removed: looks at the next `count` files that nobody has open.
    pub(super) fn sweep(&mut self, count: usize) {
        if self.last_sweep.elapsed() < SWEEP_PERIOD {
            return;
        }
        self.last_sweep = Instant::now();
        let looked_at: Vec<(u32, bool)> = self
            .store
            .slow_files(self.sweep_from)
            .filter(|(number, _)| !self.overlay.is_open(*number))
            .take(count)
            .map(|(number, slow)| (number, slow.has_name()))
            .collect();
        self.sweep_from = if looked_at.len() < count { 0 } else { looked_at.last().map_or(0, |(last, _)| last + 1) };
        for (number, _) in looked_at.into_iter().filter(|(_, has_name)| !has_name) {
            self.overlay.disown(self.shared.view(), number);
        }
    }
}

fn extend(file: &std::fs::File, size: u64) -> std::result::Result<u64, i32> {
    let now = file.metadata().map_err(|error| errno_of(&error))?.len();
    if now >= size {
        return Ok(now);
    }
    file.set_len(size).map_err(|error| errno_of(&error))?;
    Ok(size)
}
