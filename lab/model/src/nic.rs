//! A server's network card: full duplex, one FIFO each way, store-and-forward per message.
//!
//! A message occupies its direction for length / rate and arrives one latency later. 117 MB/s is gigabit Ethernet less
//! framing, so 64 KiB take 0.56 ms on the wire. Clients' cards are not modelled.

use headstart_units::Nanos;

/// Bytes of a message without payload: a read request, an acknowledgement (assumed; 1 µs on gigabit Ethernet).
pub const HEADER_BYTES: u64 = 128;

/// A card's data sheet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NicConfig {
    /// Payload rate of each direction; infinite for no card at all.
    pub bytes_per_s: f64,
    /// One-way latency.
    pub latency: Nanos,
    /// The most that is added to it, uniformly at random and for each message anew: those of different
    /// clients may overtake each other behind the card.
    pub jitter: Nanos,
}

impl NicConfig {
    /// Gigabit Ethernet: 117 MB/s each way, 0.1 ms one way.
    pub const GIGABIT: NicConfig = NicConfig { bytes_per_s: 117e6, latency: Nanos(100_000), jitter: Nanos::ZERO };
    /// No network: messages arrive when they leave.
    pub const NONE: NicConfig = NicConfig { bytes_per_s: f64::INFINITY, latency: Nanos::ZERO, jitter: Nanos::ZERO };
}

/// One direction of a card.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    ns_per_byte: f64,
    latency: Nanos,
    jitter: Nanos,
    random: u64,
    free: Nanos,
}

impl Link {
    /// An idle direction of a card; `seed` is its jitter's.
    pub fn new(config: NicConfig, seed: u64) -> Link {
        Link {
            ns_per_byte: 1e9 / config.bytes_per_s,
            latency: config.latency,
            jitter: config.jitter,
            random: seed,
            free: Nanos::ZERO,
        }
    }

    /// Sends a message at `now`, behind those sent before; returns when it has arrived whole.
    pub fn send(&mut self, now: Nanos, bytes: u64) -> Nanos {
        let wire_ns = (bytes as f64 * self.ns_per_byte).round() as u64;
        self.free = self.free.max(now) + Nanos(wire_ns);
        let jitter = if self.jitter > Nanos::ZERO { self.random_jitter() } else { Nanos::ZERO };
        self.free + self.latency + jitter
    }

    /// splitmix64, scaled to 0..=jitter.
    fn random_jitter(&mut self) -> Nanos {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        Nanos(((u128::from(mixed) * (u128::from(self.jitter.0) + 1)) >> 64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_four_kib_take_0_56_ms_and_the_latency() {
        let mut link = Link::new(NicConfig::GIGABIT, 0);
        assert_eq!(link.send(Nanos::ZERO, 65536).0 / 1000, 660);
    }

    #[test]
    fn messages_queue_behind_each_other_and_latency_overlaps() {
        let mut link = Link::new(NicConfig::GIGABIT, 0);
        let first = link.send(Nanos::ZERO, 1_170_000);
        let second = link.send(Nanos::ZERO, 1_170_000);
        assert_eq!((first, second), (Nanos(10_100_000), Nanos(20_100_000)));
    }

    #[test]
    fn no_card_takes_no_time() {
        assert_eq!(Link::new(NicConfig::NONE, 0).send(Nanos(7), 1 << 30), Nanos(7));
    }
}
