//! The agent's storage, crashed at every operation: store, overlay, copies, barriers, rotation, start and
//! recovery over storage in memory that loses what was not synced, with scripted threads and a reference
//! model ([`history`]).
//!
//! A run is recorded with a copy of the disk before every operation that changes it, those of the threads
//! too. Each copy is a crash point: the agent and its threads die there, or the power fails and any part of
//! what was not synced is lost, torn at sectors, or kept alone, bytes, sizes and names alike. An agent starts
//! from what is left, and every file is read. At one point in eight the recovery is crashed again at every
//! operation of its own, both ways, and the agent that recovered goes on with its threads, perhaps crashes
//! once more, and drains. `SEED=n` repeats a case, `CASES=n` runs n times as many. Each test promises a
//! number of crash points ([`Points`]) and fails below it: the two that crash at any operation 34,000
//! together, 1.7 million in `make soak`.
//!
//! Covered: several files, threads that are killed and others in their place, and copies; absorbed and direct
//! writes, reads, fsync, truncation, open, close, unlink, rename; fetches and eviction; rotation; sizes; a
//! second crash; operations after it; every call failing once or from then on with `EIO` or `ENOSPC` (of
//! which `EIO` for good spares memory); starts without room, crashed at every operation; the kernel failing
//! to write what is unsynced; data files closed and opened all the time; both journals cut at every byte and
//! with every bit flipped.
//!
//! Not covered: threads that outlive an agent (its shared file is new here), a copy interrupted by threads
//! between its reading and its writing (core's crash tests do that), several threads in one process, writes
//! that are no multiple of 256 bytes, names of slow files lost or kept apart from each other's, at random
//! what power loss brings back of a removed file (`names_and_sizes` has that), pages that leave the cache
//! between a failed sync, of a program too, and the agent's hearing of it with its own next one, and bits
//! flipped in data files, which nothing on the client detects.

mod history;
mod journal_bytes;
mod names_and_sizes;
mod ranks;
pub(crate) mod rings;
mod world;

use headstart_units::GRANULE_BYTES;
use headstart_units::chance::Random;
use history::{CELL_BYTES, Loss};
use ranks::Operation;
use world::{SlowPath, World, new_disk};

use crate::error::Error;
use crate::storage::faulty::{Disk, Fault, FaultyStorage, Snapshot};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn seeds(count: u64, salt: u64) -> Vec<u64> {
    let mut random = Random(salt);
    match number("SEED") {
        Some(seed) => vec![seed],
        None => (0..count * number("CASES").unwrap_or(1)).map(|_| random.next()).collect(),
    }
}

/// How many crash points a test promises.
struct Points {
    /// Of any case, one of `SEED=` included.
    each: u64,
    /// Of all cases, times `CASES`.
    all: u64,
}

