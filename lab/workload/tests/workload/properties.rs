//! What holds whatever the parameters. proptest prints the case that fails, shrunk, and how to run it again.

use headstart_units::request::Direction::{Read, Write};
use headstart_workload::{Btio, Common, Description, Hpio, Ior, Iozone, Job, MpiIoTest, Order, Shape, Step, Tile};
use proptest::prelude::*;

use crate::observed::{covered, ranges};

fn common(collective: bool) -> impl Strategy<Value = Common> {
    (1u32..10, 0..i64::MAX as u64, 1u64..3).prop_map(move |(ranks, seed, repetitions)| Common {
        seed,
        repetitions,
        collective,
        ..Common::new(ranks)
    })
}

fn job<P>(common: Common, pattern: P) -> Job<P> {
    Job { common, pattern }
}

/// Patterns whose write phases write every byte of every file exactly once.
fn exact() -> impl Strategy<Value = Description> {
    let any_common = || any::<bool>().prop_flat_map(common);
    let order = prop_oneof![Just(Order::Seq), Just(Order::PermOwnBlock), Just(Order::DealGlobal)];
    let ior = (any_common(), 1u64..50, 1u64..40, 1u64..4, order, any::<bool>(), any::<bool>()).prop_map(
        |(common, transfer, transfers, segments, order, own, reorder_random)| {
            let file_per_process = own && order != Order::DealGlobal;
            let block = transfer * transfers;
            let pattern = Ior { transfer, block, segments, order, file_per_process, reorder_random, ..Ior::default() };
            Description::Ior(job(common, pattern))
        },
    );
    let test =
        (common(false), 1u64..50, 1u64..9, any::<bool>()).prop_map(|(common, block, iterations, file_per_process)| {
            Description::MpiIoTest(job(common, MpiIoTest { block, iterations, file_per_process, single_region: false }))
        });
    let tile = (common(false), 1u64..4, 1u64..4, 1u64..9, 1u64..9, 1u64..5, any::<bool>()).prop_map(
        |(common, nx, ny, sx, sy, element, individual)| {
            let common = Common { ranks: 9, ..common };
            Description::Tile(job(common, Tile { nx, ny, sx, sy, element, individual, ..Tile::default() }))
        },
    );
    let hpio = (any_common(), 1u64..20, 1u64..20, any::<bool>()).prop_map(
        |(common, region_count, region_size, individual)| {
            let pattern = Hpio { region_count, region_size, individual, ..Hpio::default() };
            Description::Hpio(job(common, pattern))
        },
    );
    let btio = (any_common(), 3u64..14, 1u64..4)
        .prop_map(|(common, grid, dumps)| Description::Btio(job(common, Btio { grid, dumps, ..Btio::default() })));
    prop_oneof![ior, test, tile, hpio, btio]
}

