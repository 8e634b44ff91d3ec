//! Requests under policies that go by regions (CARL): cut where regions begin and end.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use headstart_policy::client::carl::{Regions, Wanted};
use headstart_protocol::shared::Counter;
use headstart_units::request::Range;

use crate::data_path::{seed, selective, torture};
use crate::fake_agent::Agent;
use crate::programs::{command, compiled, succeed};

fn regions(ranges: &[(u64, u64)]) -> Regions {
    Regions::new(ranges.iter().map(|&(offset, length)| Wanted {
        range: Range::new(offset, length),
        benefit_ns: 1000,
        gain_ns: 0,
    }))
}

/// Every other stretch of `length` bytes from `first` on.
fn stripes(first: u64, length: u64, count: u64) -> Regions {
    regions(&(0..count).map(|k| (first + 2 * k * length, length)).collect::<Vec<_>>())
}

fn python(agent: &Agent, policy: &str, script: &str) {
    let mut run = command(agent, "/usr/bin/python3");
    succeed(run.arg("-c").arg(script).env("HEADSTART_POLICY", policy));
}

#[test]
fn random_calls_see_what_they_wrote_wherever_regions_cut_them() {
    for (number, policy) in ["carl", "carl,s4d", "auto"].into_iter().enumerate() {
        for (first, length) in [(0, 1 << 20), (777, 10_001)] {
            let agent = Agent::start_with(selective());
            agent.set_regions(stripes(first, length, (6 << 20) / length));
            torture(&agent, seed() + 10 + number as u64, policy);
            assert!(agent.counter(Counter::AbsorbedBytes) > 1 << 20, "{policy}");
            assert!(agent.disk_bytes("write") > 1 << 20, "{policy}");
            assert!(agent.counter(Counter::FlashReadRequests) > 10, "{policy}");
        }
    }
}

