//! The agent as one of several nodes: looks at the register, letters, and what follows from them.
//!
//! | it sees | it does |
//! |---|---|
//! | a node that knocks | opens its door, and swaps in where it listens and that the knock was seen |
//! | a view, for the first time | the overlay joins, threads get a deadline; then it swaps in that it is armed |
//! | a newer roster | knows whom it names; the overlay takes the view |
//! | the same one | the overlay takes the look: it renews the deadline |
//! | itself left out | its threads fail, and it ends |
//! | a member that is silent | `gone.rs` |
//!
//! Calls on the register are [`Service`]'s. What a probe asks is done here, and so are the calls that open the door: some
//! milliseconds when a node joins.
//!
//! | subject | file |
//! |---|---|
//! | what it is, joining, what is due by time, how it stands | this one |
//! | looks at the register, rosters, views, this member's own record | `cluster/looks.rs` |
//! | letters, connections, what is said again | `cluster/letters.rs` |
//! | the door to others, the lock's holder | `cluster/entrance.rs` |
//! | members that are silent or gone | `cluster/gone.rs` |

mod entrance;
mod gone;
mod letters;
mod looks;

use std::time::{Duration, Instant};

use headstart_cluster::{Seat, View};
use headstart_membership::{Service, Version, now_ns};
use headstart_overlay::Policy;
use headstart_transport::PeerId;
use headstart_units::Nanos;

use crate::cluster::door::Door;
use crate::cluster::entry::Entered;
use crate::cluster::letter::Letter;
use crate::cluster::report::no_such_node;
use crate::cluster::roster::{Member, Place, Roster, Standing};
use crate::cluster::views;
use crate::error::{Error, Result};
use crate::site::ClusterSite;
use crate::status::ClusterStatus;

use super::notes::Telling;
use super::{CLUSTER_REGISTER, EventLoop};

use gone::Gone;

/// How often an agent alone looks whether another node wants to join; assumed: what a job's start on a second node may
/// wait for, and two look-ups in a directory.
const LOOK_PERIOD_ALONE: Duration = Duration::from_secs(1);
/// How often a member looks while copies wait for what a barrier made durable; assumed: as often as barriers are taken for
/// others' sake.
const LOOK_PERIOD_AWAITED: Duration = Duration::from_millis(100);
/// A member looks so often in the time that a look holds; assumed: some may fail before programs wait.
const LOOKS_PER_HOLD: u64 = 10;
/// How often what was not answered is said again; assumed: some round trips on a busy network.
const AGAIN_PERIOD: Duration = Duration::from_millis(100);
/// How often trouble with the membership service is told.
const TELL_PERIOD: Duration = Duration::from_secs(60);

/// See the module. Nothing where the fast directory keeps no register: then it has one node for good.
#[derive(Default)]
pub(super) struct Cluster(Option<Membership>);

struct Membership {
    site: ClusterSite,
    service: Service,
    roster: Roster,
    version: Version,
    place: Place,
    incarnation: u32,
    door: Option<Door>,
    part: Part,
    /// Notes between this agent and others, once there are any.
    telling: Option<Telling>,
    last_look: Instant,
    /// A look is under way.
    looks: bool,
    /// A swap is under way.
    swaps: bool,
    /// When what waits was last said again; none while nothing waits.
    said: Option<Instant>,
    /// When it was last told that the register fails.
    trouble: Option<Instant>,
    gone: Gone,
}

/// How far the overlay is one among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// It is not.
    Alone,
    /// It has joined, and has not seen a view that has it.
    Joined,
    /// Its threads have a deadline.
    Armed,
}

impl Membership {
    /// `is_awaited`: what a barrier made durable counts with the next look.
    fn look_period(&self, is_awaited: bool) -> Duration {
        match self.part > Part::Alone {
            true if is_awaited => LOOK_PERIOD_AWAITED,
            true => Duration::from_nanos(self.site.timing.hold.0 / LOOKS_PER_HOLD).min(LOOK_PERIOD_ALONE * 3),
            false => LOOK_PERIOD_ALONE,
        }
    }

