//! Many members, each connected to each.

use std::time::Duration;

use headstart_transport::{KEY_FILE, Options, PeerId};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::support::{Node, identity, options, until};

const MEMBERS: usize = 64;

/// Both ends of a connection a pair, in one process.
fn have_descriptors() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let needed = MEMBERS * MEMBERS + 1000;
    assert!(most >= needed as u64, "this test needs {needed} descriptors, and may have {most}: ulimit -Hn");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
}

#[test]
fn sixty_four_members_reach_each_other_at_once() {
    have_descriptors();
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join(KEY_FILE);
    // One thread makes 2,016 handshakes, on a machine that may have others to do.
    let patient = Options { greeting: Duration::from_secs(600), silence: Duration::from_secs(600), ..options() };
    let start = |number: usize| Node::start(&key, identity(&format!("n{number}"), 1), patient.clone());
    let mut nodes: Vec<Node> = (0..MEMBERS).map(start).collect();
    let addresses: Vec<_> = nodes.iter().map(Node::address).collect();
    for (own, node) in nodes.iter_mut().enumerate() {
        let higher: Vec<PeerId> =
            (own + 1..MEMBERS).map(|other| node.know(&format!("n{other}"), 1, addresses[other])).collect();
        assert!(higher.into_iter().all(|peer| node.send(peer, b"question")));
    }
    let mut all: Vec<&mut Node> = nodes.iter_mut().collect();
    until(&mut all, "everybody is asked by the lower ones", |nodes| {
        nodes.iter().enumerate().all(|(own, node)| node.received.len() == own)
    });
    for node in &mut all {
        let lower: Vec<PeerId> = node.received.drain(..).map(|(peer, _)| peer).collect();
        assert!(lower.into_iter().all(|peer| node.send(peer, b"answer")));
    }
    until(&mut all, "and answered by the higher ones", |nodes| {
        nodes.iter().enumerate().all(|(own, node)| node.received.len() == MEMBERS - 1 - own)
    });
    let made = |node: &Node| node.transport.peers().map(|(.., counters)| counters.connections_total).sum::<u64>();
    assert!(nodes.iter().all(|node| made(node) == MEMBERS as u64 - 1));
}
