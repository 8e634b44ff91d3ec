//! Many users at once, whose requests overlap, on every kind of storage, in every mode, against the reference model.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use headstart_block::devices::Device;
use headstart_block::recovery::Given;
use headstart_policy::server::chain;
use headstart_policy::server::chain::Names;
use headstart_policy::server::{AddressOrder, Chain, ITransformer, Policy, WriteThrough, liu};
use headstart_units::Nanos;
use headstart_units::chance::Random;
use headstart_units::request::Range;
use headstart_volume::block::{Block, Request};
use headstart_volume::server::{Backing, Handle, Server};
use headstart_volume::settings::{Mode, Settings};
use headstart_volume::storage::faulty::{Faults, Faulty, Plan};
use headstart_volume::storage::memory::{Media, Memory};
use headstart_volume::storage::threads::Threads;
use headstart_volume::storage::{self, bell::Bell};

use crate::bench::{Files, SEGMENTS, backing, filled, flash_bytes, memory, memory_with_heads, names, serve, settings};
use crate::chances::run_many;
use crate::chaos::Chaos;
use crate::clients::{Model, any, first_bytes};

const DISK_BYTES: u64 = 256 << 10;
/// The least a disk on files has.
const FILE_BYTES: u64 = 2 << 20;

/// Threads that each have several requests under way.
fn crowd(model: &Model, handle: &Handle, seed: u64, requests: u64) {
    std::thread::scope(|scope| {
        for user in 0..4 {
            let (model, handle) = (model.clone(), handle.clone());
            scope.spawn(move || {
                let mut random = Random(seed ^ user << 40);
                for _ in 0..requests {
                    model.submit(&handle, any(&mut random, handle.size_bytes()));
                    // All together have no more than this many.
                    model.wait(16, || false);
                }
            });
        }
    });
    model.wait(0, || false);
}

/// A crowd, a stop, and what the raw disk holds then.
fn crowd_and_stop(model: &Model, server: Server, seed: u64, requests: u64) {
    crowd(model, &server.handle(), seed, requests);
    let stopped = server.stop(false).expect("the volume stops");
    assert!(stopped.is_released && stopped.dirty_bytes == 0, "{stopped:?}");
}

fn in_memory<P: Policy + Send + 'static>(policy: P, mode: Mode, seed: u64, late_turns: [u64; 2]) -> Vec<String> {
    in_media(memory(first_bytes(DISK_BYTES), flash_bytes(60)), policy, mode, seed, late_turns)
}

/// Under LiU, alone or in front of iTransformer, with a buffer of few segments.
fn with_heads(names: Names, seed: u64, late_turns: [u64; 2]) -> Vec<String> {
    let mut random = Random(seed ^ 77);
    let liu = liu::Settings {
        buffer_bytes: random.pick(&[1, 4]) * SEGMENTS.segment_bytes(),
        threshold_percent: random.pick(&[1, 30, 80]),
        idle: Nanos(random.pick(&[10_000, 1_000_000])),
        ..liu::Settings::default()
    };
    let policy = Chain::new(names, SEGMENTS, chain::Settings { liu, ..chain::Settings::default() });
    in_media(memory_with_heads(first_bytes(DISK_BYTES), flash_bytes(60)), policy, Mode::WriteBack, seed, late_turns)
}

fn in_media<P: Policy + Send + 'static>(
    (media, mut given): (Media, Given),
    policy: P,
    mode: Mode,
    seed: u64,
    late_turns: [u64; 2],
) -> Vec<String> {
    given.absorbs = mode == Mode::WriteBack;
    let faults = Faults::new(Plan { late_turns, ..Plan::default() }, seed, Box::new(media.clone()));
    let storage = media.clone();
    let backing = Backing {
        open: Box::new(move |bell| Ok(Box::new(Faulty::new(Box::new(Memory::new(storage, bell)), faults)))),
        ..backing(&media, given)
    };
    let server = Server::start_with(backing, policy, Settings { mode, ..settings() }).expect("it is served");
    let model = Model::new(DISK_BYTES);
    crowd_and_stop(&model, server, seed, 200);
    model.check_disk(&media.bytes(Device::Disk));
    model.violations()
}

#[test]
fn overlapping_requests_of_many_threads_read_what_an_atomic_disk_would_return() {
    run_many(60, 21, |seed| {
        let mut random = Random(seed);
        let late = [random.pick(&[0, 3, 20]), random.pick(&[0, 3, 20])];
        match random.below(8) {
            6 => with_heads(Names::Liu, seed, late),
            7 => with_heads(Names::LiuITransformer, seed, late),
            0 => in_memory(WriteThrough, Mode::WriteThrough, seed, late),
            4 | 5 => in_memory(ITransformer::new(Default::default()), Mode::WriteBack, seed, late),
            1 => {
                let small =
                    AddressOrder { absorbed_bytes_max: random.pick(&[4096, 1 << 20]), ..AddressOrder::default() };
                in_memory(small, Mode::WriteBack, seed, late)
            }
            _ => in_memory(Chaos::new(&mut random), Mode::WriteBack, seed, late),
        }
    });
}

#[test]
fn a_disk_a_hundred_times_slower_than_flash_and_the_other_way_round_mix_nothing() {
    for late in [[200, 1], [1, 200]] {
        let violations = in_memory(AddressOrder::default(), Mode::WriteBack, 22, late);
        assert!(violations.is_empty(), "{}", violations.join("\n"));
    }
}

