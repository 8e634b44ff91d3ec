//! `println!`, `print!` and `eprintln!` of this crate. Those of the standard library panic where nobody reads
//! any more or no room is left, and a panic ends the process whatever it has to finish.

use std::fmt::Arguments;
use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Write, stderr, stdout};
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, Result};

static FAILED: OnceLock<Error> = OnceLock::new();

/// Prints to stdout.
pub fn out(arguments: Arguments<'_>) {
    note(stdout().lock().write_fmt(arguments));
}

/// Prints to stderr; what cannot be said there is said nowhere.
pub fn error(arguments: Arguments<'_>) {
    let _ = stderr().lock().write_fmt(arguments);
}

/// Refuses, before there is anything to lose, a file that could not be written; what is there stays, and what
/// is not is not left behind.
pub fn refuse_unwritable(path: &Path) -> Result<()> {
    let unwritable = || format!("cannot write {}", path.display());
    if path.exists() {
        return OpenOptions::new().append(true).open(path).map(drop).with_context(unwritable);
    }
    if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    }
    OpenOptions::new().write(true).create_new(true).open(path).with_context(unwritable)?;
    std::fs::remove_file(path).with_context(unwritable)
}

/// Why something could not be printed on stdout, if so. Who closes it has read enough.
pub fn failed() -> Option<&'static Error> {
    note(stdout().lock().flush());
    FAILED.get()
}

fn note(result: std::io::Result<()>) {
    if let Err(error) = result
        && error.kind() != ErrorKind::BrokenPipe
    {
        // The first says why.
        let _ = FAILED.set(error);
    }
}

/// Prints to stdout, as the standard library does, but never panics.
#[macro_export]
macro_rules! print {
    ($($arguments:tt)*) => { $crate::printing::out(format_args!($($arguments)*)) };
}

/// A line on stdout; never panics.
#[macro_export]
macro_rules! println {
    () => { $crate::printing::out(format_args!("\n")) };
    ($($arguments:tt)*) => { $crate::printing::out(format_args!("{}\n", format_args!($($arguments)*))) };
}

/// A line on stderr; never panics.
#[macro_export]
macro_rules! eprintln {
    ($($arguments:tt)*) => { $crate::printing::error(format_args!("{}\n", format_args!($($arguments)*))) };
}
