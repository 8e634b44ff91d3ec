//! Single claims about the engine, on devices that do nothing until they are told to.

mod segments;
mod zeroing;

use super::checkpoints::Stage;
use super::*;
use crate::checkpoint::Extent;
use crate::layout::Layout;
use crate::order::Part;
use crate::ring::Ring;
use crate::superblock::{Guard, GuardState, Serving};
use headstart_policy::server::segments::Segments;
use headstart_policy::server::{AddressOrder, SegmentRead, WriteThrough};
use headstart_units::BLOCK_BYTES;

fn engine(flash_bytes: u64) -> Engine<AddressOrder> {
    engine_with(flash_bytes, Segments::default(), AddressOrder::default())
}

/// In force on a slice of this size.
pub fn superblock(flash_bytes: u64, segments: Segments) -> Superblock {
    let guard = Guard { state: GuardState::On, session: 1, changed: [0; 8], crcs: vec![0; 2] };
    Superblock {
        uuid: [1; 16],
        number: 2,
        disk_bytes: 1 << 40,
        flash_bytes,
        disk: [0; 32],
        epoch: 2,
        start_seq: 1,
        start_block: 0,
        area: 0,
        checkpoint_crc: 0,
        checkpoint_bytes: 0,
        detached: false,
        serving: Serving { segments, ..Serving::default() },
        guard,
    }
}

fn engine_with<P: Policy>(flash_bytes: u64, segments: Segments, policy: P) -> Engine<P> {
    let layout = Layout::new(flash_bytes, 1).unwrap();
    let superblock = superblock(flash_bytes, segments);
    let map = LogMap::new(Ring::new(layout.ring_blocks, 0));
    Engine::new(Recovered { superblock, map }, policy, Settings { disk_bytes_max: u64::MAX, ..Settings::default() })
}

impl Engine<AddressOrder> {
    fn checkpoint_has_ended_encoding(&self) -> bool {
        match self.checkpoints.stage() {
            Stage::Draining => false,
            Stage::Writing { draft, .. } => draft.encoder.has_ended(),
            _ => true,
        }
    }
}

fn orders<P: Policy>(engine: &mut Engine<P>) -> Vec<Order> {
    let order = |output| match output {
        Output::Order(order) => Some(order),
        Output::Reply { .. } | Output::Release(_) => None,
    };
    engine.take_outputs().into_iter().filter_map(order).collect()
}

fn replies<P: Policy>(engine: &mut Engine<P>) -> Vec<Output> {
    engine.take_outputs().into_iter().filter(|output| matches!(output, Output::Reply { .. })).collect()
}

fn write<P: Policy>(engine: &mut Engine<P>, tag: Tag, offset: u64) {
    engine.on_request(Nanos::ZERO, tag, Request::Write { offset, data: &[tag as u8; 4096], fua: false });
}

/// Everything completes, in order, until nothing is under way.
fn complete_all(engine: &mut Engine<AddressOrder>) {
    loop {
        let orders = orders(engine);
        if orders.is_empty() {
            return;
        }
        for order in orders {
            let result: Result<&[u8], ()> = if order.action == Action::Read { Err(()) } else { Ok(&[]) };
            engine.on_completion(Nanos::ZERO, order.id, result);
        }
    }
}

/// Every order completes as it is told, until nothing is under way; the answers, in their order.
fn answers<P: Policy>(
    engine: &mut Engine<P>,
    mut complete: impl FnMut(&Order) -> Result<&'static [u8], ()>,
) -> Vec<(Tag, Result<Vec<Part>, Error>)> {
    let mut answered = Vec::new();
    loop {
        let outputs = engine.take_outputs();
        if outputs.is_empty() {
            return answered;
        }
        for output in outputs {
            match output {
                Output::Order(order) => {
                    let result = complete(&order);
                    engine.on_completion(Nanos::ZERO, order.id, result);
                }
                Output::Reply { tag, result } => answered.push((tag, result)),
                Output::Release(_) => {}
            }
        }
    }
}

#[test]
fn requests_beyond_the_end_or_of_half_sectors_are_refused() {
    let mut engine = engine(1 << 20);
    engine.on_request(Nanos::ZERO, 1, Request::Read(Range::new(1 << 40, 512)));
    engine.on_request(Nanos::ZERO, 2, Request::Read(Range::new(0, 100)));
    engine.on_request(Nanos::ZERO, 3, Request::Write { offset: 7, data: &[0; 512], fua: false });
    engine.on_request(Nanos::ZERO, 4, Request::Zero { range: Range::new((1 << 40) - 512, 1024), fua: true });
    let outputs = engine.take_outputs();
    assert_eq!(outputs.len(), 4);
    for (index, output) in outputs.into_iter().enumerate() {
        assert_eq!(output, Output::Reply { tag: index as u64 + 1, result: Err(Error::Invalid) });
    }
}

