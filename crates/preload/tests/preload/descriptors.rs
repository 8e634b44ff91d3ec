//! What a descriptor is, whatever other threads and processes make of its number, its offset and its flags.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use headstart_protocol::shared::Counter;

use crate::data_path::{seed, selective};
use crate::fake_agent::Agent;
use crate::programs::{command, compiled, library, null_interposer, python, succeed};

#[test]
fn closing_every_descriptor_leaves_the_library_alive_and_no_stale_entry() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "close_all")));
    assert!(agent.counter(Counter::AbsorbedRequests) >= 4);
    assert_eq!(agent.logged("Close"), 1);
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
