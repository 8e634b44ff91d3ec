//! How an agent joins others, before it serves anybody.
//!
//! ```text
//! joiner:  knocks (swaps itself into the roster, with its addresses) | probes with a member | swaps itself into the view
//! member:  sees that one knocks | listens, and swaps its addresses in | does what the probe asks
//! ```
//!
//! A member looks at the register every second or more often, so that the first knock at an agent alone takes that long;
//! members of several listen already. Who is refused, or gives up, takes its knock back.
//!
//! Where no member is left (`watch`), the joiner swaps in a view with itself alone. From then on it does with the
//! members that are gone what those that are left do with one (`event_loop/cluster/gone.rs`).

use std::time::{Duration, Instant};

use headstart_membership::presence::{Places, observe};
use headstart_membership::probe::{self, Act, Answer, Finding};
use headstart_membership::{Register, Swap, Value};
use headstart_transport::{Batch, Event};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::cluster::door::Door;
use crate::cluster::entry::{self, Changed};
use crate::cluster::letter::{Asked, Letter};
use crate::cluster::links::Links;
use crate::cluster::roster::{Member, Place, Roster, Standing};
use crate::cluster::watch::{Seen, Watch};
use crate::cluster::{terms, views};
use crate::error::{Error, Result};
use crate::site::{ClusterSite, Membership, Site};

/// How often the joiner looks meanwhile; assumed.
const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// How long one act of the probe may take; assumed: a file system that is busy takes a second.
const ACT_PATIENCE: Duration = Duration::from_secs(20);

/// An agent that has joined.
pub(crate) struct Joined {
    pub(crate) changed: Changed,
    pub(crate) place: Place,
    pub(crate) door: Door,
}

/// Joins the members of `found`.
pub(crate) fn join(
    site: &Site,
    cluster: &ClusterSite,
    register: &mut dyn Register,
    found: &Roster,
    fresh: impl Fn(Place) -> Member,
) -> Result<Joined> {
    terms::refuse_others(&terms::of(site, cluster), found)?;
    let mut found = found.clone();
    let (place, mut door, knocking) = loop {
        let place = entry::knocking_place(&found, &fresh(Place::default()).name)?;
        let door = Door::open(site, cluster, &fresh(place))?;
        let knocking = Member { standing: Standing::Knocking, ..door.told(&fresh(place)) };
        match knock(register, &knocking)? {
            None => break (place, door, knocking),
            // Another one that joins has that place by now.
            Some(newer) => {
                door.close()?;
                found = newer;
            }
        }
    };
    match admitted(register, cluster, &mut door, &knocking) {
        Ok(changed) => Ok(Joined { changed, place, door }),
        Err(error) => {
            // It is told the first error.
            let _ = entry::change(register, |roster| {
                Ok(roster.at(place).filter(|member| is_knock(member, &knocking)).map(|_| roster.without(place)))
            });
            let _ = door.close();
            Err(error)
        }
    }
}

/// Whether the record is the knock.
fn is_knock(member: &Member, knocking: &Member) -> bool {
    member.standing == Standing::Knocking && member.name == knocking.name
}

/// Swaps the knock in; the roster in which somebody else has that place, if somebody has.
fn knock(register: &mut dyn Register, knocking: &Member) -> Result<Option<Roster>> {
    let place = knocking.place;
    let changed = entry::change(register, |roster| {
        let is_free = roster.at(place).is_none_or(|member| is_knock(member, knocking));
        Ok(is_free.then(|| roster.without(place).with(knocking.clone())))
    })?;
    let is_in = changed.roster.at(place).is_some_and(|member| is_knock(member, knocking));
    Ok((!is_in).then_some(changed.roster))
}

/// Probes with a member, and swaps the view in that has this one; or goes on where no member is left.
fn admitted(register: &mut dyn Register, cluster: &ClusterSite, door: &mut Door, knocking: &Member) -> Result<Changed> {
    let locks = matches!(cluster.membership, Membership::Locks);
    let mut watch = Watch::new(cluster.timing);
    let mut silence: Vec<Finding> = Vec::new();
    loop {
        let value = register.read()?;
        let roster = roster_now(&value)?;
        let places = door.places().clone();
        let present = |member: &Member| member.locks.as_ref().map(|name| observe(&places, name).present);
        match watch.look(Instant::now(), &roster, knocking.place, present) {
            Seen::Wait => std::thread::sleep(LOOK_PERIOD),
            Seen::Ask(member) => {
                door.links.know(&roster, knocking.place);
                match probed(&mut door.links, &member, &places, locks)? {
                    Probed::Well => return let_in(register, knocking),
                    Probed::Silent(findings) => silence = findings,
                    Probed::Refused(findings) => return Err(not_shareable(&findings)),
                }
                watch.is_silent(member.place);
            }
            Seen::Unheard => renew(register, knocking)?,
            Seen::NobodyLeft => {
                if let Some(changed) = take_over(register, &value, &roster, knocking)? {
                    return Ok(changed);
                }
            }
            Seen::OutOfReach if !silence.is_empty() => return Err(not_shareable(&silence)),
            Seen::OutOfReach => {
                return Err(Error::NoMemberAnswers {
                    slow: roster.terms.slow.clone().into(),
                    nodes: roster.seated().map(|member| member.name.clone()).collect(),
                });
            }
        }
    }
}

