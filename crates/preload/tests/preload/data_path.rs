//! What the library writes and reads, against copies in memory.

use std::fs;

use headstart_policy::cost::benefit::Parameters;
use headstart_protocol::shared::{Counter, HINTS_MAX};
use headstart_units::request::Range;

use crate::fake_agent::{self, Agent};
use crate::programs::{command, compiled, python, succeed};

/// A cost model that wants small requests on flash and large ones on disk.
pub fn selective() -> Parameters {
    Parameters {
        hdd_servers: 8,
        ssd_servers: 4,
        stripe_bytes: 65536,
        rotation_s: 0.0,
        seek_s_max: 0.0004,
        hdd_s_per_byte: 1e-9,
        ssd_s_per_byte: 1e-8,
        seek_curve: Vec::new(),
        ..Parameters::default()
    }
}

pub fn seed() -> u64 {
    std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_26)
}

pub fn torture(agent: &Agent, seed: u64, policy: &str) {
    let (program, model) = (compiled(agent, "torture"), agent.root.join("outside/model"));
    println!("SEED={seed}");
    let mut run = command(agent, program);
    succeed(run.args(["file", &seed.to_string(), "3000"]).arg(&model).env("HEADSTART_POLICY", policy));
    agent.drain();
    assert!(fs::read(agent.slow.join("file")).unwrap() == fs::read(model).unwrap(), "drained bytes are the model's");
    assert!(fake_agent::is_quiet(agent));
}

#[test]
fn random_calls_see_what_they_wrote_when_everything_is_absorbed() {
    let agent = Agent::start();
    torture(&agent, seed(), "s4d");
    assert!(agent.counter(Counter::AbsorbedRequests) > 500);
    assert!(agent.counter(Counter::FlashReadRequests) > 100);
    assert!(agent.counter(Counter::ListedReads) > 50, "most reads ask nobody");
}

#[test]
fn random_calls_see_what_they_wrote_when_small_requests_are_absorbed_and_large_ones_are_not() {
    let agent = Agent::start_with(selective());
    torture(&agent, seed() + 1, "s4d");
    assert!(agent.counter(Counter::AbsorbedRequests) > 100);
    assert!(agent.counter(Counter::DiskWriteUnwantedRequests) > 100);
}

#[test]
fn small_writes_of_a_file_that_others_use_go_to_the_disk_and_ask_nobody_for_flash() {
    let agent = Agent::start();
    let writes = "import os
fd = os.open('f', os.O_RDWR | os.O_CREAT)
for block in range(50): assert os.pwrite(fd, bytes([block]) * 512, block * 512) == 512
for block in range(50): assert os.pread(fd, 512, block * 512) == bytes([block]) * 512";
    for (is_left_alone, absorbed) in [(true, 0), (false, 50)] {
        agent.leave_alone(is_left_alone);
        python(&agent, writes);
        assert_eq!(agent.counter(Counter::AbsorbedRequests), absorbed);
        assert_eq!(agent.counter(Counter::DiskWriteBypassedRequests), 50);
        assert_eq!(agent.asks_for_space() > 0, absorbed > 0);
    }
}

#[test]
fn random_calls_see_what_they_wrote_when_flash_runs_out_of_space() {
    let agent = Agent::start();
    agent.set_free_bytes(20 << 20);
    torture(&agent, seed() + 2, "s4d");
    assert!(agent.counter(Counter::AbsorbedRequests) > 10);
    assert!(agent.counter(Counter::DiskWriteNoSpaceRequests) > 100);
}

#[test]
fn random_calls_never_ask_the_agent_for_space_when_the_policy_is_off() {
    let agent = Agent::start();
    torture(&agent, seed() + 3, "off");
    assert_eq!(agent.counter(Counter::AbsorbedRequests), 0);
    assert_eq!(agent.logged("Slab"), 0);
    assert_eq!(agent.counter(Counter::HintsLeft), 0);
}

#[test]
fn threads_of_several_processes_share_a_file() {
    for parameters in [Parameters::default(), selective()] {
        let agent = Agent::start_with(parameters);
        let program = compiled(&agent, "ranks");
        succeed(command(&agent, &program).args(["small", "4", "4", "40", "5000"]));
        succeed(command(&agent, &program).args(["large", "2", "2", "20", "300000"]));
        assert!(agent.everybody_left(), "every session ended with its process");
    }
}

#[test]
fn bits_that_come_and_go_under_threads_of_several_processes_lose_nothing() {
    for parameters in [Parameters::default(), selective()] {
        let agent = Agent::start_with(parameters);
        agent.churn();
        let program = compiled(&agent, "ranks");
        succeed(command(&agent, &program).args(["small", "3", "4", "300", "5000"]));
        succeed(command(&agent, &program).args(["large", "2", "3", "30", "300000"]));
        torture(&agent, seed() + 4, "s4d");
        assert!(agent.churned() > 100);
        assert!(agent.counter(Counter::CheapRequests) > 100);
    }
}

