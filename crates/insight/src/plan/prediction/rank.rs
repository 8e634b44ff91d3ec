//! What one rank did, or several that are taken as alike: when it was there, what it asked of the disks and
//! would ask of flash.
//!
//! All sums are over the members; a customer of the network is one of them.

use super::demand::{Demand, Service, exact};
use crate::plan::queueing::{Customer, Visits};
use crate::software::Software;
use headstart_policy::cost::region::{Parameters, largest_part};
use headstart_units::Nanos;
use headstart_units::request::{Access, Direction, Range};

/// When a rank was there, and how long it thought.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Presence {
    /// Ranks in the sums; none before the first request.
    pub members: u64,
    /// When the first request of a member started; on average.
    pub begin: Nanos,
    /// When its last one ended; on average.
    pub end: Nanos,
    /// When the first request of all members started, and the last one ended.
    pub first: Nanos,
    pub last: Nanos,
    /// Time between requests, of all members, seconds.
    pub think_s: f64,
}

impl Presence {
    /// Adds the next request by start, of one rank.
    pub(crate) fn add(&mut self, access: &Access) {
        if self.members == 0 {
            (self.members, self.begin) = (1, access.start);
        }
        if self.end > Nanos::ZERO {
            self.think_s += access.start.since(self.end).seconds();
        }
        self.begin = self.begin.min(access.start);
        self.end = self.end.max(access.end);
        (self.first, self.last) = (self.begin, self.end);
    }

    /// Adds other ranks.
    pub(crate) fn join(&mut self, other: &Presence) {
        if self.members == 0 || other.members == 0 {
            *self = if self.members == 0 { *other } else { *self };
            return;
        }
        let (own, more) = (u128::from(self.members), u128::from(other.members));
        let mean = |a: Nanos, b: Nanos| Nanos(((u128::from(a.0) * own + u128::from(b.0) * more) / (own + more)) as u64);
        (self.begin, self.end) = (mean(self.begin, other.begin), mean(self.end, other.end));
        (self.first, self.last) = (self.first.min(other.first), self.last.max(other.last));
        self.think_s += other.think_s;
        self.members += other.members;
    }

    /// How long a member was there, seconds.
    pub(crate) fn length_s(&self) -> f64 {
        self.end.since(self.begin).seconds()
    }
}

/// Some requests: what they ask of the disks, and what they would ask of flash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Portion {
    /// On disk.
    pub disk: Demand,
    /// What they took there, seconds; without times their T_H.
    pub latency_s: f64,
    /// On flash.
    pub flash: Demand,
    /// What they take on flash while no server is busy with them, seconds.
    pub flash_outside_s: f64,
}

impl Portion {
    /// Adds a request or a part of one as the disks see it.
    pub(crate) fn add_disk(&mut self, range: Range, parameters: &Parameters, latency_s: f64) {
        let on_disk = Service {
            startup_s_min: parameters.hdd_startup_s_min,
            startup_s_max: parameters.hdd_startup_s_max,
            s_per_byte: parameters.hdd_s_per_byte,
        };
        self.disk.add(range, parameters.stripe_bytes, parameters.hdd_servers, on_disk);
        self.latency_s += exact(latency_s);
    }

    /// Adds it as flash would see it. Regions lie there as they do in their files; what is written goes to
    /// new places, time and again.
    pub(crate) fn add_flash(&mut self, direction: Direction, range: Range, parameters: &Parameters) {
        let (stripe_bytes, servers) = (parameters.stripe_bytes, parameters.ssd_servers);
        let busy_s_per_byte = parameters.ssd_busy_s_per_byte.unwrap_or(parameters.ssd_s_per_byte);
        let on_flash = Service { startup_s_min: 0.0, startup_s_max: 0.0, s_per_byte: busy_s_per_byte };
        match direction {
            Direction::Read => self.flash.add(range, stripe_bytes, servers, on_flash),
            Direction::Write => self.flash.add_anywhere(range, stripe_bytes, servers, on_flash),
        }
        let bytes = largest_part(range.length, stripe_bytes, servers) as f64;
        let passed_on_s = (bytes * (parameters.ssd_s_per_byte - busy_s_per_byte)).max(0.0);
        self.flash_outside_s += exact(parameters.ssd_startup_s + passed_on_s);
    }

    /// Adds so much of other requests.
    pub(crate) fn add_share(&mut self, other: &Portion, share: f64) {
        self.disk.add_share(&other.disk, share);
        self.latency_s += share * other.latency_s;
        self.flash.add_share(&other.flash, share);
        self.flash_outside_s += share * other.flash_outside_s;
    }

