//! Threads, signals, fork, exec, descriptors closed behind the library's back, and an agent that goes away.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headstart_protocol::OWNER_FILE;
use headstart_protocol::counters::families;
use headstart_protocol::shared::Counter;

use crate::data_path::{seed, selective};
use crate::fake_agent::Agent;
use crate::programs::{EXHAUSTED, command, compiled, library, null_interposer, python, shell, succeed};

#[test]
fn a_program_that_never_opens_a_managed_file_never_connects() {
    let agent = Agent::start();
    shell(&agent, "cd /; ls /usr > /dev/null; cat /etc/passwd | wc -l; echo hello > $OUTSIDE/x; rm $OUTSIDE/x");
    assert_eq!(agent.log(), Vec::<String>::new());
}

#[test]
fn the_switch_disables_everything() {
    let agent = Agent::start();
    succeed(command(&agent, "/usr/bin/python3").args(["-c", "open('f', 'w').write('x')"]).env("HEADSTART", "off"));
    succeed(
        command(&agent, "/usr/bin/python3").args(["-c", "open('f', 'w').write('x')"]).env_remove("HEADSTART_RUNTIME"),
    );
    assert_eq!(agent.log(), Vec::<String>::new());
    assert_eq!(fs::read(agent.slow.join("f")).unwrap(), b"x");
}

#[test]
fn closing_every_descriptor_leaves_the_library_alive_and_no_stale_entry() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "close_all")));
    assert!(agent.counter(Counter::AbsorbedRequests) >= 4);
    assert_eq!(agent.logged("Close"), 1);
}

#[test]
fn descriptors_survive_fork_vfork_and_exec() {
    let agent = Agent::start();
    let program = compiled(&agent, "children");
    succeed(&mut command(&agent, program));
    assert!(agent.everybody_left());
    assert_eq!(agent.disk_bytes("write"), 0);
}

#[test]
fn a_child_by_fork_without_handlers_shares_files_with_its_parent_also_one_of_a_signal_handler() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "forked")));
    assert!(agent.everybody_left());
    assert_eq!(agent.disk_bytes("write"), 0);
}

#[test]
fn a_program_executed_by_its_descriptor_is_whole_and_finds_the_managed_files_it_inherited() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "executed")));
    assert!(agent.counter(Counter::AbsorbedRequests) > 100, "the programs themselves lay on flash");
    assert_eq!(agent.disk_bytes("write"), 0);
}

#[test]
fn programs_are_executed_beside_others_that_start_in_the_agents_process() {
    let agent = Agent::start();
    let program = compiled(&agent, "executed");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let start_others = || {
            while !is_over.load(Ordering::Relaxed) {
                assert!(Command::new("true").status().unwrap().success());
            }
        };
        let others: Vec<_> = (0..2).map(|_| scope.spawn(start_others)).collect();
        for turn in 0..10 {
            let directory = agent.slow.join(turn.to_string());
            fs::create_dir(&directory).unwrap();
            let output = command(&agent, &program).current_dir(&directory).output().unwrap();
            is_over.fetch_or(!output.status.success(), Ordering::Relaxed);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        is_over.store(true, Ordering::Relaxed);
        others.into_iter().for_each(|others| others.join().unwrap());
    });
}

#[test]
fn threads_come_and_go_and_signal_handlers_write() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "threads")));
    assert!(agent.everybody_left());
    assert_eq!(agent.logged("Open"), 1);
}

#[test]
fn a_new_thread_is_served_where_the_program_has_used_up_its_descriptors() {
    let agent = Agent::start();
    fs::write(agent.slow.join("old"), b"old").unwrap();
    let script = "
import threading
old = os.open('old', os.O_RDONLY)
fd = os.open('f', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'x' * 9000, 0)
seen = []
exhaust()
thread = threading.Thread(target=lambda: seen.append(os.pread(old, 9, 0)))
thread.start(); thread.join()
assert seen == [b'old'], seen
give_back()
assert os.pread(fd, 9999, 0) == b'x' * 9000";
    python(&agent, &format!("{EXHAUSTED}{script}"));
    assert_eq!(agent.disk_bytes("write"), 0);
}

