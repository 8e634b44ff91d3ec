//! One connection: a socket, TLS, and frames in both directions. Nothing in it waits.
//!
//! | state | what is awaited | then |
//! |---|---|---|
//! | Connecting | the socket is writable, in a connection that this member dialled | Shaking |
//! | Shaking | the end of the TLS handshake | Greeting, and a HELLO goes |
//! | Greeting | the peer's HELLO | Established, or Refusing |
//! | Established | frames | |
//! | Refusing | the peer's end: a socket closed over unread bytes would take back what it was told | gone |

use std::io::{self, BufRead, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::batch::{Batch, PeerId};
use crate::counters::PeerCounters;
use crate::frame::{BadFrame, CONTROL_BYTES_MAX, Decoder, Frame, KEPT_BYTES};
use crate::socket::Quietly;

/// A packet asks for an answer no more often than this: round-trip times are as old at most while messages go.
/// Assumed; at 100,000 messages a second it is one in 10,000.
const PING_PERIOD: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Connecting,
    Shaking,
    Greeting,
    Established(PeerId),
    Refusing,
}

/// Who made the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// This member, to this peer.
    Dialled(PeerId),
    Accepted,
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ending {
    #[error("it hung up")]
    HungUp,
    #[error("{0}")]
    Broken(io::Error),
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    #[error("{0}: its program is another than this one's")]
    Bad(#[from] BadFrame),
    #[error("it is silent: stopped, cut off, or overloaded")]
    Silent,
    #[error("it does not say in time who it is")]
    TimedOut,
    #[error("it says: {0}")]
    Refused(String),
    #[error("it was started anew")]
    Replaced,
}

/// Questions of this side, and the last sign of life of the other.
pub(crate) struct Pulse {
    heard: Instant,
    /// The PING that is not answered.
    asked: Option<Instant>,
    last: Option<Instant>,
    number: u64,
    /// A timer looks after it.
    pub(crate) is_watched: bool,
}

impl Pulse {
    /// Since when the peer owes an answer and has said nothing.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        self.asked.map(|asked| asked.max(self.heard))
    }

    fn answered(&mut self, number: u64, now: Instant) -> Option<Duration> {
        let asked = self.asked.take_if(|_| number == self.number)?;
        Some(now.saturating_duration_since(asked))
    }
}

/// Whole frames on their way into TLS.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    taken: usize,
}

pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    pub(crate) address: SocketAddr,
    pub(crate) side: Side,
    pub(crate) state: State,
    pub(crate) pulse: Pulse,
    /// The poller tells when the socket takes bytes.
    pub(crate) awaits_room: bool,
    /// It is among those that `flush` looks at.
    pub(crate) is_dirty: bool,
    tls: rustls::Connection,
    decoder: Decoder,
    out: Outgoing,
}

impl Connection {
    pub(crate) fn new(socket: TcpStream, address: SocketAddr, side: Side, tls: rustls::Connection) -> Connection {
        let state = if side == Side::Accepted { State::Shaking } else { State::Connecting };
        Connection {
            socket,
            address,
            side,
            state,
            pulse: Pulse { heard: Instant::now(), asked: None, last: None, number: 0, is_watched: false },
            awaits_room: false,
            is_dirty: false,
            tls,
            decoder: Decoder::default(),
            out: Outgoing::default(),
        }
    }

    /// The attempt to connect came to an end.
    pub(crate) fn connected(&mut self) -> io::Result<()> {
        match self.socket.take_error()? {
            Some(error) => Err(error),
            None => {
                self.state = State::Shaking;
                Ok(())
            }
        }
    }

    /// Puts a frame behind the others.
    pub(crate) fn say(&mut self, frame: Frame<'_>) {
        frame.encode(&mut self.out.bytes);
    }

    /// The last words; the rest of what comes is not looked at.
    pub(crate) fn refuse(&mut self, text: Option<&str>) {
        if let Some(text) = text {
            let bytes = text.as_bytes();
            self.say(Frame::Refused(&bytes[..bytes.len().min(CONTROL_BYTES_MAX)]));
        }
        let _ = self.push();
        self.state = State::Refusing;
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Reads once; false if nothing came. What came is decrypted and waits for `frame` and `take_messages`.
    pub(crate) fn receive(&mut self, scratch: &mut [u8], now: Instant) -> Result<bool, Ending> {
        let length = match self.socket.read(scratch) {
            Ok(0) => return Err(Ending::HungUp),
            Ok(length) => length,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(false);
            }
            Err(error) => return Err(Ending::Broken(error)),
        };
        self.pulse.heard = now;
        let mut rest = &scratch[..length];
        while self.state != State::Refusing && !rest.is_empty() {
            self.tls.read_tls(&mut rest).map_err(Ending::Broken)?;
            let state = self.tls.process_new_packets().map_err(Ending::Tls)?;
            let mut waiting = state.plaintext_bytes_to_read();
            while waiting > 0 {
                let mut reader = self.tls.reader();
                let bytes = reader.fill_buf().map_err(Ending::Broken)?;
                self.decoder.push(bytes);
                let length = bytes.len();
                reader.consume(length);
                waiting -= length;
            }
            if state.peer_has_closed() {
                return Err(Ending::HungUp);
            }
        }
        Ok(true)
    }

