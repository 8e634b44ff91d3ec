//! What the register says of a directory's nodes, for people, and what it takes to give one up. No agent is needed.

use std::net::SocketAddr;
use std::path::Path;

use headstart_membership::Presence;
use headstart_membership::presence::{self, LockState, Places, observe};
use serde::Serialize;

use crate::cluster::gone::CLAIM_PATIENCE;
use crate::cluster::roster::{Member, Roster, Standing};
use crate::cluster::{entry, gone, register, views};
use crate::dirty_list;
use crate::error::{Error, Result};
use crate::node;
use crate::node_files::NodeFiles;
use crate::site::{ClusterSite, Membership, Site};
use crate::store;

/// All nodes that have a place.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Nodes {
    /// By number.
    pub members: Vec<NodeReport>,
}

/// One of them.
#[derive(Clone, Debug, Serialize)]
pub struct NodeReport {
    /// What it is called.
    pub name: String,
    /// Its number.
    pub number: u16,
    /// Whether it is the node of who asks.
    pub is_this: bool,
    /// `alone`, `member`, `gone`, `joining`.
    pub is: &'static str,
    /// Where its agent listens.
    pub addresses: Vec<SocketAddr>,
    /// Bytes that it listed as on its flash alone; none if its list cannot be read.
    pub dirty_bytes: Option<u64>,
}

impl NodeReport {
    /// Whether it is another node, which has something of the directory.
    pub fn is_other(&self) -> bool {
        !self.is_this && self.is != "joining"
    }

    /// Whether its agent may answer.
    pub fn may_answer(&self) -> bool {
        self.is != "gone"
    }
}

/// What only a node's flash has, as it listed it last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lost {
    /// Bytes.
    pub dirty_bytes: u64,
    /// Of so many files, those open for writing included.
    pub files: u64,
}

fn cluster(site: &Site) -> Result<ClusterSite> {
    site.cluster().map_err(Error::Refused)
}

fn roster(site: &Site, cluster: &ClusterSite) -> Result<Option<Roster>> {
    if matches!(cluster.membership, Membership::Locks) && !register::is_in_files(&site.fast) {
        return Ok(None);
    }
    entry::roster_in(&register::open(site, &cluster.membership)?.read()?)
}

/// Whether its node is known to be gone: its lock was given up.
fn present(site: &Site, member: &Member) -> Option<LockState> {
    let locks = member.locks.as_ref()?;
    Some(observe(&Places::make(&site.fast, &site.slow).ok()?, locks).present)
}

fn lost(site: &Site, member: &Member) -> Result<Lost> {
    let files = NodeFiles::of(&site.fast, member.place.node);
    let listed = dirty_list::read_at(&site.slow.join(files.list()))?.unwrap_or_default();
    Ok(Lost { dirty_bytes: listed.heading.dirty_bytes, files: listed.heading.files })
}

/// A node that has a seat.
#[derive(Clone, Debug)]
pub(crate) struct Seated {
    pub(crate) name: String,
    pub(crate) number: u16,
    pub(crate) is_this: bool,
    /// `member`, `gone`, or `unknown` where no lock says so.
    pub(crate) is: &'static str,
}

impl Default for Seated {
    fn default() -> Seated {
        Seated { name: String::new(), number: 0, is_this: false, is: "unknown" }
    }
}

/// All that have a seat, as the site's register says; without a site that in the fast directory.
pub(crate) fn seated(fast: Option<&Path>, site: Option<&Site>) -> Result<Vec<Seated>> {
    let settings = site.map(cluster).transpose()?;
    let found = match (site, &settings, fast) {
        (Some(site), Some(settings), _) => roster(site, settings)?,
        (_, _, Some(fast)) if register::is_in_files(fast) => entry::roster_in(&register::in_files(fast)?.read()?)?,
        _ => None,
    };
    let Some(roster) = found else { return Ok(Vec::new()) };
    let this = settings.as_ref().map_or_else(node::this, entry::this_node);
    let is = |member: &Member| match (site, member.locks.as_ref()) {
        (Some(site), Some(_)) => match present(site, member) {
            Some(LockState::GivenUp) => "gone",
            Some(LockState::Held) => "member",
            _ => "unknown",
        },
        _ => "unknown",
    };
    let seat = |member: &Member| Seated {
        name: member.name.clone(),
        number: member.place.node,
        is_this: member.is_of(&this),
        is: is(member),
    };
    Ok(roster.seated().map(seat).collect())
}

/// All nodes that have a place in the site's directory.
pub fn nodes(site: &Site) -> Result<Nodes> {
    let cluster = cluster(site)?;
    let Some(roster) = roster(site, &cluster)? else { return Ok(Nodes::default()) };
    let this = entry::this_node(&cluster);
    let known = roster.members.iter().filter(|member| member.standing != Standing::Left);
    let report = |member: &Member| NodeReport {
        name: member.name.clone(),
        number: member.place.node,
        is_this: member.is_of(&this),
        is: match (member.standing, present(site, member)) {
            (Standing::Knocking, _) => "joining",
            (Standing::Expelled, _) | (_, Some(LockState::GivenUp)) => "gone",
            (Standing::Unarmed, _) if roster.view.is_empty() => "alone",
            _ => "member",
        },
        addresses: member.addresses.clone(),
        dirty_bytes: lost(site, member).ok().map(|lost| lost.dirty_bytes),
    };
    Ok(Nodes { members: known.map(report).collect() })
}

/// That no node is called so.
pub(crate) fn no_such_node(roster: &Roster, name: &str) -> String {
    let names: Vec<&str> = roster.seated().map(|member| member.name.as_str()).collect();
    format!("no node {name} has this directory; those that have are {}", names.join(", "))
}

