//! The overlay against a reference model, in virtual time: threads that follow the library's side of the
//! protocol step by step, a runtime that carries out outputs in any order it may, storage that loses what was
//! not synced, deaths and power failures.
//!
//! Everything comes from one seed. `SEED=n` repeats one case; `CASES=n` runs n times as many. Each random
//! test counts the deaths and power failures that it is about and fails below the number it promises.
//!
//! Checked: every read returns a value the atomic register allows (I1); the same across a death of the agent,
//! with all threads or under them, at any step, a second one during recovery included (I2); after power loss
//! nothing older than fsync acknowledged and no foreign byte (I3); everybody comes to an end and all dirty
//! bytes drain (I5); sizes; and that no page, bit or file is left once everything is dropped. Some copies and
//! syncs fail.
//!
//! Not checked: store buffers (one thread runs everything), extensions that fail, O_APPEND, power loss after
//! a restart under living threads. The agent's crash tests (`crates/agent/src/crash_tests.rs`) run the
//! runtime, renames, fingerprints, a second crash during recovery and calls that fail.
//!
//! Each rule of the protocol has a test that fails when the rule is left out. *none*, *agent*, *power* are
//! the three random tests below, *runtime* the two of the agent's crash tests that crash at any operation;
//! the others are named.
//!
//! | rule | test |
//! |---|---|
//! | drop-first, direct-in-writeback, writeback-in-direct, commit-in-direct, fetch-in-direct, clean-despite | none, agent, power |
//! | fetch-not-cancelled | the same; `a_direct_write_cancels_the_fetch_under_way` |
//! | read-no-lease | agent, power; `a_commit_waits_for_a_slow_read_under_a_lease` |
//! | fetch-dead | `nothing_is_fetched_where_a_dead_thread_may_still_write` |
//! | commit-twice | `a_commit_sent_again_is_answered_and_not_applied_again` |
//! | record-in-memory | runtime |
//! | append-only | power; runtime |
//! | reuse-superseded, reuse-clean, reuse-early | power |
//! | clear-early | `a_bit_stays_set_until_a_barrier_covers_the_removal_of_dirty_bytes` |
//! | drop-unsynced | power; runtime; `slow_bytes_written_back_are_synced_before_the_file_may_be_forgotten` |
//! | keep-clean | agent, power; runtime |
//! | no-read-lease, slab-reclaimed | none, agent, power |
//! | slot-kept | `a_request_that_waits_for_the_agent_holds_up_no_commit` of the library's tests |
//! | wait-dead | `nobody_waits_for_what_a_dead_thread_had_under_way` |
//! | in-place-dead | `what_a_dead_thread_writes_to_flash_late_changes_nothing_that_is_read`; `a_commit_of_a_place_where_mapped_bytes_lie_is_refused_whoever_wrote_them` |
//! | in-place-never | `bytes_that_a_dead_thread_was_overwriting_go_back_and_leave_flash` |
//! | no-fence-rank, no-fence-agent, bit-after-commit, no-wait, no-gen-read | `crates/protocol/tests/handshake` |
//! | no-adoption | `a_direct_write_under_a_lease_of_before_drops_what_it_covers`, `a_commit_waits_for_a_slow_read_under_a_lease_of_before`, `a_commit_to_a_slab_of_before_is_accepted_and_new_slabs_lie_in_new_data_files`; of bits `crates/protocol/tests/handshake` |
//! | late-writeback | `a_direct_write_waits_for_a_write_back_of_the_dead_agent_and_a_commit_does_not` |
//! | old-files | `a_commit_to_a_slab_of_before_is_accepted_and_new_slabs_lie_in_new_data_files`, `places_under_a_read_lease_of_before_stay_until_it_ends` |
//! | slow-while-down | `while_no_agent_runs_a_read_waits_where_a_bit_is_set_and_goes_on_elsewhere`; of the library `ranks_wait_for_a_new_agent_and_send_the_pending_commit_again` |
//! | slow-of-dirty (`docs/reference/semantics.md`) | none, agent, power; `clean_bytes_are_read_from_the_disks_up_to_dirty_ones_and_stay_on_flash` |
//! | disk-no-bump: of what comes to flash | `the_death_of_the_agent_under_living_threads_loses_nothing_and_stops_nobody` |
//! | disk-no-bump: of a direct write over clean bytes | `a_direct_write_under_a_read_of_the_disks_makes_it_read_again`, `what_a_stopped_read_found_beneath_bytes_on_flash_does_not_count` |
//! | no-validate-read | `a_thread_that_does_not_look_again_is_found` of `protocol` |
//! | slow-in-direct | `nobody_reads_the_disks_where_a_direct_write_is_under_way` |
//! | slow-from-dead | `nobody_reads_the_disks_where_the_write_of_a_dead_thread_may_land` |
//! | quarantine-ends | `what_a_dead_thread_may_still_write_is_quarantined_by_the_next_agent_too` |
//! | no-collect | `a_read_and_a_sync_find_what_was_pushed_before_they_were_asked_for` |
//! | tails-early | `what_was_pushed_survives_an_agent_that_dies_in_the_middle_of_taking_it` |
//! | closed-at-once | `what_was_pushed_survives_an_agent_that_dies_while_it_closes_the_granule` |
//! | pushed-twice | `what_the_journal_holds_is_not_applied_again_over_what_came_later` |
//! | list-no-end-commit, -drop, -evict | none, agent, power; `whatever_changes_the_map_ends_the_listing_and_a_read_by_it_is_made_again` |
//! | list-no-end-open | `opening_a_word_ends_the_listings_of_all_granules_that_share_it` |
//! | list-open-word | `a_granule_that_is_read_twice_is_closed_and_listed_and_then_read_without_a_question`, `opening_a_word_ends_the_listings_of_all_granules_that_share_it` |
//! | list-before-append | `a_granule_is_listed_with_the_answer_and_not_if_it_changed_before` |
//! | list-end-late | `the_end_of_a_listing_is_shown_before_any_answer_is_sent` |
//! | list-adopt-keep | `the_next_agent_ends_listings_before_anything_else` |
//! | list-no-validate, list-key-again, list-fill-no-zero | `crates/protocol/tests` |
//! | not-closed, stale-push, open-too-soon and the other rules of rings | `forced/rings.rs` |

