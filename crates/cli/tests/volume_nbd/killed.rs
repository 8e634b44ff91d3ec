//! Clients that go in the middle of everything.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::MIB;
use crate::volume::{TestVolume, has, wait_for};

const READ: u16 = 0;
const WRITE: u16 = 1;

/// A client that does what it is told.
struct Client {
    stream: UnixStream,
    cookie: u64,
}

impl Client {
    /// Shakes hands by the oldest option.
    fn connect(volume: &TestVolume) -> Client {
        let mut stream = UnixStream::connect(volume.path("nbd.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert!(greeting.starts_with(b"NBDMAGICIHAVEOPT"));
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        Client { stream, cookie: 0 }
    }

    fn header(&mut self, command: u16, offset: u64, length: u32) -> Vec<u8> {
        self.cookie += 1;
        let mut header = 0x2560_9513u32.to_be_bytes().to_vec();
        header.extend_from_slice(&u32::from(command).to_be_bytes());
        header.extend_from_slice(&self.cookie.to_be_bytes());
        header.extend_from_slice(&offset.to_be_bytes());
        header.extend_from_slice(&length.to_be_bytes());
        header
    }

    /// Asks for something and takes no answer.
    fn ask(&mut self, command: u16, offset: u64, length: u32, data: &[u8]) {
        let mut request = self.header(command, offset, length);
        request.extend_from_slice(data);
        self.stream.write_all(&request).unwrap();
    }

    /// The answer of what was asked for alone.
    fn answer(&mut self, length: usize) -> Vec<u8> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head).unwrap();
        assert_eq!(head[..8], *b"\x67\x44\x66\x98\0\0\0\0", "an answer, without error");
        assert_eq!(head[8..], self.cookie.to_be_bytes());
        let mut data = vec![0; length];
        self.stream.read_exact(&mut data).unwrap();
        data
    }

    /// Writes a block and reads it back.
    fn is_served(&mut self, block: u8) {
        let (offset, data) = (u64::from(block) * 4096, [block; 4096]);
        self.ask(WRITE, offset, 4096, &data);
        self.answer(0);
        self.ask(READ, offset, 4096, &[]);
        assert_eq!(self.answer(4096), data);
    }
}

#[test]
fn clients_that_go_with_requests_in_flight_take_nobody_with_them() {
    const CLIENTS: u8 = 50;
    const REQUESTS: u64 = 64;
    let volume = TestVolume::create(64 * MIB, 32 * MIB);
    let served = volume.serve_nbd(&[]);
    let mut survivor = Client::connect(&volume);
    for number in 0..CLIENTS {
        let mut client = Client::connect(&volume);
        // More than a socket has room for: the server is in the middle of an answer when the client goes.
        (0..REQUESTS).for_each(|index| client.ask(READ, index * MIB, 256 << 10, &[]));
        survivor.is_served(number);
        if number % 2 == 0 {
            // In the middle of a request, too.
            client.ask(WRITE, 32 * MIB, 1 << 20, &[0xee; 1000]);
        }
        drop(client);
        survivor.is_served(number);
    }
    let reads = || volume.status()["requests"]["read"]["requests_total"].as_u64().unwrap();
    let all = u64::from(CLIENTS) * (REQUESTS + 2);
    wait_for("the end of what they asked for", || reads() == all);
    assert_eq!(volume.status()["requests"]["write"]["requests_total"], u64::from(CLIENTS) * 2, "half a write is none");
    survivor.is_served(0);
    drop(survivor);
    served.stop();
}

#[test]
fn a_client_that_takes_no_answers_keeps_nobody_from_theirs() {
    let volume = TestVolume::create(64 * MIB, 32 * MIB);
    let served = volume.serve_nbd(&[]);
    let (mut lazy, mut other) = (Client::connect(&volume), Client::connect(&volume));
    let reads = || volume.status()["requests"]["read"]["requests_total"].as_u64().unwrap();
    // Two at a time may be in flight.
    (0..16).for_each(|_| lazy.ask(READ, 0, 32 << 20, &[]));
    wait_for("some of them", || reads() >= 2);
    (0..100).for_each(|block| other.is_served(block));
    assert!(reads() < 16 + 100, "the rest waits until it takes some: {}", reads());
    drop(lazy);
    // Those in front of the window are read and carried out, or the connection is seen to have ended.
    other.is_served(101);
    drop(other);
    served.stop();
}

#[test]
fn copies_that_are_killed_leave_the_server_alive() {
    if !has(&[("nbdcopy", "libnbd-bin")]) {
        return;
    }
    let volume = TestVolume::create(64 * MIB, 32 * MIB);
    let served = volume.serve_nbd(&[]);
    let mut survivor = Client::connect(&volume);
    let read_bytes = || volume.status()["requests"]["read"]["bytes_total"].as_u64().unwrap();
    for number in 0..20 {
        let before = read_bytes();
        let mut copy = Command::new("nbdcopy")
            .args(["--connections=4", "--requests=64"])
            .arg(volume.uri())
            .arg(volume.path("copy"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("the copy", || read_bytes() > before + MIB || copy.try_wait().unwrap().is_some());
        // It may have ended by itself.
        let _ = copy.kill();
        copy.wait().unwrap();
        survivor.is_served(number);
    }
    drop(survivor);
    served.stop();
}

#[test]
fn clients_that_go_do_not_end_an_nbdkit_that_has_the_plugin() {
    if !has(&[("nbdkit", "nbdkit")]) {
        return;
    }
    let volume = TestVolume::create(64 * MIB, 32 * MIB);
    let mut server = Command::new("nbdkit")
        .env("HEADSTART_RUNTIME_BASE", volume.path("runtime"))
        .args(["--foreground", "--unix"])
        .arg(volume.path("nbd.sock"))
        .arg(crate::plugin())
        .args([format!("hdd={}", volume.names[0]), format!("ssd={}", volume.names[1])])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("nbdkit", || UnixStream::connect(volume.path("nbd.sock")).is_ok());
    let mut survivor = Client::connect(&volume);
    for number in 0..50 {
        let mut client = Client::connect(&volume);
        (0..64).for_each(|index| client.ask(READ, index * MIB, 256 << 10, &[]));
        drop(client);
        survivor.is_served(number);
    }
    drop(survivor);
    assert_eq!(server.try_wait().unwrap(), None);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(server.id() as i32), nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(server.wait().unwrap().success());
}