#[test]
fn of_a_write_that_bypasses_flash_only_what_the_guard_hides_is_logged_and_it_is_answered_once() {
    for fails in [false, true] {
        let mut engine = engine_with(16 << 20, Segments::default(), WriteThrough);
        // The first block is guarded.
        let data: Vec<u8> = (0..64 << 10).map(|at| (at / BLOCK_BYTES) as u8).collect();
        engine.on_request(Nanos::ZERO, 1, Request::Write { offset: 0, data: &data, fua: false });
        let given = orders(&mut engine);
        let [logged, bypassed] = &given[..] else { panic!("two orders, not {given:?}") };
        assert_eq!((logged.device, logged.length), (Device::Flash, 2 * BLOCK_BYTES), "a header and a block");
        let rest = Range::new(BLOCK_BYTES, (64 << 10) - BLOCK_BYTES);
        assert_eq!((bypassed.device, bypassed.offset, bypassed.length), (Device::Disk, rest.offset, rest.length));
        let Action::Write(parts) = &bypassed.action else { panic!("a write") };
        assert_eq!(parts[..], [Part::Request { tag: 1, offset: rest.offset, length: rest.length }]);
        engine.on_completion(Nanos::ZERO, logged.id, Ok(&[]));
        assert!(replies(&mut engine).is_empty(), "the rest is not written yet");
        engine.on_completion(Nanos::ZERO, bypassed.id, if fails { Err(()) } else { Ok(&[]) });
        let result = if fails { Err(Error::Io) } else { Ok(Vec::new()) };
        assert_eq!(replies(&mut engine), [Output::Reply { tag: 1, result }]);
    }
}

#[test]
fn a_long_line_of_writes_each_of_which_overlaps_the_next_fails_when_flash_does() {
    let line = || {
        let mut engine = engine(16 << 20);
        for tag in 0..3000 {
            let request = Request::Write { offset: tag * 4096, data: &[0; 8192], fua: false };
            engine.on_request(Nanos::ZERO, tag, request);
        }
        let answered = answers(&mut engine, |order| if order.device == Device::Flash { Err(()) } else { Ok(&[]) });
        assert_eq!(answered.len(), 3000);
        assert!(engine.has_failed().1 && answered.last().is_some_and(|(tag, result)| *tag == 2999 && result.is_err()));
    };
    // Too little for a call within each other's.
    std::thread::Builder::new().stack_size(256 << 10).spawn(line).unwrap().join().unwrap();
}

#[test]
fn writes_that_wait_together_share_a_record() {
    let mut engine = engine(16 << 20);
    let records = engine.settings.records_max as u64;
    for tag in 0..records + 60 {
        write(&mut engine, tag, (tag * 2 + 10) * BLOCK_BYTES);
    }
    let first = orders(&mut engine);
    assert_eq!(first.len() as u64, records, "the first ones go alone");
    engine.on_completion(Nanos::ZERO, first[0].id, Ok(&[]));
    let next = orders(&mut engine);
    assert_eq!((next.len(), next[0].length), (1, 61 * BLOCK_BYTES), "one header for all that waited");
}

#[test]
fn flush_leaves_the_disk_alone_unless_something_bypassed_flash() {
    let mut engine = engine(16 << 20);
    write(&mut engine, 1, 8 * BLOCK_BYTES);
    complete_all(&mut engine);
    engine.on_request(Nanos::ZERO, 2, Request::Flush);
    let flushed = orders(&mut engine);
    assert_eq!(flushed.iter().map(|order| order.device).collect::<Vec<_>>(), [Device::Flash]);
    complete_all(&mut engine);
    engine.on_completion(Nanos::ZERO, flushed[0].id, Ok(&[]));
    engine.on_request(Nanos::ZERO, 3, Request::Write { offset: 1 << 20, data: &[1; 2 << 20], fua: false });
    complete_all(&mut engine);
    engine.on_request(Nanos::ZERO, 4, Request::Flush);
    assert_eq!(orders(&mut engine).iter().map(|order| order.device).collect::<Vec<_>>(), [Device::Disk]);
}

