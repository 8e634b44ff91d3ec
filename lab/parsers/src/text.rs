//! Texts that the agent reads: commands, answers, site files, plans, what it and others left in the slow and
//! in the fast directory, requests for figures.

use headstart_agent::claim::Owner;
use headstart_agent::dirty_list::{Entry, Listed};
use headstart_agent::metrics::server::{self, Asked};
use headstart_agent::origin::Origin;
use headstart_agent::site::Site;
use headstart_agent::status::{Answer, Command};
use headstart_agent::{discarded, plan};

pub fn control(bytes: &[u8]) {
    if let Ok(command) = serde_json::from_slice::<Command>(bytes) {
        let again = serde_json::to_vec(&command).expect("a command has a JSON form");
        assert_eq!(serde_json::from_slice::<Command>(&again).ok(), Some(command));
    }
    if let Ok(answer) = serde_json::from_slice::<Answer>(bytes) {
        serde_json::to_vec(&answer).expect("an answer has a JSON form");
    }
}

pub fn site(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(site) = toml::from_str::<Site>(text) else { return };
    let checked = site.s4d.read.check().and(site.s4d.write.check());
    if checked.is_ok() && site.settings().is_ok() {
        let again: Site = toml::from_str(&site.to_toml()).expect("a site comes back from its own text");
        assert_eq!(again.settings(), site.settings());
    }
}

pub fn plan(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(found) = plan::from_toml(text) else { return };
    for file in &found.files {
        // Asserts that no regions share bytes.
        file.wanted();
    }
    let again = plan::from_toml(&plan::to_toml(&found)).expect("a plan comes back from its own text");
    // Gains beyond 2^53 ns are rounded when read.
    assert_eq!((again.files.len(), again.placed_bytes()), (found.files.len(), found.placed_bytes()));
}

pub fn claim(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(owner) = Owner::parse(text) else { return };
    assert!(!owner.node.is_empty(), "somebody has to be asked");
    assert_eq!(Owner::parse(&owner.to_text()), Ok(owner));
}

pub fn dirty_list(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(listed) = Listed::parse(text) else { return };
    listed.entries.iter().for_each(has_bytes_and_a_path_of_a_file);
    let sum: u64 = listed.entries.iter().map(|entry| entry.dirty_bytes).sum();
    assert_eq!((listed.heading.dirty_bytes, listed.heading.files), (sum, listed.entries.len() as u64));
    assert_eq!(Listed::parse(&listed.to_lines()), Ok(listed));
}

pub fn attribute(bytes: &[u8]) {
    let Ok(entry) = Entry::parse(bytes) else { return };
    has_bytes_and_a_path_of_a_file(&entry);
    let again = serde_json::to_vec(&entry).expect("an attribute has a JSON form");
    assert_eq!(Entry::parse(&again), Ok(entry));
}

fn has_bytes_and_a_path_of_a_file(entry: &Entry) {
    assert!(entry.ranges.iter().all(|(offset, length)| offset + length <= i64::MAX as u64), "{entry:?}");
    let path = entry.path_bytes();
    assert!(path.split(|byte| *byte == b'/').all(|part| part != b"..") && !path.contains(&0), "{entry:?}");
}

pub fn origin(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(origin) = Origin::parse(text) else { return };
    // Devices that an agent before wrote are not written again.
    let text = origin.to_text();
    assert_eq!(Origin::parse(&text).map(|again| again.to_text()), Ok(text));
}

pub fn discarded(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(epoch) = discarded::parse(text) else { return };
    assert!(epoch.checked_add(1).is_some(), "the next agent has an epoch");
    assert_eq!(discarded::parse(&discarded::to_text(epoch)), Ok(epoch));
}

/// A request for figures means the same however its bytes arrive, and whatever follows it.
pub fn metrics_request(bytes: &[u8]) {
    let whole = server::understand(bytes);
    for end in 0..bytes.len().min(512) {
        if let Some(asked) = server::understand(&bytes[..end]) {
            assert_eq!(Some(asked), whole, "the first {end} bytes are understood otherwise than all");
        }
    }
    let Some(Asked::Metrics { body }) = whole else { return };
    let method = if body { &b"GET "[..] } else { b"HEAD " };
    let start = bytes.iter().position(|byte| !b"\r\n".contains(byte)).expect("a request has a method");
    assert!(bytes[start..].starts_with(method), "only these are answered with figures");
}
