//! Who is not let in, and what both sides are told.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use headstart_transport::{Frame, Identity, KEY_FILE, Key, Member, Options};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::support::{Node, identity, options, until};

fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join(KEY_FILE);
    (directory, key)
}

/// What both are told when `b` is as given and `a` dials it as `b`, incarnation 1.
fn refused(b: Identity, other_key: bool) -> (Node, Node) {
    let (directory, key) = place();
    let others = if other_key { directory.path().join("other.key") } else { key.clone() };
    let mut a = Node::named(&key, "a");
    let mut b = Node::start(&others, b, options());
    let peer = a.know("b", 1, b.address());
    assert!(a.send(peer, b"secret"));
    until(&mut [&mut a, &mut b], "both notice", |nodes| {
        nodes[0].is_told("Unreachable") && (nodes[1].is_told("Refused") || nodes[1].is_told("Lost"))
    });
    assert!(b.received.is_empty() && !a.transport.is_connected(peer));
    (a, b)
}

#[test]
fn a_member_with_another_key_is_refused() {
    let (a, b) = refused(identity("b", 1), true);
    assert!(a.is_told("TLS") && b.is_told("TLS"), "{:?} {:?}", a.events, b.events);
    assert_eq!(b.transport.counters().refused_total, 1);
}

#[test]
fn a_member_of_another_version_is_refused_and_both_say_so() {
    let (a, b) = refused(Identity { version: 2, ..identity("b", 1) }, false);
    assert!(a.is_told("speaks version"), "{:?}", a.events);
    assert!(b.is_told("a at 127.0.0.1") && b.is_told("speaks version 1") && b.is_told("b speaks 2"));
}

#[test]
fn a_member_of_another_directory_is_refused_and_both_say_so() {
    let (a, b) = refused(Identity { directory: "directory-2".into(), ..identity("b", 1) }, false);
    assert!(a.is_told("directory-1") && a.is_told("directory-2"), "{:?}", a.events);
    assert!(b.is_told("directory-1") && b.is_told("directory-2"), "{:?}", b.events);
}

#[test]
fn another_member_at_an_address_is_refused_by_the_one_that_dials() {
    let (a, _) = refused(identity("c", 1), false);
    assert!(a.is_told("c answers at 127.0.0.1") && a.is_told("a expected b"), "{:?}", a.events);
    let (a, _) = refused(identity("b", 7), false);
    assert!(a.is_told("incarnation 7 of b") && a.is_told("a expected 1"), "{:?}", a.events);
}

/// A client's side of TLS in this thread: with the certificate that `private` makes, or none.
fn caller(key: &Path, has_certificate: bool) -> ClientConfig {
    Key::load_or_create(key).unwrap();
    let private = KeyPair::from_pem(&std::fs::read_to_string(key).unwrap()).unwrap();
    let mut parameters = CertificateParams::new(vec!["agent.headstart.internal".into()]).unwrap();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, "agent.headstart.internal");
    let certificate = parameters.self_signed(&private).unwrap().der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    if !has_certificate {
        return builder.with_no_client_auth();
    }
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(private.serialize_der()));
    builder.with_client_auth_cert(vec![certificate], private).unwrap()
}

/// Calls `a`, says `bytes` once TLS stands, and hears until the end; what it heard, and how it ended.
fn call(a: &mut Node, config: ClientConfig, bytes: Vec<u8>) -> (Vec<u8>, String) {
    let address = a.address();
    let thread = std::thread::spawn(move || {
        let name = ServerName::try_from("agent.headstart.internal").unwrap();
        let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut stream = rustls::Stream::new(&mut tls, &mut socket);
        let mut heard = Vec::new();
        let _ = stream.write_all(&bytes);
        let end = stream.read_to_end(&mut heard);
        (heard, format!("{end:?}"))
    });
    until(&mut [a], "the caller hears the end", |_| thread.is_finished());
    thread.join().unwrap()
}

