//! Members as the protocol's view has them.

use headstart_cluster::{MemberId, Seat, View, wire};

use crate::cluster::member::{Member, Place};

/// The protocol's name of a place.
pub(crate) fn id(place: Place) -> MemberId {
    MemberId { node: place.node, life: place.life }
}

/// The other way round.
pub(crate) fn place(id: MemberId) -> Place {
    Place { node: id.node, life: id.life }
}

pub(crate) fn seat(member: &Member) -> Seat {
    Seat { member: id(member.place), incarnation: member.incarnation }
}

/// The view of these bytes, which has these members, or what is wrong with it; none before a second member joined.
pub(crate) fn decoded<'a>(bytes: &[u8], members: impl Iterator<Item = &'a Member>) -> Result<Option<View>, String> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let view = wire::decode_view(bytes).ok_or("its view cannot be understood")?;
    let mut seats: Vec<Seat> = members.map(seat).collect();
    let mut seen: Vec<Seat> = view.seats().to_vec();
    seats.sort_unstable();
    seen.sort_unstable();
    if seats != seen {
        return Err("its view has other members than it names".into());
    }
    Ok(Some(view))
}
