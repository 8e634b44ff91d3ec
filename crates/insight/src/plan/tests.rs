//! Plans from small traces, and plans that make no sense.

use super::*;
use crate::software::Software;
use headstart_policy::client::{Decision, FetchTurn, Policy};
use headstart_policy::cost::region::Costs;
use headstart_policy::cost::region::Parameters;
use headstart_units::Capacity;
use headstart_units::request::{Access, Direction, Range};
use headstart_units::{MIB, Nanos};

fn costs() -> Costs {
    let read =
        Parameters { hdd_s_per_byte: 1e-8, ssd_s_per_byte: 2e-8, ssd_startup_s: 0.0005, ..Costs::of_a_test().read };
    Costs { write: read.clone(), read }
}

fn file(path: &str, size_bytes: Option<u64>) -> TracedFile {
    TracedFile { path: path.into(), inode: None, size_bytes, region_bytes: MIB }
}

/// Each of `ranks` reads 8 KiB at `offset(rank, step)` of `file`, for 8 ms, and thinks for 1 ms.
fn reads(file: u32, ranks: u32, steps: u64, offset: impl Fn(u32, u64) -> u64) -> Vec<Access> {
    let access = |rank, step| Access {
        file,
        rank,
        direction: Direction::Read,
        range: Range::new(offset(rank, step), 8192),
        start: Nanos(step * 9_000_000),
        end: Nanos(step * 9_000_000 + 8_000_000),
        without_flash: true,
    };
    (0..steps)
        .flat_map(|step| (0..ranks).map(move |rank| (rank, step)))
        .map(|(rank, step)| access(rank, step))
        .collect()
}

fn planned(requests: &[Access], files: &[TracedFile], capacity: Capacity) -> Result<Plan, PlanningError> {
    plan(
        || requests.iter().copied(),
        |number| files.get(number as usize).cloned(),
        &costs(),
        Options { capacity, choice: Choice::Gain, software: Software::default() },
    )
}

#[test]
fn the_regions_with_the_highest_gains_of_all_files_are_placed() {
    let mut requests = reads(0, 4, 100, |_, step| step % 3 * 8 * MIB);
    requests.extend(reads(1, 4, 200, |_, _| 5 * MIB + 4096));
    let files = [file("a", Some(20 * MIB)), file("b", Some(5 * MIB + 100_000))];
    let plan = planned(&requests, &files, Capacity::Bytes(2 * MIB)).unwrap();
    plan.check().unwrap();
    assert_eq!(plan.placed_bytes(), MIB + 25 * 4096, "the last region of b is short");
    let last = &plan.files[1].regions[0];
    assert_eq!((last.range, last.place, last.reads), (Range::new(5 * MIB, 100_000), true, 800));
    let placed: Vec<u64> = plan.files[0].regions.iter().filter(|r| r.place).map(|r| r.range.offset).collect();
    assert_eq!(placed, [0], "of equal ones the first");
    assert_eq!(plan.files[0].regions.iter().map(|r| r.reads).sum::<u64>(), 400);
    let wanted = plan.files[0].wanted();
    let request = headstart_policy::client::Request {
        direction: Direction::Read,
        range: Range::new(100, 8192),
        distance: Default::default(),
    };
    let mean_ns = plan.files[0].regions[0].gain_ns as u64 / plan.files[0].regions[0].reads;
    assert_eq!(wanted.on_request(&request), Decision::Fetch { benefit_ns: mean_ns, turn: FetchTurn::Soon });
}

/// Two ranks write side by side in order, then both here and there: only the latter is worth flash where what
/// follows stays.
#[test]
fn writes_that_follow_each_other_gain_nothing_where_they_stay_on_the_disks() {
    let in_order = reads(0, 2, 100, |rank, step| (2 * step + u64::from(rank)) * 8192);
    let here_and_there = reads(1, 2, 100, |_, step| step * 7919 % 100 * 16 * MIB);
    let writes: Vec<Access> = in_order
        .into_iter()
        .chain(here_and_there)
        .map(|access| Access { direction: Direction::Write, ..access })
        .collect();
    let gains = |near_stays| {
        let mut costs = costs();
        costs.write.near_stays = near_stays;
        let options = Options { capacity: Capacity::Share(1.0), choice: Choice::Gain, software: Software::default() };
        let files = [file("a", None), file("b", None)];
        let plan =
            plan(|| writes.iter().copied(), |number| files.get(number as usize).cloned(), &costs, options).unwrap();
        let sum = |file: &PlanFile| {
            assert_eq!(file.regions.iter().map(|region| region.writes).sum::<u64>() / 2, 100, "all are counted");
            file.regions.iter().map(|region| region.gain_ns).sum::<i64>()
        };
        let [a, b] = [sum(&plan.files[0]), sum(&plan.files[1])];
        (a, b, plan.files[0].regions.iter().any(|region| region.place))
    };
    let (all, stays) = (gains(false), gains(true));
    assert!(all.0 > 0 && all.2);
    assert_eq!((stays.0, stays.2), (0, false));
    assert!(stays.1 > all.1 * 9 / 10, "all but those that may begin a sequence");
}