fn hello(name: &str) -> Vec<u8> {
    let mut text = b"HSTM".to_vec();
    text.extend(1u32.to_le_bytes());
    for part in [name, "directory-1"] {
        text.extend((part.len() as u16).to_le_bytes());
        text.extend(part.as_bytes());
    }
    text.extend(1u64.to_le_bytes());
    let mut bytes = Vec::new();
    Frame::Hello(&text).encode(&mut bytes);
    bytes
}

#[test]
fn a_caller_without_a_certificate_is_refused() {
    let (_directory, key) = place();
    let mut a = Node::named(&key, "a");
    // It goes on talking, and hears all the same why nobody listens.
    let bytes = [hello("b"), vec![0; 1 << 20]].concat();
    let (heard, end) = call(&mut a, caller(&key, false), bytes);
    assert!(heard.is_empty(), "not even a HELLO");
    assert!(end.contains("CertificateRequired"), "the alert says why: {end}");
    until(&mut [&mut a], "it is told", |nodes| nodes[0].is_told("Refused"));
    assert!(a.is_told("certificate"), "{:?}", a.events);
}

#[test]
fn bad_frames_close_the_connection_and_are_counted() {
    let (_directory, key) = place();
    let mut message = Vec::new();
    Frame::Message(b"too soon").encode(&mut message);
    let unknown = [0, 0, 0, 99].to_vec();
    let long = [255, 255, 255, 2].to_vec();
    for (count, bytes) in [
        message.clone(),
        unknown.clone(),
        [hello("b"), unknown].concat(),
        [hello("b"), message.clone(), long].concat(),
        [hello("b"), hello("b")].concat(),
    ]
    .into_iter()
    .enumerate()
    {
        let mut a = Node::named(&key, "a");
        call(&mut a, caller(&key, true), bytes);
        until(&mut [&mut a], "it is counted", |nodes| nodes[0].transport.counters().bad_frames_total == 1);
        // What came before it counts.
        assert_eq!(a.received.len(), usize::from(count == 3), "case {count}");
    }
}

#[test]
fn a_caller_that_says_nothing_is_hung_up_on() {
    let (_directory, key) = place();
    let greeting = Duration::from_millis(200);
    let mut a = Node::start(&key, identity("a", 1), Options { greeting, ..options() });
    let mut mute = TcpStream::connect(a.address()).unwrap();
    mute.set_nonblocking(true).unwrap();
    until(&mut [&mut a], "it is hung up on", |_| matches!(mute.read(&mut [0; 64]), Ok(0)));
    let (heard, _) = call(&mut a, caller(&key, true), Vec::new());
    assert!(!heard.is_empty(), "a HELLO, at least");
    assert!(a.is_told("in time who it is"), "{:?}", a.events);
    assert_eq!(a.transport.counters().refused_total, 2);
}

#[test]
fn what_is_no_tls_is_refused() {
    let (_directory, key) = place();
    let mut a = Node::named(&key, "a");
    let mut browser = TcpStream::connect(a.address()).unwrap();
    browser.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    until(&mut [&mut a], "it is told", |nodes| nodes[0].is_told("Refused"));
    assert!(a.is_told("TLS"));
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let (_directory, key) = place();
    let (mut a, mut twin) = (Node::named(&key, "a"), Node::start(&key, identity("a", 2), options()));
    let peer = twin.transport.know(&Member { name: "b".into(), incarnation: 1 }, vec![a.address()]);
    twin.send(peer, b"1");
    until(&mut [&mut a, &mut twin], "both notice", |nodes| {
        nodes[0].is_told("the name of this member") && nodes[1].is_told("the name of this member")
    });
}

#[test]
fn callers_that_say_nothing_are_so_many_at_most() {
    let (_directory, key) = place();
    let mut a = Node::named(&key, "a");
    let address = a.address();
    let mut mute: Vec<TcpStream> = (0..300)
        .map(|_| {
            let caller = TcpStream::connect(address).unwrap();
            a.turn();
            caller
        })
        .collect();
    (0..20).for_each(|_| a.turn());
    assert_eq!(a.transport.counters().accepted_total, 256);
    mute.truncate(200);
    until(&mut [&mut a], "the others get their turn", |nodes| nodes[0].transport.counters().accepted_total == 300);
}
