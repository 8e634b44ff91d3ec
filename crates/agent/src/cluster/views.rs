//! Views in a roster: what each change of the roster's makes of the view beside it.
//!
//! There is none before a second member joined. Who leaves has nothing on flash that the disks have not, so that its
//! log is cut before its first record, and no copy of it is under way. The same is done to a member that the user gives
//! up.

use headstart_cluster::{View, wire};

use crate::cluster::roster::{Member, Place, Roster};
use crate::cluster::seats::{self, seat};
pub(crate) use crate::cluster::seats::{id, place};
use crate::error::{Error, Result};

/// Homes that the files of a site are shared out to, as the protocol has it.
const SLOTS: usize = 4096;

/// The roster's view, or what is wrong with it; none before a second member joined.
pub(crate) fn of(roster: &Roster) -> std::result::Result<Option<View>, String> {
    seats::decoded(&roster.view, roster.seated())
}

fn put(roster: Roster, view: Option<View>) -> Result<Roster> {
    let view = view.ok_or(Error::Roster { problem: "it does not have the members that it should".into() })?;
    let mut changed = Roster { view: Vec::new(), ..roster };
    wire::encode_view(&view, &mut changed.view);
    Ok(changed)
}

fn known(roster: &Roster) -> Result<Option<View>> {
    of(roster).map_err(|problem| Error::Roster { problem })
}

/// With this member, which knocked, among those with seats.
pub(crate) fn joined(roster: &Roster, member: Member) -> Result<Roster> {
    let first = || View::first(roster.seated().map(seat).collect(), SLOTS);
    let view = known(roster)?.unwrap_or_else(first).joined(id(member.place));
    put(roster.with(member), view)
}

/// With the next agent of a member that has a seat.
pub(crate) fn restarted(roster: &Roster, member: Member) -> Result<Roster> {
    match known(roster)? {
        None => Ok(roster.with(member)),
        Some(view) => {
            let view = view.restarted(id(member.place));
            put(roster.with(member), view)
        }
    }
}

/// Without a member of which nothing is left, or nothing counts; of the last one no view is left either.
pub(crate) fn left(roster: &Roster, gone: Place) -> Result<Roster> {
    let after = roster.standing(gone, crate::cluster::roster::Standing::Left);
    let Some(view) = known(roster)?.filter(|view| view.seat(id(gone)).is_some()) else { return Ok(after) };
    if after.seated().next().is_none() {
        return Ok(Roster { view: Vec::new(), ..after });
    }
    let over = |view: View| view.without(id(gone))?.with_cut(id(gone), 0)?.quieted(id(gone));
    put(after, over(view))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::roster::Standing;
    use crate::cluster::roster::tests::{member, terms};

    fn two() -> Roster {
        let alone = Roster::alone(terms(), member(0, "a", Standing::Unarmed));
        joined(&alone.with(member(1, "b", Standing::Knocking)), member(1, "b", Standing::Armed)).unwrap()
    }

    fn again(roster: &Roster) -> Roster {
        Roster::parse(&roster.to_bytes()).unwrap()
    }

    #[test]
    fn a_view_begins_with_the_second_member_and_follows_each_change() {
        let first = two();
        let view = of(&again(&first)).unwrap().unwrap();
        assert_eq!(view.seats().len(), 2);
        let b = Member { incarnation: 1, ..member(1, "b", Standing::Armed) };
        let next = restarted(&first, b.clone()).unwrap();
        let newer = of(&again(&next)).unwrap().unwrap();
        assert!(newer.number() > view.number() && newer.seat(id(b.place)).unwrap().incarnation == 1);
        let one = left(&next, b.place).unwrap();
        let alone = of(&again(&one)).unwrap().unwrap();
        assert_eq!((alone.seats().len(), alone.may_land(id(b.place))), (1, false));
        let nobody = left(&one, Place { node: 0, life: 0 }).unwrap();
        assert_eq!((again(&nobody).seated().count(), nobody.view.len()), (0, 0));
    }

    #[test]
    fn a_view_of_others_than_the_roster_names_is_refused() {
        let roster = two();
        let mut wrong = vec![roster.standing(Place { node: 1, life: 0 }, Standing::Left)];
        let mut newer = roster.clone();
        newer.members[1].incarnation = 4;
        wrong.push(newer);
        wrong.push(Roster { view: vec![1, 2, 3], ..roster });
        assert!(wrong.iter().all(|roster| Roster::parse(&roster.to_bytes()).unwrap_err().contains("view")));
    }
}
