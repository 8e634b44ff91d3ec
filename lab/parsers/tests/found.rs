//! What fuzzing and reading found, one by one.

use std::sync::atomic::Ordering;

use headstart_overlay::journal::{HEADER_BYTES, Identity, Record};
use headstart_overlay::recovery::{Recovered, Replay};
use headstart_overlay::{Answer, Fingerprint, Opening, Output, Overlay, Process, Settings, errno};
use headstart_policy::client::FetchTurn;
use headstart_protocol::lease::Place;
use headstart_protocol::memory::Memory;
use headstart_protocol::message::{Envelope, Request};
use headstart_units::Capacity;
use headstart_units::request::Range;

use headstart_parsers::hostile;

const IDENTITY: Identity = Identity { inode: 1, birth_ns: 0 };

struct Agent {
    memory: Memory,
    overlay: Overlay,
    seq: u64,
}

impl Agent {
    /// One process in slot 0, with file 0 open.
    fn new(capacity: Capacity, size: u64) -> Agent {
        let settings = Settings { capacity, ..Settings::default() };
        let mut agent =
            Agent { memory: hostile::memory(), overlay: Overlay::new(settings, HEADER_BYTES as u64, 1), seq: 0 };
        agent.overlay.on_join(0, Process { pid: 1, start_time: 1 });
        assert_eq!(agent.open(size, b"/slow/a"), Some(Answer::Opened { file: 0 }));
        agent
    }

    fn open(&mut self, size: u64, path: &[u8]) -> Option<Answer> {
        let (envelope, observed) = (Envelope { slot: 0, seq: 0 }, Fingerprint { size, modified_ns: 0 });
        let opening = Opening { identity: IDENTITY, observed, writable: true, path };
        self.overlay.on_open(self.memory.view(), envelope, opening);
        self.answer()
    }

    fn ask(&mut self, request: Request<'_>) -> Option<Answer> {
        self.seq += 1;
        self.overlay.on_request(self.memory.view(), 1, Envelope { slot: 0, seq: self.seq }, &request);
        self.answer()
    }

    fn answer(&mut self) -> Option<Answer> {
        self.overlay.take_journal();
        self.overlay.on_appended(self.memory.view());
        self.overlay.take_outputs().into_iter().find_map(|output| match output {
            Output::Reply(_, answer) => Some(answer),
            _ => None,
        })
    }
}

fn refuses(answer: Option<Answer>) -> bool {
    matches!(answer, Some(Answer::Error { errno: errno::EPROTO, .. }))
}

#[test]
fn a_slab_that_stands_in_the_slot_but_was_never_granted_holds_no_commit() {
    let mut agent = Agent::new(Capacity::Bytes(1 << 20), 1 << 20);
    let claimed = Place { file: 0, data_file: 1, place: 1 << 40, length: 1 << 20 };
    agent.memory.view().slots[0].show_slab(0, claimed);
    let commit = Request::Commit { file: 0, data_file: 1, offset: 0, length: 4096, place: 1 << 40 };
    assert!(refuses(agent.ask(commit)));
    agent.overlay.on_hang_up(agent.memory.view(), 0, None);
    assert_eq!(agent.overlay.mapped_bytes(), 0);
}

#[test]
fn a_path_longer_than_the_kernels_is_refused_and_a_rename_to_one_changes_nothing() {
    let mut agent = Agent::new(Capacity::Bytes(1 << 20), 0);
    assert!(refuses(agent.open(0, &[b'x'; 70_000])));
    let paths = [b"/slow".as_slice(), &[b'y'; 70_000]].concat();
    assert_eq!(agent.ask(Request::Renamed { old_length: 5, exchanged: false, paths: &paths }), Some(Answer::Done));
    assert_eq!(agent.overlay.path(0), Some(b"/slow/a".as_slice()));
}

#[test]
fn a_hint_of_more_bytes_than_a_call_can_read_fetches_nothing() {
    let mut agent = Agent::new(Capacity::Share(0.5), i64::MAX as u64);
    agent.memory.view().hint(0, 0, Range::new(0, 1 << 62), u64::MAX, FetchTurn::Soon);
    agent.overlay.poll(agent.memory.view());
    assert_eq!(agent.overlay.take_outputs(), vec![]);
}

