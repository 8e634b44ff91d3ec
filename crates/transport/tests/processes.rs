//! Members in processes of their own, which are stopped, killed, and started anew.
//!
//! The program is the other member too: with `MEMBER` in its environment it echoes what it is sent.

#[path = "transport/support.rs"]
mod support;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headstart_transport::{KEY_FILE, Options, PeerId};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::Pid;

use support::{Node, identity, options, until};

const MEMBER: &str = "HEADSTART_TRANSPORT_TEST_MEMBER";
const KEY: &str = "HEADSTART_TRANSPORT_TEST_KEY";

fn main() {
    if let Ok(incarnation) = std::env::var(MEMBER) {
        return echo(incarnation.parse().expect("a number"));
    }
    // As in a program that ends when nobody reads its output: a peer that is gone must not end it.
    // SAFETY: no other thread runs yet, and nothing is installed that would run in a signal.
    unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }.unwrap();
    let tests: [(&str, fn()); 5] = [
        ("members_of_two_processes_reach_each_other", members_of_two_processes_reach_each_other),
        ("a_stopped_peer_is_given_up_and_found_again", a_stopped_peer_is_given_up_and_found_again),
        ("a_killed_peer_is_noticed_and_its_successor_found", a_killed_peer_is_noticed_and_its_successor_found),
        ("a_peer_that_is_gone_does_not_end_the_process", a_peer_that_is_gone_does_not_end_the_process),
        ("without_descriptors_nothing_spins", without_descriptors_nothing_spins),
    ];
    let wanted = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    for (name, test) in tests {
        if wanted.as_ref().is_none_or(|wanted| name.contains(wanted.as_str())) {
            test();
            println!("test {name} ... ok");
        }
    }
}

/// The other member: says where it listens, and sends back what it is sent until its parent ends.
fn echo(incarnation: u64) {
    let key = std::env::var_os(KEY).expect("the parent names the key");
    let mut node = Node::start(Path::new(&key), identity("b", incarnation), options());
    println!("{}", node.address());
    until_killed(&mut node);
}

fn until_killed(node: &mut Node) -> ! {
    loop {
        until(&mut [node], "somebody sends", |nodes| !nodes[0].received.is_empty());
        for (peer, message) in std::mem::take(&mut node.received) {
            node.transport.send(peer, &message);
        }
        node.transport.flush();
    }
}

/// A child that does not outlive the test.
struct Other {
    child: Child,
    address: SocketAddr,
}

impl Other {
    fn start(key: &Path, incarnation: u64) -> Other {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.env(MEMBER, incarnation.to_string()).env(KEY, key).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Other { child, address: line.trim().parse().unwrap() }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks until it is answered, as the protocol does.
fn is_answered(node: &mut Node, peer: PeerId, what: &str) {
    node.received.clear();
    until(&mut [node], what, |nodes| {
        nodes[0].send(peer, what.as_bytes());
        nodes[0].received.iter().any(|(_, message)| message == what.as_bytes())
    });
}

fn members_of_two_processes_reach_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join(KEY_FILE);
    let mut a = Node::named(&key, "a");
    let other = Other::start(&key, 1);
    let peer = a.know("b", 1, other.address);
    is_answered(&mut a, peer, "hello");
    assert_eq!(a.counters(peer).connections_total, 1);
}

fn a_stopped_peer_is_given_up_and_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join(KEY_FILE);
    let queue_bytes_max = 1 << 20;
    let impatient = Options { silence: Duration::from_secs(1), queue_bytes_max, ..options() };
    let mut a = Node::start(&key, identity("a", 1), impatient);
    let other = Other::start(&key, 1);
    let peer = a.know("b", 1, other.address);
    is_answered(&mut a, peer, "before");
    other.signal(Signal::SIGSTOP);
    until(&mut [&mut a], "its silence is noticed", |nodes| {
        nodes[0].send(peer, &[1; 4096]);
        assert!(nodes[0].counters(peer).queued_bytes <= queue_bytes_max as u64);
        nodes[0].is_told("it is silent")
    });
    other.signal(Signal::SIGCONT);
    is_answered(&mut a, peer, "after");
    assert!(a.counters(peer).connections_total >= 2);
}

fn a_killed_peer_is_noticed_and_its_successor_found() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join(KEY_FILE);
    let mut a = Node::named(&key, "a");
    let other = Other::start(&key, 1);
    let peer = a.know("b", 1, other.address);
    is_answered(&mut a, peer, "before");
    drop(other);
    until(&mut [&mut a], "its end is noticed", |nodes| nodes[0].is_told("Lost"));
    let other = Other::start(&key, 2);
    // A view that still names the one before leads nowhere.
    a.know("b", 1, other.address);
    until(&mut [&mut a], "the successor is not taken for it", |nodes| {
        nodes[0].send(peer, b"late");
        nodes[0].is_told("incarnation 2 of b")
    });
    let successor = a.know("b", 2, other.address);
    a.transport.forget(peer);
    is_answered(&mut a, successor, "after");
}

fn without_descriptors_nothing_spins() {
    let directory = tempfile::tempdir().unwrap();
    let mut a = Node::named(&directory.path().join(KEY_FILE), "a");
    let _caller = TcpStream::connect(a.address()).unwrap();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    // The next descriptor would have this number.
    let next = File::open("/dev/null").unwrap().as_raw_fd() as u64;
    setrlimit(Resource::RLIMIT_NOFILE, next, hard).unwrap();
    a.turn();
    let is_at_rest = (0..100).any(|_| {
        let mut waits = [PollFd::new(a.transport.descriptor(), PollFlags::POLLIN)];
        let is_at_rest = poll(&mut waits, PollTimeout::ZERO).unwrap() == 0;
        a.turn();
        is_at_rest
    });
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    assert!(is_at_rest, "a listener that cannot accept keeps the loop awake");
    assert_eq!(a.transport.counters().accepted_total, 0);
    until(&mut [&mut a], "the caller is let in", |nodes| nodes[0].transport.counters().accepted_total == 1);
}

fn a_peer_that_is_gone_does_not_end_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join(KEY_FILE);
    let mut a = Node::named(&key, "a");
    let other = Other::start(&key, 1);
    let peer = a.know("b", 1, other.address);
    a.send(peer, b"before");
    // It leaves nothing unread, so that its end is no reset yet.
    until(&mut [&mut a], "before", |nodes| nodes[0].received.len() == 1);
    drop(other);
    // Written before its end is read: the first is answered by a reset, the next would raise SIGPIPE.
    (0..3).for_each(|_| {
        a.send(peer, b"late");
        std::thread::sleep(Duration::from_millis(20));
    });
    until(&mut [&mut a], "its end is noticed", |nodes| nodes[0].is_told("Lost"));
}
