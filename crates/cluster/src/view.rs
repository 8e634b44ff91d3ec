//! The view: who is a member, which of them is home of which files, whose log was cut where.
//!
//! It lies in the membership service and changes by compare-and-swap of its number: each change here gives the view to
//! propose. A member that is expelled is *leaving* until its deadline has surely passed and its log was cut, then
//! *out*. Nobody counts a log of a member that is not out, but its own agent, and nobody counts more of one that is out
//! than its cut says: an expelled node may go on writing.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::{FileId, MemberId, Seat};

/// What became of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has a seat in the view.
    Seated,
    /// It was expelled. It may still believe in an older view until its deadline has passed.
    Leaving,
    /// Nothing of it counts any more but its log up to the cut, while the view names it.
    Out,
}

/// A member that was expelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Gone {
    member: MemberId,
    /// How many entries of its log count. None until its deadline has passed.
    cut: Option<u64>,
    /// No copy of it is under way any more.
    quiet: bool,
}

/// The holder of slots of a site without members.
const NOBODY: Seat = Seat { member: MemberId { node: u16::MAX, life: u16::MAX }, incarnation: 0 };

/// Who is home of the files of one slot, and since which view without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Slot {
    holder: Seat,
    since: u64,
}

/// A view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    number: u64,
    /// In their order, so that one is found among a thousand in ten steps.
    seats: Vec<Seat>,
    slots: Vec<Slot>,
    gone: Vec<Gone>,
    /// Lives of nodes of which nothing else is left here.
    lives: BTreeMap<u16, u16>,
}

impl View {
    /// The first view of a site.
    pub fn first(mut seats: Vec<Seat>, slots: usize) -> View {
        assert!(!seats.is_empty(), "a view has members");
        seats.sort_unstable();
        let holder = |slot: usize| Slot { holder: seats[slot % seats.len()], since: 1 };
        View { number: 1, slots: (0..slots).map(holder).collect(), seats, gone: Vec::new(), lives: BTreeMap::new() }
    }

    /// Who is home of each slot, by its place among the members, and since which view.
    pub(crate) fn homes(&self) -> impl Iterator<Item = (u16, u64)> {
        let place = |seat: Seat| self.seats.binary_search(&seat).unwrap_or(0);
        self.slots.iter().map(move |slot| (place(slot.holder) as u16, slot.since))
    }

    /// Nodes of which nothing else is here, with the lives that they may have next.
    pub(crate) fn lives(&self) -> impl Iterator<Item = (u16, u16)> {
        self.lives.iter().map(|(node, life)| (*node, *life))
    }

    /// Members that were expelled: their cuts, and whether they are quiet.
    pub(crate) fn all_gone(&self) -> impl Iterator<Item = (MemberId, (Option<u64>, bool))> {
        self.gone.iter().map(|gone| (gone.member, (gone.cut, gone.quiet)))
    }

    /// The view of these parts, as those two say them; none if there cannot be such a one.
    pub(crate) fn of_parts(
        number: u64,
        seats: Vec<Seat>,
        homes: Vec<(u16, u64)>,
        gone: Vec<(MemberId, (Option<u64>, bool))>,
        lives: Vec<(u16, u16)>,
    ) -> Option<View> {
        let members: BTreeSet<MemberId> =
            seats.iter().map(|seat| seat.member).chain(gone.iter().map(|(member, _)| *member)).collect();
        let ordered = seats.is_sorted() && lives.is_sorted() && lives.windows(2).all(|two| two[0].0 < two[1].0);
        if number == 0 || homes.is_empty() || !ordered || members.len() < seats.len() + gone.len() {
            return None;
        }
        let slot = |(place, since): (u16, u64)| {
            let holder = if seats.is_empty() && place == 0 { NOBODY } else { *seats.get(place as usize)? };
            (since <= number).then_some(Slot { holder, since })
        };
        let slots = homes.into_iter().map(slot).collect::<Option<Vec<Slot>>>()?;
        let gone = gone.into_iter().map(|(member, (cut, quiet))| Gone { member, cut, quiet }).collect();
        Some(View { number, seats, slots, gone, lives: lives.into_iter().collect() })
    }

