//! Beside other preloaded libraries.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use headstart_protocol::shared::Counter;

use crate::fake_agent::Agent;
use crate::programs::{command, compiled, compiled_library, library, null_interposer, succeed};

fn preload(libraries: [&Path; 2]) -> OsString {
    libraries.map(Path::as_os_str).join(":".as_ref())
}

/// Runs the random calls under both libraries and returns what the other one counted: open, close, pread, pwrite.
fn counted_beside(first: impl Fn(&Agent) -> [std::path::PathBuf; 2]) -> Vec<u64> {
    let agent = Agent::start();
    let (program, model) = (compiled(&agent, "torture"), agent.root.join("outside/model"));
    let [one, two] = first(&agent);
    let mut run = command(&agent, program);
    succeed(run.args(["file", "5", "2000"]).arg(&model).env("LD_PRELOAD", preload([&one, &two])));
    assert!(agent.counter(Counter::AbsorbedRequests) > 300);
    agent.drain();
    assert!(fs::read(agent.slow.join("file")).unwrap() == fs::read(model).unwrap());
    let counts = fs::read_to_string(agent.root.join("outside/counts")).unwrap();
    counts.split(' ').map(|count| count.parse().unwrap()).collect()
}

#[test]
fn a_library_preloaded_before_this_one_sees_every_call() {
    let counts = counted_beside(|agent| [compiled_library(agent, "interposer"), library()]);
    assert!(counts[0] > 2 && counts[1] > 50 && counts[2] > 300 && counts[3] > 300, "{counts:?}");
}

#[test]
fn a_library_preloaded_behind_this_one_sees_calls_on_other_files_alone() {
    let counts = counted_beside(|agent| [library(), compiled_library(agent, "interposer")]);
    assert!(counts[0] > 0 && counts[1] > 0, "{counts:?}");
    assert_eq!(counts[2..], [0, 0]);
}

#[test]
fn a_library_that_hooks_the_same_symbols_works_in_either_order() {
    let agent = Agent::start();
    let (null, ours) = (null_interposer(&agent), library());
    for (number, libraries) in [[&*null, &*ours], [&*ours, &*null]].into_iter().enumerate() {
        for program in ["aio", "children", "threads", "close_all", "cancelled"] {
            succeed(command(&agent, compiled(&agent, program)).env("LD_PRELOAD", preload(libraries)));
        }
        let (program, model) = (compiled(&agent, "torture"), agent.root.join("outside/model"));
        let (file, seed) = (format!("torture{number}"), (number + 40).to_string());
        let mut run = command(&agent, program);
        succeed(run.args([&file, &seed, "2000"]).arg(&model).env("LD_PRELOAD", preload(libraries)));
        agent.drain();
        assert!(fs::read(agent.slow.join(file)).unwrap() == fs::read(model).unwrap());
    }
    assert!(agent.counter(Counter::AbsorbedRequests) > 600);
}

#[test]
fn a_library_that_makes_its_mappings_by_number_works_in_either_order() {
    let agent = Agent::start();
    let (mapping, ours) = (compiled_library(&agent, "mmap_by_number"), library());
    for libraries in [[&*mapping, &*ours], [&*ours, &*mapping]] {
        succeed(command(&agent, compiled(&agent, "threads")).env("LD_PRELOAD", preload(libraries)));
    }
}

#[test]
fn an_allocator_that_logs_to_a_managed_file_is_never_entered_from_within() {
    let agent = Agent::start();
    let allocator = compiled_library(&agent, "traced_malloc");
    for libraries in [[&*allocator, &*library()], [&*library(), &*allocator]] {
        for program in ["ranks", "threads"] {
            let mut run = command(&agent, compiled(&agent, program));
            succeed(run.args(["small", "2", "3", "40", "5000"]).env("LD_PRELOAD", preload(libraries)));
        }
    }
    assert!(agent.logged("Open") > 4);
}

#[test]
fn a_thread_held_up_while_it_closes_or_replaces_a_descriptor_makes_others_wait_and_nobody_fail() {
    let agent = Agent::start();
    let slow = compiled_library(&agent, "slow_close");
    succeed(command(&agent, compiled(&agent, "held_up")).env("LD_PRELOAD", preload([&library(), &slow])));
}

#[test]
fn an_allocation_that_writes_zeros_over_the_zeros_it_reads_loses_nothing() {
    let agent = Agent::start();
    let emulation = compiled_library(&agent, "emulated_fallocate");
    let mut run = command(&agent, compiled(&agent, "fallocated"));
    run.env("LD_PRELOAD", preload([&library(), &emulation]));
    let told = agent.root.join("outside/zero");
    std::thread::scope(|scope| {
        let run = scope.spawn(|| succeed(&mut run));
        // The byte is on flash alone until it is about to be written over.
        while !told.exists() && !run.is_finished() {
            std::thread::yield_now();
        }
        agent.churn();
        run.join().unwrap();
    });
    assert!(told.exists() && agent.counter(Counter::AbsorbedRequests) > 0);
}
