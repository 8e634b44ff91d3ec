use super::gains::TOP_REGIONS;
use super::*;
use crate::plan::Prediction;
use crate::plan::{Choice, Options, plan};
use headstart_policy::cost::benefit;
use headstart_units::Capacity;
use headstart_units::chance::splitmix64;
use headstart_units::request::{Direction, Range};
use headstart_units::{MIB, Nanos};

fn costs() -> Costs {
    let mut costs = Costs::of_a_test();
    costs.read.ssd_startup_s = 0.0005;
    costs.write.hdd_s_per_byte = 3e-8;
    costs
}

fn critical() -> CriticalCosts {
    let of = benefit::Parameters {
        hdd_servers: 8,
        ssd_servers: 4,
        rotation_s: 0.004,
        seek_s_max: 0.006,
        hdd_s_per_byte: 3e-8,
        ssd_s_per_byte: 2e-7,
        ..benefit::Parameters::default()
    };
    CriticalCosts { read: of.clone(), write: of }
}

fn file(size_mib: u64) -> TracedFile {
    TracedFile { path: "/slow/a".into(), inode: None, size_bytes: Some(size_mib * MIB), region_bytes: MIB }
}

/// A run of so many ranks, each of which asks for `of(rank, step)` and waits 5 to 9 ms for it.
fn run(ranks: u32, steps: u64, of: impl Fn(u64, u64) -> (Direction, Range)) -> Vec<Access> {
    let access = |step: u64, rank: u32| {
        let (direction, range) = of(rank.into(), step);
        let start = step * 10_000_000 + u64::from(rank) * 1000;
        let end = Nanos(start + 5_000_000 + (step * 7 + u64::from(rank)) % 5 * 1_000_000);
        Access { file: 0, rank, direction, range, start: Nanos(start), end, without_flash: true }
    };
    (0..steps).flat_map(|step| (0..ranks).map(move |rank| access(step, rank))).collect()
}

/// Most requests are for the low part of 64 MiB, 8 KiB each.
fn skewed(ranks: u32, steps: u64) -> Vec<Access> {
    run(ranks, steps, |rank, step| {
        let mut seed = rank << 32 | step;
        let random = splitmix64(&mut seed);
        let block = (random % 8192).min(random / 8192 % 8192).min((random >> 40) % 8192);
        let direction = if random >> 62 == 0 { Direction::Write } else { Direction::Read };
        (direction, Range::new(block * 8192, 8192))
    })
}

fn advised(requests: &[Access], size_mib: u64) -> Advice {
    advised_with(requests, size_mib, Software::default())
}

fn advised_with(requests: &[Access], size_mib: u64, software: Software) -> Advice {
    advise(requests.iter().copied(), |_| Some(file(size_mib)), &costs(), &critical(), software).unwrap()
}

fn planned(requests: &[Access], capacity_bytes: u64, choice: Choice) -> Prediction {
    planned_with(requests, capacity_bytes, choice, Software::default())
}

fn planned_with(requests: &[Access], capacity_bytes: u64, choice: Choice, software: Software) -> Prediction {
    let options = Options { capacity: Capacity::Bytes(capacity_bytes), choice, software };
    plan(|| requests.iter().copied(), |_| Some(file(64)), &costs(), options).unwrap().prediction
}

fn curve(advice: &Advice, policy: Policy) -> &Curve {
    advice.curves.iter().find(|curve| curve.policy == policy).unwrap()
}

#[test]
fn each_point_of_carl_and_random_is_exactly_what_a_plan_of_that_capacity_promises() {
    let requests = skewed(16, 400);
    let plain = curve(&advised(&requests, 64), Policy::Carl).points.clone();
    for software in [Software::default(), Software { processors: 2, request_cpu_ms: 2.0, copy_cpu_ms: 1.0 }] {
        let advice = advised_with(&requests, 64, software);
        for (policy, choice) in [(Policy::Carl, Choice::Gain), (Policy::Random, Choice::Random(0))] {
            for point in &curve(&advice, policy).points[1..] {
                let Prediction { before_s, after_s, measured_s, flash_requests, requests, ranks } =
                    planned_with(&requests, point.capacity_bytes, choice, software);
                assert_eq!((advice.disk_s, advice.run.measured_s), (before_s, measured_s));
                assert_eq!((advice.run.requests, advice.run.ranks), (requests, ranks));
                // A share times a count is rounded where the count is not.
                let error = (point.run_s / after_s - 1.0).abs();
                assert!(error < 1e-14, "{policy:?} at {} with {software:?}: {error:e}", point.capacity_bytes);
                assert_eq!(point.flash_share, flash_requests as f64 / requests as f64);
            }
        }
        let (found, plain) = (&curve(&advice, Policy::Carl).points[POINTS - 1], &plain[POINTS - 1]);
        assert_eq!(found.run_s > 1.05 * plain.run_s, software != Software::default(), "all on flash");
    }
}

