//! Opening every file again at an agent that was started anew.

use headstart_protocol::message::Request;

use crate::files::descriptors;
use crate::files::records::{BYPASS_NONE, BYPASS_WRITES, open_request, used};
use crate::kernel::{self, Errno};
use crate::location::{self, PathBuffer};
use crate::session::{Answer, Session};

/// Opens every file again at an agent that was restarted. Says no where the agent gives one another index than before:
/// then what is published and pending names the wrong file.
pub(crate) fn reopen_all(session: &mut Session) -> Result<(), Errno> {
    for (index, record) in used().iter().enumerate() {
        if !record.is_open() || !record.is_current() {
            continue;
        }
        let Some(fd) = descriptors::any_of(index as u32) else { continue };
        let writable = record.may_write();
        let mut buffer = PathBuffer::empty();
        let Ok(facts) = kernel::facts(fd) else { continue };
        let path = location::path_of(fd, &mut buffer).unwrap_or(b"");
        match session.call_joining(&open_request(&facts, writable, path))? {
            Answer::Opened(file, excluded) if file == record.file() => {
                record.reopened(excluded);
            }
            // Another thread closed it meanwhile, and the agent has forgotten it.
            Answer::Opened(..) if !record.is_current() => continue,
            other => return Err(session.unexpected(other)),
        }
        let bypass = record.bypass();
        if bypass != BYPASS_NONE {
            let again = Request::Bypass { file: record.file(), writes: bypass == BYPASS_WRITES };
            match session.call_joining(&again)? {
                Answer::Done => {}
                other => return Err(session.unexpected(other)),
            }
        }
    }
    Ok(())
}
