//! What the map costs: bytes of memory and of journal per isolated 4 KiB extent, and nanoseconds per operation.
//!
//! ```text
//! cargo run --release -p headstart-agent --example map_bytes [EXTENTS]
//! ```
//!
//! Threads absorb every other page, in address order and in random order, into one file and into 64; the
//! agent's own state machine takes their requests, one process and no I/O. Then everything is written back,
//! read once in random order, and evicted. Memory is what the allocator gave out, its headers included, for
//! everything the overlay keeps; time is the thread's on a processor. The last line is a JSON object with the
//! worst of the cases.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use headstart_overlay::journal::Identity;
use headstart_overlay::{Answer, Fingerprint, Opening, Output, Overlay, Process, Settings};
use headstart_protocol::handover::COPIES_MAX;
use headstart_protocol::memory::Memory;
use headstart_protocol::message::{Envelope, Request};
use headstart_protocol::shared::Slot;
use headstart_units::Capacity;

/// Bytes given out now: what can be used of each block and the word in front of it.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn real_bytes(block: *mut u8) -> usize {
    // SAFETY: the system's allocator made the block, or it is null, which counts nothing.
    let usable = unsafe { libc::malloc_usable_size(block.cast()) };
    if block.is_null() { 0 } else { usable + size_of::<usize>() }
}

// SAFETY: everything is the system allocator's; only a number is kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`.
        let block = unsafe { System.alloc(layout) };
        ALLOCATED.fetch_add(real_bytes(block), Ordering::Relaxed);
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(real_bytes(block), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const THREADS: usize = 64;
const PAGE: u64 = 4096;

/// Figures of one case, per extent.
#[derive(Clone, Copy, Default)]
struct Figures {
    memory_dirty: f64,
    memory_clean: f64,
    appended: f64,
    checkpoint: f64,
    insert_ns: f64,
    lookup_ns: f64,
    evict_ns: f64,
}

struct Case<'a> {
    memory: &'a Memory,
    overlay: Overlay,
    seq: u64,
    files: u64,
}

/// Extent `k` of `count`: its file and offset.
fn address(k: u64, count: u64, files: u64) -> (u32, u64) {
    let each = count.div_ceil(files);
    ((k / each) as u32, k % each * 2 * PAGE)
}

impl Case<'_> {
    fn new(memory: &Memory, files: u64) -> Case<'_> {
        let settings = Settings { capacity: Capacity::Bytes(1 << 50), ..Settings::default() };
        let mut case = Case { memory, overlay: Overlay::new(settings, 36, 1), seq: 0, files };
        for slot in 0..THREADS as u32 {
            case.overlay.on_join(slot, Process { pid: slot + 1, start_time: 1 });
        }
        for inode in 0..files {
            let identity = Identity { inode, birth_ns: 1 };
            let (envelope, observed) = (case.next(0), Fingerprint { size: 1 << 50, modified_ns: 0 });
            let opening = Opening { identity, observed, writable: true, path: b"/slow/file" };
            case.overlay.on_open(memory.view(), envelope, opening);
            case.overlay.take_outputs();
        }
        case
    }

    fn next(&mut self, slot: u32) -> Envelope {
        self.seq += 1;
        Envelope { slot, seq: self.seq }
    }

    fn ask(&mut self, slot: u32, request: &Request<'_>) -> Answer {
        let envelope = self.next(slot);
        self.overlay.on_request(self.memory.view(), 0, envelope, request);
        self.overlay.take_journal();
        self.overlay.on_appended(self.memory.view());
        let outputs = self.overlay.take_outputs();
        let answer = outputs.into_iter().find_map(|output| match output {
            Output::Reply(_, answer) => Some(answer),
            _ => None,
        });
        answer.expect("nothing has to be waited for")
    }

    /// A thread of its own for each file, or any for one file: as ranks write.
    fn absorb(&mut self, k: u64, (file, offset): (u32, u64)) {
        let slot = if self.files == 1 { (k % THREADS as u64) as u32 } else { file };
        let slabs = &self.memory.slots[slot as usize].slabs;
        let slab = || slabs.iter().find(|slab| slab.end.load(Ordering::Relaxed) > 0);
        let length = PAGE;
        if slab().is_none() {
            assert_eq!(self.ask(slot, &Request::Slab { file, offset, length }), Answer::Done);
        }
        let slab = slab().expect("it was granted");
        let (data_file, place) = (slab.data_file.load(Ordering::Relaxed), slab.place.load(Ordering::Relaxed));
        assert_eq!(self.ask(slot, &Request::Commit { file, data_file, offset, length, place }), Answer::Done);
    }

    fn write_back(&mut self) {
        self.overlay.drain(true);
        self.overlay.poll(self.memory.view());
        while self.overlay.dirty_bytes() > 0 {
            for output in self.overlay.take_outputs() {
                if let Output::Copy(order) = output {
                    self.overlay.on_copy_done(self.memory.view(), order.id, Ok(()));
                }
            }
            self.overlay.take_journal();
        }
        self.overlay.drain(false);
        self.overlay.take_outputs();
    }
}

