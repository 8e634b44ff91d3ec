//! Signals while `run` and `drain` wait: counted instead of obeyed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::exfiltrator::origin::Origin;
use signal_hook::low_level::siginfo::Cause;

/// Ctrl-C, SIGTERM and SIGHUP. A terminal sends Ctrl-C to the program as well; the others are passed on to
/// it, and an interrupt that somebody else sent.
pub struct Interrupts {
    count: Arc<AtomicU32>,
    program: Arc<AtomicI32>,
}

impl Interrupts {
    /// Counts from now on.
    pub fn listen() -> Result<Interrupts> {
        let mut signals =
            SignalsInfo::<WithOrigin>::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen for signals")?;
        let interrupts = Interrupts { count: Arc::default(), program: Arc::default() };
        let (count, program) = (interrupts.count.clone(), interrupts.program.clone());
        std::thread::spawn(move || {
            for origin in signals.forever() {
                count.fetch_add(1, Ordering::SeqCst);
                let process = program.load(Ordering::SeqCst);
                if let Ok(signal) = Signal::try_from(origin.signal)
                    && (signal != Signal::SIGINT || is_sent(&origin, process))
                    && process > 0
                {
                    // It may have ended by itself in this moment.
                    let _ = kill(Pid::from_raw(process), signal);
                }
            }
        });
        Ok(interrupts)
    }

    /// Passes signals on to a child from now on; zero: to nobody.
    pub fn pass_to(&self, process: u32) {
        self.program.store(i32::try_from(process).unwrap_or(0), Ordering::SeqCst);
    }

    /// How many came so far.
    pub fn so_far(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }
}

/// Whether a process sent it, and not the program itself to its group, or the terminal.
fn is_sent(origin: &Origin, program: i32) -> bool {
    matches!(origin.cause, Cause::Sent(_)) && origin.process.is_none_or(|sender| sender.pid != program)
}
