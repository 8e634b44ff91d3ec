//! Messages between two members, and the connections they go by.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use headstart_transport::{Event, KEY_FILE, MESSAGE_BYTES_MAX, Options};

use crate::support::{Node, identity, options, until};

fn pair() -> (tempfile::TempDir, Node, Node) {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join(KEY_FILE);
    // Of silence other tests speak: here nothing ends because of it.
    let patient = Options { silence: Duration::from_secs(600), ..options() };
    let start = |name| Node::start(&key, identity(name, 1), patient.clone());
    let (a, b) = (start("a"), start("b"));
    (directory, a, b)
}

#[test]
fn messages_of_every_length_arrive_once_and_in_order() {
    let (_directory, mut a, mut b) = pair();
    let peer = a.know("b", 1, b.address());
    let lengths = [0, 1, 64, 4096, 16 << 10, (16 << 10) + 1, 70_000, MESSAGE_BYTES_MAX, 3];
    for (number, length) in lengths.iter().enumerate() {
        assert!(a.send(peer, &vec![number as u8; *length]));
    }
    until(&mut [&mut a, &mut b], "all arrive", |nodes| nodes[1].received.len() == lengths.len());
    for (number, (_, message)) in b.received.iter().enumerate() {
        assert!(message.len() == lengths[number] && message.iter().all(|byte| *byte == number as u8), "{number}");
    }
}

/// What stands between two members: the ends of two connections, and how many bytes it passes on at a time.
struct Between {
    ends: [TcpStream; 2],
    bytes_max: usize,
}

impl Between {
    /// Takes the call that waits, and calls `behind`.
    fn new(listener: &TcpListener, behind: SocketAddr, bytes_max: usize) -> Between {
        let ends = [listener.accept().unwrap().0, TcpStream::connect(behind).unwrap()];
        for socket in &ends {
            socket.set_nodelay(true).unwrap();
            socket.set_nonblocking(true).unwrap();
        }
        Between { ends, bytes_max }
    }

    fn pass(&self) {
        let mut bytes = [0; 4096];
        for (mut from, mut to) in [(&self.ends[0], &self.ends[1]), (&self.ends[1], &self.ends[0])] {
            if let Ok(length) = from.read(&mut bytes[..self.bytes_max]) {
                to.write_all(&bytes[..length]).unwrap();
            }
        }
    }
}

#[test]
fn bytes_may_come_one_by_one() {
    let (_directory, mut a, mut b) = pair();
    let between = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = a.know("b", 1, between.local_addr().unwrap());
    let messages: Vec<Vec<u8>> = (0..8).map(|number| vec![number as u8; 30 * number]).collect();
    messages.iter().for_each(|message| assert!(a.send(peer, message)));
    let between = Between::new(&between, b.address(), 1);
    until(&mut [&mut a, &mut b], "all arrive", |nodes| {
        between.pass();
        nodes[1].received.len() == messages.len()
    });
    assert!(b.received.iter().map(|(_, message)| message).eq(&messages));
    let packets = b.transport.peers().next().unwrap().2.received_packets_total;
    assert!(packets > 500, "messages of 840 bytes came in {packets} pieces");
}

#[test]
fn one_connection_serves_both_directions() {
    let (_directory, mut a, mut b) = pair();
    let (to_b, to_a) = (a.know("b", 1, b.address()), b.know("a", 1, a.address()));
    a.send(to_b, b"question");
    until(&mut [&mut a, &mut b], "the question arrives", |nodes| nodes[1].received.len() == 1);
    assert_eq!(b.received, [(to_a, b"question".to_vec())]);
    b.send(to_a, b"answer");
    until(&mut [&mut a, &mut b], "the answer arrives", |nodes| nodes[0].received.len() == 1);
    assert_eq!(b.transport.counters().dials_total, 0, "the answer needs no connection of its own");
    assert_eq!(a.counters(to_b).connections_total, 1);
}

#[test]
fn whoever_is_not_known_is_answered_by_the_connection_it_made() {
    let (_directory, mut a, mut b) = pair();
    let peer = a.know("b", 1, b.address());
    a.send(peer, b"question");
    until(&mut [&mut a, &mut b], "the question arrives", |nodes| nodes[1].received.len() == 1);
    let stranger = b.received[0].0;
    assert_eq!(b.transport.member(stranger).unwrap().name, "a");
    assert!(b.send(stranger, b"answer"));
    until(&mut [&mut a, &mut b], "the answer arrives", |nodes| nodes[0].received.len() == 1);
    drop(a);
    until(&mut [&mut b], "its end is noticed", |nodes| nodes[0].is_told("Lost"));
    assert!(b.transport.member(stranger).is_none() && !b.send(stranger, b"late"), "it is forgotten");
}

#[test]
fn both_may_dial_at_once_and_nothing_is_lost() {
    let (_directory, mut a, mut b) = pair();
    let (to_b, to_a) = (a.know("b", 1, b.address()), b.know("a", 1, a.address()));
    a.send(to_b, b"1");
    b.send(to_a, b"2");
    until(&mut [&mut a, &mut b], "both connections stand", |nodes| {
        nodes[0].counters(to_b).connections_total == 2 && nodes[1].counters(to_a).connections_total == 2
    });
    for number in 0..1000u32 {
        a.send(to_b, &number.to_le_bytes());
        b.send(to_a, &number.to_le_bytes());
        if number % 100 == 0 {
            a.turn();
            b.turn();
        }
    }
    until(&mut [&mut a, &mut b], "all arrive", |nodes| nodes.iter().all(|node| node.received.len() == 1001));
    let connected = |node: &Node| node.events.iter().filter(|event| matches!(event, Event::Connected(..))).count();
    assert_eq!((connected(&a), connected(&b)), (1, 1), "the second connection changes nothing");
}