#[test]
fn new_threads_take_turns_at_one_connection_where_no_descriptor_is_left_for_another() {
    let mut agent = Agent::start_with(selective());
    fs::write(agent.slow.join("old"), b"old").unwrap();
    let script = "
import threading
old = os.open('old', os.O_RDONLY)
fd = os.open('f', os.O_RDWR | os.O_CREAT)
for name in 'abc': os.close(os.open(name, os.O_RDWR | os.O_CREAT))
failed = []
def in_threads(work):
    def guarded(number):
        try: work(number)
        except BaseException as e: failed.append(repr(e))
    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert not failed, failed
def write(number):
    for k in range(100):
        at = (k * 8 + number) * 4096
        assert os.pwrite(fd, bytes([number + 1]) * 4096, at) == 4096
        assert os.pread(fd, 4096, at) == bytes([number + 1]) * 4096
        assert os.pread(old, 9, 0) == b'old'
exhaust()
in_threads(write)
def names(number):
    if number == 0: os.truncate('a', 10)
    if number == 1: os.rename('b', 'B')
    if number == 2: os.unlink('c')
in_threads(names)
if os.fork() == 0:
    in_threads(write); os._exit(0)
assert os.wait()[1] == 0
print('cut me off', flush=True); input()
in_threads(write)
give_back()
in_threads(write)
for number in range(8):
    for k in range(100): assert os.pread(fd, 4096, (k * 8 + number) * 4096) == bytes([number + 1]) * 4096
assert os.stat('a').st_size == 10 and os.stat('B') and not os.path.exists('c')";
    let mut run = command(&agent, "/usr/bin/python3");
    let run = run.args(["-c", &format!("{EXHAUSTED}{script}")]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = run.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().expect("no thread fails").unwrap(), "cut me off");
    agent.stop();
    agent.serve();
    child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!([agent.logged("TruncateDone"), agent.logged("Renamed"), agent.logged("Unlinked")], [1; 3]);
}

#[test]
fn cancelled_threads_end_and_leave_nothing_behind() {
    for parameters in [Default::default(), selective()] {
        let agent = Agent::start_with(parameters);
        succeed(&mut command(&agent, compiled(&agent, "cancelled")));
        assert!(agent.everybody_left());
    }
}

#[test]
fn a_file_is_what_it_is_whatever_name_it_is_opened_by() {
    // Where another library comes after this one, every file is opened by it.
    for is_alone in [true, false] {
        let agent = Agent::start();
        let mut run = command(&agent, compiled(&agent, "direct_opens"));
        if !is_alone {
            run.env("LD_PRELOAD", [library(), null_interposer(&agent)].map(PathBuf::into_os_string).join(":".as_ref()));
        }
        succeed(&mut run);
        assert!(agent.counter(Counter::AbsorbedRequests) > 0);
    }
}

#[test]
fn posix_locks_outlast_whatever_the_library_does_with_the_file() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "locks")));
    assert!(agent.counter(Counter::AbsorbedRequests) > 0);
}

#[test]
fn locks_of_open_descriptions_outlast_whatever_the_library_does_with_the_file() {
    for parameters in [Default::default(), selective()] {
        let agent = Agent::start_with(parameters);
        succeed(&mut command(&agent, compiled(&agent, "other_locks")));
        assert!(agent.counter(Counter::AbsorbedRequests) > 0);
    }
}

#[test]
fn a_signal_handler_never_waits_for_the_request_it_interrupted() {
    let agent = Agent::start_with(selective());
    succeed(&mut command(&agent, compiled(&agent, "interrupted")));
    let (interrupts, bytes) =
        (agent.counter(Counter::DiskWriteInterruptRequests), agent.counter(Counter::DiskWriteInterruptBytes));
    assert!(interrupts > 0 && bytes == 3 * interrupts, "{interrupts} writes of 3 bytes have {bytes}");
    assert_eq!(agent.requests().sum(&families::REQUESTS, &[("outcome", "failed")]), 0);
}

#[test]
fn a_descriptor_that_another_thread_replaces_is_never_taken_for_unmanaged() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "replaced")));
    assert_eq!(agent.disk_bytes("write"), 0);
}

