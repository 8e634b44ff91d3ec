//! `headstart volume serve`: a volume as a disk, until it is told to stop.
//!
//! Over NBD on a unix socket, or as a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use headstart_cli::command::{EXIT_DIRTY, log_to_stderr};
use headstart_volume::export::ending;
use headstart_volume::export::file::{FileExport, Unmounted, is_stale, loop_devices};
use headstart_volume::export::nbd::NbdExport;
use headstart_volume::export::opening::{Wishes, open};
use headstart_volume::export::service;
use headstart_volume::server::{Handle, Server};
use headstart_volume::settings::{Mode, PolicyName};
use headstart_volume::status::State;

use super::named::{self, Export, Named};
use super::{Devices, Found, socket};
use crate::interrupts::Interrupts;

/// How often it is asked whether the volume is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("export").required(true).multiple(true).arg("name"))]
pub struct Serve {
    #[command(flatten)]
    devices: Devices,

    /// Serve NBD on a unix socket
    #[arg(long, value_name = "SOCKET", group = "export")]
    nbd: Option<PathBuf>,

    /// Serve a file that `losetup --direct-io=on -f --show FILE` makes a disk; it is empty or absent
    #[arg(long, value_name = "FILE", group = "export", conflicts_with = "nbd")]
    mount_file: Option<PathBuf>,

    /// When a write is acknowledged [default: as the volume was created]
    #[arg(long, value_name = "write-back|write-through")]
    mode: Option<Mode>,

    /// What goes to flash [default: as the volume was created]
    #[arg(long, value_name = PolicyName::KNOWN)]
    policy: Option<PolicyName>,

    /// The most that iTransformer adds to a foreground request [default: 50]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    delay_max_ms: Option<u32>,

    /// Percent of a segment that is asked for while it is measured, from which on LiU lifts and loads it [default: 30]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    liu_threshold: Option<u32>,

    /// At the end leave on flash what is not on disk yet, instead of writing it back
    #[arg(long)]
    keep_dirty: bool,
}

/// Where a volume appears.
enum Place {
    Socket(PathBuf),
    File(PathBuf),
}

impl Serve {
    pub fn execute(&self) -> Result<ExitCode> {
        log_to_stderr("warn");
        let interrupts = Interrupts::listen()?;
        let given = match (&self.nbd, &self.mount_file) {
            (Some(socket), _) => Some(Place::Socket(socket.clone())),
            (None, Some(file)) => Some(Place::File(file.clone())),
            (None, None) => None,
        };
        let (order, place) = match &self.devices.name {
            None => (self.order(self.devices.find()?), given),
            Some(name) => {
                let named = Named::read_alone(name)?;
                wait_for_devices(&named, &interrupts)?;
                let place = match given {
                    Some(place) => place,
                    None => match (named.export, named::place(name, named.export)?) {
                        (Export::Nbd, path) => Place::Socket(path),
                        (Export::File, path) => Place::File(path),
                    },
                };
                (self.order_of(named), Some(place))
            }
        };
        match place.expect("the command line asks for one of them") {
            Place::Socket(path) => order.serve_nbd(&path, &interrupts),
            Place::File(path) => order.serve_file(&path, &interrupts),
        }
    }

    fn order(&self, devices: Found) -> Order {
        let wishes = Wishes {
            mode: self.mode,
            policy: self.policy,
            delay_max: self.delay_max_ms.map(|ms| Duration::from_millis(ms.into())),
            threshold_percent: self.liu_threshold,
        };
        Order { devices, wishes, keep_dirty: self.keep_dirty }
    }

    /// The same for a volume with a name: what the command line does not say is as its file says.
    fn order_of(&self, named: Named) -> Order {
        let Order { devices, wishes, keep_dirty } = self.order(Found { hdd: named.hdd, ssd: named.ssd });
        let delay_max = named.delay_max_ms.map(|ms| Duration::from_millis(ms.into()));
        let wishes = Wishes {
            mode: wishes.mode.or(named.mode),
            policy: wishes.policy.or(named.policy),
            delay_max: wishes.delay_max.or(delay_max),
            threshold_percent: wishes.threshold_percent.or(named.liu_threshold),
        };
        Order { devices, wishes, keep_dirty: keep_dirty || named.keep_dirty }
    }
}

