//! What messages and records speak of: members, files, epochs, places in the order.

/// A node as a member of the site from its join to its expulsion. A node that joins again after that has another life,
/// and with it another log; an agent that is started anew within the deadline goes on with both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId {
    /// The node.
    pub node: u16,
    /// How often it had joined before.
    pub life: u16,
}

/// One agent of a member: messages of any other one count for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// The member.
    pub member: MemberId,
    /// How many agents the member had before.
    pub incarnation: u32,
}

/// A file: its inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

/// What a home says about a file gets one, and each is above all that any home said before: the view comes first, and
/// in one view a file has one home. The stamp of an owner's naming is its epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Number of the view.
    pub view: u64,
    /// The home's count.
    pub count: u64,
}

impl Stamp {
    /// Of files that a member had before there were others: below all that a home gives.
    pub const FIRST: Stamp = Stamp { view: 0, count: 1 };
}

/// A record's place among all records of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order {
    /// Epoch of the owner that gave it.
    pub epoch: Stamp,
    /// The owner's count.
    pub seq: u64,
}

/// A request of a thread. A thread has one at a time, and numbers them: a request that is told again has the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// The thread's slot, on its node.
    pub slot: u32,
    /// The thread's count.
    pub seq: u64,
}

/// Whom it concerns what happened to a file, beside the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concerned {
    /// Its home, which is another member, knows.
    Home(MemberId),
    /// Its owner: nobody else has bytes of it on flash.
    Owner(MemberId),
    /// Any: its home has not heard yet what all have.
    All,
    /// Nobody has bytes of it on flash.
    Nobody,
}