#[test]
fn appending_processes_lose_nothing_while_others_are_absorbed_and_written_back() {
    let agent = Agent::start();
    agent.churn();
    python(
        &agent,
        "import os
def append(k):
    fd = os.open('log', os.O_WRONLY | os.O_APPEND)
    for n in range(400): assert os.write(fd, (b'%d %04d ' % (k, n)).ljust(99, b'.') + b'\\n') == 100
def overwrite():
    fd = os.open('log', os.O_RDWR)
    for n in range(400):
        size = os.fstat(fd).st_size // 100 * 100
        os.pwrite(fd, b'x' * 100, n * 100 % max(size, 100) // 2000 * 2000)
fd = os.open('log', os.O_RDWR | os.O_CREAT)
os.pwrite(fd, (b'y' * 99 + b'\\n') * 200, 0)
for k in range(4):
    if os.fork() == 0:
        append(k) if k else overwrite()
        os._exit(0)
for k in range(4): assert os.wait()[1] == 0
data = os.pread(fd, 1 << 20, 0)
lines = [data[k:k + 100] for k in range(0, len(data), 100)]
assert len(lines) == 200 + 1200, len(lines)
left = [line for line in lines[200:] if line[:1] != b'x']
over = len(lines[200:]) - len(left)
for k in 1, 2, 3:
    numbers = [int(line.split()[1]) for line in left if line.startswith(b'%d ' % k)]
    assert numbers == sorted(set(numbers))
assert all(line[-1:] in b'\\nx' and not line.startswith(b'\\0') for line in lines)",
    );
    assert!(agent.churned() > 50);
}

#[test]
fn a_write_larger_than_any_slab_is_absorbed_in_parts() {
    let agent = Agent::start();
    python(
        &agent,
        "import os
fd = os.open('big', os.O_RDWR | os.O_CREAT)
data = os.urandom(3 * 1024 * 1024 + 17)
assert os.pwrite(fd, data, 1234567) == len(data)
assert os.pread(fd, len(data) + 5, 1234567) == data
assert os.pread(fd, 100, 1234500)[:67] == bytes(67)",
    );
    assert_eq!(agent.counter(Counter::AbsorbedBytes), (3 << 20) + 17);
    assert_eq!(agent.disk_bytes("write"), 0);
    assert_eq!(agent.mapped_bytes(), (3 << 20) + 17);
}

#[test]
fn the_first_managed_file_does_not_make_the_table_of_descriptors_larger() {
    let agent = Agent::start();
    python(
        &agent,
        "import os
def room():
    return [line for line in open('/proc/self/status') if line.startswith('FDSize')]
before = room()
fd = os.open('file', os.O_RDWR | os.O_CREAT)
assert os.pwrite(fd, bytes(4096), 0) == 4096
assert before == room(), (before, room())",
    );
    assert_eq!(agent.counter(Counter::AbsorbedBytes), 4096);
}

#[test]
fn a_critical_read_that_misses_leaves_a_hint_with_what_it_read() {
    let agent = Agent::start();
    fs::write(agent.slow.join("old"), vec![7; 10_000]).unwrap();
    python(&agent, "import os\nfd = os.open('old', os.O_RDONLY)\nassert os.pread(fd, 8192, 4096) == bytes([7]) * 5904");
    let hints = agent.take_hints();
    assert_eq!(hints.len(), 1);
    assert_eq!(hints[0].range, Range::new(4096, 5904));
    assert_eq!(agent.counter(Counter::CheapRequests), 1);
    assert_eq!(agent.counter(Counter::HintsLeft), 1);
}

#[test]
fn an_agent_that_sleeps_is_told_by_each_thread_once_and_one_that_does_not_by_none() {
    for (sleeps, told) in [(true, 2), (false, 0)] {
        let agent = Agent::start();
        agent.set_sleeping(sleeps);
        fs::write(agent.slow.join("old"), vec![7; 1 << 20]).unwrap();
        python(
            &agent,
            "import os, threading
def read():
    fd = os.open('old', os.O_RDONLY)
    for k in 50, 20, 90, 70: assert os.pread(fd, 4096, k * 8192) == bytes([7]) * 4096
read()
thread = threading.Thread(target=read); thread.start(); thread.join()",
        );
        assert_eq!(agent.logged("Marked"), told);
    }
}

#[test]
fn an_agent_that_sleeps_is_told_of_a_write_that_found_no_space() {
    let agent = Agent::start();
    agent.set_sleeping(true);
    agent.set_free_bytes(0);
    python(
        &agent,
        "import os\nfd = os.open('new', os.O_RDWR | os.O_CREAT)\nassert os.pwrite(fd, b'x' * 4096, 1 << 20) == 4096",
    );
    assert_eq!((agent.logged("Marked"), agent.counter(Counter::AbsorbedBytes)), (1, 0));
}

#[test]
fn hints_that_nobody_takes_are_lost_and_counted_and_their_reads_are_served() {
    let agent = Agent::start();
    let reads = 3 * HINTS_MAX as u64;
    fs::write(agent.slow.join("old"), vec![7; 8192 * reads as usize]).unwrap();
    python(
        &agent,
        &format!(
            "import os\nfd = os.open('old', os.O_RDONLY)
for k in range({reads}): assert os.pread(fd, 4096, k * 37 % {reads} * 8192) == bytes([7]) * 4096"
        ),
    );
    assert_eq!(agent.counter(Counter::DiskReadMissRequests), reads);
    assert_eq!(agent.counter(Counter::HintsLeft), HINTS_MAX as u64);
    assert_eq!(agent.counter(Counter::HintsLost), reads - HINTS_MAX as u64);
    assert_eq!(agent.take_hints().len(), HINTS_MAX);
}

#[test]
fn what_the_disks_answer_sooner_is_read_there_and_reads_out_of_order_are_measured() {
    let agent = Agent::start();
    let write = "import os\nfd = os.open('f', os.O_RDWR | os.O_CREAT)\nos.pwrite(fd, bytes([1]) * 65536, 0)\n";
    let read = "for k in 5, 2, 9, 0: assert os.pread(fd, 4096, k * 4096) == bytes([VALUE]) * 4096";
    python(&agent, &format!("{write}{}", read.replace("VALUE", "1")));
    assert_eq!((agent.measured(), agent.counter(Counter::FlashReadRequests)), ([0, 4], 4));
    // As if it had been written back, but for a value that tells.
    fs::write(agent.slow.join("f"), vec![2; 65536]).unwrap();
    agent.send_reads_to_the_disks();
    python(&agent, &format!("import os\nfd = os.open('f', os.O_RDONLY)\n{}", read.replace("VALUE", "2")));
    assert_eq!((agent.measured(), agent.counter(Counter::DiskReadSoonerRequests)), ([4, 4], 4));
    assert_eq!(agent.counter(Counter::DiskReadSoonerBytes), 4 * 4096);
    assert_eq!(agent.take_hints(), [], "nothing of it is to be fetched");
    assert!(crate::fake_agent::is_quiet(&agent), "no lease is left");
}

#[test]
fn a_request_that_waits_for_the_agent_holds_up_no_commit() {
    let calls = [
        "os.pread(f, 100, 0)",
        "os.pwrite(f, bytes(1 << 19), 0)",
        "os.write(os.open('f', os.O_WRONLY | os.O_APPEND), b'end')",
        "os.posix_fallocate(f, 0, 1 << 19)",
    ];
    for call in calls {
        let agent = Agent::start_with(selective());
        let start = |call: &str| {
            let script = format!("import os\nf = os.open('f', os.O_RDWR | os.O_CREAT)\n{call}");
            command(&agent, "/usr/bin/python3").arg("-c").arg(script).spawn().unwrap()
        };
        // The bit is set, so that whatever is not absorbed asks.
        assert!(start("os.pwrite(f, b'first', 0)").wait().unwrap().success());
        agent.hold_asks(true);
        let mut asking = start(call);
        assert!(until(|| agent.held_asks() > 0), "{call} asks");
        let mut committing = start("os.pwrite(f, b'second', 8192)");
        let done = until(|| committing.try_wait().unwrap().is_some());
        agent.hold_asks(false);
        assert!(asking.wait().unwrap().success() && committing.wait().unwrap().success());
        assert!(done, "{call} waits for the agent, and a commit waits for it");
        assert_eq!(agent.counter(Counter::AbsorbedRequests), 2);
    }
}

/// Whether it becomes true before long.
fn until(mut reached: impl FnMut() -> bool) -> bool {
    (0..3000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        reached()
    })
}

