//! An agent that refuses, goes away, or never was.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use headstart_protocol::OWNER_FILE;
use headstart_protocol::shared::Counter;

use crate::fake_agent::Agent;
use crate::programs::{command, python};

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
