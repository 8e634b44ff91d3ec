//! The random orders of IOR.

use std::collections::BTreeSet;

use headstart_units::request::Direction::{Read, Write};
use headstart_workload::{Common, Description, Ior, Job, Order, Program, Step};

use crate::observed::{covered, ranges};

fn ior(ranks: u32, transfers: u64, order: Order, seed: u64) -> Job<Ior> {
    let pattern = Ior { transfer: 8, block: 8 * transfers, order, ..Ior::default() };
    Job { common: Common { seed, ..Common::new(ranks) }, pattern }
}

fn program(job: Job<Ior>) -> Box<dyn Program> {
    Description::Ior(job).program().unwrap()
}

#[test]
fn a_permutation_makes_each_transfer_of_the_own_block_once() {
    let program = program(ior(5, 1000, Order::PermOwnBlock, 3));
    for rank in 0..5 {
        let found = ranges(&*program, rank, Write);
        assert_ne!(found[0].0 + 8, found[1].0, "in no obvious order");
        let places: BTreeSet<u64> = found.iter().map(|range| range.0).collect();
        let block = u64::from(rank) * 8000;
        assert!(places.into_iter().eq((0..1000).map(|j| block + 8 * j)));
    }
    assert_ne!(ranges(&*program, 0, Write)[0].0, ranges(&*program, 1, Write)[0].0 - 8000, "an order for each rank");
}

#[test]
fn an_order_is_used_again_in_every_segment() {
    let mut job = ior(4, 50, Order::PermOwnBlock, 1);
    job.pattern.segments = 3;
    let found = ranges(&*program(job), 2, Write);
    for (index, (offset, _)) in found.iter().enumerate() {
        assert_eq!(*offset, found[index % 50].0 + index as u64 / 50 * 4 * 400);
    }
}

#[test]
fn seeds_and_nothing_else_change_an_order() {
    for order in [Order::PermOwnBlock, Order::UniformOwnBlock, Order::ZipfOwnBlock, Order::DealGlobal] {
        let found = |seed| ranges(&*program(ior(4, 500, order, seed)), 1, Write);
        assert_eq!(found(5), found(5), "{order:?}");
        assert_ne!(found(5), found(6), "{order:?}");
    }
}

/// These are the requests of seed 1, everywhere and for good: results of simulations are compared across machines.
#[test]
fn a_seed_stands_for_the_same_requests_for_good() {
    let first = |order| -> [u64; 6] {
        let found = ranges(&*program(ior(3, 100_000, order, 1)), 1, Write);
        std::array::from_fn(|index| found[index].0 / 8)
    };
    let found = [Order::PermOwnBlock, Order::UniformOwnBlock, Order::ZipfOwnBlock, Order::DealGlobal].map(first);
    let expected = [
        [180_351, 139_801, 147_948, 187_434, 174_478, 141_988],
        [153_942, 127_402, 172_968, 185_642, 101_671, 164_963],
        [100_145, 103_623, 100_014, 100_002, 181_674, 100_037],
        [92_798, 182_946, 115_308, 129_245, 25_545, 86_271],
    ];
    assert_eq!(found, expected);
}

/// What is drawn or permuted is never in memory: a table of these requests would take exabytes.
#[test]
fn programs_of_2_to_the_60_requests_begin_at_once() {
    for order in [Order::Seq, Order::PermOwnBlock, Order::UniformOwnBlock, Order::ZipfOwnBlock] {
        let pattern = Ior { transfer: 1, block: 1 << 60, order, ..Ior::default() };
        let program = program(Job { common: Common::new(1), pattern });
        let offset = |step| if let Step::Request { range, .. } = step { Some(range.offset) } else { None };
        let offsets = program.steps(0).filter_map(offset).take(1000);
        let beyond_half = offsets.filter(|offset| *offset >= 1 << 59).count();
        // Of Zipf's, ln(2) / ln(2^60): one in sixty.
        let expected = match order {
            Order::Seq => 0..1,
            Order::ZipfOwnBlock => 5..40,
            _ => 420..580,
        };
        assert!(expected.contains(&beyond_half), "{order:?}: {beyond_half}");
    }
}

