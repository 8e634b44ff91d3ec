//! How a command begins and ends.

use std::process::ExitCode;

use anyhow::{Error, Result};
use nix::sys::signal::{SigHandler, Signal, signal};

use crate::printing;

/// Headstart itself failed; programs rarely use this status.
pub const EXIT_FAILED: u8 = 125;
/// The program ended well, but dirty bytes stay on flash that nobody asked to keep there.
pub const EXIT_DIRTY: u8 = 75;

/// A broken invariant ends the process, whichever thread finds it: what it would do next cannot be trusted.
pub fn abort_on_panic() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |what| {
        say(what);
        std::process::abort();
    }));
}

/// Whoever reads what is printed may have enough, as `head` has: then the command ends, without a word. Not
/// for commands that have something to finish, nor for those that start programs, which would inherit it.
pub fn end_with_reader() {
    // SAFETY: the default action runs no code of this process, and no other thread runs yet.
    let set = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
    set.expect("the signal exists");
}

/// Prints what is wrong with a command line, or the help that was asked for; the exit status.
pub fn refuse(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS }
}

/// Says on stderr why `program` failed, if it did, and what it could not print; the exit status, which is
/// `status` of the error.
pub fn end(program: &str, result: Result<ExitCode>, status: impl Fn(&Error) -> u8) -> ExitCode {
    let code = result.unwrap_or_else(|error| {
        eprintln!("{program}: {}", in_words(&error));
        ExitCode::from(status(&error))
    });
    match printing::failed() {
        Some(error) if code == ExitCode::SUCCESS => {
            eprintln!("{program}: cannot print: {error}");
            ExitCode::from(EXIT_FAILED)
        }
        _ => code,
    }
}

/// An error and its causes; what already names its cause does not name it twice.
fn in_words(error: &Error) -> String {
    error.chain().fold(String::new(), |said, cause| match cause.to_string() {
        cause if said.is_empty() => cause,
        cause if said.contains(&cause) => said,
        cause => format!("{said}: {cause}"),
    })
}

/// Writes log lines to stderr: those of `default` (a level), or what `HEADSTART_LOG` asks for.
pub fn log_to_stderr(default: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("HEADSTART_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    // A line that cannot be written, as where the agent's log lies in a full tmpfs, is lost; saying so would
    // end the agent.
    log.log_internal_errors(false).init();
}