#[test]
fn a_call_ends_on_the_file_it_began_on_whatever_comes_under_its_number_meanwhile() {
    for call in ["write", "read", "cut", "send", "duplicate"] {
        let agent = Agent::start_with(selective());
        let mut run = command(&agent, compiled(&agent, "reused"));
        let mut child = run.arg(call).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut input = child.stdin.take().unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        agent.hold_asks(true);
        input.write_all(b"go\n").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "called");
        while agent.held_asks() == 0 {
            assert!(child.try_wait().unwrap().is_none(), "{call} asks");
            std::thread::sleep(Duration::from_millis(5));
        }
        input.write_all(b"go\n").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "replacing");
        // Time to replace it for who does not wait for the call.
        std::thread::sleep(Duration::from_millis(200));
        agent.hold_asks(false);
        assert!(child.wait().unwrap().success(), "{call}");
    }
}

#[test]
fn calls_of_threads_at_one_offset_come_one_after_the_other() {
    let agent = Agent::start();
    let mut run = command(&agent, compiled(&agent, "shared_offset"));
    let mut child = run.arg("held").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut input = child.stdin.take().unwrap();
    for _ in 0..2 {
        let asked = agent.held_asks();
        for said in ["ready", "reading", "moving"] {
            assert_eq!(lines.next().unwrap().unwrap(), said);
            match said {
                "ready" => agent.hold_asks(true),
                "reading" => {
                    while agent.held_asks() == asked {
                        assert!(child.try_wait().unwrap().is_none(), "the read asks");
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
                _ => {
                    // Time to move the offset for who does not wait for the read.
                    std::thread::sleep(Duration::from_millis(200));
                    agent.hold_asks(false);
                }
            }
            input.write_all(b"go\n").unwrap();
        }
    }
    assert!(child.wait().unwrap().success());
}

#[test]
fn threads_that_share_an_offset_get_each_record_of_a_growing_file_once() {
    for parameters in [Default::default(), selective()] {
        let agent = Agent::start_with(parameters);
        agent.churn();
        succeed(command(&agent, compiled(&agent, "shared_offset")).arg("records"));
    }
}

#[test]
fn calls_on_a_number_under_which_files_are_swapped_have_one_of_them_whole() {
    let seed = seed();
    println!("SEED={seed}");
    for (number, parameters) in [Default::default(), selective(), selective()].into_iter().enumerate() {
        let agent = Agent::start_with(parameters);
        if number == 2 {
            agent.churn();
        }
        succeed(command(&agent, compiled(&agent, "swapped")).args([&seed.to_string(), "1000"]));
    }
}

#[test]
fn the_agent_hears_that_a_file_open_for_reading_is_opened_for_writing() {
    let agent = Agent::start();
    fs::write(agent.slow.join("f"), b"x").unwrap();
    python(
        &agent,
        "import os
r = os.open('f', os.O_RDONLY)
w = os.open('f', os.O_RDWR)
again = os.open('f', os.O_WRONLY)
if os.fork() == 0:
    os.pread(r, 1, 0); os.pwrite(w, b'y', 0); os._exit(0)
os.wait()",
    );
    let opens: Vec<bool> = agent
        .log()
        .iter()
        .filter(|line| line.starts_with("Open"))
        .map(|line| line.contains("writable: true"))
        .collect();
    assert_eq!(opens, [false, true, true]);
}

#[test]
fn stores_to_a_mapping_and_writes_to_the_file_see_each_other() {
    let agent = Agent::start();
    python(
        &agent,
        "import os, mmap
fd = os.open('f', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'flash' * 2000, 0)
m = mmap.mmap(fd, 0)
assert m[:5] == b'flash'
m[:5] = b'store'; assert os.pread(fd, 10, 0) == b'storeflash'
os.pwrite(fd, b'direct', 100); assert m[100:106] == b'direct'
if os.fork() == 0:
    m[:5] = b'child'; assert os.pread(fd, 5, 0) == b'child'; os._exit(0)
assert os.wait()[1] == 0
assert os.pread(fd, 5, 0) == b'child'",
    );
    assert_eq!(agent.logged("Bypass"), 2, "a child with its parent's mapping says so too");
    assert_eq!(agent.mapped_bytes(), 0);
}

#[test]
fn standard_input_is_read_as_others_left_it() {
    let agent = Agent::start();
    shell(
        &agent,
        "python3 -c 'import os; os.pwrite(os.open(\"f\", os.O_RDWR | os.O_CREAT), b\"b\\na\\n\", 0)'
test \"$(sort < f)\" = $'a\\nb'
test \"$(sed -n 2p < f)\" = a",
    );
    assert_eq!(agent.counter(Counter::AbsorbedRequests), 1);
}

#[test]
fn standard_input_is_read_as_it_was_left_whatever_call_put_a_file_there() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "input")));
    assert_eq!(agent.logged("Bypass"), 8, "one for each file that is read");
    assert!(agent.mapped_bytes() > 0);
}

