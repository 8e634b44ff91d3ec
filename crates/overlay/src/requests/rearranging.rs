//! Calls by which the kernel may move whatever lies from an offset on.

use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

use super::begun::Begun;
use crate::limits::FILE_BYTES_MAX;
use crate::output::Answer;
use crate::overlay::Overlay;
use crate::parts::pending::Operation;

impl Overlay {
    pub(super) fn begin_rearrangement(&mut self, shared: Shared<'_>, file: u32, from: u64) -> Begun {
        if from > FILE_BYTES_MAX {
            return Begun::refused("no file is that long");
        }
        self.file(file).write_back_error = None;
        self.pending.leaving().stir(file);
        self.close_granules(shared, file, Range::between(from, u64::MAX));
        Begun::Waits(Operation::Rearrange { file, from, barrier: None })
    }

    pub(super) fn attempt_rearrangement(
        &mut self,
        shared: Shared<'_>,
        slot: u32,
        file: u32,
        from: u64,
        barrier: &mut Option<u64>,
    ) -> Option<Answer> {
        match self.attempt_write_back(file, Range::new(from, u64::MAX)) {
            None => {
                *barrier = None;
                return None;
            }
            Some(Answer::Done) => {}
            error => return error,
        }
        // Bytes that the power brings back to flash would be written over those that the kernel moved to their
        // place.
        if barrier.is_none() && (!self.is_durable() || self.barrier.is_running()) {
            *barrier = Some(self.barrier.want_next());
        }
        match barrier.map_or(Some(Answer::Done), |barrier| self.barrier.answer(barrier))? {
            Answer::Done => self.grant_truncation(shared, slot, file, from),
            error => Some(error),
        }
    }

    /// All of it was clean, and nothing was committed under the lease: whatever the kernel did, the slow file says
    /// what is there.
    pub(super) fn end_rearrangement(
        &mut self,
        shared: Shared<'_>,
        slot: u32,
        file: u32,
        from: u64,
        size: u64,
    ) -> Begun {
        if let Some(refused) = self.refused_end(slot, file, Some(from)) {
            return refused;
        }
        if size > FILE_BYTES_MAX {
            return Begun::refused("no file is that long");
        }
        if self.leases.direct(slot).is_some() {
            self.cut(shared, file, from, size);
        }
        Begun::Ends
    }
}
