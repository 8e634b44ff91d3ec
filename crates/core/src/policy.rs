//! Who decides which bytes go to flash: one file a policy, named after its paper.

pub mod disk_only;
pub mod s4d;

use crate::request::Request;

/// Why a request goes to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No policy is at work.
    Off,
    /// The cost model says that the disk serves it no later than flash.
    NoBenefit,
    /// The site keeps the file off flash.
    Excluded,
    /// The process uses the file as a stream or a mapping.
    Bypassed,
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
    },
    /// No opinion: the next policy is asked.
    Pass,
}

/// A policy of the client side, asked for every request of a managed file.
pub trait Policy {
    /// Decides one request.
    fn on_request(&self, request: &Request) -> Decision;
}

/// Asks the policies in order; the first that does not pass wins, and if all pass it is the disk.
pub fn decide(policies: &[&dyn Policy], request: &Request) -> Decision {
    policies
        .iter()
        .map(|policy| policy.on_request(request))
        .find(|decision| *decision != Decision::Pass)
        .unwrap_or(Decision::Disk(Reason::Off))
}
