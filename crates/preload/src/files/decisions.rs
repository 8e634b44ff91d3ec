//! What the policies want of a request on an open file, and how it lies to the requests before.

use headstart_policy::client::carl::Regions;
use headstart_policy::client::{self, Decision};
use headstart_policy::order::Distance;
use headstart_units::request::{Direction, Range};

use crate::files::descriptors::target::Target;
use crate::process;
use crate::session::{self, SITE, Site};
use crate::settings::settings;

/// How a request of this process lies to those before it, the last of which it becomes: its own, and where
/// the cost model of a policy asks for it, those of other processes.
#[inline]
pub(crate) fn distance(target: &Target, direction: Direction, range: Range) -> Distance {
    let distance = target.record.distance(range);
    let asks = |site: &Site| settings().policies.asks_s4d() && site.s4d.of(direction).interleaved_stays;
    // There is memory behind what the agent was told of.
    match session::region().filter(|_| SITE.get().is_some_and(asks) && target.record.is_current()) {
        Some(region) => {
            let others = region.interleaving(target.file);
            Distance { interleaved: others.add(direction, range, process::number()), ..distance }
        }
        None => distance,
    }
}

/// What the site, and then the policies of this run, want of the first part of a request, which is not empty;
/// how far that reaches is where the part ends. Most requests are one part.
#[inline]
pub(crate) fn decide(target: &Target, request: &client::Request) -> (client::Request, Decision) {
    if let Some(reason) = target.record.stays_on_disk() {
        return (*request, Decision::Disk(reason));
    }
    let (chain, s4d) = (settings().policies, SITE.get().map(|site| &site.s4d));
    if !chain.asks_regions() {
        return chain.first_part(s4d, &Regions::NONE, request);
    }
    target.record.with_regions(|regions| chain.first_part(s4d, regions, request))
}
