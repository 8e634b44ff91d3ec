//! The agent's storage, crashed at every operation.

mod history;
pub mod random;
mod ranks;
mod world;

use history::Loss;
use random::Random;
use world::{SlowPath, World, new_disk};

use crate::storage::faulty::{Disk, FaultyStorage, Snapshot};

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

/// Runs the case of each seed; one that fails names its seed.
fn for_each_seed(count: u64, salt: u64, case: impl Fn(u64) -> Result<u64, String> + std::panic::RefUnwindSafe) {
    let mut points = 0;
    for seed in seeds(count, salt) {
        match std::panic::catch_unwind(|| case(seed)) {
            Ok(Ok(more)) => points += more,
            Ok(Err(text)) => panic!("SEED={seed}: {text}"),
            Err(panic) => {
                eprintln!("SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{points} crash points");
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
    println!("{:?}", world.overlay.counters());
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

/// One crash at every operation of a run; at some of them a second one at every operation of the recovery, and at some the
/// agent that recovered goes on, crashes once more, and drains.
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
    for_each_seed(20, 1, |seed| crash_everywhere(seed, Loss::Processes));
}

#[test]
fn nothing_synced_is_lost_and_nothing_foreign_appears_when_the_power_fails_at_any_operation() {
    for_each_seed(20, 2, |seed| crash_everywhere(seed, Loss::Power));
}
