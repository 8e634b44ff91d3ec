//! What requests ask of striped servers: visits, and the service time of each.

use super::super::queueing::Visits;
use headstart_units::request::Range;

/// How long a server takes: a startup, uniform between the two, and its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Service {
    pub startup_s_min: f64,
    pub startup_s_max: f64,
    pub s_per_byte: f64,
}

/// What some requests of one rank ask of the servers of a tier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand {
    /// Parts of requests, each contiguous in its file.
    pub requests: f64,
    /// Of each server: visits and their service time by the cost model, seconds.
    servers: Vec<(f64, f64)>,
    /// The same of what lies on any of them alike.
    anywhere: (f64, f64),
    /// Sum of the requests' longest visits, and of their mean visits, seconds.
    longest_s: f64,
    mean_s: f64,
    /// Sum of mean squares of service times over all visits.
    square_s2: f64,
}

impl Demand {
    /// Adds a contiguous range, striped over `servers` from its place in the file on.
    pub(crate) fn add(&mut self, range: Range, stripe_bytes: u64, servers: u32, service: Service) {
        self.add_at(range, stripe_bytes, servers, service, |demand, server| &mut demand.servers[server]);
    }

    /// The same of a range that lies on any of the servers as likely.
    pub(crate) fn add_anywhere(&mut self, range: Range, stripe_bytes: u64, servers: u32, service: Service) {
        self.add_at(range, stripe_bytes, servers, service, |demand, _| &mut demand.anywhere);
    }

    fn add_at(
        &mut self,
        range: Range,
        stripe_bytes: u64,
        servers: u32,
        service: Service,
        sum_of: impl Fn(&mut Demand, usize) -> &mut (f64, f64),
    ) {
        let servers = u64::from(servers);
        if self.servers.len() < servers as usize {
            self.servers.resize(servers as usize, (0.0, 0.0));
        }
        let (first, last) = (range.offset / stripe_bytes, (range.end() - 1) / stripe_bytes);
        let stripes = last - first + 1;
        let involved = stripes.min(servers);
        let (low, width) = (service.startup_s_min, service.startup_s_max - service.startup_s_min);
        let (mut sum_s, mut bytes_max) = (0.0, 0);
        for nth in 0..involved {
            let mut bytes = ((stripes - 1 - nth) / servers + 1) * stripe_bytes;
            if nth == 0 {
                bytes -= range.offset % stripe_bytes;
            }
            if (stripes - 1) % servers == nth {
                bytes -= (last + 1) * stripe_bytes - range.end();
            }
            bytes_max = bytes_max.max(bytes);
            let mean_s = exact(low + width / 2.0 + bytes as f64 * service.s_per_byte);
            let sum = sum_of(self, ((first + nth) % servers) as usize);
            *sum = (sum.0 + 1.0, sum.1 + mean_s);
            sum_s += mean_s;
            self.square_s2 += exact_square(mean_s * mean_s + width * width / 12.0);
        }
        let widest = involved as f64 / (involved as f64 + 1.0);
        self.requests += 1.0;
        self.longest_s += exact(low + widest * width + bytes_max as f64 * service.s_per_byte);
        self.mean_s += exact(sum_s / involved as f64);
    }

    /// Adds so much of another demand.
    pub(crate) fn add_share(&mut self, other: &Demand, share: f64) {
        self.servers.resize(self.servers.len().max(other.servers.len()), (0.0, 0.0));
        for (server, more) in self.servers.iter_mut().zip(&other.servers) {
            *server = (server.0 + share * more.0, server.1 + share * more.1);
        }
        self.anywhere = (self.anywhere.0 + share * other.anywhere.0, self.anywhere.1 + share * other.anywhere.1);
        self.requests += share * other.requests;
        self.longest_s += share * other.longest_s;
        self.mean_s += share * other.mean_s;
        self.square_s2 += share * other.square_s2;
    }

    pub(crate) fn plus(&self, other: &Demand) -> Demand {
        let mut sum = self.clone();
        sum.add_share(other, 1.0);
        sum
    }

    /// Visits to each of `servers` with service times times `scale`.
    pub(crate) fn visits(&self, servers: usize, scale: f64) -> Vec<Visits> {
        let (count, _) = self.sum();
        // A request takes as long as the longest of its visits, which go on at the same time.
        let longest = if self.mean_s > 0.0 { self.longest_s / self.mean_s } else { 1.0 };
        let share = longest * self.requests / or_one(count);
        let of = |server: usize| {
            let (own_count, own_s) = self.servers.get(server).copied().unwrap_or_default();
            let each = (servers.max(1) as f64).recip();
            let (count, service_s) = (own_count + each * self.anywhere.0, own_s + each * self.anywhere.1);
            Visits { count, service_s: scale * service_s / or_one(count), share }
        };
        (0..servers).map(of).collect()
    }

    /// Visits to all servers, and their service time.
    fn sum(&self) -> (f64, f64) {
        self.servers.iter().fold(self.anywhere, |sum, server| (sum.0 + server.0, sum.1 + server.1))
    }

    pub(crate) fn variation(&self) -> f64 {
        let (count, sum_s) = self.sum();
        if sum_s > 0.0 { (self.square_s2 * count / (sum_s * sum_s) - 1.0).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// A divisor.
fn or_one(count: f64) -> f64 {
    if count > 0.0 { count } else { 1.0 }
}

/// Seconds to the nearest 2^-40, the distance of doubles from 4096 to 8192: sums up to those do not depend on
/// their order.
pub(crate) fn exact(seconds: f64) -> f64 {
    (seconds + 6144.0) - 6144.0
}

/// Squares of them to the nearest 2^-50, likewise.
fn exact_square(square_s2: f64) -> f64 {
    (square_s2 + 6.0) - 6.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
        #[test]
        fn every_server_gets_the_bytes_of_its_stripes(
            offset in 0u64..3_000, length in 1u64..5_000, stripe in 1u64..130, servers in 1u32..10
        ) {
            let mut demand = Demand::default();
            let service = Service { startup_s_min: 0.0, startup_s_max: 0.0, s_per_byte: 1.0 };
            demand.add(Range::new(offset, length), stripe, servers, service);
            let mut counted = vec![(0.0, 0.0); servers as usize];
            for byte in offset..offset + length {
                let server = &mut counted[(byte / stripe % u64::from(servers)) as usize];
                *server = (1.0, server.1 + 1.0);
            }
            let longest = counted.iter().map(|server| server.1).fold(0.0, f64::max);
            prop_assert_eq!(demand.longest_s, longest);
            prop_assert_eq!(&demand.servers, &counted);

            let mut anywhere = Demand::default();
            anywhere.add_anywhere(Range::new(offset, length), stripe, servers, service);
            prop_assert_eq!((anywhere.longest_s, anywhere.sum()), (longest, demand.sum()));
            prop_assert_eq!(anywhere.variation(), demand.variation());
            let visits = anywhere.visits(servers as usize, 2.0);
            let (count, service_s) = anywhere.sum();
            for visit in visits {
                prop_assert!((visit.count - count / f64::from(servers)).abs() < 1e-9);
                prop_assert!((visit.service_s - 2.0 * service_s / count).abs() < 1e-9 * service_s);
            }
        }
    }
}
