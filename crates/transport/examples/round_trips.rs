//! What messages between two agents cost over loopback: round trips of 64 bytes with so many outstanding, messages one
//! way, and handshakes. Two threads stand for two agents' loops.
//!
//! `cargo run --release -p headstart-transport --example round_trips [SECONDS]`

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use headstart_transport::{Batch, Identity, KEY_FILE, Key, Member, Options, PeerId, Transport};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};

const MESSAGE_BYTES: usize = 64;
/// Messages of a turn when they only go one way.
const BURST: usize = 256;

static IS_OVER: AtomicBool = AtomicBool::new(false);

fn member(name: &str) -> Member {
    Member { name: name.into(), incarnation: 1 }
}

fn start(name: &str, key: &Key) -> Transport {
    let identity = Identity { version: 1, directory: "d".into(), member: member(name) };
    let options = Options { listen: "127.0.0.1".parse().expect("an address"), ..Options::default() };
    Transport::start(identity, key, options).expect("a member")
}

fn wait(transport: &Transport) {
    let mut waits = [PollFd::new(transport.descriptor(), PollFlags::POLLIN)];
    poll(&mut waits, PollTimeout::from(100u8)).expect("a wait");
}

/// Sends back what it is sent, but what begins with 1.
fn echo(key: &Key, tell: &std::sync::mpsc::Sender<SocketAddr>) {
    let mut transport = start("b", key);
    let mut batch = Batch::new();
    tell.send(transport.addresses()[0]).expect("somebody listens");
    while !IS_OVER.load(Ordering::Relaxed) {
        wait(&transport);
        transport.turn(&mut batch);
        for (peer, message) in batch.messages().filter(|(_, message)| message[0] == 0) {
            transport.send(peer, message);
        }
        transport.flush();
    }
}

struct Client {
    transport: Transport,
    batch: Batch,
    peer: PeerId,
    started: Instant,
}

impl Client {
    fn message(&self, kind: u8) -> [u8; MESSAGE_BYTES] {
        let mut message = [kind; MESSAGE_BYTES];
        message[8..16].copy_from_slice(&(self.started.elapsed().as_nanos() as u64).to_le_bytes());
        message
    }

    fn round_trips(&mut self, outstanding: usize, seconds: u64) {
        let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("a minute at most");
        for _ in 0..outstanding {
            let message = self.message(0);
            self.transport.send(self.peer, &message);
        }
        self.transport.flush();
        let begin = Instant::now();
        let before = self.counters();
        while begin.elapsed() < Duration::from_secs(seconds) || self.outstanding() > 0 {
            wait(&self.transport);
            self.transport.turn(&mut self.batch);
            let now = self.started.elapsed().as_nanos() as u64;
            let is_over = begin.elapsed() >= Duration::from_secs(seconds);
            let answers: Vec<u64> = self
                .batch
                .messages()
                .map(|(_, message)| u64::from_le_bytes(message[8..16].try_into().expect("8 bytes")))
                .collect();
            for sent in answers {
                times.saturating_record((now - sent).max(1));
                let message = self.message(0);
                if !is_over {
                    self.transport.send(self.peer, &message);
                }
            }
            self.transport.flush();
        }
        let after = self.counters();
        let (messages, packets) = (after.0 - before.0, after.1 - before.1);
        let us = |quantile| times.value_at_quantile(quantile) as f64 / 1000.0;
        println!(
            "{outstanding:3} outstanding: p50 {:6.1} us  p99 {:6.1} us  {:8.0} round trips/s  {:5.1} messages a packet",
            us(0.5),
            us(0.99),
            times.len() as f64 / begin.elapsed().as_secs_f64(),
            messages as f64 / packets as f64
        );
    }

    fn counters(&self) -> (u64, u64) {
        let (.., counters) = self.transport.peers().next().expect("one peer");
        (counters.received_messages_total, counters.received_packets_total)
    }

    fn outstanding(&self) -> u64 {
        let (.., counters) = self.transport.peers().next().expect("one peer");
        counters.sent_messages_total - counters.received_messages_total
    }

    fn one_way(&mut self, seconds: u64) {
        let message = self.message(1);
        let (begin, mut sent) = (Instant::now(), 0u64);
        while begin.elapsed() < Duration::from_secs(seconds) {
            sent += (0..BURST).filter(|_| self.transport.send(self.peer, &message)).count() as u64;
            self.transport.flush();
            self.transport.turn(&mut self.batch);
        }
        let rate = sent as f64 / begin.elapsed().as_secs_f64();
        println!("one way: {rate:.0} messages of {MESSAGE_BYTES} bytes a second");
    }
}

/// Both sides' processor time of connections that are made and hung up on, one after the other.
fn handshakes(key: &Key) {
    let (mut a, mut b) = (start("c", key), start("d", key));
    let mut batch = Batch::new();
    let (count, begin) = (200u32, processor_time());
    for _ in 0..count {
        let peer = a.know(&member("d"), b.addresses().to_vec());
        a.send(peer, b"1");
        a.flush();
        let mut is_there = false;
        while !is_there {
            for transport in [&mut a, &mut b] {
                transport.turn(&mut batch);
                is_there |= batch.messages().next().is_some();
                transport.flush();
            }
        }
        a.forget(peer);
    }
    let spent = processor_time() - begin;
    println!("handshake, both sides: {:.0} us of a processor", spent.as_micros() as f64 / f64::from(count));
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every thread has one").into()
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(KEY_FILE);
    let key = Key::load_or_create(&path).expect("a key");
    let (tell, told) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || echo(&Key::load_or_create(&path).expect("a key"), &tell));
    let mut transport = start("a", &key);
    let address = told.recv().expect("the other listens");
    let peer = transport.know(&member("b"), vec![address]);
    let mut client = Client { transport, batch: Batch::new(), peer, started: Instant::now() };
    for outstanding in [1, 8, 64] {
        client.round_trips(outstanding, seconds);
    }
    client.one_way(seconds);
    handshakes(&key);
    IS_OVER.store(true, Ordering::Relaxed);
    other.join().expect("the other ends");
}
