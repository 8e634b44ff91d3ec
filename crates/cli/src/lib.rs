//! What the commands `headstart` and `headstart-lab` share.
//!
//! | module | what it owns |
//! |---|---|
//! | [`command`] | how a command begins and ends: panics, exit statuses, errors in words, log lines on stderr |
//! | [`printing`] | `print!`, `println!` and `eprintln!` that survive a closed pipe and a full disk |
//! | [`trace`] | any trace, opened: its requests by start time, whoever wrote it down |
//! | [`lanes`] | which requests of a trace wait for each other |
//! | [`documents`] | manual pages and shell completion, of either command line |
//! | [`version`] | what `--version` says |
//! | [`ending`] | how an agent is ended in order |

#[macro_use]
pub mod printing;

pub mod command;
pub mod documents;
pub mod ending;
pub mod lanes;
pub mod trace;
pub mod version;
