//! A served volume: its thread, what others hold of it, its start and its end.
//!
//! ```text
//! start: recovery::attach, guard --> thread (`EventLoop`) --Handle--> exports, commands
//! stop:  Engine::stop ends the thread --> recovery::release takes the guard off, if nothing is left on flash alone
//! ```
//!
//! A server that is dropped ends as if it had been killed: what was durable stays so, and the next start goes
//! on from there. Whatever way it ends, every request is answered.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use headstart_block::devices::{Devices, Failed};
use headstart_block::engine::{Engine, ZERO_BYTES_MAX};
use headstart_block::recovery;
use headstart_block::recovery::{Given, Recovered, Refusal, Superblocks};
use headstart_block::superblock::Superblock;
use headstart_policy::server::chain;
use headstart_policy::server::chain::Chain;
use headstart_policy::server::{Policy, WriteThrough, itransformer, liu};
use headstart_units::Nanos;

use crate::control::listener::Listener;
use crate::event_loop::mailbox::{Mailbox, Message};
use crate::event_loop::{End, EventLoop};
pub use crate::handle::{Ended, Handle};
use crate::pair::Pair;
use crate::settings::{Mode, Settings};
use crate::status::DeviceStatus;
use crate::storage::bell::Bell;
use crate::storage::buffers::Pool;
use crate::storage::{self, Opener};

/// Why a volume is not served.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// What was found on the devices.
    #[error("disk {disk}, flash {flash}: {refusal}")]
    Refused {
        /// As the user named it.
        disk: String,
        /// As the user named it.
        flash: String,
        /// What was found.
        refusal: Refusal,
    },
    /// The devices cannot be driven.
    #[error("cannot begin I/O to disk {disk} and flash {flash}: {source}")]
    Storage {
        /// As the user named it.
        disk: String,
        /// As the user named it.
        flash: String,
        /// Why.
        source: io::Error,
    },
    /// Nobody could ask it anything.
    #[error("cannot open the volume's control socket in {}: {source}", directory.display())]
    Control {
        /// Where it should be.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Why a volume did not end as it should have. The next start goes on from what is durable.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// Its thread did.
    #[error("the volume's server died; serve it again")]
    Died,
    /// The guard could not be taken off.
    #[error("everything is written back, but {0}; serve the volume again to end it")]
    Release(#[from] Failed),
}

/// A volume that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// What only flash holds.
    pub dirty_bytes: u64,
    /// The disk is whole without the flash: nothing is left there, and its ends are as its users wrote them.
    pub is_released: bool,
    /// The disk had failed.
    pub disk_failed: bool,
    /// The flash had failed.
    pub flash_failed: bool,
}

/// What a volume is served from: devices for the start and the stop, and a storage for what lies between.
pub struct Backing<D> {
    /// One operation after the other.
    pub devices: D,
    /// What the start is told of them.
    pub given: Given,
    /// Many at once.
    pub open: Opener,
    /// Their names and sizes, disk and flash.
    pub names: [DeviceStatus; 2],
}

type Release = Box<dyn FnOnce(&mut Superblock, bool, bool) -> Result<bool, Failed> + Send>;

/// A served volume.
pub struct Server {
    handle: Handle,
    thread: Option<JoinHandle<Option<End>>>,
    release: Option<Release>,
    control: Option<Listener>,
}

impl Server {
    /// Recovers a volume and serves it. A disk that makes zeros by itself is told to.
    pub fn start(pair: Pair, mut settings: Settings) -> Result<Server, StartError> {
        settings.engine.zero_bytes_max = if pair.disk.makes_zeros() { ZERO_BYTES_MAX } else { 0 };
        let names = [&pair.disk, &pair.flash].map(|device| DeviceStatus {
            name: device.name.to_string(),
            bytes: device.bytes,
            ..DeviceStatus::default()
        });
        let given = Given {
            disk: pair.disk.identity,
            disk_bytes: pair.disk.bytes,
            flash_bytes: pair.flash.bytes,
            uuid: settings.uuid,
            absorbs: settings.mode == Mode::WriteBack,
        };
        let open = storage::opener(&pair).map_err(|source| StartError::storage(&names, source))?;
        Server::start_on(Backing { devices: pair, given, open, names }, settings)
    }

