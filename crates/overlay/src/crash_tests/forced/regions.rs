//! Regions that belong on flash: they come there, stay there, and are known again.

use super::*;
use headstart_policy::client::carl::{Regions, Wanted};

/// The capacity of `world` in pages; one of them is the least reserve.
const PAGES: u64 = 32;

fn pages(first: u64, count: u64) -> Range {
    Range::new(first * 4096, count * 4096)
}

/// The file is 100 pages long and on disk alone.
fn on_disk() -> World {
    let mut w = world();
    write(&mut w, 0, pages(0, 100), false);
    w
}

fn set(w: &mut World, wanted: &[(Range, u64)]) {
    set_of(w, 0, wanted);
}

fn set_of(w: &mut World, file: u32, wanted: &[(Range, u64)]) {
    let regions = wanted.iter().map(|&(range, gain_ns)| Wanted { range, benefit_ns: 1, gain_ns });
    w.agents[0].overlay.set_regions(w.agents[0].memory.view(), file, Regions::new(regions));
    w.carry_out();
}

/// The same file when nobody has it open; its number.
fn closed(w: &mut World) -> u32 {
    for rank in [0, 2] {
        other(w, rank, Kind::Close, Range::default());
    }
    let identity = w.inodes[w.paths[0]].identity;
    let observed = crate::Fingerprint { size: 100 * 4096, modified_ns: 0 };
    let number = w.agents[0].overlay.know(w.agents[0].memory.view(), identity, b"/slow/x", observed).unwrap();
    w.agents[0].numbers.insert(number, w.paths[0]);
    number
}

fn place(w: &mut World) {
    w.agents[0].overlay.place(w.agents[0].memory.view(), true);
    w.carry_out();
    while w.agents[0].overlay.is_placing() {
        w.quiesce();
        barrier(w);
    }
}

/// Pages are absorbed one after another, each on the disks and clean before the next.
fn write_and_drain(w: &mut World, written: std::ops::Range<u64>) {
    for at in written {
        write(w, 0, pages(at, 1), true);
        drain(w);
        barrier(w);
    }
}

fn placed_bytes(w: &World) -> u64 {
    w.agents[0].overlay.placements().map(|placement| placement.placed_bytes).sum()
}

fn is_mapped(w: &World, range: Range) -> bool {
    w.agents[0].overlay.files[&0].map.overlapping(range).map(|mapped| mapped.range.length).sum::<u64>() == range.length
}

#[test]
fn regions_of_a_file_that_nobody_has_open_are_placed_and_read_from_flash() {
    let mut w = on_disk();
    let number = closed(&mut w);
    set_of(&mut w, number, &[(pages(10, 4), 1), (Range::new(20 * 4096 + 100, 5000), 1)]);
    place(&mut w);
    assert_eq!(placed_bytes(&w), 4 * 4096 + 5000);
    other(&mut w, 2, Kind::Open(false), Range::default());
    ranks::begin_other(&mut w, 2, Kind::Read, 0, pages(10, 4));
    let flash = |w: &World| w.ranks[2].answer.as_ref().is_some_and(|answer| matches!(answer, Answer::Flash { .. }));
    for _ in 0..100 {
        if flash(&w) {
            break;
        }
        ranks::step(&mut w, 2, false);
    }
    assert!(flash(&w), "{:?}", w.ranks[2]);
    run(&mut w, 2);
    no_violation(&w);
}

#[test]
fn what_is_used_later_displaces_no_region() {
    let mut w = on_disk();
    set(&mut w, &[(pages(0, 16), 1)]);
    place(&mut w);
    write_and_drain(&mut w, 16..100);
    assert!(is_mapped(&w, pages(0, 16)));
    assert!(w.agents[0].overlay.counters().evicted_extents_total > 0, "others had to give way");
    no_violation(&w);
}

#[test]
fn regions_are_placed_whole_after_a_burst_of_writes_that_found_no_space() {
    let mut w = on_disk();
    for at in 0..100 {
        write(&mut w, 0, pages(at, 1), true);
        if at % 40 == 39 {
            barrier(&mut w);
        }
    }
    drain(&mut w);
    set(&mut w, &[(pages(0, 30), 1)]);
    place(&mut w);
    assert_eq!(placed_bytes(&w), 30 * 4096);
    no_violation(&w);
}

