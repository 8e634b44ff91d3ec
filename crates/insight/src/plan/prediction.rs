//! How long a run takes once its plan is placed, from what it took when it was traced.
//!
//! The run is a closed loop: each rank issues a request, waits for it, thinks, issues the next. What a
//! request waits for depends on who else is at its server, which placing changes. So the run is followed as a
//! closed queueing network of ranks and servers ([`super::queueing`]) until the last rank is done; no less
//! than what the busiest server has to do.
//!
//! 1. Of every request is known whether it stays on disk or moves to flash, and which servers it visits for
//!    how many bytes: stripe k of a file on server k mod N.
//! 2. Service times are those of eq. 6, scaled by one factor so that the network with everything on disk has
//!    the latency that was measured, and by another for those that stay, so that they have theirs. What a
//!    drive's cache or its order of service does is in these factors.
//! 3. The network is followed with what moves on flash; each rank thinks as long as it did. The processors
//!    are one more server, for what software takes of them for requests that flash serves.
//!
//! Think time is what lies between requests, so it holds waits at barriers, which in fact shrink with the
//! rest. Neither write-back nor opening and closing files are in it. A trace without times is predicted from
//! the parameters alone, without think time.

mod demand;
pub(crate) mod rank;

use std::collections::BTreeMap;

use demand::Demand;
pub(crate) use rank::{Portion, Presence, Rank};

use super::queueing::{self, Customer};
use crate::software::Software;
use headstart_policy::cost::region::Costs;
use headstart_units::Nanos;
use headstart_units::request::{Access, Range};

/// Run times before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prediction {
    /// Ranks that issued requests.
    pub ranks: u64,
    /// Requests in all.
    pub requests: u64,
    /// Requests, or parts of those that are cut, that move to flash.
    pub flash_requests: u64,
    /// From the first request's start to the last one's end, seconds, if the trace has times.
    pub measured_s: Option<f64>,
    /// Predicted with everything on disk, seconds: the measured time where there is one.
    pub before_s: f64,
    /// Predicted with the plan placed, seconds.
    pub after_s: f64,
}

/// The requests of a run, summed by rank and by what a plan does with them.
pub(crate) struct Load<'a> {
    costs: &'a Costs,
    software: Software,
    ranks: BTreeMap<u32, Rank>,
    requests: u64,
    /// Requests with a time of their own.
    timed: u64,
    /// Scratch of `add`: the request in runs of one tier.
    runs: Vec<(Range, bool)>,
}

/// What is known of a run whatever moves to flash.
pub(crate) struct Fitted {
    /// The factor of all service times on disk.
    scale: f64,
    /// Mean waits of each rank at each disk.
    waits_s: Vec<Vec<f64>>,
}