#[test]
fn a_deal_gives_each_transfer_of_the_segment_to_one_rank() {
    let program = program(ior(7, 100, Order::DealGlobal, 2));
    let mut counts = Vec::new();
    let mut dealt = Vec::new();
    for rank in 0..7 {
        let own = ranges(&*program, rank, Write);
        counts.push(own.len());
        dealt.extend(own.into_iter().map(|range| range.0 / 8));
        assert_eq!(ranges(&*program, rank, Read), ranges(&*program, rank, Write));
    }
    dealt.sort_unstable();
    assert!(dealt.into_iter().eq(0..700));
    assert!(counts.iter().any(|count| *count != counts[0]), "counts differ: {counts:?}");
}

/// Mean and variance of a rank's count over seeds are the binomial law's, n / P and n / P (1 - 1 / P), and
/// neighbours in the file go to the same rank as often as chance has it.
#[test]
fn the_counts_of_a_deal_are_binomial_and_its_neighbours_independent() {
    const SEEDS: u64 = 4000;
    let (ranks, slots) = (4u32, 64u64);
    let (mut sum, mut squares, mut together) = (0.0, 0.0, 0u64);
    for seed in 0..SEEDS {
        let program = program(ior(ranks, slots / u64::from(ranks), Order::DealGlobal, seed));
        let mut owners = vec![0; slots as usize];
        for rank in 0..ranks {
            let own = ranges(&*program, rank, Write);
            if rank == 1 {
                sum += own.len() as f64;
                squares += (own.len() as f64 - 16.0).powi(2);
            }
            own.iter().for_each(|range| owners[(range.0 / 8) as usize] = rank);
        }
        together += owners.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
    }
    let (mean, variance) = (sum / SEEDS as f64, squares / SEEDS as f64);
    // Five deviations of the means: sqrt(12 / 4000) and 12 sqrt(2 / 4000).
    assert!((mean - 16.0).abs() < 0.28, "{mean}");
    assert!((variance - 12.0).abs() < 1.4, "{variance}");
    let share = together as f64 / (SEEDS * (slots - 1)) as f64;
    assert!((share - 0.25).abs() < 0.005, "{share}");
}

#[test]
fn draws_stay_within_the_own_block_and_zipfs_are_mostly_at_its_begin() {
    for order in [Order::UniformOwnBlock, Order::ZipfOwnBlock] {
        let mut job = ior(4, 1000, order, 0);
        job.pattern.requests = 20_000;
        let found = ranges(&*program(job), 2, Write);
        assert_eq!(found.len(), 20_000);
        assert!(found.iter().all(|range| (16_000..24_000).contains(&range.0)));
        let hot = found.iter().filter(|range| range.0 < 16_000 + 8 * 200).count();
        // 0.2, and H(200) / H(1000) = 5.878 / 7.485.
        let expected = if order == Order::UniformOwnBlock { 4_000 } else { 15_706 };
        assert!(hot.abs_diff(expected) < 350, "{order:?}: {hot}");
    }
}

#[test]
fn a_hot_region_moves_by_three_eighths_of_the_block() {
    let mut job = ior(2, 800, Order::ZipfOwnBlock, 0);
    (job.pattern.requests, job.pattern.shift_windows, job.pattern.shift_first) = (3000, 3, 1);
    let found = ranges(&*program(job), 1, Write);
    assert_eq!(found.len(), 9000);
    for (window, requests) in found.chunks(3000).enumerate() {
        let first = 6400 + 8 * ((window as u64 + 1) * 300 % 800);
        let most_frequent = requests.iter().filter(|range| range.0 == first).count();
        // 1 / H(800) = 0.1377 of them.
        assert!(most_frequent.abs_diff(413) < 100, "window {window}: {most_frequent}");
    }
}

#[test]
fn ranks_read_what_others_wrote_and_together_everything() {
    for random in [false, true] {
        let mut job = ior(16, 10, Order::Seq, 3);
        (job.pattern.reorder_tasks, job.pattern.reorder_random) = (5, random);
        let program = program(job);
        let owner = |rank| ranges(&*program, rank, Read)[0].0 / 80;
        let owners: Vec<u64> = (0..16).map(owner).collect();
        if !random {
            assert!(owners.iter().enumerate().all(|(rank, owner)| *owner == (rank as u64 + 5) % 16));
        }
        let different = owners.iter().enumerate().filter(|(rank, owner)| **owner != *rank as u64).count();
        assert!(different > 8, "{owners:?}");
        let (files, bytes) = covered(&*program, Read);
        assert_eq!((files[&0].len(), files[&0][0].length, bytes), (1, 1280, 1280));
    }
}
