//! How an agent comes to its place among the nodes of a directory when it starts, and gives it up when it ends.
//!
//! | roster found | what a starting agent does |
//! |---|---|
//! | none, or all have left | takes the lowest free place, alone |
//! | this node has a seat | goes on in it, as the node's next agent |
//! | others have seats | joins them ([`super::joining`]) |
//!
//! Two that start at once both swap the roster they found: the register lets one through, and the other one looks again.

use std::path::Path;
use std::time::{Duration, Instant};

use headstart_membership::{Register, Swap, Value, Version};

use crate::claim::{self, SlowClaim};
use crate::cluster::door::Door;
use crate::cluster::roster::{Member, Place, Roster, Standing, Terms};
use crate::cluster::{joining, register, terms, views};
use crate::error::{Error, Result};
use crate::node::{self, Node};
use crate::node_files::{NODES_MAX, NodeFiles};
use crate::owner::hexadecimal;
use crate::process;
use crate::site::{ClusterSite, Membership, Site};
use crate::store::{self, Claim};

/// How often a start looks again when others change the roster meanwhile; assumed: more than nodes start at once.
const LOOKS_MAX: u32 = 4096;

/// How long one that starts may have claimed the directory without being in the register; assumed: some calls on a busy
/// file system.
const PATIENCE: Duration = Duration::from_secs(3);
/// Pause between two looks meanwhile.
const PAUSE: Duration = Duration::from_millis(50);

/// An agent in its place.
pub(crate) struct Entered {
    pub(crate) register: Box<dyn Register>,
    pub(crate) changed: Changed,
    pub(crate) place: Place,
    /// How many agents the member had before.
    pub(crate) incarnation: u32,
    /// What a member of several has.
    pub(crate) door: Option<Door>,
}

