//! Streams of libc, mappings, and what a program is given or leaves open.

use std::fs;

use headstart_protocol::shared::Counter;

use crate::fake_agent::Agent;
use crate::programs::{command, compiled, python, shell, succeed};

#[test]
fn stores_to_a_mapping_and_writes_to_the_file_see_each_other() {
    let agent = Agent::start();
    python(
        &agent,
        "import os, mmap
fd = os.open('f', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'flash' * 2000, 0)
m = mmap.mmap(fd, 0)
assert m[:5] == b'flash'
m[:5] = b'store'; assert os.pread(fd, 10, 0) == b'storeflash'
os.pwrite(fd, b'direct', 100); assert m[100:106] == b'direct'
if os.fork() == 0:
    m[:5] = b'child'; assert os.pread(fd, 5, 0) == b'child'; os._exit(0)
assert os.wait()[1] == 0
assert os.pread(fd, 5, 0) == b'child'",
    );
    assert_eq!(agent.logged("Bypass"), 2, "a child with its parent's mapping says so too");
    assert_eq!(agent.mapped_bytes(), 0);
}

#[test]
fn standard_input_is_read_as_others_left_it() {
    let agent = Agent::start();
    shell(
        &agent,
        "python3 -c 'import os; os.pwrite(os.open(\"f\", os.O_RDWR | os.O_CREAT), b\"b\\na\\n\", 0)'
test \"$(sort < f)\" = $'a\\nb'
test \"$(sed -n 2p < f)\" = a",
    );
    assert_eq!(agent.counter(Counter::AbsorbedRequests), 1);
}

#[test]
fn standard_input_is_read_as_it_was_left_whatever_call_put_a_file_there() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "input")));
    assert_eq!(agent.logged("Bypass"), 8, "one for each file that is read");
    assert!(agent.mapped_bytes() > 0);
}

#[test]
fn streams_see_what_was_absorbed() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "stdio")));
    assert_eq!(agent.mapped_bytes(), 0);
}

#[test]
fn a_thread_that_holds_a_stream_s_lock_uses_it_while_others_reopen_close_or_flush() {
    let agent = Agent::start();
    succeed(&mut command(&agent, compiled(&agent, "locked_streams")));
}

#[test]
fn a_program_that_says_why_it_ends_does_so_whatever_the_agent_says_of_its_messages_file() {
    let agent = Agent::start();
    let program = compiled(&agent, "last_words");
    agent.refuse_opens();
    for call in ["err", "errx", "verr", "verrx", "error", "error_at_line"] {
        let log = agent.slow.join(call);
        let run = command(&agent, &program).arg(call).stderr(fs::File::create(&log).unwrap()).status().unwrap();
        assert_eq!(run.code(), Some(3), "{call}");
        let text = fs::read_to_string(&log).unwrap();
        assert!(text.contains(&format!("last words of {call}")), "{text}");
        assert_eq!(text.contains("No space left on device"), !call.ends_with('x'), "errno is the program's: {text}");
    }
}
