//! Who is there: the value of the register.
//!
//! One line of JSON, then the bytes of the view (`headstart_cluster::wire`), which are absent as long as the directory
//! has had one node alone. A member has a *place*: a number among the nodes, which its files are named by, and how many
//! had that number before. Records of members that left stay, so that no place is taken twice.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::cluster::member::TEXT_BYTES_MAX;
pub use crate::cluster::member::{Cut, Member, Place, Standing};
use crate::cluster::seats;
use crate::node::Node;
use crate::node_files::NODES_MAX;

/// Changes with the roster's form.
const FORMAT: u32 = 1;
/// Records, of members that left too. A register takes 1 MiB, a record some 300 bytes.
const MEMBERS_MAX: usize = 2048;

/// What must be the same on all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Version of what agents say to each other.
    pub version: u32,
    /// The slow directory, as every node names it.
    pub slow: String,
    /// The fast one.
    pub fast: String,
    /// For how long a look at the register holds.
    pub hold_ms: u64,
    /// How much longer others wait.
    pub margin_ms: u64,
    /// Whether locks say who is there.
    pub locks: bool,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    /// What all agreed to.
    pub terms: Terms,
    /// All members, by their places.
    pub members: Vec<Member>,
    /// The view's bytes; none before a second member joined.
    pub view: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    format: u32,
    terms: Terms,
    members: Vec<Member>,
}

impl Roster {
    /// A site's first: one member alone.
    pub(crate) fn alone(terms: Terms, member: Member) -> Roster {
        Roster { terms, members: vec![member], view: Vec::new() }
    }

    /// What the bytes say, or what is wrong with them.
    pub fn parse(bytes: &[u8]) -> Result<Roster, String> {
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("its first line has no end")?;
        let head: serde_json::Value = serde_json::from_slice(&bytes[..end]).map_err(|error| error.to_string())?;
        if head["format"] != FORMAT {
            let problem = "it was written by another version of Headstart: use the same on all nodes";
            return Err(format!("{problem} (format {}, this one has {FORMAT})", head["format"]));
        }
        let Head { terms, members, .. } = serde_json::from_value(head).map_err(|error| error.to_string())?;
        let roster = Roster { terms, members, view: bytes[end + 1..].to_vec() };
        roster.check().map(|()| roster)
    }

