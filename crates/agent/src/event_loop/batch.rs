//! Requests for bytes, which come thick and fast: all that one wait found are taken in, then they go on together, with
//! one append and one pass of the outputs.
//!
//! Whatever else comes ends the batch before it is looked at: the number of a file may be given to another one in it,
//! and what the batch wants done to the file of before has to be done by then. A batch has no more requests than one
//! wait tells of, one of a thread: nobody waits longer for it than for the requests that came before his own.

use std::time::{SystemTime, UNIX_EPOCH};

use headstart_overlay::Answer;
use headstart_protocol::message::{Envelope, Request};

use crate::error::Result;
use crate::socket::{self, Packet};

use super::{EventLoop, SWEEP_FILES};

/// What is taken in and does not go on yet.
pub(super) struct Batch {
    packet: Packet,
    /// Something was taken in.
    has_begun: bool,
    /// Somebody asks for space.
    wants_space: bool,
    /// When the wait ended, in nanoseconds since 1970: whatever is taken in had come by then.
    now_ns: u64,
    /// Writes that had found no space when somebody last asked for some.
    no_space_total: u64,
}

/// Nanoseconds since 1970.
pub(super) fn time_of_day_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

/// Whether the request is about bytes of a file that stays known as long as its thread does.
fn is_for_bytes(request: &Request<'_>) -> bool {
    matches!(
        request,
        Request::Slab { .. }
            | Request::Commit { .. }
            | Request::Read { .. }
            | Request::Confirm { .. }
            | Request::Write { .. }
            | Request::WriteDone { .. }
            | Request::Sync { .. }
            | Request::WriteBack { .. }
    )
}

impl Batch {
    pub(super) fn new() -> Batch {
        Batch { packet: Packet::new(), has_begun: false, wants_space: false, now_ns: 0, no_space_total: 0 }
    }

    /// A wait has ended.
    pub(super) fn begin(&mut self) {
        self.now_ns = time_of_day_ns();
    }
}

impl EventLoop<'_> {
    /// Takes the next packet of a connection.
    pub(super) fn receive(&mut self, token: u64, batch: &mut Batch) -> Result<()> {
        let Some(socket) = self.clients.socket(token) else { return Ok(()) };
        // Back in its place below: the batch goes on while the packet is looked at.
        let mut packet = std::mem::take(&mut batch.packet);
        let done = match socket::receive_with(socket, &mut packet) {
            Ok(None) => Ok(()),
            Ok(Some((0, _))) | Err(_) => self.alone(batch, |it| it.hang_up(token)),
            Ok(Some((length, came))) => match Request::decode(packet.bytes(length)) {
                // Who was let in passes on what he was given: a process that may not connect itself any more.
                Ok((_, Request::Connect)) => self.alone(batch, |it| {
                    it.service.message(&Request::Connect);
                    match came.map(socket::arrived) {
                        Some(Ok(socket)) => it.take(socket),
                        Some(Err(error)) => tracing::warn!(%error, "a connection was not taken"),
                        None => tracing::warn!("a connection was announced, and none came"),
                    }
                }),
                Ok((envelope, request))
                    if is_for_bytes(&request) && self.clients.slot(token) == Some(envelope.slot) =>
                {
                    self.take_in(batch, envelope, &request);
                    Ok(())
                }
                Ok((envelope, request)) => self.alone(batch, |it| it.handle(token, envelope, &request)),
                Err(error) => self.alone(batch, |it| {
                    tracing::warn!(%error, "a connection is closed");
                    it.hang_up(token);
                }),
            },
        };
        batch.packet = packet;
        done
    }

    fn take_in(&mut self, batch: &mut Batch, envelope: Envelope, request: &Request<'_>) {
        self.service.message(request);
        // Nothing is absorbed before the directory shows it, nor without memory for the records of it.
        let asks_space = matches!(request, Request::Slab { .. });
        if asks_space && (!self.marks.are_shown() || self.tiers.store.is_short_of_memory()) {
            return self.send_answer(envelope, &Answer::NoSpace);
        }
        self.executed.note(envelope, request);
        batch.has_begun = true;
        batch.wants_space |= matches!(request, Request::Slab { .. });
        self.tiers.overlay.take_in(self.tiers.shared.view(), batch.now_ns, envelope, request);
        if let Request::Commit { file, .. } = *request {
            self.times.absorbed(file);
        }
    }

    /// Lets what was taken in go on.
    pub(super) fn end_batch(&mut self, batch: &mut Batch) -> Result<()> {
        if !std::mem::take(&mut batch.has_begun) {
            return Ok(());
        }
        self.tiers.overlay.go_on(self.tiers.shared.view());
        if std::mem::take(&mut batch.wants_space) {
            let no_space_total = self.tiers.overlay.counters().no_space_total;
            let before = std::mem::replace(&mut batch.no_space_total, no_space_total);
            if no_space_total > before || self.tiers.overlay.waits_for_space() {
                self.sweep(SWEEP_FILES);
            }
        }
        self.end_event()
    }

    /// What does not belong to a batch.
    fn alone(&mut self, batch: &mut Batch, handle: impl FnOnce(&mut Self)) -> Result<()> {
        self.end_batch(batch)?;
        handle(self);
        self.end_event()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_change_whose_a_number_is_ends_a_batch() {
        let (file, path): (u32, &[u8]) = (1, b"/file");
        let others = [
            Request::Open { inode: 1, birth_ns: 0, size: 0, writable: true, path },
            Request::Close { file },
            Request::Unlinked { inode: 1 },
            Request::Name { inode: 1, stays: true, path },
            Request::Renamed { old_length: 2, exchanged: false, paths: b"/a/b" },
            Request::Bypass { file, writes: true },
            Request::Control { text: b"" },
            Request::Connect,
        ];
        assert_eq!(others.iter().find(|request| is_for_bytes(request)), None);
        assert!(is_for_bytes(&Request::Commit { file, data_file: 1, offset: 0, length: 1, place: 0 }));
    }
}
