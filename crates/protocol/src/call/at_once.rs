//! Requests for bytes of which none is on flash, in a straight line: the steps that [`Call::read`] and
//! [`Call::write`] make of them, one by one, in the same order.

use headstart_policy::client::Request;
use headstart_units::request::Range;

use super::direct;
use super::read::{self, Judged, Read};
use super::step::{Failure, Looked, Moved, Step, Thread};
use super::write::{self, Write};
use super::{Call, Kind};

impl Call {
    /// Reads: `kernel` reads the slow file if nothing of the range is on flash. Else `told` takes the call from its
    /// first question on.
    #[inline(always)]
    pub fn read_at_once(
        thread: &impl Thread,
        file: u32,
        request: &Request,
        kernel: impl FnOnce() -> Moved,
        told: impl FnOnce(Call, Step) -> Result<u64, Failure>,
    ) -> Result<u64, Failure> {
        let generation = read::begin(thread, file, request.range);
        let is_clear = read::is_clear(thread, file, request.range);
        if is_clear {
            let moved = kernel();
            match read::judge(thread, file, request.range, generation) {
                Judged::Counts => return read::end_cheap(thread, file, request, moved),
                Judged::Closed => return Err(Failure::Changed),
                Judged::InVain => {}
            }
        }
        let (read, step) = Read::told(thread, file, *request, is_clear);
        told(Call(Kind::Read(read)), step)
    }

    /// Writes, if nobody wants any of it on flash and nothing is there: `kernel` writes the range. Else `told` takes
    /// the call.
    #[inline(always)]
    pub fn write_at_once(
        thread: &impl Thread,
        file: u32,
        request: Request,
        kernel: impl FnOnce(Range) -> Moved,
        told: impl FnOnce(Call, Step) -> Result<u64, Failure>,
    ) -> Result<u64, Failure> {
        let range = request.range;
        if range.is_empty() {
            return Ok(0);
        }
        let (part, decision) = thread.decide(&request);
        let why = match write::why_not_absorbed(thread, decision) {
            Some(why) if part.range == range => why,
            _ => {
                let (write, step) = Write::decided(thread, file, request, (part.range, decision));
                return told(Call(Kind::Write(write)), step);
            }
        };
        let extends = direct::publish(thread, file, range);
        let result = match direct::look(thread, file, range, extends) {
            Looked::Clear => direct::end_cheap(thread, kernel(range)),
            Looked::Changed => Err(Failure::Changed),
            Looked::Set => {
                let (write, step) = Write::told(thread, file, request, (why, extends));
                return told(Call(Kind::Write(write)), step);
            }
        };
        write::count(thread, result, 0, why);
        result
    }
}