#[test]
fn streams_see_what_was_absorbed() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "stdio")));
    assert_eq!(agent.mapped_bytes(), 0);
}

#[test]
fn a_number_that_is_given_out_again_while_its_close_lingers_is_a_managed_file() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "lingering")));
}

#[test]
fn flags_that_change_count_for_every_descriptor_that_shares_them() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "changed_flags")));
    assert!(agent.counter(Counter::AbsorbedRequests) > 2);
}

#[test]
fn a_thread_that_holds_a_stream_s_lock_uses_it_while_others_reopen_close_or_flush() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "locked_streams")));
}

#[test]
fn one_file_is_opened_and_closed_once_however_many_descriptors_it_has() {
    let agent = Agent::start();
    python(
        &agent,
        "import os
a = os.open('f', os.O_RDWR | os.O_CREAT); b = os.dup(a); c = os.open('f', os.O_RDONLY); os.dup2(a, 90)
os.link('f', 'g'); d = os.open('g', os.O_RDWR)
for fd in a, b, c, 90: os.close(fd)
os.pwrite(d, b'x', 0)
os.close(d)
os.close(os.open('f', os.O_RDWR))",
    );
    let told: Vec<_> = agent.log().iter().map(|line| line.split(' ').next().unwrap().to_string()).collect();
    assert_eq!(told, ["Open", "Name", "Slab", "Close", "Open", "Close"]);
}

#[test]
fn an_agent_that_refuses_a_file_fails_the_open_with_its_reason() {
    let agent = Agent::start();
    fs::write(agent.slow.join("f"), b"x").unwrap();
    agent.refuse_opens();
    let output = python(
        &agent,
        "import os, errno
before = len(os.listdir('/proc/self/fd'))
for k in range(3):
    try: os.open('f', os.O_RDONLY)
    except OSError as e: assert e.errno == errno.EBUSY, e
    else: raise AssertionError",
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("headstart: another node has it"));
}

#[test]
fn a_program_that_says_why_it_ends_does_so_whatever_the_agent_says_of_its_messages_file() {
    let agent = Agent::start();
    let program = compiled(&agent, "last_words");
    agent.refuse_opens();
    for call in ["err", "errx", "verr", "verrx", "error", "error_at_line"] {
        let log = agent.slow.join(call);
        let run = command(&agent, &program).arg(call).stderr(fs::File::create(&log).unwrap()).status().unwrap();
        assert_eq!(run.code(), Some(3), "{call}");
        let text = fs::read_to_string(&log).unwrap();
        assert!(text.contains(&format!("last words of {call}")), "{text}");
        assert_eq!(text.contains("No space left on device"), !call.ends_with('x'), "errno is the program's: {text}");
    }
}

#[test]
fn without_an_agent_a_managed_open_fails_and_other_files_work() {
    let mut agent = Agent::start();
    fs::write(agent.slow.join("f"), b"x").unwrap();
    // An agent owns the directory, but it is gone.
    fs::write(agent.slow.join(OWNER_FILE), b"").unwrap();
    agent.stop();
    let start = Instant::now();
    let output = python(
        &agent,
        "import os, errno
os.open('/etc/passwd', os.O_RDONLY)
for k in range(3):
    try: os.open('f', os.O_RDONLY)
    except OSError as e: assert e.errno == errno.EIO, e
    else: raise AssertionError",
    );
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("see `headstart status`")
            || String::from_utf8_lossy(&output.stderr).contains("See `headstart status`")
    );
    assert!(start.elapsed() < Duration::from_secs(10), "nobody waits for an agent that never was");
}

