//! The log as it is written: what waits for it, what is in flight, and when it takes more.

use super::flash_time::FlashTime;
use super::log_queue::LogQueue;
use super::records::Records;
use headstart_units::Nanos;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Log {
    /// Parts of writes that wait for a record.
    pub queue: LogQueue,
    /// Records in flight.
    pub records: Records,
    /// How fast flash takes them.
    pub flash_time: FlashTime,
    /// Until then writes are kept from a log that fills.
    paced_until: Nanos,
    /// Something waits for room in the ring.
    is_full: bool,
}

impl Log {
    /// Nothing waits, behind the records that a start has found.
    pub(super) fn new(start_seq: u64) -> Log {
        Log {
            queue: LogQueue::default(),
            records: Records::new(start_seq),
            flash_time: FlashTime::default(),
            paced_until: Nanos::ZERO,
            is_full: false,
        }
    }

    /// Items were taken, and it takes no more for so long.
    pub(super) fn pause(&mut self, now: Nanos, pause: Nanos) {
        self.paced_until = self.paced_until.max(now) + pause;
    }

    /// Until when it takes only items that have waited for long enough.
    pub(super) fn paced_until(&self) -> Nanos {
        self.paced_until
    }

    /// Whether something waits for room in the ring.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Something waits for room, or nothing does; whether something did before.
    pub(super) fn set_full(&mut self, is_full: bool) -> bool {
        std::mem::replace(&mut self.is_full, is_full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_add_up_and_begin_no_earlier_than_now() {
        let mut log = Log::new(1);
        log.pause(Nanos(10), Nanos(5));
        log.pause(Nanos(11), Nanos(5));
        assert_eq!(log.paced_until(), Nanos(20));
        log.pause(Nanos(30), Nanos(1));
        assert_eq!(log.paced_until(), Nanos(31));
        assert!(!log.set_full(true) && log.is_full());
    }
}
