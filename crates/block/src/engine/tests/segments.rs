//! LiU's segments: when a head comes to flash, what a load reads from where, and which heads stay.

use super::*;
use headstart_policy::server::chain;
use headstart_policy::server::chain::{Chain, Names};
use headstart_policy::server::liu;
use headstart_policy::server::segments::Segments;

/// Sixteen blocks, five of which make a segment strong.
const SEGMENT_BYTES: u64 = 16 * BLOCK_BYTES;
const HEAD_BYTES: u64 = 4 * BLOCK_BYTES;
const IDLE: Nanos = Nanos(50_000_000);
/// What every disk and flash here holds.
static ZEROES: [u8; 1 << 20] = [0; 1 << 20];

/// LiU alone, with a buffer of `loaded_max` segments, on devices that answer at once.
struct Bench<P = Chain> {
    engine: Engine<P>,
    now: Nanos,
    tag: Tag,
}

impl Bench {
    fn new(slots: u32, loaded_max: u64) -> Bench {
        let segments = Segments { segment_blocks: 16, head_blocks: 4, slots };
        let liu = liu::Settings { buffer_bytes: loaded_max * SEGMENT_BYTES, idle: IDLE, ..liu::Settings::default() };
        let settings = chain::Settings { liu, ..chain::Settings::default() };
        let policy = Chain::new(Names::Liu, segments, settings);
        Bench { engine: engine_with(16 << 20, segments, policy), now: Nanos::ZERO, tag: 0 }
    }

    fn lifted(slots: u32, loaded_max: u64, segment: u64) -> Bench {
        let mut bench = Bench::new(slots, loaded_max);
        bench.read_much(segment);
        bench.rest();
        assert!(bench.is_lifted(segment));
        bench
    }
}

impl<P: Policy> Bench<P> {
    fn is_lifted(&self, segment: u64) -> bool {
        self.engine.map.heads.live(head(segment)).is_some()
    }

    /// Completes all that is under way; what the devices were told, one after the other.
    fn settle(&mut self) -> Vec<Order> {
        let mut told = Vec::new();
        loop {
            let orders = orders(&mut self.engine);
            if orders.is_empty() {
                return told;
            }
            for order in orders {
                let data = if order.action == Action::Read { &ZEROES[..order.length as usize] } else { &[] };
                self.engine.on_completion(self.now, order.id, Ok(data));
                told.push(order);
            }
        }
    }

    fn read(&mut self, segment: u64, block: u64) -> Vec<Order> {
        self.tag += 1;
        let range = Range::new(segment * SEGMENT_BYTES + block * BLOCK_BYTES, BLOCK_BYTES);
        self.engine.on_request(self.now, self.tag, Request::Read(range));
        self.settle()
    }

    /// Five blocks of it, beginning with the head's.
    fn read_much(&mut self, segment: u64) {
        (0..5).for_each(|block| drop(self.read(segment, block)));
    }

    fn write(&mut self, segment: u64, block: u64) -> Vec<Order> {
        self.tag += 1;
        let offset = segment * SEGMENT_BYTES + block * BLOCK_BYTES;
        self.engine.on_request(self.now, self.tag, Request::Write { offset, data: &ZEROES[..4096], fua: false });
        self.settle()
    }

    /// Nobody asks for anything for so long that lifts may begin.
    fn rest(&mut self) -> Vec<Order> {
        self.now += IDLE;
        self.engine.on_timer(self.now);
        self.settle()
    }
}

fn head(segment: u64) -> Range {
    Range::new(segment * SEGMENT_BYTES, HEAD_BYTES)
}

/// Where the reads of a device lie, in the order of the addresses.
fn reads(orders: &[Order], device: Device) -> Vec<Range> {
    let of_device = orders.iter().filter(|order| order.device == device && order.action == Action::Read);
    let mut ranges: Vec<Range> = of_device.map(|order| Range::new(order.offset, order.length)).collect();
    ranges.sort_by_key(|range| range.offset);
    ranges
}

#[test]
fn from_a_cold_start_a_segment_of_which_enough_was_read_is_lifted_once_the_foreground_is_quiet() {
    let mut bench = Bench::new(2, 8);
    (0..4).for_each(|block| drop(bench.read(3, block)));
    bench.rest();
    assert!(!bench.is_lifted(3), "four of sixteen are less than 30 %");
    bench.read(3, 9);
    bench.engine.on_timer(bench.now);
    assert!(bench.settle().is_empty() && !bench.is_lifted(3), "somebody has just asked");
    let told = bench.rest();
    assert_eq!(reads(&told, Device::Disk), [head(3)]);
    assert!(bench.is_lifted(3));
    assert_eq!(bench.engine.counters().lifts_total, 1);
}

