//! Offsets and counts that the benchmarks are known to have.

use headstart_units::request::Direction::{Read, Write};

use crate::observed::{calls, covered, program, ranges};

#[test]
fn ior_lays_blocks_of_ranks_side_by_side_in_each_segment() {
    let program = program("kind = 'ior'\nranks = 3\ntransfer = 4\nblock = 8\nsegments = 2\n");
    assert_eq!(ranges(&*program, 1, Write), [(8, 4), (12, 4), (32, 4), (36, 4)]);
    assert_eq!(ranges(&*program, 1, Read), ranges(&*program, 1, Write));
    assert_eq!(program.file_bytes(), [48]);
}

#[test]
fn ior_with_a_file_per_process_begins_each_at_its_start() {
    let text =
        "kind = 'ior'\nranks = 3\ntransfer = 4\nblock = 8\nsegments = 2\nfile-per-process = true\nreorder-tasks = 2\n";
    let program = program(text);
    let of_rank = calls(&*program, 2);
    let (written, read) = of_rank.split_at(4);
    assert!(written.iter().all(|call| call.0 == 2), "its own file is written");
    assert!(read.iter().all(|call| call.0 == 1), "that of the second rank after it, around the end, is read");
    assert_eq!(ranges(&*program, 2, Read), [(0, 4), (4, 4), (8, 4), (12, 4)]);
    assert_eq!(program.file_bytes(), [16, 16, 16]);
}

/// LiU's setting: with blocks of 2400 stripes all 14 ranks begin on the same one of six servers.
#[test]
fn lius_ior_begins_on_one_server() {
    let program = program("kind = 'ior'\nranks = 14\ntransfer = '64KiB'\nblock = '150MiB'\noperation = 'read'\n");
    let first = |rank| ranges(&*program, rank, Read)[0].0;
    assert!((0..14).all(|rank| first(rank) / 65536 % 6 == 0));
    assert_eq!(program.file_bytes(), [2_202_009_600]);
}

/// LiU: one iteration is 14 stripes over six servers, and begins two servers further on each time.
#[test]
fn mpi_io_test_goes_on_by_all_ranks_blocks() {
    let text = |more| format!("kind = 'mpi-io-test'\nranks = 14\nblock = '64KiB'\niterations = 3\n{more}");
    let shared = program(&text(""));
    let stripe = 65536;
    assert_eq!(ranges(&*shared, 1, Write), [(stripe, stripe), (15 * stripe, stripe), (29 * stripe, stripe)]);
    assert_eq!(shared.file_bytes(), [14 * 3 * stripe]);
    let own = program(&text("file-per-process = true"));
    assert_eq!(ranges(&*own, 1, Write), [(0, stripe), (stripe, stripe), (2 * stripe, stripe)]);
    assert!(calls(&*own, 1).iter().all(|call| call.0 == 1));
    assert_eq!(own.file_bytes(), vec![3 * stripe; 14]);
    let single = program(&text("single-region = true"));
    assert_eq!(ranges(&*single, 1, Write), [(0, stripe); 3]);
    assert_eq!(single.file_bytes(), [stripe]);
}

#[test]
fn tiles_overlap_their_neighbours() {
    let text = "kind = 'tile'\nranks = 7\nnx = 3\nny = 2\nsx = 10\nsy = 4\nelement = 2\noverlap-x = 3\noverlap-y = 1\nheader = 50\n";
    let one_call = program(text);
    // The dataset is 3 * 10 - 2 * 3 = 24 elements wide and 2 * 4 - 1 = 7 high.
    assert_eq!(one_call.file_bytes(), [50 + 2 * 24 * 7]);
    assert_eq!(one_call.ranks(), 6, "the seventh rank idles");
    // The tile of rank 4 is in row 1, column 1: it begins at element (7, 3).
    let rows: Vec<_> = (0..4).map(|row| (50 + 2 * ((3 + row) * 24 + 7), 20)).collect();
    assert_eq!(ranges(&*one_call, 4, Write), rows);
    assert_eq!(calls(&*one_call, 4).len(), 2, "one call writes, one reads");
    let by_row = program(&format!("{text}individual = true"));
    assert_eq!(ranges(&*by_row, 4, Read), rows);
    assert_eq!(calls(&*by_row, 4).len(), 8);
}