/// Runs the case of each seed; one that fails names its seed. The test fails if it went through fewer crash
/// points than it promises.
fn for_each_seed(
    count: u64,
    salt: u64,
    promised: Points,
    case: impl Fn(u64) -> Result<u64, String> + std::panic::RefUnwindSafe,
) {
    let (mut points, mut least) = (0, u64::MAX);
    for seed in seeds(count, salt) {
        match std::panic::catch_unwind(|| case(seed)) {
            Ok(Ok(more)) => {
                assert!(more >= promised.each, "SEED={seed}: {more} crash points, not {} at least", promised.each);
                (points, least) = (points + more, least.min(more));
            }
            Ok(Err(text)) => panic!("SEED={seed}: {text}"),
            Err(panic) => {
                eprintln!("SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{points} crash points, {least} at least in each case");
    let all = if number("SEED").is_some() { promised.each } else { promised.all * number("CASES").unwrap_or(1) };
    assert!(points >= all, "{points} crash points, not {all} at least");
}

fn violations(world: &World) -> Result<(), String> {
    if world.violations.is_empty() { Ok(()) } else { Err(world.violations.join("\n")) }
}

/// A run without faults whose disk was copied before every operation.
fn recorded(seed: u64, steps: u64) -> Result<(World, Vec<Snapshot>), String> {
    let (disk, files) = new_disk();
    let storage = FaultyStorage::new(disk, true, None);
    let mut world = World::start(seed, storage, 1, files, 0).map_err(|error| error.to_string())?;
    for _ in 0..steps {
        world.step(true);
    }
    violations(&world)?;
    let snapshots = world.storage.take_snapshots();
    Ok((world, snapshots))
}

/// The disk after a crash.
fn crashed(mut disk: Disk, loss: Loss, random: &mut Random) -> Disk {
    disk.evict();
    if loss == Loss::Power {
        disk.lose_power(random);
    }
    disk
}

/// Starts an agent after a crash at `moment` and checks what it finds.
fn recovered(
    seed: u64,
    storage: FaultyStorage,
    boot: u8,
    files: &[SlowPath],
    versions: u32,
    (moment, loss): (u64, Loss),
) -> Result<World, String> {
    let mut world = World::start(seed, storage, boot, files.to_vec(), versions).map_err(|error| error.to_string())?;
    world.check_contents(moment, loss);
    violations(&world)?;
    Ok(world)
}

/// One crash at every operation of a run; at some of them a second one at every operation of the recovery,
/// and at some the agent that recovered goes on, crashes once more, and drains.
fn crash_everywhere(seed: u64, loss: Loss) -> Result<u64, String> {
    let (world, snapshots) = recorded(seed, 400)?;
    let mut points = 0;
    for (at, snapshot) in snapshots.into_iter().enumerate() {
        let mut random = Random(seed ^ at as u64);
        let boot = 1 + u8::from(loss == Loss::Power);
        let twice = at % 8 == (seed % 8) as usize;
        let moment = (snapshot.tick, loss);
        let name = format!("{loss:?} before operation {at}, {}", snapshot.operation);
        let storage = FaultyStorage::new(crashed(snapshot.disk, loss, &mut random), twice, None);
        let mut next = World::start(seed, storage.clone(), boot, world.files.clone(), world.versions())
            .map_err(|error| format!("{name}: {error}"))?;
        if twice {
            let recovery = next.storage.take_snapshots();
            points += crash_recovery(seed, recovery, &world, moment).map_err(|text| format!("{name}: {text}"))?;
        }
        next.check_contents(moment.0, moment.1);
        violations(&next).map_err(|text| format!("{name}: {text}"))?;
        if twice {
            go_on(next, boot).map_err(|text| format!("{name}; going on: {text}"))?;
        }
        points += 1;
    }
    Ok(points)
}

/// A second crash at every operation of a recovery.
fn crash_recovery(seed: u64, snapshots: Vec<Snapshot>, world: &World, moment: (u64, Loss)) -> Result<u64, String> {
    let mut points = 0;
    for (at, snapshot) in snapshots.into_iter().enumerate() {
        for second in [Loss::Processes, Loss::Power] {
            let mut random = Random(seed ^ at as u64);
            let boot = 1 + u8::from(moment.1 == Loss::Power) + u8::from(second == Loss::Power);
            let storage = FaultyStorage::new(crashed(snapshot.disk.clone(), second, &mut random), false, None);
            let loss = if second == Loss::Power { second } else { moment.1 };
            recovered(seed, storage, boot, &world.files, world.versions(), (moment.0, loss))
                .map_err(|text| format!("then {second:?} before operation {at}, {}: {text}", snapshot.operation))?;
            points += 1;
        }
    }
    Ok(points)
}

/// After a recovery the threads go on; then another crash, or everything drains.
fn go_on(mut world: World, boot: u8) -> Result<(), String> {
    for _ in 0..60 {
        world.step(true);
    }
    let loss = world.random.pick(&[None, Some(Loss::Processes), Some(Loss::Power)]);
    if let Some(loss) = loss {
        violations(&world)?;
        let moment = (world.storage.tick(), loss);
        let seed = world.random.next();
        let storage = FaultyStorage::new(crashed(world.storage.disk(), loss, &mut world.random), false, None);
        let boot = boot + u8::from(loss == Loss::Power);
        world = recovered(seed, storage, boot, &world.files, world.versions(), moment)
            .map_err(|text| format!("{loss:?} at its end: {text}"))?;
    }
    world.quiesce();
    world.drain();
    world.check_drained();
    violations(&world).map_err(|text| format!("after {loss:?} at its end and a drain: {text}"))
}

#[test]
fn nothing_acknowledged_is_lost_when_the_agent_dies_at_any_operation() {
    for_each_seed(20, 1, Points { each: 100, all: 18_000 }, |seed| crash_everywhere(seed, Loss::Processes));
}

#[test]
fn nothing_synced_is_lost_and_nothing_foreign_appears_when_the_power_fails_at_any_operation() {
    for_each_seed(20, 2, Points { each: 100, all: 16_000 }, |seed| crash_everywhere(seed, Loss::Power));
}

/// A file's last holders die while one's absorbed bytes beyond its end are acknowledged and the agent waits
/// for another's write before it makes the file as long: what the file looks like in between is nobody's
/// change.
#[test]
fn a_file_that_the_agent_makes_longer_for_the_dead_is_not_changed_by_a_stranger() {
    let (disk, files) = new_disk();
    let mut world = World::start(1, FaultyStorage::new(disk, true, None), 1, files, 0).unwrap();
    for rank in [0, 1] {
        world.run(rank, 0, Operation::Open { writable: true }).unwrap();
    }
    ranks::begin(&mut world, 1, 0, Operation::Write { cells: 0..1, absorb: false });
    (0..2).for_each(|_| assert!(ranks::step(&mut world, 1), "it publishes that it makes the file longer"));
    let far = 1 + GRANULE_BYTES / CELL_BYTES; // else it waits before it is committed
    ranks::begin(&mut world, 0, 0, Operation::Write { cells: far..far + 4, absorb: true });
    while ranks::step(&mut world, 0) {}
    assert!(world.ranks[0].task.is_some(), "the file is not long enough yet");
    world.kill(0);
    world.kill(1);
    let snapshots = world.storage.take_snapshots();
    assert!(snapshots.iter().any(|snapshot| snapshot.operation.contains("size")), "it is made longer");
    for (snapshot, loss) in snapshots.into_iter().flat_map(|it| [(it.clone(), Loss::Processes), (it, Loss::Power)]) {
        let storage = FaultyStorage::new(crashed(snapshot.disk, loss, &mut Random(1)), false, None);
        let boot = 1 + u8::from(loss == Loss::Power);
        let found = recovered(1, storage, boot, &world.files, world.versions(), (snapshot.tick, loss));
        found.map_err(|text| format!("{loss:?} before {}: {text}", snapshot.operation)).unwrap();
    }
}

/// A run in which the call counted `at` fails: nobody waits for ever, errors name their file, and no byte is
/// lost but those of a sync that failed. True once there is no such call.
fn run_with_fault(seed: u64, fault: Fault) -> Result<bool, String> {
    let (disk, files) = new_disk();
    let storage = FaultyStorage::new(disk, false, Some(fault));
    let mut world = match World::start(seed, storage.clone(), 1, files.clone(), 0) {
        Ok(world) => world,
        Err(error) => {
            named(&error)?;
            storage.heal();
            World::start(seed, storage.clone(), 1, files, 0).map_err(|error| format!("after the fault: {error}"))?
        }
    };
    for _ in 0..150 {
        if world.fatal.is_none() {
            world.step(true);
        }
    }
    violations(&world)?;
    let unharmed = storage.heal().is_empty();
    if world.fatal.is_none() {
        world.quiesce();
        // The agent hears of a sync that failed in a program with its own next one.
        world.tiers.overlay.request_barrier();
        world.poll();
        world.quiesce();
        violations(&world)?;
    }
    world.note_failed_syncs();
    storage.evict();
    for loss in [Loss::Processes, Loss::Power] {
        let mut random = Random(seed ^ fault.at);
        let after = FaultyStorage::new(crashed(storage.disk(), loss, &mut random), false, None);
        let boot = 1 + u8::from(loss == Loss::Power);
        let mut next = World::start(seed, after, boot, world.files.clone(), world.versions())
            .map_err(|error| format!("after {loss:?}: {error}"))?;
        next.lossy = world.lossy;
        next.check_contents(storage.tick(), loss);
        violations(&next).map_err(|text| format!("after {loss:?}: {text}"))?;
    }
    if let Some(error) = &world.fatal {
        named(error)?;
        return Ok(unharmed);
    }
    world.drain();
    world.check_drained();
    violations(&world).map_err(|text| format!("at the end: {text}"))?;
    Ok(unharmed)
}

fn named(error: &Error) -> Result<(), String> {
    let text = error.to_string();
    let names =
        [world::FAST, world::RUNTIME, world::SLOW].iter().any(|directory| text.contains(&format!("{directory}/")));
    if names { Ok(()) } else { Err(format!("an error names no file: {text}")) }
}

fn fail_everywhere(seed: u64, fault: Fault) -> Result<u64, String> {
    let mut points = 0;
    for at in 1.. {
        let fault = Fault { at, ..fault };
        if run_with_fault(seed, fault).map_err(|text| format!("{fault:?}: {text}"))? {
            break;
        }
        points += 1;
    }
    Ok(points)
}

fn fail_once_and_for_good(seed: u64, errno: i32) -> Result<u64, String> {
    let fail = |lasting| fail_everywhere(seed, Fault { at: 0, errno, lasting, silent: false });
    Ok(fail(false)? + fail(true)?)
}

#[test]
fn no_byte_is_lost_and_nobody_waits_for_ever_when_any_call_finds_no_space() {
    for_each_seed(8, 3, Points { each: 50, all: 1_600 }, |seed| fail_once_and_for_good(seed, libc::ENOSPC));
}

#[test]
fn only_what_a_sync_failed_for_is_lost_and_fsync_says_so_when_any_call_fails() {
    for_each_seed(8, 4, Points { each: 50, all: 1_600 }, |seed| fail_once_and_for_good(seed, libc::EIO));
}

#[test]
fn what_the_kernel_could_not_write_is_never_vouched_for_whoever_closed_its_file_before_the_sync() {
    for_each_seed(8, 5, Points { each: 20, all: 700 }, |seed| {
        fail_everywhere(seed, Fault { at: 0, errno: libc::EIO, lasting: false, silent: true })
    });
}

/// An agent is killed, and of the next one's start the call counted `at` finds no room; then that one is
/// killed at any operation, or the power fails. True once there is no such call.
fn start_without_room(seed: u64, at: u64, world: &World) -> Result<bool, String> {
    let moment = (world.storage.tick(), Loss::Processes);
    let disk = crashed(world.storage.disk(), moment.1, &mut Random(seed));
    let errno = if seed.is_multiple_of(2) { libc::ENOSPC } else { libc::EDQUOT };
    let fault = Fault { at, errno, lasting: false, silent: false };
    let storage = FaultyStorage::new(disk, true, Some(fault));
    let started = World::start(seed, storage.clone(), 1, world.files.clone(), world.versions());
    let snapshots = storage.take_snapshots();
    let failed = storage.heal();
    if let (Some(call), Err(error)) = (failed.iter().find(|call| call.contains(world::RUNTIME)), &started) {
        return Err(format!("{call} ended the start: {error}"));
    }
    crash_recovery(seed, snapshots, world, moment)?;
    if let Ok(mut next) = started {
        next.check_contents(moment.0, moment.1);
        violations(&next)?;
        go_on(next, 1)?;
    }
    Ok(failed.is_empty())
}

#[test]
fn an_agent_starts_where_memory_has_no_room_for_another_journal_and_nothing_is_lost_whenever_it_dies() {
    for_each_seed(8, 6, Points { each: 10, all: 250 }, |seed| {
        let (world, _) = recorded(seed, 150)?;
        for at in 1.. {
            if start_without_room(seed, at, &world).map_err(|text| format!("call {at}: {text}"))? {
                return Ok(at);
            }
        }
        unreachable!("the calls of a start have an end")
    });
}