mod dirty;
mod forced;
mod ranks;
mod register;
mod restart;
mod rules;
mod storage;
pub(crate) mod world;

use crate::Policy;
use headstart_units::chance::Random;
use world::{RANKS, World};

/// Which crash a case ends its first half with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crash {
    None,
    Agent,
    Power,
    /// Instead, the agent is killed again and again, and the threads live on.
    Restarts,
}

/// Deaths, failures and rare answers that a case went through: of processes, of agents (those that died while
/// they started included), of power.
#[derive(Clone, Copy, Debug, Default)]
struct Crashes {
    processes: u64,
    agents: u64,
    power: u64,
    /// Reads of bytes on flash that were sent to the disks.
    sooner_reads: u64,
    /// Commits that were pushed to rings.
    pushes: u64,
    /// Pieces that were read by listings.
    listed: u64,
}

impl Crashes {
    /// Those that a test is about.
    fn of(&self, crash: Crash) -> u64 {
        match crash {
            Crash::None => self.processes,
            Crash::Agent | Crash::Restarts => self.agents,
            Crash::Power => self.power,
        }
    }
}

fn run(seed: u64, crash: Crash, crashes: &mut Crashes) -> Vec<String> {
    let mut world = World::new(seed);
    let kills = world.random.chance(30);
    world.whims.hot = world.random.chance(50);
    world.whims.regions = world.random.chance(40);
    world.whims.reads = world.random.chance(50);
    world.whims.measures = world.random.chance(50);
    if world.random.chance(15) {
        world.whims.failures = 40;
        world.whims.may_fail = true;
    }
    let restarts = crash == Crash::Restarts;
    let rounds = if crash == Crash::None || restarts { 1 } else { 3 };
    for round in 0..rounds {
        let steps = 200 + world.random.below(1500);
        for _ in 0..steps {
            world.step(true);
            if kills && world.random.below(if world.whims.hot { 100 } else { 400 }) == 0 {
                let process = world.random.below(RANKS as u64 / 2) as usize;
                world.kill(process);
                crashes.processes += 1;
            }
            if restarts && !world.agents[0].is_dead && world.random.below(60) == 0 {
                world.agents[0].dying = Some(world.random.below(8));
            }
            if !world.violations.is_empty() {
                return world.violations;
            }
        }
        if round + 1 < rounds {
            world.crash(crash == Crash::Power);
            *if crash == Crash::Power { &mut crashes.power } else { &mut crashes.agents } += 1;
        }
    }
    world.finish();
    crashes.agents += world.agents[0].restarts;
    crashes.sooner_reads += world.sooner_reads;
    crashes.pushes += world.pushes;
    crashes.listed += world.listed;
    world.violations
}