/// Sixteen ranks write piece by piece together, then the same ones with gaps: what servers join gains nothing
/// where that stays.
#[test]
fn interleaved_writes_gain_nothing_where_they_stay_on_the_disks() {
    let together = reads(0, 16, 400, |rank, step| (16 * step + u64::from(rank)) * 8192);
    let with_gaps = reads(1, 16, 400, |rank, step| (16 * step + u64::from(rank)) * 9216);
    let writes: Vec<Access> =
        together.into_iter().chain(with_gaps).map(|access| Access { direction: Direction::Write, ..access }).collect();
    let gains = |interleaved_stays| {
        let mut costs = costs();
        costs.write.interleaved_stays = interleaved_stays;
        let options = Options { capacity: Capacity::Share(1.0), choice: Choice::Gain, software: Software::default() };
        let files = [file("a", None), file("b", None)];
        let plan =
            plan(|| writes.iter().copied(), |number| files.get(number as usize).cloned(), &costs, options).unwrap();
        [0, 1].map(|file: usize| plan.files[file].regions.iter().map(|region| region.gain_ns).sum::<i64>())
    };
    let (all, stays) = (gains(false), gains(true));
    assert!(stays[0] > 0 && stays[0] < all[0] / 20, "{} of {}: until it is known", stays[0], all[0]);
    assert_eq!(stays[1], all[1]);
}

#[test]
fn a_share_is_one_of_the_sizes_of_all_files_and_an_unknown_size_is_the_last_requests_end() {
    let mut requests = reads(0, 2, 50, |_, step| step % 10 * MIB);
    let plan = planned(&requests, &[file("a", None)], Capacity::Share(0.5)).unwrap();
    assert_eq!(plan.files[0].size_bytes, 9 * MIB + 8192);
    assert_eq!(plan.capacity_bytes, (9 * MIB + 8192) / 2);
    requests.extend(reads(1, 1, 1, |_, _| 0));
    let of_both = planned(&requests, &[file("a", None), file("b", Some(MIB))], Capacity::Share(0.5)).unwrap();
    assert_eq!(of_both.capacity_bytes, (10 * MIB + 8192) / 2);
}

#[test]
fn requests_beyond_the_end_of_a_file_are_of_no_region() {
    let plan =
        planned(&reads(0, 1, 10, |_, step| step * MIB), &[file("a", Some(3 * MIB))], Capacity::Share(1.0)).unwrap();
    assert_eq!(plan.files[0].regions.len(), 3);
    plan.check().unwrap();
}

#[test]
fn a_random_plan_draws_from_untouched_regions_as_well() {
    let requests = reads(0, 1, 10, |_, _| 0);
    let options =
        Options { capacity: Capacity::Bytes(4 * MIB), choice: Choice::Random(1), software: Software::default() };
    let plan = plan(|| requests.iter().copied(), |_| Some(file("a", Some(32 * MIB))), &costs(), options).unwrap();
    plan.check().unwrap();
    assert_eq!(plan.placed_bytes(), 4 * MIB);
    assert!(plan.files[0].regions.iter().any(|region| region.place && region.reads == 0 && region.gain_ns == 0));
}

#[test]
fn regions_are_whole_pages() {
    let traced = TracedFile { region_bytes: 10_000, ..file("a", Some(MIB)) };
    let plan = planned(&reads(0, 1, 10, |_, step| step * 8192), &[traced], Capacity::Share(1.0)).unwrap();
    assert!(plan.files[0].regions.iter().all(|region| region.range.offset % 8192 == 0));
}

#[test]
fn a_plan_of_nothing_is_empty() {
    let plan = planned(&[], &[file("a", Some(MIB))], Capacity::Share(0.2)).unwrap();
    assert_eq!((plan.placed_bytes(), plan.prediction), (0, Prediction::default()));
    assert_eq!(planned(&[], &[], Capacity::Share(0.2)).unwrap().files, []);
}

#[test]
fn with_everything_on_flash_a_run_takes_its_think_time_and_what_flash_takes() {
    // One rank: 100 times 1 ms of thinking but for the last, 0.5 ms of startup and 8192 bytes at 20 ns.
    let plan = planned(&reads(0, 1, 100, |_, _| 0), &[file("a", Some(MIB))], Capacity::Share(1.0)).unwrap();
    let Prediction { measured_s, before_s, after_s, flash_requests, .. } = plan.prediction;
    assert_eq!((measured_s, before_s, flash_requests), (Some(0.899), 0.899, 100));
    assert!((after_s - (0.099 + 100.0 * (0.0005 + 8192.0 * 2e-8))).abs() < 1e-9, "{after_s}");
}

