//! How an agent comes to its place among the nodes of a directory when it starts, and gives it up when it ends.
//!
//! | roster found | what a starting agent does |
//! |---|---|
//! | none, or all have left | takes the lowest free place, alone |
//! | this node has a seat | goes on in it, as the node's next agent |
//! | others have seats | has to join them |
//!
//! Two that start at once both swap the roster they found: the register lets one through, and the other one looks again.

use std::path::Path;

use headstart_membership::{Register, Swap, Value, Version};

use crate::claim::SlowClaim;
use crate::cluster::register;
use crate::cluster::roster::{Member, Place, Roster, Standing, Terms};
use crate::error::{Error, Result};
use crate::node::{self, Node};
use crate::node_files::NodeFiles;
use crate::owner::hexadecimal;
use crate::process;
use crate::site::{ClusterSite, Membership, Site};
use crate::store::{self, Claim};

/// Version of what agents say to each other.
pub(crate) const VERSION: u32 = 1;
/// How often a start looks again when others change the roster meanwhile; assumed: more than nodes start at once.
const LOOKS_MAX: u32 = 4096;

/// An agent in its place.
pub(crate) struct Entered {
    register: Box<dyn Register>,
    roster: Roster,
    version: Version,
    place: Place,
}

/// This node, as the members call it.
pub(crate) fn this_node(site: &ClusterSite) -> Node {
    site.name.clone().map_or_else(node::this, |name| Node { name, machine_id: None })
}

/// What this site's nodes must agree to.
pub(crate) fn terms(site: &Site, cluster: &ClusterSite) -> Terms {
    Terms {
        version: VERSION,
        slow: site.slow.display().to_string(),
        fast: site.fast.display().to_string(),
        hold_ms: cluster.timing.hold.0 / 1_000_000,
        margin_ms: cluster.timing.margin.0 / 1_000_000,
        locks: matches!(cluster.membership, Membership::Locks),
    }
}

/// The roster in a register; none if there never was one.
pub(crate) fn roster_in(value: &Value) -> Result<Option<Roster>> {
    if value.version == Version::NOTHING || value.bytes.is_empty() {
        return Ok(None);
    }
    Roster::parse(&value.bytes).map(Some).map_err(|problem| Error::Roster { problem })
}

/// This node's agent in its place, with the right to use its files and the managed directory.
pub(crate) struct Taken {
    /// Its place; nothing where the fast directory cannot keep a register, and has one node at a time.
    pub(crate) entered: Option<Entered>,
    /// Where it keeps its files.
    pub(crate) files: NodeFiles,
    /// The right to these.
    pub(crate) flash: Claim,
    /// The right to the managed directory.
    pub(crate) slow: SlowClaim,
}

/// Takes this node's place.
///
/// # Errors
/// Somebody else has it, or the directory: the error says who.
pub(crate) fn take(site: &Site, cluster: &ClusterSite) -> Result<Taken> {
    let mut register = match register::open(site, &cluster.membership) {
        Ok(register) => register,
        Err(error) => return without_register(site, cluster, error),
    };
    let node = this_node(cluster);
    let mut value = register.read()?;
    for _ in 0..LOOKS_MAX {
        let (roster, place) = proposed(roster_in(&value)?, terms(site, cluster), &node)?;
        let files = NodeFiles::of(&site.fast, place.node);
        let claimed = store::claim(&files).and_then(|flash| Ok((flash, SlowClaim::take(&site.slow, &site.fast)?)));
        let now = match claimed {
            Err(error) => {
                let now = register.read()?;
                // Nobody has come first: it is as it is.
                if now.version == value.version {
                    return Err(error);
                }
                now
            }
            Ok((flash, slow)) => match register.swap(value.version, &roster.to_bytes()) {
                Ok(Swap::Done(done)) => {
                    let entered = Some(Entered { register, roster, version: done.version, place });
                    return Ok(Taken { entered, files, flash, slow });
                }
                Ok(Swap::Lost(other)) => {
                    slow.release()?;
                    other
                }
                Err(error) => {
                    slow.release()?;
                    drop(flash);
                    return without_register(site, cluster, error.into());
                }
            },
        };
        value = now;
    }
    Err(Error::Roster { problem: "others change it all the time".into() })
}

/// Goes on alone where the fast directory keeps no register, as a file system without hard links. The claim in the slow
/// directory keeps others out.
fn without_register(site: &Site, cluster: &ClusterSite, error: Error) -> Result<Taken> {
    if !matches!(cluster.membership, Membership::Locks) {
        return Err(error);
    }
    tracing::warn!(%error, "the fast directory cannot list nodes: no second one can join this one");
    let files = NodeFiles::first(&site.fast);
    let flash = store::claim(&files)?;
    let slow = SlowClaim::take(&site.slow, &site.fast)?;
    Ok(Taken { entered: None, files, flash, slow })
}