fn not_shareable(findings: &[Finding]) -> Error {
    Error::NotShareable { findings: findings.iter().map(Finding::to_string).collect() }
}

/// That its knock is not in the roster any more.
fn taken_away() -> Error {
    Error::Roster { problem: "this node's knock was taken away; start it again".into() }
}

fn let_in(register: &mut dyn Register, knocking: &Member) -> Result<Changed> {
    entry::change(register, |roster| {
        if !roster.at(knocking.place).is_some_and(|member| is_knock(member, knocking)) {
            return Err(taken_away());
        }
        let armed = Member { standing: Standing::Armed, ..knocking.clone() };
        views::joined(roster, armed).map(Some)
    })
}

/// Knocks once more: whether anybody has seen it counts from now on.
fn renew(register: &mut dyn Register, knocking: &Member) -> Result<()> {
    entry::change(register, |roster| match roster.at(knocking.place) {
        Some(member) if is_knock(member, knocking) => Ok(Some(roster.with(knocking.clone()))),
        _ => Err(taken_away()),
    })
    .map(drop)
}

/// Goes on in the place of all members of this roster; nothing if somebody has changed it meanwhile: another node that
/// joins may have come first, and is joined then.
fn take_over(
    register: &mut dyn Register,
    value: &Value,
    roster: &Roster,
    knocking: &Member,
) -> Result<Option<Changed>> {
    if !roster.at(knocking.place).is_some_and(|member| is_knock(member, knocking)) {
        return Err(taken_away());
    }
    let armed = Member { standing: Standing::Armed, ..knocking.clone() };
    let after = views::taken_over(roster, armed)?;
    match register.swap(value.version, &after.to_bytes())? {
        Swap::Lost(_) => Ok(None),
        Swap::Done(done) => {
            let nodes: Vec<&str> = roster.seated().map(|member| member.name.as_str()).collect();
            let nodes = nodes.join(", ");
            tracing::warn!(
                nodes,
                "all nodes that had the directory are gone: this one goes on with what they had synced"
            );
            Ok(Some(Changed { roster: after, version: done.version }))
        }
    }
}

fn roster_now(value: &Value) -> Result<Roster> {
    entry::roster_in(value)?.ok_or(Error::Roster { problem: "it is gone".into() })
}

/// What a probe with a member came to.
enum Probed {
    Well,
    /// The two nodes cannot share the directory.
    Refused(Vec<Finding>),
    /// The member did not answer.
    Silent(Vec<Finding>),
}

fn probed(links: &mut Links, member: &Member, places: &Places, locks: bool) -> Result<Probed> {
    let (mut batch, mut number) = (Batch::new(), 0);
    let mut silent: Option<String> = None;
    let mut ask = |act: Act| {
        // Nobody waits for one again that did not answer.
        if let Some(why) = &silent {
            return Err(why.clone());
        }
        number += 1;
        asked(links, member.place, &mut batch, Asked { number, act }).inspect_err(|why| silent = Some(why.clone()))
    };
    let findings = probe::run(places, &member.name, locks, &mut ask)?;
    Ok(match (findings.is_empty(), silent) {
        (true, _) => Probed::Well,
        (false, None) => Probed::Refused(findings),
        (false, Some(_)) => Probed::Silent(findings),
    })
}

fn asked(links: &mut Links, of: Place, batch: &mut Batch, asked: Asked) -> std::result::Result<Answer, String> {
    let (began, number) = (Instant::now(), asked.number);
    let mut why = "nothing was heard of it".to_string();
    links.send(of, &Letter::Asked(asked.clone()));
    links.flush();
    while began.elapsed() < ACT_PATIENCE {
        let mut descriptors = [PollFd::new(links.descriptor(), PollFlags::POLLIN)];
        let _ = poll(&mut descriptors, PollTimeout::from(200_u16));
        links.turn(batch);
        for (_, message) in batch.messages() {
            match Letter::parse(message) {
                Some(Letter::Answered(answered)) if answered.number == number => return Ok(answered.answer),
                _ => {}
            }
        }
        for event in batch.events() {
            match event {
                Event::Lost(_, text) | Event::Unreachable(_, text) | Event::Refused(text) => {
                    why.clone_from(text);
                    // A letter that waited for a connection is gone with it.
                    links.send(of, &Letter::Asked(asked.clone()));
                }
                Event::Connected(..) => {}
            }
        }
        links.flush();
    }
    Err(why)
}
