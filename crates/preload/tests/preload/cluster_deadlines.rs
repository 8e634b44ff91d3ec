//! What a node's deadline in a cluster does to calls: they count only while it lies ahead.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::fake_agent::Agent;
use crate::programs::{command, python};

/// Every kind of managed call, by name, with what it returns where it counts. `f` has 8 bytes at 0 on the disk.
const CALLS: &str = "import ctypes, os, errno
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open('f', os.O_RDWR | os.O_CREAT)
end = os.open('f', os.O_WRONLY | os.O_APPEND)
synced = os.open('f', os.O_WRONLY | os.O_DSYNC)
def fallocate(mode):
    if libc.fallocate(fd, mode, ctypes.c_long(0), ctypes.c_long(4096)) != 0:
        raise OSError(ctypes.get_errno(), 'fallocate')
calls = {
    'pread': lambda: os.pread(fd, 4, 0),
    'pread at the end': lambda: os.pread(fd, 4, 1 << 20),
    'read': lambda: (os.lseek(fd, 0, 0), os.read(fd, 4)),
    'readv': lambda: os.preadv(fd, [bytearray(4)], 0),
    'pwrite': lambda: os.pwrite(fd, b'abcd', 0),
    'write': lambda: (os.lseek(fd, 0, 0), os.write(fd, b'abcd')),
    'absorbed': lambda: os.pwrite(fd, b'e' * 4096, 1 << 21),
    'read on flash': lambda: os.pread(fd, 4096, 1 << 21),
    'synced write': lambda: os.pwrite(synced, b'abcd', 0),
    'append': lambda: os.write(end, b'tail'),
    'ftruncate': lambda: os.ftruncate(fd, 1 << 22),
    'posix_fallocate': lambda: os.posix_fallocate(fd, 0, 1 << 23),
    'punch': lambda: fallocate(3),
    'zero': lambda: fallocate(16),
    'fsync': lambda: os.fsync(fd),
    'fdatasync': lambda: os.fdatasync(fd),
}
";

#[test]
fn no_call_counts_on_a_node_that_was_given_up_and_all_do_while_it_is_a_member() {
    let agent = Agent::start();
    fs::write(agent.slow.join("f"), b"12345678").unwrap();
    let counts = format!("{CALLS}for name, call in calls.items(): call()");
    python(&agent, &counts);
    agent.deadline().set(u64::MAX);
    python(&agent, &counts);
    agent.deadline().expel();
    let script = format!(
        "{CALLS}for name, call in calls.items():
    try: call()
    except OSError as e: assert e.errno == errno.EIO, (name, e)
    else: raise AssertionError(name)
try: os.pread(fd, 4, -1)
except OSError as e: assert e.errno == errno.EINVAL, e
assert os.pread(os.open('/proc/self/cmdline', os.O_RDONLY), 1, 0), 'what is not managed is as ever'"
    );
    python(&agent, &script);
}

#[test]
fn a_call_past_the_deadline_waits_says_so_once_and_returns_what_it_found() {
    let agent = Agent::start();
    fs::write(agent.slow.join("f"), b"12345678").unwrap();
    agent.deadline().set(0);
    let script = "import os, threading
fd = os.open('f', os.O_RDWR)
threads = [threading.Thread(target=lambda: os.pwrite(fd, b'x', 9)) for _ in range(2)]
for thread in threads: thread.start()
assert os.pread(fd, 8, 0) == b'12345678'
print('read', flush=True)
for thread in threads: thread.join()
os.pwrite(fd, b'written', 0)
assert os.pread(fd, 7, 0) == b'written'";
    let mut program = command(&agent, "/usr/bin/python3");
    program.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    errors.read_line(&mut said).unwrap();
    assert!(said.contains("waits until it is") && said.contains("headstart cluster status"), "{said}");
    // Another look that finds nothing new.
    agent.deadline().set(2);
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(child.try_wait().unwrap().is_none(), "it waits");
    agent.deadline().set(u64::MAX);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "read\n");
    assert!(child.wait().unwrap().success());
    said.clear();
    errors.read_line(&mut said).unwrap();
    assert_eq!(said, "", "one line a minute, whatever the number of threads");
}

#[test]
fn a_call_that_waits_fails_once_the_node_is_given_up() {
    let agent = Agent::start();
    fs::write(agent.slow.join("f"), b"12345678").unwrap();
    let script = "import os, sys, errno
fd = os.open('f', os.O_RDWR)
os.pread(fd, 8, 0)
print('ready', flush=True)
sys.stdin.readline()
try: os.pwrite(fd, b'late', 0)
except OSError as e: assert e.errno == errno.EIO, e
else: raise AssertionError";
    let mut program = command(&agent, "/usr/bin/python3");
    program.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    agent.deadline().set(2);
    child.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
    line.clear();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    errors.read_line(&mut line).unwrap();
    assert!(line.contains("waits until it is"), "{line}");
    agent.deadline().expel();
    assert!(child.wait().unwrap().success(), "{line}");
}
