//! The rows of the recovery table, one by one.

use super::storage::{Pair, Storage};
use super::world::{GUARD_BLOCKS, UUID, World};
use crate::devices::Device;
use crate::guard;
use crate::order::{Action, Request};
use crate::record::{Entry, Header, Kind};
use crate::recovery;
use crate::recovery::{Given, Recovered, Refusal};
use crate::superblock::{Found, GuardState, Serving, Superblock};
use headstart_units::BLOCK_BYTES;
use headstart_units::Nanos;
use headstart_units::request::Range;

/// A disk and a flash slice between two lives of a volume.
#[derive(Clone)]
struct Bench {
    disk: Storage,
    flash: Storage,
    given: Given,
    /// Of flash.
    unreadable: Range,
}

impl Bench {
    fn new() -> Bench {
        let given =
            Given { disk: [7; 32], disk_bytes: 1 << 16, flash_bytes: 64 * BLOCK_BYTES, uuid: None, absorbs: true };
        let disk = Storage::new((0..1u32 << 16).map(|byte| (byte.wrapping_mul(7) >> 3) as u8).collect());
        let flash = Storage::new(vec![0; given.flash_bytes as usize]);
        let mut bench = Bench { disk, flash, given, unreadable: Range::default() };
        assert_eq!(recovery::create(&mut bench.pair(), &given, UUID, GUARD_BLOCKS, Serving::default()), Ok(true));
        bench
    }

    fn pair(&mut self) -> Pair<'_> {
        Pair { unreadable: self.unreadable, ..Pair::new(&mut self.disk, &mut self.flash) }
    }

    fn attach(&mut self) -> Result<Recovered, Refusal> {
        let given = self.given;
        recovery::attach(&mut self.pair(), &given)
    }

    fn refusal(&mut self) -> Refusal {
        let before = (self.disk.current.clone(), self.flash.current.clone());
        let refusal = self.attach().expect_err("it is refused");
        assert!(before == (self.disk.current.clone(), self.flash.current.clone()), "a refusal writes nothing");
        refusal
    }

    fn superblock(&self) -> Superblock {
        let found = |place: usize| match Superblock::decode(&self.flash.current[place * 4096..(place + 1) * 4096]) {
            Found::Valid(superblock) => Some(*superblock),
            _ => None,
        };
        let newest = [found(0), found(1)].into_iter().flatten().max_by_key(|superblock| superblock.number);
        newest.expect("one is valid")
    }

    /// Writes a superblock that differs from the newest, under the next number.
    fn change(&mut self, change: impl Fn(&mut Superblock)) {
        let mut superblock = self.superblock();
        change(&mut superblock);
        guard::write_superblock(&mut self.pair(), &mut superblock).unwrap();
    }

    /// A record as an engine would have written it: one block of `byte` at each of these blocks of the disk.
    fn record(&mut self, at: u32, seq: u64, durable_to: u64, blocks: &[u64], byte: u8) -> u32 {
        let superblock = self.superblock();
        let entry = |block: &u64| Entry { kind: Kind::Data, range: Range::new(block * BLOCK_BYTES, BLOCK_BYTES) };
        let payload = vec![byte; BLOCK_BYTES as usize];
        let header = Header {
            uuid: UUID,
            epoch: superblock.epoch,
            seq,
            durable_to,
            superblock: superblock.number,
            entries: blocks.iter().map(entry).collect(),
            crcs: vec![crc32c::crc32c(&payload); blocks.len()],
        };
        let mut bytes = header.encode().to_vec();
        blocks.iter().for_each(|_| bytes.extend_from_slice(&payload));
        self.flash.write(superblock.layout().ring_offset(at), &bytes);
        at + header.blocks() as u32
    }

    fn ring_byte(&self, block: u32) -> u64 {
        self.superblock().layout().ring_offset(block)
    }

    /// Attached, with three durable records of a block each, the last of which says that the others are durable.
    fn with_records() -> (Bench, u64) {
        let mut bench = Bench::new();
        bench.attach().unwrap();
        let superblock = bench.superblock();
        let (seq, mut at) = (superblock.start_seq, superblock.start_block);
        assert_eq!(at, 0);
        for (index, block) in [3u64, 4, 5].into_iter().enumerate() {
            at = bench.record(at, seq + index as u64, seq + index as u64 - 1, &[block], 0xa0 + index as u8);
        }
        (bench, seq)
    }
}

