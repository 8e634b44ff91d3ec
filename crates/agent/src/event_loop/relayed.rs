//! Commands for another node's agent, and those of other nodes that are obeyed here: who waits for which answer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use headstart_transport::PeerId;

use crate::cluster::roster::Place;

/// Commands of other nodes are known here as if by connections, numbered from here: no connection comes so far.
pub(super) const FIRST_RELAYED: u64 = 1 << 61;

/// How long a member may be out of reach before whoever waits for it is told; assumed: longer than the three seconds in
/// which all others have seen a member's next agent, and let it in.
const PATIENCE: Duration = Duration::from_secs(5);

/// So many commands are kept of agents that are not known yet; assumed: a thousand nodes that join at once and ask for
/// some things each.
const EARLY_MAX: usize = 1 << 12;

/// A command of an agent whose place this one does not know yet: it has seen an older list of nodes.
pub(super) struct Early {
    pub(super) peer: PeerId,
    pub(super) number: u64,
    pub(super) text: Vec<u8>,
}

/// A command that was passed on.
struct PassedOn {
    /// Who waits.
    connection: u64,
    to: Place,
    command: Vec<u8>,
    /// Since when, and why, it may not have arrived, or its answer does not come.
    lost: Option<(Instant, String)>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Relayed {
    passed_on: BTreeMap<u64, PassedOn>,
    /// Obeyed here: who asked, and under which number.
    obeyed: BTreeMap<u64, (Place, u64)>,
    early: Vec<Early>,
    last: u64,
}

impl Relayed {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A connection waits for that member's answer; its number.
    pub(super) fn pass_on(&mut self, connection: u64, to: Place, command: Vec<u8>) -> u64 {
        let number = self.number();
        self.passed_on.insert(number, PassedOn { connection, to, command, lost: None });
        number
    }

    /// That member has answered: who waits.
    pub(super) fn answered(&mut self, number: u64, by: Place) -> Option<u64> {
        self.passed_on.get(&number).filter(|waiting| waiting.to == by)?;
        self.passed_on.remove(&number).map(|waiting| waiting.connection)
    }

    /// These members are out of reach, or their agents of before have ended: what was passed on to them is said again.
    pub(super) fn lost(&mut self, is_lost: impl Fn(Place) -> bool, why: &str, now: Instant) {
        for waiting in self.passed_on.values_mut().filter(|waiting| is_lost(waiting.to)) {
            waiting.lost.get_or_insert_with(|| (now, why.to_owned()));
        }
    }

    /// Whether anything is to be said again.
    pub(super) fn has_lost(&self) -> bool {
        self.passed_on.values().any(|waiting| waiting.lost.is_some())
    }

    /// What is to be said again, by number.
    pub(super) fn again(&self) -> impl Iterator<Item = (u64, Place, &[u8])> {
        let lost = self.passed_on.iter().filter(|(_, waiting)| waiting.lost.is_some());
        lost.map(|(number, waiting)| (*number, waiting.to, waiting.command.as_slice()))
    }

    /// That member is in reach again, and has what was said.
    pub(super) fn found(&mut self, place: Place) {
        self.passed_on.values_mut().filter(|waiting| waiting.to == place).for_each(|waiting| waiting.lost = None);
    }

    /// Who has waited for too long: the connection, for whom, and why nothing has come.
    pub(super) fn given_up(&mut self, now: Instant) -> Vec<(u64, Place, String)> {
        let is_over = |waiting: &PassedOn| {
            waiting.lost.as_ref().is_some_and(|(since, _)| now.saturating_duration_since(*since) >= PATIENCE)
        };
        let over = self.passed_on.iter().filter(|(_, waiting)| is_over(waiting));
        let over: Vec<u64> = over.map(|(number, _)| *number).collect();
        let told = |number: u64| {
            let PassedOn { connection, to, lost, .. } = self.passed_on.remove(&number)?;
            Some((connection, to, lost?.1))
        };
        over.into_iter().filter_map(told).collect()
    }

    /// Keeps a command until it is known whose it is; false if there are too many of them.
    pub(super) fn keep(&mut self, early: Early) -> bool {
        let has_room = self.early.len() < EARLY_MAX;
        if has_room {
            self.early.push(early);
        }
        has_room
    }

    /// The commands that were kept.
    pub(super) fn take_early(&mut self) -> Vec<Early> {
        std::mem::take(&mut self.early)
    }

    /// A connection between agents is lost: whoever sent something over it says it again.
    pub(super) fn lost_peer(&mut self, peer: PeerId) {
        self.early.retain(|early| early.peer != peer);
    }

    /// A member's command is obeyed here, as if it came over this connection.
    pub(super) fn obey(&mut self, by: Place, number: u64) -> u64 {
        let connection = FIRST_RELAYED + self.number();
        self.obeyed.insert(connection, (by, number));
        connection
    }

    /// Whose command came over this connection, if it is one of those. It is answered once.
    pub(super) fn whose(&mut self, connection: u64) -> Option<(Place, u64)> {
        self.obeyed.remove(&connection)
    }

    /// A connection is gone.
    pub(super) fn forget(&mut self, connection: u64) {
        self.passed_on.retain(|_, waiting| waiting.connection != connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Place = Place { node: 1, life: 0 };
    const B: Place = Place { node: 2, life: 0 };

    #[test]
    fn an_answer_goes_to_who_waits_for_it_once_and_only_if_the_member_asked_gave_it() {
        let mut relayed = Relayed::default();
        let numbers = [(20, A), (21, B), (22, B)].map(|(connection, to)| relayed.pass_on(connection, to, vec![1]));
        assert_eq!(relayed.answered(numbers[0], B), None, "another one was asked");
        assert_eq!((relayed.answered(numbers[0], A), relayed.answered(numbers[0], A)), (Some(20), None));
        relayed.forget(21);
        assert_eq!(relayed.answered(numbers[1], B), None, "nobody waits");
        let (first, second) = (relayed.obey(A, 7), relayed.obey(B, 7));
        assert!(first != second && first >= FIRST_RELAYED);
        assert_eq!(
            (relayed.whose(second), relayed.whose(second), relayed.whose(first)),
            (Some((B, 7)), None, Some((A, 7)))
        );
    }

    #[test]
    fn what_a_member_may_not_have_is_said_again_until_it_has_it_or_patience_ends() {
        let (mut relayed, now) = (Relayed::default(), Instant::now());
        let [to_a, to_b] = [A, B].map(|to| relayed.pass_on(20, to, vec![to.node as u8]));
        assert!(!relayed.has_lost() && relayed.given_up(now + PATIENCE).is_empty(), "an answer may take its time");
        relayed.lost(|to| to == B, "reset", now);
        assert_eq!(relayed.again().collect::<Vec<_>>(), [(to_b, B, &[2][..])]);
        relayed.found(B);
        assert!(!relayed.has_lost());
        relayed.lost(|_| true, "reset", now);
        relayed.lost(|_| true, "refused", now + PATIENCE / 2);
        assert_eq!(relayed.answered(to_a, A), Some(20), "it had arrived");
        assert!(relayed.given_up(now + PATIENCE / 2).is_empty());
        assert_eq!(relayed.given_up(now + PATIENCE), [(20, B, "reset".to_owned())]);
        assert!(!relayed.has_lost());
    }
}
