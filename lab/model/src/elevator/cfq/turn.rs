//! Whose turn it is, how long for, and whether the drive waits for its next read.

use headstart_units::Nanos;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Turn {
    queue: Option<u32>,
    end: Nanos,
    served: usize,
    may_exceed: bool,
    idle_until: Option<Nanos>,
}

impl Turn {
    /// A queue's turn begins.
    pub(super) fn begin(&mut self, queue: u32, end: Nanos) {
        *self = Turn { queue: Some(queue), end, served: 0, may_exceed: true, idle_until: None };
    }

    /// The turn is over; whose it was.
    pub(super) fn finish(&mut self) -> Option<u32> {
        self.idle_until = None;
        self.queue.take()
    }

    /// Whose turn it is.
    pub(super) fn queue(&self) -> Option<u32> {
        self.queue
    }

    /// Whether the slice is over, or so many commands were served.
    pub(super) fn is_used_up(&self, now: Nanos, served_max: usize) -> bool {
        now >= self.end || self.served >= served_max
    }

    /// A command was served.
    pub(super) fn serve(&mut self) {
        self.served += 1;
    }

    /// The drive waits for the queue's next read, so long or until the slice is over.
    pub(super) fn wait(&mut self, now: Nanos, patience: Nanos) {
        self.idle_until = Some(self.end.min(now + patience));
    }

    /// The queue has a command.
    pub(super) fn stop_waiting(&mut self) {
        self.idle_until = None;
    }

    /// Until when the drive waits, if it does.
    pub(super) fn idle_until(&self) -> Option<Nanos> {
        self.idle_until
    }

    /// Whether the drive waits for this queue's next read.
    pub(super) fn awaits(&self, queue: u32) -> bool {
        self.queue == Some(queue) && self.idle_until.is_some()
    }

    /// Takes the one place beyond the limit that a queue gets in a turn while the drive waits for it.
    pub(super) fn exceed(&mut self, queue: u32) -> bool {
        self.awaits(queue) && std::mem::take(&mut self.may_exceed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_gets_one_place_beyond_the_limit_and_only_while_it_is_awaited() {
        let mut turn = Turn::default();
        turn.begin(3, Nanos(100));
        assert!(!turn.exceed(3), "nobody waits for it");
        turn.wait(Nanos(10), Nanos(20));
        assert_eq!((turn.idle_until(), turn.exceed(4)), (Some(Nanos(30)), false));
        assert!(turn.exceed(3) && !turn.exceed(3));
        turn.wait(Nanos(90), Nanos(20));
        assert_eq!(turn.idle_until(), Some(Nanos(100)), "no longer than the slice");
        assert_eq!((turn.finish(), turn.idle_until(), turn.queue()), (Some(3), None, None));
    }

    #[test]
    fn a_turn_is_used_up_by_time_or_by_commands() {
        let mut turn = Turn::default();
        turn.begin(0, Nanos(100));
        turn.serve();
        assert!(!turn.is_used_up(Nanos(99), 2) && turn.is_used_up(Nanos(99), 1) && turn.is_used_up(Nanos(100), 2));
    }
}
