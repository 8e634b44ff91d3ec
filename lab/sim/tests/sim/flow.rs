//! Jobs: order, interference, stopping, phases.

use headstart_sim::scenario::{Job, Policy};
use headstart_sim::{Options, run_programs};
use headstart_units::{KIB, MIB};
use headstart_workload::{Program, Step};

use crate::programs::{Fixed, read, run, scenario, think, write};

fn reader(count: u64) -> Fixed {
    let steps: Vec<Step> = (0..count).map(|k| read(k * 64 * KIB, 64 * KIB)).collect();
    Fixed { files: vec![16 * MIB], ranks: vec![steps; 2] }
}

#[test]
fn an_interfering_job_begins_again_until_the_measured_one_ends_and_slows_it_down() {
    let mut scenario = scenario(Policy::Stock);
    let alone = run(&scenario, &|_, _| Box::new(reader(100)));
    scenario.jobs.push(Job { name: "noise".into(), interfering: true, ..Job::default() });
    scenario.files.gap = Some(headstart_sim::scenario::Size(12_000_000_000));
    let program = |job: usize, _| Box::new(reader(if job == 0 { 100 } else { 7 })) as Box<dyn Program>;
    let report = run(&scenario, &program);
    let [measured, noise] = &report.jobs[..] else { panic!("two jobs") };
    assert!(noise.interfering && noise.rounds > 3, "{noise:?}");
    assert!(report.seconds > 1.1 * alone.seconds, "{} after {}", report.seconds, alone.seconds);
    assert!((report.seconds - measured.seconds).abs() < 1e-9, "what interferes is not measured");
    let end = noise.start_s + noise.seconds;
    assert!(end > report.seconds && end < report.seconds + 1.0, "its last requests outlive the measured job: {end}");
}

#[test]
fn a_job_begins_after_another_and_may_use_its_files() {
    let mut scenario = scenario(Policy::Stock);
    scenario.jobs[0].files = Some("data".into());
    let after = Some("job".to_string());
    scenario.jobs.push(Job { name: "then".into(), after, start_s: 2.0, files: Some("data".into()), ..Job::default() });
    let report = run(&scenario, &|_, _| Box::new(reader(10)));
    let [first, then] = &report.jobs[..] else { panic!("two jobs") };
    assert!((then.start_s - first.seconds - 2.0).abs() < 1e-9, "{then:?}");
    assert!(
        then.seconds < first.seconds,
        "the drives still have what they read ahead: {} and {}",
        then.seconds,
        first.seconds
    );
}

#[test]
fn the_first_rank_that_ends_stops_the_others_where_that_is_wanted() {
    let mut ranks = vec![vec![think(1.0)]];
    ranks.extend((0..3).map(|_| (0..100).flat_map(|k| [read(k * 4096, 4096), think(0.1)]).collect::<Vec<_>>()));
    ranks.push(vec![Step::Barrier, think(5.0)]);
    let program = Fixed { files: vec![MIB], ranks };
    let mut scenario = scenario(Policy::Stock);
    scenario.jobs[0].stonewall = true;
    let report = run(&scenario, &|_, _| Box::new(program.clone()));
    assert!((1.0..1.2).contains(&report.seconds), "{}", report.seconds);
    scenario.jobs[0].stonewall = false;
    scenario.limit_s = Some(3.0);
    let report = run(&scenario, &|_, _| Box::new(program.clone()));
    assert!((3.0..3.2).contains(&report.seconds), "{}", report.seconds);
}

#[test]
fn phases_go_from_mark_to_mark_and_say_who_was_busy_for_how_long() {
    let steps = |rank: f64| {
        vec![Step::Mark(7), think(rank), write(0, 4096), Step::Barrier, Step::Mark(3), read(0, 4096), read(4096, 4096)]
    };
    let program = Fixed { files: vec![MIB], ranks: vec![steps(0.0), steps(1.0)] };
    let report = run(&scenario(Policy::Stock), &|_, _| Box::new(program.clone()));
    let phases = &report.jobs[0].phases;
    let marks: Vec<_> = phases.iter().map(|phase| (phase.mark, phase.reads, phase.writes)).collect();
    assert_eq!(marks, [(Some(7), 0, 2), (Some(3), 4, 0)]);
    assert!(phases[0].seconds > 1.0 && phases[0].rank_s_max < 0.1 && phases[1].seconds < 0.1, "{phases:?}");
}

#[test]
fn what_servers_cache_is_counted_until_it_is_on_the_medium() {
    let mut scenario = scenario(Policy::Stock);
    scenario.disk.cache = headstart_sim::scenario::Size(64 * MIB);
    let steps: Vec<Step> = (0..200).map(|k| write(k * 7919 * 64 * KIB % (900 * MIB), 64 * KIB)).collect();
    let program = Fixed { files: vec![1 << 30], ranks: vec![steps] };
    let report = run(&scenario, &|_, _| Box::new(program.clone()));
    assert!(report.drained_s > report.seconds + 0.005, "{} and {}", report.seconds, report.drained_s);
    scenario.drain = false;
    let report = run(&scenario, &|_, _| Box::new(program.clone()));
    assert_eq!(report.drained_s, report.seconds);
}

#[test]
fn a_wrong_scenario_is_refused_before_anything_runs() {
    let mut scenario = scenario(Policy::Stock);
    scenario.disk.servers = 0;
    let error = run_programs(&scenario, &|_, _| Ok(Box::new(reader(1))), Options::default()).unwrap_err();
    assert!(error.to_string().contains("[disk] servers"), "{error}");
}