/// Nanoseconds this thread has had a processor.
fn now_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a valid structure that lives across the call.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) } != 0;
    assert!(!failed, "every Linux has the clock");
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn allocated() -> usize {
    ALLOCATED.load(Ordering::Relaxed)
}

fn measure(memory: &Memory, count: u64, files: u64, order: impl Fn(u64) -> u64) -> Figures {
    let addresses: Vec<(u32, u64)> = (0..count).map(|k| address(order(k), count, files)).collect();
    let scattered = |k: u64| addresses[(k * 7_368_787 % count) as usize];
    let per_extent = |value: f64| value / count as f64;
    let start = allocated();
    let mut case = Case::new(memory, files);
    case.overlay.take_journal();
    let journal_start = case.overlay.journal_end();
    let mut figures = Figures::default();

    let begun = now_ns();
    for (k, address) in addresses.iter().enumerate() {
        case.absorb(k as u64, *address);
        case.overlay.take_journal();
    }
    figures.insert_ns = per_extent(now_ns() - begun);
    assert_eq!(case.overlay.extents() as u64, count);
    figures.appended = per_extent((case.overlay.journal_end() - journal_start) as f64);
    figures.memory_dirty = per_extent((allocated() - start) as f64);

    figures.checkpoint = per_extent(case.overlay.begin_journal(36).len() as f64);
    case.write_back();
    figures.memory_clean = per_extent((allocated() - start) as f64);

    let begun = now_ns();
    for k in 0..count {
        let (file, offset) = scattered(k);
        let answer = case.ask(
            (k % THREADS as u64) as u32,
            &Request::Read { file, offset, length: PAGE, leased: false, in_order: false },
        );
        assert_eq!(answer, Answer::Flash { length: PAGE });
    }
    figures.lookup_ns = per_extent(now_ns() - begun);
    memory.slots.iter().for_each(Slot::release_read);

    case.overlay.set_capacity(Capacity::Bytes(0));
    let begun = now_ns();
    case.overlay.poll(memory.view());
    figures.evict_ns = per_extent(now_ns() - begun);
    assert_eq!(case.overlay.extents(), 0);
    figures
}

fn main() {
    let count = std::env::args().nth(1).map_or(1_000_000, |text| text.parse().expect("EXTENTS is a number"));
    let mut worst = Figures::default();
    for files in [1, THREADS as u64] {
        for (name, random) in [("in address order", false), ("in random order", true)] {
            let memory = Memory::new(THREADS, THREADS, COPIES_MAX);
            // A prime above any count asked for.
            let order = |k: u64| if random { (k as u128 * 1_000_000_007 % u128::from(count)) as u64 } else { k };
            let figures = measure(&memory, count, files, order);
            let Figures { memory_dirty, memory_clean, appended, checkpoint, insert_ns, lookup_ns, evict_ns } = figures;
            eprintln!(
                "{count} extents {name}, {files} files: {memory_dirty:.1} bytes dirty, {memory_clean:.1} clean; \
                 journal {appended:.1} appended, {checkpoint:.1} in a checkpoint; \
                 insert {insert_ns:.0} ns, lookup {lookup_ns:.0}, evict {evict_ns:.0}"
            );
            worst = Figures {
                memory_dirty: worst.memory_dirty.max(memory_dirty),
                memory_clean: worst.memory_clean.max(memory_clean),
                appended: worst.appended.max(appended),
                checkpoint: worst.checkpoint.max(checkpoint),
                insert_ns: worst.insert_ns.max(insert_ns),
                lookup_ns: worst.lookup_ns.max(lookup_ns),
                evict_ns: worst.evict_ns.max(evict_ns),
            };
        }
    }
    println!(
        "{{\"map_bytes_in_memory\": {:.2}, \"map_bytes_on_flash\": {:.2}, \"map_bytes_on_flash_in_checkpoint\": {:.2}, \
         \"insert_ns\": {:.0}, \"lookup_ns\": {:.0}, \"evict_ns\": {:.0}}}",
        worst.memory_dirty.max(worst.memory_clean),
        worst.appended.max(worst.checkpoint),
        worst.checkpoint,
        worst.insert_ns,
        worst.lookup_ns,
        worst.evict_ns
    );
}
