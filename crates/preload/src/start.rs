//! How the library comes up in a process: at the first hooked call, whoever makes it. Programs make calls before the
//! dynamic linker runs the library's own initialiser.

use std::cell::Cell;

use crate::files::{data_files, reopening};
use crate::programs::environment;
use crate::session::OpenFiles;
use crate::settings::{ALONE, OFF, ON, STARTING};
use crate::{fork, kernel, process, recording, session, settings};

thread_local! {
    /// Set in the thread that reads the settings: what it calls meanwhile passes through.
    static STARTING_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Whether hooks do anything but pass through; starts the library if nobody has.
#[inline]
pub(crate) fn active() -> bool {
    match settings::state() {
        ALONE.. => true,
        OFF => false,
        _ => start() >= ALONE,
    }
}

/// Whether there is an agent to ask; starts the library if nobody has. Hooks that move no bytes and follow no
/// descriptor only pass through without one.
#[inline]
pub(crate) fn served() -> bool {
    match settings::state() {
        ON => true,
        OFF | ALONE => false,
        _ => start() == ON,
    }
}

#[cold]
fn start() -> u32 {
    if STARTING_HERE.with(Cell::get) {
        return OFF;
    }
    if environment::current().is_null() {
        // A sanitizer begins before libc does, and calls hooked functions: nothing is known yet, and nothing decided.
        return OFF;
    }
    if !settings::begin_start() {
        while settings::state() == STARTING {
            std::hint::spin_loop();
        }
        return settings::state();
    }
    STARTING_HERE.with(|here| here.set(true));
    let errno = kernel::errno();
    environment::settle();
    if let Some(records) = settings::keep(settings::read()) {
        abort_on_panic();
        environment::start();
        process::start();
        fork::start();
        session::start(OpenFiles { reopen: reopening::reopen_all, give_descriptor_back: data_files::close_one });
        if records {
            recording::start();
            recording::turn_on();
        }
    }
    kernel::set_errno(errno);
    STARTING_HERE.with(|here| here.set(false));
    settings::end_start()
}

/// A broken invariant ends the program: a panic must not unwind into it, as a cancelled thread does.
fn abort_on_panic() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |what| {
        say(what);
        std::process::abort();
    }));
}
