//! Views in a roster: what each change of the roster's makes of the view beside it.
//!
//! There is none before a second member joined. Who leaves has nothing on flash that the disks have not, so that its
//! log is cut before its first record, and no copy of it is under way. The same is done to a member that the user gives
//! up.

use headstart_cluster::{View, wire};

use crate::cluster::roster::{Cut, Member, Place, Roster, Standing};
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

/// With this member, which knocked, in the place of all that have seats: they are leaving.
pub(crate) fn taken_over(roster: &Roster, member: Member) -> Result<Roster> {
    let gone: Vec<Place> = roster.seated().map(|member| member.place).collect();
    let mut after = joined(roster, member)?;
    for place in gone {
        after = without(&after, place)?;
    }
    Ok(after)
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
    let after = roster.standing(gone, Standing::Left);
    let Some(view) = known(roster)?.filter(|view| view.seat(id(gone)).is_some()) else { return Ok(after) };
    if after.seated().next().is_none() {
        return Ok(Roster { view: Vec::new(), ..after });
    }
    let over = |view: View| view.without(id(gone))?.with_cut(id(gone), 0)?.quieted(id(gone));
    put(after, over(view))
}

/// Without a member that is silent: it is leaving.
pub(crate) fn without(roster: &Roster, silent: Place) -> Result<Roster> {
    let view = known(roster)?.and_then(|view| view.without(id(silent)));
    put(roster.standing(silent, Standing::Expelled), view)
}

/// With the cut of one that is, and of which no copy is under way any more.
pub(crate) fn cut(roster: &Roster, gone: Place, cut: Cut, position: u64) -> Result<Roster> {
    let view = known(roster)?.and_then(|view| view.with_cut(id(gone), position)?.quieted(id(gone)));
    let mut after = roster.clone();
    for member in after.members.iter_mut().filter(|member| member.place == gone) {
        member.cut = Some(cut.clone());
    }
    put(after, view)
}

/// Without the log of a member that is gone, which nobody needs.
pub(crate) fn dismissed(roster: &Roster, gone: Place) -> Result<Roster> {
    let view = known(roster)?.and_then(|view| view.dismissed(id(gone)));
    put(uncut(roster.standing(gone, Standing::Left), gone), view)
}

/// The same whatever of it counts: the user gives it up.
pub(crate) fn forgotten(roster: &Roster, gone: Place) -> Result<Roster> {
    let Some(mut view) = known(roster)? else { return Ok(uncut(roster.standing(gone, Standing::Left), gone)) };
    view = view.with_cut(id(gone), 0).unwrap_or(view);
    view = view.quieted(id(gone)).unwrap_or(view);
    put(uncut(roster.standing(gone, Standing::Left), gone), view.dismissed(id(gone)))
}

fn uncut(mut roster: Roster, gone: Place) -> Roster {
    roster.members.iter_mut().filter(|member| member.place == gone).for_each(|member| member.cut = None);
    roster
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn one_that_is_given_up_keeps_its_number_until_nobody_needs_its_log_and_its_node_may_come_anew() {
        let roster = two();
        let b = Place { node: 1, life: 0 };
        let silent = again(&without(&roster, b).unwrap());
        assert_eq!((silent.seated().count(), silent.free_place()), (1, Some(Place { node: 2, life: 0 })));
        let newcomer = Member { place: Place { node: 2, life: 0 }, ..member(2, "b", Standing::Armed) };
        let joined = again(&joined(&silent, newcomer).unwrap());
        assert_eq!(joined.seated().count(), 2, "the same node, under another number");
        let whole = Cut { by: Place { node: 0, life: 0 }, bytes: 100 };
        assert!(cut(&roster, b, whole.clone(), 64).is_err() && dismissed(&joined, b).is_err());
        let out = again(&cut(&joined, b, whole.clone(), 64).unwrap());
        assert_eq!(out.at(b).unwrap().cut, Some(whole));
        let view = of(&out).unwrap().unwrap();
        assert_eq!(view.gone().collect::<Vec<_>>(), [(id(b), Some(64))]);
        for over in [dismissed(&out, b).unwrap(), forgotten(&out, b).unwrap(), forgotten(&joined, b).unwrap()] {
            let over = again(&over);
            assert_eq!((over.at(b).unwrap().standing, over.at(b).unwrap().cut.is_none()), (Standing::Left, true));
            assert_eq!(of(&over).unwrap().unwrap().gone().count(), 0);
            assert_eq!(over.free_place(), Some(Place { node: 1, life: 1 }));
        }
    }

    #[test]
    fn who_comes_when_all_are_gone_has_all_to_itself_and_the_others_are_leaving() {
        let newcomer = Member { place: Place { node: 2, life: 0 }, ..member(2, "c", Standing::Armed) };
        let knocking = Member { standing: Standing::Knocking, ..newcomer.clone() };
        let alone = Roster::alone(terms(), member(0, "a", Standing::Unarmed));
        for before in [two(), alone] {
            let gone: Vec<Place> = before.seated().map(|member| member.place).collect();
            let after = again(&taken_over(&before.with(knocking.clone()), newcomer.clone()).unwrap());
            assert_eq!(after.seated().map(|member| member.place).collect::<Vec<_>>(), [newcomer.place]);
            assert!(gone.iter().all(|place| after.at(*place).unwrap().standing == Standing::Expelled));
            let view = of(&after).unwrap().unwrap();
            assert_eq!(
                view.gone().collect::<Vec<_>>(),
                gone.iter().map(|place| (id(*place), None)).collect::<Vec<_>>()
            );
            assert!(of(&before).unwrap().is_none_or(|before| before.number() < view.number()));
        }
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
