//! Devices that answer as late as a model says: each stands behind its elevator, as a server's disk does.
//!
//! Bytes are copied to or from the file at once, through the page cache; a file on a tmpfs costs the least.
//! The completion comes at the model's time. The model hears of an operation before its bytes are copied, and
//! happens in order of its own time however late this thread looks, so that neither copies nor sleeps add up.
//! A flush waits for the model alone: an emulated device forgets nothing, and its file is not synced. Nothing
//! spins: who waits sleeps until the next time something is due.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use headstart_block::devices::Device;
use headstart_model::device::config::DeviceConfig;
use headstart_model::elevator::ElevatorKind;
use headstart_model::nic::NicConfig;
use headstart_model::profile::Profile;
use headstart_model::request::{self, Origin};
use headstart_model::server::{Server, ServerConfig};
use headstart_units::Nanos;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::buffers::empty;
use super::positioned::perform;
use super::{Action, Completion, Operation, Storage};
use crate::block::Buffer;

/// One emulated device.
pub struct Emulation {
    server: Server,
    file: File,
    /// Operations that the model has not completed; the bytes are already there.
    pending: HashMap<u64, io::Result<Buffer>>,
    /// Those that it has, by time: it may say so ahead.
    finished: BinaryHeap<Reverse<(Nanos, u64)>>,
    scratch: Vec<request::Completion>,
}

/// The host's end of a device: a disk behind deadline with 128 requests, flash without an elevator, as Linux
/// sets them up.
fn config(profile: Profile) -> ServerConfig {
    let config = ServerConfig::new(profile);
    let elevator = match config.device {
        DeviceConfig::Hdd(_) => ElevatorKind::Deadline,
        DeviceConfig::Ssd(_) | DeviceConfig::Null => ElevatorKind::Noop,
    };
    ServerConfig { nic: NicConfig::NONE, elevator, ..config }
}

impl Emulation {
    /// A device of this kind, whose bytes are the file's.
    pub fn new(profile: Profile, file: File) -> io::Result<Emulation> {
        let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
        fcntl(&file, FcntlArg::F_SETFL(flags - OFlag::O_DIRECT))?;
        Ok(Emulation {
            server: Server::new(config(profile)),
            file,
            pending: HashMap::new(),
            finished: BinaryHeap::new(),
            scratch: Vec::new(),
        })
    }

    fn submit(&mut self, now: Nanos, operation: Operation) {
        let Operation { id, device, offset, action } = operation;
        let (kind, length) = match &action {
            Action::Read(buffer) => (request::Operation::Read, buffer.len()),
            Action::Write(slices) => (request::Operation::Write, slices.iter().map(|slice| slice.bytes().len()).sum()),
            // Its disk is one that has to be written: nothing asks for this. A model would take what a write takes.
            Action::Zero(length) => (request::Operation::Write, *length as usize),
            Action::Flush => (request::Operation::Flush, 0),
        };
        self.advance(now);
        let origin = Origin::default();
        self.server
            .on_request(now, request::Request { id, operation: kind, address: offset, length: length as u64, origin });
        let result = match action {
            Action::Flush => Ok(empty()),
            action => perform(&self.file, Operation { id, device, offset, action }).result,
        };
        self.pending.insert(id, result);
    }

    fn advance(&mut self, now: Nanos) {
        self.server.on_timer(now, &mut self.scratch);
        self.finished.extend(self.scratch.drain(..).map(|done| Reverse((done.at, done.id))));
    }

    /// When to look again.
    fn next_due(&self) -> Option<Nanos> {
        let finished = self.finished.peek().map(|Reverse((at, _))| *at);
        [self.server.next_timer(), finished].into_iter().flatten().min()
    }

    fn reap(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.advance(now);
        while let Some(Reverse((_, id))) = self.finished.peek().copied().filter(|Reverse((at, _))| *at <= now) {
            self.finished.pop();
            let result = self.pending.remove(&id).expect("the model completes what it was asked for");
            completions.push(Completion { id, result });
        }
    }
}

/// Emulated devices in front of a storage, which has the others.
pub struct Emulated {
    inner: Box<dyn Storage>,
    devices: [Option<Emulation>; 2],
    started: Instant,
}

impl Emulated {
    /// In front of `inner`; disk and flash.
    pub fn new(inner: Box<dyn Storage>, devices: [Option<Emulation>; 2]) -> Emulated {
        // Sleeps end when they should: by default they may be 50 us late. What cannot be had is done without.
        let _ = nix::sys::prctl::set_timerslack(1);
        Emulated { inner, devices, started: Instant::now() }
    }

