//! Writes that are answered before the disk has them, through the real event loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headstart_block::devices::Device;
use headstart_units::request::Range;
use headstart_volume::block::{Block, Buffer, Request};
use headstart_volume::device::DeviceName;
use headstart_volume::export::ending;
use headstart_volume::export::opening::{Wishes, open};
use headstart_volume::server::{Backing, Handle, Server};
use headstart_volume::settings::{Mode, PolicyName, Settings};
use headstart_volume::storage::faulty::{Faults, Faulty, Plan};
use headstart_volume::storage::memory::{Media, Memory};
use headstart_volume::storage::{Action, Completion, Opener, Operation, Storage};

use crate::bench::{Files, backing, filled, flash_bytes, memory_with_heads, settings};

const DISK_BYTES: u64 = 1 << 20;
const HOLD_BYTES: u64 = 256 << 10;

/// Devices whose disk writes nothing until it is let.
struct Gated {
    inner: Memory,
    is_open: Arc<AtomicBool>,
    kept: Vec<Operation>,
}

impl Storage for Gated {
    fn submit(&mut self, operation: Operation) {
        let is_write = operation.device == Device::Disk && matches!(operation.action, Action::Write(_));
        if is_write && !self.is_open.load(Ordering::SeqCst) {
            self.kept.push(operation);
        } else {
            self.inner.submit(operation);
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        if self.is_open.load(Ordering::SeqCst) {
            self.kept.drain(..).for_each(|operation| self.inner.submit(operation));
        }
        self.inner.wait(timeout);
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        self.inner.reap(completions);
    }

    fn description(&self) -> String {
        "memory behind a gate".to_owned()
    }
}

/// LiU that holds writes, on a disk that holds sevens and does not write.
fn gated() -> (Server, Media, Arc<AtomicBool>) {
    let (media, given) = memory_with_heads(vec![7; DISK_BYTES as usize], flash_bytes(60));
    let (storage, is_open) = (media.clone(), Arc::new(AtomicBool::new(false)));
    let gate = Arc::clone(&is_open);
    let backing = Backing {
        open: Box::new(move |bell| {
            Ok(Box::new(Gated { inner: Memory::new(storage, bell), is_open: gate, kept: Vec::new() }))
        }),
        ..backing(&media, given)
    };
    (Server::start_on(backing, holding()).expect("it is served"), media, is_open)
}

fn holding() -> Settings {
    Settings { mode: Mode::WriteBack, policy: PolicyName::Liu, hold_bytes: HOLD_BYTES, ..settings() }
}

/// Submits a request whose answer comes here.
fn submit(handle: &Handle, request: Request) -> Receiver<std::io::Result<Buffer>> {
    let (sender, receiver) = channel();
    handle.submit(request, Box::new(move |result| drop(sender.send(result))));
    receiver
}

#[test]
fn the_data_of_a_write_that_was_answered_are_nobody_else_s_until_the_disk_has_them() {
    let (server, media, is_open) = gated();
    let handle = server.handle();
    let place = |index: u64| 65536 + index * 16384;
    for index in 0..12 {
        // The memory that a user has now may be what others had before; they have been answered.
        let mut data = handle.buffer(8192);
        data.fill(20 + index as u8);
        handle.call(Request::Write { offset: place(index), data, fua: false }).expect("it is answered");
        handle.recycle(filled(8192, 99));
    }
    let status = handle.status().unwrap();
    assert_eq!((status.held_bytes, status.requests_waiting, status.lost_bytes), (12 * 8192, 0, 0));
    assert_eq!((status.requests.write.requests_total, status.counters.early_writes_total), (12, 12));
    assert!(media.bytes(Device::Disk)[place(0) as usize..].iter().take(8192).all(|byte| *byte == 7));
    let read = submit(&handle, Request::Read(Range::new(place(3) + 512, 1024)));
    let flush = submit(&handle, Request::Flush);
    assert_eq!(handle.status().unwrap().requests_waiting, 2);
    assert!(matches!((read.try_recv(), flush.try_recv()), (Err(TryRecvError::Empty), Err(TryRecvError::Empty))));
    is_open.store(true, Ordering::SeqCst);
    handle.status().unwrap();
    assert_eq!(read.recv().unwrap().expect("it is read")[..], [23; 1024]);
    flush.recv().unwrap().expect("it is flushed");
    assert_eq!(handle.status().unwrap().held_bytes, 0);
    for index in 0..12 {
        let bytes = media.bytes(Device::Disk);
        assert!(bytes[place(index) as usize..].iter().take(8192).all(|byte| *byte == 20 + index as u8), "{index}");
    }
    server.stop(false).unwrap();
}

#[test]
fn a_server_that_ends_says_what_it_answered_and_neither_device_took() {
    let (media, given) = memory_with_heads(vec![7; DISK_BYTES as usize], flash_bytes(60));
    let faults = Faults::new(Plan::default(), 1, Box::new(media.clone()));
    let (storage, of_storage) = (media.clone(), faults.clone());
    let open: Opener =
        Box::new(move |bell| Ok(Box::new(Faulty::new(Box::new(Memory::new(storage, bell)), of_storage))));
    let server = Server::start_on(Backing { open, ..backing(&media, given) }, holding()).expect("it is served");
    let handle = server.handle();
    faults.set(Plan { fails_one_in: 1, ..Plan::default() });
    handle.call(Request::Write { offset: 65536, data: filled(8192, 5), fua: false }).expect("it is answered");
    handle.call(Request::Flush).expect_err("it is nowhere");
    assert_eq!(handle.status().unwrap().lost_bytes, 8192);
    faults.set(Plan::default());
    let stopped = server.stop(false).expect("it ends");
    assert_eq!((stopped.lost_bytes, stopped.dirty_bytes), (8192, 0));
    let report = ending::report(&stopped).expect("somebody needs to know");
    assert!(report.contains("8KiB that were answered") && report.contains("LOST"), "{report}");
}

#[test]
fn only_liu_alone_may_be_told_to_answer_early() {
    let files = Files::new(2 << 20, flash_bytes(600));
    let [disk, flash] = [files.disk(), files.flash()].map(DeviceName::Path);
    for (mode, policy) in [
        (Mode::WriteBack, PolicyName::ITransformer),
        (Mode::WriteBack, PolicyName::LiuITransformer),
        (Mode::WriteBack, PolicyName::Auto),
        (Mode::WriteThrough, PolicyName::Liu),
    ] {
        let hold_bytes = Some(HOLD_BYTES);
        let wishes = Wishes { mode: Some(mode), policy: Some(policy), hold_bytes, ..Wishes::default() };
        let refused = open(&disk, &flash, wishes).err().expect("it is refused").to_string();
        let names = ["--liu-hold".to_owned(), format!("--policy {policy} ")];
        assert!(names.iter().all(|name| refused.contains(name)), "{refused}");
    }
    let too_much = Wishes { policy: Some(PolicyName::Liu), hold_bytes: Some(99 << 40), ..Wishes::default() };
    let refused = open(&disk, &flash, too_much).err().expect("it is refused").to_string();
    assert!(refused.contains("--liu-hold: 99TiB is more than half"), "{refused}");
}

#[test]
fn no_more_is_answered_early_than_may_be_and_a_drain_or_a_stop_ends_when_all_is_written() {
    for stops in [false, true] {
        let (server, media, is_open) = gated();
        let handle = server.handle();
        let writes = (0..8).map(|index| {
            let request = Request::Write { offset: 65536 * (index + 1), data: filled(65536, 5), fua: false };
            submit(&handle, request)
        });
        let writes: Vec<_> = writes.collect();
        // The first may come to the loop with the writes, before it answers any.
        let status = [(); 2].map(|()| handle.status().unwrap())[1].clone();
        assert_eq!((status.held_bytes, status.requests_waiting), (HOLD_BYTES, 4));
        let ended = Arc::new(Mutex::new(false));
        std::thread::scope(|scope| {
            let is_over = Arc::clone(&ended);
            let ending = scope.spawn(move || {
                if !stops {
                    assert_eq!(server.handle().drain(), Ok(0));
                }
                assert_eq!(server.stop(true).expect("it ends").dirty_bytes, 0);
                *is_over.lock().unwrap() = true;
            });
            while handle.status().is_ok_and(|status| status.state == headstart_volume::status::State::Serving) {
                std::thread::yield_now();
            }
            assert!(!*ended.lock().unwrap(), "the disk has not written");
            is_open.store(true, Ordering::SeqCst);
            let _ = handle.status();
            ending.join().unwrap();
        });
        assert!(media.bytes(Device::Disk)[65536..9 * 65536].iter().all(|byte| *byte == 5), "all of it is there");
        writes.into_iter().for_each(|write| drop(write.recv().unwrap().expect("each is answered")));
    }
}
