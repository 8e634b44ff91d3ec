//! Texts that the agent reads: commands, answers, site files, plans.

use headstart_agent::plan;
use headstart_agent::site::Site;
use headstart_agent::status::{Answer, Command};

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
