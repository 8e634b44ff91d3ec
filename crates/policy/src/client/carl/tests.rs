//! The selection against exhaustive search, Algorithm 1 as it is printed, and the paper's example.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::selection::{Candidate, select};
use super::*;
use crate::client as policy;
use crate::client::{FetchTurn, Reason};
use crate::cost::region::gain_table::{FileRegions, GainTable, Known, RegionId, flash_bytes};
use crate::cost::region::{Costs, Parameters};
use headstart_units::MIB;

fn candidate(number: u64, gain_ns: i64, flash_bytes: u64) -> Candidate {
    Candidate { id: (0, number), gain_ns, flash_bytes }
}

/// Algorithm 1 as printed, with regions of different sizes: the region map and what is left of the flash.
struct Algorithm1 {
    table: Vec<Candidate>,
    map: BTreeMap<RegionId, bool>,
    free_bytes: u64,
}

impl Algorithm1 {
    /// Whether a request to the region goes to flash.
    fn on_request(&mut self, id: RegionId) -> bool {
        if let Some(on_flash) = self.map.get(&id) {
            return *on_flash;
        }
        let unallocated =
            self.table.iter().filter(|candidate| !self.map.contains_key(&candidate.id)).copied().collect();
        let top = select(unallocated, self.free_bytes);
        let on_flash = top.contains(&id);
        if on_flash {
            let region = self.table.iter().find(|candidate| candidate.id == id).expect("the top is of the table");
            self.free_bytes -= region.flash_bytes;
        }
        self.map.insert(id, on_flash);
        on_flash
    }
}

/// The example of Fig 4: five regions, of which the second and the fourth cost most, and room for two on flash.
/// What Algorithm 1 puts on flash beside the regions that are there: it allocates on flash at the first
/// request to one of these, and to no other, in whatever order requests come.
///
/// The order cannot matter. A region of the best that fit takes from the free capacity what the choice had
/// given it, so that the others stay the best that fit; any other leaves the candidates without changing the
/// choice.
fn allocate(
    table: impl IntoIterator<Item = Candidate>,
    placed: &BTreeSet<RegionId>,
    capacity_bytes: u64,
) -> BTreeSet<RegionId> {
    let (mut candidates, mut free_bytes) = (Vec::new(), capacity_bytes);
    for candidate in table {
        if placed.contains(&candidate.id) {
            free_bytes = free_bytes.saturating_sub(candidate.flash_bytes);
        } else {
            candidates.push(candidate);
        }
    }
    select(candidates, free_bytes).into_iter().collect()
}

#[test]
fn in_the_example_of_fig_4_regions_2_and_4_go_to_flash_and_the_rest_to_disk() {
    let read = Parameters {
        hdd_servers: 4,
        ssd_servers: 2,
        stripe_bytes: 65536,
        hdd_startup_s_min: 0.002,
        hdd_startup_s_max: 0.010,
        hdd_s_per_byte: 1e-8,
        ssd_s_per_byte: 3e-8,
        ssd_startup_s: 0.0,
        ssd_busy_s_per_byte: None,
        near_stays: false,
        interleaved_stays: false,
    };
    let mut table = GainTable::new(Costs { write: read.clone(), read });
    let file = FileRegions { size_bytes: 5 * 64 * MIB, region_bytes: 64 * MIB };
    // How often each region is asked for, and by how much at once: the fifth by large requests that flash
    // would serve later.
    for (region, requests, bytes) in [(1, 10, 16384), (2, 60, 16384), (3, 5, 16384), (4, 45, 8192), (5, 100, 8 * MIB)] {
        for request in 0..requests {
            let offset = (region - 1) * 64 * MIB + request % 7 * 8 * MIB;
            table.add(0, file.region_bytes, Direction::Read, Range::new(offset, bytes), Known::Nothing);
        }
    }
    let gains: Vec<i64> =
        table.clone().into_regions().values().map(|region| region.gain_ns(file.region_bytes)).collect();
    assert!(gains[1] > gains[3] && gains[3] > gains[0] && gains[0] > gains[2] && gains[2] > 0, "{gains:?}");
    assert!(gains[4] < 0, "{gains:?}");
    let candidates: Vec<Candidate> = (table.into_regions().into_iter())
        .map(|(id, region)| Candidate {
            id,
            gain_ns: region.gain_ns(file.region_bytes),
            flash_bytes: flash_bytes(file.range(id.1)),
        })
        .collect();
    let mut algorithm = Algorithm1 { table: candidates.clone(), map: BTreeMap::new(), free_bytes: 128 * MIB };
    let places: Vec<bool> = (0..5).map(|number| algorithm.on_request((0, number))).collect();
    assert_eq!(places, [false, true, false, true, false]);
    assert_eq!(allocate(candidates, &BTreeSet::new(), 128 * MIB), BTreeSet::from([(0, 1), (0, 3)]));
}

