use super::*;

const KIB: u64 = 1 << 10;
const EVERYTHING: fn(u32, u64) -> bool = |_, _| true;

fn filled(bytes: u64) -> Flash {
    Flash { bytes: bytes as f64, absorbed: 1.0, is_filled: true }
}

/// Hit ratio of reads of 4 KiB after writes of the same pages, by a list in order of writing.
fn brute_force(uses: &[(Direction, u64)], capacity_pages: usize) -> f64 {
    let (mut list, mut hits, mut reads) = (Vec::<u64>::new(), 0, 0);
    for (direction, page) in uses {
        let place = list.iter().rposition(|listed| listed == page);
        if *direction == Direction::Read {
            reads += 1;
            hits += usize::from(place.is_some_and(|place| list.len() - place <= capacity_pages));
            continue;
        }
        place.map(|place| list.remove(place));
        list.push(*page);
    }
    f64::from(hits as u32) / f64::from(reads as u32)
}

fn uses(pages: u64, count: usize) -> Vec<(Direction, u64)> {
    let mut seed = std::env::var("SEED").map_or(7, |seed| seed.parse().expect("SEED is a number"));
    println!("SEED={seed}");
    let mut random = || headstart_units::chance::splitmix64(&mut seed);
    let mut uses: Vec<_> = (0..pages).map(|page| (Direction::Write, page)).collect();
    for _ in 0..count {
        // Low pages are used more.
        let page = (random() % pages).min(random() % pages).min(random() % pages);
        uses.push((if random() % 3 == 0 { Direction::Write } else { Direction::Read }, page));
    }
    uses
}

fn measured(uses: &[(Direction, u64)]) -> Residence {
    let mut reuse = Reuse::default();
    for (direction, page) in uses {
        reuse.add(3, *direction, Range::new(page * PAGE_BYTES, PAGE_BYTES), Some(1000));
    }
    reuse.finish()
}

#[test]
fn hits_on_written_pages_are_those_of_a_list_in_order_of_writing() {
    let uses = uses(400, 20_000);
    let residence = measured(&uses);
    for pages in [10, 40, 100, 200, 399, 400] {
        let found = residence.hits(filled(pages as u64 * PAGE_BYTES), EVERYTHING).reads[1];
        let expected = brute_force(&uses, pages);
        // Distances are kept to a sixteenth of an octave.
        let near = brute_force(&uses, pages + pages / 16 + 1);
        assert!(found >= expected - 1e-9 && found <= near + 1e-9, "{pages}: {found} {expected}..{near}");
    }
}

#[test]
fn sampled_hit_ratios_are_within_three_hundredths_of_exact_ones() {
    // 8000 blocks of one page each: half of them are sampled.
    let mut uses = uses(8000, 200_000);
    uses.iter_mut().for_each(|(_, page)| *page *= BLOCK_PAGES as u64);
    let residence = measured(&uses);
    for pages in [800, 2000, 4000, 6000] {
        let found = residence.hits(filled(pages as u64 * PAGE_BYTES), EVERYTHING).reads[1];
        let expected = exact(&uses, pages);
        assert!((found - expected).abs() < 0.03, "{pages}: {found} {expected}");
    }
}

/// As `brute_force`, by stack distances of all pages.
fn exact(uses: &[(Direction, u64)], capacity_pages: usize) -> f64 {
    let (mut stack, mut times) = (Stack::default(), BTreeMap::<u64, Time>::new());
    let (mut hits, mut reads) = (0.0, 0.0);
    for (direction, page) in uses {
        if stack.is_full() {
            stack.compact(times.values_mut());
        }
        let time = times.entry(*page).or_default();
        if *direction == Direction::Write {
            stack.touch(time);
            continue;
        }
        reads += 1.0;
        hits += f64::from(u8::from(stack.above(*time).is_some_and(|above| (above as usize) < capacity_pages)));
    }
    hits / reads
}