    /// What the roster is to be, if it is not.
    fn wanted(&self) -> Option<Roster> {
        let own = self.roster.at(self.place).filter(|own| own.is_seated())?;
        let mut wanted = self.door.as_ref()?.told(own);
        if own.incarnation < self.incarnation {
            wanted.incarnation = self.incarnation;
            // A view in which it cannot be restarted is one in which nobody is what the roster says.
            return views::restarted(&self.roster, wanted).ok();
        }
        if self.part == Part::Armed {
            wanted.standing = Standing::Armed;
        }
        let is_unheard = |knock: &&Member| knock.heard_by.is_none();
        if wanted == *own && !self.roster.knocking().any(|knock| is_unheard(&knock)) {
            return None;
        }
        let mut after = self.roster.with(wanted);
        // A node that knocks asks by that whether any member is there at all, where its letters are not answered.
        let knocks: Vec<Member> = after.knocking().filter(is_unheard).cloned().collect();
        for knock in knocks {
            after = after.with(Member { heard_by: Some(self.place), ..knock });
        }
        Some(after)
    }

    fn seat(&self) -> Seat {
        Seat { member: views::id(self.place), incarnation: self.incarnation }
    }
}

impl Cluster {
    pub(super) fn new(site: ClusterSite, entered: Option<Entered>) -> Result<Cluster> {
        let Some(Entered { register, changed, place, incarnation, door }) = entered else {
            return Ok(Cluster::default());
        };
        Ok(Cluster(Some(Membership {
            site,
            service: Service::start(register)?,
            roster: changed.roster,
            version: changed.version,
            place,
            incarnation,
            door,
            part: Part::Alone,
            telling: None,
            last_look: Instant::now(),
            looks: false,
            swaps: false,
            said: None,
            trouble: None,
            gone: Gone::default(),
        })))
    }

    /// What a member has to give up when it has left.
    pub(super) fn into_door(self) -> Option<Door> {
        self.0?.door
    }

    /// How long until something is due of which no message tells.
    pub(super) fn left(&self, awaits_look: bool) -> Option<Duration> {
        let membership = self.0.as_ref()?;
        let period = membership.look_period(awaits_look);
        let look = (!membership.looks).then(|| period.saturating_sub(membership.last_look.elapsed()));
        let again = membership.said.map(|said| AGAIN_PERIOD.saturating_sub(said.elapsed()));
        let telling = membership.telling.as_ref().and_then(Telling::left);
        look.into_iter().chain(again).chain(telling).chain(membership.gone.left()).min()
    }

    /// Notes between this agent and others, if there are any.
    pub(super) fn telling(&self) -> Option<&Telling> {
        self.0.as_ref()?.telling.as_ref()
    }

    /// The same, to be changed.
    pub(super) fn telling_mut(&mut self) -> Option<&mut Telling> {
        self.0.as_mut()?.telling.as_mut()
    }

    fn door(&self) -> Option<&Door> {
        self.0.as_ref()?.door.as_ref()
    }

    /// Where the node of that name is among the others; nothing if it is this one.
    pub(super) fn place_of(&self, name: &str) -> std::result::Result<Option<Place>, String> {
        let Some(membership) = &self.0 else { return Err("this directory can have one node alone".into()) };
        match membership.roster.seated().find(|member| member.name == name) {
            Some(member) => Ok(Some(member.place).filter(|place| *place != membership.place)),
            None => Err(no_such_node(&membership.roster, name)),
        }
    }

    /// What people call the node at that place.
    pub(super) fn name_of(&self, place: Place) -> String {
        let member = self.0.as_ref().and_then(|membership| membership.roster.at(place));
        member.map_or_else(|| format!("number {}", place.node), |member| member.name.clone())
    }

    /// Sends a letter; false if it is known to be lost.
    pub(super) fn write_to(&mut self, place: Place, letter: &Letter<'_>) -> bool {
        let door = self.0.as_mut().and_then(|membership| membership.door.as_mut());
        door.is_some_and(|door| door.links.send(place, letter))
    }

    /// Answers whoever it was that wrote.
    pub(super) fn answer(&mut self, peer: PeerId, letter: &Letter<'_>) {
        if let Some(door) = self.0.as_mut().and_then(|membership| membership.door.as_mut()) {
            door.links.answer(peer, letter);
        }
    }

    /// Where the agent behind a connection is among the others, if that is known.
    pub(super) fn place_behind(&self, peer: PeerId) -> Option<Place> {
        self.door()?.links.place(peer)
    }

    /// Something is to be said again.
    pub(super) fn say_again_soon(&mut self) {
        if let Some(membership) = &mut self.0 {
            membership.said.get_or_insert_with(Instant::now);
        }
    }