/// The roster in which this node has its place.
fn proposed(found: Option<Roster>, terms: Terms, node: &Node) -> Result<(Roster, Place)> {
    let boot_id = process::boot_id().map_err(|error| Error::system("read the boot id", error))?;
    let fresh = |place: Place| Member {
        place,
        incarnation: 0,
        standing: Standing::Unarmed,
        name: node.name.clone(),
        machine_id: node.machine_id.clone(),
        boot_id: hexadecimal(&boot_id),
        locks: None,
        addresses: Vec::new(),
    };
    let Some(found) = found else {
        let place = Place { node: 0, life: 0 };
        return Ok((Roster::alone(terms, fresh(place)), place));
    };
    if let Some(own) = found.of(node) {
        let next = own.incarnation.checked_add(1).ok_or(Error::Roster { problem: "it has no number left".into() })?;
        let member = Member { incarnation: next, standing: own.standing, ..fresh(own.place) };
        return Ok((found.with(member), own.place));
    }
    let others: Vec<String> = found.seated().map(|member| member.name.clone()).collect();
    if !others.is_empty() {
        return Err(Error::Seated { slow: terms.slow.into(), nodes: others });
    }
    let place = found.free_place().ok_or(Error::Roster { problem: "it has no place left".into() })?;
    // What they had agreed to and seen ended with the last of them.
    let mut roster = found.with(fresh(place));
    roster.members.retain(|member| member.standing != Standing::Knocking);
    (roster.terms, roster.view) = (terms, Vec::new());
    Ok((roster, place))
}

impl Entered {
    /// Its place.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Its parts.
    pub(crate) fn into_parts(self) -> (Box<dyn Register>, Roster, Version, Place) {
        (self.register, self.roster, self.version, self.place)
    }
}

/// Gives this node's place up: nothing of the directory is on its flash alone. Others may have changed the roster since.
pub(crate) fn leave(site: &Site, cluster: &ClusterSite, place: Place) -> Result<()> {
    let mut register = register::open(site, &cluster.membership)?;
    change(&mut *register, |roster| roster.at(place).is_some().then(|| roster.standing(place, Standing::Left)))
}

/// The user has given up what all nodes of a directory kept.
pub(crate) fn forget_all(fast: &Path) -> Result<()> {
    if !register::is_there(fast) {
        return Ok(());
    }
    change(&mut *register::in_files(fast)?, |roster| {
        let places: Vec<Place> = roster.seated().map(|member| member.place).collect();
        let left = |roster: Roster, place: &Place| roster.standing(*place, Standing::Left);
        (!places.is_empty()).then(|| places.iter().fold(roster.clone(), left))
    })
}

/// Swaps in what `to` makes of the roster that is there, until nobody comes first; nothing if it makes nothing.
fn change(register: &mut dyn Register, to: impl Fn(&Roster) -> Option<Roster>) -> Result<()> {
    let mut value = register.read()?;
    for _ in 0..LOOKS_MAX {
        let Some(roster) = roster_in(&value)?.and_then(|roster| to(&roster)) else { return Ok(()) };
        match register.swap(value.version, &roster.to_bytes())? {
            Swap::Done(_) => return Ok(()),
            Swap::Lost(other) => value = other,
        }
    }
    Err(Error::Roster { problem: "others change it all the time".into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::roster::tests::terms;

    fn node(name: &str) -> Node {
        Node { name: name.into(), machine_id: None }
    }

    #[test]
    fn the_first_takes_a_place_alone_and_its_next_agent_the_same_one() {
        let (first, place) = proposed(None, terms(), &node("a")).unwrap();
        assert_eq!((place, first.view.len()), (Place { node: 0, life: 0 }, 0));
        let (next, again) = proposed(Some(first.clone()), terms(), &node("a")).unwrap();
        assert_eq!((again, next.at(place).unwrap().incarnation), (place, 1));
        let error = proposed(Some(first), terms(), &node("b")).unwrap_err();
        assert!(error.to_string().contains("node a") && error.means_in_use(), "{error}");
    }

    #[test]
    fn who_comes_when_all_have_left_begins_anew_in_a_place_that_nobody_had() {
        let (first, place) = proposed(None, terms(), &node("a")).unwrap();
        let mut left = first.standing(place, Standing::Left);
        left.view = vec![1, 2, 3];
        let other = Terms { hold_ms: 1000, ..terms() };
        let (next, second) = proposed(Some(left), other.clone(), &node("b")).unwrap();
        assert_eq!((second, next.terms.clone(), next.view.len()), (Place { node: 0, life: 1 }, other, 0));
        assert!(Roster::parse(&next.to_bytes()).is_ok());
    }
}