#[test]
fn when_one_of_two_connections_is_lost_the_other_serves() {
    let (_directory, mut a, mut b) = pair();
    let between = TcpListener::bind("127.0.0.1:0").unwrap();
    let (to_b, to_a) = (a.know("b", 1, between.local_addr().unwrap()), b.know("a", 1, a.address()));
    a.send(to_b, b"1");
    b.send(to_a, b"2");
    let between = Between::new(&between, b.address(), 4096);
    until(&mut [&mut a, &mut b], "both connections stand", |nodes| {
        between.pass();
        nodes[0].counters(to_b).connections_total == 2 && nodes[1].counters(to_a).connections_total == 2
    });
    drop(between);
    until(&mut [&mut a, &mut b], "messages get through both ways", |nodes| {
        nodes[0].send(to_b, b"3");
        nodes[1].send(to_a, b"4");
        let heard = |node: &Node, what: &[u8]| node.received.iter().any(|(_, message)| message == what);
        heard(nodes[0], b"4") && heard(nodes[1], b"3")
    });
    assert!(!a.is_told("Lost") && !b.is_told("Lost"), "{:?} {:?}", a.events, b.events);
    assert_eq!((a.counters(to_b).connections_total, b.counters(to_a).connections_total), (2, 2));
}

#[test]
fn what_waits_goes_in_one_packet() {
    let (_directory, mut a, mut b) = pair();
    let peer = a.know("b", 1, b.address());
    a.send(peer, b"first");
    until(&mut [&mut a, &mut b], "it arrives", |nodes| nodes[1].received.len() == 1);
    let before = a.counters(peer).sent_packets_total;
    for _ in 0..100 {
        assert!(a.transport.send(peer, &[7; 64]));
    }
    a.transport.flush();
    assert_eq!(a.counters(peer).sent_packets_total, before + 1);
    until(&mut [&mut a, &mut b], "all arrive", |nodes| nodes[1].received.len() == 101);
}

#[test]
fn a_member_that_starts_anew_takes_the_place_of_the_one_before() {
    let (directory, mut a, old) = pair();
    let mut old = old;
    let key = directory.path().join(KEY_FILE);
    let to_old = a.know("b", 1, old.address());
    a.send(to_old, b"1");
    until(&mut [&mut a, &mut old], "it arrives", |nodes| nodes[1].received.len() == 1);
    let mut new = Node::start(&key, identity("b", 2), options());
    let to_a = new.know("a", 1, a.address());
    new.send(to_a, b"2");
    until(&mut [&mut a, &mut new, &mut old], "the old one is let go", |nodes| nodes[2].is_told("Lost"));
    assert!(a.is_told("it was started anew") && !a.transport.is_connected(to_old));
    until(&mut [&mut a, &mut new, &mut old], "the new one is heard", |nodes| nodes[0].received.len() == 1);
    assert_ne!(a.received[0].0, to_old);
    // The old one, if it lives, does not come back.
    let old_to_a = old.know("a", 1, a.address());
    until(&mut [&mut a, &mut new, &mut old], "the old one is refused", |nodes| {
        nodes[2].send(old_to_a, b"3");
        nodes[0].is_told("incarnation 1 of b is over: a knows incarnation 2")
    });
    until(&mut [&mut a, &mut new, &mut old], "and learns why", |nodes| nodes[2].is_told("incarnation 1 of b is over"));
}

#[test]
fn round_trip_times_are_measured_while_messages_go() {
    let (_directory, mut a, mut b) = pair();
    let peer = a.know("b", 1, b.address());
    assert_eq!(a.transport.peers().next().unwrap().2.round_trip_ns, 0);
    a.send(peer, b"1");
    until(&mut [&mut a, &mut b], "an answer", |nodes| nodes[0].counters(peer).round_trip_ns > 0);
    let counters = a.counters(peer);
    assert_eq!((counters.sent_messages_total, counters.sent_packets_total >= 1), (1, true));
    until(&mut [&mut a, &mut b], "the message", |nodes| nodes[1].received.len() == 1);
    let seen = b.transport.peers().next().unwrap().2;
    assert_eq!((seen.received_messages_total, seen.received_bytes), (1, 1));
    assert!(seen.received_packets_total >= 1);
}

#[test]
fn a_member_that_is_forgotten_is_hung_up_on() {
    let (_directory, mut a, mut b) = pair();
    let peer = a.know("b", 1, b.address());
    a.send(peer, b"1");
    until(&mut [&mut a, &mut b], "it arrives", |nodes| nodes[1].received.len() == 1);
    a.transport.forget(peer);
    assert!(!a.send(peer, b"2"));
    until(&mut [&mut a, &mut b], "the other side notices", |nodes| nodes[1].is_told("Lost"));
}
