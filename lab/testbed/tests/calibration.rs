//! Calibration finds what the models were given: the loads of `calibration::schedule` on emulated devices in
//! virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headstart_insight::calibration::findings;
use headstart_insight::calibration::findings::{Pieces, Striping};
use headstart_insight::calibration::schedule::{Planned, Tier, loads};
use headstart_insight::calibration::{Disk, Flash, Latencies, Load, Measured, Offsets};
use headstart_model::device::config::DeviceConfig;
use headstart_model::device::ssd::{SsdConfig, SsdForm};
use headstart_model::profile::Profile;
use headstart_model::request::Operation;
use headstart_testbed::figures::{Figures, figures};
use headstart_testbed::placement::Region;
use headstart_testbed::servers::{Ask, Servers};
use headstart_units::Nanos;
use headstart_units::request::Direction;

const SPAN: u64 = 10_000_000_000;
const RANKS: u32 = 16;
const ONE_DEVICE: Striping = Striping { servers: 1, stripe_bytes: 65536 };

/// One load, from `now` on; moves `now` to its end.
fn measure(device: &mut Servers, planned: &Planned, seed: u64, now: &mut Nanos) -> Measured {
    let Load { direction, size_bytes, depth, .. } = planned.load;
    let operation = if direction == Direction::Read { Operation::Read } else { Operation::Write };
    let place = Region { first_server: 0, base: 0, bytes: u64::MAX };
    let mut offsets = Offsets::of(planned.load, seed);
    let (begun, mut bytes) = (*now, 0);
    let until = begun + Nanos::from_seconds(planned.seconds);
    // Of each lane: when it issues its next request, and whether that counts.
    let mut ready: BinaryHeap<Reverse<(Nanos, usize, u64, bool)>> = BinaryHeap::new();
    let mut issued = vec![(Nanos::ZERO, false); depth as usize];
    let mut next = |lane: usize, at: Nanos| {
        let step = offsets.next(lane);
        Reverse((at + Nanos(step.pause_ns), lane, step.offset, step.counts))
    };
    (0..depth as usize).for_each(|lane| ready.push(next(lane, *now)));
    let (mut under_way, mut latencies, mut completions) = (0, Vec::new(), Vec::new());
    while under_way > 0 || !ready.is_empty() {
        let issue = ready.peek().map(|Reverse((at, ..))| *at);
        let timer = device.next_timer();
        if issue.is_some_and(|at| timer.is_none_or(|timer| at <= timer)) {
            let Reverse((at, lane, offset, counts)) = ready.pop().expect("a lane is ready");
            *now = at;
            issued[lane] = (at, counts);
            under_way += 1;
            device.on_request(at, lane as u64, Ask { operation, place, offset, length: size_bytes });
            continue;
        }
        *now = timer.expect("requests are under way");
        device.on_timer(*now, &mut completions);
        for done in completions.drain(..) {
            under_way -= 1;
            bytes += size_bytes;
            let (at, counts) = issued[done.id as usize];
            if counts {
                latencies.push(done.at.since(at).0);
            }
            if done.at < until {
                ready.push(next(done.id as usize, done.at));
            }
        }
    }
    Measured { load: planned.load, latencies: Latencies::new(latencies), bytes, elapsed: now.since(begun) }
}

fn measure_all(tier: Tier, profile: &str, time: f64) -> Vec<Measured> {
    let mut device = Servers::single_disk(profile, false).unwrap();
    let mut now = Nanos::ZERO;
    let planned = loads(tier, SPAN, RANKS, true);
    let stretched = planned.iter().map(|planned| Planned { seconds: planned.seconds * time, ..*planned });
    stretched.enumerate().map(|(seed, planned)| measure(&mut device, &planned, seed as u64, &mut now)).collect()
}

#[track_caller]
fn assert_near(what: &str, found: f64, expected: f64, share: f64) {
    println!("{what}: {found:.4} against {expected:.4} ({:+.1} %)", (found / expected - 1.0) * 100.0);
    assert!((found / expected - 1.0).abs() < share, "{what}: {found} against {expected}");
}

