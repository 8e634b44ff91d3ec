//! How messages lie one behind the other in a connection.
//!
//! ```text
//! kind << 24 | length   4 bytes, little endian
//! length bytes          HELLO: see `identity`; MESSAGE: what was sent; PING, PONG: 8 bytes; REFUSED: a text
//! ```
//!
//! A frame has one form, and a length that is too long is refused before anything is allocated for it. TLS has
//! checked that the bytes are the peer's: whatever is no frame is a mistake of its program, and ends the connection.

/// Longest message, in bytes. Assumed: 20,000 records of 50 bytes; what is longer goes in parts.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Longest frame of another kind: a name, a directory's id, or a refusal.
pub const CONTROL_BYTES_MAX: usize = 4 << 10;
const HEAD_BYTES: usize = 4;
/// A buffer that is empty keeps no more memory than this. Assumed: what one read brings, or one write takes.
pub(crate) const KEPT_BYTES: usize = 64 << 10;

const HELLO: u8 = 1;
const MESSAGE: u8 = 2;
const PING: u8 = 3;
const PONG: u8 = 4;
const REFUSED: u8 = 5;

/// What one side says to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Who it is; the first frame in each direction.
    Hello(&'a [u8]),
    /// A message of the agents' protocol.
    Message(&'a [u8]),
    /// Asks for a PONG of the same number.
    Ping(u64),
    /// Answers a PING.
    Pong(u64),
    /// Why the connection is closed.
    Refused(&'a [u8]),
}

impl Frame<'_> {
    /// Appends the frame.
    ///
    /// # Panics
    /// If it is too long: whoever makes one has seen to that.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let number;
        let (kind, bytes) = match self {
            Frame::Hello(bytes) => (HELLO, *bytes),
            Frame::Message(bytes) => (MESSAGE, *bytes),
            Frame::Refused(bytes) => (REFUSED, *bytes),
            Frame::Ping(value) | Frame::Pong(value) => {
                number = value.to_le_bytes();
                (if matches!(self, Frame::Ping(_)) { PING } else { PONG }, number.as_slice())
            }
        };
        assert!(bytes.len() <= length_max(kind), "a frame of {} bytes is too long", bytes.len());
        out.extend_from_slice(&(u32::from(kind) << 24 | bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(bytes);
    }
}

/// Bytes that a message of `length` bytes takes.
pub(crate) fn framed_bytes(length: usize) -> usize {
    HEAD_BYTES + length
}

fn length_max(kind: u8) -> usize {
    match kind {
        MESSAGE => MESSAGE_BYTES_MAX,
        PING | PONG => 8,
        _ => CONTROL_BYTES_MAX,
    }
}

/// What is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// A kind that this version does not know.
    #[error("a frame of unknown kind {0}")]
    Kind(u8),
    /// A length that its kind cannot have.
    #[error("a frame of kind {kind} and {length} bytes")]
    Length {
        /// The kind.
        kind: u8,
        /// The length.
        length: usize,
    },
    /// A frame that does not belong here, such as a message before the peer said who it is.
    #[error("a frame out of turn")]
    OutOfTurn,
}

/// Takes bytes as they come, gives frames.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// Where the next frame begins.
    next: usize,
}

impl Decoder {
    /// Bytes came.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.next > 0 {
            self.bytes.drain(..self.next);
            self.next = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame. Nothing follows one that is bad.
    ///
    /// # Errors
    /// What comes is no frame.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, BadFrame> {
        let rest = &self.bytes[self.next..];
        let Some(head) = rest.first_chunk::<HEAD_BYTES>() else {
            self.forget();
            return Ok(None);
        };
        let head = u32::from_le_bytes(*head);
        let (kind, length) = ((head >> 24) as u8, (head & 0x00ff_ffff) as usize);
        if !(HELLO..=REFUSED).contains(&kind) {
            return Err(BadFrame::Kind(kind));
        }
        if length > length_max(kind) || (matches!(kind, PING | PONG) && length != 8) {
            return Err(BadFrame::Length { kind, length });
        }
        if rest.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        let begin = self.next + HEAD_BYTES;
        self.next = begin + length;
        let bytes = &self.bytes[begin..self.next];
        let number = || u64::from_le_bytes(*bytes.first_chunk().expect("a PING and a PONG have 8 bytes"));
        Ok(Some(match kind {
            HELLO => Frame::Hello(bytes),
            MESSAGE => Frame::Message(bytes),
            PING => Frame::Ping(number()),
            PONG => Frame::Pong(number()),
            _ => Frame::Refused(bytes),
        }))
    }

    /// Bytes of a frame that is not whole yet.
    pub fn waiting_bytes(&self) -> usize {
        self.bytes.len() - self.next
    }

    fn forget(&mut self) {
        if self.waiting_bytes() == 0 {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_BYTES);
            self.next = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> (Vec<u8>, Vec<String>) {
        let long = vec![7; 70_000];
        let all = [
            Frame::Hello(b"who"),
            Frame::Message(b""),
            Frame::Ping(1),
            Frame::Message(&long),
            Frame::Pong(u64::MAX),
            Frame::Refused("why".as_bytes()),
        ];
        let mut bytes = Vec::new();
        all.iter().for_each(|frame| frame.encode(&mut bytes));
        (bytes, all.iter().map(|frame| format!("{frame:?}")).collect())
    }

    fn decode(decoder: &mut Decoder, seen: &mut Vec<String>) {
        while let Some(frame) = decoder.next_frame().unwrap() {
            seen.push(format!("{frame:?}"));
        }
    }

    #[test]
    fn frames_come_whole_however_the_bytes_are_cut() {
        let (bytes, expected) = frames();
        for cut in (0..200).chain(bytes.len() - 200..bytes.len()) {
            let (mut decoder, mut seen) = (Decoder::default(), Vec::new());
            for part in [&bytes[..cut], &bytes[cut..]] {
                decoder.push(part);
                decode(&mut decoder, &mut seen);
            }
            assert_eq!(seen, expected, "cut at {cut}");
            assert_eq!(decoder.waiting_bytes(), 0);
        }
    }

    #[test]
    fn frames_come_whole_byte_by_byte() {
        let (bytes, expected) = frames();
        let (mut decoder, mut seen) = (Decoder::default(), Vec::new());
        for byte in bytes {
            decoder.push(&[byte]);
            decode(&mut decoder, &mut seen);
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_by_its_head_alone() {
        for (kind, length) in [(MESSAGE, MESSAGE_BYTES_MAX + 1), (HELLO, CONTROL_BYTES_MAX + 1), (PING, 7), (PONG, 9)] {
            let mut decoder = Decoder::default();
            decoder.push(&(u32::from(kind) << 24 | length as u32).to_le_bytes());
            assert_eq!(decoder.next_frame(), Err(BadFrame::Length { kind, length }));
        }
        for kind in [0, REFUSED + 1, 255] {
            let mut decoder = Decoder::default();
            decoder.push(&(u32::from(kind) << 24).to_le_bytes());
            assert_eq!(decoder.next_frame(), Err(BadFrame::Kind(kind)));
        }
    }

    #[test]
    fn an_empty_decoder_gives_a_long_messages_memory_back() {
        let mut decoder = Decoder::default();
        let mut bytes = Vec::new();
        Frame::Message(&vec![0; MESSAGE_BYTES_MAX]).encode(&mut bytes);
        decoder.push(&bytes);
        decode(&mut decoder, &mut Vec::new());
        assert!(decoder.bytes.capacity() <= KEPT_BYTES);
    }
}
