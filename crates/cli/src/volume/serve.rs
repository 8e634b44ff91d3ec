//! `headstart volume serve`: a volume as a disk, until it is told to stop.
//!
//! Over NBD on a unix socket, or as a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{ArgGroup, Args};
use headstart_cli::command::{EXIT_DIRTY, log_to_stderr};
use headstart_policy::server::liu;
use headstart_volume::export::ending;
use headstart_volume::export::file::{FileExport, Unmounted, is_stale, loop_devices};
use headstart_volume::export::nbd::NbdExport;
use headstart_volume::export::opening::{Wishes, open};
use headstart_volume::export::service;
use headstart_volume::server::{Handle, Server};
use headstart_volume::settings::{Mode, PolicyName};
use headstart_volume::status::State;

use super::{Devices, socket};
use crate::interrupts::Interrupts;

/// How often it is asked whether the volume is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("export").required(true))]
pub struct Serve {
    #[command(flatten)]
    devices: Devices,

    /// Serve NBD on a unix socket
    #[arg(long, value_name = "SOCKET", group = "export")]
    nbd: Option<PathBuf>,

    /// Serve a file that `losetup --direct-io=on -f --show FILE` makes a disk; it is empty or absent
    #[arg(long, value_name = "FILE", group = "export")]
    mount_file: Option<PathBuf>,

    /// When a write is acknowledged [default: as the volume was created]
    #[arg(long, value_name = "write-back|write-through")]
    mode: Option<Mode>,

    /// What goes to flash [default: as the volume was created]
    #[arg(long, value_name = PolicyName::KNOWN)]
    policy: Option<PolicyName>,

    /// The most that iTransformer adds to a foreground request
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    delay_max_ms: u32,

    /// Percent of a segment that is asked for while it is measured, from which on LiU lifts and loads it
    #[arg(long, value_name = "PERCENT", default_value_t = liu::Settings::default().threshold_percent, value_parser = clap::value_parser!(u32).range(1..=100))]
    liu_threshold: u32,

    /// At the end leave on flash what is not on disk yet, instead of writing it back
    #[arg(long)]
    keep_dirty: bool,
}

impl Serve {
    pub fn execute(&self) -> Result<ExitCode> {
        match (&self.nbd, &self.mount_file) {
            (Some(socket), _) => self.serve_nbd(socket),
            (None, Some(path)) => self.serve_file(path),
            (None, None) => unreachable!("the command line asks for one of them"),
        }
    }

    fn serve_nbd(&self, path: &Path) -> Result<ExitCode> {
        log_to_stderr("warn");
        let interrupts = Interrupts::listen()?;
        // Before the volume starts, which guards its disk.
        socket::free(path)?;
        let server = open(&self.devices.hdd, &self.devices.ssd, self.wishes())?;
        let mut export = match NbdExport::listen(server.handle(), path) {
            Ok(export) => export,
            Err(refused) => {
                // Nobody has used it: its disk is given back as it was.
                let _ = server.stop(self.keep_dirty);
                return Err(refused).with_context(|| format!("cannot listen on {}", path.display()));
            }
        };
        service::ready();
        self.wait_for_clients(&mut export, &server.handle(), &interrupts);
        self.end(server, &interrupts)
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

    fn wishes(&self) -> Wishes {
        Wishes {
            mode: self.mode,
            policy: self.policy,
            delay_max: Some(Duration::from_millis(self.delay_max_ms.into())),
            threshold_percent: Some(self.liu_threshold),
        }
    }

    fn serve_file(&self, path: &Path) -> Result<ExitCode> {
        log_to_stderr("warn");
        let interrupts = Interrupts::listen()?;
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
        let server = open(&self.devices.hdd, &self.devices.ssd, self.wishes()).inspect_err(|_| give_back())?;
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
        wait_for_end(&export, &server.handle(), &interrupts)?;
        self.end(server, &interrupts)
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