    /// What an agent has before it has seen any.
    pub(crate) fn none() -> View {
        View { number: 0, seats: Vec::new(), slots: Vec::new(), gone: Vec::new(), lives: BTreeMap::new() }
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The members' agents.
    pub fn seats(&self) -> &[Seat] {
        &self.seats
    }

    /// The agent of a member.
    pub fn seat(&self, member: MemberId) -> Option<Seat> {
        let place = self.seats.binary_search_by_key(&member, |seat| seat.member);
        place.ok().map(|place| self.seats[place])
    }

    /// Whether it is one of the members' agents.
    pub fn has(&self, seat: Seat) -> bool {
        self.seat(seat.member) == Some(seat)
    }

    /// Whether it names the member, seated or gone.
    pub(crate) fn names(&self, member: MemberId) -> bool {
        self.seat(member).is_some() || self.gone.iter().any(|gone| gone.member == member)
    }

    /// What became of a member.
    pub fn fate(&self, member: MemberId) -> Fate {
        match self.gone.iter().find(|gone| gone.member == member) {
            Some(Gone { cut: Some(_), .. }) => Fate::Out,
            Some(_) => Fate::Leaving,
            None if self.seat(member).is_some() => Fate::Seated,
            None => Fate::Out,
        }
    }

    /// All members that it names, seated or gone.
    pub(crate) fn named(&self) -> impl Iterator<Item = MemberId> {
        self.seats.iter().map(|seat| seat.member).chain(self.gone.iter().map(|gone| gone.member))
    }

    /// Members that were expelled, each with its cut.
    pub fn gone(&self) -> impl Iterator<Item = (MemberId, Option<u64>)> {
        self.gone.iter().map(|gone| (gone.member, gone.cut))
    }

    /// Whether copies of an expelled member may still land.
    pub fn may_land(&self, member: MemberId) -> bool {
        self.gone.iter().any(|gone| gone.member == member && !gone.quiet)
    }

    /// The slot of a file.
    pub(crate) fn slot(&self, file: FileId) -> u16 {
        // Inode numbers come in sequences; the factor is Knuth's, 2^64 over the golden ratio.
        let mixed = file.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (mixed % self.slots.len() as u64) as u16
    }

    /// For each slot what that says of it.
    pub(crate) fn for_each_slot(&self, says: impl Fn(u16) -> bool) -> Vec<bool> {
        (0..self.slots.len()).map(|slot| says(slot as u16)).collect()
    }

    /// The agent that is home of a slot.
    pub(crate) fn holder(&self, slot: u16) -> Seat {
        self.slots[slot as usize].holder
    }

    /// The agent that is home of a file.
    pub fn home(&self, file: FileId) -> Seat {
        self.holder(self.slot(file))
    }

    /// The agents that are home of something.
    pub(crate) fn home_seats(&self) -> BTreeSet<Seat> {
        self.slots.iter().map(|slot| slot.holder).collect()
    }

    /// Slots that an agent holds, each with the view since which it does.
    pub(crate) fn held_by(&self, seat: Seat) -> impl Iterator<Item = (u16, u64)> {
        let all = self.slots.iter().enumerate().filter(move |(_, slot)| slot.holder == seat);
        all.map(|(slot, held)| (slot as u16, held.since))
    }

    /// Slots that have another holder than some view before, or had one meanwhile.
    pub(crate) fn moved_since(&self, number: u64) -> BTreeSet<u16> {
        let moved = self.slots.iter().enumerate().filter(|(_, slot)| slot.since > number);
        moved.map(|(slot, _)| slot as u16).collect()
    }

    fn next(&self) -> View {
        View { number: self.number + 1, ..self.clone() }
    }

    /// Without a member that is silent. The last one stays.
    pub fn without(&self, member: MemberId) -> Option<View> {
        let mut view = self.next();
        view.seats.retain(|seat| seat.member != member);
        if view.seats.is_empty() || view.seats.len() == self.seats.len() {
            return None;
        }
        view.gone.push(Gone { member, cut: None, quiet: false });
        view.share_out();
        Some(view)
    }

    /// Shares the slots out, so that nobody has two more than another: those whose holder has no seat, and what others
    /// have beyond their part, go to those that have less. No other slot moves: each that does is declared by all.
    fn share_out(&mut self) {
        let mut held: BTreeMap<Seat, usize> = self.seats.iter().map(|seat| (*seat, 0)).collect();
        for slot in &self.slots {
            held.entry(slot.holder).and_modify(|held| *held += 1);
        }
        let parts = self.parts(&held);
        let lacks = |(seat, part): (&Seat, &usize)| std::iter::repeat_n(*seat, part.saturating_sub(held[seat]));
        let mut takers = parts.iter().flat_map(lacks).collect::<Vec<Seat>>().into_iter();
        for slot in &mut self.slots {
            if let Some(many) = held.get_mut(&slot.holder) {
                if *many <= parts[&slot.holder] {
                    continue;
                }
                *many -= 1;
            }
            *slot = Slot { holder: takers.next().unwrap_or(NOBODY), since: self.number };
        }
    }

    /// How many slots each agent is to have. Where they are not the same, those that have most have one more.
    fn parts(&self, held: &BTreeMap<Seat, usize>) -> BTreeMap<Seat, usize> {
        let mut seats = self.seats.clone();
        seats.sort_by_key(|seat| std::cmp::Reverse(held[seat]));
        let (part, more) = (self.slots.len() / seats.len().max(1), self.slots.len() % seats.len().max(1));
        seats.into_iter().enumerate().map(|(place, seat)| (seat, part + usize::from(place < more))).collect()
    }

    /// The life with which a node joins next: none was there before.
    pub fn next_life(&self, node: u16) -> u16 {
        let known = self.named().filter(|member| member.node == node);
        let lives = known.map(|member| member.life + 1).chain(self.lives.get(&node).copied());
        lives.max().unwrap_or(0)
    }

    /// With a member that is new: it becomes home of its share of the slots.
    pub fn joined(&self, member: MemberId) -> Option<View> {
        let is_new = member.life >= self.next_life(member.node);
        let has_seat = self.seats.iter().any(|seat| seat.member.node == member.node);
        if !is_new || has_seat {
            return None;
        }
        let mut view = self.next();
        view.seats.push(Seat { member, incarnation: 0 });
        view.seats.sort_unstable();
        view.share_out();
        Some(view)
    }

    /// Without a member whose own agent says so, when its threads have ended and a barrier has covered its log, and
    /// begins nothing any more. The last one may go too.
    pub fn left(&self, member: MemberId, cut: u64) -> Option<View> {
        self.seat(member)?;
        let mut view = self.next();
        view.seats.retain(|seat| seat.member != member);
        view.gone.push(Gone { member, cut: Some(cut), quiet: true });
        view.share_out();
        Some(view)
    }

    /// Without the log of a member that is out, which nobody needs and which copies nothing any more.
    pub fn dismissed(&self, member: MemberId) -> Option<View> {
        let over = |gone: &Gone| gone.member == member && gone.cut.is_some() && gone.quiet;
        let mut view = self.next();
        view.gone.retain(|gone| !over(gone));
        if view.gone.len() == self.gone.len() {
            return None;
        }
        view.lives.insert(member.node, self.next_life(member.node));
        Some(view)
    }

    /// With the next agent of a member that has a seat.
    pub fn restarted(&self, member: MemberId) -> Option<View> {
        let old = self.seat(member)?;
        let seat = Seat { incarnation: old.incarnation + 1, ..old };
        let mut view = self.next();
        view.seats.iter_mut().filter(|other| **other == old).for_each(|other| *other = seat);
        for slot in view.slots.iter_mut().filter(|slot| slot.holder == old) {
            *slot = Slot { holder: seat, since: view.number };
        }
        Some(view)
    }

    /// With the cut of a member's log whose deadline has passed.
    pub fn with_cut(&self, member: MemberId, cut: u64) -> Option<View> {
        let mut view = self.next();
        let gone = view.gone.iter_mut().find(|gone| gone.member == member && gone.cut.is_none())?;
        gone.cut = Some(cut);
        Some(view)
    }

    /// With a member's copies known to have ended.
    pub fn quieted(&self, member: MemberId) -> Option<View> {
        let mut view = self.next();
        let gone = view.gone.iter_mut().find(|gone| gone.member == member && !gone.quiet)?;
        gone.quiet = true;
        Some(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(node: u16) -> MemberId {
        MemberId { node, life: 0 }
    }

    fn share(view: &View, node: u16) -> usize {
        view.slots.iter().filter(|slot| slot.holder.member == member(node)).count()
    }

    #[test]
    fn slots_go_to_who_joins_and_from_who_leaves_and_no_other_moves() {
        let mut view = View::first(vec![Seat { member: member(0), incarnation: 0 }], 64);
        for node in 1..70 {
            let next = view.joined(member(node)).unwrap();
            let moved: Vec<_> = view.slots.iter().zip(&next.slots).filter(|(old, new)| old != new).collect();
            assert!(moved.iter().all(|(_, new)| new.holder.member == member(node) && new.since == next.number));
            assert_eq!(moved.len(), 64 / (usize::from(node) + 1), "its part of them");
            let shares: Vec<usize> = (0..=node).map(|node| share(&next, node)).collect();
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{shares:?}");
            view = next;
        }
        for node in 1..70 {
            let next = view.without(member(node)).unwrap();
            let moved = view.slots.iter().zip(&next.slots).filter(|(old, new)| old != new);
            assert!(moved.clone().all(|(old, _)| old.holder.member == member(node)));
            let shares: Vec<usize> = next.seats.iter().map(|seat| share(&next, seat.member.node)).collect();
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{shares:?}");
            view = next;
        }
        assert_eq!(share(&view, 0), 64);
    }

    #[test]
    fn where_the_last_member_leaves_nobody_has_any_slot_and_who_comes_next_has_all() {
        let view = View::first(vec![Seat { member: member(0), incarnation: 0 }], 8);
        let left = view.left(member(0), 3).unwrap();
        assert!(left.slots.iter().all(|slot| slot.holder == NOBODY && slot.since == left.number));
        let next = left.joined(member(1)).unwrap();
        assert_eq!(share(&next, 1), 8);
    }
}