#[test]
fn a_flushed_write_waits_for_its_record_and_one_flush_of_flash_while_others_are_written_back() {
    let mut engine = engine(16 << 20);
    for tag in 0..200 {
        write(&mut engine, tag, tag * 2 * BLOCK_BYTES + (1 << 20));
        complete_all(&mut engine);
    }
    engine.drain(Nanos::ZERO, true);
    let mut reads = 0;
    while reads == 0 {
        for order in orders(&mut engine) {
            match order.action {
                Action::Read => reads += 1,
                _ => engine.on_completion(Nanos::ZERO, order.id, Ok(&[])),
            }
        }
    }
    // The write-backs stay where they are.
    engine.drain(Nanos::ZERO, false);
    let mut waited_for = Vec::new();
    for (tag, request) in [(2001, Some(1 << 30)), (2002, None)] {
        match request {
            Some(offset) => write(&mut engine, tag, offset),
            None => engine.on_request(Nanos::ZERO, tag, Request::Flush),
        }
        loop {
            let outputs = engine.take_outputs();
            if outputs.iter().any(|output| *output == Output::Reply { tag, result: Ok(Vec::new()) }) {
                break;
            }
            let given = outputs.into_iter().filter_map(|output| match output {
                Output::Order(order) => Some(order),
                _ => None,
            });
            let given: Vec<Order> = given.collect();
            assert!(!given.is_empty(), "it waits for something that was under way before");
            for order in given {
                waited_for.push((order.device, matches!(order.action, Action::Write(_))));
                engine.on_completion(Nanos::ZERO, order.id, Ok(&[]));
            }
        }
    }
    assert_eq!(waited_for, [(Device::Flash, true), (Device::Flash, false)]);
}

#[test]
fn a_write_that_may_not_bypass_flash_finds_room_in_a_full_log() {
    let mut engine = engine(16 << 20);
    let ring = engine.in_force.layout().ring_offset(0);
    let mut tag = 0;
    // Nothing reaches the disk, so that the log fills and stays full.
    let mut bypassed = false;
    while !bypassed {
        tag += 1;
        write(&mut engine, tag, tag * 2 * BLOCK_BYTES + (1 << 20));
        for order in orders(&mut engine) {
            match (order.device, &order.action) {
                (Device::Disk, _) => bypassed = true,
                (Device::Flash, Action::Read) => {}
                (Device::Flash, _) => engine.on_completion(Nanos::ZERO, order.id, Ok(&[])),
            }
        }
    }
    for place in [0, 1 << 40] {
        tag += 1;
        write(&mut engine, tag, place - place / (1 << 40) * BLOCK_BYTES);
        let given = orders(&mut engine);
        let record = given.iter().find(|order| order.device == Device::Flash && order.offset >= ring);
        engine.on_completion(Nanos::ZERO, record.expect("its record is written at once").id, Ok(&[]));
        let outputs = engine.take_outputs();
        assert!(outputs.contains(&Output::Reply { tag, result: Ok(Vec::new()) }), "{outputs:?}");
    }
}

#[test]
fn overlapping_writes_reach_a_device_one_after_the_other() {
    let mut engine = engine(16 << 20);
    write(&mut engine, 1, 8 * BLOCK_BYTES);
    let first = orders(&mut engine);
    engine.on_request(Nanos::ZERO, 2, Request::Write { offset: 8 * BLOCK_BYTES + 512, data: &[2; 512], fua: false });
    engine.on_request(Nanos::ZERO, 3, Request::Zero { range: Range::new(0, 1 << 20), fua: false });
    assert_eq!(orders(&mut engine), []);
    engine.on_completion(Nanos::ZERO, first[0].id, Ok(&[]));
    assert_eq!(orders(&mut engine).len(), 1, "the second; the third overlaps that");
}

#[test]
fn a_stop_that_keeps_what_is_dirty_begins_no_write_back_however_full_the_log_is() {
    let mut engine = engine(1 << 20);
    let mut under_way = Vec::new();
    for tag in 0..u64::from(engine.map.ring.blocks()) / 4 + 8 {
        write(&mut engine, tag, tag * 2 * BLOCK_BYTES + (1 << 20));
        for order in orders(&mut engine) {
            match order.action {
                Action::Read => under_way.push(order.id),
                _ => engine.on_completion(Nanos::ZERO, order.id, Ok(&[])),
            }
        }
    }
    let load = engine.load();
    assert!(load.free_blocks < load.ring_blocks / 2 && load.write_backs == 32, "the policy wants more: {load:?}");
    engine.stop(Nanos::ZERO, true);
    for id in under_way {
        // Each end would make room for another.
        engine.on_completion(Nanos::ZERO, id, Err(()));
    }
    assert!(orders(&mut engine).iter().all(|order| order.action != Action::Read));
}

#[test]
fn neighbours_are_written_back_in_one_order() {
    let mut engine = engine(16 << 20);
    for tag in [3, 1, 2, 7, 0] {
        write(&mut engine, tag, (20 + tag) * BLOCK_BYTES);
    }
    complete_all(&mut engine);
    engine.stop(Nanos::ZERO, false);
    for order in orders(&mut engine) {
        engine.on_completion(Nanos::ZERO, order.id, Ok(&[]));
    }
    let reads: Vec<(u64, u8)> = Vec::from([(0, 0), (1, 1), (2, 2), (3, 3), (7, 7)]);
    let payload = orders(&mut engine);
    assert_eq!(payload.len(), reads.len());
    let mut written = Vec::new();
    for (order, (_, byte)) in payload.iter().zip(reads) {
        engine.on_completion(Nanos::ZERO, order.id, Ok(&[byte; 4096]));
        written.extend(orders(&mut engine));
    }
    let ranges: Vec<(u64, u64)> = written.iter().map(|order| (order.offset / 4096, order.length / 4096)).collect();
    assert_eq!(ranges, [(20, 4), (27, 1)]);
    let Action::Write(parts) = &written[0].action else { panic!("it writes") };
    assert!(parts.iter().all(|part| matches!(part, Part::Buffer { length: 4096, .. })));
}