/// Waits for devices that are not there yet, as at boot. One that does not come ends it: a disk is never served without
/// its flash.
fn wait_for_devices(named: &Named, interrupts: &Interrupts) -> Result<()> {
    let limit = Instant::now() + Duration::from_secs(named.wait_s);
    let mut has_said = false;
    loop {
        let missing = named.missing();
        let Some(first) = missing.first() else { return Ok(()) };
        if Instant::now() >= limit || interrupts.so_far() > 0 {
            bail!("{first} is not there; nothing is served, since the disk alone may have old bytes");
        }
        if !std::mem::replace(&mut has_said, true) {
            eprintln!("headstart: waiting for {first}, for at most {} s", named.wait_s);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// What is to be served, and how.
struct Order {
    devices: Found,
    wishes: Wishes,
    keep_dirty: bool,
}

impl Order {
    fn serve_nbd(self, path: &Path, interrupts: &Interrupts) -> Result<ExitCode> {
        // Before the volume starts, which guards its disk.
        socket::free(path)?;
        let server = open(&self.devices.hdd, &self.devices.ssd, self.wishes)?;
        let mut export = match NbdExport::listen(server.handle(), path) {
            Ok(export) => export,
            Err(refused) => {
                // Nobody has used it: its disk is given back as it was.
                let _ = server.stop(self.keep_dirty);
                return Err(refused).with_context(|| format!("cannot listen on {}", path.display()));
            }
        };
        service::ready();
        self.wait_for_clients(&mut export, &server.handle(), interrupts);
        self.end(server, interrupts)
    }

    /// Serves until an interrupt, or until somebody else ends the volume. Clients that are connected then are served
    /// until they go, or until a second interrupt.
    fn wait_for_clients(&self, export: &mut NbdExport, handle: &Handle, interrupts: &Interrupts) {
        while interrupts.so_far() == 0 && is_serving(handle) {
            std::thread::sleep(POLL_INTERVAL);
        }
        export.close();
        let clients = export.clients();
        if clients == 0 || !is_serving(handle) {
            return;
        }
        eprintln!(
            "headstart: waiting for {clients} connections to close; interrupt again to cut them off and keep on flash what \
             is not on disk yet"
        );
        if !self.keep_dirty {
            // Whoever ends the volume waits for it, or cuts it short.
            let handle = handle.clone();
            std::thread::spawn(move || drop(handle.drain()));
        }
        while export.clients() > 0 && interrupts.so_far() < 2 && is_serving(handle) {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Ends the volume, as far as interrupts let it.
    fn end(&self, server: Server, interrupts: &Interrupts) -> Result<ExitCode> {
        let interrupted_before = interrupts.so_far();
        let stopped = ending::end(server, self.keep_dirty || interrupted_before > 1, || {
            interrupts.so_far() > interrupted_before
        })?;
        if let Some(report) = ending::report(&stopped) {
            eprintln!("headstart: {report}");
        }
        Ok(match stopped.dirty_bytes {
            1.. if !self.keep_dirty => ExitCode::from(EXIT_DIRTY),
            _ => ExitCode::SUCCESS,
        })
    }

    fn serve_file(self, path: &Path, interrupts: &Interrupts) -> Result<ExitCode> {
        let stale = is_stale(path).then(|| loop_devices(&std::path::absolute(path).unwrap_or_default()));
        let was_there = stale.is_some() || path.exists();
        // Before the volume starts, which guards its disk.
        FileExport::prepare(path)?;
        let give_back = || {
            if !was_there {
                // It is empty; that it cannot be removed changes nothing.
                let _ = fs::remove_file(path);
            }
        };
        let server = open(&self.devices.hdd, &self.devices.ssd, self.wishes).inspect_err(|_| give_back())?;
        let export = match FileExport::mount(Arc::new(server.handle()), path) {
            Ok(export) => export,
            Err(refused) => {
                // Nobody has used it: its disk is given back as it was.
                let _ = server.stop(self.keep_dirty);
                give_back();
                return Err(refused.into());
            }
        };
        if let Some(devices) = stale {
            say_stale(export.path(), &devices);
        }
        eprintln!(
            "headstart: serving {}; make it a disk with: losetup --direct-io=on -f --show {0}",
            export.path().display()
        );
        service::ready();
        wait_for_end(&export, &server.handle(), interrupts)?;
        self.end(server, interrupts)
    }
}

/// A killed server left a mount, which is gone now, and perhaps disks made of it, which fail until they are made anew.
fn say_stale(path: &Path, devices: &[PathBuf]) {
    eprintln!("headstart: {}: a killed server's mount was there; it is unmounted", path.display());
    for device in devices {
        eprintln!(
            "headstart: {0} is still made of that mount and fails: unmount what is mounted from it, then: losetup -d {0}",
            device.display()
        );
    }
}

/// Whether nobody has ended the volume.
fn is_serving(handle: &Handle) -> bool {
    handle.status().is_ok_and(|status| status.state != State::Stopping)
}

/// Serves until an interrupt, or until somebody else ends the volume or unmounts the file. A file in use is
/// served on until it is closed, or until a second interrupt.
fn wait_for_end(export: &FileExport, handle: &Handle, interrupts: &Interrupts) -> Result<()> {
    while interrupts.so_far() == 0 && !export.is_gone() && is_serving(handle) {
        std::thread::sleep(POLL_INTERVAL);
    }
    let mut has_said = false;
    while !export.is_gone() {
        match export.unmount().with_context(|| format!("cannot unmount {}", export.path().display()))? {
            Unmounted::Gone => break,
            Unmounted::InUse if interrupts.so_far() > 1 => {
                export.detach().with_context(|| format!("cannot unmount {}", export.path().display()))?;
                eprintln!("headstart: {} was in use; who used it gets errors from now on", export.path().display());
                break;
            }
            Unmounted::InUse => {}
        }
        if !std::mem::replace(&mut has_said, true) {
            say_in_use(export.path());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

fn say_in_use(path: &Path) {
    let devices = loop_devices(path);
    let who = match devices.as_slice() {
        [] => "somebody has it open".to_owned(),
        devices => {
            let names: Vec<_> = devices.iter().map(|device| device.display().to_string()).collect();
            format!("unmount what is mounted from {0}, then: losetup -d {0}", names.join(" "))
        }
    };
    eprintln!("headstart: {} is in use and served on: {who}; interrupt again to end all the same", path.display());
}
