//! How long a run takes once its plan is placed, from what it took when it was traced.
//!
//! The run is a closed loop: each rank issues a request, waits for it, thinks, issues the next. What a request waits for depends on
//! who else is at its server, which placing changes. So the run is followed as a closed queueing network of ranks and servers
//! ([`super::queueing`]) until the last rank is done; no less than what the busiest server has to do.
//!
//! 1. Of every request is known whether it stays on disk or moves to flash, and which servers it visits for how many bytes: stripe k of
//!    a file on server k mod N.
//! 2. Service times are those of eq. 6, scaled by one factor so that the network with everything on disk has the latency that was
//!    measured, and by another for those that stay, so that they have theirs. What a drive's cache or its order of service does is
//!    in these factors.
//! 3. The network is followed with what moves on flash; each rank thinks as long as it did.
//!
//! Think time is what lies between requests, so it holds waits at barriers, which in fact shrink with the rest. Neither write-back nor
//! opening and closing files are in it. A trace without times is predicted from the parameters alone, without think time.

mod demand;

use std::collections::BTreeMap;

use demand::{Demand, Service};

use super::queueing::{self, Customer, Visits};
use crate::cost::region::{Costs, largest_part};
use crate::request::{Access, Range};
use crate::units::Nanos;

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

/// What one rank did.
#[derive(Clone, Debug, Default)]
struct Rank {
    begin: Nanos,
    end: Nanos,
    think_s: f64,
    /// Requests that stay on disk, and their latency, seconds; without times their T_H.
    stays: Demand,
    stay_latency_s: f64,
    /// Requests that move, as they were on disk, and as they are on flash.
    moves: Demand,
    move_latency_s: f64,
    flash: Demand,
    /// What requests take on flash while no server is busy with them, seconds.
    flash_outside_s: f64,
}

/// The requests of a run, summed by rank and by what a plan does with them.
pub struct Load<'a> {
    costs: &'a Costs,
    ranks: BTreeMap<u32, Rank>,
    requests: u64,
    /// Requests with a time of their own.
    timed: u64,
    /// Scratch of `add`: the request in runs of one tier.
    runs: Vec<(Range, bool)>,
}

