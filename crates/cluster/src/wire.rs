//! Messages, notes and views as bytes: what one agent sends to another, and what the membership service keeps.
//!
//! The first byte is the version. Numbers are little-endian, lists have their length before them, in 32 bits. Whatever
//! is cut, too long or cannot be is refused whole: bytes come from elsewhere.

mod fields;
mod message;
mod note;
mod view;

use fields::{Field, Source};

use crate::message::Envelope;
use crate::note::Told;
use crate::view::View;

/// Changes whenever the bytes of a message or a view do.
pub const VERSION: u8 = 2;

/// Appends a message's bytes.
pub fn encode_envelope(envelope: &Envelope, out: &mut Vec<u8>) {
    out.push(VERSION);
    envelope.put(out);
}

/// The message that the bytes are; none if they are none, or another version's.
pub fn decode_envelope(bytes: &[u8]) -> Option<Envelope> {
    decode(bytes)
}

/// Appends the bytes of a letter with notes. Whether bytes are these or a message's, their frame says.
pub fn encode_told(told: &Told, out: &mut Vec<u8>) {
    out.push(VERSION);
    told.put(out);
}

/// The letter that the bytes are; none if they are none, or another version's.
pub fn decode_told(bytes: &[u8]) -> Option<Told> {
    decode(bytes)
}

/// Appends a view's bytes.
pub fn encode_view(view: &View, out: &mut Vec<u8>) {
    out.push(VERSION);
    view.put(out);
}

/// The view that the bytes are; none if they are none, or another version's.
pub fn decode_view(bytes: &[u8]) -> Option<View> {
    decode(bytes)
}

fn decode<T: Field>(bytes: &[u8]) -> Option<T> {
    let mut from = Source(bytes);
    if u8::take(&mut from)? != VERSION {
        return None;
    }
    let value = T::take(&mut from)?;
    from.0.is_empty().then_some(value)
}

#[cfg(test)]
mod tests;
