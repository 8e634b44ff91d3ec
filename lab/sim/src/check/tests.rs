//! A checker finds what it is for.

use super::*;

const FILE: u32 = 3;

fn disk(offset: u64) -> Spot {
    Spot { space: Space::Disk(FILE), offset }
}

fn flash(offset: u64) -> Spot {
    Spot { space: Space::Flash(0), offset }
}

fn range(offset: u64, length: u64) -> Range {
    Range::new(offset, length)
}

fn began(id: RequestId, writes: bool, offset: u64, length: u64) -> Event {
    Event::Began { id, writes, file: FILE, range: range(offset, length) }
}

fn verdict(events: &[Event]) -> Vec<String> {
    let mut checker = Checker::new();
    events.iter().for_each(|event| checker.on(event));
    checker.finish(Some(&|_, range| vec![(range, disk(range.offset))]), &[])
}

#[track_caller]
fn assert_found(events: &[Event], words: &str) {
    let found = verdict(events);
    assert!(found.iter().any(|what| what.contains(words)), "'{words}' is not in {found:?}");
}

fn write(id: RequestId, offset: u64, length: u64, spot: Spot) -> [Event; 3] {
    [began(id, true, offset, length), Event::Wrote { id, range: range(offset, length), spot }, Event::Ended { id }]
}

fn read(id: RequestId, offset: u64, length: u64, spot: Spot) -> [Event; 3] {
    [began(id, false, offset, length), Event::Read { id, range: range(offset, length), spot }, Event::Ended { id }]
}

#[test]
fn a_read_of_the_newest_bytes_is_right_wherever_copies_brought_them() {
    let copied = [
        Event::Picked { copy: 9, skip: 0, spot: flash(4096), length: 60 },
        Event::Put { copy: 9, skip: 0, spot: disk(100), length: 60 },
        Event::Copied { copy: 9 },
    ];
    let events = [
        &read(1, 0, 50, disk(0))[..],
        &write(2, 100, 60, flash(4096)),
        &read(3, 110, 10, flash(4106)),
        &copied,
        &read(4, 90, 80, disk(90)),
    ];
    assert_eq!(verdict(&events.concat()), Vec::<String>::new());
}

#[test]
fn a_copy_may_take_its_bytes_in_any_order() {
    let picked = |skip, at, length| Event::Picked { copy: 1, skip, spot: flash(at), length };
    let put = Event::Put { copy: 1, skip: 0, spot: disk(0), length: 30 };
    let written = [write(1, 20, 10, flash(0)), write(2, 0, 10, flash(10)), write(3, 10, 10, flash(20))].concat();
    let end = [&[put, Event::Copied { copy: 1 }][..], &read(4, 0, 30, disk(0))].concat();
    let all = [&written[..], &[picked(20, 0, 10), picked(0, 10, 20)], &end].concat();
    assert_eq!(verdict(&all), Vec::<String>::new());
    assert_found(&[&written[..], &[picked(20, 0, 10), picked(0, 10, 10)], &end].concat(), "never took");
    assert_found(&[&written[..], &[picked(10, 0, 20), picked(0, 20, 10)], &end].concat(), "found");
}

#[test]
fn stale_bytes_are_found() {
    assert_found(&[write(1, 0, 10, flash(0)), read(2, 0, 10, disk(0))].concat(), "after request 1 had ended");
    let twice = [write(1, 0, 10, disk(0)), write(2, 5, 10, flash(5)), read(3, 0, 10, disk(0))].concat();
    assert_found(&twice, "after request 2 had ended");
}

#[test]
fn a_read_beside_a_write_may_find_either() {
    for spot in [disk(0), flash(0)] {
        let mut events = write(1, 0, 10, flash(0)).to_vec();
        events.insert(1, began(2, false, 0, 10));
        events.insert(3, Event::Read { id: 2, range: range(0, 10), spot });
        events.extend([Event::Ended { id: 2 }]);
        events.extend(write(3, 0, 10, disk(0)));
        assert_eq!(verdict(&events), Vec::<String>::new(), "{spot:?}");
    }
}

#[test]
fn bytes_of_another_place_and_bytes_of_nobody_are_found() {
    assert_found(&read(1, 0, 10, disk(5)), "found");
    assert_found(&read(1, 0, 10, flash(0)), "found");
}

#[test]
fn what_never_reached_the_disk_is_found_at_the_end() {
    assert_found(&write(1, 0, 10, flash(0)), "at the end");
    assert_eq!(verdict(&write(1, 0, 10, disk(0))), Vec::<String>::new());
    let short = [
        &write(1, 0, 10, flash(0))[..],
        &[
            Event::Picked { copy: 1, skip: 0, spot: flash(0), length: 9 },
            Event::Put { copy: 1, skip: 0, spot: disk(0), length: 10 },
            Event::Copied { copy: 1 },
        ],
    ];
    assert_found(&short.concat(), "never took");
}

#[test]
fn requests_and_copies_that_do_not_end_and_sums_that_differ_are_found() {
    assert_found(&[began(1, true, 0, 1)], "still under way");
    assert_found(&[Event::Picked { copy: 1, skip: 0, spot: flash(0), length: 9 }], "still under way");
    assert_found(&[Event::Ended { id: 7 }], "had not begun");
    let sum = Sum { name: "bytes", told: 1, found: 2 };
    assert_eq!(Checker::new().finish(None, &[sum]), ["bytes: 1 and 2"]);
}