proptest! {
    #[test]
    fn a_write_phase_writes_every_byte_once_and_a_read_phase_reads_it(description in exact()) {
        let program = description.program().unwrap();
        let repetitions = (program.phases().len() / 2) as u64;
        let file_bytes = program.file_bytes();
        for direction in [Write, Read] {
            let (files, bytes) = covered(&*program, direction);
            prop_assert_eq!(files.len(), file_bytes.len());
            for (file, ranges) in files {
                prop_assert_eq!(ranges.len(), 1);
                prop_assert_eq!((ranges[0].offset, ranges[0].length), (0, file_bytes[file as usize]));
            }
            prop_assert_eq!(bytes, repetitions * file_bytes.iter().sum::<u64>());
        }
    }

    #[test]
    fn regions_with_spacing_cover_all_but_the_gaps(
        common in common(false), region_count in 1u64..20, region_size in 1u64..30, region_spacing in 1u64..30,
    ) {
        let pattern = Hpio { region_count, region_size, region_spacing, shape: Shape::NcNc, ..Hpio::default() };
        let program = Description::Hpio(job(common, pattern)).program().unwrap();
        let (files, _) = covered(&*program, Write);
        let stride = region_size + region_spacing;
        prop_assert_eq!(files[&0].len() as u64, u64::from(program.ranks()) * region_count);
        prop_assert!(files[&0].iter().enumerate().all(|(k, range)| range.offset == k as u64 * stride && range.length == region_size));
        prop_assert_eq!(program.file_bytes()[0], files[&0].last().unwrap().end());
    }

    #[test]
    fn overlapping_tiles_still_cover_the_dataset(
        (nx, ny) in (1u64..4, 1u64..4), (sx, sy) in (2u64..9, 2u64..9), (overlap_x, overlap_y) in (0u64..2, 0u64..2), header in 0u64..99,
    ) {
        let pattern = Tile { nx, ny, sx, sy, overlap_x, overlap_y, header, ..Tile::default() };
        let program = Description::Tile(job(Common::new(9), pattern)).program().unwrap();
        let (files, bytes) = covered(&*program, Write);
        prop_assert_eq!(files[&0].len(), 1);
        prop_assert_eq!((files[&0][0].offset, files[&0][0].end()), (header, program.file_bytes()[0]));
        prop_assert_eq!(bytes, nx * ny * sx * sy * 3);
    }

    #[test]
    fn iozone_writes_and_reads_whole_files(ranks in 1u32..5, record in 1u64..20, records in 1u64..90, seed in any::<u64>()) {
        let pattern = Iozone { tests: vec![0, 1, 2, 3], record, file_size: record * records };
        let common = Common { seed, ..Common::new(ranks) };
        let program = Description::Iozone(job(common, pattern)).program().unwrap();
        for (direction, passes) in [(Write, 3), (Read, 4)] {
            let (files, bytes) = covered(&*program, direction);
            prop_assert!(files.values().all(|ranges| ranges.len() == 1 && ranges[0].length == record * records));
            prop_assert_eq!(bytes, passes * u64::from(ranks) * record * records);
        }
    }

    #[test]
    fn draws_lie_within_the_own_block(
        common in common(false), transfer in 1u64..50, transfers in 1u64..40, rest in 0u64..50,
        (theta, is_zipf) in (0.0f64..5.0, any::<bool>()), requests in 0u64..60,
    ) {
        let order = if is_zipf { Order::ZipfOwnBlock } else { Order::UniformOwnBlock };
        let block = transfer * transfers + rest % transfer;
        let program = Description::Ior(job(common, Ior { transfer, block, order, theta, requests, ..Ior::default() })).program().unwrap();
        for rank in 0..program.ranks() {
            let found = ranges(&*program, rank, Read);
            let of_repetition = if requests > 0 { requests } else { transfers };
            prop_assert_eq!(found.len() as u64, of_repetition * (program.phases().len() as u64 / 2));
            let first = u64::from(rank) * block;
            let is_own = |(offset, length): &(u64, u64)| {
                *length == transfer && *offset >= first && offset + length <= first + block && (offset - first) % transfer == 0
            };
            prop_assert!(found.iter().all(is_own));
        }
    }

    /// Or some rank would wait for ever.
    #[test]
    fn all_ranks_meet_equally_often_open_what_they_close_and_mark_each_phase(description in exact()) {
        let program = description.program().unwrap();
        let barriers = |rank| program.steps(rank).filter(|step| *step == Step::Barrier).count();
        let first = barriers(0);
        for rank in 0..program.ranks() {
            prop_assert_eq!(barriers(rank), first);
            let (mut open, mut marks) = (None, 0);
            for step in program.steps(rank) {
                match step {
                    Step::Open { file, .. } => prop_assert_eq!(open.replace(file), None),
                    Step::Close { file } => prop_assert_eq!(open.take(), Some(file)),
                    Step::Request { file, .. } | Step::List { file, .. } | Step::Sync { file } => {
                        prop_assert_eq!(open, Some(file));
                    }
                    Step::Mark(mark) => {
                        prop_assert_eq!(mark, marks);
                        marks += 1;
                    }
                    Step::Barrier | Step::Think(_) => {}
                }
            }
            prop_assert_eq!(open, None);
            prop_assert_eq!(marks as usize, 2 * program.phases().len());
        }
    }

    /// As the interface promises of lists.
    #[test]
    fn ranges_of_a_list_ascend_and_lie_apart(description in exact()) {
        let program = description.program().unwrap();
        for rank in 0..program.ranks() {
            for step in program.steps(rank) {
                if let Step::List { ranges, .. } = step {
                    prop_assert!(ranges.len() > 1 && ranges.windows(2).all(|pair| pair[0].end() < pair[1].offset));
                }
            }
        }
    }

    #[test]
    fn a_description_comes_back_from_toml_as_it_was(description in exact()) {
        let text = toml::to_string(&description).unwrap();
        prop_assert_eq!(toml::from_str::<Description>(&text).unwrap(), description);
    }
}
