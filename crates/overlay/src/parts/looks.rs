//! How many slots are looked at: tests hold against it that no work grows with the number of threads that do nothing.

use headstart_protocol::shared::Shared;

/// Slots were looked at from `from` on, up to the one that was found.
pub(crate) fn note(shared: Shared<'_>, from: usize, found: Option<usize>) {
    count(found.map_or_else(|| shared.used_slots().len(), |at| at + 1) - from);
}

/// So many slots were looked at.
#[cfg(not(test))]
pub(crate) fn count(_slots: usize) {}

#[cfg(test)]
pub(crate) use counted::{count, take};

#[cfg(test)]
mod counted {
    use std::cell::Cell;

    std::thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn count(slots: usize) {
        COUNT.set(COUNT.get() + slots);
    }

    /// How many were since the last call.
    pub(crate) fn take() -> usize {
        COUNT.replace(0)
    }
}
