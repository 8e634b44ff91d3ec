//! The server: two mounts, their engine, and the process around them.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use fuser::{BackgroundSession, Filesystem, Session};

use crate::config::TestbedConfig;
use crate::control;
use crate::error::{Error, Result};
use crate::filesystem::{REQUEST_BYTES_MAX, TestbedFilesystem};
use crate::lifecycle::Registration;
use crate::mounts::{self, Unmounted};
use crate::placement::Allocator;
use crate::runtime::{Engine, RunningEngine};
use crate::servers::Servers;
use crate::stats::{TestbedStats, wall_clock_seconds};
use crate::system::{RealTime, Signals, raise_file_limit, raise_fuse_request_limit};

/// How often the process looks whether its mounts are still there.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// A testbed served by this process. Dropping it unmounts.
pub struct Server {
    config: TestbedConfig,
    engine: RunningEngine,
    sessions: Vec<(PathBuf, BackgroundSession)>,
    request_bytes_max: u64,
}

/// Why the process ends.
pub(crate) enum Stop {
    /// Told so through the control socket.
    Down {
        /// Leave the backing files.
        keep_backing: bool,
    },
    /// A signal; backing files stay.
    Signal(i32),
}

impl Server {
    /// Mounts both directories and serves them from threads of this process.
    ///
    /// # Errors
    /// Anything wrong with the configuration, the directories or FUSE; nothing stays mounted then.
    pub fn start(mut config: TestbedConfig) -> Result<Server> {
        config.validate()?;
        mounts::check_fuse()?;
        config.slow = mounts::prepare("slow", &config.slow)?;
        config.fast = mounts::prepare("fast", &config.fast)?;
        raise_file_limit();
        let limit = raise_fuse_request_limit(u64::from(REQUEST_BYTES_MAX));
        let directories = [("slow", Servers::slow(&config)?), ("fast", Servers::fast(&config)?)];
        let allocators = directories
            .each_ref()
            .map(|(_, servers)| Allocator::for_servers(servers.count(), config.stripe_bytes, servers.capacity_bytes()));
        let points = [("slow", config.slow.clone()), ("fast", config.fast.clone())];
        let engine = RunningEngine::start(directories.into(), config.time_scale, config.real_time);
        let request_bytes_max = limit.min(u64::from(REQUEST_BYTES_MAX));
        let mut server = Server { config, engine, sessions: Vec::new(), request_bytes_max };
        for (mount, ((name, point), allocator)) in points.into_iter().zip(allocators).enumerate() {
            let backing = server.config.backing_directory().join(name);
            // Private: files keep their owners and modes, but only the mounts give access to them.
            let mut private = std::fs::DirBuilder::new();
            let made = private.recursive(true).mode(0o700).create(&backing);
            made.map_err(Error::io("create the backing directory", &backing))?;
            let engine = Arc::clone(&server.engine.engine);
            let filesystem = TestbedFilesystem::over(&backing, engine, mount, allocator)
                .map_err(Error::io("open the backing directory", &backing))?;
            let session = mount_and_serve(filesystem, &point, server.config.real_time)?;
            server.sessions.push((point, session));
        }
        Ok(server)
    }

    /// What happened so far.
    pub fn stats(&self) -> TestbedStats {
        collect_stats(&self.config, &self.engine.engine, &self.engine.real_time, self.request_bytes_max)
    }

    /// Starts counting anew.
    pub fn reset_stats(&self) {
        self.engine.engine.reset_stats();
    }

    /// Servers forget what they have read.
    pub fn empty_buffers(&self) {
        self.engine.engine.empty_buffers();
    }

    /// Unmounts both directories, lazily if they are busy; returns what to tell the user.
    pub fn unmount(&self) -> Vec<String> {
        self.sessions.iter().filter_map(|(point, _)| unmount_with_message(point)).collect()
    }

    /// Lets the disk servers write back what they hold; nobody may use the directories any more. What to say of it.
    pub fn drain(&self) -> Option<String> {
        let (bytes, time) = self.engine.engine.drain(0);
        let mib = bytes as f64 / (1 << 20) as f64;
        (bytes > 0)
            .then(|| format!("disk servers wrote back {mib:.1} MiB, in {:.1} s of their time", time.millis() / 1e3))
    }

    /// What the disk servers hold and their disks do not.
    pub(crate) fn dirty_message(&self) -> Option<String> {
        let servers = self.engine.engine.stats(0).servers;
        let bytes: u64 = servers.iter().filter_map(|server| server.volume).map(|volume| volume.dirty_bytes).sum();
        let mib = bytes as f64 / (1 << 20) as f64;
        (bytes > 0).then(|| format!("{mib:.1} MiB on the volumes' flash are written back to their disks"))
    }

    fn is_mounted(&self) -> bool {
        self.sessions.iter().all(|(_, session)| !session.guard.is_finished())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.unmount();
    }
}