fn contents(recovered: &Recovered) -> Vec<(u64, u64)> {
    let pieces = recovered.map.pieces(Range::new(0, 1 << 16));
    pieces.iter().map(|piece| (piece.range.offset / BLOCK_BYTES, piece.seq)).collect()
}

#[test]
fn flash_without_a_superblock_is_refused() {
    let mut bench = Bench::new();
    bench.flash = Storage::new(vec![3; bench.given.flash_bytes as usize]);
    assert_eq!(bench.refusal(), Refusal::NoVolume);
}

#[test]
fn another_format_is_refused_and_named() {
    let mut bench = Bench::new();
    let mut block = bench.superblock().encode();
    block[6..8].copy_from_slice(b"02");
    block[136..140].fill(0);
    let crc = crc32c::crc32c(&block).to_le_bytes();
    block[136..140].copy_from_slice(&crc);
    bench.flash.write(0, &block);
    assert_eq!(bench.refusal(), Refusal::OtherFormat("02".into()));
}

#[test]
fn another_volume_disk_or_size_is_refused() {
    let mut bench = Bench::new();
    bench.given.uuid = Some([1; 16]);
    assert_eq!(bench.refusal(), Refusal::OtherVolume);
    bench.given.uuid = None;
    bench.given.disk = [8; 32];
    assert_eq!(bench.refusal(), Refusal::OtherDisk);
    bench.given.disk = [7; 32];
    bench.given.disk_bytes -= 512;
    assert_eq!(bench.refusal(), Refusal::DiskSize { expected: 65536, found: 65024 });
    bench.given.disk_bytes += 512;
    bench.given.flash_bytes -= 1;
    assert_eq!(bench.refusal(), Refusal::FlashSize { expected: 64 * 4096, found: 64 * 4096 - 1 });
    bench.given.flash_bytes += 4097;
    bench.attach().expect("flash may grow; the volume keeps its size");
}

#[test]
fn superblocks_of_two_volumes_are_refused() {
    let mut bench = Bench::new();
    let mut other = bench.superblock();
    other.uuid = [9; 16];
    bench.flash.write(bench.superblock().layout().superblock_offset(other.number + 1), &other.encode());
    assert_eq!(bench.refusal(), Refusal::OtherVolume);
}

#[test]
fn two_damaged_superblocks_are_refused() {
    let mut bench = Bench::new();
    bench.flash.flip(100, 1);
    bench.flash.flip(4096 + 2000, 1);
    assert_eq!(bench.refusal(), Refusal::SuperblocksDamaged);
}

#[test]
fn a_superblock_that_was_being_written_or_is_damaged_is_passed_over() {
    for place in 0..2 {
        for unreadable in [false, true] {
            let (mut bench, seq) = Bench::with_records();
            if unreadable {
                bench.unreadable = Range::new(place * BLOCK_BYTES, 1);
            } else {
                bench.flash.flip(place * BLOCK_BYTES + 30, 2);
            }
            assert_eq!(contents(&bench.attach().unwrap()), [(3, seq), (4, seq + 1), (5, seq + 2)]);
        }
    }
}

#[test]
fn the_only_whole_superblock_is_kept_until_another_one_is_durable() {
    for (place, left) in (0..2).flat_map(|place| (0..12).map(move |left| (place, left))) {
        let (mut bench, seq) = Bench::with_records();
        bench.flash.flip(place * BLOCK_BYTES + 30, 2);
        bench.flash.flush(bench.flash.mark());
        let given = bench.given;
        let mut pair = bench.pair();
        (pair.operations_left, pair.writes) = (left, left);
        let _ = recovery::attach(&mut pair, &given);
        bench.flash.crash(Vec::new(), &mut headstart_units::chance::Random(left));
        bench.disk.crash(Vec::new(), &mut headstart_units::chance::Random(left));
        assert_eq!(contents(&bench.attach().unwrap()), [(3, seq), (4, seq + 1), (5, seq + 2)], "{place} {left}");
    }
}

