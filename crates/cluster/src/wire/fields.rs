//! What messages are made of, as bytes.

use headstart_units::request::Range;

use crate::log::Logged;
use crate::message::{Answer, Ask, Declared, Writers, Writing};
use crate::names::{FileId, MemberId, Order, RequestId, Seat, Stamp};
use crate::record::{Entry, Intent, Record, What};

/// Bytes that are read from the front.
pub(super) struct Source<'a>(pub(super) &'a [u8]);

impl Source<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }
}

/// A value that has bytes.
pub(super) trait Field: Sized {
    /// Appends them.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads them; none if they are none.
    fn take(from: &mut Source<'_>) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Field for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut Source<'_>) -> Option<Self> {
                from.array().map(<$number>::from_le_bytes)
            }
        }
    )*};
}

numbers!(u8 u16 u32 u64);

/// Structs whose bytes are those of their fields, in this order.
macro_rules! structs {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn take(from: &mut Source<'_>) -> Option<Self> {
                Some($name { $($field: Field::take(from)?),* })
            }
        }
    )*};
}

structs! {
    MemberId { node, life }
    Seat { member, incarnation }
    Stamp { view, count }
    Order { epoch, seq }
    RequestId { slot, seq }
    Record { file, order, range, what, by }
    Intent { file, copy, order, range }
    Logged { entry, at, durable }
    Writing { slot, range, granted }
    Writers { number, threads, uses }
    Declared { file, holds, owns, logged }
}

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(from: &mut Source<'_>) -> Option<Self> {
        match u8::take(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Field for FileId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(from: &mut Source<'_>) -> Option<Self> {
        u64::take(from).map(FileId)
    }
}

/// One that ends no later than a file can.
impl Field for Range {
    fn put(&self, out: &mut Vec<u8>) {
        self.offset.put(out);
        self.length.put(out);
    }

    fn take(from: &mut Source<'_>) -> Option<Self> {
        let (offset, length) = (u64::take(from)?, u64::take(from)?);
        offset.checked_add(length).map(|_| Range::new(offset, length))
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut Source<'_>) -> Option<Self> {
        if bool::take(from)? { T::take(from).map(Some) } else { Some(None) }
    }
}

/// No memory is set aside for more than there are bytes.
impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn take(from: &mut Source<'_>) -> Option<Self> {
        let count = u32::take(from)?;
        let mut values = Vec::with_capacity((count as usize).min(from.0.len() / std::mem::size_of::<T>().max(1)));
        for _ in 0..count {
            values.push(T::take(from)?);
        }
        Some(values)
    }
}

/// Enums: a byte says which, the fields follow.
impl Field for What {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            What::Map { place } => {
                out.push(0);
                place.put(out);
            }
            What::Drop => out.push(1),
        }
    }

    fn take(from: &mut Source<'_>) -> Option<Self> {
        match u8::take(from)? {
            0 => Some(What::Map { place: Field::take(from)? }),
            1 => Some(What::Drop),
            _ => None,
        }
    }
}

impl Field for Entry {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Entry::Record(record) => {
                out.push(0);
                record.put(out);
            }
            Entry::Intent(intent) => {
                out.push(1);
                intent.put(out);
            }
            Entry::Ended(intent) => {
                out.push(2);
                intent.put(out);
            }
            Entry::Forgot(file, order) => {
                out.push(3);
                file.put(out);
                order.put(out);
            }
        }
    }

    fn take(from: &mut Source<'_>) -> Option<Self> {
        match u8::take(from)? {
            0 => Field::take(from).map(Entry::Record),
            1 => Field::take(from).map(Entry::Intent),
            2 => Field::take(from).map(Entry::Ended),
            3 => Some(Entry::Forgot(Field::take(from)?, Field::take(from)?)),
            _ => None,
        }
    }
}

impl Field for Ask {
    fn put(&self, out: &mut Vec<u8>) {
        let (kind, place) = match *self {
            Ask::Commit { place, .. } => (0, Some(place)),
            Ask::Read { .. } => (1, None),
            Ask::Write { .. } => (2, None),
            Ask::WriteDone { .. } => (3, None),
        };
        out.push(kind);
        self.range().put(out);
        if let Some(place) = place {
            place.put(out);
        }
    }

    fn take(from: &mut Source<'_>) -> Option<Self> {
        let (kind, range) = (u8::take(from)?, Field::take(from)?);
        match kind {
            0 => Some(Ask::Commit { range, place: Field::take(from)? }),
            1 => Some(Ask::Read { range }),
            2 => Some(Ask::Write { range }),
            3 => Some(Ask::WriteDone { range }),
            _ => None,
        }
    }
}

impl Field for Answer {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Answer::Done => out.push(0),
            Answer::Refused => out.push(1),
            Answer::Go => out.push(2),
            Answer::Absorb => out.push(3),
            Answer::Absent => out.push(4),
            Answer::Disk { of } => {
                out.push(5);
                of.put(out);
            }
            Answer::Flash { of, place, durable } => {
                out.push(6);
                of.put(out);
                place.put(out);
                durable.put(out);
            }
            Answer::Again => out.push(7),
        }
    }

    fn take(from: &mut Source<'_>) -> Option<Self> {
        Some(match u8::take(from)? {
            0 => Answer::Done,
            1 => Answer::Refused,
            2 => Answer::Go,
            3 => Answer::Absorb,
            4 => Answer::Absent,
            5 => Answer::Disk { of: Field::take(from)? },
            6 => Answer::Flash { of: Field::take(from)?, place: Field::take(from)?, durable: Field::take(from)? },
            7 => Answer::Again,
            _ => return None,
        })
    }
}