/// A roster that was swapped in.
pub(crate) struct Changed {
    pub(crate) roster: Roster,
    pub(crate) version: Version,
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

/// What a roster means to a node that starts.
enum Proposal {
    /// Its own place, which nobody else has to be asked for.
    Own(Roster, Place),
    /// Its own place among others, of which this is to be the next agent.
    Back(Roster, Member),
    /// Others have the directory.
    Join(Roster),
}

/// This node, as the members call it.
pub(crate) fn this_node(site: &ClusterSite) -> Node {
    site.name.clone().map_or_else(node::this, |name| Node { name, machine_id: None })
}

/// The roster in a register; none if there never was one.
pub(crate) fn roster_in(value: &Value) -> Result<Option<Roster>> {
    if value.version == Version::NOTHING || value.bytes.is_empty() {
        return Ok(None);
    }
    Roster::parse(&value.bytes).map(Some).map_err(|problem| Error::Roster { problem })
}

/// Takes this node's place.
///
/// # Errors
/// Somebody else has it, or the directory cannot be shared with those who have it: the error says who and what to do.
pub(crate) fn take(site: &Site, cluster: &ClusterSite) -> Result<Taken> {
    let mut register = match register::open(site, &cluster.membership) {
        Ok(register) => register,
        Err(error) => return without_register(site, cluster, error),
    };
    let node = this_node(cluster);
    let mut value = register.read()?;
    let began = Instant::now();
    for _ in 0..LOOKS_MAX {
        match proposed(roster_in(&value)?, terms::of(site, cluster), &node)? {
            Proposal::Join(found) => return join(site, cluster, register, &found, &node),
            Proposal::Back(roster, next) => {
                let found = Changed { roster, version: value.version };
                if let Some(taken) = come_back(site, cluster, &mut register, found, next)? {
                    let CameBack { found, next, files, flash, slow, door } = taken;
                    let entered =
                        Entered { register, changed: found, place: next.place, incarnation: next.incarnation, door };
                    return Ok(Taken { entered: Some(entered), files, flash, slow });
                }
                value = register.read()?;
            }
            Proposal::Own(roster, place) => {
                let files = NodeFiles::of(&site.fast, place.node);
                let claimed =
                    store::claim(&files).and_then(|flash| Ok((flash, SlowClaim::take(&site.slow, &site.fast)?)));
                let now = match claimed {
                    Err(error) => {
                        let now = register.read()?;
                        // One that started at the same time may have the claim, and not be in the register yet.
                        if now.version == value.version {
                            if began.elapsed() > PATIENCE || claim::may_share(&site.slow, &site.fast).is_err() {
                                return Err(error);
                            }
                            std::thread::sleep(PAUSE);
                        }
                        now
                    }
                    Ok((flash, slow)) => match register.swap(value.version, &roster.to_bytes()) {
                        Ok(Swap::Done(done)) => {
                            let incarnation = roster.at(place).expect("it is in it").incarnation;
                            let changed = Changed { roster, version: done.version };
                            let entered = Some(Entered { register, changed, place, incarnation, door: None });
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
        }
    }
    Err(Error::Roster { problem: "others change it all the time".into() })
}

/// Joins those who have the directory.
fn join(
    site: &Site,
    cluster: &ClusterSite,
    mut register: Box<dyn Register>,
    found: &Roster,
    node: &Node,
) -> Result<Taken> {
    let boot_id = boot_id()?;
    let fresh = |place| fresh(node, &boot_id, place);
    let joining::Joined { changed, place, door } = joining::join(site, cluster, &mut *register, found, fresh)?;
    let files = NodeFiles::of(&site.fast, place.node);
    let claimed = store::claim(&files).and_then(|flash| {
        // What a member of before left under this number counts no more.
        store::wipe(&files)?;
        Ok((flash, SlowClaim::share(&site.slow, &site.fast)?))
    });
    match claimed {
        Ok((flash, slow)) => {
            let entered = Some(Entered { register, changed, place, incarnation: 0, door: Some(door) });
            Ok(Taken { entered, files, flash, slow })
        }
        Err(error) => {
            change(&mut *register, |roster| views::left(roster, place).map(Some))?;
            let _ = door.close();
            Err(error)
        }
    }
}

/// A node that is back among others.
struct CameBack {
    found: Changed,
    next: Member,
    files: NodeFiles,
    flash: Claim,
    slow: SlowClaim,
    door: Option<Door>,
}

/// Goes on among others as the node's next agent. That it does is swapped in once its threads have nothing any more that
/// the agent before permitted them: the event loop does so. Nothing if it was given up before it had its files: whoever
/// cuts its log has them until that is in the register.
fn come_back(
    site: &Site,
    cluster: &ClusterSite,
    register: &mut Box<dyn Register>,
    found: Changed,
    next: Member,
) -> Result<Option<CameBack>> {
    terms::refuse_others(&terms::of(site, cluster), &found.roster)?;
    let files = NodeFiles::of(&site.fast, next.place.node);
    let flash = store::claim(&files)?;
    let now = roster_in(&register.read()?)?;
    if !now.is_some_and(|roster| roster.at(next.place).is_some_and(Member::is_seated)) {
        return Ok(None);
    }
    let slow = SlowClaim::share(&site.slow, &site.fast)?;
    let door = Some(Door::open(site, cluster, &next)?);
    Ok(Some(CameBack { found, next, files, flash, slow, door }))
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

fn boot_id() -> Result<String> {
    process::boot_id().map(|id| hexadecimal(&id)).map_err(|error| Error::system("read the boot id", error))
}

/// A member that has done nothing yet.
fn fresh(node: &Node, boot_id: &str, place: Place) -> Member {
    Member {
        place,
        incarnation: 0,
        standing: Standing::Unarmed,
        name: node.name.clone(),
        machine_id: node.machine_id.clone(),
        boot_id: boot_id.into(),
        locks: None,
        addresses: Vec::new(),
        cut: None,
        heard_by: None,
    }
}

/// What the roster means to this node.
fn proposed(found: Option<Roster>, terms: Terms, node: &Node) -> Result<Proposal> {
    let boot_id = boot_id()?;
    let Some(found) = found else {
        let place = Place { node: 0, life: 0 };
        return Ok(Proposal::Own(Roster::alone(terms, fresh(node, &boot_id, place)), place));
    };
    if let Some(own) = found.of(node) {
        let (place, standing) = (own.place, own.standing);
        let next = own.incarnation.checked_add(1).ok_or(Error::Roster { problem: "it has no number left".into() })?;
        let member = Member { incarnation: next, standing, ..fresh(node, &boot_id, place) };
        return Ok(match found.view.is_empty() {
            true => Proposal::Own(found.with(member), place),
            false => Proposal::Back(found, member),
        });
    }
    if found.seated().next().is_some() {
        return Ok(Proposal::Join(found));
    }
    let place = found.free_place().ok_or_else(no_place)?;
    // What they had agreed to and seen ended with the last of them.
    let mut roster = found.with(fresh(node, &boot_id, place));
    roster.members.retain(|member| member.standing != Standing::Knocking);
    (roster.terms, roster.view) = (terms, Vec::new());
    Ok(Proposal::Own(roster, place))
}

/// The place of a node that knocks: the one it knocked for before, or a free one.
pub(crate) fn knocking_place(found: &Roster, name: &str) -> Result<Place> {
    let before = found.knocking().find(|member| member.name == name).map(|member| member.place);
    before.or_else(|| found.free_place()).ok_or_else(no_place)
}

fn no_place() -> Error {
    Error::Roster { problem: format!("it has no place left: a directory takes {NODES_MAX} nodes at a time") }
}

/// Gives this node's place up: nothing of the directory is on its flash alone. The roster without it.
pub(crate) fn leave(site: &Site, cluster: &ClusterSite, place: Place) -> Result<Roster> {
    let mut register = register::open(site, &cluster.membership)?;
    let after = change(&mut *register, |roster| match roster.at(place) {
        Some(member) if member.is_seated() => views::left(roster, place).map(Some),
        _ => Ok(None),
    })?;
    Ok(after.roster)
}

/// The user has given up what all nodes of a directory kept.
pub(crate) fn forget_all(fast: &Path) -> Result<()> {
    if !register::is_in_files(fast) {
        return Ok(());
    }
    let mut register = register::in_files(fast)?;
    if roster_in(&register.read()?)?.is_none() {
        return Ok(());
    }
    change(&mut *register, |roster| {
        let places: Vec<Place> = roster.seated().map(|member| member.place).collect();
        let left = |roster: Roster, place: &Place| roster.standing(*place, Standing::Left);
        let nobody = places.iter().fold(roster.clone(), left);
        Ok((!places.is_empty()).then_some(Roster { view: Vec::new(), ..nobody }))
    })
    .map(drop)
}

/// Where this node keeps its files, as the register in the fast directory says; as the first node where it says nothing.
pub(crate) fn files_of_this_node(fast: &Path) -> NodeFiles {
    let number = || {
        let value = register::is_in_files(fast).then(|| register::in_files(fast).ok()?.read().ok()).flatten()?;
        Some(roster_in(&value).ok()??.of(&node::this())?.place.node)
    };
    NodeFiles::of(fast, number().unwrap_or(0))
}

/// Swaps in what `to` makes of the roster that is there, until nobody comes first; what is there then.
pub(crate) fn change(register: &mut dyn Register, to: impl Fn(&Roster) -> Result<Option<Roster>>) -> Result<Changed> {
    let mut value = register.read()?;
    for _ in 0..LOOKS_MAX {
        let found = roster_in(&value)?.ok_or(Error::Roster { problem: "it is gone".into() })?;
        let Some(roster) = to(&found)? else { return Ok(Changed { roster: found, version: value.version }) };
        match register.swap(value.version, &roster.to_bytes())? {
            Swap::Done(done) => return Ok(Changed { roster, version: done.version }),
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

    fn own(found: Option<Roster>, terms: Terms, name: &str) -> (Roster, Place) {
        match proposed(found, terms, &node(name)).unwrap() {
            Proposal::Own(roster, place) => (roster, place),
            _ => panic!("it has a place of its own"),
        }
    }

    #[test]
    fn the_first_takes_a_place_alone_and_its_next_agent_the_same_one() {
        let (first, place) = own(None, terms(), "a");
        assert_eq!((place, first.view.len()), (Place { node: 0, life: 0 }, 0));
        let (next, again) = own(Some(first.clone()), terms(), "a");
        assert_eq!((again, next.at(place).unwrap().incarnation), (place, 1));
        assert!(matches!(proposed(Some(first), terms(), &node("b")).unwrap(), Proposal::Join(_)));
    }

    #[test]
    fn who_comes_when_all_have_left_begins_anew_in_a_place_that_nobody_had() {
        let (first, place) = own(None, terms(), "a");
        let mut left = first.standing(place, Standing::Left);
        left.view = vec![1, 2, 3];
        let other = Terms { hold_ms: 1000, ..terms() };
        let (next, second) = own(Some(left), other.clone(), "b");
        assert_eq!((second, next.terms.clone(), next.view.len()), (Place { node: 0, life: 1 }, other, 0));
        assert!(Roster::parse(&next.to_bytes()).is_ok());
    }

    #[test]
    fn a_node_beyond_the_last_number_is_told_how_many_a_directory_takes() {
        let (mut roster, _) = own(None, terms(), "a");
        for node in 1..NODES_MAX {
            assert_eq!(roster.free_place(), Some(Place { node, life: 0 }));
            let name = format!("node{node}");
            let place = Place { node, life: 0 };
            let member = fresh(&Node { name, machine_id: None }, "boot", place);
            roster.members.push(member);
        }
        let error = knocking_place(&roster, "b").unwrap_err().to_string();
        assert!(error.contains("1024 nodes"), "{error}");
    }

    #[test]
    fn who_knocks_again_has_the_place_that_it_knocked_for() {
        let (first, _) = own(None, terms(), "a");
        let place = knocking_place(&first, "b").unwrap();
        let knocking = Member { standing: Standing::Knocking, ..fresh(&node("b"), "boot", place) };
        let roster = first.with(knocking);
        assert_eq!(knocking_place(&roster, "b").unwrap(), place);
        assert_ne!(knocking_place(&roster, "c").unwrap(), place);
    }
}
