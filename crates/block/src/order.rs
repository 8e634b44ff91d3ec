//! What an engine is asked, and what it asks for.

use super::devices::Device;
use super::guard;
use headstart_units::request::Range;

/// The caller's name of a request; not used again before its [`Output::Reply`].
pub type Tag = u64;
/// The engine's name of an order. The buffer a read fills has the same name.
pub type OrderId = u64;

/// A request. Offsets and lengths are multiples of 512.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Bytes, please.
    Read(Range),
    /// Writes; the data stay with the caller until [`Output::Reply`], whoever has been told before.
    Write {
        /// First byte.
        offset: u64,
        /// The data.
        data: &'a [u8],
        /// Durable before the reply.
        fua: bool,
    },
    /// DISCARD or WRITE_ZEROES: the range reads as zeros from then on.
    Zero {
        /// Which bytes.
        range: Range,
        /// Durable before the reply.
        fua: bool,
    },
    /// What was acknowledged before is durable before the reply.
    Flush,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Not of whole sectors, or beyond the end: EINVAL.
    Invalid,
    /// EIO.
    Io,
}

/// Bytes that are gathered, one behind the other, for a write or a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// These.
    Bytes(Vec<u8>),
    /// Of a write request's data.
    Request {
        /// Which.
        tag: Tag,
        /// From where.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// Of the buffer that an order has read.
    Buffer {
        /// Which.
        order: OrderId,
        /// From where.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// Zeros.
    Zeros(u64),
}

/// What a device is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Fill a buffer of this order's name.
    Read,
    /// Write what these parts make.
    Write(Vec<Part>),
    /// Make the range zeros without being given any, and give up the room that it takes; durable as a write is. Asked
    /// of a disk that can ([`zero_bytes_max`](super::engine::Settings::zero_bytes_max)), of whole blocks, and of
    /// nothing that the guard hides.
    Zero,
    /// Make durable what had completed when this order was given.
    Flush,
}

/// An order to a device. Orders may be carried out and completed in any order, also those of overlapping ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its name.
    pub id: OrderId,
    /// Which device.
    pub device: Device,
    /// What to do.
    pub action: Action,
    /// From which byte on.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// The session of the guard whose keystream goes over the bytes, after a read and before a write.
    pub session: Option<u32>,
}

impl Order {
    /// Puts the guard's keystream over bytes that were read, or are to be written.
    pub fn transform(&self, bytes: &mut [u8]) {
        if let Some(session) = self.session {
            guard::transform(session, self.offset, bytes);
        }
    }
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Something for a device; answered by `on_completion`.
    Order(Order),
    /// The end of a request; of a read, with the parts that make its data.
    Reply {
        /// Which.
        tag: Tag,
        /// How it ended.
        result: Result<Vec<Part>, Error>,
    },
    /// The buffer of an order is not needed any more.
    Release(OrderId),
}
