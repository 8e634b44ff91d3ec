//! What a node that joins sees of those that have the directory: whom it may ask, and whether nobody is left.
//!
//! | members with seats | the node that joins |
//! |---|---|
//! | one answers | joins |
//! | all gave their locks up, a second ago or longer | goes on in their place |
//! | none answers, and none has seen the knock for `hold` and `margin` | the same: no program of theirs relies upon anything any more |
//! | none answers, and one has seen the knock | is refused: it is there, and cannot be reached from here |
//! | one has no deadline, and did not give its lock up | is refused, if it does not answer |
//!
//! A member sees a knock where it looks for its own deadline: at the register. So a network that lies between the nodes
//! alone takes nobody's place away.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use headstart_cluster::Timing;
use headstart_membership::LockState;

use crate::cluster::gone::GIVEN_UP;
use crate::cluster::roster::{Member, Place, Roster};

/// How long a member without a deadline may take to let itself be found; assumed: some of its looks, on a node that is
/// busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Probe with this one.
    Ask(Member),
    /// Look again.
    Wait,
    /// Knock again: who had seen the knock does not answer.
    Unheard,
    /// Nobody can be reached, and not all are known to be gone.
    OutOfReach,
    /// All are gone.
    NobodyLeft,
}

/// See the module.
pub(super) struct Watch {
    /// As long a member is believed to be there of which nothing is seen.
    patience: Duration,
    /// Those that have seats, and since when they are these, and nobody has seen the knock.
    members: Vec<(Place, u32)>,
    since: Option<Instant>,
    /// Since when locks are found given up.
    given_up: BTreeMap<Place, Instant>,
    /// Members that did not answer.
    silent: BTreeSet<Place>,
    /// One that had seen the knock was silent.
    was_in_vain: bool,
}

impl Watch {
    pub(super) fn new(timing: Timing) -> Watch {
        let patience = Duration::from_nanos(timing.hold.0 + timing.margin.0);
        let (given_up, silent) = (BTreeMap::new(), BTreeSet::new());
        Watch { patience, members: Vec::new(), since: None, given_up, silent, was_in_vain: false }
    }

    /// It did not answer.
    pub(super) fn is_silent(&mut self, place: Place) {
        self.silent.insert(place);
    }

    /// A look at the register has shown this roster, with the knock at `own`; `present` looks at the lock of a node.
    pub(super) fn look(
        &mut self,
        now: Instant,
        roster: &Roster,
        own: Place,
        present: impl Fn(&Member) -> Option<LockState>,
    ) -> Seen {
        let members: Vec<&Member> = roster.seated().collect();
        let seats: Vec<(Place, u32)> = members.iter().map(|member| (member.place, member.incarnation)).collect();
        if seats != self.members {
            (self.members, self.since, self.was_in_vain) = (seats, None, false);
            self.silent.clear();
        }
        for member in &members {
            if present(member) == Some(LockState::GivenUp) {
                self.given_up.entry(member.place).or_insert(now);
            } else {
                self.given_up.remove(&member.place);
            }
        }
        let is_gone = |member: &&Member| {
            let since = self.given_up.get(&member.place);
            since.is_some_and(|since| now.saturating_duration_since(*since) >= GIVEN_UP)
        };
        if !members.is_empty() && members.iter().all(is_gone) {
            return Seen::NobodyLeft;
        }
        let may_answer = |member: &&Member| !member.addresses.is_empty() && !self.given_up.contains_key(&member.place);
        let asked = |member: &&Member| self.silent.contains(&member.place);
        if let Some(by) = roster.at(own).and_then(|knock| knock.heard_by) {
            return match members.iter().copied().find(|member| member.place == by).filter(may_answer) {
                Some(member) if !asked(&member) => Seen::Ask(member.clone()),
                Some(_) if self.was_in_vain => Seen::OutOfReach,
                found => {
                    (self.since, self.was_in_vain) = (None, found.is_some());
                    self.silent.clear();
                    Seen::Unheard
                }
            };
        }
        if let Some(member) = members.iter().copied().filter(may_answer).find(|_| self.silent.is_empty()) {
            return Seen::Ask(member.clone());
        }
        let unheard = now.saturating_duration_since(*self.since.get_or_insert(now));
        let may_be_given_up = |member: &&Member| roster.may_be_given_up(member.place) || is_gone(member);
        if members.iter().all(may_be_given_up) && !members.is_empty() {
            return if unheard >= self.patience { Seen::NobodyLeft } else { Seen::Wait };
        }
        if unheard >= PATIENCE { Seen::OutOfReach } else { Seen::Wait }
    }
}

#[cfg(test)]
mod tests {
    use headstart_units::Nanos;

    use super::*;
    use crate::cluster::roster::Standing;
    use crate::cluster::roster::tests::{member, terms};

    const OWN: Place = Place { node: 9, life: 0 };
    const TIMING: Timing = Timing { hold: Nanos(30_000_000_000), margin: Nanos(5_000_000_000) };

