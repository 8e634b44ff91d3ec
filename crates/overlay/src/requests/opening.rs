//! Files are opened, closed, sealed and named.

use headstart_protocol::message::Envelope;
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

use super::begun::Begun;
use crate::fingerprint::Fingerprint;
use crate::journal::Identity;
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::pending::Operation;

/// A file that a process is about to open.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// Who it is.
    pub identity: Identity,
    /// The slow file as it is, our own write-backs left out.
    pub observed: Fingerprint,
    /// Whether it may be written.
    pub writable: bool,
    /// Where it lies.
    pub path: &'a [u8],
}

impl Overlay {
    /// Opens are told apart from the rest because the runtime looks at the slow file first.
    pub fn on_open(&mut self, shared: Shared<'_>, envelope: Envelope, opening: Opening<'_>) {
        self.leave_direct(shared, envelope, None);
        let process = self.threads.process(envelope.slot);
        // Number zero: the process was told that it has the file open by an agent before, and whatever that
        // waited for is durable.
        let found = self.find(opening.identity).map(|number| &self.files[&number]);
        let again = envelope.seq == 0 && found.is_some_and(|file| file.users.has_open(process, opening.writable));
        let opened = found.is_some_and(|file| file.users.are_there());
        match self.open(shared, envelope.slot, opening) {
            Err(answer) => self.outbox.reply(envelope, answer),
            Ok(file) => {
                let barrier = if again { 0 } else { self.file(file).open_barrier };
                self.pending.push(envelope, Operation::Open { file, barrier, longer: !opened });
            }
        }
        self.poll(shared);
    }

    pub(super) fn attempt_open(&mut self, file: u32, barrier: u64, longer: bool) -> Option<Answer> {
        if longer && self.files[&file].length.is_extending() {
            return None;
        }
        self.barrier.answer(barrier).map(|answer| match answer {
            Answer::Done => Answer::Opened { file },
            error => error,
        })
    }

    pub(super) fn begin_close(&mut self, shared: Shared<'_>, slot: u32, file: u32) -> Begun {
        self.close(shared, slot, file);
        Begun::Answered(Answer::Done)
    }

    pub(super) fn begin_sealed(&mut self, shared: Shared<'_>, file: u32) -> Begun {
        self.file(file).users.seal();
        self.show_left_alone(shared, file);
        self.close_granules(shared, file, Range::new(0, u64::MAX));
        Begun::Answered(Answer::Done)
    }

    pub(super) fn begin_rename(&mut self, old_length: u32, exchanged: bool, paths: &[u8]) -> Begun {
        let Some((old, new)) = paths.split_at_checked(old_length as usize) else {
            return Begun::refused("a rename names two paths");
        };
        self.renamed(old, new, exchanged);
        Begun::Answered(Answer::Done)
    }

    /// A file that is left without a name that is known is written back.
    pub(super) fn begin_name(&mut self, shared: Shared<'_>, inode: u64, stays: bool, path: &[u8]) -> Begun {
        match self.name_changed(shared, inode, stays, path) {
            Some(file) => {
                self.close_granules(shared, file, Range::new(0, u64::MAX));
                self.begin_write_back(file, Range::new(0, u64::MAX))
            }
            None => Begun::Answered(Answer::Done),
        }
    }
}
