//! Commands for another node's agent, and those of other nodes that are obeyed here: who waits for which answer.

use std::collections::BTreeMap;

use crate::cluster::roster::Place;

/// Commands of other nodes are known here as if by connections, numbered from here: no connection comes so far.
pub(super) const FIRST_RELAYED: u64 = 1 << 61;

/// See the module.
#[derive(Default)]
pub(super) struct Relayed {
    /// Passed on: which connection waits, and whose answer it waits for.
    passed_on: BTreeMap<u64, (u64, Place)>,
    /// Obeyed here: who asked, and under which number.
    obeyed: BTreeMap<u64, (Place, u64)>,
    last: u64,
}

impl Relayed {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A connection waits for that member's answer; its number.
    pub(super) fn pass_on(&mut self, connection: u64, to: Place) -> u64 {
        let number = self.number();
        self.passed_on.insert(number, (connection, to));
        number
    }

    /// That member has answered: who waits.
    pub(super) fn answered(&mut self, number: u64, by: Place) -> Option<u64> {
        let (connection, _) = *self.passed_on.get(&number).filter(|(_, to)| *to == by)?;
        self.passed_on.remove(&number);
        Some(connection)
    }

    /// No answer comes from these members any more: who waits, and for whom.
    pub(super) fn lost(&mut self, is_lost: impl Fn(Place) -> bool) -> Vec<(u64, Place)> {
        self.passed_on.extract_if(.., |_, (_, to)| is_lost(*to)).map(|(_, waiting)| waiting).collect()
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
        self.passed_on.retain(|_, (waiting, _)| *waiting != connection);
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
        let numbers = [(20, A), (21, B), (22, B)].map(|(connection, to)| relayed.pass_on(connection, to));
        assert_eq!(relayed.answered(numbers[0], B), None, "another one was asked");
        assert_eq!((relayed.answered(numbers[0], A), relayed.answered(numbers[0], A)), (Some(20), None));
        relayed.forget(21);
        assert_eq!(relayed.answered(numbers[1], B), None, "nobody waits");
        assert_eq!((relayed.lost(|to| to == A), relayed.lost(|to| to == B)), (vec![], vec![(22, B)]));
        let (first, second) = (relayed.obey(A, 7), relayed.obey(B, 7));
        assert!(first != second && first >= FIRST_RELAYED);
        assert_eq!(
            (relayed.whose(second), relayed.whose(second), relayed.whose(first)),
            (Some((B, 7)), None, Some((A, 7)))
        );
    }
}
