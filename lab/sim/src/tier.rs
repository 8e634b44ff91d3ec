//! The servers of one tier, and where files lie on them.
//!
//! Stripe k of a file lies on server (first + k) mod N, as in `headstart_model::cluster`; a file's local part
//! begins at the same address on each of its servers and is contiguous.

use headstart_model::cluster::local_range;
use headstart_model::server::{Server, ServerConfig, VolumeConfig};
use headstart_units::{MIB, Nanos};

use crate::scenario::{FirstServer, TierConfig};

/// Which tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TierName {
    /// The disk servers.
    Disk,
    /// The flash servers.
    Flash,
}

/// Where a file lies in a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The server of its first stripe.
    pub first_server: u32,
    /// Address of its local part on every server.
    pub base: u64,
}

/// A part of a request that lies on one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index of the server in its tier.
    pub server: u32,
    /// Address on its device.
    pub address: u64,
    /// Bytes.
    pub length: u64,
}

/// See the module.
pub struct Tier {
    /// The servers.
    pub servers: Vec<Server>,
    /// For which time each has a timer announced.
    pub scheduled: Vec<Nanos>,
    stripe_bytes: u64,
    placed: u64,
    next_base: u64,
}

impl Tier {
    /// Idle servers. Each has a spindle phase of its own, made from `seed`.
    pub fn new(config: &TierConfig, seed: u64, volume: Option<VolumeConfig>) -> Tier {
        let server = |index| Server::new(ServerConfig { volume, ..config.server(seed.wrapping_add(index)) });
        let servers: Vec<Server> = (0..u64::from(config.servers)).map(server).collect();
        let scheduled = vec![Nanos::MAX; servers.len()];
        Tier { servers, scheduled, stripe_bytes: config.stripe.0, placed: 0, next_base: 0 }
    }

    /// Places a file of `bytes`: `gap` behind the one before, or right behind its end.
    pub fn place(&mut self, bytes: u64, gap: Option<u64>, first: FirstServer, random: u64) -> Place {
        let count = self.servers.len() as u64;
        let first_server = match first {
            FirstServer::Zero => 0,
            FirstServer::Rotate => self.placed % count,
            FirstServer::Random => random % count,
        };
        let local = bytes.div_ceil(self.stripe_bytes).div_ceil(count) * self.stripe_bytes;
        let base = self.next_base;
        self.placed += 1;
        self.next_base += gap.unwrap_or_else(|| local.next_multiple_of(MIB).max(MIB));
        Place { first_server: first_server as u32, base }
    }

    /// The parts of a range of a file, one for each server that has bytes of it.
    pub fn parts(&self, place: Place, offset: u64, length: u64) -> impl Iterator<Item = Part> + use<> {
        let (count, stripe) = (self.servers.len() as u64, self.stripe_bytes);
        let (first, last) = (offset / stripe, (offset + length.max(1) - 1) / stripe);
        let touched = if length == 0 { 0 } else { (last - first + 1).min(count) };
        (0..touched).map(move |k| {
            let column = (first + k) % count;
            let (local, bytes) =
                local_range(count, stripe, column, offset, length).expect("a stripe of the range lies on this server");
            let server = ((u64::from(place.first_server) + column) % count) as u32;
            Part { server, address: place.base + local, length: bytes }
        })
    }

    /// The part of a range that lies on the server of a column, counted from the file's first.
    pub fn part_of(&self, place: Place, column: u32, offset: u64, length: u64) -> Option<Part> {
        let count = self.servers.len() as u64;
        let (local, bytes) = local_range(count, self.stripe_bytes, column.into(), offset, length)?;
        let server = ((u64::from(place.first_server) + u64::from(column)) % count) as u32;
        Some(Part { server, address: place.base + local, length: bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_range_are_those_of_each_server_in_turn() {
        let tier = Tier::new(&TierConfig { servers: 3, ..TierConfig::flash() }, 1, None);
        let place = Place { first_server: 2, base: 1 << 30 };
        let stripe = 64 << 10;
        for (offset, length) in
            [(0, 1), (5, stripe), (stripe - 1, 2), (7 * stripe + 9, 11 * stripe), (stripe, 3 * stripe)]
        {
            let parts: Vec<Part> = tier.parts(place, offset, length).collect();
            let mut all: Vec<Part> = (0..3).filter_map(|column| tier.part_of(place, column, offset, length)).collect();
            assert_eq!(parts.iter().map(|part| part.length).sum::<u64>(), length);
            let first = ((offset / stripe) % 3 + 2) % 3;
            assert_eq!(u64::from(parts[0].server), first, "the first stripe's server comes first");
            let mut sorted = parts.clone();
            sorted.sort_by_key(|part| part.server);
            all.sort_by_key(|part| part.server);
            assert_eq!(sorted, all);
        }
        assert_eq!(tier.parts(place, 77, 0).count(), 0);
    }

    #[test]
    fn files_follow_each_other_or_lie_a_gap_apart() {
        let mut tier = Tier::new(&TierConfig { servers: 4, ..TierConfig::flash() }, 1, None);
        let bases: Vec<u64> =
            [40 * MIB, 1, 1].map(|bytes| tier.place(bytes, None, FirstServer::Rotate, 0).base).to_vec();
        assert_eq!(bases, [0, 10 * MIB, 11 * MIB]);
        assert_eq!(tier.place(1, Some(7), FirstServer::Rotate, 0), Place { first_server: 3, base: 12 * MIB });
        assert_eq!(tier.place(1, Some(7), FirstServer::Random, 6), Place { first_server: 2, base: 12 * MIB + 7 });
    }
}