#[test]
fn what_is_only_read_stays_as_far_as_there_is_room_and_misses_once_on_empty_flash() {
    let mut reuse = Reuse::default();
    for _ in 0..4 {
        (0..100).for_each(|page| reuse.add(0, Direction::Read, Range::new(page * 4096, 4096), Some(1000)));
    }
    let residence = reuse.finish();
    assert_eq!(residence.hits(filled(25 * 4096), EVERYTHING).reads, [0.0, 0.25], "a scan does not wash it out");
    let empty = Flash { is_filled: false, ..filled(25 * 4096) };
    assert_eq!(residence.hits(empty, EVERYTHING).reads, [0.0, 0.25 * 0.75]);
    let elsewhere = |_: u32, offset: u64| offset >= 50 * 4096;
    assert_eq!(residence.hits(filled(25 * 4096), elsewhere).reads, [0.0, 0.5]);
}

#[test]
fn pages_that_gain_more_come_first_and_reads_without_gain_bring_nothing() {
    let mut reuse = Reuse::default();
    reuse.add(0, Direction::Read, Range::new(0, 64 * KIB), None);
    reuse.add(0, Direction::Read, Range::new(64 * KIB, 64 * KIB), Some(1000));
    reuse.add(0, Direction::Read, Range::new(128 * KIB, 4096), Some(100_000));
    let residence = reuse.finish();
    assert_eq!(residence.hits(filled(4096), EVERYTHING).reads, [0.0, 1.0 / 17.0]);
    assert_eq!(residence.hits(filled(1 << 30), EVERYTHING), Hits { reads: [0.0, 1.0], fetched_bytes: 17.0 * 4096.0 });
}

#[test]
fn a_first_read_finds_what_the_run_before_wrote_last() {
    // Reads everything, then writes everything in the same order: what was written last is found, whatever
    // was read meanwhile.
    let mut reuse = Reuse::default();
    for direction in [Direction::Read, Direction::Write] {
        (0..64).for_each(|page| reuse.add(0, direction, Range::new(page * 4096, 4096), Some(1000)));
    }
    let residence = reuse.finish();
    let hits = |pages: u64| residence.hits(filled(pages * 4096), EVERYTHING).reads[1];
    assert_eq!((hits(16), hits(64)), (0.25, 1.0));
    assert_eq!(residence.hits(Flash { is_filled: false, ..filled(1 << 30) }, EVERYTHING).reads[1], 0.0);
}

#[test]
fn runs_of_written_pages_are_told_apart_by_their_gaps() {
    let run_bytes = |bytes: u64, every: u64| {
        let mut reuse = Reuse::default();
        (0..200).for_each(|k| reuse.add(0, Direction::Write, Range::new(k * every, bytes), Some(1000)));
        reuse.finish().run_bytes(1e9)
    };
    assert_eq!(run_bytes(8192, 65536), Some(8192.0));
    assert_eq!(run_bytes(4096, 16384), Some(4096.0));
    assert!(run_bytes(65536, 65536).unwrap() >= 1e6);
    assert_eq!(Reuse::default().finish().run_bytes(1e9), None);
}

#[test]
fn what_was_written_long_apart_is_not_on_flash_together() {
    let run_bytes = |flash_pages: f64, length: u64| {
        let mut reuse = Reuse::default();
        for round in 0..65536 / length {
            for block in 0..200 {
                reuse.add(0, Direction::Write, Range::new(block * 65536 + round * length, length), Some(1000));
                reuse.add_stretch(length, false);
            }
        }
        reuse.finish().run_bytes(flash_pages * 4096.0).unwrap()
    };
    assert_eq!(run_bytes(50.0, 16384), 16384.0, "another piece of a block comes when the last one is gone");
    assert!(run_bytes(3200.0, 16384) > 1e6, "all of it is there");
    assert_eq!(run_bytes(3200.0, 65536), 65536.0, "single requests that long need not go on");
}
