//! Commands, as the command line gives them: each over a connection of its own, which no thread's slot
//! belongs to and of which no table is told, so that a `vfork` child may ask as well.

use headstart_protocol::message::{Envelope, MESSAGE_MAX, Reply, Request};
use libc::c_int;

use super::wire::{PATIENCE_MS, RETRY_MS, connected};
use crate::kernel::{self, Errno};

/// How an answer begins that is an error, and its text.
const ERROR: &[u8] = b"{\"error\":\"";

/// Asks the agent and waits for the answer, over a restart of the agent if need be. ENOENT where none serves;
/// the text of an error goes to `refused`.
pub(crate) fn command(text: &[u8], refused: impl FnOnce(&[u8])) -> Result<(), Errno> {
    let start = kernel::monotonic_ms();
    let mut answer = vec![0; MESSAGE_MAX];
    let length = loop {
        match ask(text, &mut answer) {
            Ok(length) => break length,
            Err(errno @ (libc::ENOENT | libc::EMFILE | libc::ENFILE | libc::EACCES | libc::EPERM)) => {
                return Err(errno);
            }
            Err(errno) if kernel::monotonic_ms() - start >= PATIENCE_MS => return Err(errno),
            Err(_) => kernel::sleep_ms(RETRY_MS),
        }
    };
    match Reply::decode(&answer[..length]) {
        Ok((_, Reply::Control { text })) => {
            if let Some(error) = text.strip_prefix(ERROR) {
                refused(error.strip_suffix(b"\"}").unwrap_or(error));
            }
            Ok(())
        }
        _ => Err(libc::EPROTO),
    }
}

fn ask(text: &[u8], answer: &mut [u8]) -> Result<usize, Errno> {
    let socket = connected()?;
    let answered = exchange(socket, text, answer);
    let _ = kernel::close(socket);
    answered
}

fn exchange(socket: c_int, text: &[u8], answer: &mut [u8]) -> Result<usize, Errno> {
    let mut packet = Vec::with_capacity(text.len() + 64);
    Request::Control { text }.encode(Envelope { slot: 0, seq: 0 }, &mut packet);
    while let Err(errno) = kernel::send(socket, &packet) {
        if errno != libc::EINTR {
            return Err(errno);
        }
    }
    loop {
        match kernel::receive(socket, answer) {
            Ok(0) => return Err(libc::ECONNRESET),
            Ok(length) => return Ok(length),
            Err(libc::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
