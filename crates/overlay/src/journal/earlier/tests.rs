//! Both journals in `earlier/` were written by the encoder of format 03: of files on device 65024 and, below a mount,
//! on device 70. In the second one bytes of a file on device 70 are dirty.

use crate::journal::{MAGIC, records};
use crate::recovery::{Recovered, Replay};
use headstart_units::request::Range;

use super::*;

const CLEAN: &str = include_str!("format-03.hex");
const DIRTY: &str = include_str!("format-03-foreign-dirty.hex");
const OWN: u64 = 65024;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn replayed(hex: &str, replay: Replay, is_kept: impl Fn(u64) -> bool) -> Recovered {
    Recovered::replay(&Earlier::find(&bytes(hex)).unwrap().body(is_kept), replay)
}

fn paths(recovered: &Recovered) -> Vec<(u32, &str)> {
    recovered.files.iter().map(|(number, file)| (*number, std::str::from_utf8(&file.path).unwrap())).collect()
}

#[test]
fn files_of_the_directory_come_back_as_they_were_but_for_their_device() {
    let found = replayed(CLEAN, Replay::Everything, |device| device == OWN);
    assert_eq!(paths(&found), [(0, "/slow/renamed"), (1, "/slow/c"), (2, "/slow/b")]);
    let born = |inode| Identity { inode, birth_ns: 1_700_000_000_000_000_000 + inode };
    let identities: Vec<Identity> = found.files.values().map(|file| file.identity).collect();
    assert_eq!(identities, [born(300), born(302), born(301)]);
    let map = &found.files[&0].map;
    let extents: Vec<_> = map.iter().map(|mapped| (mapped.range, mapped.place, mapped.dirty)).collect();
    // The file was open for writing, so that its clean bytes do not count.
    assert_eq!(extents, [(Range::new(0, 4096), 0, true)]);
    assert_eq!(found.data_files.into_iter().collect::<Vec<_>>(), [(1, 0), (3, 2), (4, 1)]);
    assert_eq!(found.last_commits[&2], 42);
}

#[test]
fn a_barrier_covers_the_records_that_it_covered() {
    let found = replayed(CLEAN, Replay::ToLastBarrier, |device| device == OWN);
    assert_eq!(paths(&found), [(0, "/slow/renamed")], "the barrier names the end of the record before the one of b");
    assert_eq!(found.last_commits[&2], 41);
    assert_eq!(found.dirty_bytes(), 8192);
}

#[test]
fn files_on_other_devices_are_read_apart_with_their_data_files_alone() {
    let clean = replayed(CLEAN, Replay::ToLastBarrier, |device| device != OWN);
    assert_eq!((paths(&clean), clean.dirty_bytes()), (vec![(1, "/slow/mount/a")], 0));
    assert_eq!(clean.data_files.into_iter().collect::<Vec<_>>(), [(2, 1)]);
    let dirty = replayed(DIRTY, Replay::Everything, |device| device != OWN);
    assert_eq!((paths(&dirty), dirty.dirty_bytes()), (vec![(3, "/slow/mount/d")], 10));
    let own = replayed(DIRTY, Replay::Everything, |device| device == OWN);
    assert!(!own.files.contains_key(&3) && !own.data_files.contains_key(&5));
}

#[test]
fn one_that_is_cut_or_flipped_anywhere_yields_a_prefix() {
    let whole = bytes(CLEAN);
    let body = |bytes: &[u8]| Earlier::find(bytes).map(|earlier| earlier.body(|device| device == OWN));
    let all: Vec<_> = records(&body(&whole).unwrap()).collect();
    for at in HEADER_BYTES..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        for damaged in [&whole[..at], &flipped] {
            let found: Vec<_> = records(&body(damaged).unwrap()).collect();
            assert!(all.starts_with(&found) && found.len() < all.len(), "byte {at}");
        }
    }
}

#[test]
fn only_a_whole_header_of_format_03_is_taken_for_one() {
    let whole = bytes(CLEAN);
    assert_eq!(Earlier::find(&whole).map(|earlier| earlier.header()), Some(Header { boot_id: [7; 16], epoch: 12 }));
    assert_eq!(Header::decode_any(&whole), Ok(Header { boot_id: [7; 16], epoch: 12 }));
    assert!(Header::decode(&whole).is_err());
    assert!(Earlier::find(&whole[..HEADER_BYTES - 1]).is_none());
    for at in 0..HEADER_BYTES {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        assert!(Earlier::find(&damaged).is_none(), "byte {at}");
        assert!(Header::decode_any(&damaged).is_err(), "byte {at}");
    }
    let now = [MAGIC, &whole[8..]].concat();
    assert!(Earlier::find(&now).is_none());
}
