//! What waits is bounded, whoever does not answer.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use headstart_transport::{KEY_FILE, MESSAGE_BYTES_MAX, Options};

use crate::support::{Node, identity, options, until};

const QUEUE_BYTES: usize = 1 << 20;

#[test]
fn a_peer_that_does_not_read_costs_a_bounded_queue_and_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join(KEY_FILE);
    let silence = Duration::from_secs(2);
    let patient = Options { queue_bytes_max: QUEUE_BYTES, silence, ..options() };
    let mut a = Node::start(&key, identity("a", 1), patient);
    let mut b = Node::named(&key, "b");
    let peer = a.know("b", 1, b.address());
    a.send(peer, b"hello");
    until(&mut [&mut a, &mut b], "they are connected", |nodes| nodes[1].received.len() == 1);
    // From now on b does not turn. Its socket takes some MiB, the queue one, and the rest is dropped.
    let mut sent = 0u64;
    while a.counters(peer).dropped_messages_total == 0 {
        a.send(peer, &[1; 32 << 10]);
        a.turn();
        sent += 1;
        assert!(a.counters(peer).queued_bytes <= QUEUE_BYTES as u64);
        assert!(sent < 10_000, "nothing is ever dropped");
    }
    assert!(!a.send(peer, &[1; 32 << 10]), "there is no room, and nobody waits for it");
    until(&mut [&mut a], "it is given up", |nodes| nodes[0].is_told("Lost"));
    assert_eq!(a.counters(peer).queued_bytes, 0);
    // It goes on: what it was sent is taken, and the next message finds it again.
    let before = b.received.len();
    until(&mut [&mut a, &mut b], "it is found again", |nodes| {
        nodes[0].send(peer, b"again");
        nodes[1].received[before..].iter().any(|(_, message)| message == b"again")
    });
}

#[test]
fn a_silent_peer_is_given_up_though_its_socket_takes_everything() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join(KEY_FILE);
    let mut a = Node::start(&key, identity("a", 1), Options { silence: Duration::from_millis(300), ..options() });
    let mut b = Node::named(&key, "b");
    let peer = a.know("b", 1, b.address());
    a.send(peer, b"hello");
    until(&mut [&mut a, &mut b], "they are connected", |nodes| {
        nodes[1].received.len() == 1 && nodes[0].counters(peer).round_trip_ns > 0
    });
    std::thread::sleep(Duration::from_millis(150));
    a.send(peer, b"more");
    until(&mut [&mut a], "its silence is noticed", |nodes| nodes[0].is_told("it is silent"));
    assert_eq!(a.transport.counters().silent_total, 1);
}

#[test]
fn after_a_pause_of_its_own_a_member_reads_before_it_gives_anybody_up() {
    // More than are read in a turn.
    const OTHERS: usize = 80;
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join(KEY_FILE);
    let silence = Duration::from_secs(1);
    let mut a = Node::start(&key, identity("a", 1), Options { silence, ..options() });
    let mut others: Vec<Node> = (0..OTHERS).map(|number| Node::named(&key, &format!("n{number}"))).collect();
    for (number, other) in others.iter_mut().enumerate() {
        let to_a = other.know("a", 1, a.address());
        other.send(to_a, &number.to_le_bytes());
    }
    let mut all: Vec<&mut Node> = others.iter_mut().chain([&mut a]).collect();
    until(&mut all, "they are connected", |nodes| nodes[OTHERS].received.len() == OTHERS);
    let peers: Vec<_> = a.received.iter().map(|(peer, _)| *peer).collect();
    peers.iter().for_each(|peer| assert!(a.send(*peer, b"question")));
    let mut others: Vec<&mut Node> = others.iter_mut().collect();
    until(&mut others, "they answer", |nodes| nodes.iter().all(|node| !node.received.is_empty()));
    // The answers come while it is away.
    std::thread::sleep(silence * 2);
    a.turn();
    a.turn();
    assert!(peers.iter().all(|peer| a.transport.is_connected(*peer)), "{:?}", a.events);
}

