//! The store over real files.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headstart_overlay::journal::{HEADER_BYTES, Header, Identity, Journal, Record};
use headstart_overlay::recovery::{Recovered, Replay};
use headstart_overlay::{Output, Overlay, Settings};
use headstart_protocol::FLASH_DIRECTORY;
use headstart_protocol::shared::{DIRECT_EXTENDS, DIRECT_TRUNCATES, Shared};
use headstart_units::request::Range;

use super::recovery::Found;
use super::{Left, Place, Store, claim};
use crate::error::{Error, Result};
use crate::node_files::NodeFiles;
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
    super::recover(&RealStorage::below(fast).unwrap(), &NodeFiles::first(fast), runtime, boot_id)
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
    for bytes in [&b""[..], b"HSJRNL05", b"HSJRNL04", b"HSJRNL03", b"HSJRNL01 and more", &[0; 100]] {
        std::fs::write(&path, bytes).unwrap();
        let error = recover(fast.path(), runtime.path(), BOOT).err().unwrap().to_string();
        assert!(error.contains(path.to_str().unwrap()) && error.contains("move it away"), "{error}");
    }
}

/// A fast directory with a journal that the encoder of format 03 wrote, of a directory whose file system had
/// device 65024.
fn fast_of_format_03(hex: &str) -> tempfile::TempDir {
    let fast = tempfile::tempdir().unwrap();
    let directory = fast.path().join(FLASH_DIRECTORY);
    std::fs::create_dir(&directory).unwrap();
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    std::fs::write(directory.join("journal"), digits.chunks(2).map(byte).collect::<Vec<u8>>()).unwrap();
    let origin = r#"{"slow":"/slow","inode":2,"birth_ns":3,"devices":[64,65024]}"#;
    std::fs::write(directory.join("slow"), origin).unwrap();
    fast
}

#[test]
fn a_journal_of_the_format_before_is_read_and_the_next_one_has_this_format() {
    let fast = fast_of_format_03(include_str!("../../../overlay/src/journal/earlier/format-03.hex"));
    let runtime = tempfile::tempdir().unwrap();
    let path = fast.path().join(FLASH_DIRECTORY).join("journal");
    let before = std::fs::read(&path).unwrap();
    std::fs::write(runtime.path().join("journal.live"), &before).unwrap();
    let found = recover(fast.path(), runtime.path(), BOOT).unwrap();
    let paths: Vec<_> = found.recovered.files.values().map(|file| file.path.clone()).collect();
    assert_eq!(paths, [&b"/slow/renamed"[..], b"/slow/c", b"/slow/b"]);
    assert_eq!((found.recovered.dirty_bytes(), found.epoch, found.complete), (8192, 12, true));
    assert_eq!(dirty_bytes(fast.path(), runtime.path(), [8; 16]), 8192, "the machine was started anew");
    let shared = crate::shared_file::SharedFile::create(runtime.path(), BOOT, 13).unwrap();
    begin(fast.path(), runtime.path(), 13, found.recovered, shared.view());
    let after = std::fs::read(&path).unwrap();
    assert_eq!((&before[..8], &after[..8]), (&b"HSJRNL03"[..], &b"HSJRNL05"[..]));
    assert_eq!(dirty_bytes(fast.path(), runtime.path(), BOOT), 8192);
}

#[test]
fn one_with_dirty_bytes_of_files_on_other_devices_is_left_to_the_version_that_wrote_it() {
    let fast = fast_of_format_03(include_str!("../../../overlay/src/journal/earlier/format-03-foreign-dirty.hex"));
    let runtime = tempfile::tempdir().unwrap();
    assert_eq!(dirty_bytes(fast.path(), runtime.path(), BOOT), 8192, "they are behind the last barrier");
    let path = fast.path().join(FLASH_DIRECTORY).join("journal");
    std::fs::copy(&path, runtime.path().join("journal.live")).unwrap();
    let error = recover(fast.path(), runtime.path(), BOOT).err().unwrap().to_string();
    assert!(
        error.contains("10 bytes") && error.contains("'headstart drain' with the version that wrote it"),
        "{error}"
    );
}

#[test]
fn a_journal_that_names_data_files_of_another_node_is_refused_and_nothing_of_them_is_touched() {
    let (fast, runtime) = (fast(1), tempfile::tempdir().unwrap());
    let second = NodeFiles::of(fast.path(), 1);
    std::fs::create_dir_all(second.own()).unwrap();
    std::fs::rename(NodeFiles::first(fast.path()).journal(), second.journal()).unwrap();
    let storage = RealStorage::below(fast.path()).unwrap();
    let error = super::recover(&storage, &second, runtime.path(), [1; 16]).err().expect("its numbers are the first's");
    let text = error.to_string();
    assert!(text.contains("another node's number") && text.contains("data.00000001"), "{text}");
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

fn begin(fast: &Path, runtime: &Path, epoch: u64, recovered: Recovered, shared: Shared<'_>) -> (Store, Overlay) {
    let storage = Arc::new(RealStorage::below(fast).unwrap());
    let files = NodeFiles::first(fast);
    let place = Place { storage, files: &files, runtime, data_files_open_max: 16 };
    let left = Left { recovered, shared, living: &BTreeSet::new() };
    Store::begin(place, Header { boot_id: BOOT, epoch }, Settings::default(), left).unwrap()
}

#[test]
fn a_journal_that_could_not_be_written_is_written_whole_the_next_time() {
    let (fast, runtime) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _claim = claim(&NodeFiles::first(fast.path())).unwrap();
    let shared = crate::shared_file::SharedFile::create(runtime.path(), BOOT, 1).unwrap();
    let (mut store, mut overlay) = begin(fast.path(), runtime.path(), 1, Recovered::default(), shared.view());
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
    let _claim = claim(&NodeFiles::first(fast.path())).unwrap();
    let slow = tempfile::NamedTempFile::new().unwrap();
    slow.as_file().set_len(if happened { 4096 } else { 8192 }).unwrap();
    let found = File::attributes(slow.as_file()).unwrap();
    let identity = found.identity();
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
    let storage = Arc::new(RealStorage::below(slow.path().parent().unwrap()).unwrap());
    let files = NodeFiles::first(fast.path());
    let place = Place { storage, files: &files, runtime: runtime.path(), data_files_open_max: 16 };
    let left = Left { recovered, shared: view, living: &BTreeSet::new() };
    let header = Header { boot_id: BOOT, epoch: 2 };
    let (store, overlay) = Store::begin(place, header, Settings::default(), left).unwrap();
    let mut tiers = Tiers::new(overlay, store, shared, u64::MAX);
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
    let first = claim(&NodeFiles::first(fast.path())).unwrap();
    assert!(matches!(claim(&NodeFiles::first(fast.path())), Err(Error::FlashInUse { .. })));
    drop(first);
    assert!(claim(&NodeFiles::first(fast.path())).is_ok());
}
