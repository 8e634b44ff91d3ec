//! Volumes that are served: by the real event loop, over memory and files, whatever fails.

mod bench;
mod chaos;
mod clients;
mod commands;
mod concurrency;
mod emulated;
mod heads;
mod held;
mod life;
mod power_cuts;

// The engine's crash tests and these have one reference model and one way to run seeds; they name their crate's modules.
use headstart_core::{chance, request, volume};
#[path = "../../../core/src/volume/crash_tests/chances.rs"]
mod chances;
#[path = "../../../core/src/volume/crash_tests/register.rs"]
mod register;