#[test]
fn a_damaged_superblock_under_which_records_were_written_is_missed() {
    let (mut bench, seq) = Bench::with_records();
    // As a version did that wrote each superblock to one place.
    let mut newer = bench.superblock();
    newer.number += 1;
    let offset = newer.places()[0];
    bench.flash.write(offset, &newer.encode());
    bench.record(6, seq + 3, seq, &[6], 1);
    bench.flash.flip(offset + 30, 2);
    assert_eq!(bench.refusal(), Refusal::NewerSuperblockDamaged);
}

#[test]
fn a_damaged_checkpoint_is_refused() {
    let (mut bench, _) = Bench::with_records();
    bench.attach().unwrap();
    let superblock = bench.superblock();
    assert!(superblock.checkpoint_bytes > 0);
    bench.flash.flip(superblock.layout().checkpoint_offset(superblock.area) + 17, 0);
    assert_eq!(bench.refusal(), Refusal::CheckpointDamaged);
}

#[test]
fn dirty_records_without_a_guard_are_impossible() {
    for state in [GuardState::Off, GuardState::Applying, GuardState::Removing] {
        let (mut bench, _) = Bench::with_records();
        bench.change(|superblock| superblock.guard.state = state);
        assert_eq!(bench.refusal(), Refusal::DirtyWithoutGuard(state));
    }
}

#[test]
fn a_disk_that_somebody_wrote_is_refused() {
    let (mut bench, _) = Bench::with_records();
    bench.disk.flip(100, 3);
    assert_eq!(bench.refusal(), Refusal::GuardDiffers);
}

#[test]
fn guarded_blocks_that_the_log_has_named_may_differ() {
    let (mut bench, seq) = Bench::with_records();
    bench.record(6, seq + 3, seq, &[0], 1);
    bench.disk.flip(100, 3);
    bench.attach().expect("a write-back of block 0 may have been under way");
    // A checkpoint remembers which.
    bench.disk.flip(100, 4);
    bench.attach().expect("the mark is kept");
}

#[test]
fn guarded_blocks_that_the_log_names_no_more_are_known_after_a_start() {
    let mut bench = Bench::new();
    bench.attach().unwrap();
    bench.change(|superblock| superblock.guard.changed = [u64::MAX; 8]);
    bench.disk.flip(100, 3);
    bench.attach().expect("everything was written since, as by a mkfs");
    bench.disk.flip(100, 4);
    assert_eq!(bench.refusal(), Refusal::GuardDiffers);
}

#[test]
fn an_interrupted_guard_is_undone_from_the_copy() {
    for (state, operations) in [(GuardState::Applying, 0), (GuardState::Removing, 0)] {
        let mut bench = Bench::new();
        let plain = bench.disk.current.clone();
        let mut superblock = bench.superblock();
        if state == GuardState::Removing {
            guard::apply(&mut bench.pair(), &mut superblock).unwrap();
            assert_ne!(bench.disk.current, plain);
        }
        for (left, seed) in (operations..16).flat_map(|left| (0..24).map(move |seed| (left, seed))) {
            let mut copy = bench.clone();
            copy.given.absorbs = false;
            let mut pair = copy.pair();
            pair.operations_left = left;
            let mut superblock = superblock.clone();
            pair.writes = seed % 2;
            let result = if state == GuardState::Removing {
                guard::remove(&mut pair, &mut superblock)
            } else {
                guard::apply(&mut pair, &mut superblock)
            };
            copy.disk.crash(Vec::new(), &mut headstart_units::chance::Random(seed));
            copy.flash.crash(Vec::new(), &mut headstart_units::chance::Random(seed + 1000));
            let recovered = copy.attach().unwrap();
            let hidden = recovered.superblock.guard.state == GuardState::On;
            assert_eq!(copy.disk.current == plain, !hidden, "{state:?} {left} {seed}");
            assert!(result.is_err() || hidden == (state == GuardState::Applying), "what has ended has ended");
        }
    }
}

#[test]
fn a_damaged_copy_of_the_guard_is_refused() {
    let mut bench = Bench::new();
    bench.attach().unwrap();
    bench.change(|superblock| superblock.guard.state = GuardState::Applying);
    let copy = bench.superblock().layout().guard_offset();
    bench.flash.flip(copy + 5, 5);
    assert_eq!(bench.refusal(), Refusal::GuardCopyDamaged);
}