    /// The same on any devices.
    pub fn start_on<D: Devices + Send + 'static>(
        backing: Backing<D>,
        settings: Settings,
    ) -> Result<Server, StartError> {
        match (settings.mode, settings.policy) {
            (Mode::WriteThrough, _) => Server::start_with(backing, WriteThrough, settings),
            (Mode::WriteBack, names) => {
                let delay_max = Nanos(settings.delay_max.as_nanos() as u64);
                let itransformer = itransformer::Settings { delay_max, ..itransformer::Settings::default() };
                let liu = liu::Settings { threshold_percent: settings.threshold_percent, ..liu::Settings::default() };
                let policies = chain::Settings { liu, itransformer };
                let make = move |superblock: &Superblock| Chain::new(names, superblock.serving.segments, policies);
                Server::start_from(backing, make, settings)
            }
        }
    }

    /// The same with any policy.
    pub fn start_with<D: Devices + Send + 'static, P: Policy + Send + 'static>(
        backing: Backing<D>,
        policy: P,
        settings: Settings,
    ) -> Result<Server, StartError> {
        Server::start_from(backing, |_| policy, settings)
    }

    /// The same with a policy that is made for the volume.
    fn start_from<D: Devices + Send + 'static, P: Policy + Send + 'static>(
        backing: Backing<D>,
        make: impl FnOnce(&Superblock) -> P,
        settings: Settings,
    ) -> Result<Server, StartError> {
        let Backing { mut devices, given, open, names } = backing;
        let [disk, flash] = names.clone().map(|status| status.name);
        if let Ok([first, second]) = recovery::superblocks(&mut devices)
            && let Superblocks::One(_, other) = Superblocks::observe(first, second)
        {
            let place = if other == 0 { "A" } else { "B" };
            tracing::warn!(
                "{flash}: superblock {place} is damaged; it is written again from the other. A power \
                 failure can do that, or flash that begins to fail"
            );
        }
        let recovered = recovery::attach(&mut devices, &given);
        let recovered = recovered.map_err(|refusal| StartError::Refused { disk, flash, refusal })?;
        let policy = make(&recovered.superblock);
        let superblock = &recovered.superblock;
        let (uuid, size_bytes) = (superblock.uuid, superblock.disk_bytes);
        let bell = Arc::new(Bell::new().map_err(|source| StartError::storage(&names, source))?);
        let mailbox = Arc::new(Mailbox::new(bell));
        let pool = Arc::new(Pool::default());
        let discards = settings.engine.zero_bytes_max > 0;
        let handle = Handle::new(Arc::clone(&mailbox), Arc::clone(&pool), size_bytes, discards, uuid);
        let control = settings.control.as_ref().map(|directory| {
            let error = |source| StartError::Control { directory: directory.clone(), source };
            Listener::start(directory, handle.clone()).map_err(error)
        });
        let control = control.transpose()?;
        let serve = Serve { recovered, policy, open, mailbox, pool, names: names.clone(), settings };
        let thread = serve.spawn().map_err(|source| StartError::storage(&names, source))?;
        let release: Release = Box::new(move |superblock, is_empty, detached| {
            recovery::release(&mut devices, superblock, is_empty, detached)
        });
        Ok(Server { handle, thread: Some(thread), release: Some(release), control })
    }

    /// What exports hold.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Whether it has ended by itself or by a command; `wait` then returns at once.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Writes everything back unless told to keep it, and ends.
    pub fn stop(self, keep_dirty: bool) -> Result<Stopped, StopError> {
        // One that has ended already says so below.
        let _ = self.handle.stop(keep_dirty);
        self.wait()
    }

    /// Writes everything back and ends, and the disk goes its own way: nothing on flash counts until it is
    /// attached again.
    pub fn detach(mut self) -> Result<Stopped, StopError> {
        let _ = self.handle.stop(false);
        self.finish(true)
    }

    /// Waits until the volume has ended, by whoever's word.
    pub fn wait(mut self) -> Result<Stopped, StopError> {
        self.finish(false)
    }

    fn finish(&mut self, detached: bool) -> Result<Stopped, StopError> {
        let thread = self.thread.take().expect("a server ends once");
        let End { mut superblock, is_empty, dirty_bytes, failed } =
            thread.join().ok().flatten().ok_or(StopError::Died)?;
        let release = self.release.take().expect("a server ends once");
        let is_released = release(&mut superblock, is_empty, detached)?;
        self.control = None;
        Ok(Stopped { dirty_bytes, is_released, disk_failed: failed.0, flash_failed: failed.1 })
    }

    /// Ends at once, as if killed: requests under way are answered with EIO, nothing is written back, and the
    /// guard stays on.
    pub fn kill(self) {}
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.handle.mailbox().put(Message::Die);
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl StartError {
    fn storage(names: &[DeviceStatus; 2], source: io::Error) -> StartError {
        let [disk, flash] = names.clone().map(|status| status.name);
        StartError::Storage { disk, flash, source }
    }
}

/// What the thread is given.
struct Serve<P> {
    recovered: Recovered,
    policy: P,
    open: Opener,
    mailbox: Arc<Mailbox>,
    pool: Arc<Pool>,
    names: [DeviceStatus; 2],
    settings: Settings,
}

impl<P: Policy + Send + 'static> Serve<P> {
    /// Starts the thread; an error if it cannot open its storage.
    fn spawn(self) -> io::Result<JoinHandle<Option<End>>> {
        let (opened, is_open) = sync_channel(1);
        let thread = std::thread::Builder::new().name("volume".to_owned()).spawn(move || {
            // Dropped last, also by a panic: whoever asks afterwards is told.
            let _closing = Closing(Arc::clone(&self.mailbox));
            let Serve { recovered, policy, open, mailbox, pool, names, settings } = self;
            let storage = match open(Arc::clone(mailbox.bell())) {
                Ok(storage) => storage,
                Err(error) => {
                    let _ = opened.send(Err(error));
                    return None;
                }
            };
            let engine = Engine::new(recovered, policy, settings.engine);
            let event_loop = EventLoop::new(engine, storage, mailbox, names, pool, settings);
            // The receiver waits for this.
            let _ = opened.send(Ok(()));
            event_loop.run()
        })?;
        match is_open.recv() {
            Ok(Ok(())) => Ok(thread),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::Error::other("the volume's thread died")),
        }
    }
}

struct Closing(Arc<Mailbox>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close(true);
    }
}
