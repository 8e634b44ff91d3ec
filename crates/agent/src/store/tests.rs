//! The store over real files.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headstart_overlay::journal::{HEADER_BYTES, Header, Identity, Journal, Record};
use headstart_overlay::recovery::{Recovered, Replay};
use headstart_overlay::{Output, Settings};
use headstart_protocol::FLASH_DIRECTORY;
use headstart_protocol::shared::{DIRECT_EXTENDS, DIRECT_TRUNCATES};
use headstart_units::request::Range;

use super::recovery::Found;
use super::{Store, claim};
use crate::error::{Error, Result};
use crate::storage::{File, RealStorage};
use crate::tiers::Tiers;

const BOOT: [u8; 16] = [7; 16];

/// A fast directory whose journal names `/slow/a` with ten dirty bytes before a barrier and ten after it.
fn fast(epoch: u64) -> tempfile::TempDir {
    let fast = tempfile::tempdir().unwrap();
    let directory = fast.path().join(FLASH_DIRECTORY);
    std::fs::create_dir(&directory).unwrap();
    let bytes = journal(epoch);
    std::fs::write(directory.join("journal"), &bytes).unwrap();
    fast
}

fn journal(epoch: u64) -> Vec<u8> {
    let mut journal = Journal::at(HEADER_BYTES as u64);
    let map = |offset| Record::Map { file: 1, offset, length: 10, data_file: 1, place: offset, slot: 0, seq: 1 };
    journal.append(&Record::File { file: 1, identity: Identity::default(), path: b"/slow/a".to_vec() });
    journal.append(&map(0));
    let end = journal.end();
    journal.append(&Record::Barrier { end });
    journal.append(&map(100));
    [Header { boot_id: BOOT, epoch }.encode().to_vec(), journal.take()].concat()
}

fn recover(fast: &Path, runtime: &Path, boot_id: [u8; 16]) -> Result<Found> {
    super::recover(&RealStorage, fast, runtime, boot_id)
}

fn dirty_bytes(fast: &Path, runtime: &Path, boot_id: [u8; 16]) -> u64 {
    recover(fast, runtime, boot_id).unwrap().recovered.dirty_bytes()
}

#[test]
fn what_was_appended_counts_only_with_the_memory_file_of_the_same_boot_and_epoch() {
    let (fast, runtime) = (fast(3), tempfile::tempdir().unwrap());
    let live = runtime.path().join("journal.live");
    assert_eq!(dirty_bytes(fast.path(), runtime.path(), BOOT), 10, "it is gone");
    std::fs::write(&live, journal(3)).unwrap();
    assert_eq!(dirty_bytes(fast.path(), runtime.path(), BOOT), 20);
    assert_eq!(dirty_bytes(fast.path(), runtime.path(), [8; 16]), 10, "the machine was started anew");
    std::fs::write(&live, journal(4)).unwrap();
    assert_eq!(
        dirty_bytes(fast.path(), runtime.path(), BOOT),
        20,
        "the next agent died before its journal was in place"
    );
    std::fs::write(&live, journal(2)).unwrap();
    assert_eq!(dirty_bytes(fast.path(), runtime.path(), BOOT), 10, "it is of an earlier agent");
    std::fs::write(&live, b"nonsense").unwrap();
    assert_eq!(dirty_bytes(fast.path(), runtime.path(), BOOT), 10);
}

#[test]
fn a_journal_cut_anywhere_behind_its_header_is_read_up_to_there() {
    let (fast, runtime) = (fast(1), tempfile::tempdir().unwrap());
    let path = fast.path().join(FLASH_DIRECTORY).join("journal");
    let whole = std::fs::read(&path).unwrap();
    for length in HEADER_BYTES..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(dirty_bytes(fast.path(), runtime.path(), BOOT) <= 10);
    }
}

#[test]
fn a_journal_that_cannot_be_read_is_named() {
    let (fast, runtime) = (fast(1), tempfile::tempdir().unwrap());
    let path = fast.path().join(FLASH_DIRECTORY).join("journal");
    for bytes in [&b""[..], b"HSJRNL03", b"HSJRNL01 and more", &[0; 100]] {
        std::fs::write(&path, bytes).unwrap();
        let error = recover(fast.path(), runtime.path(), BOOT).err().unwrap().to_string();
        assert!(error.contains(path.to_str().unwrap()) && error.contains("move it away"), "{error}");
    }
}

#[test]
fn data_files_without_a_journal_are_not_taken_for_rubbish() {
    let (fast, runtime) = (fast(1), tempfile::tempdir().unwrap());
    let directory = fast.path().join(FLASH_DIRECTORY);
    std::fs::remove_file(directory.join("journal")).unwrap();
    assert_eq!(dirty_bytes(fast.path(), runtime.path(), BOOT), 0);
    std::fs::write(directory.join("data.00000001"), b"x").unwrap();
    let error = recover(fast.path(), runtime.path(), BOOT).err().unwrap().to_string();
    assert!(error.contains("missing") && error.contains("data.00000001"), "{error}");
}

