use super::super::Parameters;
use super::*;
use proptest::prelude::*;

fn costs() -> Costs {
    let read = Parameters {
        hdd_servers: 8,
        ssd_servers: 4,
        stripe_bytes: 100,
        hdd_startup_s_min: 0.002,
        hdd_startup_s_max: 0.010,
        hdd_s_per_byte: 1e-6,
        ssd_s_per_byte: 3e-6,
        ssd_startup_s: 0.0,
        ssd_busy_s_per_byte: None,
        near_stays: false,
        interleaved_stays: false,
    };
    Costs { write: Parameters { ssd_s_per_byte: 9e-6, ..read.clone() }, read }
}

fn table(requests: &[(u32, Direction, Range)]) -> BTreeMap<RegionId, RegionGain> {
    let mut table = GainTable::new(costs());
    for (file, direction, range) in requests {
        table.add(*file, 1000 + u64::from(*file), *direction, *range, Known::Nothing);
    }
    table.into_regions()
}

#[test]
fn a_gain_is_the_sum_over_the_requests_of_equation_9() {
    let found = table(&[
        (0, Direction::Read, Range::new(10, 50)),
        (0, Direction::Read, Range::new(900, 80)),
        (0, Direction::Write, Range::new(0, 7)),
        (0, Direction::Read, Range::new(1000, 5)),
    ]);
    let gain = |direction, length| costs().gain_ns(direction, length);
    let expected = gain(Direction::Read, 50) + gain(Direction::Read, 80) + gain(Direction::Write, 7);
    let region = found[&(0, 0)];
    assert_eq!((region.gain_ns(1000), region.reads, region.writes, region.bytes), (expected, 2, 1, 137));
    assert_eq!(found[&(0, 1)].gain_ns(1000), gain(Direction::Read, 5));
}

#[test]
fn beside_s4d_bytes_written_once_gain_nothing_and_those_written_again_do() {
    const REGION: u64 = 64 << 20;
    let table = |requests: &[(Direction, Range)]| {
        let mut table = GainTable::new(costs());
        requests.iter().for_each(|(direction, range)| table.add(0, REGION, *direction, *range, Known::Nothing));
        table.into_regions()[&(0, 0)]
    };
    let write = |index: u64| (Direction::Write, Range::new(index * 8192 % REGION, 8192));
    let once: Vec<_> = (0..8192).map(write).collect();
    assert_eq!(table(&once).gain_beside_s4d_ns(REGION), 0);
    assert!(table(&once).gain_ns(REGION) != 0);
    // All of it twice more: two writes of three.
    let thrice: Vec<_> = (0..3 * 8192).map(write).collect();
    let found = table(&thrice);
    assert_eq!(found.gain_beside_s4d_ns(REGION), found.gain_ns(REGION) / 3 * 2);
    // Half a part again and again, and reads count as ever.
    let hot: Vec<_> = (0..1600).map(|index| write(index % 8)).chain([(Direction::Read, Range::new(0, 100))]).collect();
    let (found, read) = (table(&hot), costs().gain_ns(Direction::Read, 100));
    assert_eq!(found.gain_beside_s4d_ns(REGION) - read, (found.gain_ns(REGION) - read) / 100 * 99);
}

#[test]
fn reads_of_what_was_touched_before_gain_what_they_took_more_than_flash_if_they_took_less() {
    const REGION: u64 = 64 << 20;
    let gain = |blocks: u64, reads: u64, took: Nanos| {
        let mut table = GainTable::new(costs());
        for read in 0..reads {
            let range = Range::new(read % blocks * 131_072, 131_072);
            table.add(0, REGION, Direction::Read, range, Known::Took(took));
        }
        table.into_regions()[&(0, 0)].gain_ns(REGION)
    };
    let flash = costs().read.flash_ns(131_072);
    let (modelled, quick) = (costs().gain_ns(Direction::Read, 131_072), Nanos(flash.0 / 3));
    assert_eq!(gain(10, 10, quick), 10 * modelled, "each for the first time, whatever it took");
    let less = flash.0 as i64 - quick.0 as i64;
    assert_eq!(gain(10, 40, quick), 10 * modelled - 30 * less);
    assert_eq!(gain(10, 40, flash), 40 * modelled, "not sooner than flash");
}

#[test]
fn a_request_across_regions_counts_in_each_with_the_bytes_that_fall_there() {
    let found = table(&[(0, Direction::Read, Range::new(950, 2100))]);
    let bytes: Vec<_> = found.iter().map(|(id, region)| (id.1, region.bytes, region.reads)).collect();
    assert_eq!(bytes, [(0, 50, 1), (1, 1000, 1), (2, 1000, 1), (3, 50, 1)]);
    assert_eq!(found[&(0, 1)].gain_ns(1000), costs().gain_ns(Direction::Read, 1000));
    assert!(table(&[(0, Direction::Read, Range::new(950, 0))]).is_empty());
}

#[test]
fn the_last_region_ends_with_the_file_and_takes_whole_pages() {
    let file = FileRegions { size_bytes: 10_000, region_bytes: 4096 };
    assert_eq!(file.count(), 3);
    assert_eq!(file.range(2), Range::new(8192, 1808));
    assert_eq!(flash_bytes(file.range(2)), 4096);
    assert!(file.range(3).is_empty() && flash_bytes(file.range(3)) == 0);
    assert_eq!(flash_bytes(Range::new(4095, 2)), 8192);
}

#[test]
fn requests_at_the_end_of_the_address_space_are_split_as_well() {
    let found: Vec<_> = parts(Range::new(u64::MAX - 10, 100), 1 << 63).collect();
    assert_eq!(found, [(1, Range::new(u64::MAX - 10, 10))]);
    assert_eq!(parts(Range::new(u64::MAX - 10, 10), u64::MAX).count(), 1);
}

fn request() -> impl Strategy<Value = (u32, Direction, Range)> {
    let direction = any::<bool>().prop_map(|read| if read { Direction::Read } else { Direction::Write });
    (0u32..3, direction, 0u64..20_000, 0u64..3_000)
        .prop_map(|(file, direction, offset, length)| (file, direction, Range::new(offset, length)))
}

proptest! {
    #[test]
    fn the_table_does_not_depend_on_the_order_of_requests(
        (requests, shuffled) in prop::collection::vec(request(), 0..60)
            .prop_flat_map(|requests| (Just(requests.clone()), Just(requests).prop_shuffle()))
    ) {
        prop_assert_eq!(table(&requests), table(&shuffled));
    }

    #[test]
    fn splitting_conserves_bytes_and_leaves_no_gap(
        offset in 0u64..1 << 40, length in 0u64..1 << 30, region_bytes in 1u64 << 10..1 << 35
    ) {
        prop_assume!(length / region_bytes < 10_000);
        let range = Range::new(offset, length);
        let mut at = offset;
        for (number, part) in parts(range, region_bytes) {
            prop_assert_eq!(part.offset, at);
            prop_assert!(!part.is_empty());
            prop_assert_eq!(part.offset / region_bytes, number);
            prop_assert_eq!((part.end() - 1) / region_bytes, number);
            at = part.end();
        }
        prop_assert_eq!(at, range.end());
    }

    #[test]
    fn the_table_has_every_byte_of_every_request(requests in prop::collection::vec(request(), 0..60)) {
        let bytes: u64 = requests.iter().map(|(_, _, range)| range.length).sum();
        prop_assert_eq!(table(&requests).values().map(|region| region.bytes).sum::<u64>(), bytes);
    }
}
