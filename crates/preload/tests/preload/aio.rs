//! Asynchronous I/O: the C library's interface, MPI's nonblocking calls on top of it, and fio.

use std::path::Path;

use headstart_core::protocol::shared::Counter;

use crate::data_path::selective;
use crate::fake_agent::Agent;
use crate::programs::{command, compiled, compiled_with_mpi, open_mpi, succeed};

#[test]
fn libc_reports_what_became_of_operations_on_managed_files() {
    for policy in ["s4d", "off"] {
        let agent = Agent::start();
        succeed(command(&agent, compiled(&agent, "aio")).env("HEADSTART_POLICY", policy));
        if policy == "s4d" {
            assert!(agent.counter(Counter::AbsorbedRequests) > 5);
            assert_eq!(agent.logged("Sync"), 2);
        }
    }
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