#[test]
fn writes_go_to_the_log_while_the_map_is_encoded_and_are_no_part_of_the_checkpoint() {
    let mut engine = engine(16 << 20);
    engine.settings.checkpoint_chunk_bytes = 4096;
    let offset = |index: u64| (index * 2 + 10) * BLOCK_BYTES;
    (0..400).for_each(|tag| write(&mut engine, tag, offset(tag)));
    complete_all(&mut engine);
    engine.on_idle(Nanos::ZERO);
    let ring = engine.in_force.layout().ring_offset(0);
    let (mut area, mut completed, mut appended) = (Vec::new(), 0, 0);
    let start_seq = engine.log.records.seq_next();
    while engine.superblock().start_seq < start_seq {
        // What has been encoded and what has not is written again, and between them.
        let ends = engine.checkpoint_has_ended_encoding();
        if !ends && matches!(engine.checkpoints.stage(), Stage::Writing { .. }) {
            [5, 200, 395].map(|index| offset(index + appended)).into_iter().for_each(|at| {
                write(&mut engine, 1000 + at, at);
            });
            write(&mut engine, 999_999 + appended, offset(300 + appended) + BLOCK_BYTES);
        }
        let orders = orders(&mut engine);
        assert!(!orders.is_empty(), "the checkpoint ends");
        for order in orders {
            if let Action::Write(parts) = &order.action {
                let in_log = order.offset >= ring;
                appended += u64::from(in_log && !ends);
                if let ([Part::Bytes(bytes)], false) = (&parts[..], in_log || order.offset < 2 * BLOCK_BYTES) {
                    area.extend_from_slice(bytes);
                }
                completed += u64::from(in_log && engine.superblock().start_seq < start_seq);
            }
            engine.on_completion(Nanos::ZERO, order.id, Ok(&[]));
        }
    }
    assert!(appended > 2 && completed > 2, "{appended} records are appended meanwhile, {completed} complete");
    area.truncate(engine.superblock().checkpoint_bytes as usize);
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some((extent, _)) = Extent::decode(&area[at..]).unwrap() {
        assert!(extent.seq < start_seq);
        found.push(extent.range);
        at += extent.encoded_bytes();
    }
    let expected: Vec<Range> = (0..400).map(|index| Range::new(offset(index), BLOCK_BYTES)).collect();
    assert!(at == area.len() && found == expected);
}

/// A slice of a GiB, filled with isolated blocks: each in a record of its own, and many to a record.
#[test]
fn memory_per_gib_of_4_kib_writes_stays_below_8_mib() {
    for at_once in [1, 100] {
        let mut engine = engine(1 << 28);
        let mut tag = 0;
        loop {
            for _ in 0..at_once {
                tag += 1;
                // Every other block of a permutation: no two are neighbours.
                write(&mut engine, tag, (tag * 7919 % (1 << 17) * 2 + 512) * BLOCK_BYTES);
            }
            let records: Vec<Order> = orders(&mut engine);
            let full = engine.map.ring.free_blocks() < 4 * engine.map.ring.blocks() / 10;
            for order in records.iter().filter(|order| !matches!(order.action, Action::Read)) {
                engine.on_completion(Nanos::ZERO, order.id, Ok(&[]));
            }
            if full {
                break;
            }
        }
        let used = u64::from(engine.map.ring.blocks() - engine.map.ring.free_blocks());
        let bytes = engine.map.memory_bytes() as u64 * (1 << 18) / used;
        println!("{at_once} at once: {} extents, {bytes} bytes a GiB", engine.map.extents());
        assert!(engine.map.extents() as u64 > used * 4 / 10, "half of the blocks or more are payload");
        assert!(bytes < 8 << 20, "{bytes} bytes a GiB");
    }
}

/// Writes until the log is full of what cannot be written back, and longer: everybody is answered, as long as
/// there is room well.
fn outlast_room<P: Policy>(engine: &mut Engine<P>) {
    let mut replies = Vec::new();
    for tag in 0..300 {
        // The ends of the disk and zeros never bypass flash.
        match tag % 3 {
            0 => write(engine, tag, (tag + 10) * 2 * BLOCK_BYTES),
            1 => write(engine, tag, 0),
            _ => {
                let range = Range::new((tag + 1000) * BLOCK_BYTES, BLOCK_BYTES);
                engine.on_request(Nanos::ZERO, tag, Request::Zero { range, fua: false });
            }
        }
        let fails = |order: &Order| order.device == Device::Disk || order.action == Action::Read;
        replies.extend(answers(engine, |order| if fails(order) { Err(()) } else { Ok(&[]) }));
    }
    assert_eq!(replies.len(), 300, "everybody is answered");
    assert!(replies[0].1.is_ok() && replies[299].1.is_err(), "as long as there is room, and no longer");
}

