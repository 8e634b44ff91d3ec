//! What the simulated tiers cost, measured as `headstart calibrate` measures real ones: core's loads in
//! virtual time, one file at each tier, network and software of the nodes included.

use std::cell::RefCell;

use headstart_insight::calibration::findings;
use headstart_insight::calibration::findings::{Pieces, Striping};
use headstart_insight::calibration::schedule::{Planned, SPAN_BYTES_MIN, Tier, loads};
use headstart_insight::calibration::{Disk, Flash, Latencies, Load, Measured, Offsets};
use headstart_model::request::Origin;
use headstart_policy::cost::region;
use headstart_units::request::{Direction, Range};
use headstart_units::{GIB, Nanos};
use headstart_workload::Program;

use crate::fabric::{Fabric, Order, Owner};
use crate::options::SimulationError;
use crate::queue::{Event, EventQueue};
use crate::scenario::{Costs, Directions, FirstServer, Scenario, TierConfig};
use crate::seeds::{Purpose, seed_of};
use crate::tier::TierName;

/// The schedule's seconds are those of real disks, which a cache behind servers makes long; a fifth of them
/// gives figures good to a few percent.
const TIME_SHARE: f64 = 0.2;
/// The file that is measured is no longer than this: what goes beyond changes little, and the loads stay short.
const SPAN_BYTES_MAX: u64 = 16 * GIB;
/// Ranks that measure at most; the effective rates of more than that are those of full queues anyway.
const RANKS_MAX: u32 = 64;

/// Measures both tiers of a scenario, with the ranks and the files of its largest job.
///
/// # Errors
/// Loads that say nothing about a tier.
pub fn measure(scenario: &Scenario, programs: &[Box<dyn Program>]) -> Result<Costs, SimulationError> {
    let ranks = programs.iter().map(|program| program.ranks()).max().unwrap_or(1).clamp(1, RANKS_MAX);
    let file = programs.iter().flat_map(|program| program.file_bytes()).max().unwrap_or(0);
    let span = file.clamp(2 * SPAN_BYTES_MIN, SPAN_BYTES_MAX);
    let striping = |tier: &TierConfig| Striping { servers: tier.servers, stripe_bytes: tier.stripe.0 };
    let (slow, fast) = (striping(&scenario.disk), striping(&scenario.flash));
    let on_disk = all_loads(scenario, TierName::Disk, span, ranks);
    let on_flash = all_loads(scenario, TierName::Flash, span, ranks);
    let missing = |missing: findings::Missing| SimulationError::Costs(missing.to_string());
    let disk = Disk::of(&on_disk, slow).map_err(missing)?;
    let flash = Flash::of(&on_flash, fast).map_err(missing)?;
    let s4d = |direction| {
        let cells = findings::cells(&on_disk, &on_flash, direction, ranks);
        findings::s4d(direction, &disk, slow, fast, span, &cells).map(|(parameters, _)| parameters).map_err(missing)
    };
    let mut directions = Directions { read: s4d(Direction::Read)?, write: s4d(Direction::Write)? };
    directions.write.write_back_leap_bytes = Pieces::of(&on_disk).map_or(0, Pieces::leap_bytes);
    let carl = region::Costs {
        read: findings::carl(&disk.read, slow, &flash.read, fast, &directions.read),
        write: findings::carl(
            disk.write.as_ref().unwrap_or(&disk.read),
            slow,
            flash.write.as_ref().unwrap_or(&flash.read),
            fast,
            &directions.write,
        ),
    };
    Ok(Costs { s4d: directions, carl: Some(carl) })
}

fn all_loads(scenario: &Scenario, tier: TierName, span: u64, ranks: u32) -> Vec<Measured> {
    let kind = if tier == TierName::Disk { Tier::Slow } else { Tier::Fast };
    let bench = RefCell::new(Bench::new(scenario, tier, span));
    let seed = seed_of(scenario.seed, Purpose::Calibration);
    let planned = loads(kind, span, ranks, true).into_iter();
    let shorter = planned.map(|planned| Planned { seconds: planned.seconds * TIME_SHARE, ..planned });
    (0u64..).zip(shorter).map(|(k, planned)| bench.borrow_mut().measure(&planned, seed.wrapping_add(k))).collect()
}

/// Machines at work on one load after another.
struct Bench {
    fabric: Fabric,
    queue: EventQueue,
    tier: TierName,
    place: crate::tier::Place,
    request_cost: Nanos,
    now: Nanos,
}

impl Bench {
    fn new(scenario: &Scenario, tier: TierName, span: u64) -> Bench {
        let mut fabric = Fabric::new(scenario, seed_of(scenario.seed, Purpose::Spindles), span);
        let place = fabric.tier_mut(tier).place(span, None, FirstServer::Zero, 0);
        let request_cost = Nanos::from_millis(scenario.clients.request_ms);
        Bench { fabric, queue: EventQueue::default(), tier, place, request_cost, now: Nanos::ZERO }
    }

    /// One load: lanes take their next request when the last has ended, until time is over.
    fn measure(&mut self, planned: &Planned, seed: u64) -> Measured {
        let Load { direction, size_bytes, depth, .. } = planned.load;
        let nodes = self.fabric.nodes();
        let mut offsets = Offsets::of(planned.load, seed);
        let begun = self.now;
        let until = begun + Nanos::from_seconds(planned.seconds);
        // Of each lane: when its request was issued, where it goes, and whether it counts.
        let mut lanes = vec![(Nanos::ZERO, 0, false); depth as usize];
        let (mut bytes, mut latencies, mut done, mut last) = (0, Vec::new(), Vec::new(), begun);
        let mut next = |lane: u32, at: Nanos, lanes: &mut Vec<(Nanos, u64, bool)>, queue: &mut EventQueue| {
            let step = offsets.next(lane as usize);
            let at = at + Nanos(step.pause_ns);
            lanes[lane as usize] = (at, step.offset, step.counts);
            queue.push(at + self.request_cost, Event::Rank(lane));
        };
        (0..depth).for_each(|lane| next(lane, begun, &mut lanes, &mut self.queue));
        let mut under_way = depth;
        while under_way > 0 {
            let (at, event) = self.queue.pop().expect("requests are under way");
            self.now = at;
            match event {
                Event::Rank(lane) => {
                    let order = Order {
                        owner: Owner::Rank(lane),
                        tier: self.tier,
                        operation: direction.into(),
                        node: lane % nodes,
                        origin: Origin { job: 0, rank: lane, file: 0 },
                    };
                    let offset = lanes[lane as usize].1;
                    self.fabric.start(at, &mut self.queue, order, self.place, Range::new(offset, size_bytes));
                }
                Event::Depart(message) => self.fabric.on_depart(at, &mut self.queue, message),
                Event::Server(server) => self.fabric.on_server(at, &mut self.queue, server, &mut done),
                Event::Arrive(message) => self.fabric.on_arrive(message, &mut done),
                _ => unreachable!("nothing else is announced here"),
            }
            for owner in done.drain(..) {
                let Owner::Rank(lane) = owner else { unreachable!("lanes alone have transfers") };
                under_way -= 1;
                (bytes, last) = (bytes + size_bytes, at);
                let (issued, _, counts) = lanes[lane as usize];
                if counts {
                    latencies.push(at.since(issued).0);
                }
                if at < until {
                    next(lane, at, &mut lanes, &mut self.queue);
                    under_way += 1;
                }
            }
        }
        Measured { load: planned.load, latencies: Latencies::new(latencies), bytes, elapsed: last.since(begun) }
    }
}