/// The member of that name that may be given up.
fn given_up(site: &Site, roster: &Roster, name: &str) -> Result<Member> {
    // One that the others have given up may be there again, under another number.
    let given_up = roster.members.iter().find(|member| member.standing == Standing::Expelled && member.name == name);
    if let Some(member) = given_up {
        return match present(site, member) {
            Some(LockState::Held) => refuse_living(roster, member, Some(&LockState::Held)).map(|()| member.clone()),
            _ => Ok(member.clone()),
        };
    }
    let Some(member) = roster.seated().find(|member| member.name == name) else {
        return Err(Error::Refused(no_such_node(roster, name)));
    };
    if roster.seated().count() == 1 {
        let slow = site.slow.display();
        return Err(Error::Refused(format!(
            "{name} alone has {slow}: 'headstart disown {slow}' gives up what it kept"
        )));
    }
    refuse_living(roster, member, present(site, member).as_ref())?;
    Ok(member.clone())
}

/// Refuses to give up a node that is there, as its lock says, or that may be and has programs without a deadline.
fn refuse_living(roster: &Roster, member: &Member, present: Option<&LockState>) -> Result<()> {
    let name = &member.name;
    match present {
        Some(LockState::GivenUp) => Ok(()),
        Some(LockState::Held) => Err(Error::Refused(format!(
            "node {name} is there: it holds its lock. 'headstart stop' on it lets it leave in order; if it hangs, end it \
             first"
        ))),
        Some(LockState::Unknown(why)) if !roster.may_be_given_up(member.place) => Err(Error::Refused(format!(
            "whether node {name} is there is not known ({why}), and its programs have no deadline: they would go on \
             beside others. Start its agent with 'headstart run -- true', or shut the node down, and try again"
        ))),
        // Where no locks are kept, and of one whose programs wait past their deadline, the user says so.
        Some(LockState::Unknown(_)) | None => Ok(()),
    }
}

/// What is lost with the node.
pub fn what_is_lost(site: &Site, name: &str) -> Result<Lost> {
    match roster(site, &cluster(site)?)? {
        Some(roster) => lost(site, &given_up(site, &roster, name)?),
        None => Err(Error::Refused(format!("no node has {}", site.slow.display()))),
    }
}

/// Gives the node up, with all that only its flash has.
pub fn forget(site: &Site, name: &str) -> Result<()> {
    let mut register = register::open(site, &cluster(site)?.membership)?;
    let left = std::cell::RefCell::new(None);
    entry::change(&mut *register, |roster| {
        let member = given_up(site, roster, name)?;
        let after = match member.standing {
            Standing::Expelled => views::forgotten(roster, member.place)?,
            _ => views::left(roster, member.place)?,
        };
        left.replace(Some(member));
        Ok(Some(after))
    })?;
    let Some(member) = left.into_inner() else { return Ok(()) };
    gone::remove(&site.fast, &site.slow, member.place)?;
    if let Some(locks) = &member.locks {
        presence::forget(&Places::make(&site.fast, &site.slow)?, locks)?;
    }
    Ok(())
}

/// The member that the user may say to be down: alone, so that it has no lock that would say so.
fn alone(site: &Site, roster: &Roster, name: &str) -> Result<Member> {
    let Some(member) = roster.seated().find(|member| member.name == name) else {
        return Err(Error::Refused(no_such_node(roster, name)));
    };
    if roster.seated().count() > 1 || member.standing != Standing::Unarmed {
        return Err(Error::Refused(format!(
            "node {name} is one of several: whoever comes next finds by itself that it is down"
        )));
    }
    refuse_living(roster, member, present(site, member).filter(|present| *present != LockState::GivenUp).as_ref())?;
    Ok(member.clone())
}

/// The user says that a node is down which has the directory to itself, with all programs that ran there. From then on
/// its record names a lock that was given up, so that the next node goes on with what it had synced.
pub fn down(site: &Site, name: &str) -> Result<()> {
    let mut register = register::open(site, &cluster(site)?.membership)?;
    let places = Places::make(&site.fast, &site.slow)?;
    let locks = presence::fresh_name(name)?;
    // Given up at once: its files stay.
    drop(Presence::take(&places, &locks)?);
    let after = entry::change(&mut *register, |roster| {
        let member = alone(site, roster, name)?;
        // An agent has this lock, where locks are seen between nodes.
        let _claim = store::claim_within(&NodeFiles::of(&site.fast, member.place.node), CLAIM_PATIENCE)?;
        Ok(Some(roster.with(Member { locks: Some(locks.clone()), ..member })))
    });
    if after.is_err() {
        presence::forget(&places, &locks)?;
    }
    after.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::roster::tests::{member, terms};

    #[test]
    fn a_member_without_a_deadline_is_given_up_only_when_its_lock_says_that_it_is_gone() {
        let unknown = LockState::Unknown("nobody can say".into());
        for (standing, present, refused) in [
            (Standing::Armed, LockState::Held, Some("holds its lock")),
            (Standing::Unarmed, LockState::Held, Some("holds its lock")),
            (Standing::Armed, LockState::GivenUp, None),
            (Standing::Unarmed, LockState::GivenUp, None),
            (Standing::Armed, unknown.clone(), None),
            (Standing::Unarmed, unknown, Some("no deadline")),
        ] {
            let roster = Roster::alone(terms(), member(0, "a", standing));
            assert_eq!(roster.may_be_given_up(roster.members[0].place), standing == Standing::Armed);
            match (refuse_living(&roster, &roster.members[0], Some(&present)), refused) {
                (Ok(()), None) => {}
                (Err(error), Some(words)) => assert!(error.to_string().contains(words), "{error}"),
                (other, _) => panic!("{standing:?}, {present:?}: {other:?}"),
            }
        }
    }
}
