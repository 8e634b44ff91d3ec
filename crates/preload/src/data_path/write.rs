//! Writes: absorbed by flash where the policy wants it and space is at hand, else direct.

use headstart_policy::client::Request;
use headstart_protocol::call::{Call, Failure, FlashFault, Moved, Step};
use headstart_units::request::{Direction, Range};

use super::caller::{Caller, ask, ask_pushed, moved, outcome, place};
use super::changes::sync;
use crate::files::data_files;
use crate::files::decisions;
use crate::files::descriptors::Target;
use crate::kernel::buffers::Buffers;
use crate::kernel::{self, Errno};
use crate::session::{self, Session};

/// `pwrite` of a managed file, not O_APPEND. `durable`: as with O_DSYNC, whatever the descriptor says.
pub fn write_at(target: &Target, buffers: &Buffers, offset: u64, durable: bool) -> Result<usize, Errno> {
    if !target.writable() {
        return Err(libc::EBADF);
    }
    if offset > i64::MAX as u64 - buffers.length() as u64 {
        return Err(libc::EINVAL);
    }
    let range = Range::new(offset, buffers.length() as u64);
    target.record.know_regions();
    let distance = decisions::distance(target, Direction::Write, range);
    let request = Request { direction: Direction::Write, range, distance };
    let written = session::with(|session| {
        let caller = Caller::new(session, target, buffers);
        let kernel = |range: Range| moved(buffers.write_slow(target.fd, 0, range.length as usize, range.offset));
        let told = |call, step| ToldWrite { session, caller, target, buffers, offset }.run(call, step);
        outcome(Call::write_at_once(&caller, target.file, request, kernel, told))
    })?;
    if durable || target.durable() {
        sync(target, || kernel::sync(target.fd, true))?;
    }
    Ok(written)
}

/// A write that is absorbed, or goes to bytes of which some may be on flash.
struct ToldWrite<'a> {
    session: &'a mut Session,
    caller: Caller<'a>,
    target: &'a Target,
    buffers: &'a Buffers<'a>,
    offset: u64,
}

impl ToldWrite<'_> {
    #[inline(never)]
    fn run(&mut self, mut call: Call, mut step: Step) -> Result<u64, Failure> {
        loop {
            step = match step {
                Step::Look => call.look(&self.caller),
                Step::Slow(range) => {
                    let (from, length) = place(range, self.offset);
                    let result = self.buffers.write_slow(self.target.fd, from, length, range.offset);
                    call.on_moved(&self.caller, moved(result))
                }
                Step::Flash { range, data_file, place } => {
                    let moved = self.write_piece(range, data_file, place);
                    call.on_moved(&self.caller, moved)
                }
                Step::Ask(message) => ask(self.session, &self.caller, &mut call, &message),
                Step::Push => call.push(&self.caller),
                Step::AskPushed(message) => ask_pushed(self.session, &self.caller, &mut call, &message),
                Step::Tell(message) => {
                    self.session.tell(&message);
                    call.on_told(&self.caller)
                }
                Step::Done => return call.result(),
                Step::Sync => unreachable!("a write syncs nothing"),
            };
        }
    }

    fn write_piece(&mut self, range: Range, data_file: u32, at: u64) -> Moved {
        let (from, length) = place(range, self.offset);
        let buffers = self.buffers;
        let written =
            data_files::with(self.session, self.target.file, data_file, |fd| buffers.write(fd, from, length, at));
        match written {
            Ok(bytes) => Moved::Bytes(bytes as u64),
            Err(errno @ libc::EFAULT) => Moved::Failed(errno),
            Err(libc::ENOSPC | libc::EDQUOT) => Moved::FlashFailed(FlashFault::Full),
            Err(_) => Moved::FlashFailed(FlashFault::Broken),
        }
    }
}
