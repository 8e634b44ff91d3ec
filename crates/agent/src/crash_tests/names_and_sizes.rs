//! A file with bytes on flash alone is removed, renamed or cut, and the crash comes at any storage operation
//! of that: the slow file system has done its part or not, and forgets it or not when the power fails.

use std::path::Path;

use headstart_units::chance::Random;

use super::history::{CELL_BYTES, Loss};
use super::ranks::Operation;
use super::world::{SLOW, World, new_disk};
use super::{crashed, violations};
use crate::storage::faulty::{Disk, FaultyStorage, Snapshot};

/// Ways in which the power may fail at one operation.
const POWER_FAILURES: u64 = 12;

/// A file with dirty bytes, on which a program then did `operation`; what the disk looked like before each
/// storage operation since.
fn recorded(operation: &Operation, synced: bool) -> (World, Vec<Snapshot>) {
    let (disk, files) = new_disk();
    let mut world = World::start(1, FaultyStorage::new(disk, true, None), 1, files, 0).unwrap();
    world.run(0, 0, Operation::Open { writable: true }).unwrap();
    world.run(0, 0, Operation::Write { cells: 0..20, absorb: true }).unwrap();
    if synced {
        world.run(0, 0, Operation::Fsync).unwrap();
    }
    assert!(world.tiers.overlay.dirty_bytes() > 0 || !synced);
    let begun = world.storage.tick();
    world.run(0, 0, operation.clone()).unwrap();
    world.run(0, 0, Operation::Close).unwrap();
    for _ in 0..3 {
        world.tiers.overlay.request_barrier();
        world.poll();
        world.quiesce();
    }
    violations(&world).unwrap();
    let snapshots = world.storage.take_snapshots();
    (world, snapshots.into_iter().filter(|snapshot| snapshot.tick > begun).collect())
}

/// Starts an agent on what is left, reads all files and drains them. A file that has its name holds what it
/// has to, also one that was removed and that the power failure brought back.
fn recovers(world: &World, disk: Disk, tick: u64, loss: Loss) -> Result<(), String> {
    let mut files = world.files.clone();
    let is_gone = name_of(&disk, files[0].inode).is_none();
    files[0].unlinked &= is_gone;
    let boot = 1 + u8::from(loss == Loss::Power);
    let storage = FaultyStorage::new(disk, false, None);
    let mut next = World::start(1, storage, boot, files, world.versions()).map_err(|error| error.to_string())?;
    next.check_contents(tick, loss);
    violations(&next)?;
    next.quiesce();
    next.drain();
    next.check_drained();
    violations(&next).map_err(|text| format!("after a drain: {text}"))
}

fn name_of(disk: &Disk, inode: u64) -> Option<String> {
    let named = disk.list(Path::new(SLOW)).into_iter().find(|path| disk.find(path) == Some(inode));
    named.map(|path| path.display().to_string())
}

/// Crashes everywhere; whether the slow file has its old name and size in each.
fn crash_everywhere(operation: &Operation, synced: bool) -> Vec<bool> {
    let (world, snapshots) = recorded(operation, synced);
    let inode = world.files[0].inode;
    let is = |disk: &Disk| (name_of(disk, inode), name_of(disk, inode).map(|_| disk.inode(inode).now.size));
    let before = is(&snapshots[0].disk);
    let mut seen = Vec::new();
    for snapshot in snapshots {
        for failure in 0..=POWER_FAILURES {
            let loss = if failure == 0 { Loss::Processes } else { Loss::Power };
            let disk = crashed(snapshot.disk.clone(), loss, &mut Random(failure));
            seen.push(is(&disk) == before);
            if let Err(text) = recovers(&world, disk, snapshot.tick, loss) {
                panic!(
                    "{operation:?}, synced {synced}, {loss:?} {failure} before {}, old name and size {:?}: {text}",
                    snapshot.operation,
                    seen.last()
                );
            }
        }
    }
    seen
}

fn crash_everywhere_either_way(operation: &Operation) {
    for synced in [false, true] {
        let seen = crash_everywhere(operation, synced);
        let old = seen.iter().filter(|old| **old).count();
        println!("{operation:?}, synced {synced}: {} crash points, at {old} as before", seen.len());
        assert!(old > 0 && old < seen.len(), "the file system has done its part at some, and not at others");
    }
}

#[test]
fn a_file_with_dirty_bytes_holds_what_it_has_to_under_either_name_when_its_rename_is_interrupted() {
    crash_everywhere_either_way(&Operation::Rename);
}

#[test]
fn a_file_with_dirty_bytes_is_cut_or_not_when_its_truncation_is_interrupted() {
    for cells in [0, 4, 40] {
        crash_everywhere_either_way(&Operation::Truncate(cells * CELL_BYTES));
    }
}

#[test]
fn a_file_with_dirty_bytes_is_gone_or_whole_when_its_removal_is_interrupted() {
    crash_everywhere_either_way(&Operation::Unlink);
}