#[test]
fn ranks_wait_for_a_new_agent_and_send_the_pending_commit_again() {
    let mut agent = Agent::start();
    agent.swallow_commits(true);
    let script = "import os, time
fd = os.open('f', os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b'first', 0)
os.pwrite(fd, b'second', 5)
assert os.pread(fd, 99, 0) == b'firstsecond'
os.close(fd)";
    let child = command(&agent, "/usr/bin/python3").args(["-c", script]).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while agent.logged("swallowed") == 0 {
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(5));
    }
    agent.stop();
    agent.swallow_commits(false);
    std::thread::sleep(Duration::from_millis(300));
    agent.serve();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(agent.logged("repeated commit"), 1);
    assert_eq!(agent.logged("Open"), 2, "the file was opened again at the new agent");
    let waited_ns = agent.counter(Counter::AgentAwayNs);
    assert_eq!(agent.counter(Counter::AgentAwayWaits), 1);
    assert!(waited_ns >= 250_000_000, "the agent was away for 0.3 s: {waited_ns} ns");
    agent.drain();
    assert_eq!(fs::read(agent.slow.join("f")).unwrap(), b"firstsecond");
}

#[test]
fn clear_bits_stay_valid_while_the_agent_is_gone() {
    let mut agent = Agent::start();
    fs::write(agent.slow.join("f"), vec![b'.'; 3 << 20]).unwrap();
    let script = "import os, sys
fd = os.open('f', os.O_RDWR)
os.pread(fd, 1, 0)
print('ready', flush=True)
sys.stdin.readline()
for k in range(1000): assert os.pread(fd, 4096, k * 2048) == b'.' * 4096
os.pwrite(fd, b'written', 1 << 20)
assert os.pread(fd, 7, 1 << 20) == b'written'
print('done', flush=True)
sys.stdin.readline()";
    let mut run = command(&agent, "/usr/bin/python3");
    run.args(["-c", script]).env("HEADSTART_POLICY", "off").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = run.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut input = child.stdin.take().unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    agent.stop();
    std::io::Write::write_all(&mut input, b"go\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "done");
    agent.serve();
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn no_call_takes_so_much_of_a_stack_that_a_small_one_would_not_hold_it() {
    let agent = Agent::start();
    let program = compiled(&agent, "small_stacks");
    let used = |command: &mut Command| -> Vec<(String, Vec<u64>)> {
        let printed = String::from_utf8(succeed(command).stdout).unwrap();
        let line = |line: &str| {
            let mut words = line.split(' ');
            let name = words.next().unwrap().to_string();
            (name, words.map(|word| word.parse().unwrap()).collect())
        };
        printed.lines().map(line).collect()
    };
    let plain = used(Command::new(&program).current_dir(agent.root.join("outside")));
    let under = used(&mut command(&agent, &program));
    assert_eq!(plain.len(), 14);
    for ((call, before), (_, now)) in plain.into_iter().zip(under) {
        // A handler's stack has 8 KiB (SIGSTKSZ) and a thread's 16 KiB (PTHREAD_STACK_MIN), of which the
        // kernel and libc take most.
        for (before, now) in before.into_iter().zip(now) {
            assert!(now < before + 4096, "{call}: {now} bytes of the stack, {before} without the library");
        }
    }
}

#[test]
fn what_another_process_makes_of_a_shared_description_s_flags_counts_at_the_next_write() {
    let agent = Agent::start();
    python(
        &agent,
        "import os, fcntl
fd = os.open('f', os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b'0' * 8192, 0)
there, back = os.pipe(), os.pipe()
if os.fork() == 0:
    for flags in os.O_APPEND, 0:
        os.read(there[0], 1); fcntl.fcntl(fd, fcntl.F_SETFL, flags); os.write(back[1], b'x')
    os._exit(0)
def told(): os.write(there[1], b'x'); os.read(back[0], 1)
told()
os.lseek(fd, 0, 0); assert os.write(fd, b'end') == 3 and os.fstat(fd).st_size == 8195
told()
os.lseek(fd, 0, 0); assert os.write(fd, b'begin') == 5 and os.fstat(fd).st_size == 8195
os.wait()
assert os.pread(fd, 9000, 0) == b'begin' + b'0' * 8187 + b'end'",
    );
}
