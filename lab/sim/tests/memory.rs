//! Memory goes with what is under way and with what flash maps, not with how long a run lasts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use headstart_policy::client::chain::Chain;
use headstart_sim::scenario::{Job, Policy, Scenario, Size};
use headstart_sim::{Options, run_programs};
use headstart_units::request::{Direction, Range};
use headstart_units::{KIB, MIB};
use headstart_workload::{Program, Step};

struct Watching;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `pointer` came from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

const FILE_BYTES: u64 = 64 * MIB;
const REQUEST_BYTES: u64 = 16 * KIB;

/// Each of four ranks writes and reads at random, as often as it is told.
#[derive(Clone, Copy)]
struct Random(u64);

impl Program for Random {
    fn ranks(&self) -> u32 {
        4
    }

    fn file_bytes(&self) -> Vec<u64> {
        vec![FILE_BYTES]
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + Send + '_> {
        let requests = (0..self.0).map(move |index| {
            let place = (index * 4 + u64::from(rank)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let range = Range::new(place % (FILE_BYTES / REQUEST_BYTES) * REQUEST_BYTES, REQUEST_BYTES);
            let direction = if index % 3 == 0 { Direction::Write } else { Direction::Read };
            Step::Request { file: 0, direction, range }
        });
        let begin = [Step::Mark(0), Step::Open { file: 0, writable: true }];
        Box::new(begin.into_iter().chain(requests).chain([Step::Close { file: 0 }]))
    }
}

/// Bytes that were alive at once, beyond those before.
fn peak(policy: Policy, requests: u64) -> usize {
    let mut scenario = Scenario { policy, region: Size(MIB), ..Scenario::default() };
    scenario.costs = Some(toml::from_str(include_str!("sim/costs.toml")).expect("the costs are right"));
    scenario.jobs.push(Job { name: "random".into(), ..Job::default() });
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let programs = |_: usize, _: u64| Ok(Box::new(Random(requests)) as Box<dyn Program>);
    let report = run_programs(&scenario, &programs, Options::default()).expect("the scenario runs");
    assert_eq!(report.requests(), 4 * requests, "all of them were made");
    PEAK.load(Relaxed) - before
}

/// One test, as others beside it would be counted.
#[test]
fn ten_times_as_many_requests_take_no_more_memory() {
    for policy in [Policy::Stock, Policy::Carl, Policy::Overlay(Chain::S4d), Policy::Overlay(Chain::CarlS4d)] {
        // By then every block was touched several times, so that maps and queues have their size.
        let (short, long) = (peak(policy, 10_000), peak(policy, 100_000));
        println!("{}: {short} and {long} bytes", policy.name());
        assert!(long <= short + short / 10, "{}: {short} bytes, then {long}", policy.name());
    }
}
