//! Files by io_uring: one ring for both devices and for the bell, one system call for all that waits.
//!
//! An operation has a slot until it has completed; the slot owns its buffers. What has no slot waits. A
//! transfer that the kernel cuts short goes on where it was cut.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

use headstart_block::devices::Device;
use io_uring::types::{Fd, Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::bell::Bell;
use super::buffers::empty;
use super::{Action, Completion, Files, Operation, Storage, positioned};

/// Operations in the kernel at once.
const SLOTS: usize = 1024;
/// Entries that are submitted at once; more take another system call.
const ENTRIES: u32 = 256;
/// Bytes of a transfer that the kernel is asked for at once; what it takes is less than 2 GiB.
const TRANSFER_BYTES_MAX: usize = 1 << 30;
/// The bell's entry.
const BELL: u64 = u64::MAX;

#[derive(Debug)]
struct InFlight {
    operation: Operation,
    /// What the kernel writes from; empties as it goes on.
    vectors: Vec<libc::iovec>,
    length: usize,
    done: usize,
}

/// The ring.
pub struct Uring {
    ring: IoUring,
    bell: Arc<Bell>,
    bell_is_armed: bool,
    slots: Vec<Option<InFlight>>,
    free: Vec<usize>,
    /// Operations that have no slot yet, oldest first.
    waiting: VecDeque<Operation>,
    completed: Vec<Completion>,
}

impl Uring {
    /// A ring for these files, which may be closed afterwards.
    pub fn open(files: &Files, bell: Arc<Bell>) -> io::Result<Uring> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(2 * SLOTS as u32)
            .build(ENTRIES)
            // Older kernels do not know the two flags.
            .or_else(|_| IoUring::builder().setup_cqsize(2 * SLOTS as u32).build(ENTRIES))?;
        ring.submitter().register_files(&[files.disk.as_raw_fd(), files.flash.as_raw_fd()])?;
        Ok(Uring {
            ring,
            bell,
            bell_is_armed: false,
            slots: (0..SLOTS).map(|_| None).collect(),
            free: (0..SLOTS).rev().collect(),
            waiting: VecDeque::new(),
            completed: Vec::new(),
        })
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: what the entry points to lies in a slot that is kept until the entry has completed, or is
        // the bell's descriptor, which lives as long as the ring.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.enter(0, None);
        }
    }

    /// Gives the kernel what is in the queue, and waits for `want` completions.
    fn enter(&mut self, want: usize, timeout: Option<Duration>) {
        let mut arguments = SubmitArgs::new();
        let timespec = timeout.map(Timespec::from);
        if let Some(timespec) = &timespec {
            arguments = arguments.timespec(timespec);
        }
        match self.ring.submitter().submit_with_args(want, &arguments) {
            Ok(_) => {}
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EAGAIN) => {}
                // Completions have no room: they are taken out first.
                Some(libc::EBUSY) => self.collect(),
                _ => panic!("the ring of this thread can be entered: {error}"),
            },
        }
    }

    /// Puts an operation's next transfer into the queue.
    fn transfer(&mut self, slot: usize) {
        let in_flight = self.slots[slot].as_mut().expect("it is in flight");
        let file = Fixed(in_flight.operation.device as u32);
        let offset = in_flight.operation.offset + in_flight.done as u64;
        let entry = match &mut in_flight.operation.action {
            Action::Read(buffer) => {
                let rest = &mut buffer[in_flight.done..];
                let length = rest.len().min(TRANSFER_BYTES_MAX) as u32;
                opcode::Read::new(file, rest.as_mut_ptr(), length).offset(offset).build()
            }
            Action::Write(_) => match &in_flight.vectors[..] {
                [one] => {
                    let length = one.iov_len.min(TRANSFER_BYTES_MAX) as u32;
                    opcode::Write::new(file, one.iov_base.cast(), length).offset(offset).build()
                }
                many => opcode::Writev::new(file, many.as_ptr(), many.len() as u32).offset(offset).build(),
            },
            Action::Zero(length) => {
                opcode::Fallocate::new(file, *length).offset(offset).mode(positioned::HOLE.bits()).build()
            }
            Action::Flush => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
        };
        self.push(&entry.user_data(slot as u64));
    }

    fn begin(&mut self, operation: Operation) {
        let Some(slot) = self.free.pop() else {
            self.waiting.push_back(operation);
            return;
        };
        let (mut vectors, mut length) = (Vec::new(), 0);
        match &operation.action {
            Action::Read(buffer) => length = buffer.len(),
            Action::Write(slices) => {
                vectors.extend(slices.iter().map(|slice| {
                    let bytes = slice.bytes();
                    length += bytes.len();
                    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
                }));
            }
            Action::Zero(_) | Action::Flush => {}
        }
        self.slots[slot] = Some(InFlight { operation, vectors, length, done: 0 });
        self.transfer(slot);
    }

    fn arm_bell(&mut self) {
        if !self.bell_is_armed {
            self.bell_is_armed = true;
            let descriptor = Fd(self.bell.as_fd().as_raw_fd());
            let entry = opcode::PollAdd::new(descriptor, libc::POLLIN as u32).multi(true).build();
            self.push(&entry.user_data(BELL));
        }
    }

    /// Takes the kernel's completions.
    fn collect(&mut self) {
        while let Some(entry) = { self.ring.completion().next() } {
            if entry.user_data() == BELL {
                self.bell_is_armed = cqueue::more(entry.flags());
                continue;
            }
            self.on_entry(entry.user_data() as usize, entry.result());
        }
        while !self.free.is_empty() {
            let Some(operation) = self.waiting.pop_front() else { break };
            self.begin(operation);
        }
    }

    fn on_entry(&mut self, slot: usize, result: i32) {
        let in_flight = self.slots[slot].as_mut().expect("a completion is of something in flight");
        let result = match result {
            _ if result == -libc::EINTR || result == -libc::EAGAIN => Ok(false),
            error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
            0 if in_flight.done < in_flight.length => Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => {
                in_flight.advance(bytes as usize);
                Ok(in_flight.done == in_flight.length)
            }
        };
        if let Ok(false) = result {
            self.transfer(slot);
            return;
        }
        let in_flight = self.slots[slot].take().expect("it is in flight");
        self.free.push(slot);
        let buffer = match in_flight.operation.action {
            Action::Read(buffer) => buffer,
            Action::Write(_) | Action::Zero(_) | Action::Flush => empty(),
        };
        self.completed.push(Completion { id: in_flight.operation.id, result: result.map(|_| buffer) });
    }

    fn is_busy(&self) -> bool {
        self.free.len() < SLOTS
    }
}

