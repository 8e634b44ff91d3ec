//! Data files that are closed and opened under storage whose kernel forgets errors together with the inode.

use super::*;
use crate::storage::Storage;
use crate::storage::faulty::{Disk, FaultyStorage};

const FLASH: &str = "/fast/.headstart";

/// Data files 1 to 3, of which one may be open at a time, all synced.
fn data_files() -> (FaultyStorage, DataFiles) {
    let storage = FaultyStorage::new(Disk::default(), false, None);
    let shared = Arc::new(storage.clone());
    let place = NodeFiles::first(Path::new("/fast"));
    let mut files = DataFiles::open_recovered(shared, place, &mut Recovered::default(), 1).unwrap();
    for number in 1..=3 {
        files.grow(number, 4096).unwrap();
    }
    (storage, files)
}

/// A program writes the file, and closes it once its commit is answered.
fn write(storage: &FaultyStorage, files: &mut DataFiles, number: u32) {
    let file = storage.open(&files.path(number), Access::Existing).unwrap();
    file.write_at(&[1; 4096], 0).unwrap();
    files.written(number);
}

/// A barrier: what it could not sync.
fn barrier(files: &mut DataFiles, named: &[u32]) -> NotSynced {
    let mut failed = NotSynced::default();
    for (number, job) in files.begin_sync(named) {
        match job {
            DataSync::Open(file) if file.sync(Scope::Data).is_ok() => {}
            DataSync::NotOpened => failed.data_files_untried.push(number),
            _ => failed.data_files.push(number),
        }
    }
    files.not_synced(&failed);
    failed
}

/// What is open; calls of others pass meanwhile.
fn open(storage: &FaultyStorage, files: &DataFiles) -> Vec<u32> {
    storage.list(Path::new(FLASH)).unwrap();
    files.by_use.values().copied().collect()
}

fn lost(numbers: &[u32]) -> NotSynced {
    NotSynced { data_files: numbers.to_vec(), ..NotSynced::default() }
}

#[test]
fn files_beyond_the_limit_are_closed_and_opened_again() {
    let (storage, mut files) = data_files();
    assert_eq!(open(&storage, &files), [3]);
    let (first, second) = (files.get(1).unwrap(), files.get(2).unwrap());
    assert_eq!(open(&storage, &files), [1, 2], "what a job uses stays open");
    drop((first, second));
    files.get(3).unwrap();
    assert_eq!(open(&storage, &files), [3]);
}

#[test]
fn a_file_that_was_written_is_synced_before_it_is_closed_and_the_barrier_tells_of_the_failure() {
    let (storage, mut files) = data_files();
    write(&storage, &mut files, 1);
    storage.fail_to_write(&files.path(1));
    write(&storage, &mut files, 2);
    assert_eq!(open(&storage, &files), [2]);
    assert_eq!(barrier(&mut files, &[1, 2]), lost(&[1]));
    assert_eq!(barrier(&mut files, &[2]), NotSynced::default(), "once");
    write(&storage, &mut files, 3);
    write(&storage, &mut files, 1);
    assert_eq!(barrier(&mut files, &[1, 3]), NotSynced::default());
}

#[test]
fn a_file_that_was_closed_is_open_again_from_the_commit_to_the_sync() {
    let (storage, mut files) = data_files();
    assert_eq!(open(&storage, &files), [3]);
    write(&storage, &mut files, 1);
    assert_eq!(open(&storage, &files), [1]);
    storage.fail_to_write(&files.path(1));
    assert_eq!(open(&storage, &files), [1], "nobody else has it open");
    assert_eq!(barrier(&mut files, &[1]), lost(&[1]));
}

#[test]
fn a_file_that_cannot_be_opened_is_not_given_up_but_tried_again() {
    let (storage, mut files) = data_files();
    let file = storage.open(&files.path(1), Access::Existing).unwrap();
    file.write_at(&[1; 4096], 0).unwrap();
    storage.fail_next(libc::EMFILE);
    files.written(1);
    storage.fail_next(libc::EMFILE);
    let untried = NotSynced { data_files_untried: vec![1], ..NotSynced::default() };
    assert_eq!(barrier(&mut files, &[1]), untried);
    storage.fail_to_write(&files.path(1));
    assert_eq!(barrier(&mut files, &[1]), lost(&[1]));
}

#[test]
fn a_file_that_a_fetch_writes_is_unsynced_until_a_sync_begins_after_it() {
    let (storage, mut files) = data_files();
    let fetched = files.begin_fetch(7, 1).unwrap();
    assert_eq!(barrier(&mut files, &[]), NotSynced::default());
    fetched.write_at(&[1; 4096], 0).unwrap();
    drop(fetched);
    files.get(2).unwrap();
    assert!(open(&storage, &files).contains(&1), "its completion is not known yet");
    storage.fail_to_write(&files.path(1));
    files.end_fetch(7);
    files.get(3).unwrap();
    assert_eq!(barrier(&mut files, &[1]), lost(&[1]));
}

#[test]
fn a_barrier_is_wanted_before_files_are_synced_to_be_closed() {
    let (storage, mut files) = data_files();
    files.open_max = 4;
    for number in 1..=3 {
        assert!(!files.want_barrier());
        write(&storage, &mut files, number);
    }
    files.grow(4, 4096).unwrap();
    write(&storage, &mut files, 4);
    assert!(files.want_barrier());
    barrier(&mut files, &[1, 2, 3, 4]);
    assert!(!files.want_barrier());
}
