//! Calls at the edge of what is allowed return what they return without the library.

use crate::fake_agent::Agent;
use crate::programs::{command, compiled, succeed};

#[test]
fn calls_at_the_edge_return_what_they_return_without_the_library() {
    for policy in ["s4d", "off"] {
        let agent = Agent::start();
        let program = compiled(&agent, "edges");
        let run = |name: &str, preloaded: bool| {
            let mut run = command(&agent, &program);
            if !preloaded {
                run.env_remove("LD_PRELOAD");
            }
            String::from_utf8(succeed(run.arg(name).env("HEADSTART_POLICY", policy)).stdout).unwrap()
        };
        let (plain, managed) = (run("plain", false), run("managed", true));
        let differing: Vec<_> = plain.lines().zip(managed.lines()).filter(|(a, b)| a != b).collect();
        assert!(differing.is_empty() && plain.len() == managed.len(), "without and with, {policy}: {differing:#?}");
        assert!(plain.lines().count() > 150);
    }
}
