//! The managed directory by other paths than its own.

use std::fs;
use std::process::Command;

use headstart_protocol::shared::Counter;

use crate::fake_agent::Agent;
use crate::programs::{command, succeed};

/// Mounts a directory, or removes a mount, within the process.
const MOUNTS: &str = "import os, ctypes, ctypes.util
slow, outside = os.environ['SLOW'], os.environ['OUTSIDE']
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def bind(at, to):
    if os.path.isdir(at): os.makedirs(to, exist_ok=True)
    else: open(to, 'w').close()
    check(libc.mount(at.encode(), to.encode(), None, 4096, None))
def unmount(at): check(libc.umount2(at.encode(), 2))
check(libc.unshare(0x20000))
check(libc.mount(b'none', b'/', None, 0x4000 | 0x40000, None))
";

/// Runs Python in a mount namespace of its own; false where that is not permitted.
fn in_mounts(agent: &Agent, script: &str) -> bool {
    let permitted = Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success());
    if !permitted {
        eprintln!("SKIPPED: no mount namespaces");
        return false;
    }
    succeed(command(agent, "/usr/bin/python3").arg("-c").arg(format!("{MOUNTS}{script}")));
    true
}

#[test]
fn a_file_is_the_same_by_every_mount_that_shows_it() {
    let agent = Agent::start();
    let ran = in_mounts(
        &agent,
        "os.mkdir('d'); fds = [os.open(slow + '/d/f', os.O_RDWR | os.O_CREAT)]
bind(slow, outside + '/whole'); bind(slow + '/d', outside + '/a part'); bind(slow + '/d/f', outside + '/single')
bind(os.path.dirname(slow), outside + '/above'); bind(outside + '/whole', outside + '/twice')
names = ['/whole/d/f', '/a part/f', '/single', '/above/slow/d/f', '/twice/d/f']
for name in names: fds.append(os.open(outside + name, os.O_RDWR))
os.chdir(outside + '/a part'); fds.append(os.open('f', os.O_RDWR | os.O_CREAT))
for k, fd in enumerate(fds):
    os.pwrite(fd, b'%d' % k, k)
    for other in fds: assert os.pread(other, 9, 0) == b'0123456'[:k + 1], (k, other)
os.truncate(outside + '/whole/d/f', 2)
for fd in fds: assert os.pread(fd, 9, 0) == b'01'
cut = os.open('f', os.O_RDWR | os.O_TRUNC)
for fd in fds + [cut]: assert os.pread(fd, 9, 0) == b''
for fd in fds + [cut]: os.close(fd)
os.rename('f', outside + '/a part/g')
try: os.rename(outside + '/above/slow/d/g', outside + '/above/outside/g')
except OSError as e: assert e.errno == 18
else: assert False
try: os.link(outside + '/above/slow/d/g', outside + '/above/outside/g')
except OSError as e: assert e.errno == 18
else: assert False
os.unlink(outside + '/twice/d/g')
assert os.listdir(slow + '/d') == []",
    );
    if ran {
        assert_eq!(agent.counter(Counter::AbsorbedRequests), 7);
        let log = agent.log();
        let told = |what: &str| log.iter().filter(|line| line.starts_with(what)).count();
        assert_eq!((told("Open"), told("Renamed"), told("Unlinked")), (1, 1, 1), "{log:?}");
        let slow = agent.slow.to_str().unwrap();
        let names = format!("{:?}", format!("{slow}/d/f{slow}/d/g").into_bytes());
        assert!(log.iter().any(|line| line.contains(&names)), "{log:?}");
    }
}

#[test]
fn what_a_mount_shows_is_asked_anew_when_another_has_come_in_its_place() {
    let agent = Agent::start();
    let ran = in_mounts(
        &agent,
        "os.mkdir('d'); os.mkdir(outside + '/other'); at = outside + '/at'
for directory in slow + '/d', outside + '/other': open(directory + '/f', 'w').close()
inside = os.open(slow + '/d/f', os.O_RDWR)
for turn in range(3):
    bind(outside + '/other', at)
    fd = os.open(at + '/f', os.O_RDWR); os.pwrite(fd, b'o', turn); os.close(fd)
    unmount(at); bind(slow + '/d', at)
    fd = os.open(at + '/f', os.O_RDWR); os.pwrite(fd, b'i', turn); os.close(fd)
    assert os.pread(inside, 9, 0) == b'i' * (turn + 1)
    os.rename(slow + '/d', slow + '/e')
    fd = os.open(at + '/f', os.O_RDWR); assert os.pread(fd, 9, 0) == b'i' * (turn + 1); os.close(fd)
    os.rename(slow + '/e', slow + '/d')
    unmount(at)",
    );
    if ran {
        assert_eq!(agent.counter(Counter::AbsorbedRequests), 3);
        assert_eq!(fs::read(agent.root.join("outside/other/f")).unwrap(), b"ooo");
    }
}