#[test]
fn a_torn_record_ends_the_log_and_nothing_behind_it_is_used() {
    let (mut bench, seq) = Bench::with_records();
    // The third says that the first was durable, not the second.
    let superblock = bench.superblock();
    bench.record(4, seq + 2, seq, &[5], 0xa2);
    bench.flash.flip(superblock.layout().ring_offset(3), 0);
    assert_eq!(contents(&bench.attach().unwrap()), [(3, seq)]);
    // The next epoch does not adopt what lies behind the hole.
    assert_eq!(contents(&bench.attach().unwrap()), [(3, seq)]);
}

#[test]
fn records_of_another_epoch_are_not_adopted() {
    let (mut bench, seq) = Bench::with_records();
    let recovered = bench.attach().unwrap();
    assert_eq!(contents(&recovered).len(), 3);
    // A fourth record of the epoch before lies where the log goes on.
    let mut old = recovered.superblock.clone();
    old.epoch -= 1;
    let payload = [1u8; 4096];
    let header = Header {
        uuid: UUID,
        epoch: old.epoch,
        seq: seq + 3,
        durable_to: seq,
        superblock: old.number,
        entries: vec![Entry { kind: Kind::Data, range: Range::new(6 * BLOCK_BYTES, BLOCK_BYTES) }],
        crcs: vec![crc32c::crc32c(&payload)],
    };
    let offset = bench.ring_byte(6);
    bench.flash.write(offset, &header.encode());
    bench.flash.write(offset + 4096, &payload);
    assert_eq!(contents(&bench.attach().unwrap()).len(), 3);
}

#[test]
fn a_damaged_header_that_was_durable_is_refused() {
    let (mut bench, seq) = Bench::with_records();
    let offset = bench.ring_byte(2);
    bench.flash.flip(offset + 20, 0);
    assert_eq!(bench.refusal(), Refusal::RecordDamaged { seq: seq + 1 });
}

#[test]
fn damaged_payload_that_was_durable_is_kept_and_fails_to_read() {
    let (mut bench, seq) = Bench::with_records();
    let offset = bench.ring_byte(3);
    bench.flash.flip(offset + 20, 0);
    let recovered = bench.attach().unwrap();
    assert_eq!(contents(&recovered), [(3, seq), (4, seq + 1), (5, seq + 2)]);
    assert_eq!(read_results(recovered), [Ok(()), Err(()), Ok(())]);
    // The next start finds it in the checkpoint.
    assert_eq!(read_results(bench.attach().unwrap()), [Ok(()), Err(()), Ok(())]);
}

#[test]
fn unreadable_payload_that_was_durable_stays_in_its_place_and_else_nothing_is_served() {
    let (mut bench, seq) = Bench::with_records();
    bench.unreadable = Range::new(bench.ring_byte(3), BLOCK_BYTES);
    let recovered = bench.attach().unwrap();
    assert_eq!(contents(&recovered), [(3, seq), (4, seq + 1), (5, seq + 2)]);
    assert_eq!(read_results(recovered), [Ok(()); 3], "the device is asked, and may be mended");
    // It is below the checkpoint now, and in a small ring a lap ahead of the log's end.
    assert_eq!(contents(&bench.attach().unwrap()), [(3, seq), (4, seq + 1), (5, seq + 2)]);
    bench.flash.flip(30, 2);
    assert_eq!(contents(&bench.attach().unwrap()), [(3, seq), (4, seq + 1), (5, seq + 2)]);
    // The last record may have been flushed or not: nobody knows.
    let (mut bench, _) = Bench::with_records();
    bench.unreadable = Range::new(bench.ring_byte(5), BLOCK_BYTES);
    assert!(matches!(bench.refusal(), Refusal::Device(_)));
}

/// Whether blocks 3, 4 and 5 are refused at once.
fn read_results(recovered: Recovered) -> Vec<Result<(), ()>> {
    use crate::engine::{Engine, Settings};
    use crate::order::Output;
    use headstart_policy::server::AddressOrder;
    let mut engine = Engine::new(recovered, AddressOrder::default(), Settings::default());
    let mut results = Vec::new();
    for block in 3..6u64 {
        engine.on_request(Nanos::ZERO, block, Request::Read(Range::new(block * BLOCK_BYTES, BLOCK_BYTES)));
        let refused = |output: &Output| matches!(output, Output::Reply { result: Err(_), .. });
        results.push(if engine.take_outputs().iter().any(refused) { Err(()) } else { Ok(()) });
    }
    results
}