    fn now(&self) -> Nanos {
        Nanos(self.started.elapsed().as_nanos() as u64)
    }

    fn next_due(&self) -> Option<Nanos> {
        self.devices.iter().flatten().filter_map(Emulation::next_due).min()
    }
}

impl Storage for Emulated {
    fn submit(&mut self, operation: Operation) {
        let now = self.now();
        match &mut self.devices[operation.device as usize] {
            Some(device) => device.submit(now, operation),
            None => self.inner.submit(operation),
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        let due = self.next_due().map(|at| Duration::from_nanos(at.since(self.now()).0));
        self.inner.wait([timeout, due].into_iter().flatten().min());
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        let now = self.now();
        for device in self.devices.iter_mut().flatten() {
            device.reap(now, completions);
        }
        self.inner.reap(completions);
    }

    fn description(&self) -> String {
        let emulated = |device: Device| self.devices[device as usize].is_some();
        match (emulated(Device::Disk), emulated(Device::Flash)) {
            (true, true) => "emulated".to_owned(),
            (true, false) => format!("emulated disk, {}", self.inner.description()),
            (false, true) => format!("emulated flash, {}", self.inner.description()),
            (false, false) => self.inner.description(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::storage::buffers::{Slice, zeroed};

    fn operation(id: u64, offset: u64, action: Action) -> Operation {
        Operation { id, device: Device::Disk, offset, action }
    }

    fn emulation(profile: Profile) -> Emulation {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 30).unwrap();
        Emulation::new(profile, file).unwrap()
    }

    /// Completes everything, each at its time; the time of the last.
    fn run(device: &mut Emulation, ids: &mut Vec<u64>) -> Nanos {
        let mut now = Nanos::ZERO;
        while let Some(due) = device.next_due() {
            now = now.max(due);
            let mut completions = Vec::new();
            device.reap(now, &mut completions);
            ids.extend(completions.into_iter().map(|completion| completion.id));
        }
        now
    }

    #[test]
    fn a_disk_takes_its_time_and_sorts_what_waits() {
        let mut device = emulation(Profile::Wd1602);
        let scattered: Vec<u64> = (0..64).map(|id| id * 37 % 64).collect();
        for (id, place) in scattered.iter().enumerate() {
            device.submit(Nanos::ZERO, operation(id as u64, place << 26, Action::Read(zeroed(4096))));
        }
        let mut ids = Vec::new();
        let end = run(&mut device, &mut ids);
        assert_eq!(ids.len(), 64);
        assert!(end > Nanos(100_000_000), "64 places of 4 GiB in {end:?}");
        let travel = |places: &[u64]| places.windows(2).map(|pair| pair[1].abs_diff(pair[0])).sum::<u64>();
        let places: Vec<u64> = ids.iter().map(|id| scattered[*id as usize]).collect();
        assert!(2 * travel(&places) < travel(&scattered), "an elevator does not jump about: {places:?}");
    }

    #[test]
    fn who_looks_late_finds_everything_done_at_its_time() {
        let mut device = emulation(Profile::Pm9a3);
        for id in 0..100 {
            device.submit(Nanos::ZERO, operation(id, id << 20, Action::Read(zeroed(4096))));
        }
        let mut completions = Vec::new();
        device.reap(Nanos(1), &mut completions);
        assert!(completions.is_empty());
        device.reap(Nanos(1_000_000_000), &mut completions);
        assert_eq!((completions.len(), device.next_due()), (100, None));
    }

    #[test]
    fn bytes_are_in_the_file_before_the_model_is_done() {
        let mut device = emulation(Profile::Nearline24t);
        let mut bytes = zeroed(8192);
        bytes.fill(9);
        let slice = Slice::new(Arc::new(bytes), 4096, 4096);
        device.submit(Nanos::ZERO, operation(1, 1 << 20, Action::Write(vec![slice])));
        device.submit(Nanos::ZERO, operation(2, (1 << 20) - 4096, Action::Read(zeroed(8192))));
        device.submit(Nanos::ZERO, operation(3, 0, Action::Flush));
        let mut completions = Vec::new();
        device.reap(Nanos(10_000_000_000), &mut completions);
        completions.sort_by_key(|completion| completion.id);
        let read = completions[1].result.as_ref().unwrap();
        assert!(read[..4096].iter().all(|byte| *byte == 0) && read[4096..].iter().all(|byte| *byte == 9));
        assert_eq!(completions.len(), 3);
    }
}
