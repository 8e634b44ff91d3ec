//! Connections between the agents of one managed directory: messages of bytes, whatever they say, from member to
//! member over mutual TLS.
//!
//! A message may be lost, and one that is sent again may come twice or late: the agents' protocol tells everything
//! again until it is answered. So nothing here waits for anybody: what does not fit is dropped and counted, and a peer
//! that is silent costs a bounded queue. What arrives is what some member with the directory's key sent.
//!
//! # Where it runs
//!
//! In the agent's one thread. A [`Transport`] waits behind one descriptor, an epoll of its own with its timer. The
//! agent calls [`Transport::turn`] when that is readable, queues messages by [`Transport::send`], and calls
//! [`Transport::flush`] once at the end of each turn of its loop: then everything that waits for a peer goes as one
//! packet. Only [`Transport::start`] may wait, for a name service.
//!
//! ```no_run
//! # use headstart_transport::*;
//! # fn main() -> Result<()> {
//! # let member = Member { name: "a".into(), incarnation: 1 };
//! # let identity = Identity { version: 1, directory: "d".into(), member };
//! let key = Key::load_or_create("/fast/cluster.key".as_ref())?;
//! let mut transport = Transport::start(identity, &key, Options::default())?;
//! let peer = transport.know(&Member { name: "b".into(), incarnation: 7 }, vec!["10.0.0.2:7000".parse().unwrap()]);
//! let mut batch = Batch::new();
//! loop {
//!     // An agent waits for transport.descriptor() and others.
//!     transport.turn(&mut batch);
//!     for (peer, message) in batch.messages() {
//!         transport.send(peer, message);
//!     }
//!     transport.flush();
//! }
//! # }
//! ```
//!
//! # Who is let in
//!
//! Whoever has the private key in the fast directory ([`Key`]), which both sides prove by a certificate made of it.
//! Behind the handshake each says its version, directory, name and incarnation; what differs is refused, and both
//! sides are told what on which node ([`Identity::check`]). There is no listener without a key.
//!
//! # What happens when
//!
//! | what | what follows |
//! |---|---|
//! | the key file has another owner or mode, or is none | `start` is not reached: the error names the file |
//! | two nodes make the key at once | one key: a link decides |
//! | another key, no certificate, no TLS | refused; an alert tells the other side |
//! | another version, directory, name, incarnation | refused; a frame tells the other side what differs |
//! | nobody listens | the peer's next address; then a pause that doubles, half of it chance; what waited is dropped |
//! | a peer hangs up or is killed | [`Event::Lost`]; what waited is dropped; the next message dials |
//! | a peer is stopped or cut off | after [`Options::silence`]: closed, counted, lost as above |
//! | a peer does not read | its queue is full, messages are dropped and counted; then as above |
//! | a peer floods | 64 KiB a connection and turn |
//! | what comes is no frame | closed and counted |
//! | no descriptors | nobody is accepted for a tenth of a second |
//!
//! A pair of members has two connections at most, one that each side dialled, and each serves both directions
//! (`transport/greeting.rs` says why there is no rule which of two stays). A connection is made for the first message,
//! not when a member becomes known. Host and network that are gone show by TCP_USER_TIMEOUT and keepalives of the
//! kernel, which cost an idle member nothing; a process that is stopped shows by a PING that rides on a packet of
//! messages at most every 100 ms, and gives the round-trip time.
//!
//! # Why rustls alone, and in the loop
//!
//! Measured over loopback with messages of 64 bytes, two threads as two agents, on two processors that had other work
//! too: the median of round trips, best of seven runs (`examples/round_trips.rs`); best of two of the others, which are
//! not kept. Rates are all that were seen, and go by what else ran; no two columns were measured under the same load.
//!
//! | outstanding | this crate | behind a thread of its own, by eventfds | tonic 0.14, one stream | tonic, a call each |
//! |---|---|---|---|---|
//! | 1 | 10 us | 38 us | 14 us | 36 us |
//! | 8 | 11 us | 39 us | 18 us | 144 us |
//! | 64 | 17 us | 55 us | 46 us | 3.8 ms |
//! | 64: round trips a second | 140,000 to 970,000 | 240,000 to 510,000 | 280,000 to 310,000 | 14,000 to 17,000 |
//!
//! With one outstanding the 99th percentile was 33 us at the quietest. One way 0.4 to 3.0 million messages a second go,
//! as the machine had time. tonic (HTTP/2 over the same rustls, tokio with one thread) joins
//! messages less well and has a frame and a task for each; and it needs tokio's loop, so that messages cross to the
//! agent's by a queue and an eventfd: the column beside it says what that costs. It brings 45 crates more.
//! Here the unbuffered interface of rustls is not used: it copies each record too, and leaves updates of keys to us.
//!
//! A handshake takes 0.35 ms of a processor on each side, in two or three steps of which a turn makes
//! four at most. An established connection takes 9 KiB at rest, beside the kernel's buffers: 9 MiB for a member that
//! talks to 1,000 others.
//!
//! The provider is ring: 90 files of C and assembly, for x86-64 and aarch64, that need a C compiler and nothing else;
//! aws-lc has 1,379 and may want cmake. rcgen has both.

mod backoff;
mod batch;
mod connection;
mod counters;
mod error;
mod frame;
mod identity;
mod key;
mod listen;
mod peer;
mod poller;
mod socket;
mod timers;
mod tls;
mod transport;

pub use batch::{Batch, Event, PeerId};
pub use counters::{Counters, PeerCounters};
pub use error::{Error, Result};
pub use frame::{BadFrame, Decoder, Frame, MESSAGE_BYTES_MAX};
pub use identity::{Identity, Member};
pub use key::{KEY_FILE, Key};
pub use listen::Listen;
pub use transport::{Options, Transport};
