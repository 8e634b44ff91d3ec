//! What a volume costs when flash has no part in it: random reads of 4 KiB of a file, through the engine and
//! by io_uring directly.
//!
//! `passthrough DIRECTORY [MIB [SECONDS [ROUNDS]]]` makes a disk of so many MiB and a flash in the directory,
//! measures each way in turn, round by round, and prints one JSON object: rates in requests a second with 32
//! requests in flight, median times in microseconds with one, and what they come to.
//!
//! | way | |
//! |---|---|
//! | `direct` | one thread, one ring, as many reads in flight |
//! | `engine` | as many requests in flight, the next from each answer's callback: engine, loop and ring |
//! | `threads` | so many threads that each wait for their request, as nbdkit's do |
//! | `handoff` | nothing but a message to another thread and one back: what the threads' hand-over costs on this machine now |
//!
//! What the volume adds is `engine` less `direct`, as with the rates: the same client, with and without it. A
//! thread that waits pays for two wake-ups besides, which any two threads do.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headstart_block::recovery;
use headstart_block::superblock::Serving;
use headstart_units::chance::Random;
use headstart_units::request::Range;
use headstart_volume::block::{Block, Request};
use headstart_volume::device::DeviceName;
use headstart_volume::pair::Pair;
use headstart_volume::server::{Handle, Server};
use headstart_volume::settings::Settings;
use headstart_volume::storage::buffers::zeroed;
use io_uring::{IoUring, opcode, types};

const BYTES: u64 = 4096;
const FLASH_BYTES: u64 = 64 << 20;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |index: usize, default: u64| arguments.get(index).map_or(default, |text| text.parse().expect("a number"));
    let directory = Path::new(arguments.first().expect("a directory"));
    let (mib, seconds, rounds) = (number(1, 1024), number(2, 2), number(3, 5));
    let (disk, flash) = (directory.join("passthrough-disk"), directory.join("passthrough-flash"));
    fill(&disk, mib << 20);
    fill(&flash, FLASH_BYTES);
    let server = serve(&disk, &flash);
    let handle = server.handle();
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&disk).expect("the disk's file");
    let time = Duration::from_secs(seconds);
    let mut measured: [Vec<f64>; 7] = Default::default();
    for round in 0..rounds {
        let direct = |depth| direct(&file, mib << 20, depth, time, round);
        let rounds_of = [
            direct(32).0,
            engine(&handle, 32, time, round).0,
            threads(&handle, 32, time, round).0,
            direct(1).1,
            engine(&handle, 1, time, round).1,
            threads(&handle, 1, time, round).1,
            handoff(time),
        ];
        measured.iter_mut().zip(rounds_of).for_each(|(all, one)| all.push(one));
    }
    let [direct32, engine32, threads32, direct1, engine1, threads1, handoff] = measured.map(median);
    let figures = serde_json::json!({
        "passthrough_iops": engine32 / direct32,
        "passthrough_threads_iops": threads32 / direct32,
        "passthrough_added_us": engine1 - direct1,
        "passthrough_added_to_threads_us": threads1 - direct1,
        "handoff_us": handoff,
        "direct_iops": direct32,
        "engine_iops": engine32,
        "threads_iops": threads32,
        "direct_us": direct1,
        "engine_us": engine1,
        "threads_us": threads1,
        "storage": handle.status().expect("the volume is served").storage,
    });
    server.stop(false).expect("the volume stops");
    for path in [disk, flash] {
        std::fs::remove_file(path).expect("the file was made here");
    }
    println!("{figures}");
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Requests a second, and the median of their times, which is of use where one is in flight.
fn figures(times: Vec<f64>, begun: Instant) -> (f64, f64) {
    (times.len() as f64 / begun.elapsed().as_secs_f64(), median(times))
}

/// Writes every byte, so that no read ends at a hole.
fn fill(path: &Path, bytes: u64) {
    let mut file = File::create(path).expect("the directory takes files");
    let chunk = vec![0x5a; 1 << 20];
    (0..bytes >> 20).for_each(|_| file.write_all(&chunk).expect("there is room"));
    file.sync_all().expect("the file reaches its device");
}

fn serve(disk: &Path, flash: &Path) -> Server {
    let name = |path: &Path| DeviceName::Path(path.to_owned());
    let mut pair = Pair::open(&name(disk), &name(flash)).expect("the files can be opened");
    let given = pair.given(true, None);
    recovery::create(&mut pair, &given, [7; 16], 256, Serving::default()).expect("the files can be written");
    Server::start(pair, Settings { control: None, ..Settings::default() }).expect("the volume is served")
}

fn place(random: &mut Random, bytes: u64) -> u64 {
    // Between the guarded ends.
    (1 << 20) + random.below((bytes - (2 << 20)) / BYTES) * BYTES
}