impl<'a> Load<'a> {
    /// Nothing yet.
    pub(crate) fn new(costs: &'a Costs, software: Software) -> Load<'a> {
        Load { costs, software, ranks: BTreeMap::new(), requests: 0, timed: 0, runs: Vec::new() }
    }

    /// What ranks, or groups of them, ask: so many requests in all, of which so many with times.
    pub(crate) fn of(costs: &'a Costs, ranks: BTreeMap<u32, Rank>, requests: u64, timed: u64) -> Load<'a> {
        Load { costs, software: Software::default(), ranks, requests, timed, runs: Vec::new() }
    }

    /// The same with other software.
    pub(crate) fn with(self, software: Software) -> Load<'a> {
        Load { software, ..self }
    }

    /// How many requests move to flash, or parts of those that are cut.
    pub(crate) fn flash_requests(&self) -> f64 {
        self.ranks.values().map(|rank| rank.moves.flash.requests).sum()
    }

    /// Adds a request, cut into consecutive parts of which each moves to flash (`true`) or stays.
    pub(crate) fn add(&mut self, access: &Access, parts: impl Iterator<Item = (Range, bool)>) {
        self.runs.clear();
        for (part, to_flash) in parts.filter(|(part, _)| !part.is_empty()) {
            match self.runs.last_mut() {
                Some((run, same)) if *same == to_flash => run.length += part.length,
                _ => self.runs.push((part, to_flash)),
            }
        }
        if self.runs.is_empty() {
            return;
        }
        let parameters = self.costs.of(access.direction);
        let is_timed = access.end > access.start;
        self.requests += 1;
        self.timed += u64::from(is_timed);
        let rank = self.ranks.entry(access.rank).or_default();
        rank.presence.add(access);
        let priced_s: f64 = self.runs.iter().map(|(run, _)| parameters.disk_s(run.length)).sum();
        // Latency of a request that is cut goes to its parts as the model prices them.
        let measured = if is_timed { access.end.since(access.start).seconds() / priced_s.max(1e-12) } else { 1.0 };
        for (run, to_flash) in &self.runs {
            let portion = if *to_flash { &mut rank.moves } else { &mut rank.stays };
            portion.add_disk(*run, parameters, measured * parameters.disk_s(run.length));
            if *to_flash {
                portion.add_flash(access.direction, *run, parameters);
            }
        }
    }

    /// The run times.
    pub(crate) fn predict(&self) -> Prediction {
        self.predict_fitted(&self.fit())
    }

    /// The run times, with what [`Load::fit`] found.
    pub(crate) fn predict_fitted(&self, fitted: &Fitted) -> Prediction {
        let mut prediction = Prediction {
            ranks: self.ranks.values().map(|rank| rank.presence.members).sum(),
            requests: self.requests,
            flash_requests: self.flash_requests().round() as u64,
            ..Prediction::default()
        };
        if self.requests == 0 {
            return prediction;
        }
        let stay_scale = self.stay_scale(fitted);
        let mut variation = self.variations();
        let (begin, end) = self.span();
        prediction.measured_s = self.has_times().then(|| end.since(begin).seconds());
        let customers = |of: &dyn Fn(&Rank) -> Customer| -> Vec<Customer> {
            let of = |rank: &Rank| Customer { begin_s: rank.presence.begin.since(begin).seconds(), ..of(rank) };
            self.ranks.values().map(of).collect()
        };
        let servers = self.servers();
        let before = || run_s(&customers(&|rank| rank.before(servers, fitted.scale)), &variation);
        prediction.before_s = prediction.measured_s.unwrap_or_else(before);
        let after = customers(&|rank| rank.after(servers, stay_scale, &self.software));
        variation.push(0.0);
        prediction.after_s = run_s(&after, &variation);
        prediction
    }

    /// For how long the busiest flash server is, seconds.
    pub(crate) fn flash_busy_s(&self) -> f64 {
        let flash = self.ranks.values().fold(Demand::default(), |sum, rank| sum.plus(&rank.moves.flash));
        flash.visits(self.servers().1, 1.0).iter().map(|visits| visits.count * visits.service_s).fold(0.0, f64::max)
    }

    fn has_times(&self) -> bool {
        self.timed * 2 > self.requests
    }

    /// The factor of all service times on disk with which the network has the measured latencies, 1 without times.
    pub(crate) fn fit(&self) -> Fitted {
        if self.requests == 0 || !self.has_times() {
            return Fitted { scale: 1.0, waits_s: Vec::new() };
        }
        let (begin, end) = self.span();
        let run_s = end.since(begin).seconds().max(f64::MIN_POSITIVE);
        let presence: Vec<f64> = self.ranks.values().map(|rank| rank.presence.length_s() / run_s).collect();
        // Whatever moves, before that it is all on disk.
        let disk = self.variations()[0];
        let variation = vec![disk; self.servers().0];
        let solved = |scale: f64| {
            let customers: Vec<Customer> =
                self.ranks.values().map(|rank| rank.before((self.servers().0, 0), scale)).collect();
            queueing::solve(&customers.iter().collect::<Vec<_>>(), &presence, &variation)
        };
        let members = || self.ranks.values().map(|rank| rank.presence.members as f64);
        let of = |rank: &Rank| rank.presence.think_s + rank.stays.latency_s + rank.moves.latency_s;
        let total_s = self.ranks.values().map(of).sum();
        let scale = bisect(total_s, |scale| {
            solved(scale).total_s.iter().zip(members()).map(|(one_s, count)| one_s * count).sum()
        });
        Fitted { scale, waits_s: solved(scale).wait_s }
    }

    /// The factor of service times of the requests that stay, with which they have the latencies that were
    /// measured of them.
    fn stay_scale(&self, fitted: &Fitted) -> f64 {
        // What the requests that stay would take if they were served like the others.
        let alike = |(rank, waits): (&Rank, &Vec<f64>)| rank.stays.disk_total_s(self.servers().0, fitted.scale, waits);
        let alike_s: f64 = self.ranks.values().zip(&fitted.waits_s).map(alike).sum();
        let measured_s: f64 = self.ranks.values().map(|rank| rank.stays.latency_s).sum();
        if alike_s > 0.0 { fitted.scale * measured_s / alike_s } else { fitted.scale }
    }

    /// Variance of service times over their squared mean, of each disk and each flash server.
    fn variations(&self) -> Vec<f64> {
        let of = |demand: fn(&Rank) -> Demand| {
            self.ranks.values().map(demand).fold(Demand::default(), |sum, demand| sum.plus(&demand)).variation()
        };
        let (disks, flash) = self.servers();
        let disk = of(|rank| rank.stays.disk.plus(&rank.moves.disk));
        [vec![disk; disks], vec![of(|rank| rank.moves.flash.clone()); flash]].concat()
    }

    /// Disk servers and flash servers.
    fn servers(&self) -> (usize, usize) {
        let Costs { read, write } = self.costs;
        (read.hdd_servers.max(write.hdd_servers) as usize, read.ssd_servers.max(write.ssd_servers) as usize)
    }

    /// When the first request started and the last one ended.
    fn span(&self) -> (Nanos, Nanos) {
        let begin = self.ranks.values().map(|rank| rank.presence.first).min().unwrap_or_default();
        (begin, self.ranks.values().map(|rank| rank.presence.last).max().unwrap_or_default())
    }
}

/// How long the ranks take, at least what the busiest server does.
fn run_s(customers: &[Customer], variation: &[f64]) -> f64 {
    let busy = |server: usize| {
        customers.iter().map(|one| one.alike * one.visits[server].count * one.visits[server].service_s).sum()
    };
    let busiest = (0..variation.len()).map(busy).fold(0.0, f64::max);
    queueing::finish_s(customers, variation).max(busiest)
}

/// Where a rising function takes a value, between a millionth and a million.
fn bisect(value: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (1e-6f64, 1e6f64);
    for _ in 0..25 {
        let middle = (low * high).sqrt();
        if function(middle) < value { low = middle } else { high = middle }
    }
    (low * high).sqrt()
}