#[test]
fn a_journal_that_could_not_be_written_is_written_whole_the_next_time() {
    let (fast, runtime) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _claim = claim(fast.path()).unwrap();
    let shared = crate::shared_file::SharedFile::create(runtime.path(), BOOT, 1).unwrap();
    let (mut store, mut overlay) = Store::begin(
        Arc::new(RealStorage),
        fast.path(),
        runtime.path(),
        BOOT,
        1,
        Settings::default(),
        Recovered::default(),
        shared.view(),
        &BTreeSet::new(),
        16,
    )
    .unwrap();
    let path = fast.path().join(FLASH_DIRECTORY).join("journal");
    let before = std::fs::read(&path).unwrap();
    store.append(b"first").unwrap();
    drop(store.journal_job());
    store.append(b"second").unwrap();
    store.journal_done(false);
    store.append(b"third").unwrap();
    store.journal_job().run().unwrap();
    store.journal_done(true);
    assert_eq!(std::fs::read(&path).unwrap(), [&before[..], b"firstsecondthird"].concat());
    let old = std::fs::read(&path).unwrap();
    assert!(store.rotate(&mut overlay).unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), old, "the old one stays until a barrier");
    drop(store.journal_job());
    store.journal_done(false);
    assert_eq!(std::fs::read(&path).unwrap(), old, "or until one succeeds");
    let in_the_way = runtime.path().join("journal.live.new");
    std::fs::create_dir(&in_the_way).unwrap();
    assert!(!store.rotate(&mut overlay).unwrap(), "another one cannot be begun, and this one is not given up for it");
    std::fs::remove_dir(&in_the_way).unwrap();
    store.journal_job().run().unwrap();
    store.journal_done(true);
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(runtime.path().join("journal.live")).unwrap());
    assert_eq!(recover(fast.path(), runtime.path(), BOOT).unwrap().recovered.dirty_bytes(), 0);
}

/// A thread cut a file of 8192 bytes, of which the third quarter waits on flash, to 4096 bytes, or was about
/// to; then it died, and the agent with it, and nobody else has the file open.
fn size_after_a_truncation(happened: bool) -> u64 {
    let (fast, runtime) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _claim = claim(fast.path()).unwrap();
    let slow = tempfile::NamedTempFile::new().unwrap();
    slow.as_file().set_len(if happened { 4096 } else { 8192 }).unwrap();
    let found = File::attributes(slow.as_file()).unwrap();
    let identity = Identity { device: found.device, inode: found.inode, birth_ns: found.birth_ns };
    let mut journal = Journal::default();
    let path = slow.path().to_str().unwrap().as_bytes().to_vec();
    journal.append(&Record::File { file: 0, identity, path });
    journal.append(&Record::Intent { file: 0 });
    journal.append(&Record::DataFile { file: 0, data_file: 1 });
    journal.append(&Record::Map { file: 0, offset: 4096, length: 2048, data_file: 1, place: 0, slot: 1, seq: 1 });
    let shared = crate::shared_file::SharedFile::create(runtime.path(), BOOT, 1).unwrap();
    let (view, slot) = (shared.view(), &shared.view().slots[0]);
    view.header.slots_used.store(1, Ordering::Relaxed);
    slot.owner_pid.store(1, Ordering::Relaxed);
    slot.grant_direct_write(0, Range::new(4096, u64::MAX), DIRECT_EXTENDS | DIRECT_TRUNCATES);
    let recovered = Recovered::replay(&journal.take(), Replay::Everything);
    let (storage, living) = (Arc::new(RealStorage), BTreeSet::new());
    let settings = Settings::default();
    let (mut store, mut overlay) =
        Store::begin(storage, fast.path(), runtime.path(), BOOT, 2, settings, recovered, view, &living, 16).unwrap();
    let mut tiers = Tiers { overlay: &mut overlay, store: &mut store, shared: view };
    for output in tiers.store_records().unwrap() {
        if matches!(output, Output::Extend { .. }) {
            tiers.carry_out(output).unwrap();
        }
    }
    File::attributes(slow.as_file()).unwrap().size
}

#[test]
fn a_file_that_a_dead_thread_cut_is_not_made_longer_again_for_what_it_cut_off() {
    assert_eq!(size_after_a_truncation(true), 4096);
    assert_eq!(size_after_a_truncation(false), 8192);
}

#[test]
fn two_agents_never_use_one_fast_directory() {
    let fast = tempfile::tempdir().unwrap();
    let first = claim(fast.path()).unwrap();
    assert!(matches!(claim(fast.path()), Err(Error::FlashInUse { .. })));
    drop(first);
    assert!(claim(fast.path()).is_ok());
}
