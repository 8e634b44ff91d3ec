//! The door to other nodes, the process that keeps this node's lock, and whom the roster names.

use crate::cluster::door::Door;
use crate::error::{Error, Result};
use crate::event_loop::{CLUSTER_HOLDER, CLUSTER_LINKS, EventLoop};

impl EventLoop<'_> {
    /// Opens the door to a node that knocks. Where that fails, that one is told by nobody, and gives up.
    pub(super) fn open_door(&mut self) -> Result<()> {
        let Some(membership) = &mut self.cluster.0 else { return Ok(()) };
        let own = membership.roster.at(membership.place).expect("it has a seat");
        match Door::open(self.site.site(), &membership.site, own) {
            Ok(door) => {
                membership.door = Some(door);
                self.watch_door()
            }
            Err(error) => {
                tracing::error!(%error, "another node wants to join, and cannot");
                Ok(())
            }
        }
    }

    pub(super) fn watch_door(&mut self) -> Result<()> {
        let failed = |error| Error::system("watch the other nodes", std::io::Error::from(error));
        let Some(door) = self.cluster.0.as_mut().and_then(|membership| membership.door.as_mut()) else {
            return Ok(());
        };
        self.poller.watch(door.links.descriptor(), CLUSTER_LINKS).map_err(failed)?;
        if let Err(error) = door.hold_presence(self.tiers.shared.runtime()) {
            tracing::warn!(%error, "this node is taken for gone while its agent is started anew");
        }
        if let Some(holder) = door.holder() {
            self.poller.watch_end(holder.descriptor(), CLUSTER_HOLDER).map_err(failed)?;
        }
        Ok(())
    }

    /// The process that keeps this node's lock has ended: another one does from now on.
    pub(in crate::event_loop) fn holder_ended(&mut self) {
        let Some(door) = self.cluster.0.as_mut().and_then(|membership| membership.door.as_mut()) else { return };
        if let Some(holder) = door.holder() {
            self.poller.leave(holder.descriptor());
        }
        let held = door.hold_presence(self.tiers.shared.runtime());
        let watched = door.holder().map_or(Ok(()), |holder| self.poller.watch_end(holder.descriptor(), CLUSTER_HOLDER));
        if let Err(error) = held.map_err(|error| error.to_string()).and(watched.map_err(|errno| errno.to_string())) {
            tracing::warn!(error, "this node is taken for gone while its agent is started anew");
        }
    }

    pub(super) fn know_members(&mut self) {
        let Some(membership) = &mut self.cluster.0 else { return };
        if let Some(door) = &mut membership.door {
            let gone = door.links.know(&membership.roster, membership.place);
            self.lost_member(|to| gone.contains(&to), "its agent of before has ended");
            self.obey_known();
        }
    }
}
