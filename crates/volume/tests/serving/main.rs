//! Volumes that are served: by the real event loop, over memory and files, whatever fails.

mod bench;
mod chaos;
mod clients;
mod commands;
mod concurrency;
mod emulated;
mod heads;
mod life;
mod power_cuts;

// The engine's crash tests and these have one reference model and one way to run seeds.
#[path = "../../../block/src/crash_tests/chances.rs"]
mod chances;
#[path = "../../../block/src/crash_tests/register.rs"]
mod register;
