//! Parts of reads that wait for a fetch or a load of others.

use crate::order::{OrderId, Part, Tag};
use headstart_units::Nanos;
use headstart_units::request::Range;

/// A segment of a read that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub tag: Tag,
    pub segment: usize,
    pub range: Range,
    pub since: Nanos,
}

/// How a read takes part in a fetch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// It will hear of it.
    Waits,
    /// The bytes are there, in the buffer of an order that it shares from now on.
    Has(OrderId, Part),
    /// There is none for its range.
    No,
}

/// The load that a read has begun, if it asks for nothing but a part of a head: it does not wait for the whole head.
pub(super) type Begun = Option<u64>;
