//! The agent's thread: connections, packets, slots.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use headstart_policy::cost::benefit::Parameters;
use headstart_protocol::PROTOCOL_VERSION;
use headstart_protocol::message::{MESSAGE_MAX, Reply, Request, Welcome};
use headstart_protocol::shared::{LEASE_NONE, STATE_FREE, Shared};

use super::answers::{Served, serve};
use super::files::{Inner, churn};

pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) slot: Option<u32>,
}

pub(super) struct Server {
    pub(super) listener: OwnedFd,
    pub(super) shared: Shared<'static>,
    pub(super) inner: Arc<Mutex<Inner>>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) fast: PathBuf,
    pub(super) slow: PathBuf,
    pub(super) parameters: Parameters,
    pub(super) connections: Vec<Connection>,
    /// Requests that a lease holds up: socket and packet.
    pub(super) waiting: Vec<(RawFd, Vec<u8>)>,
}

impl Server {
    pub(super) fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            for (socket, packet) in std::mem::take(&mut self.waiting) {
                self.on_packet(socket, packet);
            }
            let churns = self.inner.lock().unwrap().churn;
            if churns {
                churn(self.shared, &mut self.inner.lock().unwrap());
            }
            let ready = self.poll(churns);
            for fd in ready {
                if fd == self.listener.as_raw_fd() {
                    self.accept();
                    continue;
                }
                let mut packet = vec![0; MESSAGE_MAX];
                // SAFETY: `packet` is writable for its length.
                let length = unsafe { libc::recv(fd, packet.as_mut_ptr().cast(), packet.len(), libc::MSG_DONTWAIT) };
                if length <= 0 {
                    self.hang_up(fd);
                    continue;
                }
                packet.truncate(length as usize);
                self.on_packet(fd, packet);
            }
        }
    }

    fn poll(&self, at_once: bool) -> Vec<RawFd> {
        let all = self.connections.iter().map(|c| c.socket.as_raw_fd()).chain([self.listener.as_raw_fd()]);
        let mut set: Vec<_> = all.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
        let timeout = if self.waiting.is_empty() && !at_once { 20 } else { 0 };
        // SAFETY: `set` is writable for its length.
        unsafe { libc::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, timeout) };
        set.iter().filter(|entry| entry.revents != 0).map(|entry| entry.fd).collect()
    }

    fn accept(&mut self) {
        // SAFETY: no address is asked for; a descriptor that accept returned is ours.
        let socket = unsafe {
            let fd = libc::accept4(
                self.listener.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC,
            );
            assert!(fd >= 0);
            OwnedFd::from_raw_fd(fd)
        };
        self.connections.push(Connection { socket, slot: None });
    }

    fn hang_up(&mut self, fd: RawFd) {
        let at = self.connections.iter().position(|c| c.socket.as_raw_fd() == fd).unwrap();
        if let Some(slot) = self.connections.swap_remove(at).slot {
            let slot = &self.shared.slots[slot as usize];
            (0..slot.slabs.len()).for_each(|at| slot.revoke_slab(at));
            slot.lease.store(LEASE_NONE, Ordering::Relaxed);
            slot.state.store(STATE_FREE, Ordering::Relaxed);
            slot.owner_pid.store(0, Ordering::Release);
        }
        self.waiting.retain(|(socket, _)| *socket != fd);
    }

    fn on_packet(&mut self, socket: RawFd, packet: Vec<u8>) {
        let (mut envelope, request) = Request::decode(&packet).unwrap();
        let inner = self.inner.clone();
        let mut inner = inner.lock().unwrap();
        let reply = match request {
            Request::Hello { version, pid, tid, start_time, slot } => {
                assert_eq!(version, PROTOCOL_VERSION);
                envelope.slot = self.join(pid, tid, start_time, slot);
                let connection = self.connections.iter_mut().find(|c| c.socket.as_raw_fd() == socket).unwrap();
                connection.slot = Some(envelope.slot);
                Some(Reply::Welcome(Welcome {
                    read: self.parameters.clone(),
                    write: self.parameters.clone(),
                    slow: self.slow.as_os_str().as_bytes(),
                    fast: self.fast.as_os_str().as_bytes(),
                }))
            }
            request => {
                if !matches!(
                    request,
                    Request::Commit { .. } | Request::Read { .. } | Request::Write { .. } | Request::WriteDone { .. }
                ) {
                    inner.log.push(format!("{request:?}"));
                }
                match serve(self.shared, &self.fast, &mut inner, envelope, request) {
                    Served::Reply(reply) => Some(reply),
                    Served::Silence => None,
                    Served::Later => {
                        self.waiting.push((socket, packet));
                        return;
                    }
                }
            }
        };
        if let Some(reply) = reply {
            let mut bytes = Vec::new();
            reply.encode(envelope, &mut bytes);
            // SAFETY: `bytes` is readable for its length.
            unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        }
    }

    /// The thread's slot: the one it had, or a free one.
    fn join(&self, pid: u32, tid: u32, start: u64, had: u32) -> u32 {
        let owner = |index: &usize| {
            let slot = &self.shared.slots[*index];
            (slot.owner_pid.load(Ordering::Relaxed), slot.owner_start.load(Ordering::Relaxed))
        };
        let taken: Vec<u32> = self.connections.iter().filter_map(|c| c.slot).collect();
        let mut free = (0..self.shared.slots.len()).filter(|index| !taken.contains(&(*index as u32)));
        let index = free
            .clone()
            .find(|index| *index as u32 == had && owner(index) == (pid, start))
            .or_else(|| free.find(|index| owner(index).0 == 0))
            .unwrap();
        let slot = &self.shared.slots[index];
        slot.owner_tid.store(tid, Ordering::Relaxed);
        slot.owner_start.store(start, Ordering::Relaxed);
        slot.owner_pid.store(pid, Ordering::Release);
        self.shared.header.slots_used.fetch_max(index as u64 + 1, Ordering::AcqRel);
        index as u32
    }
}
