//! What comes over a connection between two agents.

use headstart_transport::{BadFrame, Decoder, Frame, Identity, MESSAGE_BYTES_MAX, Member};

use super::source::Source;

/// Longer than any frame but a message.
const CONTROL_BYTES_MAX: usize = 4 << 10;

/// Bytes as they are, and frames of which one is wrong now and then: the same frames come of them however they are cut,
/// they have one form, and nothing is kept but a frame that is not whole.
pub fn frames(bytes: &[u8]) -> usize {
    let mut source = Source(bytes);
    let mut made = Vec::new();
    while !source.is_empty() {
        make(&mut source, &mut made);
    }
    check(bytes, bytes) + check(&made, bytes)
}

fn make(source: &mut Source<'_>, out: &mut Vec<u8>) {
    let payload = vec![source.byte(); source.number().min(3000) as usize];
    match source.below(12) {
        0 => Frame::Hello(&payload).encode(out),
        1..=4 => Frame::Message(&payload).encode(out),
        5 | 6 => Frame::Ping(source.number()).encode(out),
        7 | 8 => Frame::Pong(source.number()).encode(out),
        9 | 10 => Frame::Refused(&payload).encode(out),
        _ => out.extend_from_slice(&(source.number() as u32).to_le_bytes()),
    }
}

/// How many frames there are.
fn check(stream: &[u8], cuts: &[u8]) -> usize {
    let (whole, end) = decode(&[stream]);
    let mut parts = Vec::new();
    let mut rest = stream;
    for cut in cuts {
        let (part, behind) = rest.split_at(usize::from(*cut).min(rest.len()));
        parts.push(part);
        rest = behind;
    }
    parts.push(rest);
    assert_eq!(decode(&parts), (whole.clone(), end), "it depends on how the bytes are cut");
    assert!(stream.starts_with(&whole.concat()), "a frame has one form");
    whole.len()
}

fn decode(parts: &[&[u8]]) -> (Vec<Vec<u8>>, Option<BadFrame>) {
    let (mut decoder, mut frames) = (Decoder::default(), Vec::new());
    for part in parts {
        decoder.push(part);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => {
                    let mut bytes = Vec::new();
                    frame.encode(&mut bytes);
                    let is_message = matches!(frame, Frame::Message(_));
                    let most = if is_message { MESSAGE_BYTES_MAX } else { CONTROL_BYTES_MAX };
                    assert!(bytes.len() <= most + 4, "a frame is longer than any");
                    frames.push(bytes);
                }
                Ok(None) => break,
                Err(bad) => return (frames, Some(bad)),
            }
        }
        assert!(decoder.waiting_bytes() < MESSAGE_BYTES_MAX + 4, "more is kept than one frame");
    }
    (frames, None)
}

/// What a caller says of itself is a member of this directory, or refused with a text.
pub fn hello(bytes: &[u8]) {
    let own = Identity { version: 1, directory: "d".into(), member: Member { name: "a".into(), incarnation: 1 } };
    let address = "127.0.0.1:1".parse().expect("an address");
    let head = [b"HSTM".as_slice(), &1u32.to_le_bytes()].concat();
    for hello in [bytes.to_vec(), [head, bytes.to_vec()].concat()] {
        match own.check(&hello, None, address) {
            Ok(member) => assert!(!member.name.is_empty() && member.name != "a"),
            Err(text) => assert!(text.contains("127.0.0.1:1"), "{text}"),
        }
    }
}