#[test]
fn a_region_goes_to_flash_only_if_its_gain_is_positive_however_much_room_there_is() {
    let candidates = vec![candidate(0, -5, 10), candidate(1, 0, 10), candidate(2, 1, 10)];
    assert_eq!(select(candidates, u64::MAX), [(0, 2)]);
}

#[test]
fn gain_per_byte_decides_where_regions_differ_in_size() {
    // The short last region gains less than the first one, and more per byte.
    let candidates = vec![candidate(0, 100, 64), candidate(1, 60, 16), candidate(2, 90, 64)];
    assert_eq!(select(candidates.clone(), 80), [(0, 1), (0, 0)]);
    assert_eq!(select(candidates, 70), [(0, 1)], "what does not fit is passed over");
}

#[test]
fn files_share_one_capacity() {
    let of = |file, number, gain_ns| Candidate { id: (file, number), gain_ns, flash_bytes: 10 };
    assert_eq!(select(vec![of(0, 0, 5), of(1, 0, 9), of(2, 7, 7), of(0, 1, 6)], 30), [(1, 0), (2, 7), (0, 1)]);
}

#[test]
fn what_is_placed_stays_and_takes_its_share_of_the_capacity() {
    let table = vec![candidate(0, 1, 10), candidate(1, 9, 10), candidate(2, 8, 10)];
    assert_eq!(allocate(table.clone(), &BTreeSet::from([(0, 0)]), 20), BTreeSet::from([(0, 1)]));
    assert_eq!(allocate(table, &BTreeSet::from([(0, 0), (0, 2)]), 5), BTreeSet::new());
}

fn regions() -> Regions {
    let wanted = |offset, length| Wanted { range: Range::new(offset, length), benefit_ns: 7, gain_ns: 70 };
    Regions::new([wanted(300, 100), wanted(100, 100), wanted(200, 50)])
}

fn request(direction: Direction, offset: u64, length: u64) -> Request {
    Request { direction, range: Range::new(offset, length), distance: Default::default() }
}

#[test]
fn requests_in_placed_regions_go_to_flash_and_the_next_policy_is_asked_of_the_others() {
    let regions = regions();
    assert_eq!(regions.on_request(&request(Direction::Write, 150, 10)), Decision::Flash { benefit_ns: 7 });
    assert_eq!(
        regions.on_request(&request(Direction::Read, 100, 100)),
        Decision::Fetch { benefit_ns: 7, turn: FetchTurn::Soon }
    );
    for offset in [0, 99, 250, 299, 400, u64::MAX] {
        assert_eq!(regions.on_request(&request(Direction::Read, offset, 1)), Decision::Pass, "{offset}");
    }
    assert_eq!(Regions::default().on_request(&request(Direction::Write, 0, 1)), Decision::Pass);
}

#[test]
fn a_request_across_regions_is_cut_where_the_answer_changes() {
    struct Wants;
    impl Policy for Wants {
        fn on_request(&self, request: &Request) -> Decision {
            if request.range.length < 60 { Decision::Disk(Reason::NoBenefit) } else { Decision::Pass }
        }
    }
    let (regions, across) = (regions(), request(Direction::Write, 50, 500));
    let parts: Vec<_> = policy::parts(&[&regions, &Wants], across).map(|(part, what)| (part.range, what)).collect();
    let flash = Decision::Flash { benefit_ns: 7 };
    let expected = [
        (Range::between(50, 100), Decision::Disk(Reason::NoBenefit)),
        (Range::between(100, 200), flash),
        (Range::between(200, 250), flash),
        (Range::between(250, 300), Decision::Disk(Reason::NoBenefit)),
        (Range::between(300, 400), flash),
        (Range::between(400, 550), Decision::Disk(Reason::NoBenefit)),
    ];
    assert_eq!(parts, expected);
    let inside = request(Direction::Write, 110, 20);
    assert_eq!(policy::parts(&[&regions], inside).collect::<Vec<_>>(), [(inside, flash)]);
}

fn candidates(sizes: std::ops::Range<u64>) -> impl Strategy<Value = Vec<Candidate>> {
    prop::collection::vec((-40i64..100, sizes), 0..11).prop_map(|regions| {
        regions.into_iter().enumerate().map(|(number, (gain, bytes))| candidate(number as u64, gain, bytes)).collect()
    })
}