    /// Both sides have shown that they have the key.
    pub(crate) fn is_secure(&self) -> bool {
        !self.tls.is_handshaking()
    }

    /// Something came that is not read yet.
    pub(crate) fn has_unread(&self) -> bool {
        self.socket.peek(&mut [0]).is_ok_and(|length| length > 0)
    }

    /// The next frame.
    pub(crate) fn frame(&mut self) -> Result<Option<Frame<'_>>, Ending> {
        Ok(self.decoder.next_frame()?)
    }

    /// Hands over the messages that came; true if the peer awaits an answer to a PING.
    pub(crate) fn take_messages(
        &mut self,
        peer: PeerId,
        counters: &mut PeerCounters,
        batch: &mut Batch,
        now: Instant,
    ) -> Result<bool, Ending> {
        let mut is_asked = false;
        while let Some(frame) = self.decoder.next_frame()? {
            match frame {
                Frame::Message(bytes) => {
                    counters.received_messages_total += 1;
                    counters.received_bytes += bytes.len() as u64;
                    batch.push(peer, bytes);
                }
                Frame::Ping(number) => {
                    Frame::Pong(number).encode(&mut self.out.bytes);
                    is_asked = true;
                }
                Frame::Pong(number) => {
                    if let Some(time) = self.pulse.answered(number, now) {
                        let (sample, smoothed) = (time.as_nanos() as u64, counters.round_trip_ns);
                        counters.round_trip_ns = if smoothed == 0 { sample } else { (smoothed * 7 + sample) / 8 };
                    }
                }
                Frame::Refused(text) => return Err(Ending::Refused(String::from_utf8_lossy(text).into_owned())),
                Frame::Hello(_) => return Err(BadFrame::OutOfTurn.into()),
            }
        }
        Ok(is_asked)
    }

    /// What goes to TLS next; its owner puts whole frames in when it is empty.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        debug_assert_eq!(self.out.taken, 0, "a frame is not cut");
        &mut self.out.bytes
    }

    pub(crate) fn has_nothing_to_say(&self) -> bool {
        self.out.bytes.is_empty()
    }

    /// Asks for a sign of life in the packet that goes, unless it did lately; true if nothing looks after the answer.
    pub(crate) fn ask(&mut self, now: Instant) -> bool {
        let is_due = self.pulse.last.is_none_or(|last| now.saturating_duration_since(last) >= PING_PERIOD);
        if self.pulse.asked.is_some() || !is_due {
            return false;
        }
        self.pulse.number += 1;
        self.pulse.asked = Some(now);
        self.pulse.last = Some(now);
        let number = self.pulse.number;
        self.say(Frame::Ping(number));
        !std::mem::replace(&mut self.pulse.is_watched, true)
    }

    /// Encrypts and writes as much as the socket takes; false if it takes no more. Counts bytes and packets.
    pub(crate) fn push(&mut self) -> io::Result<Pushed> {
        let mut pushed = Pushed { is_all: true, bytes: 0, packets: 0 };
        loop {
            while self.tls.wants_write() {
                match self.tls.write_tls(&mut Quietly(&self.socket)) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        pushed.is_all = false;
                        return Ok(pushed);
                    }
                    Err(error) => return Err(error),
                }
            }
            if self.out.bytes.is_empty() || !self.is_secure() {
                return Ok(pushed);
            }
            let taken = self.tls.writer().write(&self.out.bytes[self.out.taken..])?;
            pushed.bytes += taken as u64;
            pushed.packets += 1;
            self.out.taken += taken;
            if self.out.taken == self.out.bytes.len() {
                self.out.bytes.clear();
                self.out.bytes.shrink_to(KEPT_BYTES);
                self.out.taken = 0;
            }
        }
    }
}

/// What went.
pub(crate) struct Pushed {
    /// Nothing is left.
    pub(crate) is_all: bool,
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
}