#[test]
fn a_write_fails_when_what_fills_the_log_cannot_be_written_back() {
    outlast_room(&mut engine(1 << 20));
}

/// Takes no writes.
struct Segmented {
    /// What reads want of their segments, the last first.
    wanted: Vec<Range>,
    /// Segments to be lifted, the last first.
    lifts: Vec<u64>,
}

impl Policy for Segmented {
    fn absorbs(&mut self, _range: Range, _load: &Load) -> bool {
        false
    }
    fn waits_for_room(&self, _load: &Load) -> Nanos {
        Nanos::ZERO
    }
    fn next_write_back(&mut self, _load: &Load) -> Option<u64> {
        None
    }
    fn on_write_back(&mut self, _now: Nanos, _range: Range) {}
    fn on_segment_read(&mut self, _read: SegmentRead) -> Option<Range> {
        self.wanted.pop()
    }
    fn next_lift(&mut self, load: &Load) -> Option<u64> {
        if load.lifts == 0 { self.lifts.pop() } else { None }
    }
}

#[test]
fn a_segment_is_loaded_though_some_of_its_blocks_are_guarded_and_no_order_is_of_both_kinds() {
    let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 1 };
    let mut engine = engine_with(
        64 << 20,
        segments,
        Segmented { wanted: vec![Range::new(0, u64::from(u32::MAX)); 2], lifts: Vec::new() },
    );
    let bytes = segments.segment_bytes();
    // The guard of this one is a block long.
    for (segment, has_guarded) in [(0, true), (9, false)] {
        let whole = Range::new(segment * bytes, bytes);
        engine.on_request(Nanos::ZERO, segment, Request::Read(Range::new(whole.offset + (2 << 20), 4096)));
        let orders = orders(&mut engine);
        let mut ranges: Vec<Range> = orders.iter().map(|order| Range::new(order.offset, order.length)).collect();
        ranges.sort_by_key(|range| range.offset);
        assert!(ranges.iter().all(|range| engine.in_force.regions().cut(*range) == *range), "{ranges:?}");
        assert_eq!(ranges.iter().map(|range| range.length).sum::<u64>(), bytes);
        assert_eq!((ranges[0].offset, ranges.last().unwrap().end()), (whole.offset, whole.end()));
        assert!(orders.iter().all(|order| order.session.is_some()
            == engine.in_force.regions().touches(Range::new(order.offset, order.length))));
        assert_eq!(orders.iter().any(|order| order.session.is_some()), has_guarded);
    }
}

#[test]
fn the_disk_has_the_next_order_before_it_is_done_with_one_however_long_they_are() {
    let mut engine = engine_with(1 << 20, Segments::default(), Segmented { wanted: Vec::new(), lifts: Vec::new() });
    (engine.settings.disk_bytes_max, engine.settings.disk_orders_min) = (1 << 20, 2);
    for tag in 0..5 {
        engine.on_request(Nanos::ZERO, tag, Request::Read(Range::new((tag + 1) << 30, 1 << 20)));
    }
    let given = orders(&mut engine);
    assert_eq!(given.len(), 2);
    engine.on_completion(Nanos::ZERO, given[0].id, Err(()));
    assert_eq!(orders(&mut engine).len(), 1);
}

/// Paces every write by so much.
struct Paced(Nanos);

impl Policy for Paced {
    fn absorbs(&mut self, _range: Range, _load: &Load) -> bool {
        true
    }
    fn waits_for_room(&self, _load: &Load) -> Nanos {
        Nanos(10 * self.0.0)
    }
    fn paces(&self, _load: &Load) -> Nanos {
        self.0
    }
    fn next_write_back(&mut self, _load: &Load) -> Option<u64> {
        None
    }
    fn on_write_back(&mut self, _now: Nanos, _range: Range) {}
}