#[test]
fn regions_that_change_under_threads_of_several_processes_lose_nothing() {
    let agent = Agent::start_with(selective());
    agent.churn();
    let (ended, program) = (AtomicBool::new(false), compiled(&agent, "ranks"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0u64.. {
                agent.set_regions(stripes(turn % 5 * 3000, 7000 + turn % 3, turn % 2000));
                std::thread::sleep(std::time::Duration::from_millis(2));
                if ended.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        succeed(command(&agent, &program).args(["small", "3", "4", "300", "5000"]).env("HEADSTART_POLICY", "carl"));
        torture(&agent, seed() + 20, "carl,s4d");
        ended.store(true, Ordering::Relaxed);
    });
    assert!(agent.logged("Regions") > 20 && agent.churned() > 20);
    assert!(agent.counter(Counter::AbsorbedRequests) > 100);
}

#[test]
fn a_write_across_the_borders_of_regions_goes_to_flash_within_them_and_to_disk_outside() {
    let agent = Agent::start();
    agent.set_regions(regions(&[(1000, 1000), (2000, 500), (4000, 1000)]));
    let script = "import os\nf = os.open('f', os.O_RDWR | os.O_CREAT)\ndata = os.urandom(5000)\n\
                  assert os.pwritev(f, [data[:1500], data[1500:1501], data[1501:]], 500) == 5000\n\
                  assert os.pread(f, 6000, 500) == data\nassert os.write(f, b'x' * 10) == 10\n";
    python(&agent, "carl", script);
    assert_eq!(agent.mapped_bytes(), 2500);
    assert_eq!((agent.counter(Counter::AbsorbedBytes), agent.disk_bytes("write")), (2500, 2510));
    let requests = agent.requests();
    assert_eq!(requests.disk_write_unwanted_requests_total, 2, "a request counts once: {requests:?}");
    assert_eq!(fs::metadata(agent.slow.join("f")).unwrap().len(), 5500);
}

#[test]
fn a_read_across_the_borders_of_regions_leaves_hints_of_what_lies_within() {
    let agent = Agent::start();
    agent.set_regions(regions(&[(1000, 1000), (4000, 1000)]));
    fs::write(agent.slow.join("f"), vec![7; 4500]).unwrap();
    python(&agent, "carl", "import os\nf = os.open('f', os.O_RDONLY)\nassert len(os.pread(f, 9000, 500)) == 4000");
    let hints: Vec<Range> = agent.take_hints().into_iter().map(|hint| hint.range).collect();
    assert_eq!(hints, [Range::new(1000, 1000), Range::new(4000, 500)]);
    let requests = agent.requests();
    assert_eq!((requests.disk_read_miss_requests_total, requests.disk_read_miss_bytes_total), (1, 4000));
}

#[test]
fn what_lies_outside_of_regions_goes_by_the_next_policy() {
    let script = "import os\nf = os.open('f', os.O_RDWR | os.O_CREAT)\n\
                  os.pwrite(f, bytes(1000), 5000)\nos.pwrite(f, bytes(2000000), 0)\n";
    for (policy, absorbed) in [("carl", 20_000), ("carl,s4d", 21_000), ("auto", 21_000), ("s4d", 1000), ("off", 0)] {
        let agent = Agent::start_with(selective());
        agent.set_regions(regions(&[(100_000, 20_000)]));
        python(&agent, policy, script);
        assert_eq!(agent.counter(Counter::AbsorbedBytes), absorbed, "{policy}");
    }
}

#[test]
fn regions_are_asked_for_once_by_policies_that_use_them_and_only_where_there_are_any() {
    let script = "import os\nf = os.open('f', os.O_RDWR | os.O_CREAT)\n\
                  for k in range(50): os.pwrite(f, bytes(100), k * 100)\n\
                  for k in range(50): os.pread(f, 100, k * 100)\n";
    for (policy, there, asked) in [
        ("s4d", true, 0),
        ("off", true, 0),
        ("carl", false, 0),
        ("auto", false, 0),
        ("carl", true, 1),
        ("auto", true, 1),
    ] {
        let agent = Agent::start();
        if there {
            agent.set_regions(regions(&[(0, 5000)]));
        }
        python(&agent, policy, script);
        assert_eq!(agent.logged("Regions"), asked, "{policy}, {there}");
    }
}

#[test]
fn more_regions_than_a_message_holds_are_all_known() {
    let agent = Agent::start();
    agent.set_regions(stripes(0, 10, 2001));
    python(
        &agent,
        "carl",
        "import os\nf = os.open('f', os.O_RDWR | os.O_CREAT)\nos.pwrite(f, bytes(50000), 0)\n\
         assert os.pread(f, 50001, 0) == bytes(50000)",
    );
    assert_eq!(agent.logged("Regions"), 4);
    assert_eq!(agent.counter(Counter::AbsorbedBytes), 20_010);
}

#[test]
fn a_forked_child_and_a_file_opened_again_know_their_own_regions() {
    let agent = Agent::start();
    agent.set_regions(regions(&[(0, 1000)]));
    python(
        &agent,
        "carl",
        "import os
f = os.open('f', os.O_RDWR | os.O_CREAT); os.pwrite(f, bytes(3000), 0)
if os.fork() == 0:
    os.pwrite(f, bytes(3000), 0); os._exit(0)
assert os.wait()[1] == 0
os.close(f); f = os.open('g', os.O_RDWR | os.O_CREAT); os.pwrite(f, bytes(3000), 0)",
    );
    assert_eq!((agent.counter(Counter::AbsorbedBytes), agent.disk_bytes("write")), (3000, 6000));
}

#[test]
fn a_write_past_the_page_cache_is_not_cut_within_a_block() {
    let agent = Agent::start();
    agent.set_regions(regions(&[(0, 5000), (16384, 4096)]));
    fs::write(agent.slow.join("f"), vec![b'.'; 1 << 16]).unwrap();
    python(
        &agent,
        "carl",
        "import os, mmap
try: f = os.open('f', os.O_RDWR | os.O_DIRECT)
except OSError: raise SystemExit
memory = mmap.mmap(-1, 32768); memory[:] = b'x' * 32768
assert os.pwritev(f, [memory], 8192) == 32768
assert os.pwritev(f, [memory], 0) == 32768
assert os.preadv(f, [memory], 0) == 32768 and memory[:] == b'x' * 32768",
    );
}
