//! The volume of this process: from nbdkit's start to its end.
//!
//! | interrupt (Ctrl-C, SIGTERM) | what happens |
//! |---|---|
//! | first | nbdkit takes no more requests; the volume is written back, though clients may stay connected for a while |
//! | second, clients still connected | the volume ends with what only flash holds kept there; the process ends, and with it the connections |
//! | second, after that | writing back ends; what only flash holds is kept there |

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use headstart_volume::export::opening::open;
use headstart_volume::export::{ending, service};
use headstart_volume::server::{Handle, Server};
use headstart_volume::status::State;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::api;
use crate::parameters::Parameters;

/// How often it is asked whether somebody ended the volume by its control socket.
const CONTROL_INTERVAL: Duration = Duration::from_millis(500);

/// What is served.
pub struct Serving {
    /// The disk.
    pub handle: Handle,
    /// Zeros cost no more than a record.
    pub zeros_are_fast: bool,
    keep_dirty: bool,
    server: Mutex<Option<Server>>,
}

static SERVING: OnceLock<Serving> = OnceLock::new();
static INTERRUPTS: AtomicUsize = AtomicUsize::new(0);
/// Connections.
static CLIENTS: AtomicUsize = AtomicUsize::new(0);

/// The volume. Requests come only after `start`.
pub fn serving() -> &'static Serving {
    SERVING.get().expect("nbdkit serves after after_fork has succeeded")
}

/// A client came.
pub fn connected() {
    CLIENTS.fetch_add(1, Ordering::SeqCst);
}

/// A client went.
pub fn disconnected() {
    CLIENTS.fetch_sub(1, Ordering::SeqCst);
}

/// Opens the devices, recovers the volume and serves it.
pub fn start(parameters: Parameters) -> Result<(), String> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let (hdd, ssd) = parameters.devices()?;
    let server = open(hdd, ssd, parameters.wishes).map_err(|error| error.to_string())?;
    let handle = server.handle();
    let zeros_are_fast = handle.zeros_are_fast();
    let serving = Serving {
        handle: handle.clone(),
        zeros_are_fast,
        keep_dirty: parameters.keep_dirty,
        server: Mutex::new(Some(server)),
    };
    assert!(SERVING.set(serving).is_ok(), "nbdkit starts a plugin once");
    // nbdkit's own handlers run as well.
    let signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| format!("cannot listen for signals: {error}"))?;
    std::thread::spawn(move || listen(signals));
    std::thread::spawn(move || watch(&handle));
    // nbdkit has bound its socket before this.
    service::ready();
    Ok(())
}

/// Ends the volume. Also called where it has ended, or never started.
pub fn stop() {
    let Some(serving) = SERVING.get() else { return };
    let Some(server) = serving.server.lock().expect("no panic while holding the lock").take() else { return };
    let interrupted_before = INTERRUPTS.load(Ordering::SeqCst).max(1);
    end(server, serving.keep_dirty, || INTERRUPTS.load(Ordering::SeqCst) > interrupted_before);
}

fn end(server: Server, keep_dirty: bool, is_interrupted: impl Fn() -> bool) {
    match ending::end(server, keep_dirty, is_interrupted) {
        Ok(stopped) => {
            if let Some(report) = ending::report(&stopped) {
                eprintln!("headstart: {report}");
            }
        }
        Err(error) => api::say(&error.to_string()),
    }
}

/// Counts interrupts. The second ends what waits for clients.
fn listen(mut signals: Signals) {
    for _ in signals.forever() {
        let count = INTERRUPTS.fetch_add(1, Ordering::SeqCst) + 1;
        let clients = CLIENTS.load(Ordering::SeqCst);
        if count == 1 && clients > 0 {
            eprintln!(
                "headstart: waiting for {clients} connections to close; interrupt again to cut them off and keep \
                 on flash what is not on disk yet"
            );
        }
        let serving = serving();
        if count == 1 && !serving.keep_dirty {
            // Whoever ends the volume waits for it, or cuts it short.
            std::thread::spawn(|| drop(serving.handle.drain()));
        }
        if count > 1
            && let Some(server) = serving.server.lock().expect("no panic while holding the lock").take()
        {
            end(server, true, || false);
            std::process::exit(0);
        }
    }
}

/// Lets nbdkit end when somebody else has ended the volume.
fn watch(handle: &Handle) {
    while handle.status().is_ok_and(|status| status.state != State::Stopping) {
        std::thread::sleep(CONTROL_INTERVAL);
    }
    api::shut_down();
}
