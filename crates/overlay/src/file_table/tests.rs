//! Many files, with a runtime that does what is asked of it at once or a little later.

use std::collections::VecDeque;

use super::*;
use crate::fingerprint::Fingerprint;
use crate::process::Process;
use crate::requests::opening::Opening;
use crate::settings::Settings;
use headstart_protocol::memory::Memory;
use headstart_protocol::message::{Envelope, Request};
use headstart_protocol::shared::FILES_MAX;
use headstart_units::Capacity;

struct Site {
    memory: Memory,
    overlay: Overlay,
    seq: u64,
    tasks: VecDeque<Output>,
    answer: Option<Answer>,
}

impl Site {
    fn new(files: usize) -> Site {
        let settings = Settings { capacity: Capacity::Bytes(1 << 40), slab_bytes_max: 4096, ..Settings::default() };
        let mut overlay = Overlay::new(settings, 0, 1);
        overlay.on_join(0, Process::default());
        Site { memory: Memory::new(files, 1, 64), overlay, seq: 0, tasks: VecDeque::new(), answer: None }
    }

    fn next(&mut self) -> Envelope {
        self.seq += 1;
        Envelope { slot: 0, seq: self.seq }
    }

    fn take_outputs(&mut self) {
        while !self.overlay.is_settled() {
            self.overlay.take_journal();
            let outputs = self.overlay.take_outputs();
            self.overlay.on_appended(self.memory.view());
            for output in outputs {
                match output {
                    Output::Reply(_, answer) => self.answer = Some(answer),
                    task => self.tasks.push_back(task),
                }
            }
        }
    }

    fn do_task(&mut self) -> bool {
        let Some(task) = self.tasks.pop_front() else { return false };
        let shared = self.memory.view();
        match task {
            Output::Copy(order) => self.overlay.on_copy_done(shared, order.id, Ok(())),
            Output::Extend { file, size, .. } => self.overlay.on_extended(shared, file, Ok(size)),
            Output::Barrier { .. } => self.overlay.on_barrier_synced(shared, Ok(())),
            Output::SyncJournal => self.overlay.on_journal_durable(shared, Ok(())),
            _ => {}
        }
        self.take_outputs();
        true
    }

    fn answer(&mut self) -> Answer {
        self.take_outputs();
        while self.answer.is_none() {
            assert!(self.do_task(), "somebody answers");
        }
        self.answer.take().unwrap()
    }

    fn ask(&mut self, request: &Request<'_>) -> Answer {
        let envelope = self.next();
        self.overlay.on_request(self.memory.view(), 0, envelope, request);
        self.answer()
    }

    fn open(&mut self, inode: u64, writable: bool) -> Answer {
        let identity = Identity { inode, birth_ns: 1 };
        while self.overlay.awaits_number(self.memory.view(), identity) {
            assert!(self.do_task(), "a number becomes free");
        }
        let envelope = self.next();
        let observed = Fingerprint { size: 0, modified_ns: 0 };
        let opening = Opening { identity, observed, writable, path: b"/slow/a" };
        self.overlay.on_open(self.memory.view(), envelope, opening);
        self.answer()
    }

    /// Absorbs the first page of a file.
    fn absorb(&mut self, file: u32) {
        let (offset, length) = (0, 4096);
        assert_eq!(self.ask(&Request::Slab { file, offset, length }), Answer::Done);
        let slabs = &self.memory.slots[0].slabs;
        let slab =
            slabs.iter().find(|slab| slab.end.load(Ordering::Relaxed) > 0 && slab.file.load(Ordering::Relaxed) == file);
        let slab = slab.expect("a slab was granted");
        let (data_file, place) = (slab.data_file.load(Ordering::Relaxed), slab.place.load(Ordering::Relaxed));
        assert_eq!(self.ask(&Request::Commit { file, data_file, offset, length, place }), Answer::Done);
    }
}

#[test]
fn a_hundred_thousand_files_written_one_after_another_each_get_a_number() {
    let mut site = Site::new(1024);
    for inode in 0..100_000 {
        let Answer::Opened { file } = site.open(inode, true) else { panic!("file {inode} is not opened") };
        if inode % 3 > 0 {
            site.absorb(file);
        }
        assert_eq!(site.ask(&Request::Close { file }), Answer::Done);
        // Copies and barriers take their time.
        for _ in 0..2 {
            site.do_task();
        }
    }
    while site.do_task() {}
    assert!(site.overlay.files.len() <= 1024 * 3 / 4, "a part is free again: {}", site.overlay.files.len());
    assert!(site.overlay.data_files.count() <= 1024, "so are data files: {}", site.overlay.data_files.count());
}

#[test]
fn a_file_nobody_has_open_and_of_which_nothing_is_on_flash_is_forgotten() {
    let mut site = Site::new(64);
    for inode in 0..1000 {
        let Answer::Opened { file } = site.open(inode, inode % 2 == 0) else { panic!("file {inode} is not opened") };
        assert_eq!(site.ask(&Request::Close { file }), Answer::Done);
        while site.do_task() {}
        assert!(site.overlay.files.len() == 0);
    }
}

#[test]
fn ten_thousand_files_are_open_at_once_and_the_limit_is_named() {
    let mut site = Site::new(FILES_MAX);
    for inode in 0..FILES_MAX as u64 {
        let Answer::Opened { file } = site.open(inode, true) else { panic!("file {inode} is not opened") };
        if inode < 10_000 {
            site.absorb(file);
        }
    }
    let Answer::Error { errno, text } = site.open(FILES_MAX as u64, true) else { panic!("the table is full") };
    assert_eq!(errno, errno::ENFILE);
    assert!(text.contains("16384 files"), "{text}");
    assert_eq!(site.ask(&Request::Close { file: 5 }), Answer::Done);
    assert!(matches!(site.open(FILES_MAX as u64, true), Answer::Opened { .. }), "its bytes went to disk");
}

#[test]
fn a_file_gets_the_next_number_that_can_be_used() {
    let mut site = Site::new(8);
    let shared = site.memory.view();
    assert!(site.overlay.seek_number(shared, |number| number >= 3));
    assert_eq!(*site.overlay.files.next_mut(), 3);
    *site.overlay.files.next_mut() = 5;
    assert!(site.overlay.seek_number(shared, |number| number == 1), "round the table");
    assert_eq!(*site.overlay.files.next_mut(), 1);
    assert!(!site.overlay.seek_number(shared, |_| false));
}
