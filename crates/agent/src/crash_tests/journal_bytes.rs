//! The journal's files cut at every byte and with every bit flipped: what is found is what some whole records
//! at the beginning say, or an error that names the file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use headstart_overlay::journal::{HEADER_BYTES, records};
use headstart_overlay::recovery::{Recovered, Replay};

use super::world::{FAST, FLASH, RUNTIME};
use super::{Points, for_each_seed, recorded};
use crate::node_files::NodeFiles;
use crate::storage::faulty::{Disk, FaultyStorage};
use crate::store;

fn signature(found: &Recovered) -> String {
    format!("{:?}", (&found.files, &found.data_files, &found.last_commits, &found.untrusted))
}

/// What each number of whole records at the beginning says.
fn prefixes(body: &[u8], replay: Replay) -> BTreeSet<String> {
    let ends = records(body).map(|(_, end)| end as usize - HEADER_BYTES);
    [0].into_iter().chain(ends).map(|end| signature(&Recovered::replay(&body[..end], replay))).collect()
}

fn damaged_everywhere(disk: &Disk, path: &Path, boot: u8, replay: Replay) -> Result<u64, String> {
    let whole = disk.bytes(path).ok_or("there is no journal")?;
    let allowed = prefixes(&whole[HEADER_BYTES..], replay);
    let cuts = (0..whole.len()).map(|length| (format!("cut to {length}"), whole[..length].to_vec()));
    let flips = (0..whole.len() * 8).map(|bit| {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        (format!("bit {bit} flipped"), bytes)
    });
    let mut points = 0;
    for (damage, bytes) in cuts.chain(flips) {
        let mut disk = disk.clone();
        disk.put(path, &bytes);
        let storage = FaultyStorage::new(disk, false, None);
        let text = match store::recover(&storage, &NodeFiles::first(Path::new(FAST)), Path::new(RUNTIME), [boot; 16]) {
            Ok(found) if allowed.contains(&signature(&found.recovered)) => None,
            Ok(found) => Some(format!("{:?} was never so", found.recovered)),
            Err(error) if error.to_string().contains(&path.display().to_string()) => None,
            Err(error) => Some(format!("the error names no file: {error}")),
        };
        if let Some(text) = text {
            return Err(format!("{} {damage}: {text}", path.display()));
        }
        points += 1;
    }
    Ok(points)
}

#[test]
fn a_journal_cut_at_any_byte_or_with_any_bit_flipped_is_read_up_to_there_or_refused() {
    for_each_seed(2, 5, Points { each: 500, all: 3_000 }, |seed| {
        let (mut world, _) = recorded(seed, 120)?;
        world.quiesce();
        let disk = world.storage.disk();
        let journal = PathBuf::from(FLASH).join("journal");
        damaged_everywhere(&disk, &journal, 2, Replay::ToLastBarrier)
    });
}

#[test]
fn a_damaged_copy_in_memory_is_read_up_to_there_or_only_what_is_durable_counts() {
    for_each_seed(2, 6, Points { each: 500, all: 3_000 }, |seed| {
        let (mut world, _) = recorded(seed, 120)?;
        world.quiesce();
        let disk = world.storage.disk();
        let live = PathBuf::from(RUNTIME).join("journal.live");
        let durable = disk.bytes(&PathBuf::from(FLASH).join("journal")).expect("a journal");
        let mut only_durable = disk.clone();
        only_durable.put(&live, b"");
        let found = store::recover(
            &FaultyStorage::new(only_durable, false, None),
            &NodeFiles::first(Path::new(FAST)),
            Path::new(RUNTIME),
            [1; 16],
        );
        let expected = signature(&Recovered::replay(&durable[HEADER_BYTES..], Replay::ToLastBarrier));
        assert_eq!(signature(&found.map_err(|error| error.to_string())?.recovered), expected);
        let whole = disk.bytes(&live).expect("a journal in memory");
        let mut allowed = prefixes(&whole[HEADER_BYTES..], Replay::Everything);
        allowed.insert(expected);
        let mut points = 0;
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut disk = disk.clone();
            disk.put(&live, &bytes);
            let storage = FaultyStorage::new(disk, false, None);
            let found = store::recover(&storage, &NodeFiles::first(Path::new(FAST)), Path::new(RUNTIME), [1; 16]);
            let found = found.map_err(|error| format!("bit {bit}: {error}"))?.recovered;
            if !allowed.contains(&signature(&found)) {
                return Err(format!("bit {bit} flipped: {found:?} was never so"));
            }
            points += 1;
        }
        Ok(points)
    });
}
