//! Who decides which bytes go to flash: one file a policy, named after its paper.

pub mod carl;
pub mod chain;
pub mod d_carl;
mod disk_only;
pub mod random;
pub mod s4d;

use headstart_units::request::{Direction, Range};

use crate::order::Distance;

/// One request of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Reading or writing.
    pub direction: Direction,
    /// The bytes asked for.
    pub range: Range,
    /// How it lies to the same process's requests before.
    pub distance: Distance,
}

/// Why a request goes to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No policy is at work.
    Off,
    /// The disk serves it no later than flash, or other bytes gain more from the flash there is.
    NoBenefit,
    /// The site keeps the file off flash.
    Excluded,
    /// The process uses the file as a stream or a mapping.
    Bypassed,
}

/// When a fetch is worth the disks' time; of two for the same bytes the lesser counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FetchTurn {
    /// Whenever they can take it.
    Soon,
    /// While no program uses them.
    Idle,
}

/// What a policy wants of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Disk.
    Disk(Reason),
    /// Flash: a write is absorbed; a read that misses goes to disk. `benefit_ns` is what flash saves.
    Flash {
        /// Time saved, nanoseconds, at least 1.
        benefit_ns: u64,
    },
    /// Flash, and a read that misses is worth fetching later.
    Fetch {
        /// Time saved, nanoseconds, at least 1.
        benefit_ns: u64,
        /// And when.
        turn: FetchTurn,
    },
    /// No opinion: the next policy is asked.
    Pass,
}

/// A policy of the client side, asked for every request of a managed file.
pub trait Policy {
    /// Decides one request, or the part of it up to [`Policy::bound`].
    fn on_request(&self, request: &Request) -> Decision;

    /// How far one decision reaches: the end of the first part of `range`, which is not empty, whose bytes
    /// the policy decides alike.
    fn bound(&self, range: Range) -> u64 {
        range.end()
    }
}

/// Asks the policies in order; the first that does not pass wins, and if all pass it is the disk: none sees a benefit.
pub(crate) fn decide(policies: &[&dyn Policy], request: &Request) -> Decision {
    policies
        .iter()
        .map(|policy| policy.on_request(request))
        .find(|decision| *decision != Decision::Pass)
        .unwrap_or(Decision::Disk(Reason::NoBenefit))
}

/// Cuts a request wherever one of the policies may answer differently, and asks of each part. Most requests
/// are one part.
///
/// Each part keeps the request's distance: it is the disk's arm that moves over it, and for the parts that go
/// to flash it stays.
pub fn parts(policies: &[&dyn Policy], request: Request) -> impl Iterator<Item = (Request, Decision)> {
    let mut rest = request.range;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let bound = policies.iter().map(|policy| policy.bound(rest)).min().unwrap_or(rest.end());
        let part = Request { range: Range::between(rest.offset, bound), ..request };
        rest = Range::between(bound, rest.end());
        Some((part, decide(policies, &part)))
    })
}
