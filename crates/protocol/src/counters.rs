//! What is counted: one list of figures, each with its name, labels and unit, next to the code that counts it.
//!
//! ```text
//! library: Counter --> its thread's slot --\
//! overlay: Counters ------------------------+--> Status: `status`, `status --json`, Prometheus text
//! agent:   its own list --------------------/
//! ```
//!
//! A figure belongs to a [`Family`], and its labels tell it from the others of the family; the figures of a
//! family add up. A counter never falls while its agent lives. What a request came to is counted once
//! ([`Served`]), its bytes where they went: summed over outcomes and reasons they are the requests that
//! programs made of managed files and the bytes these moved. Requests of no bytes, and those that fail for
//! their arguments alone, are not counted.

pub mod families;

use headstart_units::atomics::{AtomicU64, Ordering};

pub use families::{Family, Kind, Unit};

use headstart_policy::client::Reason;
use headstart_units::request::Direction;

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its name in `status --json`.
    pub key: &'static str,
    /// What it is one of.
    pub family: &'static Family,
    /// What tells it from the others.
    pub labels: &'static [(&'static str, &'static str)],
}

/// Declares a structure of figures, and optionally an enum that names its fields by index.
#[macro_export]
macro_rules! figures {
    (
        $(#[$meta:meta])* $structure:ident {
            $($field:ident: $family:ident [$($label:ident = $value:literal),*];)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $structure {
            $(
                #[doc = concat!("See [`", stringify!($family), "`](crate::counters::families)", $("; ", stringify!($label), ": ", $value,)* ".")]
                pub $field: u64,
            )*
        }

        impl $structure {
            /// What each field is.
            pub const FIGURES: &[$crate::counters::Figure] = &[$(
                $crate::counters::Figure {
                    key: stringify!($field),
                    family: &$crate::counters::families::$family,
                    labels: &[$((stringify!($label), $value)),*],
                },
            )*];

            /// The fields with their values.
            pub fn figures(&self) -> impl Iterator<Item = (&'static $crate::counters::Figure, u64)> {
                Self::FIGURES.iter().zip([$(self.$field),*])
            }

            /// Applies `change` to every field with the same field of `other`.
            pub fn combine(&mut self, other: &$structure, change: impl Fn(&mut u64, u64)) {
                $(change(&mut self.$field, other.$field);)*
            }
        }
    };
    (
        $(#[$meta:meta])* $structure:ident, $(#[$index_meta:meta])* $index:ident {
            $($variant:ident $field:ident: $family:ident [$($label:ident = $value:literal),*];)*
        }
    ) => {
        $crate::figures! { $(#[$meta])* $structure { $($field: $family [$($label = $value),*];)* } }

        $(#[$index_meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $index {
            $(
                #[doc = concat!("`", stringify!($field), "`.")]
                $variant,
            )*
        }

        impl $structure {
            /// Adds what a thread counted.
            pub fn add(&mut self, cells: &[AtomicU64]) {
                $(self.$field = self.$field.saturating_add(cells[$index::$variant as usize].load(Ordering::Relaxed));)*
            }
        }
    };
}

figures! {
    /// What the programs' requests came to; counted by the library.
    RequestCounters,
    /// Index of a figure of [`RequestCounters`] among a slot's counters.
    Counter {
        AbsorbedRequests absorbed_requests_total: REQUESTS [direction = "write", outcome = "flash"];
        AbsorbedBytes absorbed_bytes_total: REQUEST_BYTES [direction = "write", outcome = "flash"];
        FlashReadRequests flash_read_requests_total: REQUESTS [direction = "read", outcome = "flash"];
        FlashReadBytes flash_read_bytes_total: REQUEST_BYTES [direction = "read", outcome = "flash"];
        DiskReadMissRequests disk_read_miss_requests_total: REQUESTS [direction = "read", outcome = "disk", reason = "not_on_flash_yet"];
        DiskReadMissBytes disk_read_miss_bytes_total: REQUEST_BYTES [direction = "read", outcome = "disk", reason = "not_on_flash_yet"];
        DiskReadUnwantedRequests disk_read_unwanted_requests_total: REQUESTS [direction = "read", outcome = "disk", reason = "not_critical"];
        DiskReadUnwantedBytes disk_read_unwanted_bytes_total: REQUEST_BYTES [direction = "read", outcome = "disk", reason = "not_critical"];
        DiskReadOffRequests disk_read_off_requests_total: REQUESTS [direction = "read", outcome = "disk", reason = "policy_off"];
        DiskReadOffBytes disk_read_off_bytes_total: REQUEST_BYTES [direction = "read", outcome = "disk", reason = "policy_off"];
        DiskReadExcludedRequests disk_read_excluded_requests_total: REQUESTS [direction = "read", outcome = "disk", reason = "excluded"];
        DiskReadExcludedBytes disk_read_excluded_bytes_total: REQUEST_BYTES [direction = "read", outcome = "disk", reason = "excluded"];
        DiskReadBypassedRequests disk_read_bypassed_requests_total: REQUESTS [direction = "read", outcome = "disk", reason = "stream_or_mapping"];
        DiskReadBypassedBytes disk_read_bypassed_bytes_total: REQUEST_BYTES [direction = "read", outcome = "disk", reason = "stream_or_mapping"];
        DiskReadSoonerRequests disk_read_sooner_requests_total: REQUESTS [direction = "read", outcome = "disk", reason = "sooner"];
        DiskReadSoonerBytes disk_read_sooner_bytes_total: REQUEST_BYTES [direction = "read", outcome = "disk", reason = "sooner"];
        DiskReadEndRequests disk_read_end_requests_total: REQUESTS [direction = "read", outcome = "disk", reason = "end_of_file"];
        FailedReads failed_read_requests_total: REQUESTS [direction = "read", outcome = "failed"];
        DiskWriteUnwantedRequests disk_write_unwanted_requests_total: REQUESTS [direction = "write", outcome = "disk", reason = "not_critical"];
        DiskWriteUnwantedBytes disk_write_unwanted_bytes_total: REQUEST_BYTES [direction = "write", outcome = "disk", reason = "not_critical"];
        DiskWriteNoSpaceRequests disk_write_no_space_requests_total: REQUESTS [direction = "write", outcome = "disk", reason = "no_space"];
        DiskWriteNoSpaceBytes disk_write_no_space_bytes_total: REQUEST_BYTES [direction = "write", outcome = "disk", reason = "no_space"];
        DiskWriteOffRequests disk_write_off_requests_total: REQUESTS [direction = "write", outcome = "disk", reason = "policy_off"];
        DiskWriteOffBytes disk_write_off_bytes_total: REQUEST_BYTES [direction = "write", outcome = "disk", reason = "policy_off"];
        DiskWriteExcludedRequests disk_write_excluded_requests_total: REQUESTS [direction = "write", outcome = "disk", reason = "excluded"];
        DiskWriteExcludedBytes disk_write_excluded_bytes_total: REQUEST_BYTES [direction = "write", outcome = "disk", reason = "excluded"];
        DiskWriteBypassedRequests disk_write_bypassed_requests_total: REQUESTS [direction = "write", outcome = "disk", reason = "stream_or_mapping"];
        DiskWriteBypassedBytes disk_write_bypassed_bytes_total: REQUEST_BYTES [direction = "write", outcome = "disk", reason = "stream_or_mapping"];
        DiskWriteHeldUpRequests disk_write_held_up_requests_total: REQUESTS [direction = "write", outcome = "disk", reason = "held_up"];
        DiskWriteHeldUpBytes disk_write_held_up_bytes_total: REQUEST_BYTES [direction = "write", outcome = "disk", reason = "held_up"];
        DiskWriteAppendRequests disk_write_append_requests_total: REQUESTS [direction = "write", outcome = "disk", reason = "append"];
        DiskWriteAppendBytes disk_write_append_bytes_total: REQUEST_BYTES [direction = "write", outcome = "disk", reason = "append"];
        DiskWriteTooFarRequests disk_write_too_far_requests_total: REQUESTS [direction = "write", outcome = "disk", reason = "too_far"];
        DiskWriteTooFarBytes disk_write_too_far_bytes_total: REQUEST_BYTES [direction = "write", outcome = "disk", reason = "too_far"];
        DiskWriteFlashFailedRequests disk_write_flash_failed_requests_total: REQUESTS [direction = "write", outcome = "disk", reason = "flash_failed"];
        DiskWriteFlashFailedBytes disk_write_flash_failed_bytes_total: REQUEST_BYTES [direction = "write", outcome = "disk", reason = "flash_failed"];
        DiskWriteInterruptRequests disk_write_interrupt_requests_total: REQUESTS [direction = "write", outcome = "disk", reason = "in_signal_handler"];
        DiskWriteInterruptBytes disk_write_interrupt_bytes_total: REQUEST_BYTES [direction = "write", outcome = "disk", reason = "in_signal_handler"];
        FailedWrites failed_write_requests_total: REQUESTS [direction = "write", outcome = "failed"];
        HintsLeft hints_left_total: HINTS [outcome = "left"];
        HintsLost hints_lost_total: HINTS [outcome = "lost"];
        RoundTrips round_trips_total: ROUND_TRIPS [];
        CheapRequests cheap_requests_total: CHEAP_REQUESTS [];
        ReadsAgain reads_again_total: READS_AGAIN [lease = "no"];
        ReadsAgainLeased reads_again_leased_total: READS_AGAIN [lease = "yes"];
        ListedReads listed_reads_total: LISTED_READS [outcome = "counts"];
        ListedReadsInVain listed_reads_in_vain_total: LISTED_READS [outcome = "in_vain"];
        AgentAwayWaits agent_away_waits_total: AGENT_AWAY_WAITS [];
        AgentAwayNs agent_away_ns_total: AGENT_AWAY_SECONDS [];
    }
}

/// What a request of some bytes came to. Where it went to both sides, a read counts as served from flash and
/// a write as sent to disk; the bytes count where they went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// A write, absorbed.
    Absorbed,
    /// A read, from flash.
    Flash,
    /// A read that flash would have served sooner, had it been there.
    ReadMiss,
    /// A read that the disk serves no later.
    ReadUnwanted,
    /// A read under no policy.
    ReadOff,
    /// A read of an excluded file.
    ReadExcluded,
    /// A read of a file that the process uses as a stream or a mapping.
    ReadBypassed,
    /// A read of bytes that flash has too, which the disks answer sooner.
    ReadSooner,
    /// A read that found no byte.
    ReadEnd,
    /// A read that failed.
    ReadFailed,
    /// A write that the disk serves no later.
    WriteUnwanted,
    /// A write without space on flash.
    WriteNoSpace,
    /// A write under no policy.
    WriteOff,
    /// A write to an excluded file.
    WriteExcluded,
    /// A write to a file that a process uses as a stream or a mapping.
    WriteBypassed,
    /// A write to bytes that requests of others held, which did not end.
    WriteHeldUp,
    /// A write to the end of the file, wherever that is.
    WriteAppend,
    /// A write past a limit on file sizes, or so far past the end that it may be.
    WriteTooFar,
    /// A write that flash did not take.
    WriteFlashFailed,
    /// A write in a signal handler that interrupted another request.
    WriteInterrupt,
    /// A write that failed.
    WriteFailed,
}

impl Served {
    /// What counts such requests, and their bytes.
    #[inline]
    pub const fn counters(self) -> (Counter, Option<Counter>) {
        match self {
            Served::Absorbed => (Counter::AbsorbedRequests, Some(Counter::AbsorbedBytes)),
            Served::Flash => (Counter::FlashReadRequests, Some(Counter::FlashReadBytes)),
            Served::ReadMiss => (Counter::DiskReadMissRequests, Some(Counter::DiskReadMissBytes)),
            Served::ReadUnwanted => (Counter::DiskReadUnwantedRequests, Some(Counter::DiskReadUnwantedBytes)),
            Served::ReadOff => (Counter::DiskReadOffRequests, Some(Counter::DiskReadOffBytes)),
            Served::ReadExcluded => (Counter::DiskReadExcludedRequests, Some(Counter::DiskReadExcludedBytes)),
            Served::ReadBypassed => (Counter::DiskReadBypassedRequests, Some(Counter::DiskReadBypassedBytes)),
            Served::ReadSooner => (Counter::DiskReadSoonerRequests, Some(Counter::DiskReadSoonerBytes)),
            Served::ReadEnd => (Counter::DiskReadEndRequests, None),
            Served::ReadFailed => (Counter::FailedReads, None),
            Served::WriteUnwanted => (Counter::DiskWriteUnwantedRequests, Some(Counter::DiskWriteUnwantedBytes)),
            Served::WriteNoSpace => (Counter::DiskWriteNoSpaceRequests, Some(Counter::DiskWriteNoSpaceBytes)),
            Served::WriteOff => (Counter::DiskWriteOffRequests, Some(Counter::DiskWriteOffBytes)),
            Served::WriteExcluded => (Counter::DiskWriteExcludedRequests, Some(Counter::DiskWriteExcludedBytes)),
            Served::WriteBypassed => (Counter::DiskWriteBypassedRequests, Some(Counter::DiskWriteBypassedBytes)),
            Served::WriteHeldUp => (Counter::DiskWriteHeldUpRequests, Some(Counter::DiskWriteHeldUpBytes)),
            Served::WriteAppend => (Counter::DiskWriteAppendRequests, Some(Counter::DiskWriteAppendBytes)),
            Served::WriteTooFar => (Counter::DiskWriteTooFarRequests, Some(Counter::DiskWriteTooFarBytes)),
            Served::WriteFlashFailed => {
                (Counter::DiskWriteFlashFailedRequests, Some(Counter::DiskWriteFlashFailedBytes))
            }
            Served::WriteInterrupt => (Counter::DiskWriteInterruptRequests, Some(Counter::DiskWriteInterruptBytes)),
            Served::WriteFailed => (Counter::FailedWrites, None),
        }
    }
}

impl Served {
    /// A request that goes to disk for `reason`.
    pub(crate) const fn by_disk(direction: Direction, reason: Reason) -> Served {
        match (direction, reason) {
            (Direction::Read, Reason::Off) => Served::ReadOff,
            (Direction::Read, Reason::NoBenefit) => Served::ReadUnwanted,
            (Direction::Read, Reason::Excluded) => Served::ReadExcluded,
            (Direction::Read, Reason::Bypassed) => Served::ReadBypassed,
            (Direction::Write, Reason::Off) => Served::WriteOff,
            (Direction::Write, Reason::NoBenefit) => Served::WriteUnwanted,
            (Direction::Write, Reason::Excluded) => Served::WriteExcluded,
            (Direction::Write, Reason::Bypassed) => Served::WriteBypassed,
        }
    }
}

impl RequestCounters {
    /// What was added since `earlier`.
    pub fn since(&self, earlier: &RequestCounters) -> RequestCounters {
        let mut since = *self;
        since.combine(earlier, |value, before| *value = value.saturating_sub(before));
        since
    }

    /// Sum of a family's figures whose labels include `label`.
    pub fn sum(&self, family: &Family, labels: &[(&str, &str)]) -> u64 {
        let of = |figure: &Figure| figure.family == family && labels.iter().all(|label| figure.labels.contains(label));
        self.figures().filter(|(figure, _)| of(figure)).fold(0, |sum, (_, value)| sum.saturating_add(value))
    }

    /// Share of the requests that flash served.
    pub fn flash_share(&self) -> f64 {
        let flash = self.sum(&families::REQUESTS, &[("outcome", "flash")]);
        let all = self.sum(&families::REQUESTS, &[]);
        if all == 0 { 0.0 } else { flash as f64 / all as f64 }
    }
}

figures! {
    /// What the overlay did since the agent started.
    Counters {
        absorbed_requests_total: COMMITS [];
        pushed_commits_total: PUSHED [];
        pushes_passed_over_total: PASSED_OVER [];
        absorbed_bytes_total: COMMITTED_BYTES [];
        write_backs_total: WRITE_BACKS [outcome = "done"];
        write_back_errors_total: WRITE_BACKS [outcome = "failed"];
        written_back_bytes_total: WRITTEN_BACK_BYTES [];
        written_back_extents_total: WRITTEN_BACK_EXTENTS [];
        seeks_avoided_total: SEEKS_AVOIDED [];
        fetches_total: FETCHES [outcome = "done"];
        fetches_cancelled_total: FETCHES [outcome = "cancelled"];
        fetched_bytes_total: FETCHED_BYTES [];
        listings_total: LISTINGS [];
        evicted_extents_total: EVICTED_EXTENTS [];
        dropped_overwritten_bytes_total: DROPPED_BYTES [reason = "overwritten"];
        dropped_direct_write_bytes_total: DROPPED_BYTES [reason = "direct_write"];
        dropped_truncate_bytes_total: DROPPED_BYTES [reason = "truncate"];
        dropped_eviction_bytes_total: DROPPED_BYTES [reason = "eviction"];
        dropped_unlink_bytes_total: DROPPED_BYTES [reason = "unlink"];
        dropped_foreign_change_bytes_total: DROPPED_BYTES [reason = "foreign_change"];
        dropped_bypass_bytes_total: DROPPED_BYTES [reason = "stream_or_mapping"];
        dropped_not_extended_bytes_total: DROPPED_BYTES [reason = "not_extended"];
        dropped_discard_bytes_total: DROPPED_BYTES [reason = "discarded"];
        dropped_flash_failed_bytes_total: DROPPED_BYTES [reason = "flash_failed"];
        barriers_total: BARRIERS [outcome = "done"];
        barrier_errors_total: BARRIERS [outcome = "failed"];
        no_space_total: REFUSALS [reason = "no_space"];
        refused_bypassed_total: REFUSALS [reason = "stream_or_mapping"];
        refused_held_up_total: REFUSALS [reason = "held_up"];
        critical_reads_total: HINTS_TAKEN [];
        slot_waits_total: WAITS [cause = "requests"];
        slot_wait_ns_total: WAIT_SECONDS [cause = "requests"];
        slot_wait_ns_max: WAIT_SECONDS_MAX [cause = "requests"];
        space_waits_total: WAITS [cause = "space"];
        space_wait_ns_total: WAIT_SECONDS [cause = "space"];
        space_wait_ns_max: WAIT_SECONDS_MAX [cause = "space"];
        copy_waits_total: WAITS [cause = "copies"];
        copy_wait_ns_total: WAIT_SECONDS [cause = "copies"];
        copy_wait_ns_max: WAIT_SECONDS_MAX [cause = "copies"];
        write_back_waits_total: WAITS [cause = "write_backs"];
        write_back_wait_ns_total: WAIT_SECONDS [cause = "write_backs"];
        write_back_wait_ns_max: WAIT_SECONDS_MAX [cause = "write_backs"];
        barrier_waits_total: WAITS [cause = "barriers"];
        barrier_wait_ns_total: WAIT_SECONDS [cause = "barriers"];
        barrier_wait_ns_max: WAIT_SECONDS_MAX [cause = "barriers"];
    }
}

impl Counters {
    /// Bytes that left flash, for whatever reason.
    pub fn dropped_bytes(&self) -> u64 {
        let dropped = self.figures().filter(|(figure, _)| *figure.family == families::DROPPED_BYTES);
        dropped.map(|(_, value)| value).sum()
    }

    /// Counts a wait of `ns` nanoseconds.
    pub fn waited(&mut self, wait: Wait, ns: u64) {
        let (count, sum, max) = match wait {
            Wait::Requests => (&mut self.slot_waits_total, &mut self.slot_wait_ns_total, &mut self.slot_wait_ns_max),
            Wait::Space => (&mut self.space_waits_total, &mut self.space_wait_ns_total, &mut self.space_wait_ns_max),
            Wait::Copies => (&mut self.copy_waits_total, &mut self.copy_wait_ns_total, &mut self.copy_wait_ns_max),
            Wait::WriteBacks => {
                (&mut self.write_back_waits_total, &mut self.write_back_wait_ns_total, &mut self.write_back_wait_ns_max)
            }
            Wait::Barriers => {
                (&mut self.barrier_waits_total, &mut self.barrier_wait_ns_total, &mut self.barrier_wait_ns_max)
            }
        };
        *count += 1;
        *sum += ns;
        *max = ns.max(*max);
    }
}

/// What a request may wait for in the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A commit: other threads' requests on its range, and the extension of the file.
    Requests,
    /// An absorbed write: places that a barrier or a write-back makes free.
    Space,
    /// A direct write or a truncation: the copy under way on its range.
    Copies,
    /// A write-back that a program asked for, or needs before it uses a stream or a mapping.
    WriteBacks,
    /// fsync, and opens of files whose past must be durable first.
    Barriers,
}

/// Why bytes leave flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Newer bytes came to flash.
    Overwritten,
    /// They were written to disk.
    DirectWrite,
    /// The file was cut.
    Truncate,
    /// Room was needed, or the bytes may no longer be trusted after the death of a writer.
    Eviction,
    /// The file is gone.
    Unlink,
    /// Another program changed the file.
    ForeignChange,
    /// A program writes the file as a stream or a mapping.
    Bypass,
    /// The file could not be made long enough for them.
    NotExtended,
    /// The user gave them up.
    Discarded,
    /// Flash did not give them, and the disk has them.
    FlashFailed,
}

