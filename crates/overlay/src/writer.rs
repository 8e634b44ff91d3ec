//! The names by which owners of files know who touches them.

/// In a request's slot: it is not a thread's but a file's, whose number follows.
pub(crate) const OF_FILE: u32 = 1 << 31;

/// Who writes the slow file: its name in lists of writers. A thread's requests have that of its lease.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Writer {
    /// A thread under a lease, dead or alive.
    Leased(u32),
    /// A thread that saw the bit clear.
    Cheap(u32),
    /// A dead one that did.
    Quarantined(u32),
    /// A thread that reads the slow file under a lease.
    Reads(u32),
    /// A process that nobody sees, of the file with this number.
    Unseen(u32),
}

impl Writer {
    /// Each has its own.
    pub(crate) fn name(self) -> u32 {
        match self {
            Writer::Leased(slot) => slot.wrapping_mul(4),
            Writer::Cheap(slot) => slot.wrapping_mul(4) + 1,
            Writer::Quarantined(slot) => slot.wrapping_mul(4) + 2,
            Writer::Reads(slot) => slot.wrapping_mul(4) + 3,
            Writer::Unseen(number) => OF_FILE | number,
        }
    }
}
