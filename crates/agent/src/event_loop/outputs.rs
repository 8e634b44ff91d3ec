//! Carrying out what the overlay wants done, and hearing of what was.

use std::sync::atomic::Ordering;

use headstart_overlay::Output;
use headstart_overlay::journal::Identity;

use crate::error::Result;
use crate::jobs::Completion;
use crate::tiers::Due;

use super::EventLoop;

impl EventLoop<'_> {
    /// Stores records and carries out outputs until none is left.
    pub(super) fn carry_out_all(&mut self) -> Result<()> {
        loop {
            for output in self.tiers.store_records()? {
                self.carry_out(output)?;
            }
            if self.tiers.overlay.is_settled() {
                self.service.journal_appended_bytes_total = self.tiers.store.appended_bytes();
                return Ok(());
            }
        }
    }

    fn carry_out(&mut self, output: Output) -> Result<()> {
        if matches!(output, Output::Copy(_)) && !self.life.serves() {
            return Ok(());
        }
        match &output {
            Output::Forget(file) => {
                self.files.forgotten(*file);
                self.tell_of_closed(*file);
            }
            Output::Send(envelope) => {
                self.send_to_member(envelope);
                return Ok(());
            }
            Output::Deadline(until) => {
                self.set_deadline(*until);
                return Ok(());
            }
            Output::ReadLog(member) => {
                self.read_log(*member);
                return Ok(());
            }
            Output::Salvage { file, of } => {
                self.salvage(*file, *of);
                return Ok(());
            }
            Output::Expelled => return self.expelled(),
            _ => {}
        }
        match self.tiers.carry_out(output)? {
            None => {}
            Some(Due::Reply(envelope, answer)) => self.answer(envelope, &answer),
            Some(Due::Copy(job)) => self.workers.copies.push(job),
            Some(Due::Sync(job)) => self.workers.syncs.push(job),
            Some(Due::Ended(completion)) => self.workers.mailbox.post(completion),
        }
        Ok(())
    }

    /// Gives memory back behind files that were forgotten; the last ones keep it, as threads that were just closing
    /// them may look at their bits once more.
    pub(super) fn release_forgotten(&mut self) {
        while let Some(file) = self.files.next_to_release() {
            let overlay = &self.tiers.overlay;
            let keeps = |file: u32| overlay.path(file).is_some();
            if !keeps(file) {
                self.tiers.shared.release_file(file, keeps);
            }
        }
    }

    pub(super) fn complete(&mut self) -> Result<()> {
        for completion in self.workers.mailbox.collect() {
            match completion {
                Completion::Copied { .. } | Completion::Refused { .. } if !self.life.serves() => {}
                Completion::Marked(result) => self.marked(result)?,
                Completion::Salvaged { file, of, result } => self.salvaged(file, of, result),
                Completion::Scrape(to) => {
                    // Whoever asked may have given up.
                    let _ = to.try_send(Box::new(self.figures()));
                }
                completion => {
                    if let Some(durable) = self.tiers.complete(completion) {
                        self.barrier_ended(durable);
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn take_fingerprint(&mut self, file: u32) {
        self.tiers.take_fingerprint(file);
    }

    /// A program set the time of last write: it stands until bytes are written, through write-backs too.
    /// Whether the agent has set it since, so that it is not the program's.
    pub(super) fn times_set(&mut self, identity: Identity) -> bool {
        let Some(file) = self.tiers.overlay.find(identity) else { return false };
        let is_ours = self.tiers.store.slow_mut(file).is_some_and(|slow| slow.times_set());
        self.shared().files[file as usize].modified_ns.store(0, Ordering::Relaxed);
        self.take_fingerprint(file);
        is_ours
    }

    /// Forgets files that a program without the library removed: looks at the next `count` files that nobody has open.
    pub(super) fn sweep(&mut self, count: usize) {
        let Some(from) = self.files.begin_sweep() else { return };
        let looked_at: Vec<(u32, bool)> = self
            .tiers
            .store
            .slow_files(from)
            .filter(|(number, _)| !self.tiers.overlay.is_open(*number))
            .take(count)
            .map(|(number, slow)| (number, slow.has_name()))
            .collect();
        self.files.swept(looked_at.last().map(|(last, _)| *last).filter(|_| looked_at.len() >= count));
        for (number, _) in looked_at.into_iter().filter(|(_, has_name)| !has_name) {
            self.tiers.overlay.disown(self.tiers.shared.view(), number);
        }
    }
}
