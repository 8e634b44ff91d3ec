//! Regions follow what programs read.

use super::*;
use headstart_policy::cost::region::Costs;
use headstart_units::MIB;

/// The first MiB of a file of 8 is on flash if it is read again and again; the capacity is 2 MiB.
fn world_with_a_long_file() -> World {
    let mut w = world();
    w.agents[0].overlay.set_capacity(Capacity::Bytes(2 * MIB));
    write(&mut w, 0, Range::new(0, 8 * MIB), false);
    w.agents[0].overlay.follow(w.agents[0].memory.view(), Some(Costs::of_a_test()));
    w
}

/// Hints of reads of 8 KiB all over the MiB.
fn read_mib(w: &mut World, number: u64) {
    for at in 0..32 {
        let range = Range::new(number * MIB + at * 32768, 8192);
        w.agents[0].memory.view().hint(2, 0, range, 1 << 20, FetchTurn::Soon);
        w.poll();
    }
}

fn settle(w: &mut World) {
    for _ in 0..50 {
        w.quiesce();
        barrier(w);
    }
}

fn mapped_bytes(w: &World, number: u64) -> u64 {
    let mib = Range::new(number * MIB, MIB);
    w.agents[0].overlay.files[&0].map.overlapping(mib).map(|mapped| mapped.range.intersection(mib).length).sum()
}

#[test]
fn regions_that_are_read_are_placed_whole_and_give_way_to_those_read_later() {
    let mut w = world_with_a_long_file();
    for number in [0, 5] {
        for _ in 0..20 {
            read_mib(&mut w, number);
        }
        settle(&mut w);
        assert_eq!(mapped_bytes(&w, number), MIB, "region {number}");
        other(&mut w, 2, Kind::Read, Range::new(number * MIB, MIB));
    }
    for _ in 0..40 {
        read_mib(&mut w, 3);
    }
    settle(&mut w);
    assert_eq!(mapped_bytes(&w, 3), MIB);
    assert!(mapped_bytes(&w, 0) < MIB, "it was read longest ago");
    no_violation(&w);
}

#[test]
fn a_file_shorter_than_a_region_takes_its_own_bytes() {
    let mut w = world();
    w.agents[0].overlay.set_capacity(Capacity::Bytes(MIB / 16));
    write(&mut w, 0, Range::new(0, 20480), false);
    for rank in [0, 2] {
        other(&mut w, rank, Kind::Close, Range::default());
    }
    other(&mut w, 2, Kind::Open(false), Range::default());
    let number = *w.agents[0].overlay.files.keys().next().unwrap();
    w.agents[0].overlay.follow(w.agents[0].memory.view(), Some(Costs::of_a_test()));
    for _ in 0..200 {
        w.agents[0].memory.view().hint(2, number, Range::new(4096, 8192), 1 << 20, FetchTurn::Soon);
        w.poll();
    }
    settle(&mut w);
    assert_eq!(w.agents[0].overlay.placements().map(|placement| placement.placed_bytes).sum::<u64>(), 20480);
    no_violation(&w);
}

#[test]
fn the_next_agent_does_not_take_regions_that_follow_for_a_plan() {
    let mut w = world_with_a_long_file();
    for _ in 0..20 {
        read_mib(&mut w, 0);
    }
    settle(&mut w);
    assert!(w.agents[0].overlay.placements().any(|placement| placement.placed_bytes > 0));
    restart(&mut w);
    assert_eq!(w.agents[0].overlay.placements().count(), 0);
    no_violation(&w);
}

#[test]
fn a_plan_ends_it_and_regions_are_as_all_bytes_then() {
    let mut w = world_with_a_long_file();
    for _ in 0..20 {
        read_mib(&mut w, 0);
    }
    settle(&mut w);
    w.agents[0].overlay.set_regions(w.agents[0].memory.view(), 0, headstart_policy::client::carl::Regions::default());
    w.carry_out();
    assert!(!w.agents[0].overlay.is_following() && w.agents[0].overlay.placements().next().is_none());
    assert_eq!(mapped_bytes(&w, 0), MIB);
    w.agents[0].overlay.set_capacity(Capacity::Bytes(MIB / 2));
    settle(&mut w);
    assert!(mapped_bytes(&w, 0) <= MIB / 2);
    no_violation(&w);
}

fn restart(w: &mut World) {
    w.kill_agent();
    w.restart();
}
