//! What a member has that an agent alone has not: connections, locks, and hands for the probe of a node that joins.

use std::path::Path;
use std::process::Command;

use headstart_membership::presence::fresh_name;
use headstart_membership::probe::Hands;
use headstart_membership::{Holder, Places, Presence};
use headstart_protocol::ENVIRONMENT_SWITCH;

use crate::cluster::links::Links;
use crate::cluster::roster::Member;
use crate::error::{Error, Result};
use crate::site::{ClusterSite, Membership, Site};

/// See the module.
pub(crate) struct Door {
    pub(crate) links: Links,
    pub(crate) hands: Hands,
    places: Places,
    presence: Option<Presence>,
    holder: Option<Holder>,
}

impl Door {
    /// Takes the locks and listens, as this member.
    pub(crate) fn open(site: &Site, cluster: &ClusterSite, own: &Member) -> Result<Door> {
        let places = Places::make(&site.fast, &site.slow)?;
        let presence = match cluster.membership {
            Membership::Locks => Some(Presence::take(&places, &fresh_name(&own.name)?)?),
            Membership::Etcd(_) => None,
        };
        let (links, hands) = (Links::start(site, cluster, own)?, Hands::new(&places)?);
        Ok(Door { links, hands, places, presence, holder: None })
    }

    /// Where the cluster's files are.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// The record of this member, as others are to know it.
    pub(crate) fn told(&self, own: &Member) -> Member {
        let locks = self.presence.as_ref().map(|presence| presence.name().to_owned());
        Member { locks, addresses: self.links.addresses().to_vec(), ..own.clone() }
    }

    /// Has a process of its own keep the node's lock while agents come and go.
    pub(crate) fn hold_presence(&mut self, runtime: &Path) -> Result<()> {
        let Some(presence) = &self.presence else { return Ok(()) };
        let program = std::env::current_exe().map_err(|error| Error::system("find this program's own file", error))?;
        let mut command = Command::new(program);
        command.arg("hold-presence").env_remove("LD_PRELOAD").env(ENVIRONMENT_SWITCH, "off").current_dir("/");
        let holder = Holder::find_or_start(runtime, command)?;
        holder.hold(presence.present())?;
        self.holder = Some(holder);
        Ok(())
    }

    /// The process that keeps the lock: hangs up when it has ended.
    pub(crate) fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// Gives up what it has: this member has left.
    pub(crate) fn close(self) -> Result<()> {
        if let Some(holder) = self.holder {
            holder.end()?;
        }
        self.presence.map_or(Ok(()), Presence::release)?;
        Ok(())
    }
}