#[test]
fn a_load_has_the_head_from_flash_and_the_body_from_the_disk_in_four_parts() {
    let mut bench = Bench::lifted(2, 8, 3);
    // A block that was read before, so that it is no mere rest of the segment.
    let told = bench.read(3, 2);
    // Beside the block that somebody waits for.
    assert!(reads(&told, Device::Flash).iter().any(|range| range.length == HEAD_BYTES), "{told:?}");
    let body = reads(&told, Device::Disk);
    assert_eq!(body.len(), 4, "{body:?}");
    assert!(body.windows(2).all(|pair| pair[0].end() == pair[1].offset), "{body:?}");
    assert_eq!((body[0].offset, body[3].end()), (head(3).end(), 4 * SEGMENT_BYTES));
    assert!((0..16).all(|block| bench.read(3, block).is_empty()), "all of it is in memory");
}

#[test]
fn a_head_that_is_written_goes_to_the_log_and_comes_back_when_it_is_clean() {
    let mut bench = Bench::lifted(2, 8, 3);
    let told = bench.write(3, 1);
    assert!(told.iter().all(|order| order.device == Device::Flash), "{told:?}");
    assert!(!bench.is_lifted(3));
    let again = (0..50).find(|_| {
        bench.rest();
        bench.is_lifted(3)
    });
    assert!(again.is_some(), "{:?}", bench.engine.counters());
    assert_eq!(bench.engine.counters().written_heads_total, 1);
}

#[test]
fn a_head_of_a_load_takes_the_place_of_the_least_recently_used_one_while_the_foreground_is_never_quiet() {
    let mut bench = Bench::lifted(2, 8, 3);
    bench.read_much(4);
    bench.rest();
    assert!(bench.is_lifted(4), "the slice is full");
    bench.read(3, 9);
    for segment in [6, 7] {
        bench.read_much(segment);
        // Strong, and read again: loaded, wholly from the disk.
        let told = bench.read(segment, 2);
        assert_eq!(reads(&told, Device::Disk).iter().map(|range| range.length).sum::<u64>(), SEGMENT_BYTES);
    }
    assert!(!bench.is_lifted(4) && bench.is_lifted(3), "4 was used before 3");
    assert!(bench.is_lifted(7), "and its slot went to the next that was loaded");
    assert_eq!(bench.engine.counters().de_lifts_total, 1);
}

#[test]
fn a_lifted_segment_of_weak_locality_keeps_its_head_and_is_measured_but_not_loaded() {
    // Two segments in memory, and four in the stack.
    let mut bench = Bench::lifted(2, 2, 3);
    let displace = |bench: &mut Bench| (20..24).for_each(|other| drop(bench.read(other, 9)));
    displace(&mut bench);
    // New in the stack, and strong so far: loaded for one block, and weak as it leaves.
    assert!(!reads(&bench.read(3, 2), Device::Disk).is_empty());
    displace(&mut bench);
    let told = bench.read(3, 2);
    assert_eq!(reads(&told, Device::Disk), [], "only what is asked for, from flash");
    assert_eq!(reads(&told, Device::Flash).iter().map(|range| range.length).sum::<u64>(), BLOCK_BYTES);
    assert!(bench.is_lifted(3));
    bench.read_much(3);
    assert_eq!(reads(&bench.read(3, 2), Device::Disk).iter().map(|range| range.length).sum::<u64>(), 12 * BLOCK_BYTES);
}

#[test]
fn what_is_missing_of_a_segment_is_loaded_beside_what_is_there() {
    let blocks = |from: u64, to: u64| Range::between(from * BLOCK_BYTES, to * BLOCK_BYTES);
    let segments = Segments { segment_blocks: 16, head_blocks: 4, slots: 2 };
    for (first, lifts) in
        [(blocks(6, 16), 0), (blocks(6, 16), 1), (blocks(2, 16), 0), (blocks(2, 16), 1), (blocks(0, 9), 0)]
    {
        let wanted = vec![blocks(0, 16), first, first];
        let mut bench = Bench {
            engine: engine_with(16 << 20, segments, Segmented { wanted, lifts: Vec::new() }),
            now: Nanos::ZERO,
            tag: 0,
        };
        let disk = |told: &[Order]| -> u64 { reads(told, Device::Disk).iter().map(|range| range.length).sum() };
        assert_eq!(disk(&bench.read(3, 8)), first.length);
        assert_eq!(disk(&bench.read(3, 8)), 0, "it is there");
        bench.engine.policy.lifts = vec![3; lifts];
        bench.rest();
        assert_eq!(bench.is_lifted(3), lifts > 0 || first.contains(head(0)));
        // A head is one piece, or none if a part of it is there.
        let has_head = lifts > 0 && first.offset >= HEAD_BYTES;
        let told = bench.read(3, 1);
        let of_flash: u64 = reads(&told, Device::Flash).iter().map(|range| range.length).sum();
        let missing = SEGMENT_BYTES - first.length;
        assert_eq!(disk(&told), missing - if has_head { HEAD_BYTES } else { 0 }, "{told:?}");
        assert!(of_flash >= if has_head { HEAD_BYTES } else { 0 }, "{told:?}");
        assert!((0..16).all(|block| bench.read(3, block).is_empty()), "all of it is in memory");
    }
}