    /// The bytes that say it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = Head { format: FORMAT, terms: self.terms.clone(), members: self.members.clone() };
        let mut bytes = serde_json::to_vec(&head).expect("a roster has a JSON form");
        bytes.push(b'\n');
        bytes.extend(&self.view);
        bytes
    }

    fn check(&self) -> Result<(), String> {
        if self.members.len() > MEMBERS_MAX {
            return Err(format!("it has {} members", self.members.len()));
        }
        if [&self.terms.slow, &self.terms.fast].iter().any(|path| !path.starts_with('/') || path.len() > TEXT_BYTES_MAX)
        {
            return Err("it names no directories".into());
        }
        self.members.iter().try_for_each(Member::check)?;
        let mut places = BTreeSet::new();
        if self.members.iter().any(|member| !places.insert(member.place)) {
            return Err("two members have one place".into());
        }
        let present = || self.members.iter().filter(|member| member.standing != Standing::Left);
        let (mut numbers, mut names) = (BTreeSet::new(), BTreeSet::new());
        // A node that was given up may be there again, under another number.
        let has_name = |member: &Member| member.standing != Standing::Expelled;
        let is_twice =
            |member: &Member, names: &mut BTreeSet<String>| has_name(member) && !names.insert(member.name.clone());
        if present().any(|member| !numbers.insert(member.place.node) || is_twice(member, &mut names)) {
            return Err("two members have one number, or one name".into());
        }
        if self.view.is_empty() && self.seated().count() > 1 {
            return Err("it has several members and no view".into());
        }
        seats::decoded(&self.view, self.seated()).map(drop)
    }

    /// Members with a seat.
    pub fn seated(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.is_seated())
    }

    /// Members that want to join.
    pub fn knocking(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.standing == Standing::Knocking)
    }

    /// The member at a place.
    pub fn at(&self, place: Place) -> Option<&Member> {
        self.members.iter().find(|member| member.place == place)
    }

    /// Whether others may act on the member's absence: its programs have a deadline, past which they wait. Nobody else
    /// but the member itself proposes a view without one of which that is not known.
    pub(crate) fn may_be_given_up(&self, place: Place) -> bool {
        self.at(place).is_some_and(|member| member.standing == Standing::Armed)
    }

    /// This node's member that has a seat.
    pub(crate) fn of(&self, node: &Node) -> Option<&Member> {
        self.seated().find(|member| member.is_of(node))
    }

    /// A place that nobody has or had: the lowest number that is free now.
    pub(crate) fn free_place(&self) -> Option<Place> {
        let present = |node: u16| {
            self.members.iter().any(|member| member.place.node == node && member.standing != Standing::Left)
        };
        let lives = |node: u16| {
            let of = self.members.iter().filter(|member| member.place.node == node);
            of.map(|member| member.place.life).max().map_or(Some(0), |last| last.checked_add(1))
        };
        (0..NODES_MAX).filter(|node| !present(*node)).find_map(|node| Some(Place { node, life: lives(node)? }))
    }

    /// With this record in the place of the one at the same place; those of who left that number before go.
    pub(crate) fn with(&self, member: Member) -> Roster {
        let mut roster = self.clone();
        let is_over = |other: &Member| {
            other.place == member.place || (other.place.node == member.place.node && other.standing == Standing::Left)
        };
        roster.members.retain(|other| !is_over(other));
        roster.members.push(member);
        roster.members.sort_by_key(|member| member.place);
        roster
    }

    /// With another standing of a member.
    pub(crate) fn standing(&self, place: Place, standing: Standing) -> Roster {
        let mut roster = self.clone();
        roster.members.iter_mut().filter(|member| member.place == place).for_each(|member| member.standing = standing);
        roster
    }

    /// Without one that only knocked.
    pub(crate) fn without(&self, place: Place) -> Roster {
        let mut roster = self.clone();
        roster.members.retain(|member| member.place != place);
        roster
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use headstart_cluster::View;

    use super::*;

    pub(crate) fn terms() -> Terms {
        Terms { version: 1, slow: "/slow".into(), fast: "/fast".into(), hold_ms: 30_000, margin_ms: 5_000, locks: true }
    }

    pub(crate) fn member(node: u16, name: &str, standing: Standing) -> Member {
        Member {
            place: Place { node, life: 0 },
            incarnation: 0,
            standing,
            name: name.into(),
            machine_id: None,
            boot_id: "b".into(),
            locks: None,
            addresses: vec!["10.0.0.1:7".parse().unwrap()],
            cut: None,
            heard_by: None,
        }
    }

    /// A view of those with seats.
    fn view_of(roster: &Roster) -> View {
        View::first(roster.seated().map(seats::seat).collect(), 10)
    }

    #[test]
    fn a_roster_comes_back_with_its_view() {
        let mut roster = Roster::alone(terms(), member(0, "a", Standing::Unarmed));
        assert_eq!(Roster::parse(&roster.to_bytes()), Ok(roster.clone()));
        roster = roster.with(member(1, "b", Standing::Armed));
        headstart_cluster::wire::encode_view(&view_of(&roster), &mut roster.view);
        assert!(roster.view.contains(&b'\n'), "a byte that ends the first line may be in it");
        assert_eq!(Roster::parse(&roster.to_bytes()), Ok(roster));
    }

    #[test]
    fn what_no_agent_wrote_is_refused() {
        let one = Roster::alone(terms(), member(0, "a", Standing::Unarmed));
        let refused = |roster: &Roster| Roster::parse(&roster.to_bytes()).unwrap_err();
        for bytes in [&b""[..], b"{}", b"{}\n", b"[]\n"] {
            assert!(Roster::parse(bytes).is_err());
        }
        let text = String::from_utf8(one.to_bytes()).unwrap();
        assert!(
            Roster::parse(text.replace("\"format\":1", "\"format\":2").as_bytes()).unwrap_err().contains("version")
        );
        let twice = |second: Member| {
            let mut roster = Roster { members: vec![one.members[0].clone(), second], ..one.clone() };
            headstart_cluster::wire::encode_view(&view_of(&roster), &mut roster.view);
            roster
        };
        assert!(refused(&twice(member(0, "b", Standing::Armed))).contains("one place"));
        assert!(refused(&twice(member(1, "a", Standing::Armed))).contains("one name"));
        let other_life = Member { place: Place { node: 0, life: 1 }, ..member(0, "b", Standing::Armed) };
        assert!(refused(&twice(other_life.clone())).contains("one number"));
        assert!(Roster::parse(&twice(Member { standing: Standing::Left, ..other_life }).to_bytes()).is_ok());
        let no_view = Roster { view: Vec::new(), ..twice(member(1, "b", Standing::Armed)) };
        assert!(refused(&no_view).contains("no view"));
        let knocks = Roster { view: Vec::new(), ..twice(member(1, "b", Standing::Knocking)) };
        assert!(Roster::parse(&knocks.to_bytes()).is_ok(), "who knocks has no seat");
        let changed = |change: fn(&mut Member)| {
            let mut roster = one.clone();
            change(&mut roster.members[0]);
            refused(&roster)
        };
        assert!(changed(|member| member.place.node = NODES_MAX).contains("number"));
        assert!(changed(|member| member.name.clear()).contains("name"));
        assert!(changed(|member| member.locks = Some("../journal".into())).contains("locks"));
        assert!(changed(|member| member.addresses = vec!["[::1]:1".parse().unwrap(); 65]).contains("addresses"));
        assert!(
            refused(&Roster { terms: Terms { fast: "fast".into(), ..terms() }, ..one.clone() }).contains("director")
        );
    }

    #[test]
    fn a_place_is_taken_once_and_the_lowest_number_comes_first() {
        let mut roster = Roster::alone(terms(), member(0, "a", Standing::Unarmed));
        assert_eq!(roster.free_place(), Some(Place { node: 1, life: 0 }));
        roster = roster.with(member(1, "b", Standing::Knocking));
        assert_eq!(roster.free_place(), Some(Place { node: 2, life: 0 }));
        roster = roster.standing(Place { node: 1, life: 0 }, Standing::Left);
        let next = roster.free_place().unwrap();
        assert_eq!(next, Place { node: 1, life: 1 });
        roster = roster.with(Member { place: next, ..member(1, "c", Standing::Armed) });
        assert_eq!(roster.members.len(), 2, "of who left a number the last life is known");
        roster = roster.standing(next, Standing::Left);
        assert_eq!(roster.free_place(), Some(Place { node: 1, life: 2 }));
    }
}