/// Gain and bytes of a choice.
fn total(candidates: &[Candidate], chosen: impl Fn(&Candidate) -> bool) -> (i64, u64) {
    let chosen = || candidates.iter().filter(|candidate| chosen(candidate));
    (chosen().map(|candidate| candidate.gain_ns).sum(), chosen().map(|candidate| candidate.flash_bytes).sum())
}

/// The best gain of all choices that fit.
fn exhaustive(candidates: &[Candidate], capacity_bytes: u64) -> i64 {
    let totals = (0u64..1 << candidates.len()).map(|set| total(candidates, |candidate| set >> candidate.id.1 & 1 == 1));
    totals.filter(|(_, bytes)| *bytes <= capacity_bytes).map(|(gain, _)| gain).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]
    #[test]
    fn a_choice_never_exceeds_the_capacity(candidates in candidates(1..30), capacity in 0u64..200) {
        let chosen: BTreeSet<RegionId> = select(candidates.clone(), capacity).into_iter().collect();
        prop_assert!(total(&candidates, |candidate| chosen.contains(&candidate.id)).1 <= capacity);
        prop_assert!(candidates.iter().all(|candidate| candidate.gain_ns > 0 || !chosen.contains(&candidate.id)));
    }

    #[test]
    fn with_regions_of_one_size_no_choice_is_better(candidates in candidates(8..9), capacity in 0u64..100) {
        let chosen = select(candidates.clone(), capacity);
        let gain = total(&candidates, |candidate| chosen.contains(&candidate.id)).0;
        prop_assert_eq!(gain, exhaustive(&candidates, capacity));
    }

    #[test]
    fn with_regions_of_any_size_the_best_choice_is_better_by_less_than_one_region(
        candidates in candidates(1..30), capacity in 0u64..200
    ) {
        let chosen = select(candidates.clone(), capacity);
        let gain = total(&candidates, |candidate| chosen.contains(&candidate.id)).0;
        let largest = candidates.iter().map(|candidate| candidate.gain_ns).max().unwrap_or(0).max(1);
        prop_assert!(exhaustive(&candidates, capacity) - gain < largest);
    }

    #[test]
    fn algorithm_1_places_the_same_regions_in_whatever_order_requests_come(
        (candidates, order) in candidates(1..30).prop_flat_map(|candidates| {
            let ids: Vec<RegionId> = candidates.iter().map(|candidate| candidate.id).collect();
            (Just(candidates), Just(ids).prop_shuffle())
        }),
        capacity in 0u64..200
    ) {
        let chosen = allocate(candidates.clone(), &BTreeSet::new(), capacity);
        let mut algorithm = Algorithm1 { table: candidates.clone(), map: BTreeMap::new(), free_bytes: capacity };
        for (step, id) in order.iter().enumerate() {
            prop_assert_eq!(algorithm.on_request(*id), chosen.contains(id));
            // A process that starts in between finds part of it placed, and decides alike.
            if step == order.len() / 2 {
                let placed = algorithm.map.iter().filter(|(_, on_flash)| **on_flash).map(|(id, _)| *id).collect();
                let rest = allocate(candidates.clone(), &placed, capacity);
                prop_assert_eq!(&rest | &placed, chosen.clone());
            }
        }
        prop_assert!(order.iter().all(|id| algorithm.on_request(*id) == chosen.contains(id)));
    }
}

proptest! {
    #[test]
    fn regions_put_and_removed_in_any_order_are_disjoint_and_the_last_one_stands(
        steps in prop::collection::vec((any::<bool>(), 0u64..60, 1u64..12), 1..60),
    ) {
        let mut regions = Regions::default();
        let mut expected: Vec<Wanted> = Vec::new();
        for (index, (puts, offset, length)) in steps.into_iter().enumerate() {
            let region = Wanted { range: Range::new(offset, length), benefit_ns: 1, gain_ns: index as u64 };
            expected.retain(|known| !known.range.overlaps(region.range));
            if puts {
                regions.put(region);
                expected.push(region);
            } else {
                regions.remove(region.range);
            }
            expected.sort_by_key(|known| known.range);
            prop_assert_eq!(&regions.iter().collect::<Vec<_>>(), &expected);
        }
        for offset in 0..80 {
            let holds = |region: &&Wanted| region.range.contains(Range::new(offset, 1));
            prop_assert_eq!(regions.holding(offset), expected.iter().find(holds));
        }
    }
}
