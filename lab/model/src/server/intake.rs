//! What a message passes on its way in and out: the network card, and the processor that takes one at a time.

use headstart_units::Nanos;

use crate::nic::{HEADER_BYTES, Link, NicConfig};

/// See the module. A message without payload has a header.
#[derive(Debug)]
pub(super) struct Intake {
    inward: Link,
    outward: Link,
    request_cpu: Nanos,
    cpu_free: Nanos,
    /// Whether messages may come in another order than they left.
    has_jitter: bool,
}

impl Intake {
    /// An idle card and processor; `seed` is that of the card's jitter.
    pub(super) fn new(nic: NicConfig, seed: u64, request_cpu: Nanos) -> Intake {
        Intake {
            inward: Link::new(nic, seed.wrapping_mul(2)),
            outward: Link::new(nic, seed.wrapping_mul(2) + 1),
            request_cpu,
            cpu_free: Nanos::ZERO,
            has_jitter: nic.jitter > Nanos::ZERO,
        }
    }

    /// When a message that leaves now is behind the card.
    pub(super) fn receive(&mut self, now: Nanos, payload_bytes: u64) -> Nanos {
        self.inward.send(now, payload_bytes.max(HEADER_BYTES))
    }

    /// Whether messages may overtake each other, so that the processor is asked when they come.
    pub(super) fn has_jitter(&self) -> bool {
        self.has_jitter
    }

    /// When the processor is through with a message that comes now, behind those before it.
    pub(super) fn process(&mut self, now: Nanos) -> Nanos {
        self.cpu_free = self.cpu_free.max(now) + self.request_cpu;
        self.cpu_free
    }

    /// When a reply is at the client.
    pub(super) fn reply(&mut self, now: Nanos, payload_bytes: u64) -> Nanos {
        self.outward.send(now, payload_bytes.max(HEADER_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_wait_for_the_processor_and_replies_for_the_card() {
        let mut intake = Intake::new(NicConfig::GIGABIT, 0, Nanos(1000));
        assert!(!intake.has_jitter());
        let come = intake.receive(Nanos::ZERO, 0);
        assert_eq!([intake.process(come), intake.process(come)].map(|at| at.since(come).0), [1000, 2000]);
        let (first, second) = (intake.reply(Nanos::ZERO, 1 << 20), intake.reply(Nanos::ZERO, 0));
        assert!(second > first, "one behind the other");
    }
}
