//! What a turn brought: messages, one behind the other in one piece of memory that the next turn uses again, and what
//! became of connections.

use crate::identity::Member;

/// A batch that is empty keeps no more memory than this. Assumed: a turn's messages of 16 peers that have much to say.
const KEPT_BYTES: usize = 1 << 20;

/// A member that this one knows, or that has called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub(crate) u64);

/// What became of a connection. The texts are for people and name node, address, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Messages get through from now on.
    Connected(PeerId, Member),
    /// Messages no longer get through, and those on their way may be lost.
    Lost(PeerId, String),
    /// An attempt to connect failed; messages that waited for it are gone, and the next one tries again.
    Unreachable(PeerId, String),
    /// Somebody who called is not let in.
    Refused(String),
}

/// See the module.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Sender, and where its message ends.
    ends: Vec<(PeerId, usize)>,
    events: Vec<Event>,
}

impl Batch {
    /// An empty one.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Messages, those of one sender in its order on each connection.
    pub fn messages(&self) -> impl Iterator<Item = (PeerId, &[u8])> {
        let mut begin = 0;
        self.ends.iter().map(move |(peer, end)| {
            let message = &self.bytes[begin..*end];
            begin = *end;
            (*peer, message)
        })
    }

    /// What became of connections, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.ends.clear();
        self.events.clear();
    }

    pub(crate) fn push(&mut self, peer: PeerId, message: &[u8]) {
        self.bytes.extend_from_slice(message);
        self.ends.push((peer, self.bytes.len()));
    }

    pub(crate) fn tell(&mut self, event: Event) {
        self.events.push(event);
    }
}