#[test]
fn descriptors_keep_their_rights() {
    let agent = Agent::start();
    python(
        &agent,
        "import os, errno
def fails(error, call, *args):
    try: call(*args)
    except OSError as e: assert e.errno == error, e
    else: raise AssertionError(call)
w = os.open('f', os.O_WRONLY | os.O_CREAT); r = os.open('f', os.O_RDONLY)
os.pwrite(w, b'hello', 0)
fails(errno.EBADF, os.pread, w, 1, 0)
fails(errno.EBADF, os.read, w, 1)
fails(errno.EBADF, os.pwrite, r, b'x', 0)
fails(errno.EBADF, os.write, r, b'x')
fails(errno.EINVAL, os.pwrite, w, b'x', -1)
fails(errno.EINVAL, os.ftruncate, w, -1)
assert os.read(r, 9) == b'hello'
assert os.lseek(r, 0, os.SEEK_CUR) == 5
assert os.read(r, 9) == b''
assert os.lseek(r, 0, os.SEEK_CUR) == 5",
    );
    assert!(agent.counter(Counter::AbsorbedRequests) > 0);
}

#[test]
fn synchronous_writes_and_fsync_wait_for_a_barrier_only_where_bytes_are_on_flash() {
    let agent = Agent::start();
    fs::write(agent.slow.join("old"), b"old").unwrap();
    python(&agent, "import os\nfd = os.open('old', os.O_RDWR)\nos.fsync(fd); os.fdatasync(fd)");
    assert_eq!(agent.logged("Sync"), 0);
    python(
        &agent,
        "import os
fd = os.open('new', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'1', 0); os.fsync(fd)
fd = os.open('new', os.O_RDWR | os.O_DSYNC); os.pwrite(fd, b'2', 1)
fd = os.open('new', os.O_RDWR); os.pwritev(fd, [b'3'], 2, os.RWF_DSYNC)
assert os.pread(fd, 9, 0) == b'123'",
    );
    assert_eq!(agent.logged("Sync"), 3);
}

