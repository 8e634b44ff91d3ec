//! What may be set of an engine.

/// What may be set.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Records in flight at once. More are not faster, fewer gather more writes in each (assumed; half a queue of 32).
    pub records_max: usize,
    /// A checkpoint is made when the log has grown by so many blocks; bounds what a start replays (1 GiB).
    pub checkpoint_every_blocks: u32,
    /// CLEANs that are owed before a disk FLUSH and records for them are due; bounds their memory (1 MiB).
    pub owed_max: usize,
    /// Bytes of a checkpoint that are written at once (1 MiB: an SSD is no faster with more).
    pub checkpoint_chunk_bytes: usize,
    /// Foreground orders that the disk has at once (128, what Linux lets its schedulers sort).
    pub disk_orders_max: usize,
    /// Begun when the disk has less than so many bytes to do for the foreground, or fewer orders than
    /// `disk_orders_min`. Of long orders a drive has enough with a few (1 MiB; with more it goes back and
    /// forth between them), of short ones it sorts the more the better.
    pub disk_bytes_max: u64,
    /// However long they are: a drive that writes in order has the next one when it is done with one, and
    /// those that many processes write side by side find each other (8: 320 KiB of 48 processes are written 8
    /// percent faster than with 2).
    pub disk_orders_min: usize,
    /// Blocks of a slot of staging (128 KiB: a stripe of flash).
    pub staging_slot_blocks: u32,
    /// Longest range that the disk is told at once to make zeros ([`ZERO_BYTES_MAX`] of one that can); 0: it cannot,
    /// and zeros are written to it.
    pub zero_bytes_max: u64,
}

/// A disk of 10 TB is zeros after 160,000 orders, and a write of the same place waits no longer than for some other
/// write (64 MiB, as btrfs discards).
pub const ZERO_BYTES_MAX: u64 = 64 << 20;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            records_max: 16,
            checkpoint_every_blocks: 1 << 18,
            owed_max: 1 << 14,
            checkpoint_chunk_bytes: 1 << 20,
            disk_orders_max: 128,
            disk_bytes_max: 1 << 20,
            disk_orders_min: 8,
            staging_slot_blocks: 32,
            zero_bytes_max: 0,
        }
    }
}
