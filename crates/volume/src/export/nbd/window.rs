//! How much of a client is under way: requests, and the bytes that they bring or ask for.
//!
//! Who reads a client's requests waits for room here, and its answers make some once they are sent or dropped. So a
//! client that takes no answers keeps memory from nobody.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Requests of a client at once (assumed: more than the deepest queue that clients keep).
const REQUESTS_MAX: usize = 1024;
/// Bytes of them: two of the largest.
const BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Default)]
struct UnderWay {
    requests: usize,
    bytes: u64,
}

/// The window.
#[derive(Debug, Default)]
pub(super) struct Window {
    under_way: Mutex<UnderWay>,
    went: Condvar,
}

impl Window {
    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room for one more.
    pub(super) fn enter(&self, bytes: u64) {
        let is_full = |under_way: &mut UnderWay| {
            under_way.requests >= REQUESTS_MAX || under_way.requests > 0 && under_way.bytes + bytes > BYTES_MAX
        };
        let mut under_way = self.went.wait_while(self.lock(), is_full).unwrap_or_else(PoisonError::into_inner);
        under_way.requests += 1;
        under_way.bytes += bytes;
    }

    /// One has gone.
    pub(super) fn leave(&self, bytes: u64) {
        let mut under_way = self.lock();
        under_way.requests -= 1;
        under_way.bytes -= bytes;
        self.went.notify_one();
    }
}