#[test]
fn paced_writes_enter_the_log_by_address_and_the_aged_at_once() {
    let pace = Nanos(1_000);
    let mut engine = engine_with(16 << 20, Segments::default(), Paced(pace));
    // The first one finds the log open and closes it.
    let offsets: Vec<u64> = [500, 100, 900, 300].map(|block| block * BLOCK_BYTES).into();
    for (tag, offset) in offsets.iter().enumerate() {
        engine.on_request(Nanos(1), tag as u64, Request::Write { offset: *offset, data: &[1; 4096], fua: false });
    }
    let entered = |engine: &mut Engine<Paced>| {
        let writes = orders(engine).into_iter().filter(|order| matches!(order.action, Action::Write(_)));
        let now = engine.condition.now();
        writes.map(|order| order.id).for_each(|id| engine.on_completion(now, id, Ok(&[])));
        let at = |offset: &&u64| engine.map.next_dirty(**offset).is_some_and(|piece| piece.range.offset == **offset);
        offsets.iter().filter(at).map(|offset| offset / BLOCK_BYTES).collect::<Vec<_>>()
    };
    assert_eq!(entered(&mut engine), [500]);
    let due = engine.next_timer().unwrap();
    assert_eq!(due, Nanos(1) + pace, "one of one");
    engine.on_timer(due);
    assert_eq!(entered(&mut engine), [500, 100], "the lowest");
    let third = engine.next_timer().unwrap();
    assert_eq!(third, due + Nanos(pace.0 / 3), "one of three");
    engine.on_timer(Nanos(1) + Nanos(10 * pace.0));
    assert_eq!(entered(&mut engine), [500, 100, 900, 300], "who has waited for as long as for room");
    assert_eq!(engine.log.queue.len(), 0);
}

#[test]
fn writes_that_follow_each_other_are_one_order_of_the_disk_and_fail_one_by_one() {
    let policy = AddressOrder { absorbed_bytes_max: 0, ..AddressOrder::default() };
    let mut engine = engine_with(16 << 20, Segments::default(), policy);
    (engine.settings.disk_bytes_max, engine.settings.disk_orders_min) = (1, 2);
    // Two are under way while the others come.
    for (tag, block) in [900_000, 800_000, 103, 101, 102, 105].into_iter().enumerate() {
        write(&mut engine, tag as u64, block * BLOCK_BYTES);
    }
    let mut given = orders(&mut engine);
    assert_eq!(given.len(), 2);
    given.drain(..).for_each(|order| engine.on_completion(Nanos::ZERO, order.id, Ok(&[])));
    let given = orders(&mut engine);
    let blocks = |order: &Order| (order.offset / BLOCK_BYTES, order.length / BLOCK_BYTES);
    assert_eq!(given.iter().map(blocks).collect::<Vec<_>>(), [(101, 3), (105, 1)]);
    engine.on_completion(Nanos::ZERO, given[0].id, Err(()));
    let mut single = Vec::new();
    engine.on_completion(Nanos::ZERO, given[1].id, Ok(&[]));
    let answered = answers(&mut engine, |order| {
        single.push(blocks(order));
        if order.offset == 102 * BLOCK_BYTES { Err(()) } else { Ok(&[]) }
    });
    let mut replies: Vec<_> = answered.into_iter().map(|(tag, result)| (tag, result.is_ok())).collect();
    single.sort_unstable();
    replies.sort_unstable();
    assert_eq!(single, [(101, 1), (102, 1), (103, 1)], "each by itself");
    assert_eq!(replies, [(2, true), (3, true), (4, false), (5, true)]);
}

#[test]
fn writes_that_cut_the_log_s_zeros_outgrow_no_checkpoint_and_all_are_answered() {
    for (at_once, flushes) in [(16, true), (1, false), (64, false)] {
        let policy = AddressOrder { absorbed_bytes_max: 0, ..AddressOrder::default() };
        let mut engine = engine_with(16 << 20, Segments::default(), policy);
        let zeros = Range::new(1 << 30, 1 << 30);
        engine.on_request(Nanos::ZERO, 0, Request::Zero { range: zeros, fua: false });
        complete_all(&mut engine);
        // Its area has room for 4681 extents, each cut makes two more.
        assert_eq!(engine.in_force.layout().checkpoint_bytes(), 131_072);
        for batch in 0..8192 / at_once {
            let tags = 1 + batch * at_once..=(batch + 1) * at_once;
            tags.clone().for_each(|tag| write(&mut engine, tag, zeros.offset + (2 * tag - 1) * BLOCK_BYTES));
            if flushes {
                engine.on_request(Nanos::ZERO, 0, Request::Flush);
            }
            let mut answered = answers(&mut engine, |_| Ok(&[]));
            answered.sort_by_key(|(tag, _)| *tag);
            let asked = (u64::from(!flushes)..1).chain(tags);
            assert_eq!(answered, asked.map(|tag| (tag, Ok(Vec::new()))).collect::<Vec<_>>(), "{at_once} at once");
        }
        assert!(engine.counters.checkpoints_total > 0);
    }
}

/// Takes no write, and fetches what a read asks for with the same again before it.
struct FetchesBefore;