#[test]
fn writes_outside_of_regions_displace_none_although_all_else_is_dirty() {
    let mut w = on_disk();
    set(&mut w, &[(pages(0, 16), 1)]);
    place(&mut w);
    for at in 16..100 {
        write(&mut w, 0, pages(at, 1), true);
        if at % 8 == 0 {
            barrier(&mut w);
        }
    }
    assert!(w.agents[0].overlay.dirty_bytes() >= 8 * 4096 && is_mapped(&w, pages(0, 16)));
    for at in 0..16 {
        write(&mut w, 0, pages(at, 1), true);
        barrier(&mut w);
    }
    drain(&mut w);
    barrier(&mut w);
    assert!(placed_bytes(&w) >= 15 * 4096, "writes within regions find room: {}", placed_bytes(&w));
    no_violation(&w);
}

#[test]
fn write_back_that_spares_regions_finds_all_else() {
    let mut w = on_disk();
    set(&mut w, &[(pages(4, 4), 1), (pages(12, 8), 1)]);
    for at in 0..24 {
        write(&mut w, 0, pages(at, 1), true);
    }
    barrier(&mut w);
    let mut found = Vec::new();
    while let Some(copy) = w.agents[0].overlay.write_back_next(w.agents[0].memory.view(), true) {
        found.push(w.agents[0].overlay.copies.get(copy).unwrap().range);
    }
    assert_eq!(found, [pages(0, 4), pages(8, 4), pages(20, 4)]);
    drain(&mut w);
    barrier(&mut w);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), 0);
    no_violation(&w);
}

#[test]
fn writes_to_regions_are_absorbed_and_stay_when_written_back() {
    let mut w = on_disk();
    set(&mut w, &[(pages(0, 8), 1)]);
    place(&mut w);
    for at in 0..8 {
        write(&mut w, 0, pages(at, 1), true);
        barrier(&mut w);
    }
    drain(&mut w);
    assert_eq!((placed_bytes(&w), w.agents[0].overlay.dirty_bytes()), (8 * 4096, 0));
    write_and_drain(&mut w, 8..100);
    assert_eq!(placed_bytes(&w), 8 * 4096);
    no_violation(&w);
}

#[test]
fn placing_takes_the_most_gain_per_byte_first_and_leaves_the_reserve_for_writes() {
    let mut w = on_disk();
    set(&mut w, &[(pages(0, 20), 20), (pages(20, 20), 400), (pages(40, 5), 50)]);
    place(&mut w);
    assert!(is_mapped(&w, pages(20, 20)) && is_mapped(&w, pages(40, 5)));
    assert!(placed_bytes(&w) < PAGES * 4096, "{}", placed_bytes(&w));
    write(&mut w, 0, pages(99, 1), true);
    assert!(is_mapped(&w, pages(99, 1)));
    no_violation(&w);
}

#[test]
fn where_the_capacity_is_lowered_regions_of_the_least_gain_per_byte_give_way() {
    let mut w = on_disk();
    set(&mut w, &[(pages(0, 8), 80), (pages(8, 8), 8), (pages(16, 8), 800)]);
    place(&mut w);
    assert_eq!(placed_bytes(&w), 24 * 4096);
    w.agents[0].overlay.set_capacity(Capacity::Bytes(17 * 4096));
    for _ in 0..3 {
        barrier(&mut w);
    }
    assert!(
        is_mapped(&w, pages(0, 8))
            && is_mapped(&w, pages(16, 8))
            && !w.agents[0].overlay.files[&0].map.touches(pages(8, 8))
    );
    no_violation(&w);
}

#[test]
fn regions_no_longer_wanted_leave_flash_when_they_are_clean() {
    let mut w = on_disk();
    set(&mut w, &[(pages(0, 8), 8), (pages(8, 8), 8)]);
    place(&mut w);
    write(&mut w, 0, pages(1, 1), true);
    set(&mut w, &[(pages(8, 8), 8)]);
    assert!(is_mapped(&w, pages(8, 8)) && is_mapped(&w, pages(1, 1)));
    assert_eq!(w.agents[0].overlay.mapped_bytes(), 9 * 4096);
    drain(&mut w);
    write_and_drain(&mut w, 20..60);
    assert!(is_mapped(&w, pages(8, 8)) && !is_mapped(&w, pages(1, 1)), "it is as all others then");
    no_violation(&w);
}

