//! Threads ask that dirty bytes go back to the disks.

use headstart_protocol::counters::Dropped;
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

use super::begun::Begun;
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::pending::Operation;

impl Overlay {
    /// What failed before is tried again.
    pub(super) fn begin_write_back(&mut self, file: u32, range: Range) -> Begun {
        self.file(file).write_back_error = None;
        self.pending.leaving().stir(file);
        Begun::Waits(Operation::WriteBack { file, range })
    }

    pub(super) fn attempt_write_back(&mut self, file: u32, range: Range) -> Option<Answer> {
        self.written_back(file, range).or_else(|| self.stuck(file, range))
    }

    /// A process is about to use the file by means that the library does not see.
    pub(super) fn begin_bypass(&mut self, shared: Shared<'_>, slot: u32, file: u32, writes: bool) -> Begun {
        let process = self.threads.process(slot);
        let known = self.file(file);
        known.write_back_error = None;
        known.users.bypass(process);
        self.pending.leaving().stir(file);
        shared.open_files[slot as usize].bypassed.insert(file);
        self.show_left_alone(shared, file);
        self.close_granules(shared, file, Range::new(0, u64::MAX));
        self.cancel_fetches(file, Range::new(0, u64::MAX));
        Begun::Waits(Operation::Bypass { file, writes })
    }

    pub(crate) fn attempt_bypass(&mut self, file: u32, writes: bool) -> Option<Answer> {
        let answer = self.attempt_write_back(file, Range::new(0, u64::MAX))?;
        if writes && answer == Answer::Done {
            self.drop_all(file, Dropped::Bypass);
        }
        Some(answer)
    }

    /// Done once nothing of the range is dirty or being written back; or why it cannot be.
    fn written_back(&mut self, file: u32, range: Range) -> Option<Answer> {
        if self.has_untrusted(file, range) {
            return Some(Answer::lost_bytes());
        }
        if let Some(errno) = self.file(file).write_back_error {
            return Some(Answer::Error { errno, text: "dirty bytes could not be written back".into() });
        }
        (!self.is_dirty(file, range) && !self.copies.write_back(file, range)).then_some(Answer::Done)
    }
}
