//! The copy in memory where the file system it lies in is full.

use headstart_overlay::Settings;
use headstart_overlay::journal::{Journal, Record, records};

use super::*;
use crate::storage::faulty::{Disk, FaultyStorage, MEMORY};

fn begin(storage: &FaultyStorage, epoch: u64) -> JournalFiles {
    let mut overlay = Overlay::new(Settings::default(), HEADER_BYTES as u64, 1);
    let header = Header { boot_id: [1; 16], epoch };
    JournalFiles::begin(Arc::new(storage.clone()), "/fast/.headstart".into(), live(), header, &mut overlay).unwrap()
}

fn live() -> PathBuf {
    Path::new(MEMORY).join("journal.live")
}

/// Appends records one by one from the `first` on.
fn append(files: &mut JournalFiles, first: u64, count: u64) -> Result<()> {
    let mut journal = Journal::default();
    (first..first + count).try_for_each(|seq| {
        journal.append(&Record::LastCommit { slot: 7, seq });
        files.append(&journal.take())
    })
}

/// Numbers of the records in the copy.
fn appended(storage: &FaultyStorage) -> Vec<u64> {
    let (_, bytes) = read_journal(storage, &live()).unwrap().expect("it is there");
    let seq = |record| if let Record::LastCommit { seq, .. } = record { Some(seq) } else { None };
    records(&bytes[HEADER_BYTES..]).filter_map(|(record, _)| seq(record)).collect()
}

#[test]
fn an_agent_that_starts_on_a_full_tmpfs_keeps_what_the_copy_before_had_in_hand() {
    // The copy before is as long as the new one, or longer by less or more than what is kept.
    for count in [0, 100, 100_000] {
        let storage = FaultyStorage::new(Disk::default(), false, None);
        append(&mut begin(&storage, 1), 0, count).unwrap();
        storage.fill_memory();
        let mut files = begin(&storage, 2);
        assert!(!files.is_short(), "after {count} records");
        assert!(appended(&storage).is_empty(), "what the agent before said is said by the journal");
        append(&mut files, 200_000, 2000).unwrap();
        assert_eq!(appended(&storage), (200_000..202_000).collect::<Vec<_>>());
    }
}