/// Unmounts; the message says what was unusual.
pub(crate) fn unmount_with_message(point: &Path) -> Option<String> {
    match mounts::unmount(point) {
        Ok(Unmounted::Clean | Unmounted::Nothing) => None,
        Ok(Unmounted::Lazily) => Some(format!(
            "{} was busy and has been detached; processes with files open there get errors from now on",
            point.display()
        )),
        Err(error) => Some(format!("{} could not be unmounted: {error}; try: umount -l {0}", point.display())),
    }
}

fn collect_stats(
    config: &TestbedConfig,
    engine: &Engine,
    real_time: &RealTime,
    request_bytes_max: u64,
) -> TestbedStats {
    TestbedStats {
        time_seconds: wall_clock_seconds(),
        process: std::process::id(),
        real_time: real_time.clone(),
        request_bytes_max,
        config: config.clone(),
        mounts: (0..2).map(|mount| engine.stats(mount)).collect(),
    }
}

/// Mounts a filesystem and serves it from a thread that inherits real-time priority, if asked for and permitted.
pub(crate) fn mount_and_serve(filesystem: impl Filesystem, point: &Path, real_time: bool) -> Result<BackgroundSession> {
    let start = || -> io::Result<BackgroundSession> {
        let session = Session::new(filesystem, point, &mounts::options(point))?;
        std::thread::scope(|scope| {
            let spawner = scope.spawn(move || {
                if real_time {
                    // What was refused has been reported by the timer thread.
                    RealTime::acquire();
                }
                session.spawn()
            });
            spawner.join().unwrap_or_else(|_| Err(io::Error::other("the mounting thread panicked")))
        })
    };
    start().map_err(|source| Error::Mount { path: point.to_path_buf(), source })
}

/// Serves a testbed in the foreground until told to stop; this is what `up` runs in the background.
///
/// Messages go to stderr, which `up` has made a log file. Signals SIGTERM, SIGINT and SIGHUP end it and leave
/// the backing files.
///
/// # Errors
/// Whatever prevents it from starting.
pub fn serve(config: TestbedConfig) -> Result<()> {
    let registration = Registration::claim(&config)?;
    serve_registered(config, &registration).inspect_err(|_| registration.withdraw())
}

fn serve_registered(config: TestbedConfig, registration: &Registration) -> Result<()> {
    let signals = Signals::block();
    let (stop, stopped) = channel();
    spawn_signal_thread(signals, stop.clone());
    // Started before anything asks for real-time priority, so that answering questions has none.
    let socket = control::Listener::bind(&registration.socket())?;
    let server = Server::start(config)?;
    report_start(&server);
    let server = Arc::new(server);
    // The socket was bound first, so that its file exists when the mounts do; questions are answered from here on.
    socket.answer(Arc::clone(&server), stop);
    let stop = wait_for_stop(&server, &stopped);
    let messages = server.unmount();
    messages.iter().chain(&server.drain()).for_each(|message| eprintln!("{message}"));
    let backing = server.config.backing_directory();
    if let Stop::Down { keep_backing: false } = stop {
        remove_backing(&backing)?;
    }
    registration.remove();
    // Sockets and threads end with the process.
    Ok(())
}

fn report_start(server: &Server) {
    let real_time = &server.engine.real_time;
    eprintln!(
        "testbed {} serves {} and {}; requests up to {} KiB; SCHED_FIFO {}, locked memory {}",
        server.config.name,
        server.config.slow.display(),
        server.config.fast.display(),
        server.request_bytes_max >> 10,
        if real_time.scheduler_fifo { "yes" } else { "no" },
        if real_time.memory_locked { "yes" } else { "no" },
    );
    real_time.refused.iter().for_each(|refused| eprintln!("not permitted: {refused}"));
}

fn spawn_signal_thread(signals: Signals, stop: Sender<Stop>) {
    let waiter = move || {
        // If the receiver has gone, the process is ending anyway.
        let _ = stop.send(Stop::Signal(signals.wait()));
    };
    std::thread::Builder::new()
        .name("signals".to_string())
        .spawn(waiter)
        .expect("the system has room for one more thread");
}

fn wait_for_stop(server: &Server, stopped: &Receiver<Stop>) -> Stop {
    loop {
        match stopped.recv_timeout(WATCH_INTERVAL) {
            Ok(stop) => {
                if let Stop::Signal(signal) = stop {
                    eprintln!("stopped by signal {signal}; the backing files stay");
                }
                return stop;
            }
            Err(RecvTimeoutError::Timeout) if server.is_mounted() => {}
            Err(_) => {
                eprintln!("a directory was unmounted from outside; the backing files stay");
                return Stop::Signal(0);
            }
        }
    }
}

/// Removes what the testbed made in its backing directory, and the directory if it is empty then.
pub(crate) fn remove_backing(backing: &Path) -> Result<()> {
    for name in ["slow", "fast"] {
        let directory = backing.join(name);
        match std::fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove the backing directory", &directory)(error));
            }
            _ => {}
        }
    }
    // A directory given by the user may hold other things.
    let _ = std::fs::remove_dir(backing);
    Ok(())
}