impl Policy for FetchesBefore {
    fn absorbs(&mut self, _range: Range, _load: &Load) -> bool {
        false
    }
    fn waits_for_room(&self, _load: &Load) -> Nanos {
        Nanos::ZERO
    }
    fn on_read(&mut self, range: Range, _load: &Load) -> Option<Range> {
        Some(Range::between(range.offset - range.length, range.end()))
    }
    fn next_write_back(&mut self, _load: &Load) -> Option<u64> {
        None
    }
    fn on_write_back(&mut self, _now: Nanos, _range: Range) {}
}

#[test]
fn nothing_is_staged_of_a_range_that_is_being_written() {
    let mut engine = engine_with(64 << 20, Segments::default(), FetchesBefore);
    let written = Range::new(1 << 20, BLOCK_BYTES);
    engine.on_request(Nanos::ZERO, 1, Request::Write { offset: written.offset, data: &[1; 4096], fua: false });
    let writes = orders(&mut engine);
    assert_eq!((writes.len(), writes[0].device), (1, Device::Disk));
    // The disk answers this one before it writes.
    engine.on_request(Nanos::ZERO, 2, Request::Read(Range::new(written.end(), BLOCK_BYTES)));
    loop {
        let orders = orders(&mut engine);
        if orders.is_empty() {
            break;
        }
        for order in orders {
            let old = vec![0; order.length as usize];
            let read = order.action == Action::Read;
            engine.on_completion(Nanos::ZERO, order.id, Ok(if read { &old } else { &[] }));
        }
    }
    // It has written by now, and other reads have seen that.
    engine.on_request(Nanos::ZERO, 3, Request::Read(written));
    let reads = orders(&mut engine);
    assert!(reads.iter().all(|order| order.device == Device::Disk), "{reads:?}");
    assert!(!reads.is_empty());
}

/// A block of payload that all writes of some tests have.
static SEVENS: [u8; 4096] = [7; 4096];

#[test]
fn of_neighbours_that_cannot_be_written_back_together_only_the_bad_one_is_kept_and_tried_again() {
    let mut engine = engine(16 << 20);
    (20..24).for_each(|block| {
        let request = Request::Write { offset: block * BLOCK_BYTES, data: &SEVENS, fua: false };
        engine.on_request(Nanos::ZERO, block, request);
    });
    complete_all(&mut engine);
    let mut written = Vec::new();
    let mut written_back = |engine: &mut Engine<AddressOrder>, bad: Range| {
        answers(engine, |order| match (order.device, &order.action) {
            (Device::Flash, Action::Read) => Ok(&SEVENS),
            (Device::Disk, Action::Write(_)) => {
                written.push((order.offset / BLOCK_BYTES, order.length / BLOCK_BYTES));
                if Range::new(order.offset, order.length).overlaps(bad) { Err(()) } else { Ok(&[]) }
            }
            _ => Ok(&[]),
        });
        (engine.map.dirty_bytes(), std::mem::take(&mut written))
    };
    let bad = Range::new(21 * BLOCK_BYTES, 512);
    let apart = vec![(20, 4), (20, 1), (21, 1), (22, 1), (23, 1)];
    engine.drain(Nanos::ZERO, true);
    assert_eq!(written_back(&mut engine, bad), (BLOCK_BYTES, apart));
    engine.on_timer(Nanos(20_000_000_000));
    assert_eq!(written_back(&mut engine, bad), (BLOCK_BYTES, vec![]), "not too often");
    engine.on_timer(Nanos(40_000_000_000));
    assert_eq!(written_back(&mut engine, bad), (BLOCK_BYTES, vec![(21, 1)]));
    assert!(!engine.may_drain());
    engine.drain(Nanos(50_000_000_000), true);
    assert_eq!(written_back(&mut engine, Range::default()), (0, vec![(21, 1)]));
    assert!(engine.is_drained());
}

#[test]
fn guarded_blocks_that_were_written_back_whole_are_known_from_the_next_checkpoint_on() {
    let mut engine = engine(16 << 20);
    let write_back = |engine: &mut Engine<AddressOrder>, payload: &'static [u8]| {
        complete_all(engine);
        engine.drain(Nanos::ZERO, true);
        answers(engine, |order| if order.action == Action::Read { Ok(payload) } else { Ok(&[]) });
        assert!(engine.is_drained());
        engine.drain(Nanos::ZERO, false);
        engine.on_idle(Nanos::ZERO);
        answers(engine, |_| Ok(&[]));
    };
    let is_changed = |engine: &Engine<AddressOrder>| [0, 1].map(|bit| engine.superblock().guard.is_changed(bit));
    let end = Range::new((1 << 40) - BLOCK_BYTES, BLOCK_BYTES);
    engine.on_request(Nanos::ZERO, 1, Request::Write { offset: 0, data: &SEVENS, fua: false });
    engine.on_request(Nanos::ZERO, 2, Request::Zero { range: end, fua: false });
    assert_eq!(is_changed(&engine), [true; 2]);
    write_back(&mut engine, &SEVENS);
    assert_eq!(is_changed(&engine), [false; 2]);
    assert_eq!(engine.superblock().guard.crcs, [&SEVENS, &[0; 4096]].map(|block| crc32c::crc32c(block)));
    engine.on_request(Nanos::ZERO, 3, Request::Write { offset: 0, data: &SEVENS[..512], fua: false });
    static PART: [u8; 4096] = {
        let mut part = [0; 4096];
        part.split_at_mut(512).0.copy_from_slice(SEVENS.split_at(512).0);
        part
    };
    write_back(&mut engine, &PART);
    assert_eq!(is_changed(&engine), [true, false], "of a block of which a part was written the rest is not known");
}

