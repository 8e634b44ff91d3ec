//! Children that are started with an environment that lacks the library.

use std::fs;

use headstart_protocol::shared::Counter;

use crate::fake_agent::Agent;
use crate::programs::{command, compiled, library, null_interposer, python, shell, succeed};

#[test]
fn every_kind_of_exec_and_spawn_brings_the_library_along_whatever_environment_the_child_is_given() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "environments")));
    assert!(agent.counter(Counter::AbsorbedRequests) >= 1);
    assert_eq!(agent.disk_bytes("read"), 0, "every byte was on flash alone");
    assert!(agent.everybody_left());
}

#[test]
fn a_child_whose_environment_has_no_room_for_the_library_is_refused_with_what_to_do() {
    let agent = Agent::start();
    let output = succeed(command(&agent, compiled(&agent, "environments")).arg("fill"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("make them so much shorter").count(), 2, "{said}");
}

#[test]
fn a_cleared_or_replaced_environment_loses_neither_reads_nor_writes() {
    let agent = Agent::start();
    shell(
        &agent,
        "head -c 65536 /dev/zero | tr '\\0' A > f
env -i /bin/cat f | cmp - <(head -c 65536 /dev/zero | tr '\\0' A)
LD_PRELOAD= cat f | cmp - <(head -c 65536 /dev/zero | tr '\\0' A)
head -c 4096 /dev/zero | tr '\\0' B | env -i /bin/dd of=f bs=4096 conv=notrunc status=none iflag=fullblock
(unset LD_PRELOAD HEADSTART_SLOW; cat f) |
  cmp - <(head -c 4096 /dev/zero | tr '\\0' B; head -c 61440 /dev/zero | tr '\\0' A)",
    );
    python(
        &agent,
        "import os, subprocess
def read(**environment): return subprocess.run(['/bin/cat', 'f'], stdout=subprocess.PIPE, **environment).stdout
expected = b'B' * 4096 + b'A' * 61440
assert read(env={}) == expected and read(env={'LD_PRELOAD': 'libm.so.6'}) == expected
os.environ.clear()
assert read() == expected and read(preexec_fn=lambda: None) == expected
assert os.popen('cat f').read() == expected.decode()",
    );
    agent.drain();
    assert!(fs::read(agent.slow.join("f")).unwrap() == [vec![b'B'; 4096], vec![b'A'; 61440]].concat());
}

#[test]
fn what_a_program_preloads_itself_stays_and_so_does_the_order_it_chose() {
    let agent = Agent::start();
    let (ours, other) = (library(), null_interposer(&agent));
    let (ours, other) = (ours.to_str().unwrap(), other.to_str().unwrap());
    let preloaded = |list: &str| {
        let output = succeed(
            command(&agent, "/usr/bin/env").arg(format!("LD_PRELOAD={list}")).args(["/usr/bin/printenv", "LD_PRELOAD"]),
        );
        String::from_utf8(output.stdout).unwrap().trim_end().to_string()
    };
    assert_eq!(preloaded(other), format!("{ours}:{other}"));
    assert_eq!(preloaded(&format!("{other}:libm.so.6")), format!("{ours}:{other}:libm.so.6"));
    assert_eq!(preloaded(&format!("{other} {ours}")), format!("{other} {ours}"));
    assert_eq!(preloaded(""), ours);
}

#[test]
fn a_child_that_is_switched_off_or_sent_to_another_directory_is_left_alone() {
    let agent = Agent::start();
    let seen = |variable: &str| {
        let output = succeed(command(&agent, "/usr/bin/env").args(["-i", variable, "/usr/bin/env"]));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(seen("HEADSTART=off"), "HEADSTART=off\n");
    assert_eq!(seen("HEADSTART_SLOW=/elsewhere"), "HEADSTART_SLOW=/elsewhere\n");
    assert!(seen("HEADSTART_POLICY=off").contains("HEADSTART_RUNTIME=/"));
}