#[test]
fn a_truncation_to_another_size_than_was_granted_is_refused() {
    let mut agent = Agent::new(Capacity::Share(0.5), 1 << 20);
    assert_eq!(agent.ask(Request::Truncate { file: 0, size: 5 }), Some(Answer::Go));
    let before = agent.overlay.capacity_bytes();
    assert!(refuses(agent.ask(Request::TruncateDone { file: 0, size: 1 << 62, changed: true })));
    assert_eq!(agent.overlay.capacity_bytes(), before);
    assert_eq!(agent.ask(Request::TruncateDone { file: 0, size: 5, changed: true }), Some(Answer::Done));
}

#[test]
fn a_rearrangement_that_was_not_granted_or_of_no_possible_file_is_refused() {
    let mut agent = Agent::new(Capacity::Share(0.5), 1 << 20);
    assert!(refuses(agent.ask(Request::Rearrange { file: 0, from: 1 << 63 })));
    // What was opened is durable first.
    assert_eq!(agent.ask(Request::Rearrange { file: 0, from: 5 }), None);
    let mut granted = None;
    for _ in 0..3 {
        agent.overlay.request_barrier();
        agent.overlay.poll(agent.memory.view());
        agent.overlay.on_barrier_synced(agent.memory.view(), Ok(()));
        agent.overlay.on_journal_durable(agent.memory.view(), Ok(()));
        granted = granted.or_else(|| agent.answer());
    }
    assert_eq!(granted, Some(Answer::Go));
    let before = agent.overlay.capacity_bytes();
    assert!(refuses(agent.ask(Request::RearrangeDone { file: 0, from: 6, size: 9 })));
    assert!(refuses(agent.ask(Request::RearrangeDone { file: 0, from: 5, size: 1 << 63 })));
    assert_eq!(agent.overlay.capacity_bytes(), before);
    assert_eq!(agent.ask(Request::RearrangeDone { file: 0, from: 5, size: 9 }), Some(Answer::Done));
}

#[test]
fn a_granule_of_a_file_of_eight_exbibytes_is_cleared_without_a_walk_over_all_of_it() {
    let mut agent = Agent::new(Capacity::Bytes(1 << 20), i64::MAX as u64);
    let (offset, length) = (1 << 30, 4096);
    assert_eq!(agent.ask(Request::Slab { file: 0, offset, length }), Some(Answer::Done));
    let slab = agent.memory.view().slots[0].slabs[0].read();
    let commit = Request::Commit { file: 0, data_file: slab.data_file, offset, length, place: slab.place };
    assert_eq!(agent.ask(commit), Some(Answer::Done));
    assert_eq!(agent.ask(Request::Write { file: 0, offset, length, extends: false }), Some(Answer::Go));
    assert_eq!(agent.ask(Request::WriteDone { file: 0, offset, length }), Some(Answer::Done));
    for _ in 0..3 {
        agent.overlay.request_barrier();
        agent.overlay.poll(agent.memory.view());
        agent.overlay.on_barrier_synced(agent.memory.view(), Ok(()));
        agent.overlay.on_journal_durable(agent.memory.view(), Ok(()));
    }
    assert_eq!(agent.memory.view().files[0].set_bits.load(Ordering::Relaxed), 0);
}

#[test]
fn records_that_name_no_byte_or_bytes_beyond_all_places_map_nothing_and_others_are_not_plausible() {
    let file = |file| Record::File { file, identity: IDENTITY, path: b"/slow/a".to_vec() };
    let map = |length, place| Record::Map { file: 1, offset: 0, length, data_file: 7, place, slot: 0, seq: 1 };
    let replay = |records: &[Record]| {
        let mut body = Vec::new();
        records.iter().for_each(|record| record.encode(&mut body));
        Recovered::replay(&body, Replay::Everything)
    };
    let nothing = replay(&[file(1), map(0, 4096), map(8192, u64::MAX - 4095)]);
    assert!(nothing.files[&1].map.is_empty());
    let known = replay(&[file(1), map(4096, 4096)]);
    assert!(known.is_plausible(2, |_| 8192));
    assert!(!known.is_plausible(1, |_| 8192), "the file's number is too large");
    assert!(!known.is_plausible(2, |_| 8191), "the data file is too short");
    let last = Record::DataFile { file: 1, data_file: u32::MAX };
    assert!(!replay(&[file(1), last]).is_plausible(2, |_| 8192), "no number is left for the next data file");
}