impl<'a> Load<'a> {
    /// Nothing yet.
    pub fn new(costs: &'a Costs) -> Load<'a> {
        Load { costs, ranks: BTreeMap::new(), requests: 0, timed: 0, runs: Vec::new() }
    }

    /// Adds a request, cut into consecutive parts of which each moves to flash (`true`) or stays.
    pub fn add(&mut self, access: &Access, parts: impl Iterator<Item = (Range, bool)>) {
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
        let (stripe_bytes, disks, flash) = (parameters.stripe_bytes, parameters.hdd_servers, parameters.ssd_servers);
        let is_timed = access.end > access.start;
        self.requests += 1;
        self.timed += u64::from(is_timed);
        let rank = self.ranks.entry(access.rank).or_insert(Rank { begin: access.start, ..Rank::default() });
        if rank.end > Nanos::ZERO {
            rank.think_s += access.start.since(rank.end).seconds();
        }
        rank.begin = rank.begin.min(access.start);
        rank.end = rank.end.max(access.end);
        let priced_s: f64 = self.runs.iter().map(|(run, _)| parameters.disk_s(run.length)).sum();
        // Latency of a request that is cut goes to its parts as the model prices them.
        let measured = if is_timed { access.end.since(access.start).seconds() / priced_s.max(1e-12) } else { 1.0 };
        let on_disk = Service {
            startup_s_min: parameters.hdd_startup_s_min,
            startup_s_max: parameters.hdd_startup_s_max,
            s_per_byte: parameters.hdd_s_per_byte,
        };
        let busy_s_per_byte = parameters.ssd_busy_s_per_byte.unwrap_or(parameters.ssd_s_per_byte);
        let on_flash = Service { startup_s_min: 0.0, startup_s_max: 0.0, s_per_byte: busy_s_per_byte };
        for (run, to_flash) in &self.runs {
            let latency_s = measured * parameters.disk_s(run.length);
            if *to_flash {
                rank.moves.add(*run, stripe_bytes, disks, on_disk);
                rank.move_latency_s += latency_s;
                rank.flash.add(*run, stripe_bytes, flash, on_flash);
                let bytes = largest_part(run.length, stripe_bytes, flash) as f64;
                let passed_on_s = (bytes * (parameters.ssd_s_per_byte - busy_s_per_byte)).max(0.0);
                rank.flash_outside_s += parameters.ssd_startup_s + passed_on_s;
            } else {
                rank.stays.add(*run, stripe_bytes, disks, on_disk);
                rank.stay_latency_s += latency_s;
            }
        }
    }

    /// The run times.
    pub fn predict(&self) -> Prediction {
        let mut prediction = Prediction {
            ranks: self.ranks.len() as u64,
            requests: self.requests,
            flash_requests: self.ranks.values().map(|rank| rank.flash.requests).sum(),
            ..Prediction::default()
        };
        if self.requests == 0 {
            return prediction;
        }
        let has_times = self.timed * 2 > self.requests;
        let (scale, stay_scale) = if has_times { self.scales() } else { (1.0, 1.0) };
        let (disk, flash) = self.variations();
        let variation = [disk, flash].concat();
        if has_times {
            let (begin, end) = self.span();
            prediction.measured_s = Some(end.since(begin).seconds());
        }
        let begin = self.span().0;
        let customers = |after: bool| -> Vec<Customer> {
            let of = |rank: &Rank| {
                let customer = if after { self.after(rank, stay_scale) } else { self.before(rank, scale) };
                Customer { begin_s: rank.begin.since(begin).seconds(), ..customer }
            };
            self.ranks.values().map(of).collect()
        };
        prediction.before_s = prediction.measured_s.unwrap_or_else(|| run_s(&customers(false), &variation));
        prediction.after_s = run_s(&customers(true), &variation);
        prediction
    }

    /// A rank with everything on disk.
    fn before(&self, rank: &Rank, scale: f64) -> Customer {
        let mut visits = rank.stays.plus(&rank.moves).visits(self.servers().0, scale);
        visits.resize(self.servers().0 + self.servers().1, Visits::default());
        Customer { begin_s: 0.0, outside_s: rank.think_s, visits }
    }

    /// A rank with what moves on flash.
    fn after(&self, rank: &Rank, scale: f64) -> Customer {
        let mut visits = rank.stays.visits(self.servers().0, scale);
        visits.extend(rank.flash.visits(self.servers().1, 1.0));
        Customer { begin_s: 0.0, outside_s: rank.think_s + rank.flash_outside_s, visits }
    }

    /// The factor of all service times on disk, and that of the requests that stay.
    fn scales(&self) -> (f64, f64) {
        let (begin, end) = self.span();
        let run_s = end.since(begin).seconds().max(f64::MIN_POSITIVE);
        let presence: Vec<f64> = self.ranks.values().map(|rank| rank.end.since(rank.begin).seconds() / run_s).collect();
        let (disk, flash) = self.variations();
        let variation = [disk, flash].concat();
        let solved = |scale: f64| {
            let customers: Vec<Customer> = self.ranks.values().map(|rank| self.before(rank, scale)).collect();
            queueing::solve(&customers.iter().collect::<Vec<_>>(), &presence, &variation)
        };
        let sum = |of: fn(&Rank) -> f64| self.ranks.values().map(of).sum::<f64>();
        let total_s = sum(|rank| rank.think_s + rank.stay_latency_s + rank.move_latency_s);
        let scale = bisect(total_s, |scale| solved(scale).total_s.iter().sum());
        let waits = solved(scale).wait_s;
        // What the requests that stay would take if they were served like the others.
        let alike = |(rank, waits): (&Rank, &Vec<f64>)| {
            let visits = rank.stays.visits(self.servers().0, scale);
            visits.iter().zip(waits).map(|(v, wait)| v.count * v.share * (v.service_s + wait)).sum::<f64>()
        };
        let alike_s: f64 = self.ranks.values().zip(&waits).map(alike).sum();
        let own = if alike_s > 0.0 { sum(|rank| rank.stay_latency_s) / alike_s } else { 1.0 };
        (scale, scale * own)
    }

    /// Variance of service times over their squared mean, of disks and of flash servers.
    fn variations(&self) -> (Vec<f64>, Vec<f64>) {
        let of = |demand: fn(&Rank) -> Demand| {
            self.ranks.values().map(demand).fold(Demand::default(), |sum, demand| sum.plus(&demand)).variation()
        };
        let disk = of(|rank| rank.stays.plus(&rank.moves));
        (vec![disk; self.servers().0], vec![of(|rank| rank.flash.clone()); self.servers().1])
    }

    /// Disk servers and flash servers.
    fn servers(&self) -> (usize, usize) {
        let Costs { read, write } = self.costs;
        (read.hdd_servers.max(write.hdd_servers) as usize, read.ssd_servers.max(write.ssd_servers) as usize)
    }

    /// When the first request started and the last one ended.
    fn span(&self) -> (Nanos, Nanos) {
        let begin = self.ranks.values().map(|rank| rank.begin).min().unwrap_or_default();
        (begin, self.ranks.values().map(|rank| rank.end).max().unwrap_or_default())
    }
}

/// How long the ranks take, at least what the busiest server does.
fn run_s(customers: &[Customer], variation: &[f64]) -> f64 {
    let busy =
        |server: usize| customers.iter().map(|one| one.visits[server].count * one.visits[server].service_s).sum();
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