/// S4D's setting: rows of 320 KiB, a file of 0.33 to 1.31 GB.
#[test]
fn s4ds_tiles_have_rows_of_320_kib() {
    for (nx, ny, bytes) in [(10u64, 10u64, 327_680_000), (20, 20, 1_310_720_000)] {
        let ranks = nx * ny;
        let text =
            format!("kind = 'tile'\nranks = {ranks}\nnx = {nx}\nny = {ny}\nsx = 10\nsy = 10\nelement = '32KiB'\n");
        let program = program(&text);
        assert_eq!(program.file_bytes(), [bytes]);
        assert!(ranges(&*program, 3, Write).iter().all(|range| range.1 == 320 << 10));
    }
}

#[test]
fn hpio_has_four_shapes() {
    let text = |shape: &str, more: &str| {
        format!(
            "kind = 'hpio'\nranks = 4\nregion-count = 3\nregion-size = 100\nregion-spacing = 7\npattern = '{shape}'\n{more}"
        )
    };
    for (shape, is_contiguous) in [("c-c", true), ("nc-c", true), ("c-nc", false), ("nc-nc", false)] {
        let program = program(&text(shape, ""));
        let found = ranges(&*program, 2, Write);
        if is_contiguous {
            assert_eq!(found, [(600, 300)], "{shape}");
            assert_eq!(program.file_bytes(), [1200]);
        } else {
            assert_eq!(found, [(107 * 2, 100), (107 * 6, 100), (107 * 10, 100)], "{shape}");
            assert_eq!(program.file_bytes(), [4 * 3 * 107 - 7]);
        }
        assert_eq!(calls(&*program, 2).len(), 2, "one call a phase");
        let individual = self::program(&text(shape, "individual = true"));
        assert_eq!(calls(&*individual, 2).len(), 6);
    }
}

#[test]
fn s4ds_hpio_moves_512_mib_and_is_sequential_without_spacing() {
    let program =
        program("kind = 'hpio'\nranks = 16\nregion-count = 4096\nregion-size = '8KiB'\noperation = 'write'\n");
    let (files, bytes) = covered(&*program, Write);
    assert_eq!(bytes, 512 << 20);
    assert_eq!(files[&0].len(), 1);
    assert_eq!(ranges(&*program, 1, Write)[1].0, 17 * 8192, "each rank is strided all the same");
}

