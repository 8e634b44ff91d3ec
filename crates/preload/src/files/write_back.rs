//! Making slow files whole, and making durable what flash holds, for who does not go through the library.

use std::sync::atomic::{Ordering, fence};

use headstart_protocol::message::Request;
use libc::c_int;

use crate::files::descriptors::Target;
use crate::files::records::{Record, acquire, has_set_bits, open_request, record, release, used};
use crate::gate::gate;
use crate::kernel::{Errno, Facts};
use crate::location::{self, PathBuffer};
use crate::session::{self, Answer, Session};
use crate::{process, settings};

/// Whether anything of the files this process has open may be on flash.
pub(crate) fn with_set_bits() -> bool {
    fence(Ordering::SeqCst);
    open_now().next().is_some()
}

/// Makes durable what flash holds of every file this process has open.
pub(crate) fn sync_all() -> Result<(), Errno> {
    open_now().try_for_each(|record| {
        session::with(|session| match session.call(&Request::Sync { file: record.file() })? {
            Answer::Done => Ok(()),
            other => Err(session.unexpected(other)),
        })
    })
}

fn open_now() -> impl Iterator<Item = &'static Record> {
    let shared = session::shared();
    used().iter().filter(move |record| {
        let open = record.is_open() && record.is_current();
        open && shared.as_ref().is_some_and(|shared| has_set_bits(&shared.files[record.file() as usize]))
    })
}

/// Makes the slow file of an open one whole, and waits until the agent has it open for writing no more.
pub(crate) fn write_back_open(target: &Target) -> Result<(), Errno> {
    session::with(|session| ask_write_back(session, target.file))
}

/// Makes the slow file whole for somebody who opens it unseen by `path`, whether this process has it open or not.
pub(crate) fn write_back(facts: &Facts, path: &[u8]) -> Result<(), Errno> {
    if process::is_own() {
        let index = acquire(&gate(), facts, false, path)?;
        let asked = session::with(|session| ask_write_back(session, record(index).file()));
        release(&gate(), index);
        return asked;
    }
    session::apart(|session| match session.call(&open_request(facts, false, path))? {
        Answer::Opened(file, _) => ask_write_back(session, file),
        other => Err(session.unexpected(other)),
    })
}

fn ask_write_back(session: &mut Session, file: u32) -> Result<(), Errno> {
    match session.call(&Request::WriteBack { file, offset: 0, length: u64::MAX })? {
        Answer::Done => Ok(()),
        other => Err(session.unexpected(other)),
    }
}

/// Makes the slow file whole, if it is managed.
pub(crate) fn make_whole(fd: c_int, facts: &Facts) -> Result<(), Errno> {
    if !settings::served() {
        return Ok(());
    }
    let mut buffer = PathBuffer::empty();
    let path = location::path_of(fd, &mut buffer)?;
    if facts.regular && location::is_managed_file(facts, path) { write_back(facts, path) } else { Ok(()) }
}
