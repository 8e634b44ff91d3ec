//! The network card of a compute node: full duplex, one FIFO each way, store-and-forward per message.
//!
//! Latency is that of the server's card (`model::nic`): a message pays it once.

use headstart_core::units::Nanos;

/// One direction of a card.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wire {
    free: Nanos,
}

impl Wire {
    /// Sends a message behind those sent before; returns when its last byte is through.
    pub fn send(&mut self, now: Nanos, bytes: u64, ns_per_byte: f64) -> Nanos {
        let wire_ns = (bytes as f64 * ns_per_byte).round() as u64;
        self.free = self.free.max(now) + Nanos(wire_ns);
        self.free
    }
}

/// A card.
#[derive(Clone, Copy, Debug, Default)]
pub struct Card {
    /// To the servers.
    pub out: Wire,
    /// From them.
    pub into: Wire,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_follow_each_other_and_an_infinite_rate_takes_no_time() {
        let mut wire = Wire::default();
        let rate = 1e9 / 117e6;
        assert_eq!(wire.send(Nanos(0), 1_170_000, rate), Nanos(10_000_000));
        assert_eq!(wire.send(Nanos(5), 1_170_000, rate), Nanos(20_000_000));
        assert_eq!(wire.send(Nanos(30_000_000), 1 << 30, 0.0), Nanos(30_000_000));
    }
}