impl Counters {
    /// What counts bytes that leave flash.
    pub fn dropped(&mut self, why: Dropped) -> &mut u64 {
        match why {
            Dropped::Overwritten => &mut self.dropped_overwritten_bytes_total,
            Dropped::DirectWrite => &mut self.dropped_direct_write_bytes_total,
            Dropped::Truncate => &mut self.dropped_truncate_bytes_total,
            Dropped::Eviction => &mut self.dropped_eviction_bytes_total,
            Dropped::Unlink => &mut self.dropped_unlink_bytes_total,
            Dropped::ForeignChange => &mut self.dropped_foreign_change_bytes_total,
            Dropped::Bypass => &mut self.dropped_bypass_bytes_total,
            Dropped::NotExtended => &mut self.dropped_not_extended_bytes_total,
            Dropped::Discarded => &mut self.dropped_discard_bytes_total,
            Dropped::FlashFailed => &mut self.dropped_flash_failed_bytes_total,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::shared::{COUNTERS_MAX, Slot};

    #[test]
    fn what_a_slot_counts_comes_back_under_its_name() {
        assert!(RequestCounters::FIGURES.len() <= COUNTERS_MAX, "a slot has room for every figure");
        let slot = Slot::default();
        slot.served(Served::WriteAppend, 7);
        slot.served(Served::ReadEnd, 0);
        slot.count(Counter::AgentAwayNs, 3);
        let mut sum = RequestCounters::default();
        sum.add(&slot.counters);
        sum.add(&slot.counters);
        assert_eq!((sum.disk_write_append_requests_total, sum.disk_write_append_bytes_total), (2, 14));
        assert_eq!((sum.disk_read_end_requests_total, sum.agent_away_ns_total), (2, 6));
        assert_eq!(sum.sum(&families::REQUESTS, &[("direction", "write")]), 2);
    }

    #[test]
    fn no_two_figures_have_the_same_name() {
        let all: Vec<&Figure> = RequestCounters::FIGURES.iter().chain(Counters::FIGURES).collect();
        let names: BTreeSet<_> = all.iter().map(|figure| (figure.family.name, figure.labels)).collect();
        assert_eq!(names.len(), all.len());
        for figures in [RequestCounters::FIGURES, Counters::FIGURES] {
            let keys: BTreeSet<_> = figures.iter().map(|figure| figure.key).collect();
            assert_eq!(keys.len(), figures.len());
        }
    }
}