#[test]
fn a_write_while_a_region_is_copied_wins_and_the_rest_is_tried_again() {
    let mut w = on_disk();
    set(&mut w, &[(pages(0, 4), 1)]);
    w.agents[0].overlay.place(w.agents[0].memory.view(), true);
    w.carry_out();
    assert!(w.agents[0].tasks.iter().any(|task| matches!(task, Task::Copy { .. })));
    ranks::begin_write(&mut w, 0, 0, pages(1, 1), false);
    while w.ranks[0].is_busy() {
        ranks::step(&mut w, 0, false);
    }
    w.quiesce();
    place(&mut w);
    assert_eq!((placed_bytes(&w), w.agents[0].overlay.counters().fetches_cancelled_total), (4 * 4096, 1));
    other(&mut w, 2, Kind::Read, pages(0, 4));
    no_violation(&w);
}

#[test]
fn a_region_that_cannot_be_read_ends_placing_with_an_error_until_the_next_try() {
    let mut w = on_disk();
    let number = closed(&mut w);
    set_of(&mut w, number, &[(pages(0, 4), 1)]);
    w.whims.failures = 1;
    w.agents[0].overlay.place(w.agents[0].memory.view(), true);
    w.carry_out();
    while let Some(at) = w.agents[0].tasks.iter().position(|task| matches!(task, Task::Copy { .. })) {
        w.step_task(at);
    }
    w.whims.failures = 0;
    w.quiesce();
    assert!(!w.agents[0].overlay.is_placing());
    let placement = w.agents[0].overlay.placements().next().unwrap();
    assert_eq!((placement.error, placement.placed_bytes), (Some(5), 0));
    place(&mut w);
    let placement = w.agents[0].overlay.placements().next().unwrap();
    assert_eq!((placement.error, placement.placed_bytes), (None, 4 * 4096));
}

#[test]
fn regions_are_known_after_the_death_of_the_agent_and_after_power_loss() {
    for power in [false, true] {
        let mut w = on_disk();
        set(&mut w, &[(pages(0, 4), 7), (pages(9, 4), 1)]);
        set(&mut w, &[(pages(0, 4), 7), (pages(20, 4), 2)]);
        let before = w.agents[0].overlay.regions(0).cloned();
        place(&mut w);
        barrier(&mut w);
        w.crash(power);
        assert_eq!(w.agents[0].overlay.regions(0).cloned(), before);
        place(&mut w);
        assert_eq!(placed_bytes(&w), 8 * 4096);
        for at in 30..70 {
            ranks::begin_other(&mut w, 0, Kind::Open(true), 0, Range::default());
            run(&mut w, 0);
            write(&mut w, 0, pages(at, 1), true);
            drain(&mut w);
            barrier(&mut w);
        }
        assert_eq!(placed_bytes(&w), 8 * 4096);
        no_violation(&w);
    }
}

#[test]
fn regions_take_all_there_is_while_nobody_writes_and_give_way_to_the_first_writes() {
    let mut w = on_disk();
    set(&mut w, &[(pages(0, 16), 320), (pages(16, 16), 16)]);
    place(&mut w);
    assert_eq!(placed_bytes(&w), PAGES * 4096);
    for at in [3, 40, 41] {
        ranks::begin_write(&mut w, 0, 0, pages(at, 1), true);
        run(&mut w, 0);
        barrier(&mut w);
    }
    assert!(w.agents[0].overlay.dirty_bytes() > 0, "those that came later found room");
    assert!(is_mapped(&w, pages(0, 3)) && is_mapped(&w, pages(4, 12)), "of the region of less gain");
    no_violation(&w);
}

#[test]
fn what_another_plan_names_as_well_stays_whatever_piece_it_was_copied_in() {
    let mut w = on_disk();
    set(&mut w, &[(pages(0, 8), 8)]);
    place(&mut w);
    set(&mut w, &[(pages(2, 2), 8), (Range::new(5 * 4096 + 100, 5000), 8)]);
    assert_eq!((placed_bytes(&w), w.agents[0].overlay.mapped_bytes()), (2 * 4096 + 5000, 4 * 4096));
    write_and_drain(&mut w, 20..60);
    assert_eq!(placed_bytes(&w), 2 * 4096 + 5000);
    other(&mut w, 2, Kind::Read, pages(0, 8));
    no_violation(&w);
}
