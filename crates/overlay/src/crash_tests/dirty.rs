//! Dirty bytes: naming them, giving them up, and flash that does not give them.

use super::forced::{barrier, drain, no_violation, other, world, write};
use super::ranks::Kind;
use super::world::World;
use crate::errno;
use crate::output::Answer;
use headstart_units::request::Range;

const A: Range = Range { offset: 0, length: 4096 };
const B: Range = Range { offset: 4096, length: 4096 };
const FAR: Range = Range { offset: 65536, length: 4096 };

fn dirty(w: &World, steps: usize) -> (Vec<Range>, bool) {
    let file = w.agents[0].overlay.dirty_files().next().map_or(u32::MAX, |known| known.file);
    w.agents[0].overlay.dirty_ranges(file, steps)
}

#[test]
fn dirty_ranges_join_neighbours_and_a_short_look_covers_the_rest() {
    let mut w = world();
    for range in [A, FAR, B] {
        write(&mut w, 0, range, true);
    }
    let joined = Range::new(0, 8192);
    assert_eq!(dirty(&w, 100), (vec![joined, FAR], true));
    assert_eq!(dirty(&w, 3), (vec![joined, FAR], true));
    assert_eq!(dirty(&w, 1), (vec![A, Range::between(4096, FAR.end())], false));
    assert_eq!(dirty(&w, 0), (vec![Range::between(0, FAR.end())], false));
    assert!(!w.agents[0].overlay.is_on_disk());
    drain(&mut w);
    let known = w.agents[0].overlay.dirty_files().next().expect("it is open for writing");
    assert_eq!((known.dirty_bytes, known.open_for_writing), (0, true));
    assert_eq!(dirty(&w, 100), (vec![], true));
    assert!(!w.agents[0].overlay.is_on_disk(), "it may still be in the disks' caches");
    barrier(&mut w);
    assert!(w.agents[0].overlay.is_on_disk());
}

#[test]
fn clean_bytes_that_flash_does_not_give_are_read_from_disk_and_dirty_ones_are_refused_by_name() {
    let mut w = world();
    write(&mut w, 0, A, true);
    drain(&mut w);
    write(&mut w, 0, B, true);
    let file = w.agents[0].overlay.dirty_files().next().unwrap().file;
    let mapped = w.agents[0].overlay.mapped_bytes();
    let both = Range::new(100, 8000);
    match w.agents[0].overlay.flash_failed(file, both) {
        Answer::Error { errno, text } => {
            assert_eq!(errno, errno::EIO);
            assert!(text.contains("bytes 4096 to 8100"), "{text}");
        }
        answer => panic!("{answer:?}"),
    }
    assert_eq!(w.agents[0].overlay.mapped_bytes(), mapped, "nothing was dropped");
    assert_eq!(w.agents[0].overlay.flash_failed(file, Range::new(100, 10)), Answer::Done);
    assert_eq!(w.agents[0].overlay.mapped_bytes(), mapped - 4096);
    for range in [A, B] {
        other(&mut w, 2, Kind::Read, range);
    }
    no_violation(&w);
}

#[test]
fn what_is_given_up_is_not_written_back_after_a_crash_and_an_open_file_is_left_alone() {
    for power in [false, true] {
        let mut w = world();
        write(&mut w, 0, A, true);
        barrier(&mut w);
        let file = w.agents[0].overlay.dirty_files().next().unwrap().file;
        let shared = w.agents[0].memory.view();
        assert_eq!(w.agents[0].overlay.discard(shared, file), None);
        assert_eq!(w.agents[0].overlay.dirty_bytes(), 4096);
        for rank in [0, 2] {
            other(&mut w, rank, Kind::Close, A);
        }
        let shared = w.agents[0].memory.view();
        assert_eq!(w.agents[0].overlay.discard(shared, file), Some(4096));
        w.carry_out();
        barrier(&mut w);
        assert_eq!((w.agents[0].overlay.dirty_bytes(), w.agents[0].overlay.mapped_bytes()), (0, 0));
        w.crash(power);
        w.quiesce();
        assert_eq!(w.agents[0].overlay.dirty_bytes(), 0);
    }
}
