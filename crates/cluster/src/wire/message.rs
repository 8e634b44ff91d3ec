//! Messages as bytes: addresses, a byte of kind, fields.

use super::fields::{Field, Source};
use crate::message::{Envelope, Message};

impl Field for Envelope {
    fn put(&self, out: &mut Vec<u8>) {
        self.from.put(out);
        self.to.put(out);
        self.view.put(out);
        self.message.put(out);
    }

    fn take(from: &mut Source<'_>) -> Option<Self> {
        Some(Envelope {
            from: Field::take(from)?,
            to: Field::take(from)?,
            view: Field::take(from)?,
            message: Field::take(from)?,
        })
    }
}

/// Each message once: its kind, how it is taken apart, its fields in order.
macro_rules! messages {
    ($($kind:literal: $pattern:pat => ($($field:ident),*) => $make:expr;)*) => {
        impl Field for Message {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($pattern => {
                        out.push($kind);
                        $($field.put(out);)*
                    })*
                }
            }

            fn take(from: &mut Source<'_>) -> Option<Self> {
                match u8::take(from)? {
                    $($kind => {
                        $(let $field = Field::take(from)?;)*
                        Some($make)
                    })*
                    _ => None,
                }
            }
        }
    };
}

messages! {
    0: Message::Open(file) => (file) => Message::Open(file);
    1: Message::Own(file) => (file) => Message::Own(file);
    2: Message::Holds(file, stamp) => (file, stamp) => Message::Holds(file, stamp);
    3: Message::OwnedBy(file, owner, epoch) => (file, owner, epoch) => Message::OwnedBy(file, owner, epoch);
    4: Message::Yours { file, epoch, ask, logged } => (file, epoch, ask, logged)
        => Message::Yours { file, epoch, ask, logged };
    5: Message::Declare(slots, files) => (slots, files) => Message::Declare(slots, files);
    6: Message::Heard(slots) => (slots) => Message::Heard(slots);
    7: Message::Claim(file, epoch) => (file, epoch) => Message::Claim(file, epoch);
    8: Message::Claimed { file, epoch, log, writers } => (file, epoch, log, writers)
        => Message::Claimed { file, epoch, log, writers };
    9: Message::CallIn(file, epoch, number, range) => (file, epoch, number, range)
        => Message::CallIn(file, epoch, number, range);
    10: Message::CalledIn(file, epoch, number, range, writers) => (file, epoch, number, range, writers)
        => Message::CalledIn(file, epoch, number, range, writers);
    11: Message::StillWriting(file, epoch, writers) => (file, epoch, writers)
        => Message::StillWriting(file, epoch, writers);
    12: Message::Asked(file, epoch, id, called, ask) => (file, epoch, id, called, ask)
        => Message::Asked(file, epoch, id, called, ask);
    13: Message::NotMine(file, epoch) => (file, epoch) => Message::NotMine(file, epoch);
    14: Message::Answered(file, epoch, id, number, range, answer) => (file, epoch, id, number, range, answer)
        => Message::Answered(file, epoch, id, number, range, answer);
    15: Message::Ordered { file, order, range, what, by } => (file, order, range, what, by)
        => Message::Ordered { file, order, range, what, by };
    16: Message::Appended(file, order, at, durable) => (file, order, at, durable)
        => Message::Appended(file, order, at, durable);
    17: Message::Synced(upto) => (upto) => Message::Synced(upto);
    18: Message::Copy(intent, of, place) => (intent, of, place) => Message::Copy(intent, of, place);
    19: Message::Copying(intent) => (intent) => Message::Copying(intent);
    20: Message::Copied(intent, copied) => (intent, copied) => Message::Copied(intent, copied);
    21: Message::Ping(id) => (id) => Message::Ping(id);
    22: Message::Pong(id) => (id) => Message::Pong(id);
    23: Message::Free(file, epoch, orders, floor) => (file, epoch, orders, floor)
        => Message::Free(file, epoch, orders, floor);
    24: Message::Forgotten(file, epoch, orders) => (file, epoch, orders) => Message::Forgotten(file, epoch, orders);
    25: Message::Release(file, epoch) => (file, epoch) => Message::Release(file, epoch);
    26: Message::Released(file, epoch, stamp) => (file, epoch, stamp) => Message::Released(file, epoch, stamp);
    27: Message::Drained(file, epoch, member) => (file, epoch, member) => Message::Drained(file, epoch, member);
    28: Message::Noted(file, epoch, member) => (file, epoch, member) => Message::Noted(file, epoch, member);
    29: Message::Emptied(member) => (member) => Message::Emptied(member);
}
