//! The next timer of each of many servers, and the earliest of them all.
//!
//! A complete binary tree in an array: leaves are the servers' timers, each inner node the earlier of its two children.
//! A change costs one path towards the root and stops where nothing changes; nothing allocates.

use headstart_units::Nanos;

/// Timers by server number; [`Nanos::MAX`] is none.
#[derive(Debug)]
pub(super) struct Timers {
    /// Node 1 is the root; the children of node n are 2n and 2n + 1; leaves begin at `leaf_count`.
    nodes: Vec<Nanos>,
    leaf_count: usize,
}

impl Timers {
    /// No timer for any of `count` servers.
    pub(super) fn new(count: usize) -> Timers {
        let leaf_count = count.next_power_of_two();
        Timers { nodes: vec![Nanos::MAX; 2 * leaf_count], leaf_count }
    }

    /// The earliest of all.
    pub(super) fn first(&self) -> Option<Nanos> {
        Some(self.nodes[1]).filter(|at| *at < Nanos::MAX)
    }

    /// Sets the timer of a server.
    pub(super) fn set(&mut self, server: usize, at: Option<Nanos>) {
        let mut node = self.leaf_count + server;
        let mut earliest = at.unwrap_or(Nanos::MAX);
        while self.nodes[node] != earliest {
            self.nodes[node] = earliest;
            if node == 1 {
                return;
            }
            earliest = earliest.min(self.nodes[node ^ 1]);
            node /= 2;
        }
    }

    /// The lowest server number, not below `from`, whose timer is due at `now`.
    pub(super) fn due_from(&self, from: usize, now: Nanos) -> Option<usize> {
        let is_due = |node: usize| self.nodes[node] <= now && self.nodes[node] < Nanos::MAX;
        if from >= self.leaf_count {
            return None;
        }
        let mut node = if from == 0 { 1 } else { self.leaf_count + from };
        while !is_due(node) {
            // On to the next subtree to the right.
            while node % 2 == 1 {
                if node == 1 {
                    return None;
                }
                node /= 2;
            }
            node += 1;
        }
        while node < self.leaf_count {
            node *= 2;
            if !is_due(node) {
                node += 1;
            }
        }
        Some(node - self.leaf_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_answers_as_a_scan_of_all_timers_does() {
        let mut state = 5_u64;
        let mut random = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        for count in [1, 2, 3, 7, 8, 9, 100] {
            let (mut timers, mut plain) = (Timers::new(count), vec![None; count]);
            for _ in 0..2000 {
                let server = random(count as u64) as usize;
                plain[server] = (random(3) > 0).then(|| Nanos(random(50)));
                timers.set(server, plain[server]);
                assert_eq!(timers.first(), plain.iter().flatten().min().copied());
                let (from, now) = (random(count as u64 + 2) as usize, Nanos(random(60)));
                let due = |server: &usize| plain[*server].is_some_and(|at| at <= now);
                assert_eq!(timers.due_from(from, now), (from..count).find(due));
            }
        }
    }
}
