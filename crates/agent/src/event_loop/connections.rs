//! The processes' side: accepting, joining, requests in, answers out.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;

use headstart_cluster::{FileId, Note};
use headstart_overlay::journal::Identity;
use headstart_overlay::{Answer, Process};
use headstart_protocol::message;
use headstart_protocol::message::{Envelope, Reply, Request, Welcome};
use headstart_protocol::{FLASH_DIRECTORY, PROTOCOL_VERSION, SHARED_FILE, data_file_name};

use crate::claim;
use crate::error::{Error, Result};
use crate::socket;
use crate::store::as_path;
use crate::survivors;

use super::batch::time_of_day_ns;
use super::known_files::WaitingOpen;
use super::{EventLoop, FIRST_SURVIVOR, NO_SLOT, SWEEP_FILES};

impl EventLoop<'_> {
    pub(super) fn accept(&mut self) {
        while let Some(socket) = self.clients.accept() {
            self.take(socket);
        }
    }

    /// A new connection.
    pub(super) fn take(&mut self, socket: OwnedFd) {
        self.service.connections_total += 1;
        self.clients.add(&self.poller, socket);
    }

    pub(super) fn handle(&mut self, token: u64, envelope: Envelope, request: &Request<'_>) {
        self.service.message(request);
        match *request {
            Request::Hello { version, pid, tid, start_time, slot } => {
                self.hello(token, version, Process { pid, start_time }, tid, slot);
            }
            Request::Control { text } => self.control(token, text),
            _ => {
                if self.clients.slot(token) != Some(envelope.slot) {
                    tracing::warn!(slot = envelope.slot, "a message names a slot that is not its sender's");
                    return self.hang_up(token);
                }
                match *request {
                    Request::Open { inode, birth_ns, writable, path, .. } => {
                        let identity = Identity { inode, birth_ns };
                        if !writable || !self.hold_open(token, envelope, identity, path) {
                            self.open(envelope, identity, writable, path);
                        }
                        // Afterwards: a number that the sweep sets free may be given away only when the file
                        // behind it is closed.
                        self.sweep(SWEEP_FILES);
                    }
                    Request::Marked => self.tiers.poll(),
                    Request::Regions { file, from } => self.tell_regions(token, envelope, file, from),
                    Request::Descriptor { data_file } => self.give_descriptor(token, envelope, data_file),
                    Request::Unlinked { inode } => self.unlinked(envelope, inode),
                    Request::TimesSet { inode, birth_ns } => {
                        let is_ours = self.times_set_here(Identity { inode, birth_ns });
                        self.send_answer(envelope, if is_ours { &Answer::Go } else { &Answer::Done });
                    }
                    _ => {
                        self.executed.note(envelope, request);
                        self.tiers.overlay.on_request(self.tiers.shared.view(), time_of_day_ns(), envelope, request);
                        match *request {
                            Request::Close { file } => self.take_fingerprint(file),
                            Request::Renamed { old_length, exchanged, paths } => {
                                self.tell_of_rename(old_length, exchanged, paths);
                            }
                            Request::Name { inode, stays, path } => {
                                let (file, path) = (FileId(inode), path.to_vec());
                                self.tell_all(&Note::Named { file, stays, path });
                            }
                            _ => {}
                        }
                    }
                }
            }
        }
    }

    /// Sends the descriptor of a data file, or of the shared file, to a process that cannot open it by its path.
    fn give_descriptor(&mut self, token: u64, envelope: Envelope, data_file: u32) {
        let path = if data_file == message::THE_SHARED_FILE {
            self.tiers.shared.runtime().join(SHARED_FILE)
        } else {
            self.site.fast().join(FLASH_DIRECTORY).join(data_file_name(data_file))
        };
        let file = match File::options().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) => {
                let errno = crate::error::errno_of(&error);
                return self.send_answer(envelope, &Answer::Error { errno, text: String::new() });
            }
        };
        let Some(socket) = self.clients.socket(token) else { return };
        let mut packet = Vec::new();
        Reply::Done.encode(envelope, &mut packet);
        // It waits for this answer alone, so that there is room.
        if !matches!(socket::send_with(socket, &packet, file.as_fd()), Ok(true)) {
            self.hang_up(token);
        }
    }

    /// A thread introduces itself. `had`: the slot it has, if it comes back to another agent.
    pub(super) fn hello(&mut self, token: u64, version: u32, process: Process, tid: u32, had: u32) {
        let shared = self.shared();
        let Some(socket) = self.clients.socket(token).filter(|_| self.clients.slot(token).is_none()) else {
            return self.hang_up(token);
        };
        // What a thread says of the slot that it has is what the slot says.
        let process =
            if had == message::NO_SLOT { survivors::identify(socket::peer(socket), process) } else { process };
        if version != PROTOCOL_VERSION {
            let text = format!(
                "library speaks version {version}, the agent {PROTOCOL_VERSION}; stop the agent: headstart stop"
            );
            return self.send(
                token,
                Envelope { slot: 0, seq: 0 },
                &Reply::Error { errno: libc::EPROTO, text: text.as_bytes() },
            );
        }
        let slot = match self.slot_for(process, tid, had) {
            Ok(slot) => slot,
            Err((errno, text)) => {
                let reply = Reply::Error { errno, text: text.as_bytes() };
                return self.send(token, Envelope { slot: 0, seq: 0 }, &reply);
            }
        };
        let cell = &shared.slots[slot as usize];
        self.clients.joined(token, slot);
        let site = self.site.site().clone();
        let seq = cell.seq.load(Ordering::Relaxed);
        use std::os::unix::ffi::OsStrExt;
        let welcome = Welcome {
            read: site.s4d.read.clone(),
            write: site.s4d.write.clone(),
            slow: site.slow.as_os_str().as_bytes(),
            fast: site.fast.as_os_str().as_bytes(),
        };
        self.send(token, Envelope { slot, seq }, &Reply::Welcome(welcome));
    }

    /// The slot that the thread has, as it was; or a free one, made ready.
    fn slot_for(&mut self, process: Process, tid: u32, had: u32) -> std::result::Result<u32, (i32, String)> {
        let shared = self.shared();
        if had != message::NO_SLOT {
            let kept = self.tiers.overlay.owner(had) == Some(process) && self.clients.of_slot(had).is_none();
            let text = "the agent was started anew and knows nothing of this run; see `headstart status`";
            return if kept { Ok(had) } else { Err((libc::EIO, text.into())) };
        }
        // One that was never used is not looked at: it may have no memory.
        let used = shared.used_slots();
        let free = used.iter().position(|slot| slot.owner_pid.load(Ordering::Acquire) == 0).unwrap_or(used.len());
        if free == shared.slots.len() {
            let text = format!("{} threads take part at once, which is the limit", shared.slots.len());
            return Err((libc::EAGAIN, text));
        }
        let slot = free as u32;
        self.tiers.shared.reserve_slot(slot).map_err(|error| {
            tracing::error!(%error, "a thread is refused");
            (libc::ENOSPC, format!("a thread cannot take part: {error}"))
        })?;
        let cell = &shared.slots[slot as usize];
        cell.free();
        cell.counters.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        cell.forget_hints();
        cell.owner_tid.store(tid, Ordering::Relaxed);
        cell.owner_start.store(process.start_time, Ordering::Relaxed);
        cell.owner_pid.store(process.pid, Ordering::Release);
        shared.header.slots_used.fetch_max(u64::from(slot) + 1, Ordering::SeqCst);
        self.tiers.overlay.on_join(slot, process);
        Ok(slot)
    }

    /// A process that had slots when this agent started has ended: those of its threads that never came back
    /// hang up now. Of the others their sockets tell.
    pub(super) fn survivor_ended(&mut self, token: u64) {
        let number = (token - FIRST_SURVIVOR) as usize;
        let Some(process) = self.clients.survivor_ended(&self.poller, number) else { return };
        let slots: Vec<u32> =
            self.tiers.overlay.slots_of(process).filter(|slot| self.clients.of_slot(*slot).is_none()).collect();
        slots.into_iter().for_each(|slot| self.tiers.hang_up(slot));
    }

    pub(super) fn hang_up(&mut self, token: u64) {
        let Some(slot) = self.clients.remove(&self.poller, token) else { return };
        self.commands.forget(token);
        self.stop_placing_for(token);
        self.forget_waiting(token);
        if let Some(slot) = slot {
            self.files.forget_slot(slot);
            self.executed.forget(slot);
            self.tiers.hang_up(slot);
        }
    }

    /// Tries the opens again that wait for a number.
    pub(super) fn retry_opens(&mut self) -> Result<()> {
        for WaitingOpen { envelope, identity, writable, path } in self.files.take_waiting() {
            self.open(envelope, identity, writable, &path);
            // Before the next: a file's number may be given to another file in it.
            self.carry_out_all()?;
        }
        Ok(())
    }

    pub(super) fn open(&mut self, envelope: Envelope, identity: Identity, writable: bool, path: &[u8]) {
        if self.tiers.overlay.awaits_number(self.tiers.shared.view(), identity) {
            return self.files.wait(WaitingOpen { envelope, identity, writable, path: path.to_vec() });
        }
        let known = self.tiers.overlay.find(identity).filter(|file| self.tiers.store.slow(*file).is_some());
        let gone = name_of_gone(path);
        let known_path = gone.and(known).and_then(|file| self.tiers.overlay.path(file)).map(<[u8]>::to_vec);
        // One of its names is gone and no other known: nobody would find what is on flash alone.
        let is_there = |path: &Vec<u8>| as_path(path).symlink_metadata().is_ok();
        let nameless = gone.is_some() && !known_path.as_ref().is_some_and(is_there);
        let path = known_path.as_deref().or(gone).unwrap_or(path);
        if let Some(text) = known.is_none().then(|| self.managed_elsewhere(as_path(path))).flatten() {
            return self.send_answer(envelope, &Answer::Error { errno: libc::EIO, text });
        }
        if let Err(answer) = self.make_room(identity, path) {
            return self.send_answer(envelope, &answer);
        }
        match self.tiers.open(envelope, identity, writable, path) {
            Ok(None) => {}
            Ok(Some(number)) => {
                self.give_named_regions(number, path);
                // Told with the answer, which is not sent yet.
                let by_site = self.site.excludes(path);
                self.service.opens_excluded_total += u64::from(by_site);
                // Created with a mode that forbids writing, to the agent too: nothing could be written back.
                let written = self.tiers.overlay.is_open_for_writing(number);
                let unwritable =
                    written && self.tiers.store.slow(number).is_some_and(|slow| !slow.file().is_writable());
                // By a name that nobody told of, others may use it outside of the directory, where no library
                // sees it as ours.
                let told = self.tiers.overlay.known_names(number);
                let elsewhere = self.tiers.store.slow(number).is_some_and(|slow| slow.names() > told);
                self.files.set_excluded(number, by_site || unwritable || nameless || elsewhere);
            }
            Err(answer) => self.send_answer(envelope, &answer),
        }
    }

    /// Before a file may get a number: has memory behind its part of the shared file. Where there is no more,
    /// a number that was used before does. The file is refused if there is none, as the library is not to use
    /// it without: nobody would know of it when another process opens it later and its bytes come to flash.
    pub(super) fn make_room(&mut self, identity: Identity, path: &[u8]) -> std::result::Result<(), Answer> {
        if self.tiers.overlay.keeps_number(identity) {
            return Ok(());
        }
        let (view, shared, mut full) = (self.tiers.shared.view(), &mut self.tiers.shared, None);
        let has_room = |file: u32| match full {
            Some(_) => shared.has_file(file),
            None => shared.reserve_file(file).map_err(|error| full = Some(error)).is_ok(),
        };
        let found = self.tiers.overlay.seek_number(view, has_room);
        let missing = if self.tiers.store.is_short_of_memory() {
            Some(self.tiers.shared.no_room())
        } else {
            full.filter(|_| !found)
        };
        let Some(error) = missing else { return Ok(()) };
        tracing::error!(%error, path = %as_path(path).display(), "a file is refused");
        let text = format!("{} cannot be opened: {error}", as_path(path).display());
        Err(Answer::Error { errno: libc::ENOSPC, text })
    }

    /// Whether another agent owns a directory between the managed one and the file. Nobody can claim one
    /// later: a claim looks for those above it.
    pub(super) fn managed_elsewhere(&mut self, path: &Path) -> Option<String> {
        let parent = path.parent()?;
        if self.files.is_own(parent) {
            return None;
        }
        if let Some(inner) = claim::inner(self.site.slow(), path) {
            let (inner, outer) = (inner, self.site.slow().to_path_buf());
            return Some(format!("{}: {}", path.display(), Error::Nested { inner, outer }));
        }
        self.files.remember_own(parent);
        None
    }

    pub(super) fn send_answer(&mut self, envelope: Envelope, answer: &Answer) {
        if envelope.slot == NO_SLOT {
            return self.answer_command(envelope.seq, answer);
        }
        let Some(token) = self.clients.of_slot(envelope.slot) else { return };
        let reply = match answer {
            Answer::Opened { file } => Reply::Opened { file: *file, excluded: self.files.is_excluded(*file) },
            Answer::Done => Reply::Done,
            Answer::NoSpace => Reply::NoSpace,
            Answer::Bypassed => Reply::Bypassed,
            Answer::HeldUp => Reply::HeldUp,
            Answer::Flash { length } => Reply::Flash { length: *length },
            Answer::Disk { length } => Reply::Disk { length: *length },
            Answer::Sooner { length } => Reply::Sooner { length: *length },
            Answer::Remote { length, on_flash } => Reply::Remote { length: *length, on_flash: *on_flash },
            Answer::Go => Reply::Go,
            Answer::Error { errno, text } => {
                self.service.errors_answered_total += 1;
                Reply::Error { errno: *errno, text: text.as_bytes() }
            }
        };
        self.send(token, envelope, &reply);
    }

    /// Sends an answer, or keeps it until the socket takes it.
    pub(super) fn send(&mut self, token: u64, envelope: Envelope, reply: &Reply<'_>) {
        if !self.clients.send(&self.poller, token, envelope, reply) {
            self.hang_up(token);
        }
    }
}

/// The name that a path had which the kernel shows as removed, if it is not just named so.
fn name_of_gone(path: &[u8]) -> Option<&[u8]> {
    path.strip_suffix(b" (deleted)").filter(|_| as_path(path).symlink_metadata().is_err())
}