/// Fails if fewer of the crashes that `crash` names came to pass than `promised`, times `CASES`; one case of
/// `SEED=` promises none.
fn run_many(cases: u64, crash: Crash, promised: u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let factor = number("CASES").unwrap_or(1);
    let mut seeds = Random(crash as u64);
    let seeds: Vec<u64> = match number("SEED") {
        Some(seed) => vec![seed],
        None => (0..cases * factor).map(|_| seeds.next()).collect(),
    };
    let promised = if number("SEED").is_some() { 0 } else { promised * factor };
    let mut crashes = Crashes::default();
    for seed in seeds {
        let of_case = std::panic::AssertUnwindSafe(&mut crashes);
        let result = std::panic::catch_unwind(|| {
            let of_case = of_case;
            run(seed, crash, of_case.0)
        });
        match result {
            Ok(violations) => assert!(violations.is_empty(), "SEED={seed} {crash:?}: {}", violations.join("\n")),
            Err(panic) => {
                eprintln!("SEED={seed} {crash:?}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{crashes:?}");
    assert!(
        promised == 0 || crashes.sooner_reads >= cases / 4,
        "hardly a read of clean bytes went to the disks: {crashes:?}"
    );
    assert!(promised == 0 || crashes.pushes >= cases, "hardly a commit was pushed: {crashes:?}");
    assert!(promised == 0 || crashes.listed >= cases, "hardly a read went by a listing: {crashes:?}");
    assert!(crashes.of(crash) >= promised, "{crashes:?}, and {promised} of {crash:?} were promised");
}

#[test]
fn reads_are_never_stale_and_everything_drains() {
    run_many(1500, Crash::None, 2_000);
}

#[test]
fn no_acknowledged_write_is_lost_when_the_agent_dies() {
    run_many(1500, Crash::Agent, 3_000);
}

#[test]
fn the_death_of_the_agent_under_living_threads_loses_nothing_and_stops_nobody() {
    run_many(2500, Crash::Restarts, 25_000);
}

#[test]
fn nothing_synced_is_lost_and_nothing_foreign_appears_when_the_power_fails() {
    run_many(2500, Crash::Power, 5_000);
}

/// A case of two or three nodes, whose agents are killed now and then if `kills`. What was pushed, what was refused as
/// others use it, and how many agents began anew.
fn run_cluster(seed: u64, kills: bool, policy: Policy) -> (Vec<String>, [u64; 3]) {
    let mut world = World::new(seed);
    let agents = 2 + world.random.below(2) as usize;
    world = World::of_agents(seed, world.agents[0].settings.clone(), agents);
    world.whims.hot = world.random.chance(50);
    world.whims.reads = world.random.chance(50);
    world.whims.apart = world.random.pick(&[30, 95, 99]);
    world.whims.policy = policy;
    let losses = world.random.pick(&[0, 0, 10]);
    world.cluster(losses);
    let steps = 300 + world.random.below(2000);
    for _ in 0..steps {
        if world.random.chance(10) {
            // Threads that looked before files were left alone.
            let at = world.at;
            world.agents[at].memory.files.iter().for_each(|entry| entry.leave_alone(false));
        }
        world.step(true);
        if kills && !world.agents[world.at].is_dead && world.random.below(100) == 0 {
            let at = world.at;
            world.agents[at].dying = Some(world.random.below(8));
        }
        if !world.violations.is_empty() {
            return (world.violations, [0; 3]);
        }
    }
    // Where files stay on flash, those that were used by several.
    let shared = |agent: &world::Agent| match policy {
        Policy::Leaves => agent.overlay.counters().refused_bypassed_total,
        Policy::Commits => agent.overlay.files_shared() as u64,
    };
    let refused: u64 = world.agents.iter().map(shared).sum();
    world.finish();
    let restarts = world.agents.iter().map(|agent| agent.restarts).sum();
    (world.violations, [world.pushes, refused, restarts])
}

fn run_clusters(cases: u64, kills: bool, policy: Policy) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let mut seeds = Random(17);
    let seeds: Vec<u64> = match number("SEED") {
        Some(seed) => vec![seed],
        None => (0..cases * number("CASES").unwrap_or(1)).map(|_| seeds.next()).collect(),
    };
    let mut sums = [0; 3];
    let count = seeds.len() as u64;
    for seed in seeds {
        eprintln!("SEED={seed}");
        let (violations, counts) = run_cluster(seed, kills, policy);
        assert!(violations.is_empty(), "SEED={seed}: {}", violations.join("\n"));
        (0..3).for_each(|at| sums[at] += counts[at]);
    }
    println!("pushed, refused for sharing, restarts: {sums:?}");
    assert!(
        count == 1 || sums[..2].iter().all(|sum| *sum > count / 2),
        "hardly anything was absorbed, or shared: {sums:?}"
    );
    assert!(count == 1 || !kills || sums[2] > count, "hardly an agent was killed: {sums:?}");
}

#[test]
fn reads_are_never_stale_wherever_files_are_used_by_programs_on_several_nodes() {
    run_clusters(40, false, Policy::Leaves);
}

#[test]
fn the_death_of_agents_of_several_nodes_loses_nothing_and_stops_nobody() {
    run_clusters(40, true, Policy::Leaves);
}

#[test]
fn reads_are_never_stale_though_files_that_several_nodes_use_stay_on_flash() {
    run_clusters(200, false, Policy::Commits);
}

#[test]
fn the_death_of_agents_that_order_each_others_commits_loses_nothing_and_stops_nobody() {
    run_clusters(200, true, Policy::Commits);
}

#[test]
fn of_several_agents_those_that_serve_nobody_do_nothing() {
    let mut world = World::of_agents(7, crate::Settings::default(), 3);
    (0..300).for_each(|_| world.step(true));
    world.finish();
    assert!(world.violations.is_empty(), "{:?}", world.violations);
    assert!(world.agents[0].overlay.counters().absorbed_requests_total > 0);
    let idle = |agent: &world::Agent| {
        agent.overlay.is_settled() && agent.overlay.threads() == 0 && agent.data.is_empty() && agent.tasks.is_empty()
    };
    assert!(world.agents[1..].iter().all(idle));
}
