//! What nodes of a cluster read of each other: views, rosters, letters, messages, notes, and acts of a probe.

use std::path::{Component, Path};

use headstart_agent::cluster::gone::noted;
use headstart_agent::cluster::letter::Letter;
use headstart_agent::cluster::roster::Roster;
use headstart_agent::node_files::NODES_MAX;
use headstart_cluster::wire;
use headstart_membership::envelope;
use headstart_membership::probe::{Act, Action, Answer};

pub fn view(bytes: &[u8]) {
    if let Ok((nonce, value)) = envelope::open(&String::new, bytes) {
        assert_eq!(envelope::seal(&nonce, value), bytes, "a view is stored in one way");
    }
}

pub fn roster(bytes: &[u8]) {
    if let Ok(roster) = Roster::parse(bytes) {
        assert_eq!(Roster::parse(&roster.to_bytes()).as_ref(), Ok(&roster));
        assert!(roster.members.iter().all(|member| member.place.node < NODES_MAX));
        // It names a lock file, and nothing beside it.
        roster.members.iter().filter_map(|member| member.locks.as_deref()).for_each(is_one_name);
    }
}

pub fn letter(bytes: &[u8]) {
    if let Some(letter) = Letter::parse(bytes) {
        let mut again = Vec::new();
        letter.encode(&mut again);
        assert_eq!(Letter::parse(&again), Some(letter));
    }
}

pub fn salvaged(bytes: &[u8]) {
    let mut again = Vec::new();
    for file in noted(bytes) {
        again.extend(format!("\n{:020}\n", file.0).into_bytes());
    }
    assert_eq!(noted(&again), noted(bytes));
}

/// Messages of the protocol, and views.
pub fn message(bytes: &[u8]) {
    comes_back(bytes, wire::decode_envelope, wire::encode_envelope);
    comes_back(bytes, wire::decode_view, wire::encode_view);
}

/// Letters with notes.
pub fn notes(bytes: &[u8]) {
    comes_back(bytes, wire::decode_told, wire::encode_told);
}

/// What can be understood has these bytes and no others.
fn comes_back<T>(bytes: &[u8], decode: fn(&[u8]) -> Option<T>, encode: fn(&T, &mut Vec<u8>)) {
    if let Some(value) = decode(bytes) {
        let mut again = Vec::new();
        encode(&value, &mut again);
        assert_eq!(again, bytes, "it has one form");
    }
}

pub fn act(bytes: &[u8]) {
    if let Ok(act) = serde_json::from_slice::<Act>(bytes) {
        let again = serde_json::to_vec(&act).expect("an act has a JSON form");
        assert_eq!(serde_json::from_slice::<Act>(&again).ok().as_ref(), Some(&act));
        if act.stays_within() {
            is_one_name(&act.name);
            if let Action::Link(to) | Action::Rename(to) = &act.action {
                is_one_name(to);
            }
        }
    }
    if let Ok(answer) = serde_json::from_slice::<Answer>(bytes) {
        let again = serde_json::to_vec(&answer).expect("an answer has a JSON form");
        assert_eq!(serde_json::from_slice::<Answer>(&again).ok(), Some(answer));
    }
}

fn is_one_name(name: &str) {
    let components: Vec<_> = Path::new(name).components().collect();
    assert!(matches!(components[..], [Component::Normal(_)]), "it leads elsewhere: {name}");
}