fn direct(file: &File, bytes: u64, depth: u32, time: Duration, seed: u64) -> (f64, f64) {
    let mut random = Random(seed);
    let mut ring: IoUring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(64).expect("io_uring");
    ring.submitter().register_files(&[file.as_raw_fd()]).expect("io_uring takes files");
    let mut buffers: Vec<_> = (0..depth).map(|_| zeroed(BYTES as usize)).collect();
    let begun = Instant::now();
    let mut free: Vec<u64> = (0..u64::from(depth)).collect();
    let mut times = Vec::new();
    let mut asked = vec![begun; depth as usize];
    while begun.elapsed() < time || free.len() < depth as usize {
        while begun.elapsed() < time {
            let Some(index) = free.pop() else { break };
            asked[index as usize] = Instant::now();
            let target = buffers[index as usize].as_mut_ptr();
            let read = opcode::Read::new(types::Fixed(0), target, BYTES as u32).offset(place(&mut random, bytes));
            // SAFETY: the buffer is kept until the loop has seen its completion.
            unsafe { ring.submission().push(&read.build().user_data(index)) }.expect("the queue has room");
        }
        ring.submit_and_wait(usize::from(free.len() < depth as usize)).expect("the ring can be entered");
        for entry in ring.completion() {
            assert_eq!(entry.result(), BYTES as i32);
            free.push(entry.user_data());
            times.push(microseconds(asked[entry.user_data() as usize].elapsed()));
        }
    }
    figures(times, begun)
}

struct Chain {
    handle: Handle,
    stop: AtomicBool,
    times: Mutex<Vec<f64>>,
    under_way: AtomicU64,
    client: std::thread::Thread,
}

fn next(chain: &Arc<Chain>, mut random: Random) {
    if chain.stop.load(Ordering::Relaxed) {
        if chain.under_way.fetch_sub(1, Ordering::SeqCst) == 1 {
            chain.client.unpark();
        }
        return;
    }
    let range = Range::new(place(&mut random, chain.handle.size_bytes()), BYTES);
    let again = Arc::clone(chain);
    let asked = Instant::now();
    chain.handle.submit(
        Request::Read(range),
        Box::new(move |result| {
            again.handle.recycle(result.expect("the read succeeds"));
            again.times.lock().expect("no client panics").push(microseconds(asked.elapsed()));
            next(&again, random);
        }),
    );
}

fn engine(handle: &Handle, depth: u64, time: Duration, seed: u64) -> (f64, f64) {
    let chain = Arc::new(Chain {
        handle: handle.clone(),
        stop: AtomicBool::new(false),
        times: Mutex::default(),
        under_way: AtomicU64::new(depth),
        client: std::thread::current(),
    });
    let begun = Instant::now();
    (0..depth).for_each(|index| next(&chain, Random(seed << 32 | index)));
    std::thread::sleep(time);
    chain.stop.store(true, Ordering::Relaxed);
    while chain.under_way.load(Ordering::SeqCst) > 0 {
        std::thread::park();
    }
    let times = std::mem::take(&mut *chain.times.lock().expect("no client panics"));
    figures(times, begun)
}

fn threads(handle: &Handle, depth: u64, time: Duration, seed: u64) -> (f64, f64) {
    let begun = Instant::now();
    let times: Vec<f64> = std::thread::scope(|scope| {
        let work = |index: u64| {
            let mut random = Random(seed << 32 | index);
            let mut times = Vec::new();
            while begun.elapsed() < time {
                let range = Range::new(place(&mut random, handle.size_bytes()), BYTES);
                let asked = Instant::now();
                handle.recycle(handle.call(Request::Read(range)).expect("the read succeeds"));
                times.push(microseconds(asked.elapsed()));
            }
            times
        };
        let clients: Vec<_> = (0..depth).map(|index| scope.spawn(move || work(index))).collect();
        clients.into_iter().flat_map(|client| client.join().expect("no client panics")).collect()
    });
    figures(times, begun)
}

fn handoff(time: Duration) -> f64 {
    let (ask, asked) = std::sync::mpsc::sync_channel(1);
    let (answer, answered) = std::sync::mpsc::sync_channel(1);
    let other = std::thread::spawn(move || asked.iter().for_each(|()| answer.send(()).expect("the asker waits")));
    let begun = Instant::now();
    let mut times = Vec::new();
    while begun.elapsed() < time {
        let asked_at = Instant::now();
        ask.send(()).expect("the other answers");
        answered.recv().expect("the other answers");
        times.push(microseconds(asked_at.elapsed()));
        // As long as a read takes, so that the other thread has gone to sleep by then.
        std::thread::sleep(Duration::from_micros(20));
    }
    drop(ask);
    other.join().expect("the other does not panic");
    median(times)
}
