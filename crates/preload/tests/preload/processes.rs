//! Threads, signals, fork and exec.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use headstart_protocol::counters::families;
use headstart_protocol::shared::Counter;

use crate::data_path::selective;
use crate::fake_agent::Agent;
use crate::programs::{EXHAUSTED, command, compiled, python, shell, succeed};

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
fn a_signal_handler_never_waits_for_the_request_it_interrupted() {
    let agent = Agent::start_with(selective());
    succeed(&mut command(&agent, compiled(&agent, "interrupted")));
    let (interrupts, bytes) =
        (agent.counter(Counter::DiskWriteInterruptRequests), agent.counter(Counter::DiskWriteInterruptBytes));
    assert!(interrupts > 0 && bytes == 3 * interrupts, "{interrupts} writes of 3 bytes have {bytes}");
    assert_eq!(agent.requests().sum(&families::REQUESTS, &[("outcome", "failed")]), 0);
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