    pub(super) fn look(&mut self) {
        if let Some(membership) = &mut self.0 {
            membership.service.ask_read();
            (membership.looks, membership.last_look) = (true, Instant::now());
        }
    }
}

impl EventLoop<'_> {
    /// Begins as the member that it entered as.
    pub(super) fn begin_in_cluster(&mut self) -> Result<()> {
        let failed = |error| Error::system("watch the membership service", std::io::Error::from(error));
        let is_alone = self.cluster.0.as_ref().is_none_or(|membership| membership.roster.view.is_empty());
        if is_alone {
            // An agent of before may have had others beside it.
            self.shared().header.deadline.lift();
        }
        let Some(membership) = &self.cluster.0 else { return Ok(()) };
        self.poller.watch(membership.service.descriptor(), CLUSTER_REGISTER).map_err(failed)?;
        if is_alone {
            return Ok(());
        }
        // It has nothing to itself: what an agent before permitted its threads is over before the view says that there
        // is another one, or a new member.
        self.join(false);
        self.watch_door()?;
        self.know_members();
        self.cluster.look();
        self.keep_own_record();
        Ok(())
    }

    /// The overlay is one among others from now on; `alone`: up to now it had the directory to itself.
    fn join(&mut self, alone: bool) {
        let Some(membership) = &mut self.cluster.0 else { return };
        let seat = membership.seat();
        tracing::info!(node = seat.member.node, life = seat.member.life, alone, "this node is one of several");
        let (timing, policy) = (membership.site.timing, Policy::Leaves);
        self.tiers.overlay.join(self.tiers.shared.view(), seat, timing, alone, policy);
        membership.part = Part::Joined;
        membership.telling = Some(Telling::new(seat));
        self.begin_beside_others(seat.incarnation, alone);
        self.name_missing_files();
    }

    /// What is due by time.
    pub(super) fn tend_cluster(&mut self) -> Result<()> {
        let Some(membership) = &mut self.cluster.0 else { return Ok(()) };
        let period = membership.look_period(self.tiers.overlay.awaits_look());
        let look_is_due = !membership.looks && membership.last_look.elapsed() >= period;
        let again_is_due = membership.said.is_some_and(|said| said.elapsed() >= AGAIN_PERIOD);
        if look_is_due {
            self.cluster.look();
        }
        if again_is_due {
            self.say_again()?;
        }
        self.ask_for_missing_files();
        self.tend_capacity();
        self.say_notes();
        if let Some(door) = self.cluster.0.as_mut().and_then(|membership| membership.door.as_mut()) {
            door.links.flush();
        }
        self.tend_gone()
    }

    /// Threads may rely upon what they hold until then.
    pub(super) fn set_deadline(&mut self, until: Nanos) {
        let Some(membership) = &mut self.cluster.0 else { return };
        self.tiers.shared.view().header.deadline.set(until.0);
        membership.part = Part::Armed;
    }

    /// How this node stands among the others; nothing while it is alone.
    pub(super) fn cluster_status(&self) -> Option<ClusterStatus> {
        let membership = self.cluster.0.as_ref().filter(|membership| membership.part > Part::Alone)?;
        let now_ns = now_ns();
        let name_of = |place| membership.roster.at(place).map(|member| member.name.clone());
        let waits_for = self.tiers.overlay.waits_for_members();
        let until_ns = self.shared().header.deadline.until_ns();
        Some(ClusterStatus {
            name: name_of(membership.place).unwrap_or_default(),
            number: membership.place.node,
            members: membership.roster.seated().count() as u64,
            view: self.tiers.overlay.view().map_or(0, View::number),
            deadline_ms: until_ns.map(|until_ns| until_ns.saturating_sub(now_ns) / 1_000_000),
            asked_for_ms: membership
                .service
                .waiting_since_ns()
                .map(|since_ns| now_ns.saturating_sub(since_ns) / 1_000_000),
            waits_for: waits_for.into_iter().filter_map(|member| name_of(views::place(member))).collect(),
            files_shared: self.tiers.overlay.files_shared() as u64,
            files_missing: self.missing_files(),
            files_alone: self.tiers.overlay.files_alone() as u64,
            traffic: membership.door.as_ref().map(|door| door.links.traffic()).unwrap_or_default(),
        })
    }

    /// This node was given up: what its threads did since does not count, and nothing more is written back.
    pub(super) fn expelled(&mut self) -> Result<()> {
        self.shared().header.deadline.expel();
        Err(Error::Expelled { slow: self.site.slow().to_path_buf() })
    }
}