#[test]
fn every_disk_is_found_within_5_percent() {
    for profile in ["wd1602", "seagate-250", "nearline-24t"] {
        println!("{profile}");
        let disk = Disk::of(&measure_all(Tier::Slow, profile, 1.0), ONE_DEVICE).unwrap();
        let Figures::Disk {
            p80_ms,
            rate_bytes_per_s,
            knee_bytes,
            startup_ms_min,
            startup_ms_max,
            rotation_ms,
            seek_ms_max,
            ..
        } = figures(profile, SPAN).unwrap()
        else {
            panic!("{profile} is a disk")
        };
        assert_near("p80, ms", disk.p80_s * 1e3, p80_ms, 0.05);
        assert_near("rate", disk.read.sequential_bytes_per_s, rate_bytes_per_s, 0.05);
        assert_near("knee", disk.read.transfer.knee_bytes(), knee_bytes, 0.05);
        assert_near("a, ms", disk.read.startup.min_s * 1e3, startup_ms_min, 0.05);
        assert_near("b, ms", disk.read.startup.max_s * 1e3, startup_ms_max, 0.05);
        assert_near("R, ms", disk.seek.rotation_s * 1e3, rotation_ms, 0.05);
        // S and R are only ever added: what counts is their sum.
        let sum_ms = (disk.seek.longest_s() + disk.seek.rotation_s) * 1e3;
        assert_near("S + R, ms", sum_ms, seek_ms_max + rotation_ms, 0.05);
        let write = disk.write.as_ref().expect("writes were measured");
        assert_near("rate of writes", write.sequential_bytes_per_s, rate_bytes_per_s, 0.05);
        assert_near("1/beta_H", 1.0 / disk.read.s_per_byte, rate_bytes_per_s, 0.05);
        println!("{:?}\n{:?} {:?}", disk.seek.form, disk.read.error, disk.read.transfer.error);
    }
}

#[test]
fn flash_is_found_and_hides_the_positioning_of_every_disk() {
    let fast = measure_all(Tier::Fast, "revodrive-x2", 0.2);
    let flash = Flash::of(&fast, ONE_DEVICE).unwrap();
    let Figures::Flash { read_ms, .. } = figures("revodrive-x2", SPAN).unwrap() else { panic!("a revodrive is flash") };
    assert_near("read, ms", flash.p50_s * 1e3, read_ms, 0.01);
    let DeviceConfig::Ssd(SsdConfig { form: SsdForm::Streams { read, write, .. }, .. }) = Profile::RevodriveX2.device()
    else {
        panic!("a revodrive is told by its streams")
    };
    for (what, found, own) in [("read", &flash.read, read), ("write", flash.write.as_ref().unwrap(), write)] {
        assert_near(&format!("rate of {what}s"), found.peak_bytes_per_s, own.total_bytes_per_s, 0.05);
    }
    let slow = measure_all(Tier::Slow, "wd1602", 0.2);
    let disk = Disk::of(&slow, ONE_DEVICE).unwrap();
    let pieces = Pieces::of(&slow).expect("writes were measured");
    println!("{pieces:?}");
    assert_eq!(
        pieces.leap_bytes(),
        0,
        "a disk that takes many commands at a time is in time for what begins behind a gap"
    );
    assert_eq!(Pieces::of(&fast), None, "nothing is written back to flash");
    let segment = findings::segment(&disk, ONE_DEVICE, &flash);
    println!("{segment:?}");
    assert_eq!((segment.head_bytes, segment.body_bytes), (1 << 20, 4 << 20), "LiU's own choice");
    assert!(segment.hides_positioning(), "{segment:?}");
    for direction in [Direction::Read, Direction::Write] {
        let cells = findings::cells(&slow, &fast, direction, RANKS);
        let (parameters, agree) = findings::s4d(direction, &disk, ONE_DEVICE, ONE_DEVICE, SPAN, &cells).unwrap();
        let priced = &cells.priced;
        println!("{direction:?}: {agree} of {}", priced.len());
        parameters.check().unwrap();
        assert!(!parameters.near_stays, "a disk seeks");
        assert!(priced.len() >= 10 && agree * 10 >= priced.len() * 8, "{priced:?}");
    }
    findings::carl(&disk.read, ONE_DEVICE, &flash.read, ONE_DEVICE, &Default::default()).check().unwrap();
}
