//! Programs about to be executed: whoever asks that a whole file be written back is answered once the agent
//! has given up its own descriptor for writing, or the kernel would refuse (ETXTBSY).
//!
//! Giving it up takes a barrier that syncs the file. A file that a program has open for writing cannot be
//! executed anyway: nobody waits for that, nor for a second barrier.
//!
//! Who is about to use a file by means that nobody sees may be about to make it immutable: it has its time by then.

use std::collections::BTreeMap;

use headstart_overlay::Answer;
use headstart_protocol::message::{Envelope, Request};

use super::EventLoop;

/// An answer that waits.
struct Held {
    envelope: Envelope,
    file: u32,
    /// Barriers that have to end at most; the last of them begins after the question.
    barriers: u32,
}

/// See the module.
#[derive(Default)]
pub(super) struct Executed {
    /// Files that threads want whole, by slot: a thread asks one thing at a time.
    asked: BTreeMap<u32, u32>,
    /// Files that threads are about to use unseen, by slot.
    left: BTreeMap<u32, u32>,
    held: Vec<Held>,
}

impl Executed {
    /// A thread's request.
    pub(super) fn note(&mut self, envelope: Envelope, request: &Request<'_>) {
        match *request {
            Request::Bypass { file, writes: true } => drop(self.left.insert(envelope.slot, file)),
            _ => drop(self.left.remove(&envelope.slot)),
        }
        match *request {
            Request::WriteBack { file, offset: 0, length: u64::MAX } => drop(self.asked.insert(envelope.slot, file)),
            _ => drop(self.asked.remove(&envelope.slot)),
        }
    }

    /// The thread is gone.
    pub(super) fn forget(&mut self, slot: u32) {
        self.asked.remove(&slot);
        self.left.remove(&slot);
        self.held.retain(|held| held.envelope.slot != slot);
    }

    /// Whether an answer waits.
    pub(super) fn are_awaited(&self) -> bool {
        !self.held.is_empty()
    }

    /// A barrier has ended.
    pub(super) fn barrier_ended(&mut self) {
        self.held.iter_mut().for_each(|held| held.barriers = held.barriers.saturating_sub(1));
    }
}

impl EventLoop<'_> {
    /// Sends an answer, or holds it if the file may be executed only later.
    pub(super) fn answer(&mut self, envelope: Envelope, answer: &Answer) {
        if let Some(file) = self.executed.left.remove(&envelope.slot) {
            self.show_time(file);
        }
        let asked = self.executed.asked.remove(&envelope.slot);
        let Some(file) = asked.filter(|file| *answer == Answer::Done && self.will_be_released(*file)) else {
            return self.send_answer(envelope, answer);
        };
        let barriers = 1 + u32::from(self.tiers.overlay.is_barrier_running());
        self.executed.held.push(Held { envelope, file, barriers });
        self.tiers.overlay.request_sync_of(file);
        self.tiers.poll();
    }

    /// Answers those whose file is released, or will not be.
    pub(super) fn answer_executed(&mut self) {
        let held = std::mem::take(&mut self.executed.held);
        let (waiting, due) = held.into_iter().partition(|held| held.barriers > 0 && self.will_be_released(held.file));
        self.executed.held = waiting;
        for Held { envelope, .. } in due {
            self.send_answer(envelope, &Answer::Done);
        }
    }

    fn will_be_released(&self, file: u32) -> bool {
        !self.tiers.overlay.is_open_for_writing(file)
            && self.tiers.store.slow(file).is_some_and(|slow| !slow.is_released())
    }
}
