//! What asks the agent to bring bytes to where they count: fsync, and write-back for a reader that the
//! library does not see.

use headstart_units::request::Range;

use super::step::{Answer, Failure, Moved, Step, Thread, Unexpected};
use crate::message::Request as Message;

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The kernel syncs the slow file; whether there was anything on flash before it began.
    Syncing {
        file: u32,
        is_promised: bool,
    },
    /// `Sync` or `WriteBack` is asked.
    Asked,
    Over,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settle {
    stage: Stage,
    result: Result<u64, Failure>,
}

impl Settle {
    /// Rule 11. The count of set bits is loaded before the slow file is synced: loaded afterwards it may
    /// be zero because bytes went back to the slow file behind the kernel's sync.
    pub(super) fn sync(thread: &impl Thread, file: u32) -> (Settle, Step) {
        let is_promised = thread.shared().files[file as usize].has_set_bits();
        (Settle { stage: Stage::Syncing { file, is_promised }, result: Ok(0) }, Step::Sync)
    }

    pub(super) fn write_back(thread: &impl Thread, file: u32, range: Range) -> (Settle, Step) {
        if thread.shared().is_off_flash(file, range) {
            return (Settle { stage: Stage::Over, result: Ok(0) }, Step::Done);
        }
        let ask = Message::WriteBack { file, offset: range.offset, length: range.length };
        (Settle { stage: Stage::Asked, result: Ok(0) }, Step::Ask(ask))
    }

    pub(super) fn result(&self) -> Result<u64, Failure> {
        self.result
    }

    pub(super) fn look(&self) -> Step {
        unreachable!("nothing is published to look for")
    }

    pub(super) fn on_moved(&mut self, moved: Moved) -> Step {
        let Stage::Syncing { file, is_promised } = self.stage else {
            unreachable!("a thread that is at {:?} syncs nothing", self.stage)
        };
        match moved {
            Moved::Bytes(_) if is_promised => {
                self.stage = Stage::Asked;
                return Step::Ask(Message::Sync { file });
            }
            Moved::Bytes(_) => {}
            Moved::Failed(errno) => self.result = Err(Failure::Errno(errno)),
            Moved::FlashFailed(_) => unreachable!("the slow file was synced"),
        }
        self.stage = Stage::Over;
        Step::Done
    }

    pub(super) fn on_answer(&mut self, answer: Answer) -> Result<Step, Unexpected> {
        assert!(matches!(self.stage, Stage::Asked), "a thread that is at {:?} awaits no answer", self.stage);
        match answer {
            Answer::Done => {}
            Answer::Refused(errno) => self.result = Err(Failure::Errno(errno)),
            _ => return Err(Unexpected),
        }
        self.stage = Stage::Over;
        Ok(Step::Done)
    }
}
