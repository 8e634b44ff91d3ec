//! The overlay against a reference model, in virtual time: threads that follow the library's side of the protocol step by step, a
//! runtime that carries out outputs in any order it may, storage that loses what was not synced, deaths and power failures.
//!
//! Everything comes from one seed. `SEED=n` repeats one case; `CASES=n` runs n times as many.
//!
//! Checked: every read returns a value the atomic register allows (I1); the same across a death of the agent (I2); after
//! power loss nothing older than fsync acknowledged and no foreign byte (I3); everybody comes to an end and all dirty bytes
//! drain (I5); sizes; and that no page, bit or file is left once everything is dropped. Not checked: store buffers (one thread
//! runs everything), threads that live through a restart of the agent, renames, and the runtime.

mod forced;
mod random;
mod ranks;
mod register;
mod storage;
mod world;

use random::Random;
use world::{RANKS, World};

/// Which crash a case ends its first half with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crash {
    None,
    Agent,
    Power,
}

fn run(seed: u64, crash: Crash) -> Vec<String> {
    let mut world = World::new(seed);
    let kills = world.random.chance(30);
    if world.random.chance(15) {
        world.failures = 40;
        world.may_fail = true;
    }
    let rounds = if crash == Crash::None { 1 } else { 3 };
    for round in 0..rounds {
        let steps = 200 + world.random.below(1500);
        for _ in 0..steps {
            world.step(true);
            if kills && world.random.below(400) == 0 {
                let process = world.random.below(RANKS as u64 / 2) as usize;
                world.kill(process);
            }
            if !world.violations.is_empty() {
                return world.violations;
            }
        }
        if round + 1 < rounds {
            world.crash(crash == Crash::Power);
        }
    }
    world.finish();
    world.violations
}

fn run_many(cases: u64, crash: Crash) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let factor = number("CASES").unwrap_or(1);
    let mut seeds = Random(crash as u64);
    let seeds: Vec<u64> = match number("SEED") {
        Some(seed) => vec![seed],
        None => (0..cases * factor).map(|_| seeds.next()).collect(),
    };
    for seed in seeds {
        let result = std::panic::catch_unwind(|| run(seed, crash));
        match result {
            Ok(violations) => assert!(violations.is_empty(), "SEED={seed} {crash:?}: {}", violations.join("\n")),
            Err(panic) => {
                eprintln!("SEED={seed} {crash:?}");
                std::panic::resume_unwind(panic);
            }
        }
    }
}

#[test]
fn reads_are_never_stale_and_everything_drains() {
    run_many(200, Crash::None);
}

#[test]
fn no_acknowledged_write_is_lost_when_the_agent_dies() {
    run_many(120, Crash::Agent);
}

#[test]
fn nothing_synced_is_lost_and_nothing_foreign_appears_when_the_power_fails() {
    run_many(200, Crash::Power);
}

#[test]
fn survey() {
    let mut seeds = Random(77);
    let mut tally = std::collections::BTreeMap::<String, (u64, u64)>::new();
    std::panic::set_hook(Box::new(|_| {}));
    for k in 0..std::env::var("N").map_or(600, |n| n.parse().unwrap()) {
        let seed = seeds.next();
        let crash = [Crash::None, Crash::Agent, Crash::Power][k % 3];
        let text = match std::panic::catch_unwind(|| run(seed, crash)) {
            Ok(v) if v.is_empty() => continue,
            Ok(v) => format!("{crash:?} {}", v[0]),
            Err(p) => format!("{crash:?} PANIC {}", p.downcast_ref::<String>().cloned().or(p.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default()),
        };
        let key: String = text.chars().filter(|c| !c.is_ascii_digit()).take(60).collect();
        let e = tally.entry(key).or_insert((0, seed));
        e.0 += 1;
    }
    for (k, (n, seed)) in tally { println!("{n:5} SEED={seed} {k}"); }
}
