//! In a steady state no request allocates: events, queues and replies live in buffers that are reused.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use headstart_model::cluster::{Cluster, FileRequest, Placement};
use headstart_model::elevator::ElevatorKind;
use headstart_model::file_cache::FileReadAhead;
use headstart_model::profile::Profile;
use headstart_model::request::{Operation, Origin};
use headstart_model::server::ServerConfig;
use headstart_units::{KIB, MIB, Nanos};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const STRIPE: u64 = 64 * KIB;
const SERVERS: usize = 4;

/// Allocations per request of 40 ranks after a start of 20,000 requests.
fn allocations(config: ServerConfig, operation: Operation, is_random: bool) -> f64 {
    const START: u64 = 20_000;
    let mut cluster = Cluster::new(std::iter::repeat_n(config, SERVERS), STRIPE);
    let placement = Placement { first_server: 0, bases: vec![0; SERVERS] };
    let mut completions = Vec::with_capacity(64);
    let (mut issued, mut completed, mut before, mut random) = (0_u64, 0, 0, 1_u64);
    let mut issue = |cluster: &mut Cluster, now: Nanos, rank: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let stripe = if is_random { (random >> 33) % 1_000_000 } else { issued };
        issued += 1;
        let origin = Origin { job: 0, rank: rank as u32, file: 0 };
        let (placement, offset) = (&placement, stripe * STRIPE);
        cluster.on_request(now, FileRequest { id: rank, operation, placement, offset, length: STRIPE, origin });
    };
    (0..40).for_each(|rank| issue(&mut cluster, Nanos::ZERO, rank));
    while completed < 2 * START {
        let at = cluster.next_timer().expect("requests are under way");
        cluster.on_timer(at, &mut completions);
        for completion in completions.drain(..) {
            completed += 1;
            if completed == START {
                before = ALLOCATIONS.load(Ordering::Relaxed);
            }
            issue(&mut cluster, completion.at, completion.id);
        }
    }
    (ALLOCATIONS.load(Ordering::Relaxed) - before) as f64 / START as f64
}

#[test]
fn no_request_allocates_in_a_steady_state() {
    let disk = ServerConfig::new(Profile::Seagate250);
    let cfq = ServerConfig { elevator: ElevatorKind::Cfq, drive_queue_depth: Some(1), ..disk };
    let file_read_ahead = Some(FileReadAhead { cache_bytes: 4 * MIB, ..FileReadAhead::default() });
    let cases = [
        ("deadline", disk, Operation::Read, true),
        ("flash", ServerConfig::new(Profile::RevodriveX2), Operation::Write, true),
        ("cfq", cfq, Operation::Read, true),
        ("read ahead", ServerConfig { file_read_ahead, command_bytes_max: MIB, ..cfq }, Operation::Read, false),
    ];
    for (name, config, operation, is_random) in cases {
        let count = allocations(config, operation, is_random);
        println!("{name}: {count:.4} allocations per request");
        // Sorted maps of the elevator split and join their nodes now and then.
        assert!(count < 0.01, "{name}: {count}");
    }
}
