//! The families of figures: their names as in Prometheus, what they count, in which unit.

/// Whether a figure can fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It never does while the agent lives.
    Counter,
    /// It can.
    Gauge,
}

/// The unit a figure is kept in. Prometheus gets nanoseconds as seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

/// Figures that differ in their labels alone and add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name in Prometheus.
    pub name: &'static str,
    /// Counter or gauge.
    pub kind: Kind,
    /// Its unit.
    pub unit: Unit,
    /// What it counts.
    pub help: &'static str,
}

macro_rules! families {
    ($($constant:ident: $name:literal, $kind:ident, $unit:ident, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Family = Family { name: $name, kind: Kind::$kind, unit: Unit::$unit, help: $help };
        )*
        /// Every family, in the order of the documents.
        pub const ALL: &[Family] = &[$($constant),*];
    };
}

families! {
    REQUESTS: "headstart_requests_total", Counter, Count, "Reads and writes of managed files by what served them, and why the disk did. A read that both sides served counts as flash, a write as disk.";
    REQUEST_BYTES: "headstart_request_bytes_total", Counter, Bytes, "Bytes that reads and writes of managed files moved, by what served them, and why the disk did.";
    CHEAP_REQUESTS: "headstart_cheap_requests_total", Counter, Count, "Requests served by the disk without a question to the agent.";
    READS_AGAIN: "headstart_reads_again_total", Counter, Count, "Parts of reads from disk that were read again, as bytes there came to flash or were written meanwhile, and whether under a lease that keeps that from happening.";
    LISTED_READS: "headstart_listed_reads_total", Counter, Count, "Parts of reads from flash that asked nobody where the bytes lie, and those that then had to, as something there had changed meanwhile.";
    LISTINGS: "headstart_listings_total", Counter, Count, "Times that the agent told all threads where the bytes of a MiB of a file lie on flash, so that they read them without a question.";
    ROUND_TRIPS: "headstart_round_trips_total", Counter, Count, "Questions of programs to the agent.";
    HINTS: "headstart_hints_total", Counter, Count, "Reads from disk that flash would have served sooner, left for the agent to fetch, or lost because a thread left too many.";
    HINTS_TAKEN: "headstart_hints_taken_total", Counter, Count, "Hints the agent took in.";
    AGENT_AWAY_WAITS: "headstart_agent_away_waits_total", Counter, Count, "Requests that lost the agent and looked for it again.";
    AGENT_AWAY_SECONDS: "headstart_agent_away_seconds_total", Counter, Nanoseconds, "Time that requests spent looking for a lost agent.";
    COMMITS: "headstart_commits_total", Counter, Count, "Pieces of writes that the agent entered in the map; a write may have several.";
    PUSHED: "headstart_pushed_commits_total", Counter, Count, "Those of them that threads did not wait for.";
    PASSED_OVER: "headstart_pushes_passed_over_total", Counter, Count, "Commits that threads pushed and then had to ask for, as their granule was closed meanwhile.";
    COMMITTED_BYTES: "headstart_committed_bytes_total", Counter, Bytes, "Bytes of these pieces.";
    WRITE_BACKS: "headstart_write_backs_total", Counter, Count, "Batches of dirty bytes written back to disk.";
    WRITTEN_BACK_BYTES: "headstart_written_back_bytes_total", Counter, Bytes, "Bytes of the batches that were written.";
    WRITTEN_BACK_EXTENTS: "headstart_written_back_extents_total", Counter, Count, "Extents that these batches made clean.";
    SEEKS_AVOIDED: "headstart_seeks_avoided_total", Counter, Count, "Extents written back together with the one before them, without a request of their own.";
    FETCHES: "headstart_fetches_total", Counter, Count, "Copies from disk to flash, finished, or given up because somebody wrote or they failed.";
    FETCHED_BYTES: "headstart_fetched_bytes_total", Counter, Bytes, "Bytes of the finished ones.";
    EVICTED_EXTENTS: "headstart_evicted_extents_total", Counter, Count, "Clean extents dropped to make room, or because they may no longer be trusted.";
    DROPPED_BYTES: "headstart_dropped_bytes_total", Counter, Bytes, "Bytes that left flash, by why they did.";
    BARRIERS: "headstart_barriers_total", Counter, Count, "Barriers, which make what was acknowledged survive power loss.";
    REFUSALS: "headstart_flash_refusals_total", Counter, Count, "Questions for flash space that were answered no.";
    WAITS: "headstart_waits_total", Counter, Count, "Requests that the agent could not answer at once, by what they waited for.";
    WAIT_SECONDS: "headstart_wait_seconds_total", Counter, Nanoseconds, "Time they waited.";
    WAIT_SECONDS_MAX: "headstart_wait_seconds_max", Gauge, Nanoseconds, "Longest such wait.";
    MESSAGES: "headstart_messages_total", Counter, Count, "Messages to the agent by kind.";
    CONNECTIONS: "headstart_connections_total", Counter, Count, "Connections to the agent.";
    ERRORS: "headstart_errors_answered_total", Counter, Count, "Requests of programs that the agent answered with an error.";
    OPENS_EXCLUDED: "headstart_opens_excluded_total", Counter, Count, "Opens of files that the site's patterns exclude.";
    JOURNAL_APPENDED: "headstart_journal_appended_bytes_total", Counter, Bytes, "Bytes appended to the journal.";
    JOURNAL_ROTATIONS: "headstart_journal_rotations_total", Counter, Count, "Grown journals that were replaced.";
    DRAINS: "headstart_drains_total", Counter, Count, "Drains after which all was on disk that was dirty when they were asked for.";
    STRANGERS: "headstart_strangers_total", Counter, Count, "Programs that the library was not in, for which flash was emptied before they started.";
    LOG_ROTATIONS: "headstart_log_rotations_total", Counter, Count, "Logs that were put aside because they had grown.";
    AGENT_STARTS: "headstart_agent_starts_total", Counter, Count, "Starts of agents of this fast directory, this one included.";
    CAPACITY: "headstart_capacity_bytes", Gauge, Bytes, "Flash that may be used.";
    MAPPED: "headstart_mapped_bytes", Gauge, Bytes, "Flash that holds bytes of files.";
    DIRTY: "headstart_dirty_bytes", Gauge, Bytes, "Bytes on flash that the disk does not have.";
    EXTENTS: "headstart_extents", Gauge, Count, "Extents on flash.";
    THREADS: "headstart_threads", Gauge, Count, "Threads of programs that take part.";
    FILES: "headstart_files", Gauge, Count, "Files known to the agent: open, or on flash.";
    FILES_DIRTY: "headstart_files_dirty", Gauge, Count, "Files with dirty bytes.";
    FILES_FAILED: "headstart_files_failed", Gauge, Count, "Files with dirty bytes whose last write-back failed.";
    JOURNAL: "headstart_journal_bytes", Gauge, Bytes, "Length of the journal.";
    DURABLE: "headstart_durable", Gauge, Count, "One if all that was acknowledged survives power loss.";
    MEMBERS: "headstart_members", Gauge, Count, "Nodes that are members of the view; zero where this one has the directory to itself, as all that follows of several nodes.";
    VIEW: "headstart_view", Gauge, Count, "Number of the view that this node has seen.";
    DEADLINE: "headstart_deadline_seconds", Gauge, Nanoseconds, "For how long programs go on without another look at the membership service.";
    AWAITED: "headstart_awaited_members", Gauge, Count, "Other nodes of which something is awaited.";
    SHARED: "headstart_shared_files", Gauge, Count, "Known files that other nodes use too, or may: they stay on the disks.";
    SENT_LETTERS: "headstart_sent_letters_total", Counter, Count, "Messages to agents of other nodes.";
    SENT_PACKETS: "headstart_sent_packets_total", Counter, Count, "Packets in which they went: what waits for the same node goes in one.";
    SENT_BYTES: "headstart_sent_bytes_total", Counter, Bytes, "Bytes of these packets, before encryption.";
    RECEIVED_LETTERS: "headstart_received_letters_total", Counter, Count, "Messages of agents of other nodes.";
    RECEIVED_BYTES: "headstart_received_bytes_total", Counter, Bytes, "Bytes of them.";
    REGION_FILES: "headstart_region_files", Gauge, Count, "Files with regions that belong on flash.";
    REGIONS: "headstart_region_bytes", Gauge, Bytes, "Bytes of these regions.";
    REGIONS_PLACED: "headstart_placed_region_bytes", Gauge, Bytes, "Bytes of these regions that are on flash.";
}
