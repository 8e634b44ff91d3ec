//! Asynchronous I/O: the C library's interface, MPI's nonblocking calls on top of it, and fio.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use headstart_protocol::shared::Counter;

use crate::data_path::selective;
use crate::fake_agent::Agent;
use crate::programs::{command, compiled, compiled_with_mpi, open_mpi, python, succeed};

#[test]
fn libc_reports_what_became_of_operations_on_managed_files() {
    for policy in ["s4d", "off"] {
        let agent = Agent::start();
        succeed(command(&agent, compiled(&agent, "aio")).env("HEADSTART_POLICY", policy));
        if policy == "s4d" {
            assert!(agent.counter(Counter::AbsorbedRequests) > 5);
            assert!(agent.logged("Sync") > 2);
        }
    }
}

#[test]
fn operations_overlap_with_the_program_and_can_be_waited_for_and_cancelled() {
    let mut agent = Agent::start();
    let mut child = command(&agent, compiled(&agent, "aio_pending"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    agent.swallow_commits(true);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"go\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "pending");
    agent.stop();
    agent.swallow_commits(false);
    agent.serve();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_sync_ends_no_sooner_than_the_writes_before_it() {
    let agent = Agent::start();
    let output = command(&agent, compiled(&agent, "aio_order")).output().unwrap();
    if output.status.code() == Some(77) {
        println!("SKIPPED: no userfaultfd");
        return;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(agent.logged("Sync"), 1);
}

/// Runs a Python script that knows `libc` and `Block`, its `struct aiocb`.
fn with_control_blocks(agent: &Agent, script: &str) {
    let knows = "import ctypes, os
class Block(ctypes.Structure):
    _fields_ = [('fd', ctypes.c_int), ('opcode', ctypes.c_int), ('priority', ctypes.c_int), ('buffer', ctypes.c_char_p),
                ('length', ctypes.c_size_t), ('event', ctypes.c_int * 16), ('inner', ctypes.c_char * 32),
                ('offset', ctypes.c_long), ('rest', ctypes.c_char * 32)]
libc = ctypes.CDLL(None)";
    python(agent, &format!("{knows}\n{script}"));
}

#[test]
fn a_sync_of_any_priority_is_one_of_what_flash_holds() {
    let agent = Agent::start();
    with_control_blocks(
        &agent,
        "fd = os.open('f', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'x' * 10, 0)
for priority in -1, 0, 99:
    block = Block(fd=fd, priority=priority)
    block.event[3] = 1  # SIGEV_NONE
    assert libc.aio_fsync(os.O_SYNC, ctypes.byref(block)) == 0
    while libc.aio_error(ctypes.byref(block)) == 115: pass
    assert libc.aio_error(ctypes.byref(block)) == 0",
    );
    assert_eq!(agent.logged("Sync"), 3);
}

#[test]
fn a_program_that_may_open_no_more_descriptors_still_has_its_operations_done() {
    let agent = Agent::start();
    with_control_blocks(
        &agent,
        "import resource
fd = os.open('f', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'x' * 10, 0)
resource.setrlimit(resource.RLIMIT_NOFILE, (fd + 1, fd + 1))
block = Block(fd=fd, buffer=b'hello', length=5, offset=3)
block.event[3] = 1  # SIGEV_NONE
assert libc.aio_write(ctypes.byref(block)) == 0
while libc.aio_error(ctypes.byref(block)) == 115: pass
assert libc.aio_error(ctypes.byref(block)) == 0 and libc.aio_return(ctypes.byref(block)) == 5
assert os.pread(fd, 20, 0) == b'xxxhelloxx'",
    );
}

#[test]
fn nonblocking_mpi_calls_of_several_ranks_see_each_others_bytes() {
    for parameters in [Default::default(), selective()] {
        let agent = Agent::start_with(parameters);
        let Some(program) = compiled_with_mpi(&agent, "mpi_nonblocking") else { return };
        for io in ["ompio", "romio321"] {
            open_mpi(&agent, &program, 4, io);
        }
        assert!(agent.counter(Counter::AbsorbedRequests) > 1000);
    }
}

#[test]
fn fio_verifies_what_it_wrote_with_aio() {
    if !Path::new("/usr/bin/fio").exists() {
        eprintln!("SKIPPED: no fio");
        return;
    }
    let agent = Agent::start();
    let mut run = command(&agent, "/usr/bin/fio");
    run.args(["--name=verify", "--filename=f", "--ioengine=posixaio", "--iodepth=8", "--rw=randwrite", "--bs=4k"]);
    run.args([
        "--size=4m",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--do_verify=1",
        "--fsync=200",
        "--output=/dev/null",
    ]);
    succeed(&mut run);
    assert!(agent.counter(Counter::AbsorbedRequests) >= 1024);
    assert!(agent.counter(Counter::FlashReadRequests) >= 1024);
}