#[test]
fn requests_over_borders_of_regions_are_cut_as_in_a_plan() {
    let requests = run(8, 300, |rank, step| {
        let mut seed = rank << 32 | step;
        let random = splitmix64(&mut seed);
        let length = [8192, 3 * MIB, 100_000][(random % 3) as usize];
        let offset = ((random >> 8) % (60 * MIB)).min((random >> 34) % (60 * MIB));
        (if step % 5 == 0 { Direction::Write } else { Direction::Read }, Range::new(offset, length))
    });
    let advice = advised(&requests, 64);
    for point in &curve(&advice, Policy::Carl).points[1..] {
        let after_s = planned(&requests, point.capacity_bytes, Choice::Gain).after_s;
        // Latencies of cut requests are rounded at other places.
        assert!((point.run_s / after_s - 1.0).abs() < 1e-4, "{} {after_s}", point.run_s);
    }
}

#[test]
fn groups_of_many_ranks_predict_what_the_ranks_do_one_by_one() {
    let requests = skewed(128, 40);
    let advice = advised(&requests, 64);
    assert_eq!((advice.run.ranks, advice.run.groups), (128, 32));
    for point in &curve(&advice, Policy::Carl).points[1..] {
        let after_s = planned(&requests, point.capacity_bytes, Choice::Gain).after_s;
        // The slowest of a group is taken for its mean: with 40 requests each that is some percent.
        assert!((point.run_s / after_s - 1.0).abs() < 0.05, "{} {after_s}", point.run_s);
    }
}

#[test]
fn more_flash_is_faster_by_gain_than_at_random_and_the_advice_is_at_the_knee() {
    let advice = advised(&skewed(16, 400), 64);
    for policy in [Policy::Carl, Policy::S4d, Policy::CarlS4d, Policy::Random] {
        let run_s: Vec<f64> = curve(&advice, policy).points.iter().map(|point| point.run_s).collect();
        assert_eq!((run_s.len(), run_s[0]), (POINTS, advice.disk_s));
        // Regions may take what writes would have made more of.
        let least = if policy == Policy::CarlS4d { 1.05 } else { 1.03 };
        assert!(run_s.windows(2).all(|pair| pair[1] < pair[0] * least), "{policy:?} {run_s:?}");
        assert!(run_s[POINTS - 1] < 0.5 * run_s[0], "{policy:?} {run_s:?}");
    }
    let at = |policy: Policy, point: usize| curve(&advice, policy).points[point].run_s;
    assert!((2..10).all(|point| at(Policy::Carl, point) < at(Policy::Random, point)));
    let Recommendation { policy, point } = advice.recommendation.unwrap();
    assert!((1..18).contains(&point), "{point}");
    let run_s: Vec<f64> = (0..POINTS).map(|point| at(policy, point)).collect();
    assert!(run_s[point] < 0.8 * run_s[0], "{policy:?} {point} {run_s:?}");
}

#[test]
fn a_first_run_of_s4d_reads_from_disk_what_the_next_one_finds() {
    let requests = run(4, 400, |rank, step| (Direction::Read, Range::new((rank * 400 + step) * 16384, 8192)));
    let advice = advised(&requests, 64);
    let last = |policy: Policy| curve(&advice, policy).points[POINTS - 1];
    assert_eq!(last(Policy::S4dFirst).flash_share, 0.0);
    assert_eq!(last(Policy::S4d).flash_share, 1.0);
    assert!(last(Policy::S4d).run_s < 0.7 * last(Policy::S4dFirst).run_s);
}

#[test]
fn writes_are_absorbed_as_they_fit_and_beyond_that_as_they_are_written_back() {
    let requests = run(32, 500, |rank, step| {
        let place = (rank * 500 + step).wrapping_mul(7919) % 16_000;
        (Direction::Write, Range::new(place * 12_288, 4096))
    });
    let advice = advised(&requests, 200);
    let points = &curve(&advice, Policy::S4dFirst).points;
    assert!(points[1].run_s > 1.1 * points[POINTS - 1].run_s, "they wait for room: {points:?}");
    assert!(points.windows(2).all(|pair| pair[0].run_s >= pair[1].run_s - 1e-9), "{points:?}");
    assert_eq!(points[POINTS - 1].flash_share, 1.0);
    assert!(points.iter().all(|point| point.used_bytes <= point.capacity_bytes.max(1)), "{points:?}");
}

