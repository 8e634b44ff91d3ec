//! Calls by which the kernel moves bytes into managed files, or within them: each comes to what it comes to outside.

use std::fs;

use headstart_protocol::shared::Counter;

use crate::fake_agent::Agent;
use crate::programs::python;

/// Runs `calls`, which sees two files with 10,000 bytes each and says with `t` what each call came to, under
/// the managed directory and outside of it.
fn alike(agent: &Agent, calls: &str) {
    let script = format!(
        "import ctypes, errno, fcntl, os, struct
libc = ctypes.CDLL(None, use_errno=True)
def filled(name, byte):
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644); os.pwrite(fd, byte * 10000, 0)
    return fd
def played():
    said = []
    def t(*calls):
        for call in calls:
            try: said.append(call())
            except OSError as e: said.append(errno.errorcode[e.errno])
    a, b = filled('a', b'a'), filled('b', b'b')
{}
    said += [open(name, 'rb').read() for name in 'ab']
    return said
managed = played()
os.chdir(os.environ['OUTSIDE']); plain = played()
for k, (m, p) in enumerate(zip(managed, plain)): assert m == p, (k, m, p)
assert len(managed) == len(plain)",
        calls.lines().map(|line| format!("    {line}\n")).collect::<String>()
    );
    python(agent, &script);
    assert!(agent.counter(Counter::AbsorbedRequests) > 0);
    agent.drain();
    for name in ["a", "b"] {
        let outside = fs::read(agent.root.join("outside").join(name)).unwrap();
        assert!(fs::read(agent.slow.join(name)).unwrap() == outside, "{name} on the slow directory");
    }
}

#[test]
fn a_copy_into_a_managed_file_or_within_one_comes_to_what_the_kernel_makes_of_others() {
    alike(
        &Agent::start(),
        "t(lambda: os.copy_file_range(a, b, 5000, 100, 200), lambda: os.copy_file_range(a, a, 400, 100, 9000))
t(lambda: os.copy_file_range(a, a, 5000, 100, 200), lambda: os.copy_file_range(a, os.open('a', os.O_RDWR), 500, 0, 499))
t(lambda: os.copy_file_range(a, b, 5000, 9000, 0), lambda: os.copy_file_range(a, b, 5000, 19000, 0))
os.lseek(a, 10, 0); os.lseek(b, 20, 0)
t(lambda: os.copy_file_range(a, b, 50), lambda: os.lseek(a, 0, 1), lambda: os.lseek(b, 0, 1))
appending = os.open('a', os.O_WRONLY | os.O_APPEND)
reading, writing = os.open('b', os.O_RDONLY), os.open('b', os.O_WRONLY)
t(lambda: os.copy_file_range(a, appending, 50), lambda: os.sendfile(appending, a, 0, 50))
t(lambda: os.copy_file_range(a, reading, 50), lambda: os.copy_file_range(writing, a, 50))
t(lambda: os.sendfile(reading, a, 0, 50), lambda: os.sendfile(a, writing, 0, 50))
t(lambda: os.copy_file_range(os.open('.', os.O_RDONLY), a, 50))
pipe, filler = os.pipe()
t(lambda: os.copy_file_range(pipe, a, 50), lambda: os.sendfile(b, pipe, None, 300))
t(lambda: libc.copy_file_range(a, None, b, None, 10, 1), ctypes.get_errno)
t(lambda: libc.copy_file_range(a, ctypes.c_void_p(1), b, None, 10, 0), ctypes.get_errno)
t(lambda: os.sendfile(b, a, 500, 300), lambda: os.lseek(b, 0, 1), lambda: os.sendfile(b, a, None, 99),
  lambda: os.lseek(a, 0, 1))",
    );
}

#[test]
fn a_pipe_is_spliced_into_a_managed_file_as_into_others() {
    alike(
        &Agent::start(),
        "pipe, filler = os.pipe()
os.write(filler, b'p' * 5000)
t(lambda: os.splice(pipe, b, 3000, offset_dst=9000), lambda: os.fstat(b).st_size)
appending = os.open('b', os.O_WRONLY | os.O_APPEND)
t(lambda: os.splice(pipe, appending, 99), lambda: os.splice(a, b, 99),
  lambda: os.splice(pipe, os.open('b', os.O_RDONLY), 99))
t(lambda: os.splice(pipe, b, 1), lambda: os.splice(pipe, b, 99999), lambda: os.lseek(b, 0, 1))
t(lambda: os.splice(pipe, b, 99999, flags=2), lambda: os.splice(pipe, b, 99, offset_src=0))
# One that is empty is waited for, while others use the file.
import threading, time
later = threading.Thread(target=lambda: (os.pread(b, 1, 0), os.write(filler, b'later')))
threading.Timer(0.05, later.start).start()
t(lambda: os.splice(pipe, b, 99999)); later.join()
os.close(filler)
t(lambda: os.splice(pipe, b, 99999))",
    );
}

#[test]
fn two_names_are_exchanged_and_the_agent_hears_of_both() {
    let agent = Agent::start();
    alike(
        &agent,
        "os.mkdir('d'); exchange = lambda x, y: libc.renameat2(-100, x, -100, y, 2) and ctypes.get_errno()
t(lambda: exchange(b'a', b'b'), lambda: exchange(b'a', b'd'), lambda: exchange(b'd', b'a'),
  lambda: exchange(b'a', b'none'))
t(lambda: os.pread(a, 9, 0), lambda: os.stat('b').st_ino == os.fstat(a).st_ino)",
    );
    assert_eq!(agent.log().iter().filter(|line| line.contains("exchanged: true")).count(), 3);
    python(
        &agent,
        "import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
outside = os.environ['OUTSIDE'].encode() + b'/b'
assert libc.renameat2(-100, b'a', -100, outside, 2) == -1 and ctypes.get_errno() == errno.EXDEV",
    );
}