#[test]
fn an_idle_peer_is_not_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join(KEY_FILE);
    let silence = Duration::from_millis(100);
    let mut a = Node::start(&key, identity("a", 1), Options { silence, ..options() });
    let mut b = Node::start(&key, identity("b", 1), Options { silence, ..options() });
    let peer = a.know("b", 1, b.address());
    a.send(peer, b"hello");
    until(&mut [&mut a, &mut b], "they are connected", |nodes| {
        nodes[1].received.len() == 1 && nodes[0].counters(peer).round_trip_ns > 0
    });
    let end = Instant::now() + silence * 5;
    until(&mut [&mut a, &mut b], "time passes", |_| Instant::now() > end);
    assert!(a.transport.is_connected(peer) && !a.is_told("Lost") && !b.is_told("Lost"));
}

#[test]
fn a_message_waits_for_one_attempt_at_most() {
    let directory = tempfile::tempdir().unwrap();
    let mut a = Node::named(&directory.path().join(KEY_FILE), "a");
    // A port at which nobody listens.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let peer = a.know("b", 1, address);
    let begin = Instant::now();
    assert!(a.send(peer, b"1") && a.send(peer, b"2"));
    until(&mut [&mut a], "the attempt fails", |nodes| nodes[0].is_told("Unreachable"));
    assert!(a.is_told(&format!("b cannot be reached at {address}")));
    let counters = a.counters(peer);
    assert_eq!((counters.queued_bytes, counters.dropped_messages_total), (0, 2));
    // The next waits for the next attempt, after a pause.
    a.events.clear();
    assert!(a.send(peer, b"3"));
    until(&mut [&mut a], "the next attempt fails", |nodes| nodes[0].is_told("Unreachable"));
    assert_eq!(a.transport.counters().failed_dials_total, 2);
    assert!(begin.elapsed() >= Duration::from_millis(25), "there was no pause");
}

#[test]
fn many_peers_are_dialled_in_some_turns() {
    const OTHERS: u64 = 40;
    let directory = tempfile::tempdir().unwrap();
    let mut a = Node::named(&directory.path().join(KEY_FILE), "a");
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    for number in 0..OTHERS {
        let peer = a.know(&format!("n{number}"), 1, mute.local_addr().unwrap());
        assert!(a.transport.send(peer, b"1"));
    }
    a.transport.flush();
    assert_eq!(a.transport.counters().dials_total, 16);
    until(&mut [&mut a], "all are dialled", |nodes| nodes[0].transport.counters().dials_total == OTHERS);
}

#[test]
fn a_peer_is_found_at_whichever_of_its_addresses_answers() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join(KEY_FILE);
    let (mut a, mut b) = (Node::named(&key, "a"), Node::named(&key, "b"));
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let member = identity("b", 1).member;
    // The second is a itself, as a bridge's address is that every node has.
    let peer = a.transport.know(&member, vec![nobody, a.address(), b.address()]);
    a.send(peer, b"1");
    until(&mut [&mut a, &mut b], "it arrives", |nodes| nodes[1].received.len() == 1);
    assert_eq!(a.counters(peer).dropped_messages_total, 0);
}

#[test]
fn what_is_too_long_or_for_nobody_is_dropped_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let mut a = Node::named(&directory.path().join(KEY_FILE), "a");
    let peer = a.know("b", 1, "127.0.0.1:1".parse().unwrap());
    assert!(!a.transport.send(peer, &vec![0; MESSAGE_BYTES_MAX + 1]));
    let nowhere = a.transport.know(&identity("c", 1).member, Vec::new());
    assert!(!a.transport.send(nowhere, b"1"));
    assert_eq!(a.counters(peer).dropped_messages_total, 1);
    assert_eq!(a.counters(nowhere).dropped_messages_total, 1);
}