#[test]
fn with_nothing_on_flash_a_run_takes_what_it_took() {
    let requests = reads(0, 16, 300, |rank, step| (u64::from(rank) * 7 + step * 13) % 509 * 65536);
    let plan = planned(&requests, &[file("a", Some(32 * MIB))], Capacity::Bytes(0)).unwrap();
    let Prediction { before_s, after_s, .. } = plan.prediction;
    assert!((after_s / before_s - 1.0).abs() < 0.02, "{before_s} {after_s}");
}

#[test]
fn a_trace_without_times_is_predicted_from_the_parameters() {
    let mut requests = reads(0, 8, 200, |rank, step| (u64::from(rank) * 5 + step * 3) % 32 * MIB);
    requests.iter_mut().for_each(|access| (access.start, access.end) = (Nanos::ZERO, Nanos::ZERO));
    let plan = planned(&requests, &[file("a", Some(32 * MIB))], Capacity::Share(0.5)).unwrap();
    let Prediction { measured_s, before_s, after_s, .. } = plan.prediction;
    assert_eq!(measured_s, None);
    // Every offset is a multiple of 16 stripes: one disk serves all 1600 requests, each in 6 ms and 10 ns a byte.
    assert!((before_s / (1600.0 * (0.006 + 8192.0 * 1e-8)) - 1.0).abs() < 0.01, "{before_s}");
    assert!(after_s > 0.5 * before_s && after_s < 0.6 * before_s, "{after_s}");
}

#[test]
fn what_makes_no_plan_is_told() {
    let one = reads(0, 1, 1, |_, _| 0);
    let failure = |requests: &[Access], traced: TracedFile| {
        planned(requests, &[traced], Capacity::Share(0.2)).unwrap_err().to_string()
    };
    assert!(failure(&reads(3, 1, 1, |_, _| 0), file("a", None)).contains("file 3"));
    assert!(failure(&reads(0, 1, 1, |_, _| u64::MAX - 5), file("a", None)).contains("impossible"));
    assert!(failure(&one, TracedFile { region_bytes: 100, ..file("a", None) }).contains("too small"));
    let sparse = reads(0, 1, 2, |_, step| step << 40);
    let fine = TracedFile { region_bytes: 4096, ..file("a", None) };
    assert_eq!(planned(&sparse, std::slice::from_ref(&fine), Capacity::Share(0.2)).unwrap().files[0].regions.len(), 4);
    let long = [Access { range: Range::new(0, 1 << 50), ..one[0] }];
    assert!(failure(&long, fine.clone()).contains("more than 1048576 regions"));
    let options = Options { capacity: Capacity::Share(0.2), choice: Choice::Random(1), software: Software::default() };
    let all = plan(|| sparse.iter().copied(), |_| Some(fine.clone()), &costs(), options).unwrap_err();
    assert!(all.to_string().contains("choose larger"));
    let mut senseless = costs();
    senseless.write.hdd_servers = 0;
    let error = plan(|| one.iter().copied(), |_| None, &senseless, options).unwrap_err().to_string();
    assert!(error.contains("writes") && error.contains("hdd_servers"), "{error}");
}

#[test]
fn a_plan_that_makes_no_sense_names_file_and_region() {
    let good = planned(&reads(0, 2, 50, |_, step| step % 4 * MIB), &[file("a", None)], Capacity::Share(0.5)).unwrap();
    let error = |change: fn(&mut Plan)| {
        let mut plan = good.clone();
        change(&mut plan);
        plan.check().unwrap_err().to_string()
    };
    let overlapping = error(|plan| plan.files[0].regions[1].range.offset -= 1);
    assert_eq!(overlapping, "region at 1048575 of a: it overlaps the region at 0 of 1048576 bytes");
    assert!(error(|plan| plan.files[0].regions[3].range.offset = u64::MAX - MIB).contains("beyond the file's"));
    assert!(
        error(|plan| plan.files[0].regions[2].range.length = 0).contains("region at 2097152 of a: it has no bytes")
    );
    assert!(error(|plan| plan.files[0].size_bytes = u64::MAX).contains("2^63"));
    assert!(error(|plan| plan.files.push(plan.files[0].clone())).contains("a: the file is there twice"));
    assert!(error(|plan| plan.files[0].path.clear()).contains("no path"));
    let same_inode = error(|plan| {
        plan.files[0].inode = Some(7);
        plan.files.push(PlanFile { path: "b".into(), ..plan.files[0].clone() });
    });
    assert!(same_inode.contains("b: it has the inode of a"), "{same_inode}");
}