#[test]
fn few_processors_bound_a_run_that_flash_absorbs() {
    let requests =
        run(32, 500, |rank, step| (Direction::Write, Range::new((rank * 500 + step) * 7919 % 16_000 * 12_288, 4096)));
    let run_s_of = |policy: Policy, software: Software| -> Vec<f64> {
        let advice = advise(requests.iter().copied(), |_| Some(file(200)), &costs(), &critical(), software).unwrap();
        curve(&advice, policy).points.iter().map(|point| point.run_s).collect()
    };
    let run_s = |software: Software| run_s_of(Policy::S4dFirst, software);
    let free = run_s(Software::default());
    let bound = run_s(Software { processors: 2, request_cpu_ms: 10.0, copy_cpu_ms: 0.0 });
    let shared = run_s(Software { processors: 2, request_cpu_ms: 10.0, copy_cpu_ms: 10.0 });
    assert_eq!(bound[0], free[0], "none to flash");
    assert!((bound[POINTS - 1] / (16_000.0 * 0.010 / 2.0) - 1.0).abs() < 1e-4, "all to flash: {bound:?}");
    assert!((1..POINTS).all(|point| bound[point] >= free[point] && shared[point] >= bound[point]));
    assert!(shared[1] > 1.1 * bound[1], "they wait for copies: {shared:?}");
    assert!(shared[POINTS - 1] < bound[POINTS - 1] / 0.7, "copies give way: {shared:?}");
    let placed = run_s_of(Policy::Carl, Software { processors: 2, request_cpu_ms: 10.0, copy_cpu_ms: 0.0 });
    assert!((placed[POINTS - 1] / 80.0 - 1.0).abs() < 1e-4, "all in regions: {placed:?}");
}

#[test]
fn large_requests_that_disks_serve_as_soon_get_no_advice() {
    let requests = run(4, 30, |rank, step| (Direction::Read, Range::new((rank * 30 + step) * 8 * MIB, 8 * MIB)));
    let advice = advised(&requests, 1024);
    assert_eq!(advice.recommendation, None);
    assert_eq!((advice.gains.gaining_regions, advice.gains.touched_regions), (0, 960));
    assert!(advice.curves.iter().all(|curve| curve.policy == Policy::Random || curve.knee.is_none()));
}

#[test]
fn runs_without_times_of_one_rank_and_of_no_request_have_advice_too() {
    let mut requests = skewed(1, 500);
    requests.iter_mut().for_each(|access| (access.start, access.end) = (Nanos::ZERO, Nanos::ZERO));
    let advice = advised(&requests, 64);
    assert_eq!((advice.run.measured_s, advice.run.ranks), (None, 1));
    let point = curve(&advice, Policy::Carl).points[10];
    assert_eq!(point.run_s, planned(&requests, point.capacity_bytes, Choice::Gain).after_s);
    let empty = advised(&[], 64);
    assert_eq!((empty.run.requests, empty.recommendation, empty.gains.regions.len()), (0, None, 0));
    let far = run(2, 3, |_, step| (Direction::Read, Range::new((i64::MAX as u64) - 8192 * (step + 1), 8192)));
    let of_far = |_: u32| Some(TracedFile { size_bytes: None, region_bytes: 64 * MIB, ..file(1) });
    let found = advise(far.iter().copied(), of_far, &costs(), &critical(), Software::default()).unwrap();
    assert_eq!((found.run.requests, found.gains.touched_regions), (6, 1));
}

#[test]
fn the_regions_that_gain_most_per_byte_come_first() {
    let advice = advised(&skewed(4, 500), 64);
    assert!(advice.gains.regions.windows(2).all(|pair| pair[0].gain_s >= pair[1].gain_s), "regions are of one size");
    assert_eq!(advice.gains.regions.len(), TOP_REGIONS);
    assert!(advice.gains.gain_steps.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
    let (bytes, gain_s) = *advice.gains.gain_steps.last().unwrap();
    assert_eq!((bytes, gain_s), (advice.gains.gaining_regions * MIB, advice.gains.gain_s));
    assert!((advice.files[0].gain_s / gain_s - 1.0).abs() < 1e-9);
}
