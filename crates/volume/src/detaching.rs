//! Giving a disk back to its users: with its flash, which is written back first, or without.

mod draining;
mod forced;

pub use draining::{Detached, detach};
pub use forced::{ForcedError, resume, undo_guard};

#[cfg(test)]
mod tests;
