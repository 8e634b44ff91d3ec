//! How a page cache of files is built.

use headstart_units::{KIB, MIB, Nanos};

/// The page cache of a server that reads files ahead of their readers (docs/internals/models.md, section 6).
///
/// A stream is what one job reads of one file. While it goes on, a window of pages is kept ahead of it, each window one
/// command. The window's adaptation is a calibration, no rule of PVFS2 or Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileReadAhead {
    /// Bytes of a page, the unit of reading ahead: the stripe.
    pub page_bytes: u64,
    /// Pages of a window.
    pub window_pages: u64,
    /// Pages of a window under contention.
    pub contended_window_pages: u64,
    /// Reads of other jobs that wait for the drive outside read-ahead, beyond which there is contention.
    pub foreign_reads_max: usize,
    /// Clean pages kept, oldest out first; at least two windows.
    pub cache_bytes: u64,
    /// What a read takes whose pages are all there.
    pub hit_cost: Nanos,
}

impl Default for FileReadAhead {
    /// What the stock rows of LiU's Table II were calibrated with; the size of the cache is assumed (half of
    /// LiU's 1 GB of memory).
    fn default() -> FileReadAhead {
        FileReadAhead {
            page_bytes: 64 * KIB,
            window_pages: 10,
            contended_window_pages: 3,
            foreign_reads_max: 1,
            cache_bytes: 512 * MIB,
            hit_cost: Nanos(50_000),
        }
    }
}
