//! Absorbed bytes go to new places, never to where mapped bytes lie. Else a thread that died while it
//! overwrote some would leave bytes of which nobody knows when they change: copied, the disk may keep older
//! ones than were read ([in-place-dead]); not copied, they would stay on flash for ever ([in-place-never]).

use super::*;
use crate::errno;

/// Bytes are on flash alone, and a thread of the other process was killed in the call that writes newer ones to flash.
fn world_with_a_dead_overwriter() -> World {
    let mut w = world();
    write(&mut w, 0, A, true);
    ranks::begin_write(&mut w, 2, 0, A, true);
    // It asks for space, hears that it has some, and begins to write there.
    (0..2).for_each(|_| ranks::step(&mut w, 2, false));
    w.kill(1);
    assert_eq!(w.late.len(), 1, "the call may still write");
    w
}

fn empty_flash(w: &mut World) {
    drain(w);
    w.agents[0].overlay.set_capacity(Capacity::Bytes(0));
    for _ in 0..3 {
        barrier(w);
    }
}

#[test]
fn what_a_dead_thread_writes_to_flash_late_changes_nothing_that_is_read() {
    let mut w = world_with_a_dead_overwriter();
    drain(&mut w);
    other(&mut w, 0, Kind::Read, A);
    w.land_all_late();
    other(&mut w, 0, Kind::Read, A);
    w.check_clean();
    empty_flash(&mut w);
    assert_eq!(w.agents[0].overlay.mapped_bytes(), 0);
    other(&mut w, 0, Kind::Read, A);
    no_violation(&w);
}

#[test]
fn bytes_that_a_dead_thread_was_overwriting_go_back_and_leave_flash() {
    let mut w = world_with_a_dead_overwriter();
    empty_flash(&mut w);
    assert_eq!((w.agents[0].overlay.dirty_bytes(), w.agents[0].overlay.mapped_bytes()), (0, 0));
    w.land_all_late();
    other(&mut w, 0, Kind::Read, A);
    no_violation(&w);
}

#[test]
fn a_commit_of_a_place_where_mapped_bytes_lie_is_refused_whoever_wrote_them() {
    let mut w = world();
    write(&mut w, 0, A, true);
    let file = w.open[0][&0].unwrap();
    let mapped = w.agents[0].overlay.files[&file].map.iter().next().expect("it was absorbed");
    let commit = Request::Commit { file, data_file: mapped.data_file, offset: 0, length: 4096, place: mapped.place };
    for rank in [0, 2] {
        w.request(rank, &commit);
        let answer = w.ranks[rank].answer.take();
        assert!(matches!(answer, Some(Answer::Error { errno: errno::EPROTO, .. })), "{answer:?}");
    }
    assert_eq!(w.agents[0].overlay.counters().absorbed_requests_total, 1);
    no_violation(&w);
}