    /// Members `a` and `b`, and who knocks.
    fn roster(standings: [Standing; 2], heard_by: Option<u16>) -> Roster {
        let [a, b] = standings;
        let heard_by = heard_by.map(|node| Place { node, life: 0 });
        let knock = Member { heard_by, place: OWN, ..member(9, "new", Standing::Knocking) };
        Roster::alone(terms(), member(0, "a", a)).with(member(1, "b", b)).with(knock)
    }

    fn armed(heard_by: Option<u16>) -> Roster {
        roster([Standing::Armed; 2], heard_by)
    }

    struct At(Instant, Watch);

    impl At {
        fn begin() -> At {
            At(Instant::now(), Watch::new(TIMING))
        }

        /// What is seen so many seconds after the begin, where the nodes of these names hold their locks.
        fn look(&mut self, s: u64, roster: &Roster, holding: &str) -> Seen {
            let present = |member: &Member| {
                Some(if holding.contains(&member.name) { LockState::Held } else { LockState::GivenUp })
            };
            self.1.look(self.0 + Duration::from_secs(s), roster, OWN, present)
        }

        /// Asks whom it may, who does not answer; whom.
        fn in_vain(&mut self, s: u64, roster: &Roster, holding: &str) -> Option<String> {
            let Seen::Ask(member) = self.look(s, roster, holding) else { return None };
            self.1.is_silent(member.place);
            Some(member.name)
        }
    }

    #[test]
    fn nobody_is_left_once_all_locks_have_been_given_up_for_a_while() {
        let mut at = At::begin();
        assert_eq!(at.look(0, &armed(None), ""), Seen::Wait);
        assert!(matches!(at.look(1, &armed(None), "b"), Seen::Ask(b) if b.name == "b"), "it holds its lock again");
        assert_eq!(at.look(2, &armed(None), ""), Seen::Wait, "b's was found given up just now");
        assert_eq!(at.look(3, &armed(None), ""), Seen::NobodyLeft);
        // Their programs have no deadline, but their locks say that they are gone.
        let mut at = At::begin();
        let unarmed = roster([Standing::Unarmed; 2], None);
        assert_eq!([0, 1].map(|s| at.look(s, &unarmed, "")), [Seen::Wait, Seen::NobodyLeft]);
    }

    #[test]
    fn silent_members_are_gone_when_none_has_seen_the_knock_for_hold_and_margin() {
        let mut at = At::begin();
        assert_eq!(at.in_vain(0, &armed(None), "ab").unwrap(), "a");
        assert_eq!([20, 54].map(|s| at.look(s, &armed(None), "ab")), [Seen::Wait, Seen::Wait]);
        assert_eq!(at.look(55, &armed(None), "ab"), Seen::NobodyLeft);
        // A member's next agent is another one, which has not had the time to see it.
        let next = armed(None).with(Member { incarnation: 1, ..member(0, "a", Standing::Armed) });
        assert_eq!(at.in_vain(56, &next, "ab").unwrap(), "a");
        assert_eq!([57, 90, 92].map(|s| at.look(s, &next, "ab")), [Seen::Wait, Seen::Wait, Seen::NobodyLeft]);
    }

    #[test]
    fn who_has_seen_the_knock_is_asked_and_nobody_goes_on_in_its_place_though_it_is_out_of_reach() {
        let mut at = At::begin();
        assert_eq!(at.in_vain(0, &armed(None), "ab").unwrap(), "a");
        assert_eq!(at.in_vain(60, &armed(Some(1)), "ab").unwrap(), "b");
        assert_eq!(at.look(80, &armed(Some(1)), "ab"), Seen::Unheard);
        assert_eq!(at.in_vain(81, &armed(Some(1)), "ab").unwrap(), "b");
        assert_eq!(at.look(101, &armed(Some(1)), "ab"), Seen::OutOfReach);
        // It may have died since.
        let mut at = At::begin();
        assert_eq!(at.look(0, &armed(Some(1)), "a"), Seen::Unheard);
        assert_eq!(at.in_vain(0, &armed(None), "a").unwrap(), "a");
        assert_eq!([1, 35, 36].map(|s| at.look(s, &armed(None), "a")), [Seen::Wait, Seen::Wait, Seen::NobodyLeft]);
    }

    #[test]
    fn nobody_goes_on_in_the_place_of_one_whose_programs_may_go_on_for_ever() {
        let mut at = At::begin();
        let one = roster([Standing::Unarmed, Standing::Armed], None);
        assert_eq!(at.in_vain(0, &one, "ab").unwrap(), "a");
        assert_eq!([1, 10, 11].map(|s| at.look(s, &one, "ab")), [Seen::Wait, Seen::Wait, Seen::OutOfReach]);
        assert_eq!([12, 13].map(|s| at.look(s, &one, "b")), [Seen::OutOfReach, Seen::Wait], "its node is gone");
        // Alone it has no lock, and listens nowhere.
        let alone = Member { addresses: Vec::new(), ..member(0, "a", Standing::Unarmed) };
        let alone = Roster::alone(terms(), alone);
        let mut watch = Watch::new(TIMING);
        let now = Instant::now();
        let [first, last] = [0, 600].map(|s| watch.look(now + Duration::from_secs(s), &alone, OWN, |_| None));
        assert_eq!((first, last), (Seen::Wait, Seen::OutOfReach));
    }
}