#[test]
fn one_event_that_fails_all_records_in_flight_does_not_end_the_flash() {
    let mut engine = engine(16 << 20);
    (0..6).for_each(|tag| write(&mut engine, tag, (tag * 2 + 10) * BLOCK_BYTES));
    let records = orders(&mut engine);
    assert_eq!(records.len(), 6);
    records.iter().for_each(|order| engine.on_completion(Nanos::ZERO, order.id, Err(())));
    let mut answered = answers(&mut engine, |_| Ok(&[]));
    answered.sort_by_key(|(tag, _)| *tag);
    assert_eq!(answered, (0..6).map(|tag| (tag, Ok(Vec::new()))).collect::<Vec<_>>());
    assert_eq!(engine.has_failed(), (false, false));
}

/// Another policy, which always has something to look at soon.
struct Restless<P>(P);

impl<P: Policy> Policy for Restless<P> {
    fn absorbs(&mut self, range: Range, load: &Load) -> bool {
        self.0.absorbs(range, load)
    }
    fn waits_for_room(&self, load: &Load) -> Nanos {
        self.0.waits_for_room(load)
    }
    fn next_write_back(&mut self, load: &Load) -> Option<u64> {
        self.0.next_write_back(load)
    }
    fn on_write_back(&mut self, now: Nanos, range: Range) {
        self.0.on_write_back(now, range);
    }
    fn next_timer(&self, load: &Load) -> Option<Nanos> {
        Some(load.now + Nanos(5_000_000))
    }
}

#[test]
fn a_write_for_which_no_room_can_come_fails_though_a_timer_is_set_and_the_disk_reads() {
    let mut engine = engine_with(1 << 20, Segments::default(), Restless(AddressOrder::default()));
    engine.on_request(Nanos::ZERO, 1000, Request::Read(Range::new(1 << 39, 4096)));
    assert_eq!(orders(&mut engine).len(), 1, "a read that the disk is not done with");
    outlast_room(&mut engine);
}

#[test]
fn a_stop_that_keeps_what_is_dirty_flushes_the_disk_after_writes_that_bypassed_flash() {
    let mut engine = engine_with(16 << 20, Segments::default(), WriteThrough);
    engine.on_request(Nanos::ZERO, 1, Request::Write { offset: 1 << 20, data: &[1; 4096], fua: false });
    assert_eq!(answers(&mut engine, |_| Ok(&[])), [(1, Ok(Vec::new()))]);
    engine.stop(Nanos::ZERO, true);
    let mut flushed = 0;
    answers(&mut engine, |order| {
        flushed += u32::from((order.device, &order.action) == (Device::Disk, &Action::Flush));
        Ok(&[])
    });
    assert!(flushed == 1 && engine.has_stopped());
}

#[test]
fn heads_leave_room_in_a_checkpoint_for_writes_that_bypass_flash() {
    // Slots take most of the slice, and a head of a block more of a checkpoint than a block of the log.
    let segments = Segments { segment_blocks: 2, head_blocks: 1, slots: 3000 };
    let mut engine = engine_with(16 << 20, segments, Segmented { wanted: Vec::new(), lifts: (0..3200).collect() });
    let read = [1; 4096];
    let mut reads = 0;
    while !engine.policy.lifts.is_empty() {
        engine.on_timer(Nanos::ZERO);
        for order in orders(&mut engine) {
            reads += u64::from(order.action == Action::Read);
            let data: &[u8] = if order.action == Action::Read { &read } else { &[] };
            engine.on_completion(Nanos::ZERO, order.id, Ok(data));
        }
    }
    answers(&mut engine, |_| Ok(&[]));
    let area = engine.in_force.layout().checkpoint_bytes();
    assert!(engine.map.heads.iter_live().count() > 2000 && engine.room_in_checkpoint() >= area / 4);
    assert!(reads < 2700, "what has no room is not read either");
    engine.on_request(Nanos::ZERO, 1, Request::Write { offset: 1 << 30, data: &[1; 4096], fua: false });
    assert_eq!(answers(&mut engine, |_| Ok(&[])), [(1, Ok(Vec::new()))]);
}