#[test]
fn reads_past_the_page_cache_see_what_flash_cut_to_odd_lengths() {
    let agent = Agent::start();
    fs::write(agent.slow.join("f"), vec![b'.'; 1 << 20]).unwrap();
    python(
        &agent,
        "import os, mmap
fd = os.open('f', os.O_RDWR); os.pwrite(fd, b'abc', 5001)
try: direct = os.open('f', os.O_RDONLY | os.O_DIRECT)
except OSError: raise SystemExit
memory = mmap.mmap(-1, 65536)
assert os.preadv(direct, [memory], 0) == 65536
assert memory[:65536] == b'.' * 5001 + b'abc' + b'.' * (65536 - 5004)
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
nothing = ctypes.c_void_p(4096)
assert libc.pread(direct, nothing, 4096, ctypes.c_long(4096)) == -1 and ctypes.get_errno() == 14  # EFAULT",
    );
}

#[test]
fn the_time_of_the_last_write_is_that_of_the_absorbed_write() {
    let agent = Agent::start();
    fs::write(agent.slow.join("f"), vec![b'.'; 1 << 20]).unwrap();
    python(
        &agent,
        "import os, time
os.utime('f', (1000, 1000))
assert os.stat('f').st_mtime == 1000
fd = os.open('f', os.O_RDWR); os.pwrite(fd, b'abc', 5001)
now = time.time()
for found in os.stat('f'), os.lstat('f'), os.fstat(fd): assert abs(found.st_mtime - now) < 5, found",
    );
}

#[test]
fn an_excluded_file_is_read_and_written_without_a_question_but_what_flash_holds_of_it_is_found() {
    let agent = Agent::start();
    let write = |name: &str, text: &str| {
        let program = format!(
            "import os\nf = os.open({name:?}, os.O_RDWR | os.O_CREAT)\n\
             assert os.pwrite(f, b{text:?}, 0) == {}\nassert os.pread(f, 100, 0).startswith(b{text:?})\n",
            text.len()
        );
        python(&agent, &program);
    };
    write("before", "absorbed");
    assert_eq!(agent.counter(Counter::AbsorbedRequests), 1);
    agent.exclude();
    let (before, asked) = (agent.requests(), agent.counter(Counter::RoundTrips));
    write("plain", "on the disk");
    let after = agent.requests().since(&before);
    assert_eq!((after.disk_write_excluded_requests_total, after.disk_write_excluded_bytes_total), (1, 11));
    assert_eq!((after.disk_read_excluded_requests_total, after.disk_read_excluded_bytes_total), (1, 11));
    assert_eq!(agent.counter(Counter::RoundTrips) - asked, 1, "it is opened");
    assert_eq!(fs::read(agent.slow.join("plain")).unwrap(), b"on the disk");
    // It was absorbed before it was excluded.
    let program = "import os\nf = os.open('before', os.O_RDWR)\nassert os.pread(f, 100, 0) == b'absorbed'\n\
                   os.pwrite(f, b'A', 0)\nassert os.pread(f, 100, 0) == b'Absorbed'\n";
    python(&agent, program);
    assert_eq!(agent.counter(Counter::AbsorbedRequests), 1);
    assert_eq!(agent.take_hints(), [], "nothing of it is to be fetched");
}