#[test]
fn overlapping_requests_on_files_by_io_uring_and_by_threads_mix_nothing() {
    run_many(6, 23, |seed| {
        let files = Files::new(FILE_BYTES, flash_bytes(600));
        std::fs::write(files.disk(), first_bytes(FILE_BYTES)).unwrap();
        let model = Model::new(FILE_BYTES);
        let pair = files.open();
        let server = match seed % 2 {
            0 => Server::start(pair, settings()).expect("it is served"),
            _ => {
                let copies = |device: &std::fs::File| device.try_clone().unwrap();
                let copies = storage::Files { disk: copies(&pair.disk.file), flash: copies(&pair.flash.file) };
                let given = pair.given(true, None);
                let open = move |bell: Arc<Bell>| -> std::io::Result<Box<dyn storage::Storage>> {
                    let refused = std::io::Error::from_raw_os_error(libc::EPERM);
                    Ok(Box::new(Threads::start(copies, bell, &refused)?))
                };
                let backing = Backing { devices: pair, given, open: Box::new(open), names: names() };
                let server = Server::start_on(backing, settings()).expect("it is served");
                let said = server.handle().status().unwrap().storage;
                assert!(said.starts_with("threads (io_uring: ") && said.contains("permitted"), "{said}");
                server
            }
        };
        crowd_and_stop(&model, server, seed, 300);
        model.check_disk(&std::fs::read(files.disk()).unwrap());
        model.violations()
    });
}

#[test]
fn a_crowd_on_files_is_killed_again_and_again_and_loses_nothing_that_was_answered() {
    run_many(3, 24, |seed| {
        let files = Files::new(FILE_BYTES, flash_bytes(600));
        std::fs::write(files.disk(), first_bytes(FILE_BYTES)).unwrap();
        let model = Model::new(FILE_BYTES);
        for life in 0..4 {
            let server = files.serve();
            model.let_fail(false);
            // The devices live on when a server is killed: all that was answered is there, flushed or not.
            let everything = Request::Read(Range::new(0, FILE_BYTES));
            model.check_disk(&server.handle().call(everything).unwrap());
            std::thread::scope(|scope| {
                let (model, handle) = (model.clone(), server.handle());
                model.let_fail(true);
                let users = scope.spawn(move || crowd(&model, &handle, seed + life, 100));
                while !users.is_finished() && server.handle().status().unwrap().requests.write.requests_total < 90 {
                    std::thread::yield_now();
                }
                server.kill();
            });
        }
        model.violations()
    });
}

#[test]
fn thousands_of_requests_wait_at_once_and_all_are_answered() {
    let files = Files::new(32 << 20, flash_bytes(2000));
    let server = files.serve();
    let handle = server.handle();
    let answered = Arc::new(AtomicU64::new(0));
    for index in 0..6000u64 {
        let offset = index * 4096 * 37 % (32 << 20);
        let request = match index % 3 {
            0 => Request::Write { offset, data: filled(4096, index as u8), fua: false },
            1 => Request::Read(Range::new(offset, 4096)),
            _ => Request::Zero { range: Range::new(offset, 4096), fua: false },
        };
        let answered = Arc::clone(&answered);
        handle.submit(
            request,
            Box::new(move |result| {
                result.expect("nothing fails");
                answered.fetch_add(1, Ordering::SeqCst);
            }),
        );
    }
    // Nobody who waits is forgotten because the handle goes away.
    drop(handle);
    server.stop(false).unwrap();
    assert_eq!(answered.load(Ordering::SeqCst), 6000);
}

#[test]
fn a_stop_in_the_middle_of_requests_answers_each_and_keeps_what_it_said_was_written() {
    run_many(10, 25, |seed| {
        let (media, given) = memory(first_bytes(DISK_BYTES), flash_bytes(60));
        let server = serve(&media, given);
        let model = Model::new(DISK_BYTES);
        model.let_fail(true);
        let stopping = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (model, handle, stopping) = (&model, server.handle(), &stopping);
            scope.spawn(move || {
                let mut random = Random(seed);
                while !stopping.load(Ordering::SeqCst) {
                    model.submit(&handle, any(&mut random, handle.size_bytes()));
                    model.wait(8, || false);
                }
            });
            while server.handle().status().unwrap().requests.write.requests_total < 20 {
                std::thread::yield_now();
            }
            let stopped = server.stop(seed % 2 == 0).unwrap();
            stopping.store(true, Ordering::SeqCst);
            assert!(stopped.is_released || seed % 2 == 0);
        });
        model.wait(0, || false);
        model.let_fail(false);
        let server = serve(&media, given);
        let everything = Request::Read(Range::new(0, DISK_BYTES));
        model.check_disk(&server.handle().call(everything).unwrap());
        server.stop(false).unwrap();
        model.check_disk(&media.bytes(Device::Disk));
        model.violations()
    });
}

#[test]
fn gibibytes_of_writes_pass_through_a_log_of_a_few_mebibytes() {
    let disk_bytes = 16u64 << 20;
    let (media, given) = memory(vec![0; disk_bytes as usize], flash_bytes(1024));
    let server = serve(&media, given);
    let handle = server.handle();
    let mut random = Random(26);
    let mut last = vec![0u8; (disk_bytes >> 18) as usize];
    for _ in 0..(4u64 << 30) >> 18 {
        let block = random.below(disk_bytes >> 18);
        let value = random.next() as u8;
        last[block as usize] = value;
        let mut data = handle.buffer(1 << 18);
        data.fill(value);
        handle.call(Request::Write { offset: block << 18, data, fua: false }).unwrap();
    }
    for (block, value) in last.iter().enumerate() {
        let read = handle.call(Request::Read(Range::new((block as u64) << 18, 1 << 18))).unwrap();
        assert!(read.iter().all(|byte| byte == value), "block {block}");
    }
    let status = handle.status().unwrap();
    assert!(status.counters.checkpoints_total > 0 && status.counters.written_back_bytes_total > 1 << 30, "{status:?}");
    assert_eq!(server.stop(false).unwrap().dirty_bytes, 0);
}
