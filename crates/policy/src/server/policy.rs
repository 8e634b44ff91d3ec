//! What an engine asks of a policy, and what it tells it of itself.

use headstart_units::Nanos;
use headstart_units::request::Range;

/// From here on a disk gains little by longer writes (assumed: 10 ms of a modern disk's transfer).
const WRITE_BACK_BYTES_MAX: u64 = 2 << 20;

/// How things stand: a record of figures that the engine fills in anew for each question, at one place, and that
/// nobody keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The time.
    pub now: Nanos,
    /// Blocks of the ring.
    pub ring_blocks: u32,
    /// Those that may be written.
    pub free_blocks: u32,
    /// The log holds what the disk does not.
    pub is_dirty: bool,
    /// Write-backs under way.
    pub write_backs: usize,
    /// A write waits for room.
    pub is_full: bool,
    /// What flash takes for a byte of long records, in picoseconds, as far as it is known.
    pub flash_ps_per_byte: Option<u64>,
    /// Bytes of all writes that are not finished.
    pub written_bytes: u64,
    /// Parts of writes that wait for the log.
    pub log_items: usize,
    /// Bytes of them.
    pub log_bytes: u64,
    /// Everything is to be written back.
    pub draining: bool,
    /// Foreground orders that wait for the disk.
    pub waiting: usize,
    /// Those of them in front of the gate.
    pub admitted: usize,
    /// When the one that waits longest came.
    pub oldest: Option<Nanos>,
    /// Foreground orders that the disk has.
    pub in_flight: usize,
    /// Bytes of them.
    pub in_flight_bytes: u64,
    /// When the last foreground order came or ended.
    pub foreground_at: Nanos,
    /// Fetches that wait for their turn.
    pub fetches_waiting: usize,
    /// Fetches that the disk has.
    pub fetches: usize,
    /// Bytes of the staging area.
    pub staging_bytes: u64,
    /// Lifts that the disk has.
    pub lifts: usize,
}

impl Load {
    /// Whether write-backs or fetches have the disk.
    pub fn background(&self) -> usize {
        self.write_backs + self.fetches
    }
}

/// Which class of requests the disk serves now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// Everybody.
    #[default]
    Shared,
    /// The foreground alone.
    Foreground,
    /// The foreground that waits now; who comes later waits for the next turn.
    Closing,
    /// Write-backs and fetches alone.
    Background,
}

/// A part of a read that lies in one segment, as [`Policy::on_segment_read`] is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRead {
    /// Which segment.
    pub segment: u64,
    /// Which bytes, from the begin of the segment on.
    pub part: Range,
}

/// What a policy knows of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentCounts {
    /// In the buffer, by the policy.
    pub loaded: u64,
    /// Measured without being loaded.
    pub ghosts: u64,
    /// To be lifted.
    pub lifts_waiting: u64,
}

/// Decides, and keeps no data.
pub trait Policy {
    /// Whether the log takes a write (otherwise the disk does). Asked once, when nothing else writes the range.
    fn absorbs(&mut self, range: Range, load: &Load) -> bool;
    /// How long a write that the log should take waits for room before it goes to the disk instead;
    /// `Nanos::MAX`: for ever.
    fn waits_for_room(&self, _load: &Load) -> Nanos;
    /// How long a write is kept from the log that has room for it, in the mean of all that wait, so that the
    /// log does not fill faster than it is written back; none is for longer than it waits for room.
    fn paces(&self, _load: &Load) -> Nanos {
        Nanos::ZERO
    }
    /// Where to look for dirty bytes to write back next, upwards and around; none: no more for now. Asked
    /// after each completion until it says none or nothing is found.
    fn next_write_back(&mut self, load: &Load) -> Option<u64>;
    /// Longest write of write-back.
    fn write_back_bytes_max(&self) -> u64 {
        WRITE_BACK_BYTES_MAX
    }
    /// A write-back of this range has begun.
    fn on_write_back(&mut self, now: Nanos, range: Range);
    /// A write-back of zeros has begun that the disk makes by itself: how long that takes says nothing of its writes.
    fn on_zeroing(&mut self, _range: Range) {}
    /// A read has come that the log does not answer alone: what to fetch to staging, this or what will follow it.
    fn on_read(&mut self, _range: Range, _load: &Load) -> Option<Range> {
        None
    }
    /// The disk has read what was asked of it, and has had nothing else to do for so long, as far as orders
    /// of the foreground go.
    fn on_disk_read(&mut self, _range: Range, _took: Nanos) {}
    /// A read touches a segment of which the log does not answer all: which part of the segment, from its
    /// begin on, is to be loaded into the buffer, as far as it is not there. Asked for each segment of a
    /// read, before `on_read`, and only where there are segments.
    fn on_segment_read(&mut self, _read: SegmentRead) -> Option<Range> {
        None
    }
    /// A segment that leaves the buffer. Asked until it says none.
    fn next_eviction(&mut self) -> Option<u64> {
        None
    }
    /// The buffer was emptied.
    fn on_buffer_emptied(&mut self) {}
    /// The segment whose head should come to flash next, if one should now. It is taken off the list.
    fn next_lift(&mut self, _load: &Load) -> Option<u64> {
        None
    }
    /// A lift was given up, or could not begin; `again`: later it may.
    fn on_lift_refused(&mut self, _now: Nanos, _segment: u64, _again: bool) {}
    /// A head is on flash.
    fn on_lifted(&mut self, _segment: u64) {}
    /// A head is not on flash any more: de-lifted, or written; then `again` says that it should come back
    /// once it is clean.
    fn on_head_lost(&mut self, _segment: u64, _again: bool) {}
    /// Which head makes room for that of segment `newcomer`; none: no other does.
    fn next_de_lift(&mut self, _newcomer: u64) -> Option<u64> {
        None
    }
    /// For status.
    fn segment_counts(&self) -> SegmentCounts {
        SegmentCounts::default()
    }
    /// Whether a fetch may go to the disk now.
    fn begins_fetch(&mut self, _range: Range, _load: &Load) -> bool {
        true
    }
    /// A write-back or fetch has left the disk.
    fn on_background_end(&mut self, _now: Nanos, _range: Range) {}
    /// Which class of requests the disk serves now. Asked whenever something may begin.
    fn turn(&mut self, _load: &Load) -> Turn {
        Turn::Shared
    }
    /// When to ask again though nothing has happened; none: never.
    fn next_timer(&self, _load: &Load) -> Option<Nanos> {
        None
    }
}
