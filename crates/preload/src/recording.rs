//! Recording: what each request on a managed file was, written down in a file of this process (`headstart_trace`).
//!
//! ```text
//! request -> the thread's stream -> block, mapped from the process's file -> block full: the next one
//! ```
//!
//! A thread writes to memory that the file and it share, so that nothing is lost when the process is killed,
//! leaves by `_exit` or executes another program, and there is nothing to flush. It takes no lock and
//! allocates nothing, but for a block every thousand requests or more.
//!
//! With an agent, times are those of the program: they hold what Headstart did to serve the request. Without one
//! ([`crate::settings::served`] says no) every request goes to the kernel as it is.

mod process_file;
mod stream;

use std::sync::atomic::{AtomicBool, Ordering};

use headstart_trace::Operation;
use headstart_trace::block::Request;

use crate::files::descriptors::target::Target;
use crate::kernel::{self, Errno};
use crate::settings;

pub(crate) use stream::{abandon, start};

static ON: AtomicBool = AtomicBool::new(false);

/// Where a request's bytes are.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// From this byte of the file on.
    At(u64),
    /// Behind all others, which only the kernel knows: found out afterwards, so that another process that
    /// appends at the same moment can make it wrong.
    End,
}

/// From now on requests are recorded.
pub(crate) fn turn_on() {
    ON.store(true, Ordering::Relaxed);
}

/// From now on none is.
pub(crate) fn turn_off() {
    ON.store(false, Ordering::Relaxed);
}

/// Whether requests are recorded.
#[inline]
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Makes a request, and writes down how many bytes it moved and how long it took. One that fails moved none, and is not
/// written down. `work` is told whether there is an agent; where nothing is recorded, there is one.
#[inline]
pub(crate) fn around(
    target: &Target,
    operation: Operation,
    place: Place,
    work: impl FnOnce(bool) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    if is_on() { recorded(target, operation, place, || work(settings::served())) } else { work(true) }
}

#[inline(never)]
fn recorded(
    target: &Target,
    operation: Operation,
    place: Place,
    work: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    stream::with(|stream| {
        let start_ns = kernel::monotonic_ns();
        let result = work();
        let end_ns = kernel::monotonic_ns();
        if let Ok(moved) = result {
            let length = moved as u64;
            let offset = match place {
                Place::At(offset) => offset,
                Place::End => kernel::facts(target.fd).map_or(0, |facts| facts.size).saturating_sub(length),
            };
            let file = target.record.serial();
            stream::append(stream, target, &Request { file, operation, offset, length, start_ns, end_ns });
        }
        result
    })
}

/// The process uses a file by means that are not recorded. Said once for each time that it opens the file.
pub(crate) fn unseen(target: &Target) {
    if is_on() && target.record.is_first_unseen() {
        let errno = kernel::errno();
        stream::with(|stream| stream::unseen(stream, target));
        kernel::set_errno(errno);
    }
}