/// A class: bytes of a dump and of the file, and for each number of ranks the requests of a dump and their lengths.
struct Class {
    name: &'static str,
    dump_bytes: u64,
    file_bytes: u64,
    of_ranks: [(u32, u64, &'static [u64]); 3],
}

const CLASSES: [Class; 3] = [
    Class {
        name: "A",
        dump_bytes: 10_485_760,
        file_bytes: 419_430_400,
        of_ranks: [(9, 12_288, &[840, 880]), (16, 16_384, &[640]), (25, 20_480, &[480, 520])],
    },
    Class {
        name: "B",
        dump_bytes: 42_448_320,
        file_bytes: 1_697_932_800,
        of_ranks: [(9, 31_212, &[1360]), (16, 41_616, &[1000, 1040]), (25, 52_020, &[800, 840])],
    },
    Class {
        name: "C",
        dump_bytes: 170_061_120,
        file_bytes: 6_802_444_800,
        of_ranks: [(9, 78_732, &[2160]), (16, 104_976, &[1600, 1640]), (25, 131_220, &[1280, 1320])],
    },
];

#[test]
fn btio_makes_the_requests_of_its_classes() {
    for Class { name, dump_bytes, file_bytes, of_ranks } in CLASSES {
        for (ranks, requests, lengths) in of_ranks {
            let text = format!("kind = 'btio'\nranks = {ranks}\nclass = '{name}'\noperation = 'write'\n");
            let whole = program(&text);
            assert_eq!(whole.file_bytes(), [file_bytes]);
            assert_eq!(file_bytes, 40 * dump_bytes);
            let one_dump = program(&format!("{text}dumps = 1\n"));
            let (mut found_requests, mut found_lengths) = (0, Vec::new());
            for rank in 0..ranks {
                let found = ranges(&*one_dump, rank, Write);
                found_requests += found.len() as u64;
                found_lengths.extend(found.iter().map(|range| range.1));
            }
            found_lengths.sort_unstable();
            found_lengths.dedup();
            assert_eq!((found_requests, &found_lengths[..]), (requests, lengths), "{name} of {ranks} ranks");
            let (files, bytes) = covered(&*one_dump, Write);
            assert_eq!((bytes, files[&0].len(), files[&0][0].length), (dump_bytes, 1, dump_bytes), "each point once");
        }
    }
}

#[test]
fn btio_places_cells_along_a_diagonal() {
    // A grid of 5 in 2 * 2 * 2 cells: 0..3 and 3..5 along each edge.
    let program = program("kind = 'btio'\nranks = 8\ngrid = 5\ndumps = 2\noperation = 'write'\n");
    assert_eq!(program.ranks(), 4, "surplus ranks idle");
    // Rank 1 has cell (1, 0, 0) and then (0, 1, 1).
    let point = |x: u64, y: u64, z: u64, dump: u64| 40 * (x + 5 * (y + 5 * (z + 5 * dump)));
    let mut expected = Vec::new();
    for dump in 0..2 {
        for z in 0..3 {
            expected.extend((0..3).map(|y| (point(3, y, z, dump), 80)));
        }
        for z in 3..5 {
            expected.extend((3..5).map(|y| (point(0, y, z, dump), 120)));
        }
    }
    assert_eq!(ranges(&*program, 1, Write), expected);
}

#[test]
fn btio_full_has_the_same_bytes_in_one_call_a_dump() {
    let text = "kind = 'btio'\nranks = 9\nclass = 'W'\ndumps = 3\n";
    let (simple, full) = (program(text), program(&format!("{text}collective = true\n")));
    for rank in 0..9 {
        assert_eq!(ranges(&*full, rank, Write), ranges(&*simple, rank, Write));
        assert_eq!(calls(&*full, rank).len(), 6, "three dumps, written and read");
    }
}

#[test]
fn iozone_reads_files_of_its_own_forward_at_random_and_in_reverse() {
    let program = program("kind = 'iozone'\nranks = 2\ntests = [0, 1, 2, 3]\nrecord = 10\nfile-size = 70\n");
    let names: Vec<_> = program.phases().iter().map(|phase| phase.name).collect();
    let all = ["write", "rewrite", "read", "reread", "random_read", "random_write", "reverse_read"];
    assert_eq!(names, all);
    let of_rank = |rank| -> Vec<Vec<u64>> {
        let calls = calls(&*program, rank);
        assert!(calls.iter().all(|call| call.0 == rank && call.2[0].length == 10));
        let records: Vec<u64> = calls.iter().map(|call| call.2[0].offset / 10).collect();
        records.chunks(7).map(<[u64]>::to_vec).collect()
    };
    let (first, second) = (of_rank(0), of_rank(1));
    let forward: Vec<u64> = (0..7).collect();
    assert!(first[..4].iter().all(|phase| *phase == forward));
    assert_eq!(first[6], forward.iter().rev().copied().collect::<Vec<_>>());
    assert_eq!(first[4], second[4], "the same order in every thread");
    assert_eq!(first[4], first[5]);
    let mut sorted = first[4].clone();
    sorted.sort_unstable();
    assert!(first[4] != forward && sorted == forward, "a permutation");
    assert_eq!(program.file_bytes(), [70, 70]);
}
