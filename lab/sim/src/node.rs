//! A compute node: its network card, full duplex, one FIFO each way, store-and-forward per message; and its processors.
//!
//! Latency is that of the server's card (`model::nic`): a message pays it once.

use headstart_units::Nanos;

use crate::scenario::Clients;

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

/// Processors of a node: the software's work on requests, first come, first served.
#[derive(Clone, Debug)]
pub struct Processors {
    /// When each has done what it was given.
    free: Vec<Nanos>,
}

impl Processors {
    /// Idle ones.
    pub fn new(count: u32) -> Processors {
        Processors { free: vec![Nanos::ZERO; count as usize] }
    }

    /// Gives work to the one that is free first; returns when it is done.
    pub fn work(&mut self, now: Nanos, cost: Nanos) -> Nanos {
        let first = self.free.iter_mut().min().expect("a node has a processor");
        *first = (*first).max(now) + cost;
        *first
    }
}

/// What software takes of every node for a request and for a copy, and how far off the agent is.
#[derive(Clone, Debug)]
pub struct Software {
    /// Of each node.
    processors: Vec<Processors>,
    request_cost: Nanos,
    request_cpu: Nanos,
    copy_cpu: Nanos,
    round_trip: Nanos,
}

impl Software {
    /// On idle nodes.
    pub fn new(clients: &Clients) -> Software {
        Software {
            processors: vec![Processors::new(clients.processors); clients.nodes as usize],
            request_cost: Nanos::from_millis(clients.request_ms),
            request_cpu: Nanos::from_millis(clients.request_cpu_ms),
            copy_cpu: Nanos::from_millis(clients.copy_cpu_ms),
            round_trip: Nanos::from_millis(clients.agent_round_trip_ms),
        }
    }

    /// A rank of a node asks for something: when the request leaves it.
    pub fn request(&mut self, now: Nanos, node: u32) -> Nanos {
        if self.request_cpu == Nanos::ZERO {
            return now + self.request_cost;
        }
        self.processors[node as usize].work(now, self.request_cpu) + self.request_cost
    }

    /// A node copies between flash and disk: when it can begin.
    pub fn copy(&mut self, now: Nanos, node: u32) -> Nanos {
        if self.copy_cpu == Nanos::ZERO {
            return now;
        }
        self.processors[node as usize].work(now, self.copy_cpu)
    }

    /// From a rank to the agent.
    pub fn way_to_agent(&self) -> Nanos {
        Nanos(self.round_trip.0 / 2)
    }

    /// And back.
    pub fn way_back(&self) -> Nanos {
        Nanos(self.round_trip.0 - self.round_trip.0 / 2)
    }
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

    #[test]
    fn work_waits_for_the_processor_that_is_free_first() {
        let mut processors = Processors::new(2);
        let done = [10, 30, 10].map(|cost| processors.work(Nanos(0), Nanos(cost)).0);
        assert_eq!(done, [10, 30, 20]);
        assert_eq!(processors.work(Nanos(100), Nanos(1)), Nanos(101));
    }

    #[test]
    fn software_that_costs_nothing_keeps_nobody_and_the_ways_make_a_round_trip() {
        let clients = Clients { request_ms: 0.0, request_cpu_ms: 0.0, copy_cpu_ms: 0.5, ..Clients::default() };
        let mut software = Software::new(&Clients { processors: 1, agent_round_trip_ms: 0.000_003, ..clients });
        assert_eq!((software.request(Nanos(7), 0), software.request(Nanos(7), 0)), (Nanos(7), Nanos(7)));
        assert_eq!((software.copy(Nanos(7), 0), software.copy(Nanos(7), 0)), (Nanos(500_007), Nanos(1_000_007)));
        assert_eq!((software.way_to_agent(), software.way_back()), (Nanos(1), Nanos(2)));
    }
}