#[test]
fn damaged_payload_below_the_checkpoint_fails_to_read_and_is_never_written_back() {
    let mut world = World::new(5);
    world.rotten = true;
    world.absorb_all();
    world.write(Range::new(8192, 4096), false, true);
    world.settle();
    world.engine.on_idle(Nanos::ZERO);
    world.carry_out();
    world.settle();
    let piece = world.engine.map().pieces(Range::new(8192, 4096))[0];
    let crate::log_map::Content::Payload { place } = piece.content else { panic!("it has payload") };
    let offset = world.engine.superblock().layout().ring_offset(0) + place + 77;
    world.flash.flip(offset, 1);
    world.crash();
    world.recover().unwrap();
    let disk = world.disk.current[8192..12288].to_vec();
    let errors = world.errors;
    world.read(Range::new(8192, 4096));
    world.settle();
    assert_eq!(world.errors, errors + 1, "neither wrong bytes nor the older ones of the disk");
    world.engine.stop(Nanos::ZERO, false);
    world.carry_out();
    world.settle();
    assert_eq!(world.disk.current[8192..12288], disk[..], "nothing wrong reaches the disk");
    assert!(!world.engine.map().is_empty(), "the extent is kept");
}

#[test]
fn heads_are_dropped_by_a_version_that_has_none() {
    let (mut bench, seq) = Bench::with_records();
    let superblock = bench.superblock();
    let range = Range::new(7 * BLOCK_BYTES, BLOCK_BYTES);
    let entries = vec![Entry { kind: Kind::Head { slot: 1 }, range }, Entry { kind: Kind::NoHead, range }];
    let header = Header {
        uuid: UUID,
        epoch: superblock.epoch,
        seq: seq + 3,
        durable_to: seq,
        superblock: superblock.number,
        entries,
        crcs: Vec::new(),
    };
    let offset = bench.ring_byte(6);
    bench.flash.write(offset, &header.encode());
    assert_eq!(contents(&bench.attach().unwrap()).len(), 3);
}

#[test]
fn nothing_is_served_before_both_devices_are_flushed_and_a_new_epoch_is_durable() {
    let (mut bench, _) = Bench::with_records();
    let before = bench.superblock();
    let recovered = bench.attach().unwrap();
    // Everything the recovered map rests on survives a crash that loses all that was not flushed.
    bench.flash.crash(Vec::new(), &mut headstart_units::chance::Random(0));
    bench.disk.crash(Vec::new(), &mut headstart_units::chance::Random(0));
    let after = bench.superblock();
    assert_eq!((after.epoch, after.start_seq), (before.epoch + 1, before.start_seq + 3));
    assert_eq!(recovered.superblock, after);
    assert_eq!(contents(&bench.attach().unwrap()), contents(&recovered));
}

#[test]
fn no_record_is_written_before_the_guard_is_on() {
    let mut bench = Bench::new();
    let plain = bench.disk.current.clone();
    let recovered = bench.attach().unwrap();
    assert_eq!(recovered.superblock.guard.state, GuardState::On);
    let regions = guard::regions(&recovered.superblock);
    assert_eq!(regions.iter().count(), 3, "both ends and a copy");
    for at in (0..1 << 16).step_by(4096) {
        let is_plain = bench.disk.current[at..at + 4096] == plain[at..at + 4096];
        assert_eq!(is_plain, !regions.touches(Range::new(at as u64, 4096)), "block at {at}");
    }
    // Without a guard nothing is absorbed, whatever the policy wants.
    let mut bench = Bench::new();
    bench.given.absorbs = false;
    let recovered = bench.attach().unwrap();
    let mut engine = crate::engine::Engine::new(
        recovered,
        headstart_policy::server::AddressOrder::default(),
        crate::engine::Settings::default(),
    );
    engine.on_request(Nanos::ZERO, 1, Request::Write { offset: 0, data: &[1; 4096], fua: false });
    let outputs = engine.take_outputs();
    let to_disk = |output: &crate::order::Output| match output {
        crate::order::Output::Order(order) => order.device == Device::Disk && matches!(order.action, Action::Write(_)),
        _ => false,
    };
    assert!(outputs.iter().all(to_disk) && outputs.len() == 1);
}