    /// How long they take on disks with these waits, seconds.
    pub(crate) fn disk_total_s(&self, servers: usize, scale: f64, waits_s: &[f64]) -> f64 {
        let visits = self.disk.visits(servers, scale);
        visits.iter().zip(waits_s).map(|(v, wait_s)| v.count * v.share * (v.service_s + wait_s)).sum()
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rank {
    /// When it was there.
    pub presence: Presence,
    /// What stays on disk; only that of it is filled in which disks see.
    pub stays: Portion,
    /// What moves to flash.
    pub moves: Portion,
}

impl Rank {
    /// Adds requests of which a share moves.
    pub(crate) fn add(&mut self, portion: &Portion, moved: f64) {
        if moved > 0.0 {
            self.moves.add_share(portion, moved);
        }
        if moved < 1.0 {
            self.stays.add_share(portion, 1.0 - moved);
        }
    }

    /// A member with everything on disk. `servers`: disks and flash servers.
    pub(crate) fn before(&self, servers: (usize, usize), scale: f64) -> Customer {
        let mut visits = self.stays.disk.plus(&self.moves.disk).visits(servers.0, scale);
        visits.resize(servers.0 + servers.1, Visits::default());
        self.member(self.presence.think_s, visits)
    }

    /// A member with what moves on flash; the processors come behind the servers.
    pub(crate) fn after(&self, servers: (usize, usize), scale: f64, software: &Software) -> Customer {
        let count = self.moves.flash.requests;
        let mut visits = self.stays.disk.visits(servers.0, scale);
        visits.extend(self.moves.flash.visits(servers.1, 1.0));
        visits.push(Visits { count, service_s: software.request_s(), share: 1.0 });
        let outside_s = self.presence.think_s + self.moves.flash_outside_s + count * software.outside_s();
        self.member(outside_s, visits)
    }

    fn member(&self, outside_s: f64, mut visits: Vec<Visits>) -> Customer {
        let alike = self.presence.members.max(1) as f64;
        visits.iter_mut().for_each(|visits| visits.count /= alike);
        Customer { alike, begin_s: 0.0, outside_s: outside_s / alike, visits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_policy::cost::region::Costs;

    #[test]
    fn ranks_that_are_joined_keep_their_sums_and_their_mean_times() {
        let presence = |begin: u64, end: u64| {
            let mut presence = Presence::default();
            for (start, end) in [(begin, begin + 5), (end - 5, end)] {
                let (file, rank, direction, range) = (0, 0, Direction::Read, Range::new(0, 1));
                let (start, end) = (Nanos(start), Nanos(end));
                presence.add(&Access { file, rank, direction, range, start, end, without_flash: true });
            }
            presence
        };
        let mut joined = Presence::default();
        for one in [presence(0, 100), presence(10, 130), presence(50, 150)] {
            joined.join(&one);
        }
        assert_eq!((joined.members, joined.first, joined.last), (3, Nanos(0), Nanos(150)));
        assert!((joined.length_s() * 1e9 - 106.0).abs() < 2.0, "{joined:?}");
        assert!((joined.think_s * 1e9 - (90.0 + 110.0 + 90.0)).abs() < 1e-6, "{joined:?}");
    }

    fn on_flash(direction: Direction) -> Rank {
        let parameters =
            Parameters { hdd_s_per_byte: 1e-8, ssd_s_per_byte: 5e-9, ssd_startup_s: 0.0005, ..Costs::of_a_test().read };
        let mut rank = Rank::default();
        // Again and again the same stripe.
        (0..100).for_each(|_| rank.moves.add_flash(direction, Range::new(0, 4096), &parameters));
        rank
    }

    fn visits_to_flash(rank: &Rank) -> Vec<f64> {
        let customer = rank.after((0, 4), 1.0, &Software::default());
        customer.visits[..4].iter().map(|visits| visits.count).collect()
    }

    #[test]
    fn what_is_written_lies_on_all_flash_servers_alike() {
        assert_eq!(visits_to_flash(&on_flash(Direction::Read)), [100.0, 0.0, 0.0, 0.0]);
        assert_eq!(visits_to_flash(&on_flash(Direction::Write)), [25.0; 4]);
    }

    #[test]
    fn the_processors_are_one_more_server() {
        let software = Software { processors: 4, request_cpu_ms: 1.0, copy_cpu_ms: 0.0 };
        let (rank, mut stays) = (on_flash(Direction::Write), Rank::default());
        let (free, bound) = (rank.after((0, 4), 1.0, &Software::default()), rank.after((0, 4), 1.0, &software));
        let processors = bound.visits[4];
        assert_eq!((processors.count, processors.service_s), (100.0, 0.000_25));
        assert!((bound.outside_s - free.outside_s - 100.0 * 0.000_75).abs() < 1e-12);
        stays.stays = rank.moves;
        assert_eq!(stays.after((0, 4), 1.0, &software).visits[4].count, 0.0, "of what disks serve they are not busy");
    }
}
