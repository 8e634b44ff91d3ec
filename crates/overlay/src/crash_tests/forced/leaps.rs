//! Write-back that leaps over what begins right behind a short piece.

use super::*;

const PAGE: u64 = 4096;

/// Every other of twelve pages is dirty; write-back leaps over two pages.
fn every_other_page() -> World {
    let mut w = world();
    w.agents[0].overlay.pacing.set_leap(2 * PAGE);
    for at in 0..6 {
        write(&mut w, 0, Range::new(2 * at * PAGE, PAGE), true);
    }
    w
}

/// The next page that is written back, which the disk takes its time for.
fn next(w: &mut World) -> Option<u64> {
    let copy = w.agents[0].overlay.write_back_next(w.agents[0].memory.view(), false)?;
    Some(w.agents[0].overlay.copies.get(copy).unwrap().range.offset / PAGE)
}

fn all(w: &mut World) -> Vec<u64> {
    std::iter::from_fn(|| next(w)).collect()
}

#[test]
fn what_a_short_piece_was_leapt_over_for_comes_the_next_time_round() {
    let mut w = every_other_page();
    assert_eq!(all(&mut w), [0, 4, 8, 2, 6, 10]);
    w.carry_out();
    w.quiesce();
    assert_eq!(w.agents[0].overlay.dirty_bytes(), 0);
    no_violation(&w);
}

#[test]
fn a_drain_goes_over_what_it_leapt_over_once_more_and_is_over() {
    let mut w = every_other_page();
    w.agents[0].overlay.drain(true);
    assert_eq!(all(&mut w), [0, 4, 8, 2, 6, 10]);
    assert!(!w.agents[0].overlay.has_drained(), "they are under way");
    w.carry_out();
    w.quiesce();
    assert!(w.agents[0].overlay.has_drained());
    no_violation(&w);
}

#[test]
fn pieces_as_long_as_a_leap_are_followed_by_the_next() {
    let mut w = world();
    w.agents[0].overlay.pacing.set_leap(2 * PAGE);
    for at in [0, 3, 6] {
        write(&mut w, 0, Range::new(at * PAGE, 2 * PAGE), true);
    }
    assert_eq!(all(&mut w), [0, 3, 6]);
}