impl InFlight {
    /// So many more bytes were transferred.
    fn advance(&mut self, mut bytes: usize) {
        self.done += bytes;
        if self.done == self.length {
            return;
        }
        let whole = self.vectors.iter().take_while(|vector| {
            let fits = vector.iov_len <= bytes;
            bytes -= if fits { vector.iov_len } else { 0 };
            fits
        });
        let whole = whole.count();
        self.vectors.drain(..whole);
        if let Some(first) = self.vectors.first_mut() {
            // The rest of it lies within the slice that the vector was made of.
            first.iov_base = first.iov_base.cast::<u8>().wrapping_add(bytes).cast();
            first.iov_len -= bytes;
        }
    }
}

impl Storage for Uring {
    fn submit(&mut self, operation: Operation) {
        self.begin(operation);
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        self.arm_bell();
        let want = usize::from(self.completed.is_empty() && timeout != Some(Duration::ZERO));
        self.enter(want, timeout);
        self.collect();
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.completed);
    }

    fn description(&self) -> String {
        "io_uring".to_owned()
    }
}

impl Drop for Uring {
    /// The kernel may use the buffers until it says that it is done with them.
    fn drop(&mut self) {
        self.waiting.clear();
        while self.is_busy() {
            self.enter(1, None);
            self.collect();
        }
        // The kernel takes a ring down at its leisure; the files, and with them the lock of their owner, are
        // given up now.
        if let Err(error) = self.ring.submitter().unregister_files() {
            tracing::warn!(%error, "the devices may seem to be in use for a moment");
        }
    }
}

/// The device's place among the registered files.
const _: () = assert!(Device::Disk as usize == 0 && Device::Flash as usize == 1);
