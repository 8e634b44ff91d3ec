//! The agent as one of several nodes: looks at the register, and what follows from them.

use std::time::{Duration, Instant};

use headstart_membership::{Answer, Service, Version};

use crate::cluster::entry::{Entered, roster_in};
use crate::cluster::roster::{Place, Roster};
use crate::error::{Error, Result};

use super::{CLUSTER_REGISTER, EventLoop};

/// How often an agent alone looks whether another node wants to join; assumed: what a job's start on a second node may
/// wait for, and two look-ups in a directory.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// See the module. Nothing where the fast directory keeps no register: then it has one node for good.
#[derive(Default)]
pub(super) struct Cluster(Option<Membership>);

struct Membership {
    service: Service,
    roster: Roster,
    version: Version,
    place: Place,
    last_look: Instant,
    /// A look is under way.
    looks: bool,
}

impl Cluster {
    pub(super) fn new(entered: Option<Entered>) -> Result<Cluster> {
        let Some(entered) = entered else { return Ok(Cluster::default()) };
        let (register, roster, version, place) = entered.into_parts();
        let service = Service::start(register)?;
        let last_look = Instant::now();
        Ok(Cluster(Some(Membership { service, roster, version, place, last_look, looks: false })))
    }

    /// How long until the next look is due; none while one is under way.
    pub(super) fn left(&self) -> Option<Duration> {
        let membership = self.0.as_ref().filter(|membership| !membership.looks)?;
        Some(LOOK_PERIOD.saturating_sub(membership.last_look.elapsed()))
    }
}

impl EventLoop<'_> {
    /// Watches what the cluster tells.
    pub(super) fn watch_cluster(&self) -> Result<()> {
        let failed = |error| Error::system("watch the membership service", std::io::Error::from(error));
        let Some(membership) = &self.cluster.0 else { return Ok(()) };
        self.poller.watch(membership.service.descriptor(), CLUSTER_REGISTER).map_err(failed)
    }

    /// Looks at the register if that is due.
    pub(super) fn look_at_register(&mut self) {
        if self.cluster.left() != Some(Duration::ZERO) {
            return;
        }
        if let Some(membership) = &mut self.cluster.0 {
            membership.service.ask_read();
            (membership.looks, membership.last_look) = (true, Instant::now());
        }
    }

    /// The register has answered.
    pub(super) fn on_register(&mut self) -> Result<()> {
        let Some(membership) = &mut self.cluster.0 else { return Ok(()) };
        for answer in membership.service.collect() {
            match answer {
                Answer::Read(Ok(value)) => {
                    membership.looks = false;
                    if value.version > membership.version
                        && let Some(roster) = roster_in(&value)?
                    {
                        (membership.roster, membership.version) = (roster, value.version);
                        membership.tell();
                    }
                }
                Answer::Read(Err(error)) => {
                    membership.looks = false;
                    tracing::warn!(%error, "the list of this directory's nodes could not be looked at");
                }
                Answer::Swapped(..) => unreachable!("nothing is swapped yet"),
            }
        }
        Ok(())
    }
}

impl Membership {
    /// Says what others changed.
    fn tell(&self) {
        for member in self.roster.knocking() {
            tracing::info!(node = member.name, place = self.place.node, "a node wants to join");
        }
    }
}
