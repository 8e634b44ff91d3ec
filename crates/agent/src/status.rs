//! What the agent says of itself: the answer to `status`, also what `drain` watches.

use headstart_core::overlay::Counters;
use serde::{Deserialize, Serialize};

/// Commands of the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// How things stand.
    Status,
    /// Write dirty bytes back, all or those of one file.
    Drain {
        /// Absolute path of a file.
        path: Option<String>,
        /// Even over files that another program changed since; always so for one file.
        #[serde(default)]
        over_changes: bool,
    },
    /// Give dirty bytes up, all or those of one file, as far as no program has the files open.
    Discard {
        /// Absolute path of a file, as the status names it.
        path: Option<String>,
    },
    /// No longer insist on writing everything back.
    KeepDirty,
    /// Answered when everything acknowledged before survives power loss.
    Sync,
    /// Use so much flash from now on.
    Configure {
        /// `20%` or a size.
        capacity: String,
    },
    /// End, if no process takes part.
    Stop,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// It failed.
    Error {
        /// Why, and what to do.
        error: String,
    },
    /// How things stand now.
    Status(Box<Status>),
}

/// How things stand.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The agent's process.
    pub pid: u32,
    /// The slow directory.
    pub slow: String,
    /// The fast directory.
    pub fast: String,
    /// The capacity as it was asked for.
    pub capacity: String,
    /// Bytes of flash it comes to.
    pub capacity_bytes: u64,
    /// Bytes of flash that hold extents.
    pub mapped_bytes: u64,
    /// Bytes on flash that the disk does not have.
    pub dirty_bytes: u64,
    /// Extents.
    pub extents: u64,
    /// Threads taking part.
    pub threads: u64,
    /// Everything acknowledged survives power loss.
    pub durable: bool,
    /// Everything is being written back.
    pub draining: bool,
    /// Files with bytes on flash, or open: first those that cannot be written back, then those with dirty bytes; not all if
    /// they are many.
    pub files: Vec<FileStatus>,
    /// Number of files known.
    pub files_known: u64,
    /// Number of files with dirty bytes.
    pub files_dirty: u64,
    /// Number of files with dirty bytes whose last write-back failed.
    pub files_failed: u64,
    /// What the agent did.
    pub agent: Counters,
    /// What the programs' requests met, since the agent started.
    pub requests: RequestCounters,
    /// Bytes of the journal.
    pub journal_bytes: u64,
}

/// One file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FileStatus {
    /// Where it is; bytes that are no UTF-8 are replaced.
    pub path: String,
    /// Bytes the disk does not have.
    pub dirty_bytes: u64,
    /// Why its last write-back failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

macro_rules! request_counters {
    ($($name:ident = $counter:ident: $doc:literal,)*) => {
        /// What the programs' requests met.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct RequestCounters {
            $(#[doc = $doc] pub $name: u64,)*
        }
        impl RequestCounters {
            /// Adds what a slot counted.
            pub fn add(&mut self, slot: &headstart_core::protocol::shared::Slot) {
                use headstart_core::protocol::shared::Counter;
                use std::sync::atomic::Ordering;
                $(self.$name += slot.counters[Counter::$counter as usize].load(Ordering::Relaxed);)*
            }
            /// What was added since `earlier`.
            pub fn since(&self, earlier: &RequestCounters) -> RequestCounters {
                RequestCounters { $($name: self.$name.saturating_sub(earlier.$name),)* }
            }
        }
    };
}

request_counters! {
    absorbed_requests_total = AbsorbedRequests: "Writes absorbed by flash.",
    absorbed_bytes_total = AbsorbedBytes: "Their bytes.",
    flash_read_requests_total = FlashReadRequests: "Reads served from flash, in whole or in part.",
    flash_read_bytes_total = FlashReadBytes: "Their bytes.",
    disk_read_miss_requests_total = DiskReadMissRequests: "Reads served by the disk.",
    disk_read_bytes_total = DiskReadBytes: "Their bytes.",
    disk_write_unwanted_requests_total = DiskWriteUnwantedRequests: "Writes the cost model left to the disk.",
    disk_write_no_space_requests_total = DiskWriteNoSpaceRequests: "Writes that found no flash space.",
    disk_write_bytes_total = DiskWriteBytes: "Bytes written to disk by programs.",
    critical_read_misses_total = CriticalReadMisses: "Critical reads that missed.",
    hints_lost_total = HintsLost: "Hints lost because a ring was full.",
    round_trips_total = RoundTrips: "Questions to the agent.",
    cheap_requests_total = CheapRequests: "Requests without a question to the agent.",
}

impl RequestCounters {
    /// Share of the requests that flash served.
    pub fn flash_share(&self) -> f64 {
        let flash = self.absorbed_requests_total + self.flash_read_requests_total;
        let disk = self.disk_read_miss_requests_total
            + self.disk_write_unwanted_requests_total
            + self.disk_write_no_space_requests_total;
        if flash + disk == 0 { 0.0 } else { flash as f64 / (flash + disk) as f64 }
    }
}
